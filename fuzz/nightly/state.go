package nightly

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"allocfuzz/fuzz"
)

// schema is the version of the state's file.
const schema = 1

// A State is how far a night is. The names of its JSON form are public: it is part of what
// allocfuzz nightly --json prints.
type State struct {
	Schema  int              `json:"schema"`
	Key     string           `json:"key"`     // of what the night is asked to do
	Started string           `json:"started"` // RFC 3339
	Budget  float64          `json:"budget"`  // seconds
	Spent   map[Kind]float64 `json:"spent"`   // seconds by kind of work
	Arms    []*Arm           `json:"arms"`
	Filed   []Filed          `json:"filed"`   // what became of findings, in order
	Known   map[string]int   `json:"known"`   // findings of known bugs: subject, tab, title
	Resumed int              `json:"resumed"` // how often it was taken up again
	Ended   bool             `json:"ended"`
}

// A Kind is a kind of work.
type Kind string

// The kinds. Fuzzing and exploring are what a night is for.
const (
	Building   Kind = "build"
	Restoring  Kind = "restore"
	Fuzzing    Kind = "fuzz"
	Exploring  Kind = "explore"
	Minimising Kind = "minimise"
	Racing     Kind = "race"
	Thinning   Kind = "thin"
	Verifying  Kind = "verify"
)

// kinds are all of them in the order of a night.
var kinds = []Kind{Building, Restoring, Fuzzing, Exploring, Minimising, Racing, Thinning, Verifying}

// A Filed is what became of a finding.
type Filed struct {
	Report   string   `json:"report"` // file that told of it, without its folder
	Identity string   `json:"identity"`
	Subject  string   `json:"subject"`
	Title    string   `json:"title"`
	Also     []string `json:"also"`
	Fate     Fate     `json:"fate"`
	Why      string   `json:"why"`     // where it became no regression
	Program  string   `json:"program"` // minimised, in the folder of the night
	File     string   `json:"file"`    // the regression, "" for none
	Commit   string   `json:"commit"`  // "" for none
	Lines    int      `json:"lines"`   // of the minimised program
	HandOn   []string `json:"hand_on"` // files beside Program: a Go test, a C program, a fuzz input
	Race     string   `json:"race"`    // what the race detector said, "" when it was not asked
}

// A Fate is what a finding became. Its spelling is public.
type Fate string

// The fates.
const (
	Regression Fate = "regression" // a new bug
	Same       Fate = "same"       // a bug that this night has met before
	Flaky      Fate = "flaky"      // it does not show each time
	Kept       Fate = "kept"       // what ends its process, and would end every test
	Faulty     Fate = "fault"      // a report that nothing could be made of
)

// New says whether it is a bug that nobody knew of.
func (f *Filed) New() bool { return f.Fate != Same && f.Fate != Faulty }

// Spend counts time.
func (s *State) Spend(k Kind, d time.Duration) {
	if s.Spent == nil {
		s.Spent = map[Kind]float64{}
	}
	s.Spent[k] += d.Seconds()
}

// Total is the time that was spent.
func (s *State) Total() time.Duration {
	sum := 0.0
	for _, k := range kinds {
		sum += s.Spent[k]
	}
	return time.Duration(sum * float64(time.Second))
}

// Share is the part of the time that was spent on what a night is for, from 0 to 1.
func (s *State) Share() float64 {
	total := s.Total().Seconds()
	if total == 0 {
		return 0
	}
	return (s.Spent[Fuzzing] + s.Spent[Exploring]) / total
}

// Handled says whether a report has become something.
func (s *State) Handled(report string) bool {
	return slices.ContainsFunc(s.Filed, func(f Filed) bool { return f.Report == report })
}

// Bugs are the bugs that the night filed.
func (s *State) Bugs() *fuzz.Known {
	k := &fuzz.Known{Loose: true}
	for _, f := range s.Filed {
		k.Add(f.Subject, f.Title, f.Also...)
	}
	return k
}

// stateFile is its name in the folder of the night.
const stateFile = "night.json"

// Save replaces the state on disk.
func (s *State) Save(dir string) error {
	return fuzz.WriteFile(filepath.Join(dir, stateFile), func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", " ")
		return e.Encode(s)
	})
}

// Load reads the state of a folder; nil when there is none. One that cannot be read is moved
// aside, and said in the error: a night can begin anew then.
func Load(dir string) (*State, error) {
	name := filepath.Join(dir, stateFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s := &State{}
	err = json.Unmarshal(text, s)
	if err == nil && s.Schema != schema {
		err = fmt.Errorf("schema %d, expected %d", s.Schema, schema)
	}
	if err == nil {
		return s, nil
	}
	for n := 1; ; n++ {
		aside := fmt.Sprintf("%s.bad-%d", name, n)
		if _, e := os.Lstat(aside); e == nil {
			continue
		}
		if e := os.Rename(name, aside); e != nil {
			return nil, errors.Join(err, e)
		}
		return nil, &BadState{aside, err}
	}
}

// A BadState is a state that could not be read and was moved aside.
type BadState struct {
	File string // where it is now
	Err  error
}

// Error says so.
func (e *BadState) Error() string {
	return fmt.Sprintf("the state of the last night cannot be read (%v): it is %s now", e.Err,
		e.File)
}
