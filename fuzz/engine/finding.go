package engine

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"allocfuzz/fuzz"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// A Finding is what a command says of a bug: the oracle's finding without its
// evidence, and where to read on. The names of its JSON form are public.
type Finding struct {
	Title    string   `json:"title"`
	Also     []string `json:"also"`     // other titles of the run
	Class    string   `json:"class"`    // the rule that raised the title
	Subject  string   `json:"subject"`  // "" when an input ended the whole process
	Identity string   `json:"identity"` // the same for the same bug
	Verb     string   `json:"verb"`     // kind of operation, "" when not known
	File     string   `json:"file"`     // program that shows it
	Place    string   `json:"place"`    // file:line of the operation, "" when not known
	Report   string   `json:"report"`   // file with the whole report, "" when there is none
	// Picture is a file with a picture of the history, for a browser; stress only. File is
	// the history itself there.
	Picture string `json:"picture,omitempty"`
	Command string `json:"command"`         // repeats it
	Known   bool   `json:"known"`           // a committed program says that it must occur
	Count   int    `json:"count"`           // how often it was met, 0 when that was not counted
	Target  string `json:"target"`          // fuzz target that met it, "" for a replay
	Small   string `json:"small,omitempty"` // file with the minimised program; run only
	// HandOn are files beside Small: a Go test, a C program, an input of go test -fuzz.
	HandOn []string `json:"hand_on,omitempty"`
}

// Stdin is what messages call standard input.
const Stdin = fuzz.Stdin

// Missing is the title of the finding that an expected one did not occur.
const Missing = "expected finding did not occur"

// NewFinding tells of a finding that file shows.
func NewFinding(f *oracle.Finding, file, command string) Finding {
	out := Finding{Title: string(f.Title), Also: []string{}, Class: f.Class, Subject: f.Subject,
		Identity: f.Identity(), Verb: f.Verb, File: file, Place: f.Place, Command: command}
	for _, t := range f.Also {
		out.Also = append(out.Also, string(t))
	}
	return out
}

// newMissing tells that subject did not show what file expects of it.
func newMissing(subject, expected, file, command string) Finding {
	return Finding{Title: Missing, Also: []string{}, Class: fault.Difference.String(),
		Subject: subject, Identity: subject + ": " + Missing + ": " + expected, File: file,
		Command: command}
}

// ReadReport reads the head of a report as oracle.Report writes it. File and
// Report are set from its name.
func ReadReport(name string) (Finding, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Also: []string{}, Report: name, File: strings.TrimSuffix(name, ".txt") + ".prog"}
	for line := range strings.Lines(string(text)) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ": ")
		if !ok {
			break
		}
		f.set(key, value)
	}
	if fuzz.TargetNamed(f.Subject) != nil { // an input ended the whole process
		f.Target, f.Subject = f.Subject, ""
	}
	head := f.Subject + ": " + f.Title + " in "
	f.Verb, _ = strings.CutPrefix(f.Identity, head)
	return f, nil
}

// set takes one line of a report's head.
func (f *Finding) set(key, value string) {
	switch key {
	case "TITLE":
		f.Subject, f.Title, _ = strings.Cut(value, ": ")
	case "CLASS":
		f.Class = value
	case "ALSO":
		f.Also = strings.Split(value, "; ")
	case "IDENTITY":
		f.Identity = value
	case "REPLAY":
		f.Command = value
	}
}

// Merge gives f the titles of another finding of the same bug.
func (f *Finding) Merge(other *Finding) {
	f.Also = slices.Clone(f.Also) // it may be shared
	for _, t := range append([]string{other.Title}, other.Also...) {
		if t != f.Title && !slices.Contains(f.Also, t) {
			f.Also = append(f.Also, t)
		}
	}
}

// Mark says of a finding that it is known when its title, or another one of its run, is.
func Mark(known *fuzz.Known, f *Finding) {
	if _, ok := known.Find(f.Subject, f.Title, f.Also...); ok {
		f.Known = true
	}
}

// Expected returns the bugs that the committed programs expect: those of the sources at root,
// which may be newer than this command; those that were built in where root is "" or has none.
func Expected(root string) (*fuzz.Known, error) {
	dir := filepath.Join(root, "corpus")
	if _, err := os.Stat(filepath.Join(dir, "regress")); root == "" || err != nil {
		return fuzz.Expected(nil)
	}
	return fuzz.Expected(os.DirFS(dir))
}
