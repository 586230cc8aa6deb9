package search

import (
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// A Result is what a search of a program's schedules on one subject gave.
type Result struct {
	Subject   *impls.Variant
	Left      string // why the subject was left out, "" when it ran
	Strategy  Strategy
	Bounds    explore.Bounds
	Schedules int // all different by their departures, but for those by chance
	Redundant int // begun in vain, beside those
	Points    uint64
	States    int  // different final states: outcomes and addresses
	Capped    bool // there may be more states
	Levels    []Level
	Done      bool // every schedule that was asked for was made
	Complete  bool // and there is no further one within the bounds: never of those by chance
	Exhausted bool // nor beyond the bounds on switches and interrupts
	Counts    oracle.Counts
	Found     int // schedules that showed something
	First     int // number of the first of them, from 1
	Finding   *oracle.Finding
	Anchors   []sched.Anchor // of the schedule that shows it
	Hash      uint64         // of its trace
}

// A Level is the schedules of one number of departures, or of one strategy of a portfolio.
type Level struct {
	Name       string // of the strategy
	Departures int    // -1 when they are not counted
	Schedules  int
	Found      int
	Complete   bool
}

// Schedule is the schedule that shows the finding, as a block of the program.
func (r *Result) Schedule(p *oracle.Compiled) *prog.Sched {
	if r.Finding == nil {
		return nil
	}
	s := p.Schedule(r.Subject.Name, r.Anchors)
	s.Bug = string(r.Finding.Title)
	return &s
}

// statesMax is the number of different final states that are told apart.
const statesMax = 1 << 16

// states is a set of final states.
type states map[uint64]struct{}

// add notes a state and says whether there was room.
func (s states) add(v uint64) bool {
	if _, ok := s[v]; ok {
		return true
	}
	if len(s) == statesMax {
		return false
	}
	s[v] = struct{}{}
	return true
}

// A tally is what some runs gave.
type tally struct {
	schedules int
	redundant int
	points    uint64
	counts    oracle.Counts
	states    states
	capped    bool
	found     int
	first     int // of these runs, from 1
	finding   *oracle.Finding
	anchors   []sched.Anchor
	hash      uint64
	cut       bool // some of the schedules were not made
	unfair    int  // runs in which a context was kept from running for ever
}

// add takes one run into account.
func (t *tally) add(r *explore.Run, b *body) {
	t.schedules++
	t.points += r.Points
	t.counts.Add(&b.res.Counts)
	if t.states == nil {
		t.states = states{}
	}
	t.capped = !t.states.add(r.State) || t.capped
	if r.Bad {
		t.found++
		t.keep(r, b)
	}
}

// begun takes a run into account that was begun in vain: it counts only when it shows something
// first.
func (t *tally) begun(r *explore.Run, b *body) {
	t.points += r.Points
	if r.Bad {
		t.found++
		t.keep(r, b)
	}
}

// keep notes the first finding.
func (t *tally) keep(r *explore.Run, b *body) {
	if t.finding == nil {
		t.first, t.finding, t.hash = max(1, t.schedules), b.res.Finding(), r.Hash
		t.anchors = b.runner.Recorded()
	}
}

// join adds what a part gave to the result.
func (r *Result) join(t *tally, seen states) {
	if t.finding != nil && r.Finding == nil {
		r.First, r.Finding, r.Anchors, r.Hash = r.Schedules+t.first, t.finding, t.anchors, t.hash
	}
	r.Schedules += t.schedules
	r.Redundant += t.redundant
	r.Points += t.points
	r.Counts.Add(&t.counts)
	r.Found += t.found
	r.Capped = r.Capped || t.capped
	//tidy:maporder a set joins a set
	for v := range t.states {
		r.Capped = !seen.add(v) || r.Capped
	}
	r.States = len(seen)
}
