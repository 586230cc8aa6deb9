package machine

import (
	"fmt"
	"math"

	"allocfuzz/impls/fault"
)

// After is the order position of a context that has no further line.
const After = math.MaxInt

// A Handler is an interrupt handler of one CPU: a body that runs nested on what
// it interrupts. By default it is delivered once, at the place of its first line.
type Handler struct {
	CPU       int
	Name      string
	Pos       int // order of its first line
	Body      func(*Ctx)
	delivered int
	active    bool
	dropped   bool
	index     int
	ctx       *Ctx // on a real-time machine: the task that runs it
}

// Delivered is the number of deliveries so far.
func (h *Handler) Delivered() int { return h.delivered }

// Due says whether h is still to be delivered by default.
func (h *Handler) Due() bool { return h.delivered == 0 && !h.dropped && !h.active }

// A Sim schedules the contexts of a simulated machine: exactly one runs at a
// time, and at every point a Chooser may let something else happen. Without its
// word operations run in the order of the program's lines.
type Sim struct {
	m        *Machine
	tasks    []*Ctx
	spare    []*Ctx
	handlers []*Handler
	barriers []int
	passed   int // barriers behind us
	quiet    func(barrier int)

	chooser   Chooser
	filter    LineFilter
	next      *Ctx
	cur       *Ctx
	solo      bool
	aborting  bool
	panicked  any
	stack     []byte
	steps     uint64
	switches  uint64
	hash      uint64
	recording bool
	decisions []Decision
	tracing   bool
	trace     []TraceEntry
	pointHook func(c *Ctx)

	classes []lockClass
	told    []bool
}

func newSim(m *Machine) *Sim {
	s := &Sim{m: m, classes: make([]lockClass, len(fields)), told: make([]bool, len(fields))}
	for _, cpu := range m.cpus {
		cpu.idle = s.newCtx()
		cpu.idle.idle = true
	}
	s.reset()
	return s
}

const hashSeed = 14695981039346656037

func (s *Sim) reset() {
	for _, c := range s.tasks {
		s.spare = append(s.spare, c)
	}
	s.tasks = s.tasks[:0]
	s.handlers = s.handlers[:0]
	s.barriers, s.passed, s.quiet = s.barriers[:0], 0, nil
	s.chooser, s.filter, s.next, s.cur = nil, nil, nil, nil
	s.aborting, s.panicked, s.stack, s.steps, s.switches = false, nil, nil, 0, 0
	s.hash = hashSeed
	s.recording, s.tracing, s.pointHook = false, false, nil
	s.decisions, s.trace = s.decisions[:0], s.trace[:0]
	clear(s.classes)
	clear(s.told)
	for i, cpu := range s.m.cpus {
		cpu.idle.arm("idle", cpu, After, nil)
		cpu.idle.id = uint64(1000 + i)
		cpu.idle.done = true
	}
}

func (s *Sim) newCtx() *Ctx {
	c := &Ctx{sim: s, m: s.m}
	c.frames = append(c.frames, s.newFrame())
	c.f = c.frames[0]
	return c
}

func (s *Sim) newFrame() *frame {
	return &frame{counts: make([]attempt, len(fields)*int(nKinds))}
}

// arm makes c ready to run body.
func (c *Ctx) arm(name string, cpu *CPU, pos int, body func(*Ctx)) {
	c.name, c.cpu, c.pos, c.body = name, cpu, pos, body
	c.depth, c.irqDepth, c.f = 0, 0, c.frames[0]
	c.f.begin(-1)
	c.f.handler, c.f.delivery, c.f.choose = nil, 0, true
	c.held = c.held[:0]
	c.inLine, c.pinned, c.done, c.started = false, false, false, false
	c.prio, c.noMigrate, c.failNext, c.window = 0, 0, false, false
	c.waiting, c.sleeping, c.mayGiveUp, c.gaveUp, c.handler = nil, false, false, false, nil
	c.chosen = false
}

func (f *frame) begin(pos int) {
	f.pos, f.steps, f.irqs, f.pageRequests, f.failAt, f.refused = pos, 0, 0, 0, 0, 0
	f.iter = [2]int32{}
	f.epoch++
}

// AddTask adds a task that starts on a CPU. pos is the order of its first line;
// pinned keeps it on the CPU. At most MaxTasks are allowed.
func (m *Machine) AddTask(name string, cpu, pos int, pinned bool, body func(*Ctx)) *Ctx {
	s := m.sim
	if len(s.tasks) == MaxTasks {
		panic("allocfuzz: too many tasks")
	}
	c := s.take()
	c.arm(name, m.cpus[cpu], pos, body)
	c.pinned = pinned
	c.id = uint64(len(s.tasks) + 1)
	s.tasks = append(s.tasks, c)
	return c
}

func (s *Sim) take() *Ctx {
	if n := len(s.spare); n > 0 {
		c := s.spare[n-1]
		s.spare = s.spare[:n-1]
		return c
	}
	return s.newCtx()
}

// AddHandler adds an interrupt handler. On a real-time machine it becomes a task
// of high priority that each delivery wakes.
func (m *Machine) AddHandler(h *Handler) {
	s := m.sim
	h.delivered, h.active, h.dropped, h.index, h.ctx = 0, false, false, len(s.handlers), nil
	s.handlers = append(s.handlers, h)
	if m.Preempt != PreemptRT {
		return
	}
	c := m.AddTask(h.Name, h.CPU, After, true, nil)
	c.prio, c.handler, c.done = 1, h, true
	h.ctx = c
}

// SetBarriers gives the order positions of checks: no line behind one starts
// before all before it have ended, and quiet is called there with the barrier's
// number while nothing runs.
func (m *Machine) SetBarriers(positions []int, quiet func(barrier int)) {
	m.sim.barriers = append(m.sim.barriers[:0], positions...)
	m.sim.quiet = quiet
}

// Run lets the tasks run to their end, or to a fault after which nothing can go
// on. ch may be nil. A panic in a context comes back as *Panic.
func (s *Sim) Run(ch Chooser) error {
	s.chooser = ch
	s.filter, _ = ch.(LineFilter)
	s.solo = len(s.tasks) == 1 && len(s.handlers) == 0 && len(s.barriers) == 0 && ch == nil
	s.next = s.pick()
	for s.next != nil && !s.aborting {
		c := s.next
		s.next = nil
		s.resume(c)
		if s.next == nil && !s.aborting {
			s.next = s.pick()
		}
	}
	if s.aborting {
		s.unwind()
	}
	if s.panicked != nil {
		return &Panic{Value: s.panicked, Stack: s.stack}
	}
	return nil
}

func (s *Sim) unwind() {
	for _, c := range s.tasks {
		if c.started && !c.done {
			s.resume(c)
		}
	}
	for _, cpu := range s.m.cpus {
		if cpu.idle.started && !cpu.idle.done {
			s.resume(cpu.idle)
		}
	}
}

// Aborted says whether the run stopped at a fault it could not go past.
func (s *Sim) Aborted() bool { return s.aborting }

// Steps is the number of points so far.
func (s *Sim) Steps() uint64 { return s.steps }

// Switches is the number of times another context was resumed.
func (s *Sim) Switches() uint64 { return s.switches }

// Hash is a hash of the trace: every point with its context, field and value.
func (s *Sim) Hash() uint64 { return s.hash }

// note folds a value into the trace hash.
func (s *Sim) note(v uint64) { s.hash = (s.hash ^ v) * 1099511628211 }

// A Panic is a panic in a context, with the stack it came from.
type Panic struct {
	Value any
	Stack []byte
}

// Error is the panic's value.
func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

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
	if c.waiting != nil {
		return c.gaveUp || c.waiting.Ready(c) || c.cpu.cur == c && s.callDue(c.cpu)
	}
	// A context switched away from at the end of its last line goes on to its end.
	return c.inLine || c.depth > 0 || c.prio > 0 || c.pos < s.limit() || c.pos == After && c.started
}

func (s *Sim) callDue(cpu *CPU) bool { return len(cpu.calls) > 0 && !cpu.irqsOff }

// order is the earliest line that c has not ended.
func (c *Ctx) order() int {
	pos := c.pos
	if c.inLine {
		pos = c.frames[0].pos
	}
	for _, f := range c.frames[1 : c.depth+1] {
		if f.pos >= 0 && f.pos < pos {
			pos = f.pos
		}
	}
	return pos
}

// pick chooses what runs when nobody chose: calls first, then handlers that are
// tasks, then the context with the earliest line; a handler whose place has come
// is delivered. It runs checks when everything before them has ended, and
// returns nil at the end of the run.
func (s *Sim) pick() *Ctx {
	for !s.aborting {
		if c := s.pickCall(); c != nil {
			return c
		}
		best := s.pickTask()
		if h := s.pickHandler(best); h != nil {
			return s.hand(h)
		}
		if best != nil {
			return best
		}
		if c := s.giveUp(); c != nil {
			return c
		}
		if s.stuck() {
			return nil
		}
		if s.passed == len(s.barriers) {
			return nil
		}
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

func (s *Sim) pickTask() *Ctx {
	var best *Ctx
	bestPos := 0
	for _, c := range s.tasks {
		if !s.runnable(c) {
			continue
		}
		pos := c.order()
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
		if pos := c.order(); best == nil || best.prio == 0 && pos < bestPos {
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
		if best != nil && (best.prio > 0 || best.order() < h.Pos) {
			continue
		}
		if s.deliverable(h) && (first == nil || h.Pos < first.Pos) {
			first = h
		}
	}
	return first
}

// deliverable says whether h could be delivered to its CPU now.
func (s *Sim) deliverable(h *Handler) bool {
	cpu := s.m.cpus[h.CPU]
	if h.active || h.dropped || cpu.irqsOff || cpu.pending != nil {
		return false
	}
	if h.ctx != nil {
		return h.ctx.done && (cpu.cur == nil || cpu.preempt == 0)
	}
	c := cpu.cur
	if c == nil {
		c = cpu.idle
	}
	return !c.window && c.irqDepth < IRQDepthMax && c.f.irqs < IRQsPerOpMax
}

// hand gives h to its CPU and returns the context that will run it.
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
	id := c.id
	c.arm(h.Name, s.m.cpus[h.CPU], h.Pos, func(c *Ctx) { s.runHandler(c, h) })
	c.prio, c.handler, c.pinned, c.id = 1, h, true, id
	c.cpu.cur = c
}

// giveUp finds the wait to end when nothing else can run: that of the earliest
// line that waits for a name.
func (s *Sim) giveUp() *Ctx {
	var first *Ctx
	for _, c := range s.tasks {
		if c.done || !c.mayGiveUp || c.waiting == nil {
			continue
		}
		if first == nil || c.pos < first.pos {
			first = c
		}
	}
	if first != nil {
		first.gaveUp = true
	}
	return first
}

// stuck notes a deadlock when somebody is in the middle of an operation.
func (s *Sim) stuck() bool {
	var who string
	var first *Ctx
	for _, c := range s.tasks {
		if c.done || !c.inLine && c.waiting == nil {
			continue
		}
		first = c
		who += " " + c.name + " waits for " + c.waitsFor() + ";"
	}
	if first == nil {
		return false
	}
	first.Fault(fault.Deadlock, "%s", who)
	s.aborting = true
	return true
}

func (c *Ctx) waitsFor() string {
	switch w := c.waiting.(type) {
	case nil:
		return "its CPU"
	case *SpinLock:
		return w.f.Name()
	case *LocalLock:
		return "local lock " + w.f.Name()
	}
	return "a call"
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
