package explore

import (
	"fmt"
	"slices"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// Bounds say how far a schedule may depart from the order of the program's lines. A departure
// where the running context cannot go on anyway, since it waits or has ended, costs nothing.
type Bounds struct {
	Preemptions int // switches to another context or CPU, stores held back or drained
	Interrupts  int // handlers delivered elsewhere than at the place of their first line
	Failures    int // page requests that fail
	Deliveries  int // how often departures may deliver one handler; 0 is once
}

// String gives the bounds as a report says them.
func (b Bounds) String() string {
	s := fmt.Sprintf("preemptions ≤ %d, interrupts ≤ %d, failures ≤ %d", b.Preemptions,
		b.Interrupts, b.Failures)
	if b.Deliveries > 1 {
		s += fmt.Sprintf(", deliveries ≤ %d", b.Deliveries)
	}
	return s
}

// Total is the most departures that the bounds permit.
func (b Bounds) Total() int { return b.Preemptions + b.Interrupts + b.Failures }

// A Departure is one of a schedule: at the question of that number that a run asks its chooser,
// the action of that number of those that are possible there.
type Departure struct{ At, Which int32 }

// An option is a departure that a run could have taken, and what it costs.
type option struct {
	Departure
	cost charge
}

// A charge is what a departure is counted as.
type charge uint8

const (
	free charge = iota
	preemption
	interrupt
	failure
)

// spend takes a charge off the bounds; false when they have none left for it.
func (b *Bounds) spend(c charge) bool {
	n := &b.Preemptions
	switch c {
	case free:
		return true
	case interrupt:
		n = &b.Interrupts
	case failure:
		n = &b.Failures
	}
	*n--
	return *n >= 0
}

// chargeOf is what action a of c at p is counted as.
func chargeOf(c *machine.Ctx, p machine.Point, a *machine.Action) charge {
	switch a.Kind {
	case machine.FailPages:
		return failure
	case machine.Interrupt:
		if a.Handler.Host() == nil {
			return interrupt
		}
	case machine.SwitchTo:
		if c.Stuck(p) {
			return free
		}
	}
	return preemption
}

// A follower is a chooser that takes the departures of a prefix and goes on without any, and
// notes which it could have taken behind them.
type follower struct {
	prefix  []Departure
	left    Bounds // behind the prefix
	wide    bool   // all options are noted, not the free ones alone
	options []option
	refused bool // a switch or an interrupt that was possible is beyond the bounds

	binding sched.Binding
	acts    []machine.Action
	at      int32
	next    int
	lost    bool // a departure of the prefix was not possible
	// passed are those who could have come instead of a context in the middle of a line, which
	// has not made a step: who switches on to one of them need not have switched to it.
	passed []*machine.Ctx
	// over are the tasks that were asked at their end, and last says that one was asked last:
	// when another one, asked before, comes behind it, the question is the same again.
	over []*machine.Ctx
	last bool
}

// Bind starts a run.
func (f *follower) Bind(b *sched.Binding) {
	deliveries := f.binding.Deliveries
	f.binding = *b
	f.binding.Deliveries = deliveries
	f.over, f.last = f.over[:0], false
	f.at, f.next, f.lost, f.passed, f.options = 0, 0, false, f.passed[:0], f.options[:0]
}

// Choose takes the next departure of the prefix, or notes what is possible.
func (f *follower) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	at := f.at
	f.at++
	if f.again(c, p) {
		return machine.Action{}
	}
	if f.next < len(f.prefix) {
		d := f.prefix[f.next]
		if d.At > at {
			f.goOn(c, p)
			return machine.Action{}
		}
		f.next++
		f.acts = f.binding.Departures(f.acts[:0], c, p)
		if int(d.Which) >= len(f.acts) {
			f.lost = true
			return machine.Action{}
		}
		return f.follow(c, p, f.acts[d.Which])
	}
	defer f.goOn(c, p)
	if !f.wide && p.Kind != machine.KWait && p.Kind != machine.KEnd {
		return machine.Action{} // nothing is free here
	}
	f.acts = f.binding.Departures(f.acts[:0], c, p)
	for i := range f.acts {
		a := &f.acts[i]
		if f.idle(c, a) {
			continue
		}
		left, cost := f.left, chargeOf(c, p, a)
		switch {
		case !f.wide && cost != free:
		case left.spend(cost):
			f.options = append(f.options, option{Departure{at, int32(i)}, cost})
		case cost != failure:
			f.refused = true
		}
	}
	return machine.Action{}
}

// again says whether c has ended and is asked for no more than was asked just before.
func (f *follower) again(c *machine.Ctx, p machine.Point) bool {
	before := f.last
	f.last = p.Kind == machine.KEnd && c.Running() == nil && c.Over()
	if !f.last {
		return false
	}
	if slices.Contains(f.over, c) {
		return before
	}
	f.over = append(f.over, c)
	return false
}

// goOn notes that the context that runs makes a step, or ends its line and leaves it to the order
// of lines who comes next.
func (f *follower) goOn(c *machine.Ctx, p machine.Point) {
	f.passed = f.passed[:0]
	if p.Kind != machine.KEnd {
		return
	}
	if next := c.Next(p); next != nil && next != c && next.InLine() {
		f.acts = f.binding.Departures(f.acts[:0], c, p)
		f.pass()
	}
}

// pass notes who can be switched to.
func (f *follower) pass() {
	for i := range f.acts {
		if f.acts[i].Kind == machine.SwitchTo {
			f.passed = append(f.passed, f.acts[i].Task)
		}
	}
}

// idle says whether a departure would change nothing: a move of what has ended, a switch to who
// could have been switched to before, or to one that waits.
func (f *follower) idle(c *machine.Ctx, a *machine.Action) bool {
	switch a.Kind {
	case machine.Move:
		return c.Over()
	case machine.SwitchTo:
		return a.Task.Waits() || slices.Contains(f.passed, a.Task)
	}
	return false
}

// follow notes a switch, and that something happened.
func (f *follower) follow(c *machine.Ctx, p machine.Point, a machine.Action) machine.Action {
	f.passed, f.last = f.passed[:0], false
	if a.Kind == machine.SwitchTo && a.Task != c && a.Task.InLine() {
		f.passed = append(f.passed, c)
		if c.Over() || !c.Movable() {
			// Who would have come by itself. A task that can be moved is asked again when it
			// was left by a switch, and may be moved then.
			f.passed = append(f.passed, c.Next(p))
		}
		f.pass()
	}
	return a
}

// A Bounded is a search depth-first of all schedules of one number of departures within bounds:
// called for 0, 1, 2, … it finds what shows with the fewest.
type Bounded struct {
	Bounds Bounds
	// Check has one run in so many made twice, and demands the same trace; 0 for none.
	Check int
	f     follower
	runs  int
}

// A Unit is a part of the schedules of one number of departures: those that begin so. Units are
// independent of each other.
type Unit struct {
	Prefix []Departure
	Left   Bounds // behind the prefix
	Spent  int    // departures of the prefix that cost something
}

// Units are the parts of the schedules of the given number of departures, in order: the prefixes
// of up to depth departures. The runs that it makes to find them are not part of the search.
func (s *Bounded) Units(b Body, total, depth int) ([]Unit, error) {
	units := []Unit{{Left: s.Bounds}}
	for range min(depth, total) {
		var next []Unit
		for i := range units {
			more, err := s.split(b, &units[i], total)
			if err != nil {
				return nil, err
			}
			next = append(next, more...)
		}
		units = next
	}
	return units, nil
}

// split returns the units that one more departure makes of a unit, or itself when no more are
// to come.
func (s *Bounded) split(b Body, u *Unit, total int) ([]Unit, error) {
	if u.Spent == total {
		return []Unit{*u}, nil
	}
	if _, err := s.run(b, u, true); err != nil {
		return nil, err
	}
	units := make([]Unit, 0, len(s.f.options))
	for _, o := range s.f.options {
		units = append(units, u.with(o))
	}
	return units, nil
}

// with is the unit with one more departure.
func (u *Unit) with(o option) Unit {
	v := Unit{Prefix: append(u.Prefix[:len(u.Prefix):len(u.Prefix)], o.Departure), Left: u.Left,
		Spent: u.Spent}
	v.Left.spend(o.cost)
	if o.cost != free {
		v.Spent++
	}
	return v
}

// run makes the run of a unit's prefix and leaves what could follow it in s.f.options.
func (s *Bounded) run(b Body, u *Unit, wide bool) (Run, error) {
	s.f.prefix, s.f.left, s.f.wide = u.Prefix, u.Left, wide
	s.f.binding.Deliveries = s.Bounds.Deliveries
	r := b.Run(&s.f)
	if r.Err != nil {
		return r, r.Err
	}
	s.runs++
	if s.f.lost || s.Check > 0 && s.runs%s.Check == 0 && b.Run(&s.f).Hash != r.Hash {
		return r, ErrNotDeterministic
	}
	return r, nil
}

// Refused says whether a switch or an interrupt that was possible was beyond the bounds: there are
// schedules that the search leaves out. Page requests that could be made to fail do not count.
func (s *Bounded) Refused() bool { return s.f.refused }

// Explore makes the runs of a unit with exactly total departures that cost something, and calls
// each with what came of it and the departures. It ends early when each says false.
func (s *Bounded) Explore(b Body, u Unit, total int, each func(*Run, []Departure) bool) (
	more bool, err error) {
	wide := u.Spent < total
	r, err := s.run(b, &u, wide)
	if err != nil {
		return false, err
	}
	options := append([]option(nil), s.f.options...)
	if !wide && !each(&r, u.Prefix) {
		return false, nil
	}
	for _, o := range options {
		if more, err := s.Explore(b, u.with(o), total, each); !more || err != nil {
			return more, err
		}
	}
	return true, nil
}
