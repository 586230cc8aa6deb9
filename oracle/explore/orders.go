package explore

import (
	"errors"
	"fmt"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// Reduction says which schedules a search of all orders leaves out.
type Reduction uint8

// The reductions.
const (
	// Naive leaves out nothing: every order of all steps.
	Naive Reduction = iota
	// SleepSets leaves out a run as soon as it can only repeat one that was made: the orders
	// of independent steps are tried once, but many runs are begun in vain.
	SleepSets
	// Optimal is Optimal-DPOR: wakeup trees begin no run in vain.
	Optimal
)

var reductionNames = [...]string{"naive", "sleep", "dpor"}

// String names the reduction as --strategy does.
func (r Reduction) String() string { return reductionNames[r] }

// An Orders is a search of all orders of the steps of a program's tasks and handlers, each of
// which is delivered once. Two runs that differ in the order of independent steps only are
// one. It is the algorithm of Abdulla, Aronis, Jonsson and Sagonas (Optimal Dynamic Partial
// Order Reduction, POPL 2014), with three rules for machines that take interrupts and preempt:
// all steps on one CPU depend on each other, and a step is tried before the last one of its CPU
// at which its process could have run; so is the taking of a lock before the last taking by
// somebody else. A migration is a step of the task that is moved, on both CPUs. A task that sleeps
// is not moved before it goes on.
//
// It does not know calls of other CPUs, read sections, real-time machines and store buffers,
// and says so.
type Orders struct {
	Reduction Reduction
	Moves     int // migrations, at most 1
	Max       int // runs, 0 for all

	table  table
	nodes  []node
	events []event
	acc    []machine.Access
	cut    []int   // events that a plan leaves out, and what comes after them
	stuck  []*step // where the run ended: locks that processes wait for in vain
	order  order
	steps  []step // of the events
	v      []*step

	asked      int  // questions since the last step
	want       int  // process to take the next step, -1 when it is to be chosen
	going      bool // want was switched to and begins its line
	loose      bool // nobody could run, and the machine's own rule went on
	others     bool // some other task has not ended
	blocked    bool // only what other runs did is left
	err        error
	move       *Moved // of the runs in hand
	longest    []int  // the most steps that each process made without one
	gaveUp     bool   // the migration of the run does not take place
	unrunnable int
}

// A node is a state on the way of the current run, and what is still to be done there.
type node struct {
	wake    []*branch // to be taken from here; the first is being taken
	sleep   []*step   // taken already, by earlier runs: a run that begins so repeats one
	able    set       // who could run
	ready   set       // and whose next step could be taken
	fixed   bool      // the machine's own rule takes it
	late    bool      // nobody could run before that rule went on
	stays   bool      // the run's migration was given up
	returns bool      // that of a handler on an idle CPU, which alone is possible
	admits  bool      // the CPU that the run's migration goes to would take a task that has a line
}

// A Summary says what a search did.
type Summary struct {
	Runs       int    // all of them
	Complete   int    // that went to their end, each a different order
	Redundant  int    // that were begun in vain
	Idle       int    // complete, and their migration did not take place: counted without it
	Points     uint64 // of all runs
	Done       bool   // nothing is left
	Unrunnable int    // sequences that could not be run as planned
}

// Refusals of the search of orders.
var (
	ErrCalls    = errors.New("the program calls other CPUs" + beyond)
	ErrSections = errors.New("the program has read sections" + beyond)
	ErrRealTime = errors.New("the machine is real-time" + beyond)
	ErrBuffers  = errors.New("the machine has store buffers" + beyond)
)

const beyond = ", which the search of orders does not know: search with a bound"

// Explore makes run after run and calls each with what came of it and whether it was complete.
// It ends when nothing is left, when each says false, and at Max. With Moves it searches the
// orders without a migration and then those with one of a task before each of its steps.
func (d *Orders) Explore(b Body, each func(r *Run, complete bool) bool) (Summary, error) {
	var sum Summary
	d.err, d.unrunnable, d.move, d.longest = nil, 0, nil, d.longest[:0]
	if more, err := d.search(b, &sum, each); !more || err != nil || d.Moves == 0 {
		sum.Done = more
		return sum, err
	}
	for _, m := range d.migrations() {
		if d.Max > 0 && sum.Runs >= d.Max {
			return sum, nil
		}
		d.move = &m
		if more, err := d.search(b, &sum, each); !more || err != nil {
			return sum, err
		}
	}
	sum.Done = true
	return sum, nil
}

// search makes the runs with one migration, or without; false when it was ended before the last.
func (d *Orders) search(b Body, sum *Summary, each func(r *Run, complete bool) bool) (
	more bool, err error) {
	d.nodes = d.nodes[:0]
	for {
		known := len(d.nodes)
		r := b.Run(d)
		switch {
		case d.err != nil:
			return false, d.err
		case r.Err != nil:
			return false, r.Err
		case len(d.events) < known:
			return false, fmt.Errorf("%w: it ended at step %d, and made %d", ErrNotDeterministic,
				len(d.events), known)
		}
		sum.Runs++
		sum.Points += r.Points
		whole := !d.blocked && !d.idle()
		switch {
		case d.blocked:
			sum.Redundant++
		case whole:
			sum.Complete++
		default:
			sum.Idle++
		}
		more := each(&r, whole)
		d.measure()
		if d.Reduction == Optimal && !d.blocked {
			d.reverse()
		}
		left := d.back()
		sum.Unrunnable = d.unrunnable
		switch {
		case !left:
			return more, nil
		case !more || d.Max > 0 && sum.Runs >= d.Max:
			return false, nil
		}
	}
}

// Unfair says whether the last run ended while some task had not: an operation that went round
// without an end may have waited for it.
func (d *Orders) Unfair() bool { return d.others }

// Bind starts a run.
func (d *Orders) Bind(b *sched.Binding) {
	d.events, d.acc, d.stuck = d.events[:0], d.acc[:0], d.stuck[:0]
	d.want, d.going, d.loose, d.blocked, d.gaveUp = -1, false, false, false, false
	d.asked, d.others = 0, false
	if b.Machine.Preempt == machine.PreemptRT {
		d.err = ErrRealTime
	}
	if b.Machine.TSO {
		d.err = ErrBuffers
	}
	if err := d.table.bind(b, d.move); err != nil {
		d.err = err
	}
}

// Touch adds to what the step in progress touches.
func (d *Orders) Touch(_ *machine.Ctx, a machine.Access) {
	n := len(d.events)
	if n == 0 || d.err != nil || d.blocked || d.loose {
		return
	}
	d.acc = append(d.acc, a)
	d.events[n-1].to = len(d.acc)
}

// Begin is the step of a task that begins a line.
func (d *Orders) Begin(c *machine.Ctx) {
	if d.err != nil || d.blocked {
		return
	}
	p := d.table.of(c)
	chosen := d.going && d.want == p
	e := event{proc: p, places: 1 << uint(c.CPUID()), fixed: !chosen}
	d.record(e)
}

// askedMax bounds the questions between two steps: each is a context that is passed on the way.
const askedMax = 1000

// Choose takes the next step of the run.
func (d *Orders) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if d.err != nil || d.blocked || d.unknown(p) {
		return machine.Action{}
	}
	if d.asked++; d.asked > askedMax {
		d.err = fmt.Errorf("allocfuzz: explore: step %d of process %d does not come about",
			len(d.events)+1, d.want)
	}
	if d.going && d.table.procs[d.want].task == c {
		return machine.Action{} // it begins its line
	}
	d.table.cur = c
	if d.want < 0 && !d.choose() {
		return machine.Action{}
	}
	n := len(d.events)
	a := d.act(c, p)
	if !c.Allowed(p, a) {
		d.err = fmt.Errorf("%w: step %d is not possible any more", ErrNotDeterministic, n+1)
		return machine.Action{}
	}
	return a
}

// unknown says that the search cannot go on since it does not know what p means.
func (d *Orders) unknown(p machine.Point) bool {
	switch {
	case p.Kind == machine.KCall:
		d.err = ErrCalls
	case p.Field.Object == "rcu":
		d.err = ErrSections
	}
	return d.err != nil
}

// record enters a step, which is no longer wanted.
func (d *Orders) record(e event) {
	n := len(d.events)
	d.stuck = d.stuck[:0]
	e.from, e.to, e.sync = len(d.acc), len(d.acc), d.loose
	d.loose, d.want, d.going, d.asked = false, -1, false, 0
	switch {
	case n == len(d.nodes): // nobody chose it
		d.nodes = append(d.nodes, node{fixed: true, wake: []*branch{{step: &step{proc: e.proc}}}})
	case d.nodes[n].wake[0].step.proc != e.proc:
		d.err = fmt.Errorf("%w: step %d is of process %d, and was of %d", ErrNotDeterministic, n+1,
			e.proc, d.nodes[n].wake[0].step.proc)
	default:
		at := &d.nodes[n]
		e.able, e.admits, e.returns = at.able, at.admits, at.returns
	}
	q := &d.table.procs[e.proc]
	if e.behind = q.stays; e.moved {
		q.move = nil
	} else {
		q.steps++
		q.stays = false
	}
	d.events = append(d.events, e)
}

// choose decides whose step is next; false when the machine's own rule goes on, since nobody
// can run or only what other runs did is left.
func (d *Orders) choose() bool {
	n := len(d.events)
	if n < len(d.nodes) {
		at := &d.nodes[n]
		if at.fixed {
			d.loose = n > 0
			return false
		}
		if at.stays && !d.gaveUp {
			d.giveUp()
		}
		if at.late {
			if ready, _ := d.table.ready(); ready == 0 {
				d.loose = true
				return false
			}
		}
		d.want = at.wake[0].step.proc
		d.overlook()
		return true
	}
	ready, able := d.table.ready()
	if ready == 0 && d.giveUp() {
		ready, able = d.table.ready()
	}
	if ready == 0 {
		if !d.loose {
			d.stuck = d.table.stuck(d.stuck[:0], able)
		}
		d.loose = true
		return false
	}
	at := node{able: able, ready: ready, late: d.loose, stays: d.gaveUp,
		returns: d.table.returns(), admits: d.table.to != nil && d.table.to.Admits()}
	d.inherit(&at)
	if !d.open(&at, ready) {
		d.blocked = true
		return false
	}
	d.nodes = append(d.nodes, at)
	d.want = at.wake[0].step.proc
	d.overlook()
	return true
}

// overlookEvery is the number of steps between two looks at who is kept from running.
const overlookEvery = 64

// overlook notes now and then whether somebody else has not ended.
func (d *Orders) overlook() {
	if len(d.events)%overlookEvery != 0 {
		return
	}
	d.others = false
	for i := range d.table.procs {
		c := d.table.procs[i].task
		d.others = d.others || i != d.want && c != nil && !c.Over()
	}
}

// inherit gives a new state what is left to do of the state before it.
func (d *Orders) inherit(at *node) {
	n := len(d.events)
	if n == 0 || d.Reduction == Naive {
		return
	}
	before := &d.nodes[n-1]
	done := d.step(n - 1)
	for _, s := range before.sleep {
		if !s.dependent(&done) {
			at.sleep = append(at.sleep, s)
		}
	}
	at.wake = before.wake[0].kids
}

// open makes sure that a new state has a step to take, of those that are ready; false when all
// of them are asleep.
func (d *Orders) open(at *node, ready set) bool {
	if d.runnable(at) {
		return true
	}
	for _, s := range at.sleep {
		ready &^= one(s.proc)
	}
	if ready == 0 {
		return false
	}
	if n := len(d.events); n > 0 && ready.has(d.events[n-1].proc) {
		p := d.events[n-1].proc // no switch
		at.wake = append(at.wake, &branch{step: &step{proc: p}})
		ready &^= one(p)
	}
	if len(at.wake) > 0 && d.Reduction == Optimal {
		return true
	}
	each(uint64(ready), func(p int) {
		if d.Reduction != Optimal || len(at.wake) == 0 {
			at.wake = append(at.wake, &branch{step: &step{proc: p}})
		}
	})
	return true
}

// runnable leaves out what is planned of a state and cannot be run there, and says whether
// anything is left.
func (d *Orders) runnable(at *node) bool {
	for len(at.wake) > 0 && !at.ready.has(at.wake[0].step.proc) {
		d.unrunnable++
		at.wake = at.wake[1:]
	}
	return len(at.wake) > 0
}

// step is event n of the run as a step, which lasts as long as the run.
func (d *Orders) step(n int) step { return d.events[n].step(d.acc) }

// back goes to the last state at which a step is left to take; false when there is none.
func (d *Orders) back() bool {
	for n := len(d.nodes) - 1; n >= 0; n-- {
		at := &d.nodes[n]
		if !at.fixed {
			if d.Reduction != Naive && n < len(d.events) {
				taken := d.step(n)
				at.sleep = append(at.sleep, taken.clone())
			}
			if at.wake = at.wake[1:]; d.runnable(at) {
				d.nodes = d.nodes[:n+1]
				return true
			}
		}
		d.nodes[n] = node{}
	}
	d.nodes = d.nodes[:0]
	return false
}
