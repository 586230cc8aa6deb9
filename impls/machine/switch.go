package machine

import (
	"iter"
	"runtime/debug"

	"allocfuzz/impls/fault"
)

// coroutine is the stack of a context: made once and used for run after run.
type coroutine struct {
	next  func() (struct{}, bool)
	stop  func()
	yield func(struct{}) bool
}

// resume lets c run until it hands over.
func (s *Sim) resume(c *Ctx) {
	if c.co.next == nil {
		c.co.next, c.co.stop = iter.Pull(func(yield func(struct{}) bool) {
			c.co.yield = yield
			for {
				c.life()
				if !yield(struct{}{}) {
					return
				}
			}
		})
	}
	s.cur = c
	s.switches++
	c.co.next()
}

// life runs c's body once, with whatever ends it.
func (c *Ctx) life() {
	defer func() {
		c.done, c.started = true, !c.idle
		if c.cpu.cur == c {
			c.cpu.cur = nil
		}
		r := recover()
		if _, stopped := r.(stopRun); r != nil && !stopped && c.sim.panicked == nil {
			c.sim.panicked, c.sim.stack = r, debug.Stack()
			c.sim.aborting = true
		}
	}()
	c.started = true
	if c.sim.aborting {
		return
	}
	if c.idle {
		c.serve()
		return
	}
	c.body(c)
}

// yieldTo hands over to another context and comes back when c is resumed.
func (s *Sim) yieldTo(c, to *Ctx) {
	s.next = to
	c.co.yield(struct{}{})
	if s.aborting {
		panic(stopRun{})
	}
	c.chosen = true
	c.serve()
}

// close ends the coroutines.
func (s *Sim) close() {
	s.aborting = true
	all := append(append([]*Ctx{}, s.tasks...), s.spare...)
	for _, cpu := range s.m.cpus {
		all = append(all, cpu.idle)
	}
	for _, c := range all {
		if c.co.stop != nil {
			c.co.stop()
			c.co = coroutine{}
		}
	}
}

// serve takes the interrupts and calls that were given to c's CPU while c did not
// run.
func (c *Ctx) serve() {
	for {
		cpu := c.cpu
		switch {
		case cpu.pending != nil && cpu.pending.CPU == cpu.ID && !c.window:
			h := cpu.pending
			cpu.pending = nil
			c.deliver(h)
		case len(cpu.calls) > 0 && !cpu.irqsOff && !c.window:
			k := cpu.calls[0]
			cpu.calls = append(cpu.calls[:0], cpu.calls[1:]...)
			c.runCall(k)
		default:
			return
		}
	}
}

func (c *Ctx) runCall(k *call) {
	c.push(nil)
	own := c.f
	c.f, c.frames[c.depth] = k.line, k.line
	had := c.cpu.cur
	c.cpu.cur = c
	c.cpu.irqsOff = true
	k.f(c)
	c.cpu.irqsOff = false
	c.cpu.cur = had
	c.frames[c.depth] = own
	c.pop()
	k.done = true
}

// deliver runs a handler nested on c.
func (c *Ctx) deliver(h *Handler) {
	c.f.irqs++
	h.delivered++
	h.active = true
	had := c.cpu.cur
	if had == nil {
		c.cpu.cur = c
	}
	c.push(h)
	h.Body(c)
	c.pop()
	h.active = false
	if had == nil && c.cpu.cur == c {
		c.cpu.cur = nil
	}
}

// runHandler is deliver on a real-time machine, where c is the handler's task.
func (s *Sim) runHandler(c *Ctx, h *Handler) {
	h.delivered++
	h.active = true
	c.f.handler, c.f.delivery = h, h.delivered
	c.inLine = true
	h.Body(c)
	c.inLine = false
	h.active = false
}

func (c *Ctx) push(h *Handler) *frame {
	c.depth++
	c.irqDepth++
	if c.depth == len(c.frames) {
		c.frames = append(c.frames, c.sim.newFrame())
	}
	f := c.frames[c.depth]
	f.begin(-1)
	f.handler, f.delivery, f.choose = h, 0, c.sim.chooser != nil
	if h != nil {
		f.delivery = h.delivered
	}
	c.f = f
	return f
}

func (c *Ctx) pop() {
	c.depth--
	c.irqDepth--
	c.f = c.frames[c.depth]
}

// BeginLine says that c starts the line of order pos, in these iterations of the
// repeats around it. On a native machine it makes the calls of other CPUs.
func (c *Ctx) BeginLine(pos int, iter [2]int32) {
	c.f.begin(pos)
	if c.sim == nil {
		c.Poll()
		return
	}
	c.f.iter = iter
	if c.depth == 0 {
		c.cpu.cur = c
		c.inLine = true
	}
	c.f.choose = c.sim.chooser != nil && (c.sim.filter == nil || c.sim.filter.Wants(c))
}

// EndLine says that c's line has ended; next is the order of its next line, After
// when there is none. Between lines a task gives its CPU away.
func (c *Ctx) EndLine(next int) {
	if c.sim == nil {
		return
	}
	c.checkBalance()
	if c.depth > 0 || c.prio > 0 {
		c.point(KEnd, none)
		return
	}
	c.pos, c.inLine = next, false
	if c.sim.solo {
		c.point(KEnd, none)
		return
	}
	c.cpu.cur, c.chosen = nil, false
	c.point(KEnd, none)
	c.resumeDefault()
}

// resumeDefault lets the fixed rule say who runs between lines.
func (c *Ctx) resumeDefault() {
	s := c.sim
	if c.pos == After {
		return
	}
	for !c.chosen {
		to := s.pick()
		if s.aborting {
			panic(stopRun{})
		}
		if to == c {
			if c.cpu.pending == nil && !s.callDue(c.cpu) {
				return
			}
			c.serve()
			continue
		}
		if to == nil {
			panic("allocfuzz: no context to run though " + c.name + " has lines left")
		}
		if to.idle && to.cpu == c.cpu && !to.started {
			// The interrupted task takes it: same effect, no switch.
			to.done = true
			c.serve()
			continue
		}
		s.yieldTo(c, to)
	}
}

// checkBalance finds locks, interrupts or preemption that an operation left
// behind, and puts them right.
func (c *Ctx) checkBalance() {
	for i := len(c.held) - 1; i >= 0 && c.held[i].depth == c.depth; i-- {
		l := c.held[i].l
		c.Fault(fault.StateLeaked, "%s still held at the end of the operation", l.f.Name())
		l.owner = nil
		c.cpu.preempt--
		c.held = c.held[:i]
	}
	if c.cpu.irqsOff {
		c.Fault(fault.StateLeaked, "interrupts still off at the end of the operation")
		c.cpu.irqsOff = false
	}
	if c.depth == 0 && c.cpu.preempt != 0 {
		c.Fault(fault.StateLeaked, "preemption still disabled at the end of the operation")
		c.cpu.preempt = 0
	}
}

// Wait is for a line that waits for a name before it starts: false when nothing
// else can run and the wait was given up.
func (c *Ctx) Wait(w Waiter) bool {
	if c.sim == nil {
		return w.Ready(c)
	}
	if c.depth > 0 || c.prio > 0 || w.Ready(c) {
		return w.Ready(c)
	}
	c.mayGiveUp, c.gaveUp = true, false
	c.inLine = false
	c.pos = c.f.pos
	c.sleep(w, none)
	c.mayGiveUp = false
	c.inLine = true
	c.cpu.cur = c
	return w.Ready(c)
}

// sleep waits and gives the CPU to other tasks meanwhile.
func (c *Ctx) sleep(w Waiter, f *Field) {
	c.sleeping = true
	if c.cpu.cur == c {
		c.cpu.cur = nil
	}
	c.block(w, f)
	c.sleeping = false
	c.cpu.cur = c
}

// block waits for w: each time c is woken is an attempt of kind wait.
func (c *Ctx) block(w Waiter, f *Field) {
	s := c.sim
	c.waiting = w
	for !w.Ready(c) && !c.gaveUp {
		c.point(KWait, f)
		if w.Ready(c) || c.gaveUp {
			break
		}
		to := s.pick()
		switch {
		case s.aborting:
			panic(stopRun{})
		case to == nil:
			panic("allocfuzz: no context to run though " + c.name + " waits")
		case to == c:
			c.serve()
		default:
			s.yieldTo(c, to)
		}
	}
	c.waiting, c.gaveUp = nil, false
}

// wakePriority lets a handler's task that waits for l take over at once.
func (s *Sim) wakePriority(c *Ctx, l *LocalLock) {
	for _, t := range s.tasks {
		if t.prio > c.prio && t.waiting == Waiter(l) && t.cpu == c.cpu && c.cpu.preempt == 0 {
			c.cpu.cur = t
			s.yieldTo(c, t)
			return
		}
	}
}
