package machine

import (
	"cmp"
	"fmt"
	"slices"
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
		if s.races != nil {
			s.races.level()
		}
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
		what, _ := s.waitsFor(c)
		who = append(who, c.nameAt(c.depth)+" waits for "+what)
	}
	if last == nil {
		return false
	}
	if circle := s.circle(); circle != nil {
		who = append(who, "a circle of "+strings.Join(circle, ", "))
	}
	last.Fault(fault.Deadlock, "%s", strings.Join(who, "; "))
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

// circle names contexts each of which waits for the next and the last for the first; nil when
// there are none, since the last waits for what nobody has.
func (s *Sim) circle() []string {
	for i := range len(s.tasks) + len(s.m.cpus) {
		first := s.context(i)
		if first.done {
			continue
		}
		var names []string
		c := first
		for range len(s.tasks) + len(s.m.cpus) {
			names = append(names, c.nameAt(c.depth))
			if _, c = s.waitsFor(c); c == nil || c == first {
				break
			}
		}
		if c == first {
			return names
		}
	}
	return nil
}

// waitsFor says what c waits for and who has that, nil for nobody.
func (s *Sim) waitsFor(c *Ctx) (what string, who *Ctx) {
	switch w := c.wait.on.(type) {
	case *SpinLock:
		if w.owner != nil {
			return w.f.Name() + ", which " + w.owner.says("took", w.depth), w.owner
		}
	case *LocalLock:
		if w.owner != nil {
			return "local lock " + w.f.Name() + ", which " + w.owner.says("took", 0), w.owner
		}
	case *call:
		return s.held("a call on", w.target)
	case pastGrace:
		for i := range len(s.tasks) + len(s.m.cpus) {
			if t := s.context(i); t.sections > 0 {
				return "the end of read sections, of which " + t.says("has one open", t.depth), t
			}
		}
		return "the end of read sections", nil
	case drained:
		return "its store buffer", nil
	case nil, arrival:
	default:
		return "a name", nil
	}
	return s.held("", c.cpu)
}

// held says who has a CPU.
func (s *Sim) held(what string, cpu *CPU) (string, *Ctx) {
	what = strings.TrimPrefix(fmt.Sprintf("%s CPU %d", what, cpu.ID), " ")
	t := cpu.cur
	if t == nil {
		return what, nil
	}
	how := "has it"
	if cpu.irqsOff {
		how = "has it with interrupts off"
	}
	return what + ", where " + t.says(how, t.depth), t
}

// says is who of those nested on c did something, and in which line.
func (c *Ctx) says(what string, depth int) string {
	return fmt.Sprintf("%s %s in %s on CPU %d", c.nameAt(depth), what, c.lineAt(depth), c.cpu.ID)
}

// nameAt is the name of what is nested on c so deep: a handler's, or the task's own.
func (c *Ctx) nameAt(depth int) string {
	if h := c.frames[depth].handler; h != nil {
		return h.Name
	}
	if depth > 0 {
		return "a call on CPU " + fmt.Sprint(c.cpu.ID)
	}
	return c.name
}

// lineAt names the line that it is in.
func (c *Ctx) lineAt(depth int) string { return c.sim.nameLine(c.frames[depth].pos) }

// goesRoundMax bounds the kinds of points that a livelock is described by.
const goesRoundMax = 8

// goesRound names the points that come again and again in c's operation, the most frequent
// first.
func (c *Ctx) goesRound() string {
	type often struct {
		n    uint32
		name string
	}
	var all []often
	for _, f := range fields {
		for k := range nKinds {
			i := f.row*int(nKinds) + int(k)
			if i < len(c.f.counts) && c.f.counts[i].epoch == c.f.epoch {
				all = append(all, often{c.f.counts[i].n, k.String() + " " + f.Name()})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b often) int { return cmp.Compare(b.n, a.n) })
	var parts []string
	for _, o := range all[:min(len(all), goesRoundMax)] {
		if o.n >= all[0].n/2 {
			parts = append(parts, fmt.Sprintf("%d times %s", o.n, o.name))
		}
	}
	return strings.Join(parts, ", ")
}
