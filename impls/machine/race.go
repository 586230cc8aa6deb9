package machine

import (
	"fmt"

	"allocfuzz/impls/fault"
)

// This file is the order of things: which of two accesses happened before the other for a
// reason, and not just so in this run. It is kept for plain words only, see PlainWord, and
// while a machine has none it costs one test a point.
//
// Each task and each handler is a thread with a clock, a vector of how far it knows every
// thread. A call on another CPU is a part of its caller's thread. What orders goes into two
// clocks. One holds what orders contexts wherever they run: locks, atomic words, read
// sections, names of the program. The other holds in addition that sections of one CPU exclude
// each other, those with interrupts off and handlers on the one hand, those of tasks that cannot
// be preempted on the other. Such sections come in any order. So for two accesses on one CPU
// they prove nothing but that neither comes in the middle of the other, which is asked for
// directly (mark.open): a handler that came long after the section with interrupts off
// which came after the access could have come in the middle of the access as well.
// Between CPUs they order as locks do.

// A vclock is how far each thread is known, by its number.
type vclock []uint32

func (v vclock) at(slot int) uint32 {
	if slot < len(v) {
		return v[slot]
	}
	return 0
}

func (v *vclock) set(slot int, n uint32) {
	for len(*v) <= slot {
		*v = append(*v, 0)
	}
	(*v)[slot] = n
}

func (v *vclock) join(w vclock) {
	for len(*v) < len(w) {
		*v = append(*v, 0)
	}
	for i, n := range w {
		(*v)[i] = max((*v)[i], n)
	}
}

// A clock is what is known by all reasons, and by those only that hold wherever one runs.
type clock struct {
	all, firm vclock
	cpu       *CPU // of what only its own CPU sees in order; nil for all
}

func (k *clock) join(l *clock) {
	k.all.join(l.all)
	k.firm.join(l.firm)
}

// A thread is a task or a handler.
type thread struct {
	of   *races // whose number it has; another run's number is no number
	slot int
	clock
	at standing // since its last point
}

// A standing is what keeps others out.
type standing struct {
	cpu    *CPU
	noIRQs bool // its CPU's handlers, being one or with interrupts off
	alone  bool // its CPU's tasks, being one that cannot be preempted
}

// races is the order of one run, from the first plain word on: before that there is nothing
// to be ordered.
type races struct {
	threads []*thread
	base    clock          // what all knew when nothing ran last
	clocks  map[any]*clock // of words and locks, by their address
	noIRQs  []vclock       // of each CPU: what its sections that exclude each other know
	alone   []vclock
	// Of read sections: what was known where they ended, where callbacks were handed
	// over, where callbacks began and where they ended.
	ended, queued, begun, done clock
}

func (s *Sim) trackRaces() {
	if s.races == nil {
		n := len(s.m.cpus)
		s.races = &races{clocks: map[any]*clock{}, noIRQs: make([]vclock, n),
			alone: make([]vclock, n)}
	}
}

// thread is that of c's innermost frame.
func (r *races) thread(c *Ctx) *thread {
	t := c.f.thread
	if t.of != r {
		*t = thread{of: r, slot: len(r.threads)}
		r.threads = append(r.threads, t)
		t.join(&r.base)
		t.tick()
	}
	return t
}

// tick makes what t does from now on unknown to everybody else.
func (t *thread) tick() {
	n := t.all.at(t.slot) + 1
	t.all.set(t.slot, n)
	t.firm.set(t.slot, n)
}

// before comes before each point: until here c was in the section that it was in at its
// last one.
func (r *races) before(c *Ctx) {
	t := r.thread(c)
	if t.at.noIRQs {
		r.noIRQs[t.at.cpu.ID].join(t.all)
	}
	if t.at.alone {
		r.alone[t.at.cpu.ID].join(t.all)
	}
	if t.at.noIRQs || t.at.alone {
		t.tick()
	}
}

// behind comes behind each point, when all that came in between has run.
func (r *races) behind(c *Ctx) {
	t := r.thread(c)
	t.at = standing{c.cpu, c.depth > 0 || c.cpu.irqsOff, c.depth == 0 && !c.open()}
	if t.at.noIRQs {
		t.all.join(r.noIRQs[c.cpu.ID])
	}
	if t.at.alone {
		t.all.join(r.alone[c.cpu.ID])
	}
}

// open says whether another task could come between any two steps of c.
func (c *Ctx) open() bool {
	return c.depth == 0 && !c.cpu.irqsOff && c.cpu.preempt == 0 && c.m.Preempt != PreemptNone
}

// leaveOrder ends what is nested on c: who comes next on this CPU will not wait for its next
// point.
func (c *Ctx) leaveOrder() {
	if r := c.sim.races; r != nil {
		r.before(c)
		r.thread(c).at = standing{}
	}
}

// ordering is the order of the run, nil while none is kept and natively.
func (c *Ctx) ordering() *races {
	if c.sim == nil {
		return nil
	}
	return c.sim.races
}

// took and left order those who hold a lock, by its address.
func (c *Ctx) took(lock any) {
	if r := c.sim.races; r != nil {
		r.acquire(c, r.of(lock))
	}
}

func (c *Ctx) left(lock any) {
	if r := c.sim.races; r != nil {
		r.release(c, r.of(lock))
	}
}

// level orders all threads: nothing runs, and whatever comes next comes behind everything.
func (r *races) level() {
	for _, t := range r.threads {
		r.base.join(&t.clock)
	}
	for _, t := range r.threads {
		t.join(&r.base)
		t.tick()
	}
}

// of is the clock of what is ordered by the address at.
func (r *races) of(at any) *clock {
	k := r.clocks[at]
	if k == nil {
		k = &clock{}
		r.clocks[at] = k
	}
	return k
}

// acquire lets c know what was released into k.
func (r *races) acquire(c *Ctx, k *clock) {
	if k.cpu == nil || k.cpu == c.cpu {
		r.thread(c).join(k)
	}
}

// release lets k know what c knows, with all that k knew.
func (r *races) release(c *Ctx, k *clock) {
	t := r.thread(c)
	k.join(&t.clock)
	t.tick()
}

// orders says whether accesses to f order those who make them. Who reads what may be out of
// date knows nothing of who wrote it.
func (f *Field) orders() bool { return f.Class == ClassAtomic || f.Class == ClassPerCPU }

// load is a load of f at an address.
func (r *races) load(c *Ctx, f *Field, at any) {
	if !f.orders() {
		return
	}
	if k := c.cpu.heldClock(at); k != nil {
		r.acquire(c, k) // c sees the store of its CPU before others do
	} else if k := r.clocks[at]; k != nil {
		r.acquire(c, k)
	}
}

// store is a store to f at an address. Who loads the value from there knows what c knows, and
// nothing of who stored before. A local one says nothing to other CPUs.
func (r *races) store(c *Ctx, f *Field, at any, local bool) {
	if !f.orders() {
		return
	}
	k := &clock{}
	if c.withheld() {
		c.news = append(c.news, news{at, k}) // told when the store is
	} else {
		k = r.of(at)
		k.all, k.firm, k.cpu = k.all[:0], k.firm[:0], nil
	}
	if local || f.Class == ClassPerCPU {
		k.cpu = c.cpu
	}
	r.release(c, k)
}

// news is what those who load from an address know when a store that is held back is made.
type news struct {
	at any
	k  *clock
}

// exchange is a load and a store in one.
func (r *races) exchange(c *Ctx, f *Field, at any, local bool) {
	r.load(c, f, at)
	r.store(c, f, at, local)
}

// Meet orders c behind everybody who met at w before, and all who come later behind c: a name
// of the program is handed on there. It is no point, and natively and without a context, when
// nothing runs yet, it is nothing.
func (w *Word) Meet(c *Ctx) {
	if c == nil {
		return
	}
	if r := c.ordering(); r != nil {
		k := r.of(&w.v)
		r.acquire(c, k)
		r.release(c, k)
	}
}

// A PlainWord is a shared word of class plain. Each access is a point, where others may come
// between, and two accesses by different contexts, one of them a write, with nothing that orders
// them are a data race: in any run in which both happen, however far apart. Natively they are
// plain accesses, which the race detector of Go sees.
type PlainWord struct {
	v     uint64
	f     *Field
	marks []mark
	told  bool
}

// Init names the word and gives it a value. On a simulated machine the order of things is
// kept from here to the next Reset.
func (w *PlainWord) Init(m *Machine, f *Field, v uint64) {
	f.want(f.Class == ClassPlain, "use a Word or a GuardedWord")
	w.f, w.v, w.marks, w.told = f, v, w.marks[:0], false
	if m.sim != nil {
		m.sim.trackRaces()
	}
}

// Peek reads without a point, for snapshots at quiet points.
func (w *PlainWord) Peek() uint64 { return w.v }

// Load reads the word.
func (w *PlainWord) Load(c *Ctx) uint64 {
	if c.sim != nil {
		c.point(KLoad, w.f)
		if c.sim.watcher != nil {
			c.touch(w.f.hash, Reads)
		}
		w.touch(c, false)
		v := c.seen(&w.v, w.v)
		c.sim.note(v)
		return v
	}
	return w.v
}

// Store writes the word.
func (w *PlainWord) Store(c *Ctx, v uint64) {
	if c.sim != nil {
		c.plainPoint(KStore, w.f)
		if c.sim.watcher != nil {
			c.touch(w.f.hash, Writes)
		}
		w.touch(c, true)
		c.sim.note(v)
		c.write(w.f, &w.v, v)
		return
	}
	w.v = v
}

// Add adds n (modulo 2^64) and returns the new value: a load and a store.
func (w *PlainWord) Add(c *Ctx, n uint64) uint64 {
	v := w.Load(c) + n
	w.Store(c, v)
	return v
}

// A mark is what is kept of an access: who made it, when, and what could come in its middle.
type mark struct {
	thread *thread
	now    uint32 // on the thread's own clock
	write  bool
	cpu    *CPU
	nested bool // in a handler or call
	irqsOn bool
	open   bool // to tasks of its CPU
	prio   int
	by     string
	pos    int
}

func (r *races) mark(c *Ctx, write bool) mark {
	t := r.thread(c)
	return mark{thread: t, now: t.all[t.slot], write: write, cpu: c.cpu, nested: c.depth > 0,
		irqsOn: !c.cpu.irqsOff, open: c.open(), prio: c.prio, by: c.Where().Task, pos: c.f.pos}
}

// alike says whether b makes a superfluous: whatever is unordered to a later is so to b.
func (a *mark) alike(b *mark) bool {
	return a.thread == b.thread && a.write == b.write && a.cpu == b.cpu && a.nested == b.nested &&
		a.irqsOn == b.irqsOn && a.open == b.open
}

// takes says whether b, on the same CPU, could come in the middle of a.
func (a *mark) takes(b *mark) bool {
	if b.nested {
		return a.irqsOn
	}
	return a.open && b.prio >= a.prio
}

// races says whether nothing orders a before b, which happens now.
func (a *mark) races(b *mark) bool {
	if a.thread == b.thread || !a.write && !b.write {
		return false
	}
	if a.cpu == b.cpu {
		return (a.takes(b) || b.takes(a)) && b.thread.firm.at(a.thread.slot) < a.now
	}
	return b.thread.all.at(a.thread.slot) < a.now
}

// touch notes an access and compares it with those before. It is told once a word.
func (w *PlainWord) touch(c *Ctx, write bool) {
	r := c.sim.races
	if r == nil {
		panic("allocfuzz: " + w.f.name + " is used and was not made for this run: call Init")
	}
	now := r.mark(c, write)
	found := -1
	for i := range w.marks {
		if a := &w.marks[i]; a.races(&now) && !w.told {
			w.told = true
			c.Fault(fault.DataRace, "%s: %s, then %s, and nothing orders them", w.f.Name(),
				a.say(c.sim), now.say(c.sim))
		} else if a.alike(&now) {
			found = i
		}
	}
	if found < 0 {
		w.marks = append(w.marks, now)
		return
	}
	w.marks[found] = now
}

// say describes the access for people.
func (a *mark) say(s *Sim) string {
	what, how := "read", "with interrupts off"
	if a.write {
		what = "written"
	}
	switch {
	case a.irqsOn && a.nested:
		how = "in an interrupt"
	case a.irqsOn:
		how = "with interrupts on"
	}
	return fmt.Sprintf("%s by %s (%s, CPU %d, %s)", what, a.by, s.nameLine(a.pos), a.cpu.ID, how)
}
