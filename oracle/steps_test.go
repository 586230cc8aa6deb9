package oracle_test

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// A step is a toy that does one wrong thing on its machine, and its twin that does the same
// right: the program must show the one, in line order or by one departure, and not the other
// wherever a departure is taken.
type step struct {
	title fault.Title
	how   string
	text  string
	wrong func(k *kit, c *machine.Ctx)
	right func(k *kit, c *machine.Ctx)
	says  string // in the finding's details
}

var (
	kitLock    = machine.Atomic("kit", "lock")
	kitInner   = machine.Atomic("kit", "inner")
	kitLast    = machine.Atomic("kit", "last")
	kitFlag    = machine.Atomic("kit", "flag")
	kitOwn     = machine.PerCPU("kit", "own")
	kitPlain   = machine.Plain("kit", "calls")
	kitGuarded = machine.Guarded("kit", "guarded")
	kitLink    = machine.Racy("kit", "link", "a test")
	kitView    = machine.PageField(machine.Atomic("kit", "view"), machine.RegionBody,
		machine.ViewSlab, 0)
)

// A kit is what toys do wrong things with.
type kit struct {
	t          *toy
	a, b, last machine.SpinLock // by falling rank
	x          [3]machine.SpinLock
	flag       machine.Word
	own        [2]machine.Word
	calls      machine.PlainWord
	guarded    machine.GuardedWord
}

// kitted is a toy that does f in every call.
func kitted(f func(*kit, *machine.Ctx)) toyBug {
	return toyBug{setUp: func(t *toy) {
		withPages(0, 0)(t)
		k := &kit{t: t}
		k.a.Init(kitLock, 3)
		k.b.Init(kitInner, 2)
		k.last.Init(kitLast, 1)
		for i, field := range []*machine.Field{kitLock, kitInner, kitLast} {
			k.x[i].Init(field, 0)
		}
		k.flag.Init(kitFlag, 0, 0)
		for cpu := range k.own {
			k.own[cpu].Init(kitOwn, cpu, 0)
		}
		k.calls.Init(t.m, kitPlain, 0)
		k.guarded.Init(kitGuarded, k.a.Guard(), 0)
		t.bug.call = func(_ *toy, c *machine.Ctx) { f(k, c) }
	}}
}

// with does f with locks held, in order.
func with(c *machine.Ctx, f func(), locks ...*machine.SpinLock) {
	if len(locks) == 0 {
		f()
		return
	}
	locks[0].Lock(c)
	with(c, f, locks[1:]...)
	locks[0].Unlock(c)
}

func irqsOff(c *machine.Ctx, f func()) {
	flags := c.IRQSave()
	f()
	c.IRQRestore(flags)
}

func nothing() {}

func called(*machine.Ctx) {}

// circle takes two of three locks, the next pair with each call; the pairs close a circle, or
// keep to one order.
func circle(k *kit, c *machine.Ctx, closed bool) {
	n := k.t.calls % 3
	i, j := n, (n+1)%3
	if !closed {
		i, j = min(i, j), max(i, j)
	}
	k.x[i].Init(k.field(i), 2)
	k.x[j].Init(k.field(j), 1)
	with(c, nothing, &k.x[i], &k.x[j])
}

func (k *kit) field(i int) *machine.Field {
	return []*machine.Field{kitLock, kitInner, kitLast}[i]
}

// Programs: one call; one on each CPU; one and a handler's; three.
const (
	oneCall   = "machine cpus=2\ncpu0 a = malloc 8\n"
	eachCPU   = "machine cpus=2\ncpu0 a = malloc 8\ncpu1 b = malloc 8\n"
	handled   = "machine cpus=2\ncpu0 a = malloc 8\nirq0 x = malloc 8\ncpu0 b = malloc 8\n"
	threeSame = "cpu0 a = malloc 8\ncpu0 b = malloc 8\ncpu0 d = malloc 8\n"
)

var steps = []step{
	{title: fault.Unguarded, text: oneCall, says: "kit.guarded without kit.lock",
		wrong: func(k *kit, c *machine.Ctx) { with(c, nothing, &k.a); k.guarded.Add(c, 1) },
		right: func(k *kit, c *machine.Ctx) { with(c, func() { k.guarded.Add(c, 1) }, &k.a) }},
	{title: fault.StaleView, text: oneCall, says: "which is used as nothing",
		wrong: func(k *kit, c *machine.Ctx) { kitView.Load(c, k.t.m.PageAt(0)) },
		right: func(k *kit, c *machine.Ctx) { kitView.LoadStale(c, k.t.m.PageAt(0)) }},
	{title: fault.ForeignPerCPU, text: eachCPU, says: "kit.own of CPU 0 written by CPU 1",
		wrong: func(k *kit, c *machine.Ctx) { k.own[0].Add(c, 1) },
		right: func(k *kit, c *machine.Ctx) { k.own[c.CPUID()].Add(c, 1) }},
	{title: fault.DataRace, how: "a handler", text: handled,
		says:  "kit.calls: written by cpu0 (\"cpu0 a = malloc 8\", CPU 0, with interrupts on), ",
		wrong: func(k *kit, c *machine.Ctx) { k.calls.Add(c, 1) },
		right: func(k *kit, c *machine.Ctx) { irqsOff(c, func() { k.calls.Add(c, 1) }) }},
	{title: fault.DataRace, how: "two CPUs", text: eachCPU, says: "by cpu1",
		wrong: func(k *kit, c *machine.Ctx) { irqsOff(c, func() { k.calls.Add(c, 1) }) },
		right: func(k *kit, c *machine.Ctx) { with(c, func() { k.calls.Add(c, 1) }, &k.a) }},
	{title: fault.LockOrder, text: threeSame, says: "each of these is held while the next is",
		wrong: func(k *kit, c *machine.Ctx) { circle(k, c, true) },
		right: func(k *kit, c *machine.Ctx) { circle(k, c, false) }},
	{title: fault.LockIRQ, text: handled, says: "kit.lock",
		wrong: func(k *kit, c *machine.Ctx) { with(c, nothing, &k.a) },
		right: func(k *kit, c *machine.Ctx) { irqsOff(c, func() { with(c, nothing, &k.a) }) }},
	{title: fault.LockIRQ, how: "inside", text: handled,
		says:  "kit.inner is taken with interrupts on, and with kit.lock held, which inter",
		wrong: func(k *kit, c *machine.Ctx) { over(k, c, &k.b) },
		right: func(k *kit, c *machine.Ctx) { over(k, c, &k.last) }},
	{title: fault.Sleeping, text: oneCall, says: "that may sleep with a spin lock held",
		wrong: func(k *kit, c *machine.Ctx) { with(c, func() { c.AllocPages(0, true) }, &k.a) },
		right: func(k *kit, c *machine.Ctx) { with(c, nothing, &k.a); c.AllocPages(0, true) }},
	{title: fault.Sleeping, how: "for readers", text: oneCall, says: "a wait for read sections",
		wrong: func(k *kit, c *machine.Ctx) { with(c, func() { c.RCUBarrier() }, &k.a) },
		right: func(k *kit, c *machine.Ctx) { with(c, nothing, &k.a); c.RCUBarrier() }},
	{title: fault.CallIRQOff, text: oneCall, says: "call to CPU 1 with a spin lock held",
		wrong: func(k *kit, c *machine.Ctx) { with(c, func() { c.CallOn(1, called) }, &k.a) },
		right: func(_ *kit, c *machine.Ctx) { c.CallOn(1, called) }},
	{title: fault.WildAddress, text: oneCall, says: "kit.link at",
		wrong: func(k *kit, c *machine.Ctx) { c.LoadMem(kitLink, k.t.m.Base+k.t.m.Bytes()) },
		right: func(k *kit, c *machine.Ctx) { c.LoadMem(kitLink, k.t.m.Base) }},
	{title: fault.NoProgress, text: oneCall, says: "2500 times load kit.flag",
		wrong: func(k *kit, c *machine.Ctx) {
			for k.flag.Load(c) == 0 {
				c.Barrier()
			}
		},
		right: func(k *kit, c *machine.Ctx) {
			for range 1000 {
				k.flag.Load(c)
			}
		}},
	{title: fault.Deadlock, text: oneCall,
		says:  "cpu0 waits for kit.lock, which cpu0 took on the same CPU in \"cpu0 a = malloc 8\"",
		wrong: func(k *kit, c *machine.Ctx) { with(c, nothing, &k.a, &k.a) },
		right: func(k *kit, c *machine.Ctx) { with(c, nothing, &k.a, &k.b) }},
	{title: fault.StateLeaked, text: oneCall, says: "interrupts still off",
		wrong: func(_ *kit, c *machine.Ctx) { c.IRQSave() },
		right: func(_ *kit, c *machine.Ctx) { irqsOff(c, nothing) }},
	{title: fault.PageLocked, text: oneCall, says: "by cpu0",
		wrong: func(_ *kit, c *machine.Ctx) {
			p := c.AllocPages(0, false)
			with(c, func() { c.FreePages(p) }, &p.Lock)
		},
		right: func(_ *kit, c *machine.Ctx) {
			p := c.AllocPages(0, false)
			with(c, nothing, &p.Lock)
			c.FreePages(p)
		}},
}

// TestNamesOrder: what the allocator did for an object comes before what it does for whoever
// uses its name, and for nobody else.
func TestNamesOrder(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := toySubject(kitted(func(k *kit, c *machine.Ctx) { k.calls.Add(c, 1) }))
	for text, want := range map[string]int{
		"cpu0 a = malloc 8\ncpu1 free a\n":       0,
		"cpu0 a = malloc 8\ncpu1 b = malloc 8\n": 1,
	} {
		p := compile(t, "allocfuzz 1\nmachine cpus=2\n"+text)
		res := r.Run(p, v, oracle.Options{Checks: stepsOnly})
		if len(res.Faults) != want {
			t.Errorf("%q: %v", text, res.Faults)
		}
	}
}

// TestDeadlockOfTwo: who waits for what another took in which line, and round.
func TestDeadlockOfTwo(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := toySubject(kitted(func(k *kit, c *machine.Ctx) {
		if c.CPUID() == 0 {
			with(c, nothing, &k.a, &k.b)
		} else {
			with(c, nothing, &k.b, &k.a)
		}
	}))
	p := compile(t, "allocfuzz 1\n"+eachCPU+"\nsched subject=toy => bug \"deadlock\"\n"+
		"at malloc(a) lock kit.inner 1: cpu1\n")
	verdict, err := r.Judge(p, v, oracle.Options{Checks: stepsOnly})
	if err != nil {
		t.Fatal(err)
	}
	last := verdict.Finding.Faults[len(verdict.Finding.Faults)-1]
	want := `cpu0 waits for kit.inner, which cpu1 took in "cpu1 b = malloc 8" on CPU 1; ` +
		`cpu1 waits for kit.lock, which cpu0 took in "cpu0 a = malloc 8" on CPU 0; ` +
		`a circle of cpu0, cpu1`
	if last.Title != fault.Deadlock || last.Detail != want {
		t.Errorf("%s\nwant %s", last, want)
	}
}

// over takes a lock inside the one that handlers take, and kit.inner with interrupts on.
func over(k *kit, c *machine.Ctx, inside *machine.SpinLock) {
	if c.InInterrupt() {
		with(c, nothing, &k.a)
		return
	}
	irqsOff(c, func() { with(c, nothing, &k.a, inside) })
	with(c, nothing, &k.b)
}

// TestSteps: each wrong step of a toy is found by its title, says what was wrong, and its twin
// is silent under every single departure. Every title of a step has a row.
func TestSteps(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	have := map[fault.Title]bool{}
	for _, row := range steps {
		have[row.title] = true
		name := strings.TrimSuffix(string(row.title)+"/"+row.how, "/")
		t.Run(name, func(t *testing.T) {
			p := compile(t, "allocfuzz 1\n"+row.text)
			x := r.Singles(p, toySubject(kitted(row.wrong)), oracle.Options{Checks: stepsOnly})
			if x.Finding == nil || !x.Finding.Matches(string(row.title)) {
				t.Fatalf("found %v", x.Finding)
			}
			if !row.said(r, p) {
				t.Errorf("nothing says %q", row.says)
			}
			x = r.Singles(p, toySubject(kitted(row.right)), oracle.Options{Checks: stepsOnly})
			if x.Finding != nil {
				t.Errorf("the twin: %v", x.Finding)
			}
		})
	}
	for _, e := range fault.Titles() {
		if e.Rule == fault.Step && !have[e.Title] {
			t.Errorf("no toy for %q", e.Title)
		}
	}
}

const stepsOnly = oracle.Checks(1 << fault.Step)

// said looks for the row's words in what is found in line order and by single departures.
func (row *step) said(r *oracle.Runner, p *oracle.Compiled) bool {
	v := toySubject(kitted(row.wrong))
	x := r.Singles(p, v, oracle.Options{Checks: stepsOnly})
	return slices.ContainsFunc(x.Finding.Faults, func(f fault.Fault) bool {
		return f.Title == row.title && strings.Contains(f.Detail, row.says)
	})
}
