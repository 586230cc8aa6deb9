package explore_test

import (
	"errors"
	"fmt"
	"strings"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// This file hashes what a run has in common with all runs that differ from it only in the order
// of steps that have nothing to do with each other: the set of its events, each with what is
// ordered before it. Two events are ordered when they are of one process (a task or a handler),
// on one CPU, or touch one object and do not both read it; and what follows from that.

// clockMax is the largest number of processes of a toy.
const clockMax = 20

// askedMax is the number of questions of one run from which on it has no end.
const askedMax = 20_000

// A clock says how many events of each process are before something, itself included.
type clock [clockMax]uint16

func (k *clock) join(o *clock) {
	for i := range k {
		k[i] = max(k[i], o[i])
	}
}

// The kinds of events that are no points of the machine.
const (
	evBegin machine.Kind = 100 + iota
	evDeliver
	evReturn
	evMove
)

// An event is what a process does from one point to its next.
type event struct {
	proc    int
	cpu     int
	to      int // of a move
	kind    machine.Kind
	field   string
	touches []machine.Access
	clock   clock
}

// An object is what the next event that touches it comes behind.
type object struct {
	writes, reads clock
}

// waiting is a process that passed the point of a lock that it did not get yet.
type waiting struct {
	on      bool
	field   string
	touches []machine.Access
}

// A tracer is a chooser that asks another one and writes down the events.
type tracer struct {
	b       *sched.Binding
	inner   machine.Chooser
	watch   machine.Watcher
	open    bool
	cur     event
	count   [clockMax]uint16
	procs   [clockMax]clock
	cpus    [machine.MaxCPUs]clock
	objects map[uint64]*object
	wait    [clockMax]waiting
	seen    [clockMax]int // deliveries
	sum     uint64
	seq     uint64 // a hash of the events in the order in which they came
	asked   int
	keep    bool
	events  []string // with keep
	err     error
}

// start forgets the last run.
func (t *tracer) start(b *sched.Binding, inner machine.Chooser) {
	objects, keep := t.objects, t.keep
	clear(objects)
	if objects == nil {
		objects = map[uint64]*object{}
	}
	*t = tracer{b: b, inner: inner, objects: objects, keep: keep}
	t.watch, _ = inner.(machine.Watcher)
}

// proc is the number of the process that c runs.
func (t *tracer) proc(c *machine.Ctx) int {
	if h := c.Running(); h != nil {
		return t.b.Context(nil, h)
	}
	return t.b.Context(c, nil)
}

// begin opens an event, which lasts until the next.
func (t *tracer) begin(c *machine.Ctx, k machine.Kind, field string) {
	t.close()
	proc := t.proc(c)
	if proc < 0 {
		t.err = fmt.Errorf("%s: an event of nobody", c.Name())
		return
	}
	t.count[proc]++
	t.open = true
	t.cur = event{proc: proc, cpu: c.CPUID(), to: c.CPUID(), kind: k, field: field,
		touches: t.cur.touches[:0], clock: t.procs[proc]}
	t.cur.clock.join(&t.cpus[t.cur.cpu])
	t.cur.clock[proc] = t.count[proc]
}

// touch adds an access to the event that is open.
func (t *tracer) touch(a machine.Access) {
	o := t.objects[a.Object]
	if o == nil {
		o = &object{}
		t.objects[a.Object] = o
	}
	t.cur.clock.join(&o.writes)
	if a.Kind != machine.Reads {
		t.cur.clock.join(&o.reads)
	}
	t.cur.touches = append(t.cur.touches, a)
}

// close ends the event that is open: what comes behind it is known.
func (t *tracer) close() {
	if !t.open {
		return
	}
	t.open = false
	e := &t.cur
	h := fold(fold(uint64(e.proc), uint64(e.kind)), uint64(e.cpu)<<8|uint64(e.to))
	for _, a := range e.touches {
		o := t.objects[a.Object]
		if a.Kind == machine.Reads {
			o.reads.join(&e.clock)
		} else {
			o.writes.join(&e.clock)
		}
		h = fold(fold(h, a.Object), uint64(a.Kind))
	}
	t.procs[e.proc], t.cpus[e.cpu], t.cpus[e.to] = e.clock, e.clock, e.clock
	for _, n := range e.clock {
		h = fold(h, uint64(n))
	}
	t.sum += fold(h, h>>32)
	t.seq = fold(t.seq, h)
	if t.keep {
		t.events = append(t.events, fmt.Sprintf("%d.%d cpu%d kind %d %s %v after %v", e.proc,
			e.clock[e.proc], e.cpu, e.kind, e.field, e.touches, e.clock[:len(t.b.Tasks)]))
	}
}

// hash is the hash of the run so far.
func (t *tracer) hash() uint64 {
	t.close()
	return t.sum
}

// text is the events in the order in which they came, with keep.
func (t *tracer) text() string { return strings.Join(t.events, "\n") }

// Choose lets the other one choose.
func (t *tracer) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	t.close()
	if t.asked++; t.asked > askedMax {
		t.err = errors.New("a run without an end")
		c.Halt()
	}
	proc := t.proc(c)
	t.arrive(c, p, proc)
	if t.inner == nil {
		t.leave(c, p, machine.Action{}, proc)
		return machine.Action{}
	}
	a := t.inner.Choose(c, p)
	t.leave(c, p, a, proc)
	return a
}

// Pick lets the other one pick who comes behind a handler.
func (t *tracer) Pick() machine.Action {
	t.close()
	if p, ok := t.inner.(machine.Picker); ok {
		return p.Pick()
	}
	return machine.Action{}
}

// arrive notes what happened since c's last point and was told by nobody: the handler was
// delivered, or the lock was free at last.
func (t *tracer) arrive(c *machine.Ctx, p machine.Point, proc int) {
	if h := c.Running(); h != nil && t.seen[proc] != h.Delivered() {
		t.seen[proc] = h.Delivered()
		t.begin(c, evDeliver, h.Name)
		t.close()
	}
	if proc >= 0 && t.wait[proc].on && p.Kind != machine.KWait {
		t.acquire(c, proc)
		t.close()
	}
}

// acquire is the event of a lock that was not free when its point was passed.
func (t *tracer) acquire(c *machine.Ctx, proc int) {
	w := &t.wait[proc]
	t.begin(c, machine.KLock, w.field)
	for _, a := range w.touches {
		t.touch(a)
	}
	*w = waiting{}
}

// leave notes what happens at p.
func (t *tracer) leave(c *machine.Ctx, p machine.Point, a machine.Action, proc int) {
	h := c.Running()
	switch {
	case a.Kind == machine.Move:
		t.move(c, a.CPU)
	case (a.Kind == machine.SwitchTo || a.Kind == machine.Interrupt) && h != nil &&
		p.Kind == machine.KEnd && t.outermost(c):
		t.begin(c, evReturn, h.Name) // who was chosen comes behind it
	case a.Kind != machine.Go || p.Kind == machine.KWait:
	case p.Kind == machine.KEnd && h != nil:
		t.begin(c, evReturn, h.Name)
	case p.Kind == machine.KEnd:
	case p.Kind == machine.KLock && c.Waits():
		t.wait[proc] = waiting{on: true, field: p.Field.Name()}
	default:
		t.begin(c, p.Kind, p.Field.Name())
	}
}

// outermost says whether c is an idle CPU that runs one handler and nothing else.
func (t *tracer) outermost(c *machine.Ctx) bool {
	if t.b.Context(c, nil) >= 0 {
		return false
	}
	n := 0
	for _, h := range t.b.Handlers {
		if h != nil && h.Host() == c {
			n++
		}
	}
	return n == 1
}

// move is an event on the CPU that the task leaves and on the one that it comes to.
func (t *tracer) move(c *machine.Ctx, cpu int) {
	t.begin(c, evMove, "")
	t.cur.to = cpu
	t.cur.clock.join(&t.cpus[cpu])
	t.close()
}

// Touch adds to the event that is open.
func (t *tracer) Touch(c *machine.Ctx, a machine.Access) {
	proc := t.proc(c)
	w := &t.wait[max(proc, 0)]
	switch {
	case w.on && len(w.touches) == 0:
		w.touches = append(w.touches, a) // the lock itself, by who waits for it
	default:
		if w.on {
			t.acquire(c, proc)
		}
		if !t.open || t.cur.proc != proc {
			t.err = fmt.Errorf("an access of process %d outside its events", proc)
			break
		}
		t.touch(a)
	}
	if t.watch != nil {
		t.watch.Touch(c, a)
	}
}

// Begin is an event on the CPU.
func (t *tracer) Begin(c *machine.Ctx) {
	t.begin(c, evBegin, "")
	if t.watch != nil {
		t.watch.Begin(c)
	}
}
