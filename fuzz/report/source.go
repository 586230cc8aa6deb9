package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
)

// SourceFile is the file of JSON lines in the folder of a run.
const SourceFile = "report.jsonl"

// A Run is what a run, a night or a search told: the first line of its file, and a line for each
// subject, target, sample, committed program and finding. Its spelling is public.
type Run struct {
	Schema   int              `json:"schema"`
	Command  string           `json:"command"`
	Started  string           `json:"started,omitempty"`
	Complete bool             `json:"complete"`
	Seconds  float64          `json:"seconds"` // of fuzzing and exploring
	Subjects []Subject        `json:"-"`
	Targets  []Target         `json:"-"`
	Samples  []Sample         `json:"-"`
	Programs []Program        `json:"-"`
	Findings []engine.Finding `json:"-"`
	Problems []string         `json:"-"` // lines that could not be read, and files
}

// A Subject is what one subject did.
type Subject struct {
	Name     string `json:"name"`
	Sound    bool   `json:"sound"`
	Programs uint64 `json:"programs"`
	Ops      uint64 `json:"operations"`
	// Unsupported is the share of operations that the subject does not support.
	Unsupported float64 `json:"unsupported_share"`
}

// A Target is what one fuzz target, or arm of a night, did.
type Target struct {
	Name    string  `json:"name"`
	Execs   int64   `json:"execs"`
	Seconds float64 `json:"seconds"`
	New     int     `json:"new"` // inputs that covered something new
	Corpus  int     `json:"corpus"`
}

// Speed is in inputs a second, 0 when no time was spent.
func (t Target) Speed() float64 {
	if t.Seconds <= 0 {
		return 0
	}
	return float64(t.Execs) / t.Seconds
}

// A Sample is how far a target was at a moment.
type Sample struct {
	Target string  `json:"target"`
	At     float64 `json:"at"` // seconds from the start
	Execs  int64   `json:"execs"`
	New    int     `json:"new"`
}

// A Program is what a committed program showed on the subjects of a run.
type Program struct {
	File string `json:"file"`
	// Marks are of the subjects that were not silent: known, found, left out or error.
	Marks map[string]string `json:"marks"`
}

// A line is one line of the file.
type line struct {
	Kind    string          `json:"kind"`
	Run     *Run            `json:"run,omitempty"`
	Subject *Subject        `json:"subject,omitempty"`
	Target  *Target         `json:"target,omitempty"`
	Sample  *Sample         `json:"sample,omitempty"`
	Program *Program        `json:"program,omitempty"`
	Finding *engine.Finding `json:"finding,omitempty"`
}

// KnownCount is how many of the findings a committed program expects.
func (r *Run) KnownCount() int { return len(r.Findings) - len(r.fresh()) }

// Write writes the source of a run to its folder, whole or not at all.
func (r *Run) Write(dir string) error {
	return fuzz.WriteFile(filepath.Join(dir, SourceFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		err := e.Encode(line{Kind: "run", Run: r})
		for i := range r.Subjects {
			err = errors.Join(err, e.Encode(line{Kind: "subject", Subject: &r.Subjects[i]}))
		}
		for i := range r.Targets {
			err = errors.Join(err, e.Encode(line{Kind: "target", Target: &r.Targets[i]}))
		}
		for i := range r.Samples {
			err = errors.Join(err, e.Encode(line{Kind: "sample", Sample: &r.Samples[i]}))
		}
		for i := range r.Programs {
			err = errors.Join(err, e.Encode(line{Kind: "program", Program: &r.Programs[i]}))
		}
		for i := range r.Findings {
			err = errors.Join(err, e.Encode(line{Kind: "finding", Finding: &r.Findings[i]}))
		}
		return err
	})
}

// lineMost is more bytes than a line has.
const lineMost = 1 << 20

// Read reads the source in a folder, and the reports that targets left there and that it does not
// have, as of a run that was killed. What cannot be read is named in Problems. A folder with
// nothing of the kind is an error.
func Read(dir string) (*Run, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	r := &Run{Command: "run"}
	text, err := os.ReadFile(filepath.Join(dir, SourceFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	there := err == nil
	r.read(text)
	if there && r.Schema == 0 {
		r.Problems = append(r.Problems, SourceFile+": no line of the run: it is empty, or cut")
	}
	have := map[string]bool{}
	for i := range r.Findings {
		have[filepath.Base(r.Findings[i].Report)] = true
		have[filepath.Base(strings.TrimSuffix(r.Findings[i].File, ".prog")+".txt")] = true
	}
	for _, e := range entries {
		program := strings.TrimSuffix(e.Name(), ".txt") + ".prog"
		if filepath.Ext(e.Name()) != ".txt" || have[e.Name()] ||
			!slices.ContainsFunc(entries, func(o fs.DirEntry) bool { return o.Name() == program }) {
			continue
		}
		f, err := engine.ReadReport(filepath.Join(dir, e.Name()))
		if err != nil {
			r.Problems = append(r.Problems, fmt.Sprintf("%s: no report: %v", e.Name(), err))
			continue
		}
		if f.Identity == "" {
			r.Problems = append(r.Problems, e.Name()+": no report: it has no IDENTITY line")
			continue
		}
		if r.has(&f) {
			continue
		}
		r.Findings = append(r.Findings, f)
		there = true
	}
	if !there {
		return nil, fmt.Errorf("%s: nothing to report: expected %s, or findings (NAME.prog with "+
			"NAME.txt), as run, nightly and explore write with --out", dir, SourceFile)
	}
	for i := range r.Findings {
		r.Findings[i].File = moved(dir, r.Findings[i].File)
		r.Findings[i].Small = moved(dir, r.Findings[i].Small)
	}
	slices.SortStableFunc(r.Findings, func(a, b engine.Finding) int {
		return strings.Compare(a.Identity, b.Identity)
	})
	return r, nil
}

// has says whether the bug of a report is among the findings already: they were put together by
// subject and titles.
func (r *Run) has(f *engine.Finding) bool {
	return slices.ContainsFunc(r.Findings, func(o engine.Finding) bool {
		return o.Subject == f.Subject && (o.Identity == f.Identity || o.Title == f.Title ||
			slices.Contains(o.Also, f.Title) || slices.Contains(f.Also, o.Title))
	})
}

// moved finds a file of the folder whose name was written down when the folder was elsewhere: one
// of that name in the folder comes first.
func moved(dir, name string) string {
	if name == "" {
		return ""
	}
	at := filepath.Join(dir, filepath.Base(filepath.ToSlash(name)))
	if _, err := os.Stat(at); err == nil {
		return at
	}
	return name
}

// read reads lines. One that is half written, too long, or of another kind, is a problem.
func (r *Run) read(text []byte) {
	for n := 1; len(text) > 0; n++ {
		one, rest, _ := bytes.Cut(text, []byte{'\n'})
		text = rest
		if why := r.one(bytes.TrimSpace(one)); why != "" {
			r.Problems = append(r.Problems, fmt.Sprintf("%s:%d: %s", SourceFile, n, why))
		}
	}
}

// one reads one line and says what is wrong with it.
func (r *Run) one(text []byte) string {
	if len(text) == 0 {
		return ""
	}
	if len(text) > lineMost {
		return fmt.Sprintf("a line of %d bytes: expected at most %d", len(text), lineMost)
	}
	var l line
	if err := json.Unmarshal(text, &l); err != nil {
		return err.Error()
	}
	if l.Kind == "run" && l.Run != nil && l.Run.Schema != schema {
		return fmt.Sprintf("schema %d: expected %d", l.Run.Schema, schema)
	}
	if !r.add(&l) {
		return fmt.Sprintf("a line of kind %q", l.Kind)
	}
	return ""
}

// schema is the version of the lines.
const schema = 1

// add adds what a line tells.
func (r *Run) add(l *line) bool {
	switch {
	case l.Kind == "run" && l.Run != nil:
		r.Schema, r.Command, r.Started = l.Run.Schema, l.Run.Command, l.Run.Started
		r.Complete, r.Seconds = l.Run.Complete, l.Run.Seconds
	case l.Kind == "subject" && l.Subject != nil:
		r.Subjects = append(r.Subjects, *l.Subject)
	case l.Kind == "target" && l.Target != nil:
		r.Targets = append(r.Targets, *l.Target)
	case l.Kind == "sample" && l.Sample != nil:
		r.Samples = append(r.Samples, *l.Sample)
	case l.Kind == "program" && l.Program != nil:
		r.Programs = append(r.Programs, *l.Program)
	case l.Kind == "finding" && l.Finding != nil:
		if f := l.Finding; !slices.ContainsFunc(r.Findings, func(o engine.Finding) bool {
			return o.Identity == f.Identity && o.File == f.File
		}) {
			r.Findings = append(r.Findings, *f)
		}
	default:
		return false
	}
	return true
}
