package machine

import "allocfuzz/impls/fault"

// A Ctx is a running context: a task, with the handlers nested on it. Every
// access to the machine takes the context that makes it.
type Ctx struct {
	sim  *Sim // nil natively
	m    *Machine
	cpu  *CPU
	f    *frame // what points and counts belong to: the innermost frame, or its alias
	name string

	thread    thread
	body      func(*Ctx)
	frames    []*frame // frames[0] is the task's own, frames[depth] the innermost
	depth     int      // handlers and calls nested on the task
	held      []*SpinLock
	locals    []*LocalLock
	pos       int  // order of the line, or between lines of the next one
	inLine    bool // between BeginLine and EndLine of the base frame
	pinned    bool
	idle      bool
	prio      int // above 0: a handler on a real-time machine
	done      bool
	started   bool
	noMigrate int
	failNext  bool
	news      []news // of the store that it is making, when that is held back
	window    bool   // inside a local cmpxchg: only other CPUs may run
	plain     bool   // the point that c comes to is that of a plain store
	hold      bool   // its next store is held back
	sections  int    // read sections of all frames that are open
	wait      wait   // of the innermost frame
	at        Kind   // of the point it was asked about last
	chosen    bool   // resumed between lines: somebody decided that c runs
	id        uint64
	co        coroutine
}

// A Waiter is what a context waits for.
type Waiter interface{ Ready(*Ctx) bool }

// wait is what the innermost frame of a context waits for. What is nested on a
// waiting context does not wait, so it puts the wait aside and back.
type wait struct {
	on        Waiter
	want      Waiter // the lock that the next step takes
	sleeping  bool   // the CPU was given away meanwhile
	mayGiveUp bool
	gaveUp    bool
}

// A frame is one operation of the program in progress: of a task, of a handler,
// or of a call nested on it.
type frame struct {
	pos          int // order of the line, -1 outside lines
	iter         [2]int32
	handler      *Handler
	thread       *thread
	delivery     int
	steps        int // points so far
	limit        int // of steps
	irqs         int
	pageRequests int
	failAt       int
	objects      int // asked for
	failObject   int
	refused      int
	final        bool // its last line has ended
	injected     int  // of those refused
	reserves     bool // the page request in progress may use reserves
	preempt      int  // depth of disabled preemption that it began with
	readers      int  // depth of its read section
	section      uint64
	epoch        uint32
	choose       bool
	as           *frame // of a call: the caller's frame, which the call's points belong to
	counts       []attempt
	notes        []any
}

// attempt counts the points of one kind and field in one execution of a line.
type attempt struct {
	epoch uint32
	n     uint32
}

// begin starts an execution of a line: every count from 0.
func (f *frame) begin(pos int) {
	f.pos, f.steps, f.limit, f.iter, f.final = pos, 0, StepsMax, [2]int32{}, false
	f.irqs, f.pageRequests, f.failAt, f.refused, f.injected = 0, 0, 0, 0, 0
	f.objects, f.failObject = 0, 0
	f.notes = f.notes[:0]
	f.epoch++
	if f.epoch == 0 { // counts of 2 to the power of 32 lines ago would look current
		clear(f.counts)
		f.epoch = 1
	}
}

// Machine is the machine that c runs on.
func (c *Ctx) Machine() *Machine { return c.m }

// CPUID is the processor that c runs on. It may change at any point while c can
// be preempted.
func (c *Ctx) CPUID() int { return c.cpu.ID }

// CPU is the processor that c runs on, see CPUID.
func (c *Ctx) CPU() *CPU { return c.cpu }

// TaskID is a number of the task, the same in every run of a program.
func (c *Ctx) TaskID() int { return int(c.id) }

// Name is the name of the task.
func (c *Ctx) Name() string { return c.name }

// InInterrupt says whether c is in a handler or in another CPU's call. On a
// real-time machine handlers are tasks and not in an interrupt.
func (c *Ctx) InInterrupt() bool { return c.depth > 0 }

// Native says whether c runs on a native machine.
func (c *Ctx) Native() bool { return c.sim == nil }

// IRQsOff says whether interrupts are off on c's CPU; never natively.
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
	c.resched()
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

// PreemptEnable ends PreemptDisable. One too many is a finding.
func (c *Ctx) PreemptEnable() {
	if c.sim == nil {
		return
	}
	if c.cpu.preempt <= c.frames[c.depth].preempt {
		c.Fault(fault.StateLeaked, "preemption enabled more often than disabled")
		return
	}
	c.cpu.preempt--
	if c.m.Preempt != PreemptNone {
		c.point(KPreemptEnable, none)
		c.resched()
	}
}

// Barrier orders every access before it before every access after it.
func (c *Ctx) Barrier() {
	if c.sim != nil {
		c.point(KBarrier, none)
		c.fence()
	}
}

func (c *Ctx) maySleep() bool {
	return !c.cpu.irqsOff && c.cpu.preempt == 0 && c.depth == 0
}

// mustSleep notes it when c must not do what may sleep, whether it would have to or not.
func (c *Ctx) mustSleep(what string) {
	if !c.maySleep() {
		c.Fault(fault.Sleeping, "%s with %s", what, c.whyNot())
	}
}

func (c *Ctx) whyNot() string {
	switch {
	case c.depth > 0:
		return "a handler running"
	case c.cpu.irqsOff:
		return "interrupts off"
	case len(c.held) > 0:
		return "a spin lock held"
	case c.sections > 0:
		return "a read section open"
	}
	return "preemption disabled"
}

// MayBlock says whether an allocation by c is allowed to sleep: not in a
// handler, with interrupts off, preemption disabled or a read section open.
func (c *Ctx) MayBlock() bool { return (c.sim == nil || c.maySleep()) && c.sections == 0 }

// Refused is the number of page requests that were refused in the current
// operation of the current frame.
func (c *Ctx) Refused() int { return c.f.refused }

// NoteRefusal counts one more refusal in the current operation. A subject with a
// heap of its own calls it when the heap's limit was reached, so that its "no
// memory" is as legitimate as a refused page request.
func (c *Ctx) NoteRefusal() { c.f.refused++ }

// Note adds v to what the current operation of the current frame has to say beside
// its answer, such as a report of a debug check. A call on another CPU notes for
// the operation that made it.
func (c *Ctx) Note(v any) { c.f.notes = append(c.f.notes, v) }

// Notes is what the current operation noted so far, in order, until the next
// operation of the frame begins.
func (c *Ctx) Notes() []any { return c.f.notes }

// Injected is the number of page requests, and of objects, that the current operation was
// refused because a failure was injected: nobody who could have had them was asked.
func (c *Ctx) Injected() int { return c.f.injected }

// MayUseReserves says whether the page request in progress may take the pages that are
// kept for those who cannot wait: it must not sleep. A page layer asks before its first
// point, since a handler may make requests of its own there.
func (c *Ctx) MayUseReserves() bool { return c.f.reserves }

// PageRequests is the number of page requests that the current operation made.
func (c *Ctx) PageRequests() int { return c.f.pageRequests }

// FailPage makes the n-th page request of the current operation fail, counted
// from its beginning; 0 none.
func (c *Ctx) FailPage(n int) { c.f.failAt = n }

// FailObject makes ShouldFail say so of the n-th object that the current operation asks
// for, counted from its beginning; 0 none.
func (c *Ctx) FailObject(n int) { c.f.failObject = n }

// ShouldFail is should_failslab: an allocator asks it for each object before it does
// anything else, and has no memory when the answer is true. It counts as a refusal.
func (c *Ctx) ShouldFail() bool {
	f := c.f
	f.objects++
	if f.objects != f.failObject {
		return false
	}
	f.refused++
	f.injected++
	return true
}

// Progress starts the step limit of the operation afresh. An operation that goes
// over everything a program has made, such as a drain of all caches, calls it for
// each thing: its length is the program's, while what it does for one is bounded.
func (c *Ctx) Progress() { c.f.limit = c.f.steps + StepsMax }
