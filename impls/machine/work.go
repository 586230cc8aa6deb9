package machine

import (
	"strconv"

	"allocfuzz/impls/fault"
)

var crossWork = Atomic("cpu", "work")

// arrival is what a task waits for that goes to another CPU: nothing but the CPU itself,
// which every wait is for as well.
type arrival struct{}

// Ready is true: whoever has the CPU has arrived.
func (arrival) Ready(*Ctx) bool { return true }

// RunOn runs f on a CPU as a task, with interrupts as they are: c goes there, also when it is
// pinned, waits until no other task has that CPU, stays for the time of f and comes back the
// same way. What f does may sleep, which it may not in a call (see CallOn). Points of f
// are c's own. In an interrupt, with interrupts off or with a spin lock held to go to another
// CPU is the finding that a call is, and f is called instead; with preemption disabled or
// a local lock held it is one, too, since both promise that c stays.
func (c *Ctx) RunOn(cpu int, f func(*Ctx)) {
	if cpu < 0 || cpu >= len(c.m.cpus) {
		panic("allocfuzz: work for CPU " + strconv.Itoa(cpu) + " of a machine that has " +
			strconv.Itoa(len(c.m.cpus)))
	}
	if c.sim == nil {
		c.nativeCall(cpu, f)
		return
	}
	c.point(KCall, crossWork)
	c.noMigrate++
	if home := c.cpu; home.ID == cpu {
		f(c)
	} else {
		c.runOther(home, c.m.cpus[cpu], f)
	}
	c.noMigrate--
}

// RunOnAll runs f on every CPU in order, see RunOn.
func (c *Ctx) RunOnAll(f func(*Ctx)) {
	for i := range c.m.cpus {
		c.RunOn(i, f)
	}
}

func (c *Ctx) runOther(home, target *CPU, f func(*Ctx)) {
	switch {
	case c.depth > 0 || home.irqsOff || len(c.held) > 0:
		c.callOther(target, f)
		return
	case home.preempt > 0:
		c.mustSleep("work for another CPU")
	case len(c.locals) > 0:
		c.Fault(fault.Sleeping, "work for CPU %d with a local lock held", target.ID)
	}
	c.goTo(target)
	f(c)
	c.goTo(home)
}

// goTo moves c, which is in the middle of a line, to another CPU and waits for that. A
// handler's task takes it from a task of lower priority that can be preempted, as everywhere.
func (c *Ctx) goTo(target *CPU) {
	c.sim.note(uint64(target.ID))
	if t := target.cur; t != nil && t.prio < c.prio && target.takes(c.prio) {
		target.cur = nil
	}
	c.sleepOn(target, arrival{}, crossWork)
}
