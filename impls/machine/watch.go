package machine

// This file is what an explorer of schedules sees of a run beyond the points at which it is
// asked: what each step touches, who could run, and what a context that was left behind
// would do next.

// An AccessKind says how a step touches something.
type AccessKind uint8

// The kinds of accesses. Two accesses of different contexts to one object depend on each other
// unless both only read it.
const (
	Reads    AccessKind = iota
	Writes              // an exchange that may fail, too
	Acquires            // of a lock, by who waits for it
	Releases
)

// An Access is what one step does to one object. Objects are told apart by numbers that are the
// same in every run of a program: of a word its field, and its CPU or page; of memory its
// address; of a lock its field and page. Words of a field that belong to neither count as one
// object, which makes steps depend on each other that need not, and never the reverse.
type Access struct {
	Object uint64
	Kind   AccessKind
}

// A Watcher is a Chooser that is told what happens between the points at which it is asked. A
// step is what a context does from one point to its next.
type Watcher interface {
	Chooser
	// Touch tells of an access in the step that c is making.
	Touch(c *Ctx, a Access)
	// Begin tells that c begins a line outside handlers, which takes the CPU.
	Begin(c *Ctx)
}

// Touch tells a Watcher of an access that the machine does not know of, such as one to a name
// of the program.
func (c *Ctx) Touch(a Access) {
	if c.sim != nil && c.sim.watcher != nil {
		c.sim.watcher.Touch(c, a)
	}
}

// Watched says whether a Watcher is told of accesses.
func (c *Ctx) Watched() bool { return c.sim != nil && c.sim.watcher != nil }

// touch tells of an access of c's to an object, out of line so that the accessors stay small.
func (c *Ctx) touch(object uint64, k AccessKind) {
	c.sim.watcher.Touch(c, Access{Object: object, Kind: k})
}

// The seeds of objects that are no words of a field.
const (
	objectMemory = 0x4d454d
	objectPage   = 0x50414745
)

// object numbers the word: all words of a field that have no owner are one.
func (w *Word) object() uint64 { return mix(w.f.hash, uint64(w.owner+2)) }

// object numbers a word of a page's descriptor, whatever it is used as.
func (w *PageWord) object(p *Page) uint64 {
	return mix(mix(objectPage, uint64(p.pfn)), uint64(w.region)<<8|uint64(w.index))
}

// localKind is how the first half of a local exchange touches its word: where other CPUs can
// come between, the store is a step of its own.
func (c *Ctx) localKind() AccessKind {
	if c.m.CPUs > 1 {
		return Reads
	}
	return Writes
}

// touch tells of an access to both words.
func (d *DoubleWord) touch(c *Ctx, k AccessKind) {
	c.touch(d.A.object(), k)
	c.touch(d.B.object(), k)
}

// touchMem tells of an access to n bytes of memory, by words.
func (c *Ctx) touchMem(a Addr, n uint64, k AccessKind) {
	word := uint64(c.m.WordBytes())
	for at := a / word; at*word < a+n; at++ {
		c.touch(mix(objectMemory, at), k)
	}
}

// Waits says whether c's next step cannot be taken yet: it stands at a lock that somebody
// holds, or waits.
func (c *Ctx) Waits() bool {
	if c.wait.want != nil {
		return !c.wait.want.Ready(c)
	}
	return c.wait.on != nil && !c.wait.gaveUp && !c.wait.on.Ready(c)
}

// Wants is the lock that c stands at, as the object that its next step acquires; ok is false when
// it stands at none.
func (c *Ctx) Wants() (a Access, ok bool) {
	switch l := c.wait.want.(type) {
	case *SpinLock:
		return Access{l.object, Acquires}, true
	case *LocalLock:
		return Access{l.number(), Acquires}, true
	}
	return Access{}, false
}

// CanRun says whether c could be made to run now by switches alone: it has its CPU, or could
// get it, if need be from a task that is preempted where it stands. A lock that c is about to
// take does not count.
func (s *Sim) CanRun(c *Ctx) bool {
	cur := c.cpu.cur
	if cur == nil || cur == c {
		return s.runnable(c) && !s.outranked(c)
	}
	return !cur.idle && cur.maySwitch(Point{Kind: cur.at}, c)
}

// CanLeave says whether c, where it stands, may be moved off its CPU, as far as that one goes, and
// has anything to do elsewhere. What the other one has to say is Admits.
func (s *Sim) CanLeave(c *Ctx) bool { return !c.Over() && c.mayLeave(Point{Kind: c.at}) }

// Admits says whether a task may be moved to the CPU in the middle of a line. Between lines it
// always may.
func (cpu *CPU) Admits() bool { return cpu.admits(0) }

// CanDeliver says whether h may be delivered now.
func (s *Sim) CanDeliver(h *Handler) bool { return s.deliverable(h) }

// Host is the context that h runs on, nil when it is not running.
func (h *Handler) Host() *Ctx {
	if !h.active {
		return nil
	}
	return h.host
}

// Current is the task that has the CPU, or the idle context while it runs a handler; nil between
// the lines of tasks.
func (cpu *CPU) Current() *Ctx { return cpu.cur }

// Idle says whether c is the context of a CPU without a task.
func (c *Ctx) Idle() bool { return c.idle }

// Movable says whether c may leave its CPU at all.
func (c *Ctx) Movable() bool { return !c.pinned && !c.idle && c.m.CPUs > 1 }

// Standing says whether c has begun its first line and was asked at a point.
func (c *Ctx) Standing() bool { return c.started && !c.done }

// InLine says whether c is in the middle of a line.
func (c *Ctx) InLine() bool { return c.inLine }

// Returning says whether c is an idle CPU that stands at the end of the only handler that it
// runs: what is chosen there comes when the handler has returned.
func (c *Ctx) Returning() bool { return c.ending(Point{Kind: c.at}) }

// Running is the handler of c's innermost frame, nil in a task.
func (c *Ctx) Running() *Handler { return c.f.handler }

// Over says whether c has ended its last line.
func (c *Ctx) Over() bool { return c.done || c.pos == After && !c.inLine && c.depth == 0 }

// Kind is the kind of point that c stands at.
func (c *Ctx) Kind() Kind { return c.at }

// A CPULook is what a CPU is doing, as seen from outside, for pictures.
type CPULook struct {
	Task     string   // that has the CPU, "" for none
	Handlers []string // and calls that are nested on it, the innermost last
	IRQsOff  bool     // interrupts are off
	Preempt  int      // depth of disabled preemption
	Held     []string // locks of that task, by their fields, the first taken first
	Stores   int      // in its store buffer
}

// Look tells what the CPU is doing. It is no step.
func (cpu *CPU) Look() CPULook {
	l := CPULook{IRQsOff: cpu.irqsOff, Preempt: cpu.preempt, Stores: len(cpu.stores)}
	c := cpu.cur
	if c == nil {
		return l
	}
	l.Task = c.name
	for _, f := range c.frames[1 : c.depth+1] {
		name := "call"
		if f.handler != nil {
			name = f.handler.Name
		}
		l.Handlers = append(l.Handlers, name)
	}
	for _, h := range c.held {
		l.Held = append(l.Held, h.f.Name())
	}
	for _, h := range c.locals {
		l.Held = append(l.Held, h.f.Name())
	}
	return l
}
