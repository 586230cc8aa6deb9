package machine

import "allocfuzz/impls/fault"

// A Ctx is a running context: a task, with the handlers nested on it. Every
// access to the machine takes the context that makes it.
type Ctx struct {
	sim  *Sim // nil natively
	m    *Machine
	cpu  *CPU
	f    *frame // innermost frame
	name string

	body      func(*Ctx)
	frames    []*frame
	depth     int // frames above the base
	irqDepth  int // handlers among them
	held      []heldLock
	pos       int  // order of the next line, while between lines
	inLine    bool // between BeginLine and EndLine of the base frame
	pinned    bool
	idle      bool
	prio      int // above 0: a handler on a real-time machine
	handler   *Handler
	done      bool
	started   bool
	noMigrate int
	failNext  bool
	window    bool // inside CmpxchgLocal: only other CPUs may run
	waiting   Waiter
	sleeping  bool // the wait gives the CPU away
	mayGiveUp bool
	gaveUp    bool
	chosen    bool // resumed between lines: somebody decided that c runs
	id        uint64
	co        coroutine
}

// A Waiter is what a context waits for.
type Waiter interface{ Ready(*Ctx) bool }

// A frame is one operation of the program in progress: of a task, or of a
// handler nested on it.
type frame struct {
	pos          int // order of the line, -1 outside lines
	iter         [2]int32
	handler      *Handler
	delivery     int
	steps        int
	irqs         int
	pageRequests int
	failAt       int
	refused      int
	epoch        uint32
	choose       bool
	counts       []attempt
}

// attempt counts the points of one kind and field in one execution of a line.
type attempt struct {
	epoch uint32
	n     uint32
}

// Machine is the machine that c runs on.
func (c *Ctx) Machine() *Machine { return c.m }

// CPUID is the processor that c runs on. It may change at any point while c can
// be preempted.
func (c *Ctx) CPUID() int { return c.cpu.ID }

// CPU is the processor that c runs on, see CPUID.
func (c *Ctx) CPU() *CPU { return c.cpu }

// Name is the name of the task.
func (c *Ctx) Name() string { return c.name }

// InInterrupt says whether c is in a handler.
func (c *Ctx) InInterrupt() bool { return c.irqDepth > 0 }

// Native says whether c runs on a native machine.
func (c *Ctx) Native() bool { return c.sim == nil }

// IRQsOff says whether interrupts are off on c's CPU.
func (c *Ctx) IRQsOff() bool { return c.cpu.irqsOff }

// IRQSave turns interrupts off on this CPU and returns how they were.
func (c *Ctx) IRQSave() Flags {
	if c.sim == nil {
		return true
	}
	c.point(KIRQSave, none)
	was := !c.cpu.irqsOff
	c.cpu.irqsOff = true
	return Flags(was)
}

// IRQRestore puts interrupts back to what IRQSave returned.
func (c *Ctx) IRQRestore(flags Flags) {
	if c.sim == nil {
		return
	}
	if flags {
		c.cpu.irqsOff = false
	}
	c.point(KIRQRestore, none)
	if len(c.cpu.calls) > 0 {
		c.serve()
	}
}

// IRQEnable turns interrupts on, whatever they were.
func (c *Ctx) IRQEnable() { c.IRQRestore(true) }

// IRQDisable turns interrupts off, whatever they were.
func (c *Ctx) IRQDisable() { c.IRQSave() }

// PreemptDisable keeps c on its CPU until PreemptEnable. It nests.
func (c *Ctx) PreemptDisable() {
	if c.sim == nil {
		return
	}
	if c.m.Preempt != PreemptNone {
		c.point(KPreemptDisable, none)
	}
	c.cpu.preempt++
}

// PreemptEnable ends PreemptDisable.
func (c *Ctx) PreemptEnable() {
	if c.sim == nil {
		return
	}
	c.cpu.preempt--
	if c.m.Preempt != PreemptNone {
		c.point(KPreemptEnable, none)
	}
}

// Barrier orders every access before it before every access after it.
func (c *Ctx) Barrier() {
	if c.sim != nil {
		c.point(KBarrier, none)
	}
}

func (c *Ctx) maySleep() bool {
	return !c.cpu.irqsOff && c.cpu.preempt == 0 && (c.irqDepth == 0 || c.m.Preempt == PreemptRT)
}

func (c *Ctx) whyNot() string {
	switch {
	case c.irqDepth > 0:
		return "a handler running"
	case c.cpu.irqsOff:
		return "interrupts off"
	case len(c.held) > 0:
		return "a spin lock held"
	}
	return "preemption disabled"
}

// MayBlock says whether an allocation by c is allowed to sleep: not in a
// handler, with interrupts off or preemption disabled.
func (c *Ctx) MayBlock() bool { return c.sim == nil || c.maySleep() }

// Refused is the number of page requests that were refused in the current
// operation of the current frame.
func (c *Ctx) Refused() int { return c.f.refused }

// NoteRefusal counts one more refusal in the current operation. A subject with a
// heap of its own calls it when the heap's limit was reached, so that its "no
// memory" is as legitimate as a refused page request.
func (c *Ctx) NoteRefusal() { c.f.refused++ }

// PageRequests is the number of page requests that the current operation made.
func (c *Ctx) PageRequests() int { return c.f.pageRequests }

// FailPage makes the n-th page request of the current operation fail; 0 none.
func (c *Ctx) FailPage(n int) { c.f.failAt = n }

// call is a function to be run on another CPU.
type call struct {
	f    func(*Ctx)
	line *frame // of the caller: the points of the call are the line's
	done bool
}

// Ready says whether the call was made.
func (k *call) Ready(*Ctx) bool { return k.done }

var crossCall = Atomic("cpu", "call")

// CallOn runs f on a CPU with interrupts off, delivered like an interrupt (to an
// idle CPU too), and waits for it. With interrupts off or a spin lock held it is
// a finding, since two CPUs doing it wait for each other.
func (c *Ctx) CallOn(cpu int, f func(*Ctx)) {
	if c.sim == nil {
		c.nativeCall(cpu, f)
		return
	}
	c.point(KCall, crossCall)
	target := c.m.cpus[cpu]
	if target == c.cpu {
		flags := c.IRQSave()
		f(c)
		c.IRQRestore(flags)
		return
	}
	if c.cpu.irqsOff || len(c.held) > 0 || c.irqDepth > 0 {
		c.Fault(fault.CallIRQOff, "call to CPU %d with %s", cpu, c.whyNot())
	}
	k := &call{f: f, line: c.f}
	target.calls = append(target.calls, k)
	c.block(k, crossCall)
}

// CallOnAll runs f on every CPU in order, see CallOn.
func (c *Ctx) CallOnAll(f func(*Ctx)) {
	for i := range c.m.cpus {
		c.CallOn(i, f)
	}
}
