package machine_test

import (
	"fmt"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// TestNested: handlers nest on each other down to a depth, none on itself.
func TestNested(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("a", 0, 0, then(barrier, w.say("a")))
	deps := []dep{}
	names := []string{"a"}
	for i := range machine.IRQDepthMax + 1 {
		name := fmt.Sprintf("h%d", i)
		w.irq(name, 0, 1+i, then(barrier, w.say(string(rune('p'+i)))))
		below := names[len(names)-1]
		deps = append(deps, dep{below, machine.KBarrier, "-", 1, w.deliver(name),
			i == machine.IRQDepthMax})
		if i > 0 {
			deps = append(deps, dep{below, machine.KBarrier, "-", 1, w.deliver(below), true})
		}
		names = append(names, name)
	}
	// The one too deep comes by default, when its place has come.
	w.run("s0! r0! q0! p0! a0 t0!", deps...)
	wantFaults(t, w.m)
	for name, h := range w.irqs {
		if h.Delivered() != 1 || h.Due() {
			t.Errorf("%s was delivered %d times", name, h.Delivered())
		}
	}
}

// flood delivers a handler at one point as often as it may.
type flood struct {
	w    *world
	at   machine.Kind
	who  string
	n    int
	give string
}

func (f *flood) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	a := f.w.deliver(f.give)()
	if p.Kind != f.at || c.Where().Task != f.who || !c.Allowed(p, a) {
		return machine.Action{}
	}
	f.n++
	return a
}

// TestDeliveriesBounded: interrupts of one operation are bounded, so that a retried
// fast path is not called a livelock; each operation counts for itself, and for an
// idle CPU the run does.
func TestDeliveriesBounded(t *testing.T) {
	for _, k := range []struct {
		name      string
		cpu, want int
	}{
		{"of its own CPU", 0, 2 * machine.IRQsPerOpMax},
		{"of an idle CPU", 1, machine.IRQsMax},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptNone)
			w.task("a", 0, 0, barrier, barrier)
			w.irq("h", k.cpu, 9, barrier)
			f := &flood{w: w, at: machine.KBarrier, who: "a", give: "h"}
			run(t, w.m, f)
			if f.n != k.want || w.irqs["h"].Delivered() != max(k.want, 1) {
				t.Errorf("%d deliveries, want %d", f.n, k.want)
			}
			wantFaults(t, w.m)
		})
	}
}

// TestManyOnIdle: an idle CPU takes any number of handlers in one run.
func TestManyOnIdle(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, barrier)
	n := 0
	for i := range 3 * machine.IRQsPerOpMax {
		w.irq(fmt.Sprint("h", i), 1, 1+i, func(c *machine.Ctx) {
			if c.CPUID() != 1 || !c.InInterrupt() {
				t.Error("a handler off its CPU")
			}
			n++
		})
	}
	w.run("")
	if n != 3*machine.IRQsPerOpMax {
		t.Errorf("%d handlers ran", n)
	}
}

// TestHandlerElsewhere: a handler of another CPU runs nested on what that CPU does,
// which then goes on; on an idle CPU the fixed rule says who is next.
func TestHandlerElsewhere(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	w.task("a", 0, 0, then(w.say("a"), barrier, w.say("a"), barrier, w.say("a")))
	w.task("b", 1, 1, then(w.say("b"), barrier, w.say("b")))
	w.irq("busy", 1, 8, then(w.say("x"), barrier, w.say("x")))
	w.irq("idle", 2, 9, then(w.say("y"), barrier, w.say("y")))
	w.run("a0 b1 a0 x1! y2! x1! b1 y2! a0",
		dep{"a", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KBarrier, "-", 2, w.deliver("busy"), false},
		dep{"busy", machine.KBarrier, "-", 1, w.deliver("idle"), false},
		dep{"idle", machine.KBarrier, "-", 1, w.to("b"), false})
	wantFaults(t, w.m)
}

// TestHandlerBetweenLines: between lines a CPU is idle, and its handler runs on it
// whatever its tasks wait for.
func TestHandlerBetweenLines(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("a", 0, 0, w.say("a"), w.say("a"))
	w.irq("h", 0, 9, w.say("h"))
	w.run("a0 h0! a0", dep{"a", machine.KEnd, "-", 1, w.deliver("h"), false})
	wantFaults(t, w.m)
}

// TestUndelivered: what was not delivered comes before a barrier, or at the end.
func TestUndelivered(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, w.say("a"), w.say("a"))
	w.irq("h", 0, 4, w.say("h"))
	w.irq("i", 1, 5, w.say("i"))
	w.irq("late", 1, 8, w.say("l"))
	w.irq("gone", 1, 3, w.say("g"))
	w.m.SetBarriers([]int{6, 7}, func(n int) {
		if !w.m.Sim().Quiet(nil) {
			t.Error("a barrier is not quiet")
		}
		w.trail = append(w.trail, fmt.Sprint("check", n))
	})
	w.run("a0 a0 h0! i1! check0 check1 l1!",
		dep{"a", machine.KEnd, "-", 1, func() machine.Action {
			return machine.Action{Kind: machine.Suppress, Handler: w.irqs["gone"]}
		}, false},
		dep{"a", machine.KEnd, "-", 1, func() machine.Action {
			return machine.Action{Kind: machine.Suppress, Handler: w.irqs["gone"]}
		}, true},
		dep{"h", machine.KEnd, "-", 1, w.deliver("gone"), true})
	if h := w.irqs["gone"]; h.Delivered() != 0 || h.Due() {
		t.Error("a handler that was left out is due")
	}
}

// TestLineBehindBarrier: no line behind a barrier runs before it, even if chosen.
func TestLineBehindBarrier(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, then(barrier, w.say("a")), w.say("a"))
	w.task("b", 1, 6, w.say("b"))
	w.irq("h", 0, 7, w.say("h"))
	w.m.SetBarriers([]int{5}, func(int) { w.trail = append(w.trail, "check") })
	w.run("a0 a0 check b1 h0!", dep{"a", machine.KBarrier, "-", 1, w.to("b"), true})
}

// TestQuiet: a point in the middle of something is not quiet for anybody else.
func TestQuiet(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	ask := func(want bool) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			if got := w.m.Sim().Quiet(c); got != want {
				t.Errorf("%s: quiet %v, want %v", c.Where().Task, got, want)
			}
		}
	}
	w.task("a", 0, 0, then(ask(true), barrier, ask(false)))
	w.task("b", 1, 1, then(ask(false), barrier, ask(true)))
	w.irq("h", 1, 2, ask(false))
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KEnd, "-", 1, w.deliver("h"), false})
	w.m.Reset()
	w.task("a", 0, 0, then(ask(true), barrier, ask(false)))
	w.irq("h", 1, 1, barrier)
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("a"), false})
}

// TestHandlerInLine: a handler that was left in the middle has its turn by its line.
func TestHandlerInLine(t *testing.T) {
	for _, cpu := range []int{1, 2} { // on a CPU that is idle, and on a task
		w := newWorld(t, 3, machine.PreemptNone)
		w.task("a", 0, 0, then(barrier, w.say("a")))
		w.task("late", 2, 8, then(barrier, w.say("l")))
		w.task("b", 0, 5, w.say("b"))
		w.irq("h", cpu, 3, then(barrier, w.say("h")))
		deps := []dep{{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
			{"h", machine.KBarrier, "-", 1, w.to("a"), false}}
		want := fmt.Sprintf("a0 h%d! b0 l2", cpu)
		if cpu == 2 {
			deps = append([]dep{{"a", machine.KBarrier, "-", 1, w.to("late"), false},
				{"late", machine.KBarrier, "-", 1, w.to("a"), false}}, deps...)
			want = "a0 h2! l2 b0" // the task goes on
		}
		w.run(want, deps...)
	}
}

// TestHandlerLeaks: what a handler leaves behind is found at its end, and the task
// that it interrupted is not blamed.
func TestHandlerLeaks(t *testing.T) {
	var l machine.SpinLock
	for _, k := range []struct {
		name string
		body func(*machine.Ctx)
	}{
		{"lock", func(c *machine.Ctx) { l.Lock(c) }},
		{"interrupts", func(c *machine.Ctx) { c.IRQSave() }},
		{"preemption", func(c *machine.Ctx) { c.PreemptDisable() }},
		{"the task's lock", func(c *machine.Ctx) { l.Unlock(c) }},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 1, machine.PreemptFull)
			l = machine.SpinLock{}
			l.Init(lockA, 1)
			w.task("a", 0, 0, func(c *machine.Ctx) {
				c.PreemptDisable()
				c.Barrier()
				c.PreemptEnable()
			})
			h := &machine.Handler{CPU: 0, Name: "h", Pos: 1, Body: k.body} // without lines
			w.m.AddHandler(h)
			w.irqs["h"] = h
			w.run("", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
			wantFaults(t, w.m, fault.StateLeaked)
			if w.m.Faults()[0].Where.Task != "h" || l.Held() {
				t.Errorf("%v, lock held %v", w.m.Faults()[0], l.Held())
			}
		})
	}
}

// TestGuardInHandler: a handler does not hold what the task it interrupts holds.
func TestGuardInHandler(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	var l machine.SpinLock
	l.Init(lockA, 1)
	var g machine.GuardedWord
	g.Init(held, l.Guard(), 0)
	w.task("a", 0, 0, func(c *machine.Ctx) { l.Lock(c); c.Barrier(); g.Load(c); l.Unlock(c) })
	w.irq("h", 0, 1, func(c *machine.Ctx) {
		if l.HeldBy(c) {
			t.Error("the handler holds the lock")
		}
		g.Load(c)
	})
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
	wantFaults(t, w.m, fault.Unguarded)
}
