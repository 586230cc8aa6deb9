package machine_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// wantHarness demands that the run ends with a harness fault that says what, and
// with the stack of the place it came from.
func wantHarness(t *testing.T, m *machine.Machine, what string) {
	t.Helper()
	var p *machine.Panic
	if err := m.Sim().Run(nil); !errors.As(err, &p) {
		t.Fatalf("error %v", err)
	}
	if !strings.HasPrefix(p.Error(), "allocfuzz: ") || !strings.Contains(p.Error(), what) {
		t.Errorf("panic %q", p.Error())
	}
	if !strings.Contains(string(p.Stack), "machine_test.") {
		t.Errorf("stack %s", p.Stack)
	}
}

// TestAttempts: an attempt is counted by kind and field, in one execution of a line
// and in its own frame: not in the next line, not in the next round of a repeat, not
// in a handler, and not again for a point that is asked twice.
func TestAttempts(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	var x, y machine.Word
	x.Init(word, -1, 0)
	y.Init(link, -1, 0)
	line := func(c *machine.Ctx) {
		x.Load(c) // load word 1
		y.Load(c) // load link 1
		x.Store(c, 1)
		x.Load(c) // load word 2
		c.Barrier()
	}
	w.tasks["a"] = w.m.AddTask("a", 0, 0, true, func(c *machine.Ctx) {
		for i := range int32(2) {
			c.BeginLine(0, [2]int32{i + 1})
			line(c)
			c.EndLine(0)
		}
		c.BeginLine(1, [2]int32{})
		line(c)
		c.EndLine(machine.After)
	})
	w.task("b", 1, 2, line)
	h := &machine.Handler{CPU: 0, Name: "h", Pos: 3, Body: lines(3, 1, line, line)}
	w.m.AddHandler(h)
	type at struct {
		line machine.Line
		who  string
		kind machine.Kind
		name string
		n    int
	}
	asked := map[at]int{}
	delivered := 0
	run(t, w.m, chooser(func(c *machine.Ctx, p machine.Point) machine.Action {
		l := c.Line()
		l.Points = 0
		k := at{l, c.Where().Task, p.Kind, p.Field.Name(), p.N}
		asked[k]++
		a := machine.Action{Kind: machine.Interrupt, Handler: h}
		if c == w.tasks["a"] && !c.InInterrupt() && p.Field == word && p.N == 2 &&
			delivered < 3 && c.Allowed(p, a) && asked[k] == 1 {
			delivered++
			return a
		}
		if c == w.tasks["a"] && p.Kind == machine.KBarrier && l.Pos == 1 && asked[k] == 1 {
			return w.to("b")()
		}
		return machine.Action{}
	}))
	where := []at{}
	for _, l := range []machine.Line{{Pos: 0, Iter: [2]int32{1}}, {Pos: 0, Iter: [2]int32{2}},
		{Pos: 1}} {
		where = append(where, at{line: l, who: "a"})
	}
	where = append(where, at{line: machine.Line{Pos: 2}, who: "b"})
	for d := range 3 {
		for i := range 2 {
			where = append(where, at{who: "h",
				line: machine.Line{Pos: 3 + i, Handler: h, Delivery: d + 1}})
		}
	}
	want := map[at]int{}
	for _, k := range where {
		for _, p := range []struct {
			kind machine.Kind
			name string
			n    int
		}{{machine.KLoad, "test.word", 1}, {machine.KLoad, "test.link", 1},
			{machine.KStore, "test.word", 1}, {machine.KLoad, "test.word", 2},
			{machine.KBarrier, "-", 1}, {machine.KEnd, "-", 1}} {
			k.kind, k.name, k.n = p.kind, p.name, p.n
			want[k] = 1
			twice := p.n == 2 || p.kind == machine.KBarrier && k.line.Pos == 1
			if k.who == "a" && twice {
				want[k] = 2
			}
		}
	}
	for k, n := range want {
		if asked[k] != n {
			t.Errorf("%+v asked %d times, want %d", k, asked[k], n)
		}
	}
	for k := range asked {
		if want[k] == 0 {
			t.Errorf("%+v was asked", k)
		}
	}
}

// TestDecisions: every decision is kept with its place, and Go is none.
func TestDecisions(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.m.SetPageLayer(&bump{})
	w.free("a", 0, 0, func(c *machine.Ctx) { c.AllocPages(0, false); c.Barrier() })
	w.task("b", 1, 1, barrier)
	w.irq("h", 1, 2, barrier)
	w.irq("i", 1, 3, barrier)
	w.m.Sim().Record()
	fail := machine.Action{Kind: machine.FailPages}
	drop := machine.Action{Kind: machine.Suppress, Handler: w.irqs["i"]}
	w.run("",
		dep{"a", machine.KPageAlloc, "zone.pages", 1, func() machine.Action { return fail }, false},
		dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KBarrier, "-", 1, move(1), true},
		dep{"a", machine.KBarrier, "-", 1, func() machine.Action { return drop }, false},
		dep{"a", machine.KEnd, "-", 1, move(1), false})
	var got []string
	for _, d := range w.m.Sim().Decisions() {
		who := "-"
		if d.Handler != nil {
			who = fmt.Sprint(d.Handler.Name, d.Delivery)
		}
		got = append(got, fmt.Sprintf("%d %s %s %s %d: %s %d/%d", d.Pos, who, d.Point.Kind,
			d.Point.Field.Name(), d.Point.N, d.Action.Kind, d.Action.CPU, d.CPU))
	}
	want := []string{
		"0 - pagealloc zone.pages 1: fail 0/0",
		"0 - barrier - 1: interrupt 0/0",
		"2 h1 barrier - 1: switch 0/0",
		"0 - barrier - 1: suppress 0/0",
		"0 - end - 1: move 1/0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("decisions\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	w.m.Reset()
	w.task("a", 0, 0, barrier)
	w.irq("h", 0, 2, barrier)
	s := newScript(t, dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
	run(t, w.m, s)
	if len(w.m.Sim().Decisions()) != 0 || len(w.m.Sim().Entries()) != 0 {
		t.Error("kept though not asked to, after Reset")
	}
}

// TestTrace: each point is kept with its place, in order.
func TestTrace(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, barrier)
	w.irq("h", 1, 1, barrier)
	w.m.Sim().Trace()
	w.run("")
	got := ""
	for _, e := range w.m.Sim().Entries() {
		got += fmt.Sprintf("%d:%s/%d cpu%d %s %s %d depth %d\n", e.Where.Step, e.Where.Task,
			e.Where.Line, e.Where.CPU, e.Kind, e.Field.Name(), e.N, e.Depth)
	}
	want := `1:a/0 cpu0 barrier - 1 depth 0
2:a/0 cpu0 end - 1 depth 0
3:h/1 cpu1 barrier - 1 depth 1
4:h/1 cpu1 end - 1 depth 1
`
	if got != want {
		t.Errorf("trace\n%swant\n%s", got, want)
	}
}

// TestHash: runs that differ in anything have different hashes, equal ones equal.
func TestHash(t *testing.T) {
	p := func(c *machine.Ctx) *machine.Page {
		q := c.Machine().PageAt(0)
		q.SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
		return q
	}
	var x, y machine.Word
	var d machine.DoubleWord
	var g machine.GuardedWord
	type body = func(*machine.Ctx)
	store := func(f *machine.Field, vs ...uint64) body {
		return func(c *machine.Ctx) {
			for _, v := range vs {
				x.Init(f, 0, 0)
				x.Store(c, v)
			}
		}
	}
	first := func(c *machine.Ctx) { c.CallOn(0, barrier) }
	bodies := map[string]body{
		"nothing": func(*machine.Ctx) {}, "barrier": barrier,
		"store 1": store(word, 1), "store 2": store(word, 2), "another field": store(own, 1),
		"two":               store(word, 1, 2),
		"other order":       store(word, 2, 1),
		"high bits":         store(word, 1|1<<63, 2|1<<63),
		"load":              func(c *machine.Ctx) { x.Init(word, 0, 1); x.Load(c) },
		"load another":      func(c *machine.Ctx) { x.Init(word, 0, 2); x.Load(c) },
		"exchange":          func(c *machine.Ctx) { x.Init(word, 0, 1); x.Cmpxchg(c, 1, 2) },
		"exchange another":  func(c *machine.Ctx) { x.Init(word, 0, 1); x.Cmpxchg(c, 1, 3) },
		"exchange not":      func(c *machine.Ctx) { x.Init(word, 0, 1); x.Cmpxchg(c, 2, 3) },
		"exchange from":     func(c *machine.Ctx) { x.Init(word, 0, 3); x.Cmpxchg(c, 3, 3) },
		"local":             func(c *machine.Ctx) { x.Init(word, 0, 1); x.CmpxchgLocal(c, 1, 2) },
		"local another":     func(c *machine.Ctx) { x.Init(word, 0, 1); x.CmpxchgLocal(c, 1, 3) },
		"add":               func(c *machine.Ctx) { x.Init(word, 0, 1); x.Add(c, 5) },
		"guarded":           func(c *machine.Ctx) { c.IRQSave(); g.Store(c, 1) },
		"guarded another":   func(c *machine.Ctx) { c.IRQSave(); g.Store(c, 2) },
		"page":              func(c *machine.Ctx) { slabWord.Store(c, p(c), 1) },
		"page another":      func(c *machine.Ctx) { slabWord.Store(c, p(c), 2) },
		"page exchange":     func(c *machine.Ctx) { slabWord.Cmpxchg(c, p(c), 0, 1) },
		"page exchange not": func(c *machine.Ctx) { slabWord.Cmpxchg(c, p(c), 0, 2) },
		"page stale":        func(c *machine.Ctx) { p(c).Scribble(1); slabWord.LoadStale(c, p(c)) },
		"page stale 2":      func(c *machine.Ctx) { p(c).Scribble(2); slabWord.LoadStale(c, p(c)) },
		"scribble":          func(c *machine.Ctx) { p(c).Scribble(7) },
		"mem":               func(c *machine.Ctx) { c.StoreMem(link, c.Machine().Base, 1) },
		"mem another":       func(c *machine.Ctx) { c.StoreMem(link, c.Machine().Base, 2) },
		"mem load":          func(c *machine.Ctx) { c.LoadMem(link, c.Machine().Base) },
		"mem load another": func(c *machine.Ctx) {
			c.Machine().MemBytes(c.Machine().Base, 1)[0] = 1
			c.LoadMem(link, c.Machine().Base)
		},
		"mem guarded": func(c *machine.Ctx) {
			c.LoadMemGuarded(link, machine.IRQsOffOn(c.CPU()), c.Machine().Base)
		},
		"mem guarded another": func(c *machine.Ctx) {
			c.Machine().MemBytes(c.Machine().Base, 1)[0] = 1
			c.LoadMemGuarded(link, machine.IRQsOffOn(c.CPU()), c.Machine().Base)
		},
		"double": func(c *machine.Ctx) {
			d.CmpxchgDoubleLocal(c, [2]uint64{0, 0}, [2]uint64{1, 2})
		},
		"double another": func(c *machine.Ctx) {
			d.CmpxchgDoubleLocal(c, [2]uint64{0, 0}, [2]uint64{1, 3})
		},
		"irq":  func(c *machine.Ctx) { c.IRQRestore(c.IRQSave()) },
		"call": first, "call away": func(c *machine.Ctx) { c.CallOn(1, barrier) },
		"page request":   func(c *machine.Ctx) { c.AllocPages(0, false) },
		"page request 2": func(c *machine.Ctx) { c.AllocPages(0, false); c.AllocPages(0, false) },
		"page refused":   func(c *machine.Ctx) { c.FailPage(1); c.AllocPages(0, false) },
	}
	seen := map[uint64]string{}
	m := machine.New(config(2, machine.PreemptFull))
	defer m.Close()
	once := func(b body, ch machine.Chooser, cpu int) uint64 {
		m.Reset()
		m.SetPageLayer(&bump{})
		d.A.Init(word, -1, 0)
		d.B.Init(word, -1, 0)
		g.Init(held, machine.IRQsOffOn(m.CPU(0)), 0)
		y.Init(word, -1, 0)
		m.AddTask("a", cpu, 0, false, lines(0, 1, b))
		run(t, m, ch)
		return m.Sim().Hash()
	}
	for name, b := range bodies {
		hash := once(b, nil, 0)
		if other := seen[hash]; other != "" {
			t.Errorf("%q and %q have one hash", name, other)
		}
		seen[hash] = name
		// A chooser that lets everything go on changes nothing.
		if got := once(b, chooser(func(*machine.Ctx, machine.Point) machine.Action {
			return machine.Action{}
		}), 0); got != hash {
			t.Errorf("%q: hashes %x and, with a chooser, %x", name, hash, got)
		}
	}
	moved := once(barrier, &at{n: 1, act: machine.Action{Kind: machine.Move, CPU: 1}}, 0)
	if moved == once(barrier, nil, 0) {
		t.Error("a move leaves no trace")
	}
}

// TestHashOrder: the order of contexts and the place of a handler are in the hash,
// even of a handler without points.
func TestHashOrder(t *testing.T) {
	seen := map[uint64]bool{}
	for n := range 6 { // four barriers, the end of the line, and nowhere
		m := machine.New(config(1, machine.PreemptNone))
		m.AddTask("a", 0, 0, true, lines(0, 1, then(barrier, barrier, barrier, barrier)))
		h := &machine.Handler{CPU: 0, Name: "h", Pos: 1, Body: func(*machine.Ctx) {}}
		m.AddHandler(h)
		run(t, m, &at{n: n, act: machine.Action{Kind: machine.Interrupt, Handler: h}})
		seen[m.Sim().Hash()] = true
		m.Close()
	}
	if len(seen) != 5 { // the end of the line is the handler's default place
		t.Errorf("%d hashes", len(seen))
	}
	for n := range 4 {
		m := machine.New(config(2, machine.PreemptNone))
		two := then(barrier, barrier)
		m.AddTask("a", 0, 0, true, lines(0, 1, two))
		b := m.AddTask("b", 1, 1, true, lines(1, 1, two))
		run(t, m, &at{n: n, act: machine.Action{Kind: machine.SwitchTo, Task: b}})
		seen[m.Sim().Hash()] = true
		m.Close()
	}
	for n := range 2 { // the same by another task
		m := machine.New(config(1, machine.PreemptNone))
		for i := range 2 {
			pos := machine.After // never
			if i == n {
				pos = 0
			}
			m.AddTask("a", 0, pos, true, lines(0, 1, barrier))
		}
		run(t, m, nil)
		seen[m.Sim().Hash()] = true
		m.Close()
	}
	if len(seen) != 5+3+2 { // at 3, the end of a's only line, b is next anyway
		t.Errorf("%d hashes", len(seen))
	}
}

// TestSteps: the limit is for one operation in its own frame.
func TestSteps(t *testing.T) {
	points := func(n int) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			for range n {
				c.Barrier()
			}
		}
	}
	const most = machine.StepsMax - 1 // and the end of the line
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("a", 0, 0, points(most), points(most), func(c *machine.Ctx) {
		points(most)(c)
		if c.Line().Points != most {
			t.Errorf("%d points", c.Line().Points)
		}
		c.Progress()
		points(most)(c)
		if c.Line().Points != 2*most {
			t.Errorf("%d points, and Progress starts only the limit afresh", c.Line().Points)
		}
	})
	w.irq("h", 0, 9, points(most), points(most))
	w.run("", dep{"a", machine.KBarrier, "-", 100, w.deliver("h"), false})
	wantFaults(t, w.m)
	for _, bad := range []func(*machine.Ctx){
		points(machine.StepsMax + 1),
		func(c *machine.Ctx) { points(most)(c); c.Progress(); points(most + 2)(c) },
	} {
		w.m.Reset()
		w.irq("h", 0, 9, bad)
		w.run("")
		wantFaults(t, w.m, fault.NoProgress)
		if f := w.m.Faults()[0]; f.Where.Task != "h" || f.Where.Line != 9 {
			t.Errorf("at %+v", f.Where)
		}
	}
}

// TestFaultsBounded: a run notes so many faults and no more, but always the first of
// a title, so that what ended the run is told.
func TestFaultsBounded(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("a", 0, 3, func(c *machine.Ctx) {
		for i := range 3 * machine.FaultsMax {
			c.Fault(fault.Unguarded, "number %d", i)
		}
		c.Fault(fault.LockOrder, "another")
		c.Fault(fault.LockOrder, "another again")
		c.Die(fault.WildAddress, "the end")
	})
	w.run("")
	fs := w.m.Faults()
	if len(fs) != machine.FaultsMax+2 || fs[len(fs)-2].Title != fault.LockOrder ||
		fs[len(fs)-1].Title != fault.WildAddress || fs[7].Detail != "number 7" ||
		fs[7].Where.Line != 3 || fs[7].Where.Task != "a" {
		t.Errorf("%d faults, last %v", len(fs), fs[len(fs)-1])
	}
	w.m.Reset()
	w.task("a", 0, 0, func(c *machine.Ctx) {
		for range machine.FaultsMax {
			c.Fault(fault.Unguarded, "")
		}
		c.Fault(fault.LockOrder, "")
	})
	w.run("")
	if len(w.m.Faults()) != machine.FaultsMax+1 {
		t.Errorf("%d faults in the next run", len(w.m.Faults()))
	}
}

// TestDie: a death anywhere unwinds every context, runs their deferred functions,
// notes nothing more, and leaves a machine that can be used again.
func TestDie(t *testing.T) {
	die := func(c *machine.Ctx) { c.Die(fault.WildAddress, "here") }
	for _, kernel := range []machine.Preempt{machine.PreemptNone, machine.PreemptFull,
		machine.PreemptRT} {
		w := newWorld(t, 3, kernel)
		var fresh uint64
		for round := range 3 {
			l, idle := locked(lockA, 1), locked(lockB, 1)
			var local machine.LocalLock
			local.Init(lockB, w.m.CPU(0))
			unwound := 0
			deferred := func(f func(*machine.Ctx)) func(*machine.Ctx) {
				return func(c *machine.Ctx) {
					defer func() {
						unwound++
						defer func() { unwound++ }()
						w.m.PageAt(0).Lock.Unlock(c) // finds things, and is not to note them
						local.Lock(c)
						for {
							c.Barrier()
						}
					}()
					f(c)
				}
			}
			w.task("a", 0, 0, deferred(func(c *machine.Ctx) {
				l.Lock(c)
				c.Barrier()
				t.Error("a context went on after the end")
			}))
			w.task("b", 1, 1, deferred(func(c *machine.Ctx) {
				w.m.PageAt(5).Lock.Lock(c) // a page that is not otherwise used
				l.Lock(c)
			}))
			w.task("never", 2, 5, barrier)
			w.irq("h", 2, 2, deferred(barrier))
			w.irq("i", 2, 3, deferred(func(c *machine.Ctx) { idle.Lock(c); die(c) }))
			deps := []dep{{"a", machine.KBarrier, "-", 1, w.to("b"), false},
				{"b", machine.KWait, "test.lock_a", 1, w.deliver("h"), false},
				{"h", machine.KBarrier, "-", 1, w.deliver("i"), false}}
			if round == 2 {
				w.m.Sim().Record()
			}
			w.run("", deps...)
			wantFaults(t, w.m, fault.WildAddress)
			if unwound != 8 || !w.m.Sim().Aborted() {
				t.Errorf("%s: %d deferred functions, aborted %v", kernel, unwound,
					w.m.Sim().Aborted())
			}
			if err := w.m.Sim().Run(nil); err != nil || unwound != 8 {
				t.Error("a run that died goes on")
			}
			w.m.Reset()
			if w.m.PageAt(5).Lock.Held() || l.Held() || idle.Held() || w.m.Sim().Aborted() {
				t.Error("something is left after Reset")
			}
			w.m.Sim().Trace()
			w.task("a", 0, 0, barrier, barrier)
			w.irq("h", 2, 5, barrier)
			w.run("")
			wantFaults(t, w.m)
			if round == 0 {
				fresh = w.m.Sim().Hash()
			} else if w.m.Sim().Hash() != fresh {
				t.Errorf("%s: hash %x, then %x", kernel, fresh, w.m.Sim().Hash())
			}
			w.m.Reset()
		}
	}
}

// TestDieInside: what a context was in the middle of when the run died is forgotten:
// a local exchange, a local lock, a handler.
func TestDieInside(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptRT)
	var x machine.Word
	var l machine.LocalLock
	h := &machine.Handler{CPU: 0, Name: "h", Pos: 5, Body: lines(5, 1, barrier)}
	die := func(c *machine.Ctx) { c.Die(fault.WildAddress, "") }
	inside := map[string]func() []dep{
		"exchange": func() []dep {
			w.task("a", 0, 0, func(c *machine.Ctx) { x.CmpxchgLocal(c, 0, 1) })
			return []dep{{"a", machine.KStore, "test.word", 1, w.to("b"), false}}
		},
		"local lock": func() []dep {
			w.task("a", 0, 0, func(c *machine.Ctx) { l.Lock(c); die(c) })
			return nil
		},
		"handler": func() []dep {
			w.task("a", 0, 0, barrier)
			return []dep{{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
				{"h", machine.KBarrier, "-", 1, w.to("b"), false}}
		},
		"suppressed": func() []dep {
			w.task("a", 0, 0, barrier)
			return []dep{{"a", machine.KBarrier, "-", 1, func() machine.Action {
				return machine.Action{Kind: machine.Suppress, Handler: h}
			}, false}}
		},
	}
	for name, set := range inside {
		t.Run(name, func(t *testing.T) {
			w.m.Reset()
			x.Init(word, -1, 0)
			l.Init(lockA, w.m.CPU(0))
			w.irqs["h"] = h
			w.m.AddHandler(h)
			deps := set()
			w.task("b", 1, 1, die)
			w.run("", deps...)
			wantFaults(t, w.m, fault.WildAddress)
			w.m.Reset()
			for i := range 4 { // every context that there was
				w.free("a"+fmt.Sprint(i), 0, i, barrier)
			}
			w.m.AddHandler(h)
			deps = nil
			for i := range 4 {
				name := "a" + fmt.Sprint(i)
				deps = append(deps, dep{name, machine.KBarrier, "-", 1, w.deliver("h"), false},
					dep{name, machine.KBarrier, "-", 1, move(1), false})
			}
			w.run("", deps...)
			wantFaults(t, w.m)
		})
	}
}

// TestPanics: a panic anywhere comes back with its own stack, and the machine can be
// used again.
func TestPanics(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	boom := func(*machine.Ctx) { panic("allocfuzz: boom") }
	for name, set := range map[string]func(){
		"task":    func() { w.task("a", 0, 0, boom) },
		"handler": func() { w.irq("h", 1, 0, boom) },
		"call":    func() { w.task("a", 0, 0, func(c *machine.Ctx) { c.CallOn(1, boom) }) },
		"barrier": func() {
			w.m.SetBarriers([]int{1}, func(int) { boom(nil) })
		},
		"barrier between lines": func() {
			w.task("a", 0, 0, barrier, barrier, barrier)
			w.m.SetBarriers([]int{1}, func(int) { boom(nil) })
		},
		"others in the middle": func() {
			w.task("a", 0, 0, func(c *machine.Ctx) { c.CallOn(1, boom) })
			w.irq("h", 0, 9, barrier)
		},
	} {
		t.Run(name, func(t *testing.T) {
			set()
			wantHarness(t, w.m, "boom")
			w.m.Reset()
			w.task("a", 0, 0, w.say("a"))
			w.irq("h", 1, 1, w.say("h"))
			w.run("a0 h1!")
			w.m.Reset()
		})
	}
}

// TestMisuse: what the harness does wrong is said, and is never a finding.
func TestMisuse(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	for name, f := range map[string]func(){
		"task on no CPU":    func() { w.task("a", 1, 0, barrier) },
		"handler on no CPU": func() { w.irq("h", -1, 0, barrier) },
		"barriers":          func() { w.m.SetBarriers([]int{2, 1}, nil) },
		"native context":    func() { w.m.NativeCtx(0, "a") },
		"too many tasks": func() {
			for i := range machine.MaxTasks + 1 {
				w.task("a", 0, i, barrier)
			}
		},
		"no configuration": func() { machine.New(machine.Config{}) },
	} {
		t.Run(name, func(t *testing.T) {
			defer w.m.Reset()
			wantPanic(t, f)
		})
	}
	w.task("a", 0, 0, func(c *machine.Ctx) { c.CallOn(1, barrier) })
	wantHarness(t, w.m, "CPU 1")
	w.m.Reset()
	w.m.AddTask("a", 0, 0, true, func(c *machine.Ctx) { c.BeginLine(0, [2]int32{}) })
	if err := w.m.Sim().Run(nil); err == nil || !strings.Contains(err.Error(), "middle of a line") {
		t.Errorf("error %v", err)
	}
	w.m.Reset()
	w.task("a", 0, 0, barrier)
	err := w.m.Sim().Run(chooser(func(*machine.Ctx, machine.Point) machine.Action {
		return machine.Action{Kind: machine.Move, CPU: 3}
	}))
	if err == nil || !strings.HasPrefix(err.Error(), "allocfuzz: the chooser's move") ||
		len(w.m.Faults()) != 0 {
		t.Errorf("error %v", err)
	}
}

// TestMaxTasks: so many tasks do run.
func TestMaxTasks(t *testing.T) {
	w := newWorld(t, 16, machine.PreemptFull)
	n := 0
	for i := range machine.MaxTasks {
		w.task("a", i%16, i, func(*machine.Ctx) { n++ })
	}
	w.run("")
	if n != machine.MaxTasks {
		t.Errorf("%d tasks ran", n)
	}
}

// TestRunAgain: tasks can be added behind a run that came to its end.
func TestRunAgain(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	w.m.SetBarriers([]int{1}, func(int) { w.trail = append(w.trail, "check") })
	w.task("a", 0, 0, w.say("a"))
	w.run("a0 check")
	w.task("b", 0, 5, w.say("b"), w.say("b"))
	w.run("b0 b0")
	wantFaults(t, w.m)
}

// TestClose: the coroutines end with the machine, whatever state they are in.
func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, die := range []bool{false, true} {
		m := machine.New(config(3, machine.PreemptRT))
		for range 3 {
			for i := range 3 {
				m.AddTask("t", i, i, true, lines(i, 1, func(c *machine.Ctx) {
					c.CallOnAll(barrier)
					if die && i == 2 {
						c.Die(fault.WildAddress, "")
					}
				}))
				m.AddHandler(&machine.Handler{CPU: i, Name: "h", Pos: 5,
					Body: lines(5, 1, barrier)})
			}
			run(t, m, nil)
			m.Reset()
		}
		if runtime.NumGoroutine() == before {
			t.Error("no coroutine to end")
		}
		m.Close()
		m.Close()
		if n := runtime.NumGoroutine(); n != before {
			t.Errorf("%d goroutines, %d before", n, before)
		}
		m.Reset() // and such a machine can even be used again
		m.AddTask("t", 0, 0, true, lines(0, 1, barrier))
		run(t, m, nil)
		if m.Sim().Steps() != 2 {
			t.Errorf("%d points", m.Sim().Steps())
		}
		m.Close()
	}
}

// TestNoAllocation: a machine that was warmed up allocates nothing more.
func TestNoAllocation(t *testing.T) {
	m := machine.New(config(2, machine.PreemptFull))
	defer m.Close()
	var x machine.Word
	bodies := [2]func(*machine.Ctx){}
	for i := range bodies {
		bodies[i] = lines(i, 2, func(c *machine.Ctx) { x.Add(c, 1); c.CallOn(1-i, barrier) })
	}
	h := &machine.Handler{CPU: 0, Name: "h", Pos: 5, Body: lines(5, 1, barrier)}
	n := testing.AllocsPerRun(100, func() {
		m.Reset()
		x.Init(word, -1, 0)
		m.AddTask("a", 0, 0, true, bodies[0])
		m.AddTask("b", 1, 1, true, bodies[1])
		m.AddHandler(h)
		m.Sim().Run(nil)
	})
	if n > 2 { // the two calls
		t.Errorf("%v allocations a run", n)
	}
}

// onLine is a Chooser that wants one line only.
type onLine struct {
	pos    int
	wanted []int
	chosen []int
}

func (o *onLine) Wants(c *machine.Ctx) bool {
	o.wanted = append(o.wanted, c.Line().Pos)
	return c.Line().Pos == o.pos
}

func (o *onLine) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	o.chosen = append(o.chosen, c.Line().Pos)
	return machine.Action{}
}

// TestLineFilter: a chooser that says which lines it wants is asked once a line, and
// at the points of those only.
func TestLineFilter(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("a", 0, 0, barrier, barrier, barrier)
	w.irq("h", 0, 5, barrier, barrier)
	o := &onLine{pos: 5}
	for _, pos := range []int{1, 5} {
		o.pos = pos
		run(t, w.m, o)
		if fmt.Sprint(o.wanted) != "[0 1 2 5 6]" ||
			fmt.Sprint(o.chosen) != fmt.Sprint([]int{pos, pos}) {
			t.Errorf("asked for %v, chose at %v", o.wanted, o.chosen)
		}
		*o = onLine{}
		w.m.Reset()
		w.task("a", 0, 0, barrier, barrier, barrier)
		w.irq("h", 0, 5, barrier, barrier)
	}
}
