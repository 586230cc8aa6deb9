package machine

import (
	"strconv"

	"allocfuzz/impls/fault"
)

// call is a function to be run on another CPU.
type call struct {
	f      func(*Ctx)
	target *CPU
	line   *frame // of the caller: the points of the call are the line's
	done   bool
}

// Ready says whether the call was made.
func (k *call) Ready(*Ctx) bool { return k.done }

var crossCall = Atomic("cpu", "call")

// CallOn runs f on a CPU with interrupts off, delivered like an interrupt (to an
// idle CPU too), and waits for it with preemption disabled. In an interrupt, with
// interrupts off or with a spin lock held a call to another CPU is a finding,
// since two CPUs doing it wait for each other.
func (c *Ctx) CallOn(cpu int, f func(*Ctx)) {
	if cpu < 0 || cpu >= len(c.m.cpus) {
		panic("allocfuzz: call to CPU " + strconv.Itoa(cpu) + " of a machine that has " +
			strconv.Itoa(len(c.m.cpus)))
	}
	if c.sim == nil {
		c.nativeCall(cpu, f)
		return
	}
	c.point(KCall, crossCall)
	target, here := c.m.cpus[cpu], c.cpu
	here.preempt++ // or c could be moved, and f run on the wrong CPU
	if target == here {
		flags := c.IRQSave()
		f(c)
		c.IRQRestore(flags)
	} else {
		c.callOther(target, f)
	}
	here.preempt--
	c.resched()
}

func (c *Ctx) callOther(target *CPU, f func(*Ctx)) {
	if c.cpu.irqsOff || len(c.held) > 0 || c.depth > 0 {
		c.Fault(fault.CallIRQOff, "call to CPU %d with %s", target.ID, c.whyNot())
	}
	c.fence()
	k := &call{f: f, target: target, line: c.f}
	target.calls = append(target.calls, k)
	c.block(k, crossCall)
}

// CallOnAll runs f on every CPU in order, see CallOn.
func (c *Ctx) CallOnAll(f func(*Ctx)) {
	for i := range c.m.cpus {
		c.CallOn(i, f)
	}
}

// serve takes the interrupts and calls that were given to c's CPU while c did not
// run.
func (c *Ctx) serve() {
	for {
		cpu := c.cpu
		switch {
		case cpu.pending != nil && !c.window:
			h := cpu.pending
			cpu.pending = nil
			c.deliver(h)
		case len(cpu.calls) > 0 && !cpu.irqsOff && !c.window:
			k := cpu.calls[0]
			cpu.calls = append(cpu.calls[:0], cpu.calls[1:]...)
			c.runCall(k)
		case c.sim.graceDue() && !cpu.irqsOff && !c.window:
			c.callbacks(c.m.grace.line)
		default:
			return
		}
	}
}

// runCall makes a call of another CPU. Its points, steps and page requests are
// those of the caller's line, which waits meanwhile.
func (c *Ctx) runCall(k *call) {
	aside := c.push(nil)
	own := c.f
	own.pos, own.as = k.line.pos, k.line
	c.f = k.line
	had := c.cpu.cur
	c.cpu.cur, c.cpu.irqsOff = c, true
	c.fence()
	k.f(c)
	c.putRight()
	c.fence()
	c.leaveOrder()
	c.cpu.cur, c.cpu.irqsOff = had, false
	c.pop(aside)
	k.done = true
}

// deliver runs a handler nested on c.
func (c *Ctx) deliver(h *Handler) {
	c.f.irqs++
	h.delivered++
	h.active, h.host = true, c
	c.sim.note(uint64(h.index))
	had := c.cpu.cur
	c.cpu.cur = c
	aside := c.push(h)
	h.Body(c)
	c.EndReading()
	c.checkBalance()
	c.fence() // the return from an interrupt is serialising
	c.leaveOrder()
	c.pop(aside)
	c.cpu.cur = had
	h.active = false
}

// runHandler is deliver on a real-time machine, where c is the handler's task.
func (s *Sim) runHandler(c *Ctx, h *Handler) {
	h.delivered++
	h.active, h.host = true, c
	s.note(uint64(h.index))
	c.f.handler, c.f.delivery = h, h.delivered
	c.inLine = true
	h.Body(c)
	c.EndReading()
	c.checkBalance()
	c.inLine = false
	h.active = false
}

// push begins a frame for what is nested on c, a call when h is nil, and returns
// the wait that pop puts back.
func (c *Ctx) push(h *Handler) wait {
	c.depth++
	if c.depth == len(c.frames) {
		c.frames = append(c.frames, c.sim.newFrame())
	}
	f := c.frames[c.depth]
	f.begin(-1)
	f.handler, f.delivery, f.choose = h, 0, c.sim.chooser != nil
	f.preempt, f.as, f.readers = c.cpu.preempt, nil, 0
	c.at = KCall // until it is asked at a point
	if h != nil {
		f.delivery, f.thread = h.delivered, &h.thread
	}
	c.f = f
	aside := c.wait
	c.wait = wait{}
	return aside
}

func (c *Ctx) pop(aside wait) {
	c.depth--
	c.f = c.frames[c.depth]
	if c.f.as != nil {
		c.f = c.f.as
	}
	c.wait = aside
}

// checkBalance finds what an operation left behind, and puts it right.
func (c *Ctx) checkBalance() {
	c.putRight()
	if c.cpu.irqsOff {
		c.Fault(fault.StateLeaked, "interrupts still off at the end of the operation")
		c.cpu.irqsOff = false
	}
}

// putRight is checkBalance without the interrupts.
func (c *Ctx) putRight() {
	for i := len(c.held) - 1; i >= 0 && c.held[i].depth == c.depth; i-- {
		l := c.held[i]
		c.Fault(fault.StateLeaked, "%s still held at the end of the operation", l.f.Name())
		c.drop(l)
	}
	for c.depth == 0 && len(c.locals) > 0 {
		l := c.locals[len(c.locals)-1]
		c.Fault(fault.StateLeaked, "local lock %s still held at the end of the operation",
			l.f.Name())
		c.dropLocal(l)
	}
	if base := c.frames[c.depth].preempt; c.cpu.preempt != base {
		c.Fault(fault.StateLeaked, "preemption disabled %d times more than enabled at the end of "+
			"the operation", c.cpu.preempt-base)
		c.cpu.preempt = base
	}
}
