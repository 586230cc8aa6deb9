package machine

import (
	"strings"

	"allocfuzz/impls/fault"
)

// Flags is what IRQSave returns and IRQRestore takes: whether interrupts were on.
type Flags bool

// A SpinLock is held by one context at a time; others spin. Holding one disables
// preemption. Its class is its field: all locks of one field obey one order.
type SpinLock struct {
	f      *Field
	rank   int
	owner  *Ctx
	depth  int // of the owner's handlers: what is nested on the owner does not hold l
	object uint64
	native nativeLock
}

// Init names the lock and makes it free. Locks are taken in order of falling rank:
// while one is held only locks of a lower rank may be taken.
func (l *SpinLock) Init(f *Field, rank int) {
	l.f, l.rank, l.object = f, rank, f.hash
	l.reset()
}

func (l *SpinLock) reset() {
	l.owner = nil
	l.native = nativeLock{}
}

// Guard is the guard "l is held".
func (l *SpinLock) Guard() Guard { return Guard{lock: l} }

// HeldBy says whether c holds l.
func (l *SpinLock) HeldBy(c *Ctx) bool { return l.owner == c && l.depth == c.depth }

// Held says whether anybody holds l, for snapshots.
func (l *SpinLock) Held() bool { return l.owner != nil }

// Ready says whether l can be taken.
func (l *SpinLock) Ready(*Ctx) bool { return l.owner == nil }

// Lock takes l, spinning while another context holds it. To wait for a holder
// that cannot run before the waiter is a deadlock and ends the run.
func (l *SpinLock) Lock(c *Ctx) {
	if c.sim == nil {
		l.native.lock()
		l.owner = c
		return
	}
	c.wait.want = l
	c.point(KLock, l.f)
	c.wait.want = nil
	if c.sim.watcher != nil {
		c.touch(l.object, Acquires)
	}
	c.fence()
	c.cpu.preempt++
	c.sim.checkLock(c, l)
	if l.owner != nil {
		l.spin(c)
	}
	l.take(c)
}

func (l *SpinLock) take(c *Ctx) {
	l.owner, l.depth = c, c.depth
	c.held = append(c.held, l)
	c.took(l)
}

func (l *SpinLock) spin(c *Ctx) {
	if l.owner == c || l.owner.cpu == c.cpu {
		c.Die(fault.Deadlock, "%s waits for %s, which %s took on the same CPU in %s",
			c.Where().Task, l.f.Name(), l.owner.nameAt(l.depth), l.owner.lineAt(l.depth))
	}
	c.block(l, l.f)
}

// TryLock takes l when nobody holds it and says whether it did. It cannot wait,
// so the rules about order do not bind it.
func (l *SpinLock) TryLock(c *Ctx) bool {
	if c.sim == nil {
		if !l.native.tryLock() {
			return false
		}
		l.owner = c
		return true
	}
	c.point(KLock, l.f)
	if c.sim.watcher != nil {
		c.touch(l.object, Writes)
	}
	if l.owner != nil {
		return false
	}
	c.fence()
	c.cpu.preempt++
	c.sim.checkIRQ(c, l.f, true)
	l.take(c)
	return true
}

// Unlock releases l. To release what c does not hold is a finding and changes
// nothing; natively it is a harness fault.
func (l *SpinLock) Unlock(c *Ctx) {
	if c.sim == nil {
		if l.owner != c {
			panic("allocfuzz: unlock of " + l.f.Name() + ", which this context does not hold")
		}
		l.owner = nil
		l.native.unlock()
		return
	}
	c.point(KUnlock, l.f)
	if c.sim.watcher != nil {
		c.touch(l.object, Releases)
	}
	if !l.HeldBy(c) {
		c.Fault(fault.StateLeaked, "unlock of %s, which %s does not hold", l.f.Name(),
			c.Where().Task)
		return
	}
	c.drop(l)
	c.resched()
}

// drop makes l free, which c holds. Whoever takes it next sees what c did with it held.
func (c *Ctx) drop(l *SpinLock) {
	c.fence()
	c.left(l)
	l.owner = nil
	c.cpu.preempt--
	for i := len(c.held) - 1; i >= 0; i-- {
		if c.held[i] == l {
			c.held = append(c.held[:i], c.held[i+1:]...)
			return
		}
	}
}

// LockIRQSave turns interrupts off and takes l.
func (l *SpinLock) LockIRQSave(c *Ctx) Flags {
	flags := c.IRQSave()
	l.Lock(c)
	return flags
}

// UnlockIRQRestore releases l and puts interrupts back.
func (l *SpinLock) UnlockIRQRestore(c *Ctx, flags Flags) {
	l.Unlock(c)
	c.IRQRestore(flags)
}

// A LocalLock protects one CPU's data against its own interrupts and tasks. On a
// machine without real-time preemption it is interrupts off; with it, a lock
// that sleeps and keeps its holder on the CPU.
type LocalLock struct {
	f      *Field
	cpu    *CPU
	owner  *Ctx
	native nativeLock
}

// Init names the lock, gives it its CPU and makes it free.
func (l *LocalLock) Init(f *Field, cpu *CPU) {
	l.f, l.cpu, l.owner = f, cpu, nil
	l.native = nativeLock{}
}

// number is that of l as an object that steps touch.
func (l *LocalLock) number() uint64 { return mix(l.f.hash, uint64(l.cpu.ID)) }

// Guard is the guard "l is held".
func (l *LocalLock) Guard() Guard { return Guard{local: l} }

// Ready says whether l can be taken.
func (l *LocalLock) Ready(*Ctx) bool { return l.owner == nil }

func (l *LocalLock) heldBy(c *Ctx) bool {
	if c.m.Preempt == PreemptRT {
		return l.owner == c && c.depth == 0
	}
	return c.cpu == l.cpu && l.cpu.irqsOff
}

// Lock takes l, the lock of the CPU that c is on; c stays there until Unlock. On a
// machine without real-time preemption c may still be moved before interrupts are
// off, so read CPUID again afterwards.
func (l *LocalLock) Lock(c *Ctx) Flags {
	if c.sim == nil {
		l.native.lock()
		l.owner = c
		return true
	}
	if c.m.Preempt != PreemptRT {
		return c.IRQSave()
	}
	c.noMigrate++
	if l.cpu != c.cpu {
		c.Fault(fault.ForeignPerCPU, "local lock %s of CPU %d taken by CPU %d", l.f.Name(),
			l.cpu.ID, c.cpu.ID)
	}
	if !c.maySleep() {
		c.mustSleep("local lock " + l.f.Name())
	}
	c.sim.checkLocals(c, l.f)
	c.wait.want = l
	c.point(KLock, l.f)
	c.wait.want = nil
	if c.sim.watcher != nil {
		c.touch(l.number(), Acquires)
	}
	c.fence()
	if l.owner == c {
		c.Die(fault.Deadlock, "%s waits for local lock %s, which it took itself in %s",
			c.Where().Task, l.f.Name(), c.lineAt(0))
	}
	if l.owner != nil {
		c.sleep(l, l.f)
	}
	l.owner = c
	c.locals = append(c.locals, l)
	c.took(l)
	return true
}

// Unlock releases l, see SpinLock.Unlock. On a real-time machine a handler that
// waits for it takes over at once.
func (l *LocalLock) Unlock(c *Ctx, flags Flags) {
	if c.sim != nil && c.m.Preempt != PreemptRT {
		c.IRQRestore(flags)
		return
	}
	if c.sim == nil {
		if l.owner != c {
			panic("allocfuzz: unlock of local lock " + l.f.Name() +
				", which this context does not hold")
		}
		l.owner = nil
		l.native.unlock()
		return
	}
	c.point(KUnlock, l.f)
	if c.sim.watcher != nil {
		c.touch(l.number(), Releases)
	}
	if !l.heldBy(c) {
		c.Fault(fault.StateLeaked, "unlock of local lock %s, which %s does not hold", l.f.Name(),
			c.Where().Task)
		return
	}
	c.dropLocal(l)
	c.resched()
}

// dropLocal makes l free, which c holds.
func (c *Ctx) dropLocal(l *LocalLock) {
	c.fence()
	c.left(l)
	l.owner = nil
	c.noMigrate--
	for i := len(c.locals) - 1; i >= 0; i-- {
		if c.locals[i] == l {
			c.locals = append(c.locals[:i], c.locals[i+1:]...)
			return
		}
	}
}

// lockClass is what the rules remember of all locks of one field in one run.
type lockClass struct {
	f             *Field
	inIRQ, irqsOn bool
	told          bool // that both hold
	over          bool // that a lock which interrupts take is held when this one is taken
	used          bool
	before        []uint64 // bit per class: classes that were held when this one was taken
}

// lockRules are the lock classes, by number of their field: a graph of what was taken while
// what was held.
type lockRules struct {
	classes       []lockClass
	used          []uint32
	inIRQ, irqsOn bool     // of any class
	from          []uint32 // of a walk: where it came from, and 1
	stack         []uint32
}

func newLockRules() lockRules {
	words := (len(fields) + 63) / 64
	bits := make([]uint64, len(fields)*words)
	r := lockRules{classes: make([]lockClass, len(fields)), from: make([]uint32, len(fields))}
	for i := range r.classes {
		r.classes[i].before = bits[i*words : (i+1)*words : (i+1)*words]
	}
	return r
}

func (r *lockRules) reset() {
	for _, id := range r.used {
		k := &r.classes[id]
		clear(k.before)
		*k = lockClass{before: k.before}
	}
	r.used, r.inIRQ, r.irqsOn = r.used[:0], false, false
}

func (r *lockRules) class(f *Field) *lockClass {
	k := &r.classes[f.id]
	if !k.used {
		k.used, k.f = true, f
		r.used = append(r.used, f.id)
	}
	return k
}

// walk goes from a lock to those that were held when it was taken, and so on, and returns the
// way to the first one that ends it, in the order in which they are taken; nil when there is
// none.
func (r *lockRules) walk(start *Field, ends func(*lockClass) bool) []string {
	clear(r.from)
	r.stack = append(r.stack[:0], start.id)
	r.from[start.id] = start.id + 1
	for len(r.stack) > 0 {
		id := r.stack[len(r.stack)-1]
		r.stack = r.stack[:len(r.stack)-1]
		if id != start.id && ends(&r.classes[id]) {
			return r.way(id, start.id)
		}
		for _, prior := range r.used {
			bit := r.classes[id].before[prior/64] >> (prior % 64) & 1
			if bit != 0 && r.from[prior] == 0 {
				r.from[prior] = id + 1
				r.stack = append(r.stack, prior)
			}
		}
	}
	return nil
}

func (r *lockRules) way(id, start uint32) []string {
	names := []string{r.classes[id].f.Name()}
	for id != start {
		id = r.from[id] - 1
		names = append(names, r.classes[id].f.Name())
	}
	return names
}

// checkLock applies the lock rules when c is about to take l.
func (s *Sim) checkLock(c *Ctx, l *SpinLock) {
	s.checkIRQ(c, l.f, false)
	for _, h := range c.held {
		if h.depth != c.depth || h == l {
			continue
		}
		if h.rank <= l.rank {
			c.Fault(fault.LockOrder, "%s (rank %d) taken while %s (rank %d) is held", l.f.Name(),
				l.rank, h.f.Name(), h.rank)
			continue
		}
		s.checkOrder(c, h.f, l.f)
	}
	s.checkLocals(c, l.f)
}

// checkLocals applies them to the local locks that a task holds when it takes a lock of f.
func (s *Sim) checkLocals(c *Ctx, f *Field) {
	for _, h := range c.locals {
		if c.depth == 0 {
			s.checkOrder(c, h.f, f)
		}
	}
}

// checkOrder notes that a lock of l is taken while one of h is held. Two locks of one class
// have the order of their ranks. Where others close a circle, every two neighbours of it
// were taken in a good order, and one CPU each can wait for the next.
func (s *Sim) checkOrder(c *Ctx, h, l *Field) {
	k := s.locks.class(l)
	bit := uint64(1) << (h.id % 64)
	if k.before[h.id/64]&bit != 0 {
		return
	}
	s.locks.class(h)
	k.before[h.id/64] |= bit
	way := s.locks.walk(h, func(k *lockClass) bool { return k.f == l })
	switch {
	case len(way) == 2:
		c.Fault(fault.LockOrder, "%s and %s are taken in both orders", h.Name(), l.Name())
	case way != nil:
		c.Fault(fault.LockOrder, "each of these is held while the next is taken: %s, %s",
			strings.Join(way, ", "), way[0])
	}
	s.checkOver(c)
}

// checkIRQ notes in which state of interrupts a lock of f is taken. Who only tries does not
// wait for what it interrupted, but may be waited for.
func (s *Sim) checkIRQ(c *Ctx, f *Field, try bool) {
	k := s.locks.class(f)
	inIRQ, irqsOn := k.inIRQ, k.irqsOn
	switch {
	case c.depth > 0:
		k.inIRQ = k.inIRQ || !try
	case !c.cpu.irqsOff:
		k.irqsOn = true
	}
	if k.inIRQ == inIRQ && k.irqsOn == irqsOn {
		return
	}
	s.locks.inIRQ, s.locks.irqsOn = s.locks.inIRQ || k.inIRQ, s.locks.irqsOn || k.irqsOn
	if k.inIRQ && k.irqsOn && !k.told {
		k.told = true
		c.Fault(fault.LockIRQ, "%s", f.Name())
	}
	s.checkOver(c)
}

// checkOver looks for a lock that is taken with interrupts on while one is held that interrupts
// take: the one CPU that holds the first is interrupted and waits for the second, whose holder
// waits for the first.
func (s *Sim) checkOver(c *Ctx) {
	r := &s.locks
	if !r.inIRQ || !r.irqsOn {
		return
	}
	for _, id := range r.used {
		k := &r.classes[id]
		if !k.irqsOn || k.inIRQ || k.over {
			continue
		}
		if way := r.walk(k.f, func(k *lockClass) bool { return k.inIRQ }); way != nil {
			k.over = true
			c.Fault(fault.LockIRQ, "%s is taken with interrupts on, and with %s held, which "+
				"interrupts take (%s)", k.f.Name(), way[0], strings.Join(way, ", then "))
		}
	}
}
