package machine_test

import (
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// TestWork: work is done on the other CPU by the task itself, with interrupts on and where
// it may sleep, and the task comes back, pinned or not.
func TestWork(t *testing.T) {
	for _, p := range []machine.Preempt{machine.PreemptNone, machine.PreemptFull,
		machine.PreemptRT} {
		for _, pinned := range []bool{false, true} {
			w := newWorld(t, 3, p)
			add := w.free
			if pinned {
				add = w.task
			}
			add("a", 0, 0, func(c *machine.Ctx) {
				c.RunOnAll(func(c *machine.Ctx) {
					w.say("work")(c)
					if c.IRQsOff() || !c.MayBlock() || c.Name() != "a" || c.Line().Pos != 0 {
						t.Errorf("%s at %+v, interrupts off %v", c.Name(), c.Line(), c.IRQsOff())
					}
				})
				w.say("done")(c)
			})
			w.run("work0 work1 work2 done0")
			wantFaults(t, w.m)
		}
	}
}

// TestWorkWaits: work waits for the CPU like a task that was moved there: until the one that
// has it ends its line, sleeps or, where it can be, is preempted.
func TestWorkWaits(t *testing.T) {
	work := func(w *world) func(*machine.Ctx) {
		return func(c *machine.Ctx) { c.RunOn(1, w.say("work")); w.say("done")(c) }
	}
	busy := func(w *world) []func(*machine.Ctx) {
		return []func(*machine.Ctx){then(barrier, barrier, w.say("b")), w.say("b")}
	}
	for _, p := range []machine.Preempt{machine.PreemptNone, machine.PreemptFull,
		machine.PreemptRT} {
		w := newWorld(t, 2, p)
		w.task("b", 1, 0, busy(w)...)
		w.task("a", 0, 2, work(w))
		w.run("b1 b1 work1 done0", dep{"b", machine.KBarrier, "-", 1, w.to("a"), false})
		wantFaults(t, w.m)

		w = newWorld(t, 2, p) // no sooner than at the end of the line, if not preempted
		w.task("b", 1, 0, busy(w)...)
		w.task("a", 0, 2, work(w))
		trail := "work1 done0 b1 b1"
		if p == machine.PreemptNone {
			trail = "b1 work1 done0 b1"
		}
		w.run(trail, dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
			dep{"a", machine.KWait, "cpu.work", 1, w.to("b"), false},
			dep{"b", machine.KBarrier, "-", 2, w.to("a"), p == machine.PreemptNone},
			dep{"b", machine.KEnd, "-", 1, w.to("a"), p != machine.PreemptNone})
		wantFaults(t, w.m)
	}
}

// TestWorkSections: nor does it come where the CPU's task has preemption disabled.
func TestWorkSections(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.task("b", 1, 0, func(c *machine.Ctx) {
		c.PreemptDisable()
		c.Barrier()
		w.say("b")(c)
		c.PreemptEnable()
		w.say("b")(c)
	})
	w.task("a", 0, 2, func(c *machine.Ctx) { c.RunOn(1, w.say("work")) })
	w.task("d", 0, 3, w.say("d"))
	w.run("d0 b1 work1 b1", dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KWait, "cpu.work", 1, w.to("d"), false},
		dep{"d", machine.KEnd, "-", 1, w.to("a"), true},
		dep{"b", machine.KPreemptEnable, "-", 1, w.to("a"), false})
	wantFaults(t, w.m)
}

// TestWorkStays: a task is not moved from where its work is, nor while it waits to go there;
// it has the CPU in between no longer, and waits for it when it comes back.
func TestWorkStays(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptFull)
	w.free("a", 0, 0, func(c *machine.Ctx) {
		c.RunOn(0, then(barrier, w.say("x")))
		c.RunOn(1, then(barrier, w.say("y")))
		w.say("a")(c)
		c.Barrier()
		w.say("a")(c)
	})
	w.task("b", 1, 5, then(barrier, w.say("b")))
	w.task("d", 0, 6, then(barrier, w.say("d")))
	w.run("x0 b1 y1 d0 a0 a2",
		dep{"a", machine.KBarrier, "-", 1, move(2), true},
		dep{"a", machine.KCall, "cpu.work", 2, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KWait, "cpu.work", 1, move(2), true},
		dep{"d", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KBarrier, "-", 2, move(2), true},
		dep{"a", machine.KBarrier, "-", 3, move(2), false})
	wantFaults(t, w.m)
}

// TestWorkEachOther: two tasks that work on each other's CPU give them up to each other.
func TestWorkEachOther(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, func(c *machine.Ctx) { c.RunOn(1, w.say("x")); w.say("a")(c) })
	w.task("b", 1, 1, func(c *machine.Ctx) { c.RunOn(0, w.say("y")); w.say("b")(c) })
	w.run("y0 b1 x1 a0",
		dep{"a", machine.KCall, "cpu.work", 1, w.to("b"), false},
		dep{"b", machine.KCall, "cpu.work", 1, w.to("a"), false})
	wantFaults(t, w.m)
}

// TestWorkInterrupted: handlers of the CPU where the work is come in between, those of the
// CPU that the task has left are no interrupts of it, and calls reach it as any task.
func TestWorkInterrupted(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		c.RunOn(1, then(barrier, barrier, barrier, w.say("work")))
		w.say("done")(c)
	})
	w.task("b", 2, 1, func(c *machine.Ctx) { c.CallOn(1, w.say("call")) })
	w.irq("h", 1, 2, w.say("h"))
	w.irq("i", 0, 3, w.say("i"))
	w.run("h1! i0! call1! work1 done0",
		dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"a", machine.KBarrier, "-", 2, w.deliver("i"), false},
		dep{"a", machine.KBarrier, "-", 3, w.to("b"), false},
		dep{"b", machine.KWait, "cpu.call", 1, w.to("a"), false})
	wantFaults(t, w.m)
}

// TestWorkSleeps: on a real-time machine work waits for the local lock of the CPU that it
// is on, whose holder goes on meanwhile.
func TestWorkSleeps(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(1))
	use := func(name string) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			f := l.Lock(c)
			c.Barrier()
			w.say(name)(c)
			l.Unlock(c, f)
		}
	}
	w.task("b", 1, 0, use("b"))
	w.task("a", 0, 1, func(c *machine.Ctx) { c.RunOn(1, use("work")); w.say("done")(c) })
	w.run("b1 work1 done0", dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KWait, "cpu.work", 1, w.to("b"), false},
		dep{"b", machine.KUnlock, "test.lock_a", 1, w.to("a"), false},
		dep{"a", machine.KWait, "test.lock_a", 1, w.to("b"), false})
	wantFaults(t, w.m)
}

// TestWorkFirst: the work of a handler's task takes the CPU from a task at once, or as
// soon as that can be preempted.
func TestWorkFirst(t *testing.T) {
	for _, k := range []struct {
		name string
		body func(*world) func(*machine.Ctx)
		want string
	}{
		{"preemptible", func(w *world) func(*machine.Ctx) { return then(barrier, w.say("b")) },
			"work1 h0 b1"},
		{"not", func(w *world) func(*machine.Ctx) {
			return func(c *machine.Ctx) {
				c.PreemptDisable()
				c.Barrier()
				w.say("b")(c)
				c.PreemptEnable()
				w.say("b")(c)
			}
		}, "b1 work1 h0 b1"},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptRT)
			w.task("b", 1, 0, k.body(w))
			w.irq("h", 0, 1, func(c *machine.Ctx) { c.RunOn(1, w.say("work")); w.say("h")(c) })
			w.run(k.want, dep{"b", machine.KBarrier, "-", 1, w.deliver("h"), false})
			wantFaults(t, w.m)
		})
	}
}

// TestWorkFaults: work from where a task may not leave its CPU is a finding, is done once all
// the same, and leaves everything as it was.
func TestWorkFaults(t *testing.T) {
	var l machine.SpinLock
	var local machine.LocalLock
	for _, k := range []struct {
		name string
		body func(c *machine.Ctx, work func())
		want fault.Title
	}{
		{"interrupts off", func(c *machine.Ctx, work func()) {
			flags := c.IRQSave()
			work()
			if !c.IRQsOff() {
				t.Error("on again")
			}
			c.IRQRestore(flags)
		}, fault.CallIRQOff},
		{"spin lock held", func(c *machine.Ctx, work func()) { l.Lock(c); work(); l.Unlock(c) },
			fault.CallIRQOff},
		{"from a call", func(c *machine.Ctx, work func()) {
			c.CallOn(0, func(c *machine.Ctx) { work() })
		}, fault.CallIRQOff},
		{"preemption disabled", func(c *machine.Ctx, work func()) {
			c.PreemptDisable()
			work()
			c.PreemptEnable()
		}, fault.Sleeping},
		{"local lock held", func(c *machine.Ctx, work func()) {
			f := local.Lock(c)
			work()
			local.Unlock(c, f)
		}, fault.Sleeping},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptRT)
			l.Init(lockA, 1)
			local.Init(lockB, w.m.CPU(0))
			w.free("a", 0, 0, func(c *machine.Ctx) {
				k.body(c, func() {
					c.RunOn(0, func(*machine.Ctx) {}) // is allowed anywhere
					c.RunOn(1, func(c *machine.Ctx) {
						w.trail = append(w.trail, "work"+string(rune('0'+c.CPUID())))
					})
				})
			}, barrier)
			w.run("work1", dep{"a", machine.KBarrier, "-", 1, move(1), false})
			wantFaults(t, w.m, k.want)
		})
	}
}

// TestWorkFromHandler: an interrupt cannot go anywhere: its work becomes a call.
func TestWorkFromHandler(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.irq("h", 0, 0, func(c *machine.Ctx) { c.RunOn(0, w.say("x")); c.RunOn(1, w.say("y")) })
	w.run("x0! y1!")
	wantFaults(t, w.m, fault.CallIRQOff)
}

// TestWorkForever: work for a CPU that never comes free says in a deadlock what it waits for.
func TestWorkForever(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	var l, k machine.SpinLock
	l.Init(lockA, 1)
	k.Init(lockB, 2)
	w.task("b", 1, 0, func(c *machine.Ctx) { l.Lock(c); c.Barrier(); k.Lock(c) })
	w.task("d", 2, 1, func(c *machine.Ctx) { k.Lock(c); c.Barrier(); l.Lock(c) })
	w.task("a", 0, 2, func(c *machine.Ctx) { c.RunOn(1, w.say("work")) })
	w.run("", dep{"b", machine.KBarrier, "-", 1, w.to("d"), false})
	got := w.m.Faults()
	last := got[len(got)-1]
	if last.Title != fault.Deadlock || !strings.Contains(last.Detail, "a waits for CPU 1") {
		t.Errorf("faults %v", got)
	}
}

// TestWorkNowhere: there is no such CPU.
func TestWorkNowhere(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		for _, cpu := range []int{-1, 2} {
			wantPanic(t, func() { c.RunOn(cpu, barrier) })
		}
	})
	w.run("")
}

// TestWorkNative: natively the owner of the CPU does the work between its operations.
func TestWorkNative(t *testing.T) {
	cfg := config(2, machine.PreemptNone)
	cfg.Native = true
	m := machine.New(cfg)
	defer m.Close()
	c := m.NativeCtx(0, "a")
	var on []int
	c.RunOnAll(func(c *machine.Ctx) { on = append(on, c.CPUID()) })
	c.Release()
	if len(on) != 2 || on[0] != 0 || on[1] != 1 {
		t.Errorf("on CPUs %v", on)
	}
}
