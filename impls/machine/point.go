package machine

import "allocfuzz/impls/fault"

// point is where something else may happen before c's next access.
func (c *Ctx) point(k Kind, f *Field) {
	s, fr := c.sim, c.f
	if s.races != nil {
		s.races.before(c)
	}
	s.steps++
	s.hash = mix(s.hash, f.hash^c.id<<8^uint64(k))
	fr.steps++
	if fr.steps > fr.limit {
		c.Die(fault.NoProgress, "%d points without an end: %s", StepsMax, c.goesRound())
	}
	i := f.row*int(nKinds) + int(k)
	if i >= len(fr.counts) {
		fr.counts = append(fr.counts, make([]attempt, i+1-len(fr.counts))...)
	}
	at := &fr.counts[i]
	if at.epoch != fr.epoch {
		at.epoch, at.n = fr.epoch, 0
	}
	at.n++
	if s.tracing {
		s.keep(c, k, f, int(at.n))
	}
	if s.chooser != nil && fr.choose {
		c.decide(Point{Kind: k, Field: f, N: int(at.n)})
	}
	if s.races != nil {
		s.races.behind(c)
	}
}

func (s *Sim) keep(c *Ctx, k Kind, f *Field, n int) {
	s.trace = append(s.trace,
		TraceEntry{Where: c.Where(), Line: c.Line(), Kind: k, Field: f, N: n, Depth: c.depth})
}

// A TraceEntry is one point of a run.
type TraceEntry struct {
	Where fault.Where
	Line  Line // with the iterations and the delivery that an anchor names
	Kind  Kind
	Field *Field
	N     int // attempt of this kind and field in this execution of the line
	Depth int // handlers and calls that it is nested in
}

// Trace makes every point until Reset be kept; see Entries.
func (s *Sim) Trace() { s.tracing = true }

// Entries returns the points that Trace kept. The slice is valid until Reset.
func (s *Sim) Entries() []TraceEntry { return s.trace }

// A Point is what a Chooser is asked about.
type Point struct {
	Kind  Kind
	Field *Field
	N     int  // attempt, from 1, of this kind and field in this execution of the line
	plain bool // a store that may be held back
}

// A Chooser decides at points. Choose is called again at the same point until it
// answers Go. It must answer only what Allowed permits: anything else is a harness
// fault.
type Chooser interface {
	Choose(c *Ctx, p Point) Action
}

// A Picker is a Chooser that is also asked when a handler on an idle CPU has returned and nobody
// runs: who comes next. Go leaves it to the order of lines.
type Picker interface {
	Pick() Action
}

// A LineFilter is a Chooser that need not be asked on every line: Wants is called
// when a line begins.
type LineFilter interface {
	Wants(c *Ctx) bool
}

// ActionKind is what happens at a point.
type ActionKind uint8

// The actions.
const (
	Go        ActionKind = iota // go on
	SwitchTo                    // another context runs
	Interrupt                   // a handler is delivered
	Move                        // the task goes to another CPU
	FailPages                   // this page request fails
	Suppress                    // a handler will not be delivered by default
	Hold                        // this store stays in the CPU's store buffer
	Drain                       // the oldest store of a CPU's buffer happens
)

var actionNames = [...]string{"go", "switch", "interrupt", "move", "fail", "suppress", "hold",
	"drain"}

// String names the action.
func (k ActionKind) String() string { return nameOf(actionNames[:], int(k)) }

// An Action is a decision at a point.
type Action struct {
	Kind    ActionKind
	Task    *Ctx     // SwitchTo
	Handler *Handler // Interrupt, Suppress
	CPU     int      // Move, Drain
}

// A Decision is an action and where it was taken.
type Decision struct {
	Pos      int      // order of the line
	Iter     [2]int32 // iterations of the repeats around it
	Handler  *Handler // of the frame, nil in a task
	Delivery int
	Point    Point
	Action   Action
	CPU      int // CPU of the task switched to
}

// Record makes the decisions until Reset that were not Go be kept; see Decisions.
func (s *Sim) Record() { s.recording = true }

// Decisions returns what Record kept. The slice is valid until Reset.
func (s *Sim) Decisions() []Decision { return s.decisions }

// A Line is what a context is executing: a line, in which iterations of the
// repeats around it, of a task or of one delivery of a handler.
type Line struct {
	Pos      int
	Iter     [2]int32
	Handler  *Handler
	Delivery int
	Points   int // points of it so far, in its own frame
}

// Line says what c is executing in its innermost frame; Pos is -1 outside lines.
func (c *Ctx) Line() Line {
	f := c.f
	return Line{Pos: f.pos, Iter: f.iter, Handler: f.handler, Delivery: f.delivery,
		Points: f.steps}
}

func (c *Ctx) decide(p Point) {
	s, hold := c.sim, false
	p.plain, c.plain = c.plain, false
	for !s.aborting {
		c.at = p.Kind
		a := s.chooser.Choose(c, p)
		s.questioned(p)
		if a.Kind == Go {
			s.end = Decision{}
			if s.recording && c.ending(p) {
				s.end = c.decision(p, a)
			}
			break
		}
		if !c.Allowed(p, a) {
			panic("allocfuzz: the chooser's " + a.Kind.String() + " is not allowed at " +
				p.Kind.String() + " " + p.Field.Name() + ": ask Allowed first")
		}
		if s.recording {
			s.record(c, p, a)
		}
		if a.Kind == Hold {
			hold, p.plain = true, false
			continue
		}
		if c.ending(p) && (a.Kind == SwitchTo || a.Kind == Interrupt) {
			s.after = a
			return // it comes when the handler has returned
		}
		c.apply(a)
	}
	c.hold = hold
}

func (s *Sim) record(c *Ctx, p Point, a Action) {
	s.decisions = append(s.decisions, c.decision(p, a))
}

func (c *Ctx) decision(p Point, a Action) Decision {
	d := Decision{Pos: c.f.pos, Iter: c.f.iter, Handler: c.f.handler, Delivery: c.f.delivery,
		Point: p, Action: a}
	if a.Task != nil {
		d.CPU = a.Task.cpu.ID
	}
	return d
}

// target is who runs by a switch or an interrupt.
func (s *Sim) target(a Action) *Ctx {
	switch {
	case a.Kind == SwitchTo:
		return a.Task
	case a.Handler.active:
		return a.Handler.host
	}
	return s.hand(a.Handler)
}

// Allowed says whether a may be chosen by c at p.
func (c *Ctx) Allowed(p Point, a Action) bool {
	s := c.sim
	switch a.Kind {
	case Go:
		return true
	case SwitchTo:
		return c.maySwitch(p, a.Task)
	case Interrupt:
		return a.Handler != nil && (s.deliverable(a.Handler) || s.resumable(c, a.Handler))
	case Move:
		return c.mayMove(p, a.CPU)
	case FailPages:
		return p.Kind == KPageAlloc && !c.failNext
	case Suppress:
		return a.Handler != nil && a.Handler.Due()
	case Hold:
		return p.plain && c.m.CPUs > 1 && len(c.cpu.stores) == 0
	case Drain:
		return a.CPU >= 0 && a.CPU < c.m.CPUs && len(c.m.cpus[a.CPU].stores) > 0
	}
	return false
}

// preemptible says whether another task of this CPU may take over at p.
func (c *Ctx) preemptible(p Point) bool {
	if c.window || c.depth > 0 {
		return false
	}
	if p.Kind == KEnd || c.wait.sleeping && p.Kind == KWait {
		return true
	}
	return c.m.Preempt != PreemptNone && c.cpu.preempt == 0 && !c.cpu.irqsOff
}

func (c *Ctx) maySwitch(p Point, to *Ctx) bool {
	s := c.sim
	if to == c {
		return c.mayStay(p)
	}
	if to == nil || to.done {
		return false
	}
	if to.cpu != c.cpu {
		return s.runnable(to) && !s.outranked(to)
	}
	if !c.preemptible(p) && !c.ending(p) {
		return false
	}
	if t := c.cpu.cur; t != nil && t != c && t != to &&
		(c.m.Preempt == PreemptNone || !c.cpu.takes(to.prio)) {
		return false // c came here between lines, and the task of this CPU may not lose it
	}
	had := c.cpu.cur
	c.cpu.cur = nil
	ok := s.runnable(to) && !s.outranked(to)
	c.cpu.cur = had
	return ok
}

// mayStay says whether c may go on with its next line at once though others come first in the
// order of lines.
func (c *Ctx) mayStay(p Point) bool {
	s := c.sim
	return p.Kind == KEnd && c.depth == 0 && !c.inLine && !c.done && !c.chosen && c.pos != After &&
		s.runnable(c) && !s.outranked(c) && c.Next(p) != c
}

// Next is the context that goes on when nobody chooses at p and c gives its CPU away there: at
// the end of a line and in a wait. nil when a handler, a call or a callback comes first, or
// nobody can.
func (c *Ctx) Next(p Point) *Ctx {
	s := c.sim
	if p.Kind != KWait && (p.Kind != KEnd || c.depth > 0 && !c.ending(p)) {
		return c
	}
	if s.pickCall() != nil || s.graceDue() {
		return nil
	}
	over, had := c.done, c.cpu.cur
	if c.done = c.Over() || c.idle; c.idle {
		c.cpu.cur = nil
	}
	best := s.pickTask(true)
	if s.pickHandler(best) != nil {
		best = nil
	}
	c.done, c.cpu.cur = over, had
	return best
}

// questionsMax bounds the answers of a chooser in a row that bring no step about.
const questionsMax = 1 << 16

// questioned counts the answers since the last step: a chooser that switches to and fro for ever is
// a fault of the chooser, and no hang.
func (s *Sim) questioned(p Point) {
	if s.steps != s.asked.step {
		s.asked.step, s.asked.times = s.steps, 0
	}
	if s.asked.times++; s.asked.times > questionsMax {
		panic("allocfuzz: the chooser brings no step about at " + p.Kind.String() + " " +
			p.Field.Name())
	}
}

// Stuck says whether c cannot go on at p by itself: it waits or has ended.
func (c *Ctx) Stuck(p Point) bool {
	return p.Kind == KWait && c.Waits() || p.Kind == KEnd && c.depth == 0 && c.Over() ||
		c.ending(p)
}

// ending says whether c is an idle CPU at the end of the only handler that it runs: who is
// switched to there comes when the handler has returned.
func (c *Ctx) ending(p Point) bool {
	return c.idle && c.depth == 1 && p.Kind == KEnd && c.f.final
}

// outranked says whether a handler's task that can run keeps c from its CPU.
func (s *Sim) outranked(c *Ctx) bool {
	if s.m.Preempt != PreemptRT {
		return false
	}
	for _, t := range s.tasks {
		if t.prio > c.prio && t.cpu == c.cpu && s.runnable(t) {
			return true
		}
	}
	return false
}

func (c *Ctx) mayMove(p Point, cpu int) bool {
	if cpu < 0 || cpu >= c.m.CPUs || cpu == c.cpu.ID || !c.mayLeave(p) {
		return false
	}
	// Between lines it joins the tasks that wait for the CPU.
	return !c.inLine || c.m.cpus[cpu].admits(c.prio)
}

// mayLeave says whether c may be moved off its CPU at p, as far as that CPU goes.
func (c *Ctx) mayLeave(p Point) bool {
	return !c.pinned && !c.idle && c.noMigrate == 0 && c.preemptible(p)
}

// admits says whether a task of priority prio may be moved to the CPU in the middle of a line.
func (cpu *CPU) admits(prio int) bool { return cpu.cur == nil || cpu.takes(prio) }

// takes says whether a task of priority prio may preempt the one that has the CPU.
func (cpu *CPU) takes(prio int) bool {
	t := cpu.cur
	return cpu.preempt == 0 && !cpu.irqsOff && t.depth == 0 && !t.window && t.prio <= prio
}

func (c *Ctx) apply(a Action) {
	s := c.sim
	switch a.Kind {
	case SwitchTo:
		if a.Task == c {
			c.chosen = true
			return
		}
		if a.Task.cpu == c.cpu {
			c.fence()
			c.cpu.cur = nil // until the task settles
		}
		s.yieldTo(c, a.Task)
	case Interrupt:
		if to := s.target(a); to == c {
			c.serve()
		} else {
			s.yieldTo(c, to)
		}
	case Move:
		c.migrate(s.m.cpus[a.CPU])
		s.note(uint64(a.CPU))
		if c.inLine && !c.wait.sleeping {
			c.cpu.cur = c
		} else {
			c.chosen = false // whoever has the new CPU goes first
		}
	case FailPages:
		c.failNext = true
	case Suppress:
		a.Handler.dropped = true
	case Drain:
		s.drain(s.m.cpus[a.CPU])
	}
}

// migrate takes c off its CPU and to another. Both switch tasks, which drains their buffers.
func (c *Ctx) migrate(to *CPU) {
	c.fence()
	if c.cpu.cur == c {
		c.cpu.cur = nil
	}
	c.cpu = to
	c.fence()
}

// openWindow is the moment inside a local cmpxchg in which other CPUs may run and
// this one may not take an interrupt: a point of kind store.
func (c *Ctx) openWindow(f *Field) {
	if c.m.CPUs > 1 {
		c.window = true
		c.plainPoint(KStore, f)
	}
}

// closeWindow ends the local cmpxchg: calls of other CPUs that came meanwhile are
// made now.
func (c *Ctx) closeWindow() {
	c.window = false
	if len(c.cpu.calls) > 0 {
		c.serve()
	}
}
