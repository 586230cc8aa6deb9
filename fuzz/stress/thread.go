package stress

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/history"
)

// What a thread does at most at once.
const (
	bulkMax = 4  // objects of one bulk operation
	heldMax = 24 // objects of its own
	boxMax  = 16 // objects that wait for it
)

// An object is something live by the name that it has.
type object struct {
	slot  int32
	cache int32 // slot of its cache, or one of the two below
}

// Where an object is from, when it is of no cache.
const (
	bySize  int32 = -1
	byPages int32 = -2
)

// A queue hands objects from thread to thread.
type queue struct {
	mu   sync.Mutex
	list []object
}

// put adds an object; false when max are there.
func (q *queue) put(o object, max int) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) >= max {
		return false
	}
	q.list = append(q.list, o)
	return true
}

// take removes the first object; false when there is none.
func (q *queue) take() (o object, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.list) == 0 {
		return o, false
	}
	o, q.list = q.list[0], q.list[1:]
	return o, true
}

// A thread is one goroutine of a round.
type thread struct {
	d     *round
	n     int
	name  string
	cpu   int
	c     *machine.Ctx
	rng   *rand.Rand
	next  int32 // slot that it binds next
	held  []object
	box   queue
	step  play.Step
	many  play.BulkStep
	one   [1]impls.Event
	op    impls.Op
	print impls.Pattern
	steps atomic.Int64 // calls and returns, for the watch
	done  atomic.Int64 // operations that are over

	mu    sync.Mutex // what follows, which the watch looks at
	code  impls.Code
	since int64
	began bool // code means something
	busy  bool // … and is not over
	log   []history.Op
	at    []int // where in the log the events in hand are, -1 for nowhere
}

func newThread(d *round, n int, name string) *thread {
	return &thread{d: d, n: n, name: name, cpu: n % d.Threads, next: int32(n * d.slots()),
		rng:   rand.New(rand.NewPCG(d.Seed, uint64(d.n)<<16|uint64(d.w)<<8|uint64(n))),
		print: impls.Pattern(n*d.slots() + 1)}
}

// last is the operation that the thread has or had in hand.
func (t *thread) last() (code impls.Code, since int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.code, t.since, t.began
}

// pending is the operation that the thread is in the middle of.
func (t *thread) pending() (code impls.Code, since int64, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.code, t.since, t.busy
}

// stamp is the next moment; 0 in a round without stamps.
func (t *thread) stamp() int64 {
	t.steps.Add(1)
	if !t.d.timed {
		return 0
	}
	return t.d.clock.Add(1)
}

// calls notes that the operations of events are called.
func (t *thread) calls(events []impls.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.at = t.at[:0]
	for i := range events {
		ev := &events[i]
		t.code, t.since, t.began, t.busy = ev.Code, t.stamp(), true, true
		if !t.d.timed || !logged(ev) {
			t.at = append(t.at, -1)
			continue
		}
		t.at = append(t.at, len(t.log))
		o := history.Op{Client: t.n, Code: ev.Code, CPU: uint8(t.cpu), Line: -1, Call: t.since,
			Return: history.Pending}
		switch {
		case play.Frees(ev.Code):
			o.Old = history.Range{Addr: ev.Addr, Size: ev.Size}
		case ev.Code == impls.OpRealloc:
			o.Old = history.Range{Addr: ev.Old, Size: t.d.exec.Slot(int(t.op.Slot)).Size}
		}
		t.log = append(t.log, o)
	}
}

// logged says whether an event that begins is part of the history.
func logged(ev *impls.Event) bool {
	switch ev.Code {
	case impls.OpAlloc, impls.OpMalloc, impls.OpCalloc, impls.OpMemalign, impls.OpRealloc,
		impls.OpPages, impls.OpFree, impls.OpFreeSized, impls.OpPagesFree:
		return ev.Outcome == impls.OK
	}
	return false
}

// returns notes that they are over: it is called before anybody looks at what they gave.
func (t *thread) returns() (stamp int64) {
	stamp = t.stamp()
	t.mu.Lock()
	t.busy = false
	t.mu.Unlock()
	t.done.Add(1)
	return stamp
}

// ends completes the log.
func (t *thread) ends(stamp int64, events []impls.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, at := range t.at {
		if at < 0 {
			continue
		}
		ev, o := &events[i], &t.log[at]
		o.Return, o.Outcome = stamp, ev.Outcome
		if !play.Frees(ev.Code) && ev.Outcome == impls.OK {
			o.New = history.Range{Addr: ev.Addr, Size: ev.Size}
		}
	}
}

// do carries out t.op.
func (t *thread) do() *impls.Event {
	d := t.d
	if d.turns != nil {
		d.turns.Lock()
		defer d.turns.Unlock()
	}
	ev := &t.one[0]
	*ev = impls.Event{Ctx: uint8(t.n)}
	if !d.exec.Begin(t.c, &t.op, ev, &t.step) {
		t.steps.Add(1)
		return ev
	}
	t.calls(t.one[:])
	d.exec.Call(t.c, &t.step)
	stamp := t.returns()
	d.exec.End(t.c, &t.step)
	t.ends(stamp, t.one[:])
	t.check(ev)
	return ev
}

// doBulk carries out t.op, which is about several objects.
func (t *thread) doBulk() []impls.Event {
	d, b := t.d, &t.many
	if d.turns != nil {
		d.turns.Lock()
		defer d.turns.Unlock()
	}
	if !d.exec.BeginBulk(t.c, &t.op, &impls.Event{Ctx: uint8(t.n)}, b) {
		t.steps.Add(1)
		return b.Events
	}
	t.calls(b.Events)
	d.exec.CallBulk(t.c, b)
	stamp := t.returns()
	d.exec.EndBulk(t.c, b)
	t.ends(stamp, b.Events)
	for i := range b.Events {
		t.check(&b.Events[i])
	}
	return b.Events
}

// check holds an operation that is over against what every allocator promises.
func (t *thread) check(ev *impls.Event) {
	d := t.d
	if ev.Outcome != impls.OK {
		return
	}
	allocates := logged(ev) && !play.Frees(ev.Code)
	if allocates && ev.Addr != 0 {
		if !d.in.Memory().Contains(ev.Addr, ev.Size) {
			d.raise(t, fault.OutsideArena, "", "%#x, %d bytes", ev.Addr, ev.Size)
		}
		if align := max(ev.Align, 1); ev.Addr%align != 0 {
			d.raise(t, fault.Misaligned, "", "%#x to a multiple of %d", ev.Addr, align)
		}
	}
	if ev.Bad < 0 {
		return
	}
	title := fault.ContentsChanged
	switch {
	case ev.Code == impls.OpRealloc && ev.Bad < int64(ev.Usable):
		title = fault.PrefixLost
	case allocates:
		title = fault.NotZeroed
	}
	d.raise(t, title, "", "byte %d of %d at %#x", ev.Bad, ev.Size, ev.Addr)
}

// take makes the thread the owner of a CPU.
func (t *thread) take(cpu int) {
	t.cpu = cpu
	t.c = t.d.m.NativeCtx(cpu, t.name)
}

// work is what a thread does in a round.
func (t *thread) work() {
	t.take(t.cpu)
	for t.d.ready.Add(-1); t.d.ready.Load() > 0; { // so that they run side by side
		runtime.Gosched()
	}
	produces := t.n%2 == 0
	if t.d.w == Producer && produces {
		defer t.d.makers.Add(-1)
	}
	t.turns(produces)
	t.c.Release() // not behind a panic: what the thread left behind nobody may touch
}

// turns is one turn after the other.
func (t *thread) turns(produces bool) {
	for i := 0; !t.d.stop.Load(); i++ {
		t.c.Poll()
		if t.d.w == Producer && !produces {
			if !t.consume() {
				return
			}
			continue
		}
		if i >= t.d.Ops {
			return
		}
		t.turn(i)
	}
}

// turn is one turn of a thread that allocates.
func (t *thread) turn(i int) {
	if t.rng.IntN(16) == 0 {
		runtime.Gosched() // where there are more threads than processors
	}
	if t.d.w == Churn && i%16 == 15 {
		t.move()
	}
	if i%32 == 31 {
		t.housekeeping()
	}
	if o, ok := t.box.take(); ok {
		t.free(o)
	}
	if len(t.held) >= heldMax || len(t.held) > 0 && t.rng.IntN(3) == 0 {
		t.release()
		return
	}
	t.allocate()
}

// consume frees what a producer made; false when there is nothing more to come.
func (t *thread) consume() bool {
	last := t.d.makers.Load() == 0
	o, ok := t.d.queue.take()
	if ok {
		t.free(o)
		return true
	}
	runtime.Gosched()
	return !last
}

// release gives up one of the objects of the thread, itself or by way of another one.
func (t *thread) release() {
	d, i := t.d, t.rng.IntN(len(t.held))
	o := t.held[i]
	if t.rng.IntN(4) == 0 && o.cache == bySize && t.realloc(o) {
		return
	}
	t.held[i] = t.held[len(t.held)-1]
	t.held = t.held[:len(t.held)-1]
	next := d.threads[(t.n+1)%d.Threads]
	switch {
	case d.w == Producer:
		for !d.queue.put(o, boxMax) {
			t.c.Poll()
			runtime.Gosched()
			if d.stop.Load() {
				t.held = append(t.held, o)
				return
			}
		}
		return
	case d.w == Remote || d.w == Churn && t.rng.IntN(2) == 0:
		if next.box.put(o, boxMax) {
			return
		}
	}
	t.free(o)
}

// free gives an object back.
func (t *thread) free(o object) {
	t.op = impls.Op{Code: impls.OpFree, Cache: o.cache, Slot: o.slot, Result: -1}
	if o.cache == byPages {
		t.op.Code, t.op.Cache = impls.OpPagesFree, -1
	}
	t.do()
}

// slot is a name that was not used yet; false when all are.
func (t *thread) slot(n int) (first int32, ok bool) {
	first = t.next
	if int(first)+n > (t.n+1)*t.d.slots() {
		return 0, false
	}
	t.next += int32(n)
	return first, true
}

// pattern is the next one of the thread.
func (t *thread) pattern() impls.Pattern {
	t.print = t.print.Next()
	return t.print
}

// allocate gets an object of some kind that the subject has.
func (t *thread) allocate() {
	slot, ok := t.slot(1)
	if !ok {
		return
	}
	caps := t.d.v.Caps
	t.op = impls.Op{Cache: -1, Slot: -1, Result: slot, Pattern: t.pattern()}
	if t.rng.IntN(6) == 0 && caps.Has(impls.CapZero) {
		t.op.Flags = impls.FlagZero
	}
	o := object{slot, bySize}
	kind := t.rng.IntN(16)
	switch {
	case kind < 2 && caps.Has(impls.CapBulk):
		t.allocateBulk()
		return
	case kind < 9 && caps.Has(impls.CapObjects):
		t.op.Code, t.op.Cache = impls.OpAlloc, int32(t.rng.IntN(2))
		o.cache = t.op.Cache
	case kind < 10 && caps.Has(impls.CapAlign|impls.CapSizes):
		t.op.Code, t.op.Arg, t.op.Flags = impls.OpMemalign, 8<<t.rng.IntN(6), 0
		t.op.Size = t.size()
	case kind < 15 && caps.Has(impls.CapSizes):
		t.op.Code, t.op.Size = impls.OpMalloc, t.size()
	case caps.Has(impls.CapPages):
		t.op.Code, t.op.Size = impls.OpPages, uint64(t.rng.IntN(3))
		o.cache = byPages
	default:
		t.op.Code, t.op.Size = impls.OpMalloc, t.size()
	}
	if t.do().Outcome == impls.OK {
		t.held = append(t.held, o)
	}
}

// size is a request in bytes, mostly a small one.
func (t *thread) size() uint64 {
	if t.rng.IntN(8) == 0 {
		return 1 + t.rng.Uint64N(6000)
	}
	return 1 + t.rng.Uint64N(256)
}

// allocateBulk gets several objects in one call, and gives some of them back in one.
func (t *thread) allocateBulk() {
	n := 2 + t.rng.IntN(bulkMax-1)
	first, ok := t.slot(n)
	if !ok {
		return
	}
	op := impls.Op{Code: impls.OpAllocBulk, Cache: int32(t.rng.IntN(2)), Slot: -1, Result: -1,
		Pattern: t.pattern()}
	for i := range n {
		op.Slots = append(op.Slots, first+int32(i))
		t.print = t.print.Next() // each object has one of its own
	}
	t.op = op
	if t.doBulk()[0].Outcome != impls.OK {
		return
	}
	if t.d.w != Producer && t.rng.IntN(2) == 0 {
		t.op = impls.Op{Code: impls.OpFreeBulk, Cache: op.Cache, Slot: -1, Result: -1,
			Slots: op.Slots}
		t.doBulk()
		return
	}
	for _, slot := range op.Slots {
		t.held = append(t.held, object{slot, op.Cache})
	}
}

// realloc changes the size of an object; false when the subject cannot.
func (t *thread) realloc(o object) bool {
	if !t.d.v.Caps.Has(impls.CapRealloc) {
		return false
	}
	t.op = impls.Op{Code: impls.OpRealloc, Cache: -1, Slot: o.slot, Result: o.slot,
		Size: t.size(), Pattern: t.pattern()}
	t.do()
	return true
}

// housekeeping is what a kernel does now and then.
func (t *thread) housekeeping() {
	codes := [...]impls.Code{impls.OpShrink, impls.OpFlush, impls.OpReap, impls.OpDrain}
	t.op = impls.Op{Code: codes[t.rng.IntN(len(codes))], Slot: -1, Result: -1}
	t.op.Cache = int32(t.rng.IntN(2))
	if t.op.Code == impls.OpReap || t.op.Code == impls.OpDrain {
		t.op.Cache = -1
	}
	t.do()
}

// move gives the CPU up, and goes on on the one that nobody has. From there it sees to it that
// nothing is held for the old one.
func (t *thread) move() {
	d, old := t.d, t.cpu
	t.c.Release() // first: whoever waits for a CPU must not keep others waiting for his own
	d.moving.Lock()
	defer d.moving.Unlock()
	t.take(d.spare)
	t.op = impls.Op{Code: impls.OpOffline, Cache: -1, Slot: -1, Result: -1, Size: uint64(old)}
	if ev := t.do(); ev.Outcome == impls.Refused {
		d.raise(t, fault.OutcomesDiffer, "", "CPU %d, which nobody has, cannot go out of use", old)
	}
	d.spare = old
}
