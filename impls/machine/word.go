package machine

import (
	"sync/atomic"

	"allocfuzz/impls/fault"
)

// A Word is a shared word of class atomic, racy or per-CPU: every access is a
// point. Set it up with Init before the first access.
type Word struct {
	v     uint64
	f     *Field
	owner int32 // CPU that may write it, -1 when anybody may
}

// Init names the word, of any class but guarded and plain, and gives it a value. cpu is its
// owner when f is a per-CPU field and is not looked at otherwise.
func (w *Word) Init(f *Field, cpu int, v uint64) {
	f.want(f.Class != ClassGuarded, "use a GuardedWord")
	f.want(f.Class != ClassPlain, "use a PlainWord")
	w.f, w.v, w.owner = f, v, -1
	if f.Class == ClassPerCPU {
		f.want(cpu >= 0 && cpu < MaxCPUs, "a word of it needs its CPU")
		w.owner = int32(cpu)
	}
}

// Peek reads without a point, for snapshots at quiet points.
func (w *Word) Peek() uint64 { return atomic.LoadUint64(&w.v) }

// Poke writes without a point, for what is no step of what is tested.
func (w *Word) Poke(v uint64) { atomic.StoreUint64(&w.v, v) }

// Load reads the word.
func (w *Word) Load(c *Ctx) uint64 {
	if c.sim != nil {
		return w.simLoad(c)
	}
	return atomic.LoadUint64(&w.v)
}

func (w *Word) simLoad(c *Ctx) uint64 {
	c.point(KLoad, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(), Reads)
	}
	if r := c.sim.races; r != nil {
		r.load(c, w.f, &w.v)
	}
	v := c.seen(&w.v, w.v)
	c.sim.note(v)
	return v
}

// ReadOnce is Load: the compiler may not repeat or drop it.
func (w *Word) ReadOnce(c *Ctx) uint64 { return w.Load(c) }

// LoadAcquire is a load that later accesses cannot pass.
func (w *Word) LoadAcquire(c *Ctx) uint64 { return w.Load(c) }

// Store writes the word.
func (w *Word) Store(c *Ctx, v uint64) {
	if c.sim != nil {
		w.simStore(c, v)
		return
	}
	atomic.StoreUint64(&w.v, v)
}

func (w *Word) simStore(c *Ctx, v uint64) {
	c.plainPoint(KStore, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(), Writes)
	}
	w.checkOwner(c)
	if r := c.sim.races; r != nil {
		r.store(c, w.f, &w.v, false)
	}
	c.sim.note(v)
	c.write(w.f, &w.v, v)
}

// WriteOnce is Store: the compiler may not repeat or drop it.
func (w *Word) WriteOnce(c *Ctx, v uint64) { w.Store(c, v) }

// StoreRelease is a store that earlier accesses cannot pass.
func (w *Word) StoreRelease(c *Ctx, v uint64) { w.Store(c, v) }

func (w *Word) checkOwner(c *Ctx) {
	if w.owner >= 0 && int(w.owner) != c.cpu.ID {
		c.Fault(fault.ForeignPerCPU, "%s of CPU %d written by CPU %d", w.f.Name(), w.owner,
			c.cpu.ID)
	}
}

// Cmpxchg stores v when the word holds old and says whether it did: one step for
// every CPU.
func (w *Word) Cmpxchg(c *Ctx, old, v uint64) bool {
	if c.sim == nil {
		return atomic.CompareAndSwapUint64(&w.v, old, v)
	}
	c.point(KCmpxchg, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(), Writes)
	}
	c.fence()
	w.checkOwner(c)
	c.sim.note(w.v)
	w.exchanged(c, w.v == old, false)
	if w.v != old {
		return false
	}
	c.sim.note(v)
	w.v = v
	return true
}

// CmpxchgLocal is Cmpxchg of a word of this CPU. It excludes this CPU's
// interrupts, not other CPUs: between its load and its store another CPU may
// run. It is no fence.
func (w *Word) CmpxchgLocal(c *Ctx, old, v uint64) bool {
	if c.sim == nil {
		if atomic.LoadUint64(&w.v) != old {
			return false
		}
		atomic.StoreUint64(&w.v, v)
		return true
	}
	c.point(KCmpxchg, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(), c.localKind())
	}
	w.checkOwner(c)
	seen := c.seen(&w.v, w.v)
	c.sim.note(seen)
	w.exchanged(c, seen == old, true)
	if seen != old {
		return false
	}
	c.openWindow(w.f)
	if c.window && c.sim.watcher != nil {
		c.touch(w.object(), Writes)
	}
	c.sim.note(v)
	c.write(w.f, &w.v, v)
	c.closeWindow()
	return true
}

// Add adds n (modulo 2^64) in one step and returns the new value.
func (w *Word) Add(c *Ctx, n uint64) uint64 {
	if c.sim == nil {
		return atomic.AddUint64(&w.v, n)
	}
	c.point(KStore, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(), Writes)
	}
	c.fence()
	w.checkOwner(c)
	w.exchanged(c, true, false)
	w.v += n
	c.sim.note(w.v)
	return w.v
}

// exchanged notes what an exchange orders: one that fails is a load.
func (w *Word) exchanged(c *Ctx, done, local bool) {
	switch r := c.sim.races; {
	case r == nil:
	case done:
		r.exchange(c, w.f, &w.v, local)
	default:
		r.load(c, w.f, &w.v)
	}
}

// A DoubleWord is two words that a CmpxchgDouble changes together.
type DoubleWord struct{ A, B Word }

// CmpxchgDoubleLocal stores (a, b) when the pair holds (oldA, oldB): local to
// this CPU as CmpxchgLocal is.
func (d *DoubleWord) CmpxchgDoubleLocal(c *Ctx, old, v [2]uint64) bool {
	if c.sim == nil {
		return d.nativeSwap(old, v)
	}
	c.point(KCmpxchg, d.A.f)
	return d.simSwap(c, old, v)
}

func (d *DoubleWord) nativeSwap(old, v [2]uint64) bool {
	if d.A.Peek() != old[0] || d.B.Peek() != old[1] {
		return false
	}
	atomic.StoreUint64(&d.A.v, v[0])
	atomic.StoreUint64(&d.B.v, v[1])
	return true
}

// simSwap is what comes after the exchange's point: load, window, store.
func (d *DoubleWord) simSwap(c *Ctx, old, v [2]uint64) bool {
	if c.sim.watcher != nil {
		d.touch(c, c.localKind())
	}
	d.A.checkOwner(c)
	a, b := c.seen(&d.A.v, d.A.v), c.seen(&d.B.v, d.B.v)
	c.sim.note(a)
	c.sim.note(b)
	d.A.exchanged(c, a == old[0] && b == old[1], true)
	if a != old[0] || b != old[1] {
		return false
	}
	c.openWindow(d.A.f)
	if c.window && c.sim.watcher != nil {
		d.touch(c, Writes)
	}
	c.sim.note(v[0])
	c.sim.note(v[1])
	d.write(c, v)
	c.closeWindow()
	return true
}

// write stores both words so that nobody sees one without the other.
func (d *DoubleWord) write(c *Ctx, v [2]uint64) {
	if c.m.TSO {
		c.enter(heldStore{at: &d.A.v, v: v[0], f: d.A.f, joint: true},
			heldStore{at: &d.B.v, v: v[1], f: d.B.f})
		return
	}
	d.A.v, d.B.v = v[0], v[1]
}

// PerCPUDouble is a pair of words for each CPU, by its number. All have the same
// fields.
type PerCPUDouble []DoubleWord

// CmpxchgDoubleThisCPU is CmpxchgDoubleLocal of the pair of the CPU that carries it
// out (this_cpu_cmpxchg_double). Which one that is shows only at the step itself: a
// task that may be moved can have read its old values on another CPU, and finds out
// by them.
func (p PerCPUDouble) CmpxchgDoubleThisCPU(c *Ctx, old, v [2]uint64) bool {
	if c.sim == nil {
		return p[c.cpu.ID].nativeSwap(old, v)
	}
	c.point(KCmpxchg, p[0].A.f)
	return p[c.cpu.ID].simSwap(c, old, v)
}

// A Guard is what must be held to touch a guarded field: a spin lock, or
// interrupts off on one CPU (or that CPU's local lock).
type Guard struct {
	lock  *SpinLock
	local *LocalLock
	cpu   *CPU
}

// IRQsOffOn is the guard "interrupts off on this CPU".
func IRQsOffOn(cpu *CPU) Guard { return Guard{cpu: cpu} }

// Held says whether c holds g.
func (g *Guard) Held(c *Ctx) bool {
	switch {
	case g.lock != nil:
		return g.lock.HeldBy(c)
	case g.local != nil:
		return g.local.heldBy(c)
	case g.cpu != nil:
		return c.cpu == g.cpu && g.cpu.irqsOff
	}
	return false
}

func (g *Guard) name() string {
	switch {
	case g.lock != nil:
		return g.lock.f.Name()
	case g.local != nil:
		return "local lock " + g.local.f.Name()
	case g.cpu != nil:
		return "interrupts off on its CPU"
	}
	return "no guard set"
}

func (g *Guard) check(c *Ctx, f *Field) {
	if !g.Held(c) {
		c.Fault(fault.Unguarded, "%s without %s", f.Name(), g.name())
	}
}

// A GuardedWord is a shared word that may be touched only with its guard held:
// each access is checked and none is a point.
type GuardedWord struct {
	v uint64
	f *Field
	g Guard
}

// Init names the word, says what guards it, which holds whatever the class of f, and
// gives it a value.
func (w *GuardedWord) Init(f *Field, g Guard, v uint64) { w.f, w.g, w.v = f, g, v }

// Peek reads without a check, for snapshots at quiet points.
func (w *GuardedWord) Peek() uint64 { return w.v }

// Load reads the word.
func (w *GuardedWord) Load(c *Ctx) uint64 {
	if c.sim != nil {
		w.g.check(c, w.f)
	}
	return w.v
}

// Store writes the word.
func (w *GuardedWord) Store(c *Ctx, v uint64) {
	if c.sim != nil {
		w.g.check(c, w.f)
		c.sim.note(v)
	}
	w.v = v
}

// Add adds n (modulo 2^64) and returns the new value.
func (w *GuardedWord) Add(c *Ctx, n uint64) uint64 {
	w.Store(c, w.v+n)
	return w.v
}

// LoadMem reads the word of memory at a, for instance the link of a free object.
// Outside the arena and unaligned the run ends with a wild address.
func (c *Ctx) LoadMem(f *Field, a Addr) uint64 {
	if c.sim == nil {
		return c.m.atomicGet(a)
	}
	c.point(KMemLoad, f)
	if c.sim.watcher != nil {
		c.touchMem(a, 1, Reads)
	}
	v := c.seenMem(c.offset(f, a))
	if r := c.sim.races; r != nil {
		r.load(c, f, a)
	}
	c.sim.note(v)
	return v
}

// StoreMem writes the word of memory at a, of v as many bits as a word has.
func (c *Ctx) StoreMem(f *Field, a Addr, v uint64) {
	if c.sim == nil {
		c.m.atomicPut(a, v)
		return
	}
	c.plainPoint(KMemStore, f)
	if c.sim.watcher != nil {
		c.touchMem(a, 1, Writes)
	}
	c.sim.note(v)
	c.writeMem(f, c.offset(f, a), v)
	if r := c.sim.races; r != nil {
		r.store(c, f, a, false)
	}
}

// LoadMemGuarded reads the word of memory at a, which g guards: no point.
func (c *Ctx) LoadMemGuarded(f *Field, g Guard, a Addr) uint64 {
	if c.sim == nil {
		return c.m.atomicGet(a)
	}
	g.check(c, f)
	v := c.seenMem(c.offset(f, a))
	c.sim.note(v)
	return v
}

// StoreMemGuarded writes the word of memory at a, which g guards: no point.
func (c *Ctx) StoreMemGuarded(f *Field, g Guard, a Addr, v uint64) {
	if c.sim == nil {
		c.m.atomicPut(a, v)
		return
	}
	g.check(c, f)
	c.sim.note(v)
	off := c.offset(f, a)
	c.throughMem(off)
	c.m.put(off, v)
}

// MemGuarded returns n bytes of memory at a, which g guards, for reading and
// writing: no point. nil when they are not in the arena. What is written through it
// is no part of the trace.
func (c *Ctx) MemGuarded(f *Field, g Guard, a Addr, n int) []byte {
	if c.sim != nil {
		g.check(c, f)
	}
	return c.m.MemBytes(a, n)
}

// MemRacy is MemGuarded of memory that nothing guards: one point.
func (c *Ctx) MemRacy(f *Field, a Addr, n int) []byte {
	if c.sim != nil {
		c.point(KMemStore, f)
		if c.sim.watcher != nil && c.m.Contains(a, uint64(n)) {
			c.touchMem(a, uint64(n), Writes)
		}
	}
	return c.m.MemBytes(a, n)
}

// offset turns an address into an offset of the arena or ends the run.
func (c *Ctx) offset(f *Field, a Addr) int {
	n := uint64(c.m.WordBytes())
	if !c.m.Contains(a, n) || a%n != 0 {
		c.Die(fault.WildAddress, "%s at %#x, words of the arena are at %#x to %#x", f.Name(), a,
			c.m.Base, c.m.Base+(c.m.Bytes()-n))
	}
	return int(a - c.m.Base)
}
