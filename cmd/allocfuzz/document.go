package main

import (
	"encoding/json"
	"errors"
	"io"

	"allocfuzz/corpus/prog"
	"allocfuzz/corpus/trace"
	"allocfuzz/debugcheck"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/nightly"
	"allocfuzz/impls"
)

// schema is the version of the JSON form. It changes when a name goes or changes
// its meaning; new names do not change it.
const schema = 1

// A document is what a command says with --json. Lists are never null.
type document struct {
	Schema   int              `json:"schema"`
	Command  string           `json:"command"`
	Complete bool             `json:"complete"` // everything asked for was done
	Subjects []subject        `json:"subjects"`
	Findings []engine.Finding `json:"findings"`
	Errors   []failure        `json:"errors"`

	Files        []file                `json:"files,omitempty"`         // replay and fmt
	Targets      []engine.TargetResult `json:"targets,omitempty"`       // run
	Out          string                `json:"out,omitempty"`           // folder of findings
	BuildSeconds float64               `json:"build_seconds,omitempty"` // run
	FuzzSeconds  float64               `json:"fuzz_seconds,omitempty"`  // run
	Import       *imported             `json:"import,omitempty"`
	Explorations []exploration         `json:"explorations,omitempty"` // explore
	Minimised    []minimised           `json:"minimised,omitempty"`    // minimize
	Stress       *stressDoc            `json:"stress,omitempty"`
	Corpus       *corpusDoc            `json:"corpus,omitempty"`
	Night        *nightly.Report       `json:"night,omitempty"`    // nightly
	Misuse       []misuseTable         `json:"misuse,omitempty"`   // subjects --misuse
	Rows         []historical          `json:"rows,omitempty"`     // subjects
	LastRun      *when                 `json:"last_run,omitempty"` // subjects: of its counts
}

// When is the run that counts are of.
type when struct {
	Ended    string  `json:"ended"`
	Seconds  float64 `json:"seconds"` // of fuzzing
	Complete bool    `json:"complete"`
	Findings int     `json:"findings"`
}

// A historical is a row of the table of historical designs.
type historical struct {
	ID        string   `json:"id"`
	Year      int      `json:"year"`
	System    string   `json:"system"`
	Point     string   `json:"point"`
	Subjects  []string `json:"subjects"`
	Checks    []string `json:"checks"`
	Scenarios []string `json:"scenarios"`
	Bugs      []string `json:"bugs"`
}

// A subject describes one subject and what it did.
type subject struct {
	Name         string   `json:"name"`
	Alias        string   `json:"alias"`
	Row          string   `json:"row"` // of the table of historical designs, "" for others
	Year         int      `json:"year"`
	About        string   `json:"about"`
	Sound        bool     `json:"sound"`
	Finds        *finds   `json:"finds"` // what an unsound one is found by
	Axes         []axis   `json:"axes"`
	Machines     []string `json:"machines"`
	Capabilities []string `json:"capabilities"`
	Racy         []racy   `json:"racy"`
	engine.Counts
	Share float64 `json:"unsupported_share"`
}

type finds struct {
	Step        string `json:"step"`
	Consequence string `json:"consequence"`
}

type axis struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type racy struct {
	Field  string `json:"field"`
	Reason string `json:"reason"`
}

// A file is what happened with one file.
type file struct {
	File     string   `json:"file"`
	Changed  bool     `json:"changed"`           // fmt: its text is not canonical
	Dropped  []string `json:"dropped,omitempty"` // replay --repair: lines that could not be used
	Subjects []replay `json:"subjects"`
}

// A replay is one file on one subject.
type replay struct {
	Subject string `json:"subject"`
	Outcome string `json:"outcome"`  // silent, found, left out, error
	Title   string `json:"title"`    // of the finding
	Known   bool   `json:"known"`    // the file says that it must occur
	LeftOut string `json:"left_out"` // why
	engine.Counts
	Repaired int       `json:"repaired"`   // departures that did not apply
	Departed int       `json:"departures"` // departures of the schedule, those included
	Points   uint64    `json:"points"`
	Trace    string    `json:"trace"`           // hash, in hexadecimal
	Reports  []report  `json:"reports"`         // of the debug checks, in order
	Skips    []skip    `json:"skips"`           // misuse that was not carried out
	Walks    [][]point `json:"walks,omitempty"` // with -v: every point of every run
	// Unmet, with -v and for each run, is the operations that came to anything but ok.
	Unmet [][]unmet `json:"unmet,omitempty"`
	// Timed, with --history and for each run of several contexts, is where its history is.
	Timed []timedRun `json:"timed,omitempty"`
}

// An unmet is an operation whose outcome was not ok.
type unmet struct {
	Operation string `json:"operation"`
	Line      int    `json:"line"` // in the file
	Outcome   string `json:"outcome"`
}

// A report is one of the debug checks, and the operation during which it was made.
type report struct {
	Operation string             `json:"operation"`
	Line      int                `json:"line"` // in the file, 0 at the end of the program
	Report    *debugcheck.Report `json:"report"`
}

// A skip is a misuse that was not carried out, or an operation that was not because of one.
type skip struct {
	Operation string `json:"operation"`
	Line      int    `json:"line"` // in the file, 0 at the end of the program
	Why       string `json:"why"`
}

// A point is one point of a run, as a schedule names it.
type point struct {
	Line  string `json:"line"`
	Task  string `json:"task"`
	CPU   int    `json:"cpu"`
	Kind  string `json:"kind"`
	Field string `json:"field"`
	N     int    `json:"n"`
}

// A failure is an error. Line and column are 0 when it has no place.
type failure struct {
	Message string `json:"message"`
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Hint    string `json:"hint"`
}

// imported is what an import made.
type imported struct {
	Format     string         `json:"format"`
	Lines      int            `json:"lines"`
	Operations int            `json:"operations"`
	Skipped    map[string]int `json:"skipped"`
	Cut        bool           `json:"cut"`
	Peak       uint64         `json:"peak_bytes"`
	Objects    int            `json:"peak_objects"`
	Pages      int            `json:"pages"`
	Output     string         `json:"output"`
}

// A minimised is what became of a program that was made small.
type minimised struct {
	File     string      `json:"file"` // the given one
	Subject  string      `json:"subject"`
	Identity string      `json:"identity"` // of the finding that was kept
	Output   string      `json:"output"`   // file that it was written to, "" for none
	Program  string      `json:"program"`  // its text; the given one when flaky
	Removed  string      `json:"removed"`  // in words
	Before   programSize `json:"before"`
	After    programSize `json:"after"`
	Tries    int         `json:"tries"`
	Cached   int         `json:"cached"` // tries that were known
	Faulty   int         `json:"faulty"` // tries that met a fault of allocfuzz itself
	Seconds  float64     `json:"seconds"`
	Minimal  bool        `json:"minimal"` // each line and departure is needed
	Flaky    bool        `json:"flaky"`   // it shows the finding in Shown of Runs runs
	Shown    int         `json:"shown"`
	Runs     int         `json:"runs"`
	Command  string      `json:"command"` // replays it
}

// A programSize counts a program.
type programSize struct {
	Lines      int `json:"lines"`
	Departures int `json:"departures"`
	Contexts   int `json:"contexts"`
}

// A stressDoc is what threads did.
type stressDoc struct {
	Seed      uint64          `json:"seed"`
	Threads   int             `json:"threads"`
	Ops       int             `json:"ops"` // of a thread in a round
	Workloads []string        `json:"workloads"`
	Seconds   float64         `json:"seconds"`
	Subjects  []stressSubject `json:"subjects"`
}

// unknown is how many histories were not decided in time.
func (s *stressDoc) unknown() int {
	n := 0
	for i := range s.Subjects {
		n += s.Subjects[i].Unknown
	}
	return n
}

// A stressSubject is what threads did with one subject.
type stressSubject struct {
	Name       string  `json:"name"`
	Turns      bool    `json:"turns"` // threads took turns
	Rounds     int     `json:"rounds"`
	Operations int     `json:"operations"`
	OpsPerS    float64 `json:"ops_per_s"`
	Histories  int     `json:"histories"` // checked per address
	Searched   int     `json:"searched"`  // of these by porcupine too
	Unknown    int     `json:"unknown"`   // of these not decided in time
	Found      int     `json:"found"`
	Stopped    string  `json:"stopped"` // why it had no more rounds, "" when it had
}

// A misuseTable says what the debug checks of subjects that answer alike see.
type misuseTable struct {
	Subjects []string    `json:"subjects"`
	Rules    string      `json:"rules"` // of the kernel, or guard
	Rows     []misuseRow `json:"rows"`
}

// A misuseRow is one kind of misuse, with an answer for each set of options.
type misuseRow struct {
	Name    string   `json:"name"`
	Answers []answer `json:"answers"`
}

// An answer is what became of a misuse. Without a report moment is never, and effect,
// title and program are empty.
type answer struct {
	Name    string `json:"name"`    // the options, as in FZPU
	Word    string `json:"word"`    // of the table
	State   string `json:"state"`   // absent, undefined, silent, reported
	Moment  string `json:"moment"`  // never, now, alloc, free, discard, validate
	Effect  string `json:"effect"`  // refused, fatal
	Title   string `json:"title"`   // of the first report
	Program string `json:"program"` // that shows it
}

// write prints the document.
func (d *document) write(w io.Writer) error {
	d.Schema = schema
	if d.Subjects == nil {
		d.Subjects = []subject{}
	}
	if d.Findings == nil {
		d.Findings = []engine.Finding{}
	}
	if d.Errors == nil {
		d.Errors = []failure{}
	}
	if len(d.Errors) > 0 {
		d.Complete = false
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(d)
}

// describe is a subject with counts.
func describe(v *impls.Variant, c *engine.Counts) subject {
	s := subject{Name: v.Name, Alias: v.Alias, Row: v.Row, Year: v.Year, About: v.About,
		Sound: v.Sound, Axes: []axis{}, Machines: []string{}, Racy: []racy{},
		Capabilities: append([]string{}, v.Caps.Names()...)}
	if !v.Sound {
		s.Finds = &finds{Step: v.Finds.Step, Consequence: v.Finds.Consequence}
	}
	for _, x := range v.Axes {
		s.Axes = append(s.Axes, axis{x.Name, x.Value})
	}
	for _, m := range v.Machines {
		s.Machines = append(s.Machines, m.String())
	}
	for _, f := range v.Racy {
		s.Racy = append(s.Racy, racy{f.Name(), f.Reason})
	}
	if c != nil {
		s.Counts, s.Share = *c, c.Share()
	}
	return s
}

// errorOf takes an error apart.
func errorOf(err error) failure {
	var at *prog.Error
	if errors.As(err, &at) {
		return failure{Message: at.Msg, File: at.File, Line: at.Pos.Line, Column: at.Pos.Col,
			Hint: at.Hint}
	}
	var in *trace.Error
	if errors.As(err, &in) {
		return failure{Message: err.Error(), File: in.File, Line: in.Line}
	}
	return failure{Message: err.Error()}
}
