package machine

import "allocfuzz/impls/fault"

// point is where something else may happen before c's next access.
func (c *Ctx) point(k Kind, f *Field) {
	s, fr := c.sim, c.f
	s.steps++
	s.hash = (s.hash ^ f.hash ^ c.id<<8 ^ uint64(k)) * 1099511628211
	fr.steps++
	if fr.steps > StepsMax && !s.aborting {
		c.Die(fault.NoProgress, "%d points without an end, last %s %s", StepsMax, k, f.Name())
	}
	at := &fr.counts[int(f.id)*int(nKinds)+int(k)]
	if at.epoch != fr.epoch {
		at.epoch, at.n = fr.epoch, 0
	}
	at.n++
	if s.tracing || s.pointHook != nil {
		s.look(c, k, f, int(at.n))
	}
	if s.chooser != nil && fr.choose {
		c.decide(Point{Kind: k, Field: f, N: int(at.n)})
	}
}

// Progress starts the step limit of the operation afresh. An operation that goes
// over everything a program has made, such as a drain of all caches, calls it for
// each thing: its length is the program's, while what it does for one is bounded.
func (c *Ctx) Progress() { c.f.steps = 0 }

func (s *Sim) look(c *Ctx, k Kind, f *Field, n int) {
	if s.tracing {
		s.trace = append(s.trace, TraceEntry{Where: c.Where(), Kind: k, Field: f, N: n, Depth: c.depth})
	}
	if s.pointHook != nil {
		s.pointHook(c)
	}
}

// A TraceEntry is one point of a run.
type TraceEntry struct {
	Where fault.Where
	Kind  Kind
	Field *Field
	N     int // attempt of this kind and field in this execution of the line
	Depth int // handlers nested below it
}

// Trace makes the next Run keep every point; see Entries.
func (s *Sim) Trace() { s.tracing = true }

// Entries returns the points that Trace kept. The slice is valid until Reset.
func (s *Sim) Entries() []TraceEntry { return s.trace }

// A Point is what a Chooser is asked about.
type Point struct {
	Kind  Kind
	Field *Field
	N     int // attempt, from 1, of this kind and field in this execution of the line
}

// A Chooser decides at points. Choose is called again at the same point until it
// answers Go. It must answer only what Allowed permits.
type Chooser interface {
	Choose(c *Ctx, p Point) Action
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
)

// An Action is a decision at a point.
type Action struct {
	Kind    ActionKind
	Task    *Ctx     // SwitchTo
	Handler *Handler // Interrupt, Suppress
	CPU     int      // Move
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

// Record makes the next Run keep the decisions that were not Go; see Decisions.
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
}

// Line says what c is executing in its innermost frame; Pos is -1 outside lines.
func (c *Ctx) Line() Line {
	f := c.f
	return Line{Pos: f.pos, Iter: f.iter, Handler: f.handler, Delivery: f.delivery}
}

func (c *Ctx) decide(p Point) {
	s := c.sim
	for !s.aborting {
		a := s.chooser.Choose(c, p)
		if a.Kind == Go {
			return
		}
		if !c.Allowed(p, a) {
			panic("allocfuzz: chooser took an action that is not allowed here")
		}
		if s.recording {
			s.record(c, p, a)
		}
		c.apply(a)
	}
}

func (s *Sim) record(c *Ctx, p Point, a Action) {
	d := Decision{Pos: c.f.pos, Iter: c.f.iter, Handler: c.f.handler, Delivery: c.f.delivery,
		Point: p, Action: a}
	if a.Task != nil {
		d.CPU = a.Task.cpu.ID
	}
	s.decisions = append(s.decisions, d)
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
		h := a.Handler
		if !s.deliverable(h) {
			return false
		}
		if h.ctx != nil {
			return h.CPU != c.cpu.ID || c.preemptible(p)
		}
		if h.CPU == c.cpu.ID {
			return !c.window
		}
		return s.m.cpus[h.CPU].cur == nil || s.m.cpus[h.CPU].cur != c
	case Move:
		return c.mayMove(p, a.CPU)
	case FailPages:
		return p.Kind == KPageAlloc && !c.failNext
	case Suppress:
		return !a.Handler.dropped && !a.Handler.active && a.Handler.delivered == 0
	}
	return false
}

// preemptible says whether another task of this CPU may take over at p.
func (c *Ctx) preemptible(p Point) bool {
	if c.window || c.idle && c.depth > 0 {
		return false
	}
	if c.depth == 0 && (p.Kind == KEnd || c.sleeping && p.Kind == KWait) {
		return true
	}
	return c.m.Preempt != PreemptNone && c.cpu.preempt == 0 && !c.cpu.irqsOff && c.irqDepth == 0
}

func (c *Ctx) maySwitch(p Point, to *Ctx) bool {
	s := c.sim
	if to == nil || to == c || to.done {
		return false
	}
	if to.cpu != c.cpu {
		return s.runnable(to)
	}
	if !c.preemptible(p) {
		return false
	}
	had := c.cpu.cur
	c.cpu.cur = nil
	ok := s.runnable(to)
	c.cpu.cur = had
	return ok
}

func (c *Ctx) mayMove(p Point, cpu int) bool {
	if cpu < 0 || cpu >= c.m.CPUs || cpu == c.cpu.ID || c.pinned || c.idle || c.noMigrate > 0 {
		return false
	}
	if c.m.Preempt == PreemptNone && p.Kind != KEnd || !c.preemptible(p) {
		return false
	}
	t := c.m.cpus[cpu]
	return t.cur == nil || t.preempt == 0 && !t.irqsOff && t.cur.depth == 0 &&
		!t.cur.window && c.m.Preempt != PreemptNone
}

func (c *Ctx) apply(a Action) {
	s := c.sim
	switch a.Kind {
	case SwitchTo:
		if a.Task.cpu == c.cpu {
			c.cpu.cur = a.Task
		}
		s.yieldTo(c, a.Task)
	case Interrupt:
		to := s.hand(a.Handler)
		if to == c {
			c.serve()
		} else {
			s.yieldTo(c, to)
		}
	case Move:
		if c.cpu.cur == c {
			c.cpu.cur = nil
		}
		c.cpu = s.m.cpus[a.CPU]
		if c.inLine {
			c.cpu.cur = c
		}
	case FailPages:
		c.failNext = true
	case Suppress:
		a.Handler.dropped = true
	}
}

// remoteWindow is the moment inside a local cmpxchg in which other CPUs may run
// and this one may not take an interrupt.
func (c *Ctx) remoteWindow(f *Field) {
	if c.m.CPUs == 1 || c.sim.chooser == nil {
		return
	}
	c.window = true
	c.point(KStore, f)
	c.window = false
}
