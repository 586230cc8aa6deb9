package machine_test

import (
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// sections are the states of a CPU at one Barrier point, and what may happen there.
// Another task of the CPU and another CPU for the task are one question: can it be
// preempted.
var sections = []struct {
	name            string
	around          func(*machine.Ctx)
	preempt, handle bool
}{
	{"plain", barrier, true, true},
	{"preemption disabled", func(c *machine.Ctx) {
		c.PreemptDisable()
		c.Barrier()
		c.PreemptEnable()
	}, false, true},
	{"preemption disabled twice and enabled once", func(c *machine.Ctx) {
		c.PreemptDisable()
		c.PreemptDisable()
		c.PreemptEnable()
		c.Barrier()
		c.PreemptEnable()
	}, false, true},
	{"interrupts off", func(c *machine.Ctx) {
		f := c.IRQSave()
		c.Barrier()
		c.IRQRestore(f)
	}, false, false},
	{"interrupts off twice and restored once", func(c *machine.Ctx) {
		f := c.IRQSave()
		g := c.IRQSave()
		c.IRQRestore(g)
		c.Barrier()
		c.IRQRestore(f)
	}, false, false},
	{"interrupts on again", func(c *machine.Ctx) {
		c.IRQDisable()
		c.IRQEnable()
		c.Barrier()
	}, true, true},
	{"spin lock", func(c *machine.Ctx) {
		var l machine.SpinLock
		l.Init(lockA, 1)
		l.Lock(c)
		c.Barrier()
		l.Unlock(c)
	}, false, true},
	{"spin lock tried", func(c *machine.Ctx) {
		var l machine.SpinLock
		l.Init(lockA, 1)
		l.TryLock(c)
		c.Barrier()
		l.Unlock(c)
	}, false, true},
	{"spin lock released", func(c *machine.Ctx) {
		var l machine.SpinLock
		l.Init(lockA, 1)
		l.Lock(c)
		l.Unlock(c)
		c.Barrier()
	}, true, true},
	{"call on its own CPU", func(c *machine.Ctx) { c.CallOn(c.CPUID(), barrier) }, false, false},
}

// TestSections: in each section, on each kind of kernel, exactly the allowed actions
// are allowed.
func TestSections(t *testing.T) {
	for _, kernel := range []machine.Preempt{machine.PreemptNone, machine.PreemptFull} {
		for _, k := range sections {
			t.Run(kernel.String()+"/"+k.name, func(t *testing.T) {
				w := newWorld(t, 2, kernel)
				w.free("t", 0, 0, k.around)
				w.task("same", 0, 1, barrier)
				w.task("other", 1, 2, barrier)
				w.irq("irq0", 0, 3, barrier)
				w.irq("irq1", 1, 4, barrier)
				ask := &asker{t: t, w: w, preempt: k.preempt && kernel == machine.PreemptFull,
					handle: k.handle}
				run(t, w.m, ask)
				if ask.asked != 1 {
					t.Errorf("%d points asked", ask.asked)
				}
				wantFaults(t, w.m)
			})
		}
	}
}

// asker asks what is allowed at the first Barrier of task t.
type asker struct {
	t               *testing.T
	w               *world
	preempt, handle bool
	asked           int
}

func (a *asker) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if c != a.w.tasks["t"] || p.Kind != machine.KBarrier || c.InInterrupt() {
		return machine.Action{}
	}
	a.asked++
	for _, q := range []struct {
		name string
		act  machine.Action
		want bool
	}{
		{"another task of the CPU", a.w.to("same")(), a.preempt},
		{"a task of another CPU", a.w.to("other")(), true},
		{"itself", a.w.to("t")(), false},
		{"nobody", machine.Action{Kind: machine.SwitchTo}, false},
		{"another CPU", move(1)(), a.preempt},
		{"its own CPU", move(0)(), false},
		{"no CPU", move(2)(), false},
		{"negative CPU", move(-1)(), false},
		{"a handler here", a.w.deliver("irq0")(), a.handle},
		{"a handler elsewhere", a.w.deliver("irq1")(), true},
		{"no handler", machine.Action{Kind: machine.Interrupt}, false},
		{"suppress nothing", machine.Action{Kind: machine.Suppress}, false},
		{"suppress", machine.Action{Kind: machine.Suppress, Handler: a.w.irqs["irq0"]}, true},
		{"fail", machine.Action{Kind: machine.FailPages}, false},
		{"unknown", machine.Action{Kind: 99}, false},
		{"go", machine.Action{}, true},
	} {
		if got := c.Allowed(p, q.act); got != q.want {
			a.t.Errorf("%s: allowed %v, want %v", q.name, got, q.want)
		}
	}
	return machine.Action{}
}

// TestPreempted: a preempted task goes on when its CPU is free, and then has it.
func TestPreempted(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.task("a", 0, 0, then(w.say("a"), barrier, w.say("a"), barrier, w.say("a")))
	w.task("b", 0, 1, then(w.say("b"), barrier, w.say("b")))
	w.task("c", 1, 2, w.say("c"))
	w.run("a0 b0 b0 c1 a0 a0",
		dep{"a", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{who: "c", kind: machine.KEnd, field: "-", n: 1, act: w.to("b"), deny: true})
	wantFaults(t, w.m)
}

// TestResumedHasItsCPU: a preempted task that was resumed keeps others from its CPU.
func TestResumedHasItsCPU(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.task("a", 0, 0, then(barrier, w.say("a"), func(c *machine.Ctx) {
		f := c.IRQSave()
		c.Barrier()
		c.IRQRestore(f)
	}, w.say("a")))
	w.task("b", 0, 1, w.say("b"))
	w.task("c", 1, 2, then(barrier, w.say("c")))
	w.task("d", 0, 3, w.say("d"))
	w.run("b0 a0 c1 a0 d0",
		dep{"a", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"b", machine.KEnd, "-", 1, w.to("a"), false},
		dep{"a", machine.KBarrier, "-", 2, w.to("c"), false},
		dep{"c", machine.KBarrier, "-", 1, w.to("d"), true})
	wantFaults(t, w.m)
}

// TestLockPointIsPreemptible: preemption is disabled by the lock, not before it.
func TestLockPointIsPreemptible(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptFull)
	var l machine.SpinLock
	l.Init(lockA, 1)
	take := func(c *machine.Ctx) { l.Lock(c); l.Unlock(c) }
	w.task("a", 0, 0, then(take, w.say("a")))
	w.task("b", 0, 1, then(take, w.say("b")))
	w.run("b0 a0",
		dep{"a", machine.KLock, "test.lock_a", 1, w.to("b"), false},
		dep{"b", machine.KUnlock, "test.lock_a", 1, w.to("a"), true})
	wantFaults(t, w.m)
}

// TestMove: a task that is moved goes on elsewhere; a pinned one is not moved.
func TestMove(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.free("a", 0, 0, then(w.say("a"), barrier, w.say("a")), w.say("a"))
	w.task("p", 0, 5, barrier)
	w.task("b", 1, 6, then(w.say("b"), barrier, w.say("b")))
	w.run("a0 b1 a1 a1 b1",
		dep{"a", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KBarrier, "-", 1, move(1), false},
		dep{"a", machine.KBarrier, "-", 1, w.to("b"), false}, // preempted by the one that came
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"p", machine.KBarrier, "-", 1, move(1), true})
	wantFaults(t, w.m)
}

// TestMoveToBusy: nobody is moved onto a CPU in the middle of what must not be
// preempted.
func TestMoveToBusy(t *testing.T) {
	var l machine.SpinLock
	var word0 machine.Word
	for _, k := range []struct {
		name string
		busy func(*machine.Ctx)
		kind machine.Kind
		f    string
		deny bool
	}{
		{"plain", barrier, machine.KBarrier, "-", false},
		{"interrupts off", func(c *machine.Ctx) {
			f := c.IRQSave()
			c.Barrier()
			c.IRQRestore(f)
		}, machine.KBarrier, "-", true},
		{"locked", func(c *machine.Ctx) { l.Lock(c); c.Barrier(); l.Unlock(c) }, machine.KBarrier,
			"-", true},
		{"window", func(c *machine.Ctx) { word0.CmpxchgLocal(c, 0, 1) }, machine.KStore,
			"test.word", true},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptFull)
			l.Init(lockA, 1)
			word0.Init(word, -1, 0)
			w.task("b", 1, 0, k.busy)
			w.free("a", 0, 1, barrier)
			w.run("", dep{"b", k.kind, k.f, 1, w.to("a"), false},
				dep{"a", machine.KBarrier, "-", 1, move(1), k.deny})
			wantFaults(t, w.m)
		})
	}
}

// TestMoveInHandler: what a handler interrupts is not moved from under it, neither
// the handler's own task nor one onto its CPU.
func TestMoveInHandler(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.free("a", 0, 0, barrier)
	w.free("b", 1, 1, barrier)
	w.irq("irq0", 0, 2, barrier)
	w.run("",
		dep{"a", machine.KBarrier, "-", 1, w.deliver("irq0"), false},
		dep{"irq0", machine.KBarrier, "-", 1, move(1), true},
		dep{"irq0", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, move(0), true})
}

// TestMoveBetweenLines: without preemption a task is moved where it gives its CPU
// away, also to one that is busy.
func TestMoveBetweenLines(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.free("a", 0, 0, w.say("a"), w.say("a"))
	w.task("b", 1, 5, then(w.say("b"), barrier, w.say("b")))
	w.run("a0 b1 b1 a1",
		dep{"a", machine.KEnd, "-", 1, move(1), false},
		dep{"a", machine.KEnd, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), true},
		dep{"b", machine.KEnd, "-", 1, move(0), true})
	wantFaults(t, w.m)
}

// TestMoveToBusyWaits: a task that is moved to a CPU in use, between lines or while it
// waits, goes on when that is free and not before, even if it was chosen meanwhile.
func TestMoveToBusyWaits(t *testing.T) {
	for _, waits := range []bool{false, true} {
		w := newWorld(t, 2, machine.PreemptNone)
		x := binding{set: !waits}
		kind := machine.KEnd
		w.free("a", 0, 0, then(w.say("a")), func(c *machine.Ctx) {
			c.Wait(&x)
			w.say("a")(c)
		})
		if waits {
			kind = machine.KWait
		}
		w.task("b", 1, 5, then(func(*machine.Ctx) { x.set = true }, barrier, w.say("b")))
		w.task("c", 0, 6, barrier, w.say("c"))
		w.run("a0 b1 c0 a1",
			dep{"a", kind, "-", 1, w.to("b"), false},
			dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
			dep{"a", kind, "-", 1, move(1), false})
		wantFaults(t, w.m)
	}
}

// TestWindowIsNotPreemptible: nothing of its own CPU comes inside a local exchange.
func TestWindowIsNotPreemptible(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	var x machine.Word
	x.Init(own, 0, 0)
	w.free("a", 0, 0, func(c *machine.Ctx) { x.CmpxchgLocal(c, 0, 1) })
	w.task("b", 0, 1, barrier)
	w.task("c", 1, 2, barrier)
	w.irq("h", 0, 3, barrier)
	at := func(act func() machine.Action, deny bool) dep {
		return dep{"a", machine.KStore, "test.own", 1, act, deny}
	}
	w.run("", at(w.to("b"), true), at(move(1), true), at(w.deliver("h"), true),
		at(w.to("c"), false))
	wantFaults(t, w.m)
}

// TestBetweenLinesIsIdle: a task that is resumed between its lines has not got its
// CPU: another task may have it, and a handler runs on nobody that was preempted.
func TestBetweenLinesIsIdle(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	two := func(name string, pos int) {
		w.tasks[name] = w.m.AddTask(name, 0, pos, true, lines(pos, 2, w.say(name), w.say(name)))
	}
	two("a", 0)
	two("e", 1)
	w.task("d", 1, 9, barrier)
	w.run("a0 e0 e0 a0", // d's line ends first and e's is next in turn
		dep{"a", machine.KEnd, "-", 1, w.to("e"), false},
		dep{"e", machine.KEnd, "-", 1, w.to("a"), false},
		dep{"a", machine.KEnd, "-", 1, w.to("d"), false},
		dep{"d", machine.KBarrier, "-", 1, w.to("e"), false})
	w = newWorld(t, 1, machine.PreemptFull)
	w.task("a", 0, 0, w.say("a"), w.say("a"))
	w.task("c", 0, 5, then(barrier, w.say("c")))
	w.irq("h", 0, 9, w.say("h"))
	w.run("a0 h0! a0 c0",
		dep{"a", machine.KEnd, "-", 1, w.to("c"), false},
		dep{"c", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KEnd, "-", 1, w.deliver("h"), false})
}

// TestChosenBetweenLines: a task that is chosen between its lines goes on with the
// next one, though others are earlier.
func TestChosenBetweenLines(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.tasks["a"] = w.m.AddTask("a", 0, 0, true, lines(0, 9, w.say("a"), w.say("a")))
	w.task("b", 1, 3, then(barrier, w.say("b")))
	w.task("c", 0, 4, w.say("c"))
	w.run("a0 a0 b1 c0",
		dep{"a", machine.KEnd, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false})
}

// TestSeveralTasks: tasks of one CPU take turns by line, each whole line at once.
func TestSeveralTasks(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptFull)
	add := func(name string, pos int) {
		w.tasks[name] = w.m.AddTask(name, 0, pos, true, lines(pos, 3,
			then(w.say(name), barrier, w.say(name)), w.say(name)))
	}
	add("a", 0)
	add("b", 1)
	add("c", 2)
	w.run("a0 a0 b0 b0 c0 c0 a0 b0 c0")
	wantFaults(t, w.m)
}

// TestPreemptCount: one Enable too many, or too few in a handler, is found.
func TestPreemptCount(t *testing.T) {
	for _, k := range []struct {
		name string
		task func(*machine.Ctx)
		irq  func(*machine.Ctx)
		n    int
		left bool
	}{
		{"enabled once too often", func(c *machine.Ctx) { c.PreemptEnable() }, barrier, 1, false},
		{"enabled in a handler", func(c *machine.Ctx) {
			c.PreemptDisable()
			c.Barrier()
			c.PreemptEnable()
		}, func(c *machine.Ctx) { c.PreemptEnable() }, 2, false},
		{"left disabled in a handler", barrier, (*machine.Ctx).PreemptDisable, 2, true},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 1, machine.PreemptFull)
			w.task("a", 0, 0, then(k.task, barrier))
			w.task("b", 0, 1, barrier)
			w.irq("irq0", 0, 2, k.irq)
			s := newScript(t, dep{"a", machine.KBarrier, "-", 1, w.deliver("irq0"), false},
				dep{"b", machine.KBarrier, "-", 1, w.deliver("irq0"), false})
			run(t, w.m, s)
			s.done()
			wantFaults(t, w.m, repeatTitle(fault.StateLeaked, k.n)...)
			if often := strings.Contains(w.m.Faults()[0].Detail, "more often"); often == k.left {
				t.Error(w.m.Faults()[0])
			}
		})
	}
}
