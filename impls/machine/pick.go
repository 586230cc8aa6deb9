package machine

import (
	"strconv"
	"strings"

	"allocfuzz/impls/fault"
)

// limit is the position that no line may pass yet.
func (s *Sim) limit() int {
	if s.passed < len(s.barriers) {
		return s.barriers[s.passed]
	}
	return After
}

// runnable says whether c could go on now.
func (s *Sim) runnable(c *Ctx) bool {
	if c.done {
		return false
	}
	if c.cpu.cur != nil && c.cpu.cur != c {
		return false
	}
	if c.wait.on != nil {
		return c.wait.gaveUp || c.wait.on.Ready(c) || c.cpu.cur == c && s.callDue(c.cpu)
	}
	// A context switched away from at the end of its last line goes on to its end.
	return c.inLine || c.depth > 0 || c.prio > 0 || c.pos < s.limit() || c.pos == After && c.started
}

func (s *Sim) callDue(cpu *CPU) bool { return len(cpu.calls) > 0 && !cpu.irqsOff }

// order is the earliest line that c has not ended.
func (c *Ctx) order() int {
	pos := c.pos
	for _, f := range c.frames[1 : c.depth+1] {
		if f.pos >= 0 && f.pos < pos {
			pos = f.pos
		}
	}
	return pos
}

// turn is the place of a line in the order that starts behind the cursor and goes
// round: a task that was left in the middle of a line gets its turn again when the
// lines behind the cursor have ended or wait. One departure to another task thus
// lets that task go on, as a preemption does.
func (s *Sim) turn(pos int) uint64 {
	if pos <= s.cursor {
		return uint64(pos) + 1<<62
	}
	return min(uint64(pos), 1<<62-1)
}

// pick chooses what runs when nobody chose: calls first, then handlers that are
// tasks, then the context whose line is next behind the cursor; a handler whose
// place has come is delivered. It runs checks when everything before them has
// ended, and returns nil at the end of the run.
func (s *Sim) pick() *Ctx {
	for !s.aborting {
		if c := s.pickCall(); c != nil {
			return c
		}
		if c := s.pickGrace(); c != nil {
			return c
		}
		best := s.pickTask(false)
		if h := s.pickHandler(best); h != nil {
			return s.hand(h)
		}
		if best != nil {
			return best
		}
		if s.drainFirst() {
			continue
		}
		if c := s.giveUp(); c != nil {
			return c
		}
		if s.endReaders() {
			continue
		}
		if s.stuck() {
			return nil
		}
		if s.passed == len(s.barriers) {
			return nil
		}
		s.cursor = s.barriers[s.passed]
		s.passed++
		if s.quiet != nil {
			s.quiet(s.passed - 1)
		}
	}
	return nil
}

func (s *Sim) pickCall() *Ctx {
	for _, cpu := range s.m.cpus {
		if s.callDue(cpu) {
			return cpu.context()
		}
	}
	return nil
}

// context is who takes an interrupt on cpu: the task that has it, else idle.
func (cpu *CPU) context() *Ctx {
	if cpu.cur != nil {
		return cpu.cur
	}
	cpu.idle.done = false
	return cpu.idle
}

// pickTask chooses a task, or an idle context in the middle of a handler. live leaves out those
// that only have to end.
func (s *Sim) pickTask(live bool) *Ctx {
	var best *Ctx
	var bestPos uint64
	for _, c := range s.tasks {
		if !s.runnable(c) || live && c.Over() {
			continue
		}
		pos := s.turn(c.order())
		if best == nil || c.prio > best.prio || c.prio == best.prio && pos < bestPos {
			best, bestPos = c, pos
		}
	}
	for _, cpu := range s.m.cpus {
		// An idle CPU that was left in the middle of a handler goes on.
		c := cpu.idle
		if c.done || !c.started || !s.runnable(c) {
			continue
		}
		if pos := s.turn(c.order()); best == nil || best.prio == 0 && pos < bestPos {
			best, bestPos = c, pos
		}
	}
	return best
}

func (s *Sim) pickHandler(best *Ctx) *Handler {
	var first *Handler
	for _, h := range s.handlers {
		if h.delivered > 0 || h.dropped || h.active || h.Pos >= s.limit() {
			continue
		}
		if best != nil && (best.prio > 0 || s.turn(best.order()) < s.turn(h.Pos)) {
			continue
		}
		if s.m.cpus[h.CPU].publishing() {
			continue // what the task has left to do comes first
		}
		if s.deliverable(h) && (first == nil || s.turn(h.Pos) < s.turn(first.Pos)) {
			first = h
		}
	}
	return first
}

// deliverable says whether h could be delivered to its CPU now.
func (s *Sim) deliverable(h *Handler) bool {
	cpu := s.m.cpus[h.CPU]
	if h.active || h.dropped || cpu.irqsOff || h.delivered >= IRQsMax || h.Pos >= s.limit() {
		return false
	}
	c := cpu.cur
	if h.ctx != nil {
		return h.ctx.done && (c == nil || cpu.takes(h.ctx.prio))
	}
	if c == nil {
		c = cpu.idle
	}
	return !c.window && c.depth < IRQDepthMax && c.f.irqs < IRQsPerOpMax
}

// resumable says whether h was left in the middle on a CPU without a task, and may go on.
func (s *Sim) resumable(c *Ctx, h *Handler) bool {
	return h.active && h.host != nil && h.host.idle && h.host != c && s.runnable(h.host)
}

// hand gives h, which is deliverable, to its CPU and returns the context that will run it.
func (s *Sim) hand(h *Handler) *Ctx {
	cpu := s.m.cpus[h.CPU]
	if h.ctx != nil {
		s.wakeHandler(h)
		return h.ctx
	}
	cpu.pending = h
	return cpu.context()
}

// wakeHandler starts the task of a handler on a real-time machine; it preempts
// the task that has the CPU.
func (s *Sim) wakeHandler(h *Handler) {
	c := h.ctx
	c.arm(h.Name, s.m.cpus[h.CPU], h.Pos, func(c *Ctx) { s.runHandler(c, h) })
	c.prio, c.pinned = 1, true
	c.fence()
	c.cpu.cur = c
}

// giveUp finds the wait to end when nothing else can run: that of the earliest
// line that waits for a name.
func (s *Sim) giveUp() *Ctx {
	var first *Ctx
	for _, c := range s.tasks {
		if c.done || !c.wait.mayGiveUp || c.wait.on == nil || c.cpu.cur != nil {
			continue
		}
		if first == nil || c.pos < first.pos {
			first = c
		}
	}
	if first != nil {
		first.wait.gaveUp = true
	}
	return first
}

// stuck notes a deadlock when somebody is in the middle of an operation.
func (s *Sim) stuck() bool {
	var who []string
	var last *Ctx
	for i := range len(s.tasks) + len(s.m.cpus) {
		c := s.context(i)
		if c.done || !c.inLine && c.wait.on == nil {
			continue
		}
		last = c
		who = append(who, c.Where().Task+" waits for "+c.waitsFor())
	}
	if last == nil {
		return false
	}
	last.Fault(fault.Deadlock, "%s", strings.Join(who, ", "))
	s.aborting = true
	return true
}

// context is task i, and behind the tasks the idle contexts.
func (s *Sim) context(i int) *Ctx {
	if i < len(s.tasks) {
		return s.tasks[i]
	}
	return s.m.cpus[i-len(s.tasks)].idle
}

func (c *Ctx) waitsFor() string {
	switch w := c.wait.on.(type) {
	case nil:
		return "its CPU"
	case *SpinLock:
		return w.f.Name()
	case *LocalLock:
		return "local lock " + w.f.Name()
	case *call:
		return "a call"
	case arrival:
		return "CPU " + strconv.Itoa(c.cpu.ID)
	case drained:
		return "its store buffer"
	case pastGrace:
		return "the end of read sections"
	}
	return "a name"
}

// Quiet says whether nobody but c is in the middle of an operation, a handler or
// a call, so that structures may be looked at. c may be nil.
func (s *Sim) Quiet(c *Ctx) bool {
	for _, t := range s.tasks {
		if t.depth > 0 || t != c && t.inLine && !t.done {
			return false
		}
	}
	for _, cpu := range s.m.cpus {
		if cpu.idle.depth > 0 || cpu.pending != nil {
			return false
		}
	}
	return true
}
