package machine

import "allocfuzz/impls/fault"

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
	c.want = l
	c.point(KLock, l.f)
	c.want = nil
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
}

func (l *SpinLock) spin(c *Ctx) {
	if l.owner == c || l.owner.cpu == c.cpu {
		c.Die(fault.Deadlock, "%s waits for %s, which %s holds on the same CPU", c.Where().Task,
			l.f.Name(), l.owner.name)
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
	c.sim.checkIRQ(c, l, true)
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

// lockClass is what the rules remember of all locks of one field.
type lockClass struct {
	inIRQ, irqsOn bool
	told          bool
	used          bool
	before        []uint64 // bit per class: classes that were held when this one was taken
}

// lockRules are the lock classes, by number of their field.
type lockRules struct {
	classes []lockClass
	used    []uint32
}

func newLockRules() lockRules {
	words := (len(fields) + 63) / 64
	bits := make([]uint64, len(fields)*words)
	r := lockRules{classes: make([]lockClass, len(fields))}
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
	r.used = r.used[:0]
}

func (r *lockRules) class(f *Field) *lockClass {
	k := &r.classes[f.id]
	if !k.used {
		k.used = true
		r.used = append(r.used, f.id)
	}
	return k
}

// checkLock applies the lock rules when c is about to take l.
func (s *Sim) checkLock(c *Ctx, l *SpinLock) {
	s.checkIRQ(c, l, false)
	if len(c.held) == 0 {
		return
	}
	k := s.locks.class(l.f)
	for _, h := range c.held {
		if h.depth != c.depth || h == l {
			continue
		}
		if h.rank <= l.rank {
			c.Fault(fault.LockOrder, "%s (rank %d) taken while %s (rank %d) is held", l.f.Name(),
				l.rank, h.f.Name(), h.rank)
			continue
		}
		k.before[h.f.id/64] |= 1 << (h.f.id % 64)
		if s.locks.class(h.f).before[l.f.id/64]&(1<<(l.f.id%64)) != 0 {
			c.Fault(fault.LockOrder, "%s and %s are taken in both orders", h.f.Name(), l.f.Name())
		}
	}
}

// checkIRQ notes in which state of interrupts l is taken. Who only tries does not
// wait for what it interrupted, but may be waited for.
func (s *Sim) checkIRQ(c *Ctx, l *SpinLock, try bool) {
	k := s.locks.class(l.f)
	switch {
	case c.depth > 0:
		k.inIRQ = k.inIRQ || !try
	case !c.cpu.irqsOff:
		k.irqsOn = true
	}
	if k.inIRQ && k.irqsOn && !k.told {
		k.told = true
		c.Fault(fault.LockIRQ, "%s", l.f.Name())
	}
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
		c.Fault(fault.Sleeping, "local lock %s with %s", l.f.Name(), c.whyNot())
	}
	c.want = l
	c.point(KLock, l.f)
	c.want = nil
	if c.sim.watcher != nil {
		c.touch(l.number(), Acquires)
	}
	c.fence()
	if l.owner == c {
		c.Die(fault.Deadlock, "%s waits for local lock %s, which it holds", c.Where().Task,
			l.f.Name())
	}
	if l.owner != nil {
		c.sleep(l, l.f)
	}
	l.owner = c
	c.locals = append(c.locals, l)
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
	l.owner = nil
	c.noMigrate--
	for i := len(c.locals) - 1; i >= 0; i-- {
		if c.locals[i] == l {
			c.locals = append(c.locals[:i], c.locals[i+1:]...)
			return
		}
	}
}
