package machine

import "iter"

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
	s.switches++
	c.co.next()
}

// life runs c's body once, with whatever ends it. A panic is caught here, since the
// stack it came from is gone outside the coroutine.
func (c *Ctx) life() {
	defer func() {
		c.sim.caught(recover())
		c.done, c.started = true, !c.idle
		c.f.irqs = 0 // an idle CPU has no lines to count by
		if c.cpu.cur == c {
			c.cpu.cur = nil
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
	if c.inLine {
		panic("allocfuzz: " + c.name + " ended in the middle of a line")
	}
	c.abandon()
	c.fence()
}

// yieldTo hands over to another context and comes back when c is resumed.
func (s *Sim) yieldTo(c, to *Ctx) {
	s.next = to
	c.co.yield(struct{}{})
	if s.aborting {
		panic(stopRun{})
	}
	c.chosen = true
	c.settle()
	c.serve()
}

// settle gives c, which was resumed, its CPU: in the middle of a line or handler,
// unless it gave it away to sleep.
func (c *Ctx) settle() {
	if c.depth > 0 || c.inLine && !c.wait.sleeping {
		c.cpu.cur = c
	}
}

// close ends the coroutines.
func (s *Sim) close() {
	s.aborting = true
	for i := range len(s.tasks) + len(s.m.cpus) {
		s.context(i).co.close()
	}
	for _, c := range s.spare {
		c.co.close()
	}
}

func (co *coroutine) close() {
	if co.stop != nil {
		co.stop()
		*co = coroutine{}
	}
}

// BeginLine says that c starts the line of order pos, in these iterations of the
// repeats around it. On a native machine it makes the calls of other CPUs.
func (c *Ctx) BeginLine(pos int, iter [2]int32) {
	c.f.begin(pos)
	c.f.iter = iter
	if c.sim == nil {
		c.Poll()
		return
	}
	if c.depth == 0 {
		c.cpu.cur = c
		c.inLine, c.pos = true, pos
		if c.sim.watcher != nil {
			c.sim.watcher.Begin(c)
		}
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
	c.Publish()
	if c.depth > 0 || c.prio > 0 {
		c.f.final = next == After
		c.point(KEnd, none)
		return
	}
	if c.sim.cursor = c.f.pos; next <= c.f.pos {
		c.sim.cursor = next - 1 // round again: a repeat is one place
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
			if c.cpu.pending == nil && !s.callDue(c.cpu) && !s.graceDue() {
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
			c.serve()
			continue
		}
		s.yieldTo(c, to)
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
	c.mustSleep("a wait for a name")
	c.inLine = false
	c.wait.mayGiveUp = true
	c.sleep(w, none)
	c.inLine = true
	return w.Ready(c)
}

// sleep waits and gives the CPU to other tasks meanwhile. What c had turned off is
// its own and goes with it.
func (c *Ctx) sleep(w Waiter, f *Field) { c.sleepOn(c.cpu, w, f) }

// sleepOn is sleep of a task that goes on upon another CPU.
func (c *Ctx) sleepOn(target *CPU, w Waiter, f *Field) {
	irqsOff, preempt := c.cpu.irqsOff, c.cpu.preempt
	c.cpu.irqsOff, c.cpu.preempt = false, 0
	c.wait.sleeping = true
	c.migrate(target)
	c.block(w, f)
	c.cpu.cur = c
	c.cpu.irqsOff, c.cpu.preempt = irqsOff, preempt
}

// block waits for w: each time c is woken is an attempt of kind wait.
func (c *Ctx) block(w Waiter, f *Field) {
	s := c.sim
	c.wait.on = w
	for !c.waited() {
		c.point(KWait, f)
		if c.waited() {
			break
		}
		s.cursor = c.order()
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
	c.wait = wait{}
}

// waited says whether what c waits for came, or was given up, and c has a CPU to go
// on: it may have been moved to one that is busy.
func (c *Ctx) waited() bool {
	return (c.wait.gaveUp || c.wait.on.Ready(c)) && (c.cpu.cur == nil || c.cpu.cur == c)
}

// resched lets a handler's task that can run now take over, on a real-time machine
// and where c can be preempted.
func (c *Ctx) resched() {
	s := c.sim
	if s.m.Preempt != PreemptRT || s.aborting || !c.maySleep() {
		return
	}
	for _, t := range s.tasks {
		if t.prio > c.prio && t.cpu == c.cpu && t.wait.on != nil && t.wait.on.Ready(t) {
			c.fence()
			c.cpu.cur = nil
			s.yieldTo(c, t)
			return
		}
	}
}
