package machine

import (
	"runtime"

	"allocfuzz/impls/fault"
)

// This file is read-copy update: read sections, and callbacks that wait for a grace period.
// A section belongs to a context, a handler's to the handler, and may span lines: whoever has
// one open may lose its CPU, as readers of a preemptible kernel may, but must not sleep for
// memory. Nothing is locked. Who wants to destroy what a reader may still look at hands over
// a function, which is called when every section that was open then has ended.

var (
	rcuSection  = Atomic("rcu", "section")
	rcuCallback = Atomic("rcu", "callback")
)

// grace is the state of read sections. Natively the lock of the machine's native state guards
// it; simulated, one context runs at a time.
type grace struct {
	begun uint64   // sections begun so far; each has its number
	open  []uint64 // numbers of those that are open, in order
	queue []callback
	// Callbacks are called in the order in which they came, by one context at a time.
	queued, done uint64
	busy         bool
	line         *frame // of the section that the scheduler ended last
}

// A callback waits for all sections up to one.
type callback struct {
	f    func(*Ctx)
	last uint64
}

func (g *grace) reset() {
	clear(g.queue)
	*g = grace{open: g.open[:0], queue: g.queue[:0]}
}

// begin opens a section and returns its number.
func (g *grace) begin() uint64 {
	g.begun++
	g.open = append(g.open, g.begun)
	return g.begun
}

// end closes a section.
func (g *grace) end(number uint64) {
	for i, n := range g.open {
		if n == number {
			g.open = append(g.open[:i], g.open[i+1:]...)
			return
		}
	}
}

// due says whether the first callback has waited long enough.
func (g *grace) due() bool {
	return len(g.queue) > 0 && (len(g.open) == 0 || g.open[0] > g.queue[0].last)
}

// next takes the first callback if it is due, for the only one who may call it.
func (g *grace) next() func(*Ctx) {
	if !g.due() {
		return nil
	}
	f := g.queue[0].f
	g.queue = append(g.queue[:0], g.queue[1:]...)
	return f
}

// RCUReadLock opens a read section of c, or of the handler that runs on it. It nests.
func (c *Ctx) RCUReadLock() {
	if c.sim != nil {
		c.point(KStore, rcuSection)
	}
	own := c.frames[c.depth]
	if own.readers++; own.readers > 1 {
		return
	}
	g := &c.m.grace
	c.lockGrace()
	own.section = g.begin()
	c.unlockGrace()
	c.sections++
	if c.sim != nil {
		if r := c.sim.races; r != nil {
			r.acquire(c, &r.begun)
		}
		c.sim.note(own.section)
	}
}

// RCUReadUnlock ends what RCUReadLock began and, when that was the last section that they
// waited for, calls the callbacks: as a software interrupt, where nothing may sleep. One too
// many is a finding.
func (c *Ctx) RCUReadUnlock() {
	own := c.frames[c.depth]
	if own.readers == 0 {
		c.Fault(fault.StateLeaked, "read section ended more often than begun")
		return
	}
	if c.sim != nil {
		c.point(KStore, rcuSection)
	}
	if own.readers--; own.readers == 0 {
		c.leave(own)
		c.callbacks(c.f)
	}
}

// Reading says whether the innermost frame of c has a section of its own open, which
// RCUReadUnlock may end.
func (c *Ctx) Reading() bool { return c.frames[c.depth].readers > 0 }

// EndReading ends the section of c's innermost frame however deep it is, if one is open: the
// program has come to an end of it, or to a check, without a word. In simulation the machine
// does so where a context ends and where it would else not get past a barrier.
func (c *Ctx) EndReading() {
	if own := c.frames[c.depth]; own.readers > 0 {
		own.readers = 0
		c.leave(own)
		c.callbacks(c.f)
	}
}

// leave closes the section of a frame of c.
func (c *Ctx) leave(own *frame) {
	if c.sim != nil {
		c.fence()
	}
	c.lockGrace()
	c.m.grace.end(own.section)
	c.unlockGrace()
	c.sections--
	if r := c.ordering(); r != nil {
		r.release(c, &r.ended)
	}
}

// CallRCU lets f be called when every section that is open now has ended: at once, by c, when
// none is. f must not sleep. Callbacks are called in order, those that had to wait one at a
// time.
func (c *Ctx) CallRCU(f func(*Ctx)) {
	if c.sim != nil {
		c.point(KLoad, rcuSection)
		c.fence()
	}
	if r := c.ordering(); r != nil {
		r.release(c, &r.queued)
	}
	g := &c.m.grace
	c.lockGrace()
	wait := len(g.open) > 0 || len(g.queue) > 0 || g.busy
	if wait {
		g.queued++
		g.queue = append(g.queue, callback{f: f, last: g.begun})
	}
	c.unlockGrace()
	if !wait {
		c.afterGrace(f)
	}
}

// RCUBarrier waits until every callback that was handed over so far has been called. False:
// c may not wait, since it has a section open itself or may not sleep; they come later. With a
// spin lock held it is a finding even if there is nothing to wait for.
func (c *Ctx) RCUBarrier() bool {
	if c.sim != nil {
		c.point(KLoad, rcuCallback)
		if len(c.held) > 0 {
			c.mustSleep("a wait for read sections")
		}
	}
	g := &c.m.grace
	c.lockGrace()
	w := pastGrace{g, g.queued}
	ready := g.done >= w.last
	c.unlockGrace()
	switch {
	case ready:
	case !c.MayBlock():
		return false
	case c.sim != nil:
		c.sleep(w, rcuCallback)
	default:
		for !w.Ready(c) {
			c.Poll()
			runtime.Gosched()
		}
	}
	if r := c.ordering(); r != nil {
		r.acquire(c, &r.done)
	}
	return true
}

// pastGrace waits for callbacks.
type pastGrace struct {
	g    *grace
	last uint64
}

// Ready says whether the last of the callbacks was called.
func (w pastGrace) Ready(c *Ctx) bool {
	c.lockGrace()
	defer c.unlockGrace()
	return w.g.done >= w.last
}

func (c *Ctx) lockGrace() {
	if c.sim == nil {
		c.m.native.mu.Lock()
	}
}

func (c *Ctx) unlockGrace() {
	if c.sim == nil {
		c.m.native.mu.Unlock()
	}
}

// callbacks calls what is due. While somebody does so already it is left to him. The points
// belong to line.
func (c *Ctx) callbacks(line *frame) {
	g := &c.m.grace
	for {
		c.lockGrace()
		var f func(*Ctx)
		if !g.busy {
			f = g.next()
		}
		g.busy = g.busy || f != nil
		c.unlockGrace()
		if f == nil {
			return
		}
		c.callBack(f, line)
		c.lockGrace()
		g.busy = false
		g.done++
		c.unlockGrace()
	}
}

// callBack is one callback, in a frame of its own: a software interrupt.
func (c *Ctx) callBack(f func(*Ctx), line *frame) {
	if c.sim == nil {
		f(c)
		return
	}
	had := c.cpu.cur
	c.cpu.cur = c
	aside := c.push(nil)
	own := c.f
	own.pos, own.as = line.pos, line
	c.f = line
	c.point(KCall, rcuCallback)
	c.afterGrace(f)
	c.putRight()
	c.fence()
	c.leaveOrder()
	c.pop(aside)
	c.cpu.cur = had
}

// afterGrace calls f behind all that was done in the sections that have ended, and in front of
// all that is done in those that begin later.
func (c *Ctx) afterGrace(f func(*Ctx)) {
	r := c.ordering()
	if r != nil {
		r.acquire(c, &r.ended)
		r.acquire(c, &r.queued)
		r.release(c, &r.begun)
	}
	f(c)
	if r != nil {
		r.release(c, &r.done)
	}
}

// endReaders ends every section when nothing else can run: a barrier keeps their owners from
// going on. It says whether there was one.
func (s *Sim) endReaders() bool {
	if len(s.m.grace.open) == 0 {
		return false
	}
	for i := range len(s.tasks) + len(s.m.cpus) {
		s.context(i).abandon()
	}
	return true
}

// abandon ends the sections of all that runs on c. What is due then is called when the
// scheduler finds a CPU for it.
func (c *Ctx) abandon() {
	for _, own := range c.frames[:c.depth+1] {
		if own.readers > 0 {
			own.readers = 0
			c.leave(own)
			c.m.grace.line = own
		}
	}
}

// graceDue says whether callbacks wait for a CPU, since the scheduler ended the last section
// that they waited for.
func (s *Sim) graceDue() bool {
	g := &s.m.grace
	return g.line != nil && !g.busy && g.due()
}

// pickGrace is who calls them: the idle context of a CPU, else who has one and may be
// interrupted; nil for nobody.
func (s *Sim) pickGrace() *Ctx {
	if !s.graceDue() {
		return nil
	}
	var best *CPU
	for _, cpu := range s.m.cpus {
		free := cpu.cur == nil || !cpu.irqsOff && !cpu.cur.window
		if free && (best == nil || best.cur != nil && cpu.cur == nil) {
			best = cpu
		}
	}
	if best == nil {
		return nil
	}
	return best.context()
}

// ReadSections is the number of read sections begun so far, which is that of the last, and
// the number of the oldest that is open, 0 for none. It is a look from outside and no step.
func (m *Machine) ReadSections() (last, oldest uint64) {
	if m.native != nil {
		m.native.mu.Lock()
		defer m.native.mu.Unlock()
	}
	if g := &m.grace; len(g.open) > 0 {
		oldest = g.open[0]
	}
	return m.grace.begun, oldest
}
