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
	native nativeLock
}

// Init names the lock. Locks are taken in order of falling rank: while one is
// held only locks of a lower rank may be taken.
func (l *SpinLock) Init(f *Field, rank int) { l.f, l.rank = f, rank }

func (l *SpinLock) reset() { l.owner = nil }

// Guard is the guard "l is held".
func (l *SpinLock) Guard() Guard { return Guard{lock: l} }

// HeldBy says whether c holds l.
func (l *SpinLock) HeldBy(c *Ctx) bool { return l.owner == c }

// Held says whether anybody holds l, for snapshots.
func (l *SpinLock) Held() bool { return l.owner != nil }

// Ready says whether l can be taken.
func (l *SpinLock) Ready(*Ctx) bool { return l.owner == nil }

// Lock takes l, spinning while another context holds it.
func (l *SpinLock) Lock(c *Ctx) {
	if c.sim == nil {
		l.native.lock()
		l.owner = c
		return
	}
	c.cpu.preempt++
	c.sim.checkLock(c, l)
	c.point(KLock, l.f)
	if l.owner != nil {
		l.spin(c)
	}
	l.owner = c
	c.held = append(c.held, heldLock{l, c.depth})
}

func (l *SpinLock) spin(c *Ctx) {
	if l.owner == c || l.owner.cpu == c.cpu {
		c.Die(fault.Deadlock, "%s waits for %s, which %s holds on the same CPU", c.Where().Task,
			l.f.Name(), l.owner.name)
	}
	c.block(l, l.f)
}

// TryLock takes l when nobody holds it and says whether it did.
func (l *SpinLock) TryLock(c *Ctx) bool {
	if c.sim == nil {
		if !l.native.tryLock() {
			return false
		}
		l.owner = c
		return true
	}
	c.point(KLock, l.f)
	if l.owner != nil {
		return false
	}
	c.cpu.preempt++
	l.owner = c
	c.held = append(c.held, heldLock{l, c.depth})
	return true
}

// Unlock releases l. A lock that c does not hold is a harness fault.
func (l *SpinLock) Unlock(c *Ctx) {
	if l.owner != c {
		panic("allocfuzz: unlock of " + l.f.Name() + ", which this context does not hold")
	}
	if c.sim == nil {
		l.owner = nil
		l.native.unlock()
		return
	}
	c.point(KUnlock, l.f)
	l.owner = nil
	c.cpu.preempt--
	for i := len(c.held) - 1; i >= 0; i-- {
		if c.held[i].l == l {
			c.held = append(c.held[:i], c.held[i+1:]...)
			break
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

// A heldLock is a lock that a context holds, with the depth of the handler that
// took it.
type heldLock struct {
	l     *SpinLock
	depth int
}

// lockClass is what the rules remember of all locks of one field.
type lockClass struct {
	inIRQ, irqsOn bool
	before        uint64 // bit per class: classes that were held when this one was taken
}

// checkLock applies the lock rules when c is about to take l.
func (s *Sim) checkLock(c *Ctx, l *SpinLock) {
	k := s.class(l.f)
	if c.irqDepth > 0 && s.m.Preempt != PreemptRT {
		k.inIRQ = true
	} else if !c.cpu.irqsOff {
		k.irqsOn = true
	}
	if k.inIRQ && k.irqsOn && !s.told[l.f.id] {
		s.told[l.f.id] = true
		c.Fault(fault.LockIRQ, "%s", l.f.Name())
	}
	for i := range c.held {
		h := &c.held[i]
		if h.depth != c.depth || h.l == l {
			continue
		}
		if h.l.rank <= l.rank {
			c.Fault(fault.LockOrder, "%s (rank %d) taken while %s (rank %d) is held", l.f.Name(),
				l.rank, h.l.f.Name(), h.l.rank)
			continue
		}
		k.before |= 1 << (h.l.f.id & 63)
		if s.class(h.l.f).before&(1<<(l.f.id&63)) != 0 {
			c.Fault(fault.LockOrder, "%s and %s are taken in both orders", h.l.f.Name(), l.f.Name())
		}
	}
}

func (s *Sim) class(f *Field) *lockClass { return &s.classes[f.id] }

// A LocalLock protects one CPU's data against its own interrupts and tasks. On a
// machine without real-time preemption it is interrupts off; with it, a lock
// that sleeps and keeps its holder on the CPU.
type LocalLock struct {
	f     *Field
	cpu   *CPU
	owner *Ctx
}

// Init names the lock and gives it its CPU.
func (l *LocalLock) Init(f *Field, cpu *CPU) { l.f, l.cpu, l.owner = f, cpu, nil }

// Guard is the guard "l is held".
func (l *LocalLock) Guard() Guard { return Guard{local: l} }

// Ready says whether l can be taken.
func (l *LocalLock) Ready(*Ctx) bool { return l.owner == nil }

func (l *LocalLock) heldBy(c *Ctx) bool {
	if c.m.Preempt == PreemptRT {
		return l.owner == c
	}
	return c.cpu == l.cpu && l.cpu.irqsOff
}

// Lock takes l for the CPU that c is on; c stays there until Unlock.
func (l *LocalLock) Lock(c *Ctx) Flags {
	if c.m.Preempt != PreemptRT || c.sim == nil {
		return c.IRQSave()
	}
	c.noMigrate++
	if !c.maySleep() {
		c.Fault(fault.Sleeping, "local lock %s with %s", l.f.Name(), c.whyNot())
	}
	c.point(KLock, l.f)
	if l.owner != nil {
		c.sleep(l, l.f)
	}
	l.owner = c
	return true
}

// Unlock releases l.
func (l *LocalLock) Unlock(c *Ctx, flags Flags) {
	if c.m.Preempt != PreemptRT || c.sim == nil {
		c.IRQRestore(flags)
		return
	}
	if l.owner != c {
		panic("allocfuzz: unlock of local lock " + l.f.Name() + ", which this context does not hold")
	}
	c.point(KUnlock, l.f)
	l.owner = nil
	c.noMigrate--
	c.sim.wakePriority(c, l)
}
