package search

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/impls"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// A State is what a bounded search has done: from it the search goes on where it was.
type State struct {
	Departures int      `json:"departures"` // of the schedules in hand
	Before     Sums     `json:"before"`     // of all schedules of fewer
	Levels     []Level  `json:"levels"`
	Parts      int      `json:"parts"`   // of them
	Refused    bool     `json:"refused"` // schedules beyond the bounds were left out
	Ended      []int    `json:"ended"`   // numbers of the parts that are done, in order
	Sums       Sums     `json:"sums"`    // of those
	States     []uint64 `json:"states"`
}

// Sums are what schedules gave.
type Sums struct {
	Schedules int    `json:"schedules"`
	Points    uint64 `json:"points"`
}

// save hands out the state. Holds l.mu.
func (l *layer) save() {
	if l.opt.Checkpoint == nil {
		return
	}
	st := &State{Departures: l.total, Parts: len(l.units),
		Refused: l.search.refused || l.refused.Load(), Before: Sums{l.res.Schedules, l.res.Points},
		Levels: slices.Clone(l.res.Levels)}
	all := maps.Clone(l.sum.states)
	for i, t := range l.tallies {
		if t == nil || t.cut || t.finding != nil {
			continue
		}
		st.Ended = append(st.Ended, i)
		st.Sums.Schedules += t.schedules
		st.Sums.Points += t.points
		//tidy:maporder a set joins a set
		for v := range t.states {
			all.add(v)
		}
	}
	//tidy:maporder sorted below
	for v := range all {
		st.States = append(st.States, v)
	}
	slices.Sort(st.States)
	l.opt.Checkpoint(st)
}

// saveEvery is the number of parts between two states.
const saveEvery = 16

// resume takes up what an earlier search did, and returns the number of departures to go on
// with.
func (s *search) resume(st *State) int {
	s.refused = st.Refused
	s.sum.schedules, s.sum.points = st.Before.Schedules, st.Before.Points
	s.res.Levels = slices.Clone(st.Levels)
	for _, v := range st.States {
		s.sum.states.add(v)
	}
	s.res.fill(&s.sum)
	return st.Departures
}

// takeUp marks the parts that an earlier search ended. Other parts are of another subject.
func (l *layer) takeUp() error {
	st := l.opt.Resume
	if st == nil || st.Departures != l.total {
		return nil
	}
	if st.Parts != len(l.units) {
		return &Mismatch{"the state", "version of " + l.v.Name, fmt.Sprint(st.Parts, " parts"),
			fmt.Sprint(len(l.units), " parts")}
	}
	for n, i := range st.Ended {
		if i >= 0 && i < len(l.tallies) {
			l.tallies[i] = &tally{}
			if n == 0 {
				l.tallies[i].schedules, l.tallies[i].points = st.Sums.Schedules, st.Sums.Points
			}
			l.ended.Add(1)
		}
	}
	return nil
}

// version is that of a checkpoint's form.
const version = 1

// A File is a checkpoint on disk: what was searched, and how far each subject is.
type File struct {
	Version  int            `json:"allocfuzz_checkpoint"`
	Program  string         `json:"program"` // hash of its text, without schedules
	Bounds   explore.Bounds `json:"bounds"`
	Checks   uint16         `json:"checks"`
	Shard    string         `json:"shard"`
	Subjects []Progressed   `json:"subjects"`
	name     string
}

// Progressed is how far one subject is.
type Progressed struct {
	Subject string `json:"subject"`
	Trace   string `json:"trace"` // hash of the run in line order: of the subject as it was
	State   *State `json:"state"`
}

// A Mismatch says why a checkpoint is of another search.
type Mismatch struct{ File, What, Has, Want string }

// Error names the difference.
func (m *Mismatch) Error() string {
	return fmt.Sprintf("%s: the checkpoint is of another %s: it has %s, this search %s; search "+
		"the same again, or name another file", m.File, m.What, m.Has, m.Want)
}

// Load reads the checkpoint of a search, or begins one when there is no such file. One of
// another search is refused with the difference.
func Load(name string, p *oracle.Compiled, opt *Options) (*File, error) {
	f := &File{Version: version, Program: textHash(p), Bounds: opt.Bounds,
		Checks: uint16(opt.Run.Checks), name: name,
		Shard: fmt.Sprintf("%d/%d", opt.Shard, opt.Shards)}
	data, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return f, nil
	}
	if err != nil {
		return nil, err
	}
	var old File
	if err := json.Unmarshal(data, &old); err != nil || old.Version == 0 {
		return nil, fmt.Errorf("%s: no checkpoint of allocfuzz: name another file", name)
	}
	for _, x := range []Mismatch{
		{What: "form", Has: fmt.Sprint(old.Version), Want: fmt.Sprint(f.Version)},
		{What: "program", Has: old.Program, Want: f.Program},
		{What: "search: its bounds differ", Has: old.Bounds.String(), Want: f.Bounds.String()},
		{What: "search: its checks differ", Has: fmt.Sprint(old.Checks),
			Want: fmt.Sprint(f.Checks)},
		{What: "shard", Has: old.Shard, Want: f.Shard},
	} {
		if x.Has != x.Want {
			x.File = name
			return nil, &x
		}
	}
	f.Subjects = old.Subjects
	return f, nil
}

// textHash names a program by its text.
func textHash(p *oracle.Compiled) string {
	sum := sha256.Sum256(prog.Format(p.Prog))
	return hex.EncodeToString(sum[:8])
}

// State is where the search on a subject is to go on; nil at the beginning. A subject that does
// not do what it did is refused.
func (f *File) State(v *impls.Variant, p *oracle.Compiled, opt *Options) (*State, error) {
	b := newBody(p, v, opt.Run)
	defer b.close()
	trace := ""
	if ok, _ := oracle.Applies(p, v); ok && v.New != nil {
		if err := guarded(func() error {
			r := b.Run(nil)
			trace = fmt.Sprintf("%016x", r.Hash)
			return r.Err
		}); err != nil {
			return nil, err
		}
	}
	for i := range f.Subjects {
		s := &f.Subjects[i]
		if s.Subject != v.Name {
			continue
		}
		if st := s.State; st != nil && (st.Departures < 0 || st.Departures > opt.Bounds.Total()) {
			return nil, fmt.Errorf("%s: %s is at %d departures, which the bounds do not permit: "+
				"name another file", f.name, v.Name, st.Departures)
		}
		if s.Trace != trace {
			return nil, &Mismatch{f.name, "version of " + v.Name, "trace " + s.Trace,
				"trace " + trace}
		}
		return s.State, nil
	}
	f.Subjects = append(f.Subjects, Progressed{Subject: v.Name, Trace: trace})
	return nil, nil
}

// Save writes the file with the state of a subject.
func (f *File) Save(v *impls.Variant, st *State) error {
	for i := range f.Subjects {
		if f.Subjects[i].Subject == v.Name {
			f.Subjects[i].State = st
		}
	}
	data, err := json.MarshalIndent(f, "", " ")
	if err != nil {
		return err
	}
	return fuzz.WriteBytes(f.name, append(data, '\n'))
}
