package engine

import (
	"os"
	"path/filepath"
	"sort"
	"strings"

	"allocfuzz/corpus"
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
	Command string `json:"command"` // repeats it
	Known   bool   `json:"known"`   // a committed program says that it must occur
	Target  string `json:"target"`  // fuzz target that met it, "" for a replay
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

// readReport reads the head of a report as oracle.Report writes it. File and
// Report are set from its name.
func readReport(name string) (Finding, error) {
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

// An expectation is a title that a committed program expects of a subject.
type expectation struct{ subject, title string }

// Expectations are the bugs that committed programs expect.
type Expectations map[expectation]bool

// Expected returns those of the whole corpus: what is met again, by fuzzing or in another
// program, is known.
func Expected() Expectations {
	out := Expectations{}
	for f := range corpus.All() {
		p, err := f.Program()
		if err != nil {
			panic("allocfuzz: committed program: " + err.Error())
		}
		for i := range p.Scheds {
			if s := &p.Scheds[i]; s.Bug != "" {
				out[expectation{s.Subject, s.Bug}] = true
			}
		}
	}
	return out
}

// Mark says of a finding that it is known when its title, or another one of its run, is
// expected of its subject.
func (x Expectations) Mark(f *Finding) {
	f.Known = f.Known || x[expectation{f.Subject, f.Title}]
	for _, t := range f.Also {
		f.Known = f.Known || x[expectation{f.Subject, t}]
	}
}

// gather lists the findings of a folder that are not in before, the smallest
// program of each identity. The larger ones are steps on the way of the go
// command's minimiser and are removed.
func gather(dir string, before map[string]bool) ([]Finding, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.txt"))
	if err != nil {
		return nil, err
	}
	best, sizes := map[string]Finding{}, map[string]int64{}
	for _, name := range names {
		if before[name] {
			continue
		}
		f, err := readReport(name)
		if err != nil {
			return nil, err
		}
		info, err := os.Stat(f.File)
		if err != nil || f.Identity == "" {
			continue // its program is not there yet
		}
		old, ok := best[f.Identity]
		if ok && sizes[f.Identity] <= info.Size() {
			old = f
		} else {
			best[f.Identity], sizes[f.Identity] = f, info.Size()
		}
		if ok {
			os.Remove(old.File)
			os.Remove(old.Report)
		}
	}
	out := make([]Finding, 0, len(best))
	for _, f := range best {
		out = append(out, f)
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Identity < out[j].Identity })
	return out, nil
}

// reports is the set of reports that a folder has.
func reports(dir string) map[string]bool {
	names, _ := filepath.Glob(filepath.Join(dir, "*.txt"))
	set := make(map[string]bool, len(names))
	for _, n := range names {
		set[n] = true
	}
	return set
}
