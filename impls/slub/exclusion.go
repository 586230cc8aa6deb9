package slub

import "allocfuzz/impls/machine"

// A hold is the right to what belongs to a CPU, from lock to unlock of an exclusion.
// Whoever has it stays on the CPU of s, and nobody else there gets it.
type hold struct {
	s     *cpuSlab
	flags machine.Flags
}

// An exclusion is how slow paths, and fast paths that are not lockless, keep everybody
// else on their CPU away from what belongs to it: its handlers, its other tasks, and
// those who want it to let go.
type exclusion interface {
	// in is the alternative as a kernel for m has it.
	in(m *machine.Machine) exclusion
	// init makes the lock of s, and its guard.
	init(s *cpuSlab, cpu *machine.CPU)
	// lock takes hold of the CPU that c is on.
	lock(c *machine.Ctx, k *Cache) hold
	// unlock ends the hold.
	unlock(c *machine.Ctx, h hold)
	// pages asks for the pages of a slab. The CPU need not be held meanwhile: then c may
	// come back on another one, anything may have happened there, and the hold that is
	// returned is of that one.
	pages(c *machine.Ctx, k *Cache, h hold, wait bool) (*machine.Page, hold)
	// open lets handlers in while the CPU stays held against its other tasks.
	open(c *machine.Ctx)
	// shut ends open.
	shut(c *machine.Ctx)
	// spins keeps away, without a hold, who could interrupt c while it has a spin lock and
	// wait for that: then none could go on.
	spins(c *machine.Ctx) machine.Flags
	// spun ends spins.
	spun(c *machine.Ctx, flags machine.Flags)
	// on has a CPU, this one or another, let go of everything that k holds for it.
	on(c *machine.Ctx, k *Cache, cpu int)
}

// irqsOff is the design up to 5.14: interrupts are off from the beginning of a slow path
// to its end, but for the request of pages by who may wait.
// Cause: nobody but the CPU's own interrupts can come in between, so to keep them out is a
// lock that costs nothing more than an instruction.
// Effect: right, but the time without interrupts is as long as the slow path, list
// lock and freelist walk included. A kernel that must answer in time cannot have that, and
// the sleeping locks of a real-time kernel cannot be taken there at all.
// Fix: localLock.
type irqsOff struct{}

func (x irqsOff) in(*machine.Machine) exclusion { return x }

func (irqsOff) init(s *cpuSlab, cpu *machine.CPU) { s.guard = machine.IRQsOffOn(cpu) }

func (irqsOff) lock(c *machine.Ctx, k *Cache) hold {
	flags := c.IRQSave()
	return hold{k.cpu(c), flags}
}

func (irqsOff) unlock(c *machine.Ctx, h hold) { c.IRQRestore(h.flags) }

// pages lets interrupts in when the caller may wait, and keeps them out when not.
func (irqsOff) pages(c *machine.Ctx, k *Cache, h hold, wait bool) (*machine.Page, hold) {
	p := k.newPages(c, wait)
	return p, hold{k.cpu(c), h.flags}
}

func (irqsOff) open(c *machine.Ctx) {
	c.PreemptDisable()
	c.IRQEnable()
}

func (irqsOff) shut(c *machine.Ctx) {
	c.IRQDisable()
	c.PreemptEnable()
}

func (irqsOff) spins(c *machine.Ctx) machine.Flags { return c.IRQSave() }

func (irqsOff) spun(c *machine.Ctx, flags machine.Flags) { c.IRQRestore(flags) }

// on makes a call, in which interrupts are off.
func (irqsOff) on(c *machine.Ctx, k *Cache, cpu int) {
	c.CallOn(cpu, func(c *machine.Ctx) { k.release(c, k.cpu(c)) })
}

// localLock is the design of 5.15 (2021): a lock of the cache and the CPU, kept with what
// it protects.
// Cause: interrupts off say neither what they protect nor let a real-time kernel do it in
// another way. The lock does: here, on a kernel that is not real-time, it is
// interrupts off all the same.
// Effect: the lock is dropped around every request for pages, whoever makes it, and another
// CPU is asked to let go by work that is queued for it and not by a call, since the lock may be
// one that sleeps. In that kernel the slow path also dropped it before it went to the node and
// took it again inside the list lock, which sleeps there too; the list lock of this
// machine always spins, so that the CPU stays held and the list lock is the inner one.
// Fix: none needed; sleepingLock is the same on a real-time kernel.
type localLock struct{ irqsOff }

var cpuLock = machine.Atomic("cpu_slab", "lock")

// in is a lock that sleeps where kernels are real-time.
func (x localLock) in(m *machine.Machine) exclusion {
	if m.Preempt == machine.PreemptRT {
		return sleepingLock{x}
	}
	return x
}

func (localLock) init(s *cpuSlab, cpu *machine.CPU) {
	s.lock.Init(cpuLock, cpu)
	s.guard = s.lock.Guard()
}

// lock does not know the CPU before it is held: c may be moved until then, on a kernel that
// turns interrupts off for it.
func (localLock) lock(c *machine.Ctx, k *Cache) hold {
	flags := k.cpu(c).lock.Lock(c)
	return hold{k.cpu(c), flags}
}

func (localLock) unlock(c *machine.Ctx, h hold) { h.s.lock.Unlock(c, h.flags) }

// pages drops the lock.
func (x localLock) pages(c *machine.Ctx, k *Cache, h hold, wait bool) (*machine.Page, hold) {
	x.unlock(c, h)
	p := c.AllocPages(k.order, wait)
	return p, x.lock(c, k)
}

// on does it as a task of that CPU, which may wait for the lock.
func (localLock) on(c *machine.Ctx, k *Cache, cpu int) {
	c.RunOn(cpu, func(c *machine.Ctx) {
		h := k.exclusion.lock(c, k)
		k.release(c, h.s)
		k.exclusion.unlock(c, h)
	})
}

// sleepingLock is localLock on a real-time kernel: who finds the lock taken sleeps.
// Cause: handlers are tasks there, which preempt the slow path and may wait for it.
// Effect: the slow path keeps interrupts on from end to end, and is preempted wherever it has no
// spin lock. No path is lockless: who does not take the lock, such as a push that only
// disables preemption, comes in the middle of a slow path. Spin locks are taken with
// interrupts on: no handler interrupts who has one.
type sleepingLock struct{ localLock }

// open has nothing to do: handlers are never kept out.
func (sleepingLock) open(*machine.Ctx) {}

func (sleepingLock) shut(*machine.Ctx) {}

// spins has nothing to do either: a spin lock disables preemption, and with it handlers.
func (sleepingLock) spins(*machine.Ctx) machine.Flags { return true }

func (sleepingLock) spun(*machine.Ctx, machine.Flags) {}
