package machine_test

import (
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

var (
	word  = machine.Atomic("test", "word")
	own   = machine.PerCPU("test", "own")
	held  = machine.Guarded("test", "held")
	lockA = machine.Atomic("test", "lock_a")
	lockB = machine.Atomic("test", "lock_b")
	link  = machine.Racy("test", "link", "test")
)

// lines runs the functions as the lines of one task, at orders pos, pos+step ….
func lines(pos, step int, fs ...func(*machine.Ctx)) func(*machine.Ctx) {
	return func(c *machine.Ctx) {
		for i, f := range fs {
			c.BeginLine(pos+i*step, [2]int32{})
			f(c)
			next := pos + (i+1)*step
			if i == len(fs)-1 {
				next = machine.After
			}
			c.EndLine(next)
		}
	}
}

func config(cpus int, p machine.Preempt) machine.Config {
	cfg := machine.DefaultConfig()
	cfg.CPUs, cfg.Preempt = cpus, p
	return cfg
}

func run(t testing.TB, m *machine.Machine, ch machine.Chooser) {
	t.Helper()
	if err := m.Sim().Run(ch); err != nil {
		t.Fatal(err)
	}
}

func titles(m *machine.Machine) []fault.Title {
	var ts []fault.Title
	for _, f := range m.Faults() {
		ts = append(ts, f.Title)
	}
	return ts
}

func wantFaults(t *testing.T, m *machine.Machine, want ...fault.Title) {
	t.Helper()
	got := titles(m)
	if len(got) != len(want) {
		t.Fatalf("faults %v, want %v", m.Faults(), want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("faults %v, want %v", m.Faults(), want)
		}
	}
}

// at acts once, at point number n (from 1) of the run.
type at struct {
	n, seen int
	act     machine.Action
	skipped bool
}

func (a *at) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	a.seen++
	if a.seen != a.n {
		return machine.Action{}
	}
	if !c.Allowed(p, a.act) {
		a.skipped = true
		return machine.Action{}
	}
	return a.act
}

type noPages struct{}

func (noPages) Alloc(*machine.Ctx, int) *machine.Page { return nil }
func (noPages) Free(*machine.Ctx, *machine.Page, int) {}
func (noPages) Drain(*machine.Ctx)                    {}
func (noPages) FreePages() int                        { return 0 }

// A dep is a departure of a script: an action at one point of one task or handler.
type dep struct {
	who   string
	kind  machine.Kind
	field string
	n     int
	act   func() machine.Action
	deny  bool // the action must not be allowed
}

// A script is a Chooser that takes departures, each once, and demands that each is
// reached and allowed or not as it says.
type script struct {
	t    testing.TB
	deps []dep
	used []bool
}

func newScript(t testing.TB, deps ...dep) *script {
	return &script{t: t, deps: deps, used: make([]bool, len(deps))}
}

func (s *script) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	for i := range s.deps {
		d := &s.deps[i]
		if s.used[i] || d.who != c.Where().Task || d.kind != p.Kind || d.n != p.N ||
			d.field != p.Field.Name() {
			continue
		}
		s.used[i] = true
		a := d.act()
		ok := c.Allowed(p, a)
		if ok == d.deny {
			s.t.Errorf("%s at %s %s %d of %s: allowed %v", a.Kind, p.Kind, p.Field.Name(), p.N,
				d.who, ok)
		}
		if ok {
			return a
		}
	}
	return machine.Action{}
}

// done demands that every departure was reached.
func (s *script) done() {
	s.t.Helper()
	for i, used := range s.used {
		if !used {
			d := &s.deps[i]
			s.t.Errorf("%s %s %d of %s was never reached", d.kind, d.field, d.n, d.who)
		}
	}
}

// A world is a machine with tasks and handlers by name and a trail of what was said.
type world struct {
	t     testing.TB
	m     *machine.Machine
	tasks map[string]*machine.Ctx
	irqs  map[string]*machine.Handler
	trail []string
}

func newWorld(t testing.TB, cpus int, p machine.Preempt) *world {
	w := &world{t: t, m: machine.New(config(cpus, p)), tasks: map[string]*machine.Ctx{},
		irqs: map[string]*machine.Handler{}}
	t.Cleanup(w.m.Close)
	w.m.SetPageLayer(noPages{})
	return w
}

// task adds a pinned task whose lines are at pos, pos+1 ….
func (w *world) task(name string, cpu, pos int, fs ...func(*machine.Ctx)) {
	w.tasks[name] = w.m.AddTask(name, cpu, pos, true, lines(pos, 1, fs...))
}

// free adds a task that may be moved.
func (w *world) free(name string, cpu, pos int, fs ...func(*machine.Ctx)) {
	w.tasks[name] = w.m.AddTask(name, cpu, pos, false, lines(pos, 1, fs...))
}

func (w *world) irq(name string, cpu, pos int, fs ...func(*machine.Ctx)) {
	h := &machine.Handler{CPU: cpu, Name: name, Pos: pos, Body: lines(pos, 1, fs...)}
	w.irqs[name] = h
	w.m.AddHandler(h)
}

// say is a line, or a part of one, that leaves a mark: name and CPU, and a ! in
// interrupts.
func (w *world) say(s string) func(*machine.Ctx) {
	return func(c *machine.Ctx) {
		mark := s + string(rune('0'+c.CPUID()))
		if c.InInterrupt() {
			mark += "!"
		}
		w.trail = append(w.trail, mark)
	}
}

// then is one line that does all of fs.
func then(fs ...func(*machine.Ctx)) func(*machine.Ctx) {
	return func(c *machine.Ctx) {
		for _, f := range fs {
			f(c)
		}
	}
}

func barrier(c *machine.Ctx) { c.Barrier() }

func (w *world) to(name string) func() machine.Action {
	return func() machine.Action {
		return machine.Action{Kind: machine.SwitchTo, Task: w.tasks[name]}
	}
}

func (w *world) deliver(name string) func() machine.Action {
	return func() machine.Action {
		return machine.Action{Kind: machine.Interrupt, Handler: w.irqs[name]}
	}
}

func move(cpu int) func() machine.Action {
	return func() machine.Action { return machine.Action{Kind: machine.Move, CPU: cpu} }
}

// run runs the departures and demands the trail.
func (w *world) run(want string, deps ...dep) {
	w.t.Helper()
	s := newScript(w.t, deps...)
	run(w.t, w.m, s)
	s.done()
	w.said(want)
}

func (w *world) said(want string) {
	w.t.Helper()
	if got := strings.Join(w.trail, " "); got != want {
		w.t.Errorf("trail %q, want %q", got, want)
	}
	w.trail = w.trail[:0]
}

// wantPanic demands a harness fault of f.
func wantPanic(t *testing.T, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "allocfuzz: ") {
			t.Errorf("panic %q", s)
		}
	}()
	f()
}

// goOn is the action of a departure that only demands its point.
func goOn() machine.Action { return machine.Action{} }
