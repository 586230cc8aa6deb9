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
	t.counts.Add(&b.res.Counts)
	if t.states == nil {
		t.states = states{}
	}
	t.capped = !t.states.add(r.State) || t.capped
	t.begun(r, b)
}

// begun takes a run into account that is no schedule of its own, since it was begun in vain: its
// points count, and what it shows.
func (t *tally) begun(r *explore.Run, b *body) {
	t.points += r.Points
	if !r.Bad {
		return
	}
	t.found++
	if t.finding == nil {
		t.first, t.finding, t.hash = max(1, t.schedules), b.res.Finding(), r.Hash
		t.anchors = b.runner.Recorded()
	}
}

// join adds what another part gave.
func (t *tally) join(u *tally) {
	if t.finding == nil && u.finding != nil {
		t.first, t.finding, t.anchors, t.hash = t.schedules+u.first, u.finding, u.anchors, u.hash
	}
	t.schedules += u.schedules
	t.redundant += u.redundant
	t.points += u.points
	t.counts.Add(&u.counts)
	t.found += u.found
	t.capped = t.capped || u.capped
	//tidy:maporder a set joins a set
	for v := range u.states {
		t.capped = !t.states.add(v) || t.capped
	}
}

// fill takes over what all parts gave.
func (r *Result) fill(t *tally) {
	r.Schedules, r.Redundant, r.Points, r.Counts = t.schedules, t.redundant, t.points, t.counts
	r.Found, r.First, r.Finding, r.Anchors, r.Hash = t.found, t.first, t.finding, t.anchors, t.hash
	r.States, r.Capped = len(t.states), t.capped
}
