package machine

import (
	"fmt"
	"math"
	"runtime/debug"
	"slices"
	"strconv"
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
	thread    thread
	ctx       *Ctx // on a real-time machine: the task that runs it
	host      *Ctx // while it is active: what it interrupted
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
	cursor   int // order of the line that ended last: what comes next is behind it
	quiet    func(barrier int)

	chooser   Chooser
	filter    LineFilter
	watcher   Watcher
	picker    Picker
	end       Decision // not to depart at the end of a handler on an idle CPU, as Record keeps it
	next      *Ctx     // to be resumed
	after     Action   // taken when the idle context that runs has ended
	solo      bool     // one task and nothing else: no need to ask who is next
	aborting  bool
	panicked  any
	stack     []byte
	steps     uint64
	asked     struct{ step, times uint64 } // answers of the chooser since a step
	switches  uint64
	hash      uint64
	recording bool
	decisions []Decision
	tracing   bool
	trace     []TraceEntry
	locks     lockRules
	races     *races // nil while there is no plain word
	lineName  func(pos int) string
}

func newSim(m *Machine) *Sim {
	s := &Sim{m: m, locks: newLockRules()}
	for _, cpu := range m.cpus {
		cpu.idle = s.newCtx()
		cpu.idle.idle = true
	}
	s.reset()
	return s
}

// reset forgets the run. CPUs are reset afterwards.
func (s *Sim) reset() {
	for _, c := range s.tasks {
		c.release()
	}
	s.spare = append(s.spare, s.tasks...)
	s.tasks = s.tasks[:0]
	s.handlers = s.handlers[:0]
	s.barriers, s.passed, s.cursor, s.quiet = s.barriers[:0], 0, -1, nil
	s.chooser, s.filter, s.watcher, s.solo = nil, nil, nil, false
	s.next, s.after, s.picker, s.end = nil, Action{}, nil, Decision{}
	s.aborting, s.panicked, s.stack, s.steps, s.switches = false, nil, nil, 0, 0
	s.asked.step, s.asked.times = 0, 0
	s.hash = hashSeed
	s.recording, s.tracing = false, false
	s.decisions, s.trace = s.decisions[:0], s.trace[:0]
	s.locks.reset()
	s.races, s.lineName = nil, nil
	for i, cpu := range s.m.cpus {
		cpu.idle.release()
		cpu.idle.arm("idle", cpu, After, nil)
		cpu.idle.id = uint64(1000 + i)
		cpu.idle.done = true
	}
}

// release makes free what a run that did not come to its end left locked.
func (c *Ctx) release() {
	for _, l := range c.held {
		l.owner = nil
	}
	for _, l := range c.locals {
		l.owner = nil
	}
}

func (s *Sim) newCtx() *Ctx {
	c := &Ctx{sim: s, m: s.m}
	c.frames = append(c.frames, s.newFrame())
	c.f = c.frames[0]
	return c
}

func (s *Sim) newFrame() *frame {
	return &frame{counts: make([]attempt, rows*int(nKinds))}
}

// arm makes c ready to run body.
func (c *Ctx) arm(name string, cpu *CPU, pos int, body func(*Ctx)) {
	c.name, c.cpu, c.pos, c.body = name, cpu, pos, body
	c.depth, c.f = 0, c.frames[0]
	c.f.begin(-1)
	c.f.handler, c.f.delivery, c.f.choose, c.f.thread = nil, 0, true, &c.thread
	c.held, c.locals = c.held[:0], c.locals[:0]
	c.inLine, c.pinned, c.done, c.started = false, false, false, false
	c.prio, c.noMigrate, c.failNext, c.window = 0, 0, false, false
	c.plain, c.hold = false, false
	c.f.readers, c.sections = 0, 0
	c.wait, c.chosen, c.at = wait{}, false, KEnd
}

// AddTask adds a task that starts on a CPU. pos is the order of its first line;
// pinned keeps it on the CPU. At most MaxTasks are allowed.
func (m *Machine) AddTask(name string, cpu, pos int, pinned bool, body func(*Ctx)) *Ctx {
	s := m.simulated("AddTask")
	if len(s.tasks) == MaxTasks {
		panic("allocfuzz: " + name + " is one task too many, the limit is " +
			strconv.Itoa(MaxTasks))
	}
	m.wantCPU(name, cpu)
	c := s.take()
	c.arm(name, m.cpus[cpu], pos, body)
	c.pinned = pinned
	c.id = uint64(len(s.tasks) + 1)
	s.tasks = append(s.tasks, c)
	return c
}

// simulated returns the scheduler, which a native machine does not have.
func (m *Machine) simulated(what string) *Sim {
	if m.sim == nil {
		panic("allocfuzz: " + what + " on a native machine")
	}
	return m.sim
}

func (m *Machine) wantCPU(name string, cpu int) {
	if cpu < 0 || cpu >= len(m.cpus) {
		panic("allocfuzz: " + name + " on CPU " + strconv.Itoa(cpu) + " of a machine that has " +
			strconv.Itoa(len(m.cpus)))
	}
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
	s := m.simulated("AddHandler")
	m.wantCPU(h.Name, h.CPU)
	h.delivered, h.active, h.dropped, h.index, h.ctx = 0, false, false, len(s.handlers), nil
	h.host = nil
	s.handlers = append(s.handlers, h)
	if m.Preempt != PreemptRT {
		return
	}
	c := m.AddTask(h.Name, h.CPU, After, true, nil)
	c.prio, c.done = 1, true
	h.ctx = c
}

// SetBarriers gives the order positions of checks: no line behind one starts
// before all before it have ended, and quiet is called there with the barrier's
// number while nothing runs.
func (m *Machine) SetBarriers(positions []int, quiet func(barrier int)) {
	s := m.simulated("SetBarriers")
	if !slices.IsSorted(positions) {
		panic("allocfuzz: barriers must be in order")
	}
	s.barriers, s.passed = append(s.barriers[:0], positions...), 0
	s.quiet = quiet
}

// Run lets the tasks run to their end, or to a fault after which nothing can go
// on. ch may be nil. A panic in a context, in the chooser or at a barrier comes back
// as *Panic. After a run that came to its end tasks may be added and Run called
// again.
func (s *Sim) Run(ch Chooser) error {
	s.chooser = ch
	s.filter, _ = ch.(LineFilter)
	s.watcher, _ = ch.(Watcher)
	s.picker, _ = ch.(Picker)
	s.solo = len(s.tasks) == 1 && len(s.handlers) == 0 && len(s.barriers) == 0 && ch == nil
	if s.races != nil {
		s.races.level()
	}
	s.next = s.pickNext()
	for s.next != nil && !s.aborting {
		c := s.next
		s.next, s.after = nil, Action{}
		s.resume(c)
		if s.next == nil {
			s.next = s.following(c)
		}
		if s.next == nil && !s.aborting {
			s.next = s.pickNext()
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

// following is who was chosen to come behind an idle context whose handler has returned: at the
// end of the handler or now; nil when nobody was.
func (s *Sim) following(c *Ctx) *Ctx {
	if s.after.Kind == SwitchTo && s.runnable(s.after.Task) ||
		s.after.Kind == Interrupt && (s.after.Handler.active || s.deliverable(s.after.Handler)) {
		return s.target(s.after)
	}
	if s.after.Kind != Go || !c.idle || s.picker == nil || s.aborting {
		return nil
	}
	defer func() { s.caught(recover()) }()
	a := s.picker.Pick()
	if a.Kind == Go {
		return nil
	}
	if a.Kind != SwitchTo && a.Kind != Interrupt {
		panic("allocfuzz: the chooser picks a " + a.Kind.String() + ", which is nobody")
	}
	if s.recording && s.end.Handler != nil {
		d := s.end
		if d.Action = a; a.Task != nil {
			d.CPU = a.Task.cpu.ID
		}
		s.decisions = append(s.decisions, d)
	}
	return s.target(a)
}

// pickNext is pick outside every context: a panic of the function at a barrier has
// no coroutine to be caught in.
func (s *Sim) pickNext() *Ctx {
	defer func() { s.caught(recover()) }()
	return s.pick()
}

// caught ends the run when r is a panic other than the end of a run.
func (s *Sim) caught(r any) {
	if r == nil || Stopped(r) {
		return
	}
	s.aborting = true
	if s.panicked == nil {
		s.panicked, s.stack = r, debug.Stack()
	}
}

// unwind resumes every context that is in the middle of something, which panics
// with stopRun, so that the coroutines can be used again.
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
func (s *Sim) note(v uint64) { s.hash = mix(s.hash, v) }

// A Panic is a panic in a context, with the stack it came from.
type Panic struct {
	Value any
	Stack []byte
}

// Error is the panic's value.
func (p *Panic) Error() string { return fmt.Sprint(p.Value) }

// NameLines gives lines the names that findings use for them, until Reset.
func (s *Sim) NameLines(name func(pos int) string) { s.lineName = name }

// nameLine names the line of order pos for people.
func (s *Sim) nameLine(pos int) string {
	switch {
	case pos < 0 || pos == After:
		return "between lines"
	case s.lineName != nil:
		return s.lineName(pos)
	}
	return "operation " + strconv.Itoa(pos+1)
}
