package explore_test

import (
	"fmt"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// This file explores by trying everything: depth first over every action that the machine
// allows at every point, without reductions. Only choices that are the same choice are made
// once: from one step of the program to the next the chooser may be asked several times, by
// contexts that were switched to without a step, and what was offered to the first is not
// offered again. A context that is switched to goes on, or takes what only it can: it is moved,
// or loses its CPU to a task that nobody else could have let run.

// A choice is how one place was answered, of how many ways.
type choice struct {
	taken, of int
	hash      uint64 // of the run so far
}

// A brute is a chooser that follows its choices and then takes the first one everywhere.
type brute struct {
	moves int  // how often tasks may be moved in a run
	spin  bool // let contexts spin that stand at a lock that is held

	b        *sched.Binding
	stack    []choice
	depth    int
	steps    uint64 // of the point that was asked about last
	event    bool   // a step was made that ends at no new point
	moved    int
	offered  []machine.Action // since the last step
	acts     []machine.Action // at this point, the first is to go on
	preempts int              // times that who could go on did not
	points   int
	err      error
}

// Bind starts a run.
func (x *brute) Bind(b *sched.Binding) {
	x.b, x.depth, x.steps, x.moved, x.preempts, x.points = b, 0, 0, 0, 0, 0
	x.event, x.offered = true, x.offered[:0]
}

// Choose takes the next choice.
func (x *brute) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	steps := x.b.Machine.Sim().Steps()
	arrived := steps != x.steps
	fresh := arrived || x.event
	if fresh {
		x.offered = x.offered[:0]
	}
	x.steps, x.event = steps, false
	x.list(c, p, arrived)
	a := x.acts[x.next(len(x.acts))]
	able := !c.Stuck(p) && !c.Waits()
	switch a.Kind {
	case machine.Go:
		x.event = p.Kind == machine.KEnd && c.Running() != nil
	case machine.SwitchTo:
		if fresh && able {
			x.preempts++
		}
		x.event = p.Kind == machine.KEnd && c.Running() != nil && x.outside(c)
	case machine.Interrupt:
		x.event = p.Kind == machine.KEnd && c.Running() != nil && x.outside(c)
	case machine.Move:
		x.moved++
		x.event = true
	}
	return a
}

// outside says whether c is no task: a switch at the end of its handler may come behind it.
func (x *brute) outside(c *machine.Ctx) bool { return x.b.Context(c, nil) < 0 }

// list makes acts all actions at p that were not offered since the last step.
func (x *brute) list(c *machine.Ctx, p machine.Point, arrived bool) {
	x.acts = x.acts[:0]
	if x.spin || !c.Waits() || p.Kind == machine.KWait {
		x.acts = append(x.acts, machine.Action{})
	}
	var next *machine.Ctx
	if arrived && (p.Kind == machine.KEnd || p.Kind == machine.KWait) {
		next = c.Next(p) // to go on is a switch to it
		if c.Movable() && x.moved < x.moves && !c.Over() {
			next = nil // but c is asked again behind a switch alone, and may be moved then
		}
	}
	if cur := c.CPU().Current(); cur == nil || cur == c {
		x.goesOn(c) // it was not moved to a CPU that another task has
	}
	stay := machine.Action{Kind: machine.SwitchTo, Task: c}
	if c.Allowed(p, stay) {
		x.acts = append(x.acts, stay)
	}
	for i := range x.b.Tasks {
		if t := x.b.Tasks[i]; t != nil && t != c && t != next && !t.Over() && !x.useless(t) {
			x.offer(c, p, machine.Action{Kind: machine.SwitchTo, Task: t})
		}
		if h := x.b.Handlers[i]; h != nil && (h.Due() || h.Host() != nil) {
			x.offer(c, p, machine.Action{Kind: machine.Interrupt, Handler: h})
		}
	}
	for cpu := 0; cpu < x.b.Machine.CPUs && x.moved < x.moves && !c.Over(); cpu++ {
		x.offer(c, p, machine.Action{Kind: machine.Move, CPU: cpu, Task: c})
	}
	if next != nil {
		x.offered = append(x.offered, machine.Action{Kind: machine.SwitchTo, Task: next})
	}
	if len(x.acts) == 0 {
		x.acts = append(x.acts, machine.Action{})
	}
}

// goesOn notes that c was offered to go on.
func (x *brute) goesOn(c *machine.Ctx) {
	x.offered = append(x.offered, machine.Action{Kind: machine.SwitchTo, Task: c})
	for _, h := range x.b.Handlers {
		if h != nil && h.Host() == c && x.outside(c) {
			x.offered = append(x.offered, machine.Action{Kind: machine.Interrupt, Handler: h})
		}
	}
}

// useless says whether nothing can come of a switch to t but that it spins.
func (x *brute) useless(t *machine.Ctx) bool {
	return !x.spin && t.Waits() && x.moved == x.moves &&
		x.b.Machine.Preempt == machine.PreemptNone
}

// offer adds an action when it is allowed and new.
func (x *brute) offer(c *machine.Ctx, p machine.Point, a machine.Action) {
	if !c.Allowed(p, a) {
		return
	}
	for _, o := range x.offered {
		if o == a {
			return
		}
	}
	x.offered = append(x.offered, a)
	x.acts = append(x.acts, a)
}

// next is the choice at this place, of n.
func (x *brute) next(n int) int {
	x.points++
	hash := x.b.Machine.Sim().Hash()
	if x.depth == len(x.stack) {
		x.stack = append(x.stack, choice{of: n, hash: hash})
	}
	s := &x.stack[x.depth]
	x.depth++
	if s.of != n || s.hash != hash {
		x.err = fmt.Errorf("choice %d: %d ways and hash %#x, before %d and %#x: the run is no "+
			"function of its choices", x.depth, n, hash, s.of, s.hash)
		return 0
	}
	return s.taken
}

// back goes to the last place that has a way that was not taken, false when there is none.
func (x *brute) back() bool {
	for len(x.stack) > 0 {
		s := &x.stack[len(x.stack)-1]
		if s.taken++; s.taken < s.of {
			return true
		}
		x.stack = x.stack[:len(x.stack)-1]
	}
	return false
}

// all makes every run, at most limit, and says whether those were all.
func (x *brute) all(body explore.Body, limit int, each func(explore.Run)) (runs int, done bool,
	err error) {
	x.stack = x.stack[:0]
	for runs < limit {
		r := body.Run(x)
		runs++
		if r.Err != nil {
			return runs, false, r.Err
		}
		if x.err != nil {
			return runs, false, x.err
		}
		if x.depth < len(x.stack) {
			return runs, false, fmt.Errorf("%d choices where %d were before", x.depth, len(x.stack))
		}
		each(r)
		if !x.back() {
			return runs, true, nil
		}
	}
	return runs, false, nil
}

// A result is what the runs of an explorer have given.
type result struct {
	runs   int
	done   bool
	err    error
	traces map[uint64]uint64 // final state by trace
	bad    map[uint64]bool   // traces in which something was found
	least  map[uint64]int    // fewest preemptions that a trace takes
	exact  []int             // runs by number of preemptions
	twice  int               // traces that came again
}

func newResult() *result {
	return &result{traces: map[uint64]uint64{}, bad: map[uint64]bool{}, least: map[uint64]int{}}
}

// add counts a run; an error is a trace that has two final states.
func (s *result) add(r explore.Run) {
	was, ok := s.traces[r.Hash]
	switch {
	case !ok:
		s.traces[r.Hash] = r.State
	case was != r.State && s.err == nil:
		s.err = fmt.Errorf("trace %#x has final states %#x and %#x", r.Hash, was, r.State)
	default:
		s.twice++
	}
	if r.Bad {
		s.bad[r.Hash] = true
	}
}

// cost counts a run by its preemptions.
func (s *result) cost(hash uint64, n int) {
	if was, ok := s.least[hash]; !ok || n < was {
		s.least[hash] = n
	}
	for len(s.exact) <= n {
		s.exact = append(s.exact, 0)
	}
	s.exact[n]++
}

// within is what is left of a result when runs have at most n preemptions.
func (s *result) within(n int) *result {
	out := newResult()
	for h, state := range s.traces {
		if s.least[h] <= n {
			out.traces[h] = state
			out.bad[h] = s.bad[h]
		}
	}
	return out
}

// tryAll is what brute force gives.
func tryAll(body explore.Body, x brute, limit int) *result {
	s := newResult()
	var err error
	s.runs, s.done, err = x.all(body, limit, func(r explore.Run) {
		s.add(r)
		s.cost(r.Hash, x.preempts)
	})
	if err != nil {
		s.err = err
	}
	return s
}
