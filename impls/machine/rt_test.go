package machine_test

import (
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// TestRTPreempts: on a real-time machine a handler is a task that preempts, is in no
// interrupt, and is not preempted by ordinary tasks until it waits.
func TestRTPreempts(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptRT)
	w.task("a", 0, 0, then(w.say("a"), barrier, w.say("a")))
	w.task("b", 0, 1, w.say("b"))
	w.task("c", 1, 2, then(barrier, w.say("c")))
	w.irq("h", 0, 3, then(w.say("h"), barrier, w.say("h")), w.say("h"))
	w.run("a0 h0 c1 h0 h0 a0 b0",
		dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("a"), true},
		dep{"h", machine.KBarrier, "-", 1, w.to("b"), true},
		dep{"h", machine.KBarrier, "-", 1, w.deliver("h"), true},
		dep{"h", machine.KBarrier, "-", 1, move(1), true},
		dep{"h", machine.KBarrier, "-", 1, w.to("c"), false},
		dep{"c", machine.KBarrier, "-", 1, w.to("b"), true},
		dep{"h", machine.KEnd, "-", 1, w.to("b"), true})
	wantFaults(t, w.m)
}

// TestRTSections: where a handler's task may not preempt, it is not delivered.
func TestRTSections(t *testing.T) {
	var l machine.SpinLock
	var x machine.Word
	for _, k := range []struct {
		name string
		body func(*machine.Ctx)
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
		{"preemption disabled", func(c *machine.Ctx) {
			c.PreemptDisable()
			c.Barrier()
			c.PreemptEnable()
		}, machine.KBarrier, "-", true},
		{"spin lock", func(c *machine.Ctx) { l.Lock(c); c.Barrier(); l.Unlock(c) },
			machine.KBarrier, "-", true},
		{"window", func(c *machine.Ctx) { x.CmpxchgLocal(c, 0, 1) }, machine.KStore, "test.word",
			true},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptRT)
			l.Init(lockA, 1)
			x.Init(word, -1, 0)
			w.task("a", 0, 0, k.body)
			w.task("b", 1, 1, barrier)
			w.irq("h", 0, 2, barrier)
			w.run("", dep{"a", k.kind, k.f, 1, w.deliver("h"), k.deny})
			// The same from another CPU.
			w.m.Reset()
			x.Init(word, -1, 0)
			w.task("a", 0, 0, k.body)
			w.task("b", 1, 1, barrier)
			w.irq("h", 0, 2, barrier)
			w.run("", dep{"a", k.kind, k.f, 1, w.to("b"), false},
				dep{"b", machine.KBarrier, "-", 1, w.deliver("h"), k.deny})
			wantFaults(t, w.m)
		})
	}
}

// TestRTLocalLock: a handler that finds the local lock taken sleeps, its holder goes
// on and stays on its CPU, and at the unlock the handler takes over at once.
func TestRTLocalLock(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(0))
	var g machine.GuardedWord
	g.Init(held, l.Guard(), 0)
	inc := func(name string) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			f := l.Lock(c)
			w.say(name)(c)
			g.Load(c)
			c.Barrier()
			g.Add(c, 1)
			w.say(name)(c)
			l.Unlock(c, f)
			w.say(name)(c)
		}
	}
	w.free("a", 0, 0, inc("a"))
	w.task("b", 0, 1, inc("b"))
	w.irq("h", 0, 2, inc("h"))
	w.run("a0 a0 h0 h0 h0 a0 b0 b0 b0",
		dep{"a", machine.KBarrier, "-", 1, move(1), true},
		dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KWait, "test.lock_a", 1, w.to("b"), false},
		dep{"b", machine.KWait, "test.lock_a", 1, w.to("h"), true})
	wantFaults(t, w.m)
	if g.Peek() != 3 {
		t.Errorf("count %d, want 3", g.Peek())
	}
}

// TestRTDelayed: where the holder cannot be preempted at the unlock, the handler
// takes over as soon as it can.
func TestRTDelayed(t *testing.T) {
	var l machine.LocalLock
	var s machine.SpinLock
	for _, k := range []struct {
		name string
		on   func(*machine.Ctx)
		off  func(*machine.Ctx)
	}{
		{"preemption", (*machine.Ctx).PreemptDisable, (*machine.Ctx).PreemptEnable},
		{"interrupts", (*machine.Ctx).IRQDisable, (*machine.Ctx).IRQEnable},
		{"lock", s.Lock, s.Unlock},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 1, machine.PreemptRT)
			l.Init(lockA, w.m.CPU(0))
			s.Init(lockB, 1)
			w.task("a", 0, 0, func(c *machine.Ctx) {
				f := l.Lock(c)
				c.Barrier()
				k.on(c)
				l.Unlock(c, f)
				w.say("a")(c)
				k.off(c)
				w.say("a")(c)
			})
			w.irq("h", 0, 1, func(c *machine.Ctx) {
				f := l.Lock(c)
				w.say("h")(c)
				l.Unlock(c, f)
			})
			w.run("a0 h0 a0", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
			wantFaults(t, w.m)
		})
	}
}

// TestRTFirst: a handler's task that the fixed rule wakes is ahead of lines that are
// earlier.
func TestRTFirst(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(0))
	w.task("a", 0, 0, func(c *machine.Ctx) { f := l.Lock(c); c.Barrier(); l.Unlock(c, f) })
	w.task("b", 1, 1, w.say("b"))
	w.irq("h", 0, 9, func(c *machine.Ctx) { f := l.Lock(c); w.say("h")(c); l.Unlock(c, f) })
	w.irq("i", 1, 8, w.say("i"))
	w.run("h0 b1 i1",
		dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"a", machine.KUnlock, "test.lock_a", 1, w.deliver("h"), true})
	wantFaults(t, w.m)
	w = newWorld(t, 2, machine.PreemptRT)
	w.task("a", 0, 0, then(barrier, w.say("a")))
	w.task("b", 1, 1, w.say("b"))
	w.task("d", 1, 2, w.say("d"))
	w.irq("h", 0, 9, then(barrier, w.say("h")))
	w.run("b1 h0 d1 a0", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("b"), false})
}

// TestRTAsleep: who sleeps on a local lock has no CPU, even while it is asked what
// comes next; a handler that could go on keeps ordinary tasks from it, from wherever
// they are chosen.
func TestRTAsleep(t *testing.T) {
	for _, handler := range []bool{false, true} {
		w := newWorld(t, 2, machine.PreemptRT)
		var l machine.LocalLock
		l.Init(lockA, w.m.CPU(0))
		use := func(c *machine.Ctx) { l.Unlock(c, l.Lock(c)) }
		w.task("a", 0, 0, func(c *machine.Ctx) {
			f := l.Lock(c)
			c.Barrier()
			l.Unlock(c, f)
			c.Barrier()
		})
		w.task("d", 1, 1, then(barrier, barrier))
		wake, first := w.to("b"), w.to("b")
		if handler {
			w.irq("b", 0, 2, use)
			first = w.deliver("b")
			wake = goOn // it has its turn at once
		} else {
			w.task("b", 0, 2, use)
		}
		w.run("", dep{"a", machine.KBarrier, "-", 1, first, false},
			dep{"b", machine.KWait, "test.lock_a", 1, w.to("a"), false},
			dep{"a", machine.KBarrier, "-", 2, wake, false},
			dep{"b", machine.KWait, "test.lock_a", 1, w.to("d"), false},
			dep{"d", machine.KBarrier, "-", 1, w.to("a"), handler})
		wantFaults(t, w.m)
	}
}

// TestRTMove: nobody is moved onto a CPU where a handler's task runs.
func TestRTMove(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptRT)
	w.task("a", 0, 0, barrier)
	w.free("f", 1, 1, barrier)
	w.irq("h", 0, 2, barrier)
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("f"), false},
		dep{"f", machine.KBarrier, "-", 1, move(0), true})
}

// TestRTSpinOnSleeper: a lock whose holder sleeps, which is found, does not come while
// the waiter has the CPU.
func TestRTSpinOnSleeper(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(0))
	s := locked(lockB, 1)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		f := l.Lock(c)
		c.Barrier()
		nest(s)(c)
		l.Unlock(c, f)
	})
	w.task("b", 0, 1, func(c *machine.Ctx) { s.Lock(c); l.Lock(c) })
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.to("b"), false})
	wantFaults(t, w.m, fault.Sleeping, fault.Deadlock)
	if d := w.m.Faults()[1].Detail; !strings.Contains(d, "on the same CPU") {
		t.Error(d)
	}
}

// TestRTDelayedCall: so it is behind a call.
func TestRTDelayedCall(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(0))
	w.task("a", 0, 0, func(c *machine.Ctx) {
		f := l.Lock(c)
		c.Barrier()
		c.CallOn(0, func(c *machine.Ctx) { l.Unlock(c, f); w.say("a")(c) })
		w.say("a")(c)
	})
	w.irq("h", 0, 1, func(c *machine.Ctx) { l.Unlock(c, l.Lock(c)); w.say("h")(c) })
	w.run("a0 h0 a0", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
	wantFaults(t, w.m)
}

// TestRTGuard: the holder's own context has what a local lock guards, and no other.
func TestRTGuard(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(0))
	g := l.Guard()
	w.task("a", 0, 0, func(c *machine.Ctx) {
		f := l.Lock(c)
		c.Barrier()
		if !g.Held(c) {
			t.Error("not held")
		}
		l.Unlock(c, f)
	})
	w.irq("h", 0, 1, func(c *machine.Ctx) {
		if g.Held(c) {
			t.Error("held by another")
		}
	})
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
}

// TestGuardElsewhere: another CPU's interrupts are off for that CPU.
func TestGuardElsewhere(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(1))
	local, off := l.Guard(), machine.IRQsOffOn(w.m.CPU(1))
	w.task("a", 0, 0, func(c *machine.Ctx) {
		c.Barrier()
		if local.Held(c) || off.Held(c) {
			t.Error("held by another CPU")
		}
	})
	w.task("b", 1, 1, func(c *machine.Ctx) {
		f := c.IRQSave()
		c.Barrier()
		c.IRQRestore(f)
	})
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false})
}

// TestLocalLockElsewhere: without real-time preemption a local lock is interrupts
// off, and its guard holds for the CPU that one is on.
func TestLocalLockElsewhere(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	var ls [2]machine.LocalLock
	var gs [2]machine.GuardedWord
	for i := range ls {
		ls[i].Init(lockA, w.m.CPU(i))
		gs[i].Init(held, ls[i].Guard(), 0)
	}
	w.free("a", 0, 0, func(c *machine.Ctx) {
		first := c.CPUID()
		f := ls[first].Lock(c)
		if !c.IRQsOff() || c.CPUID() == first {
			t.Error("not off, or not moved")
		}
		gs[c.CPUID()].Add(c, 1)
		gs[first].Add(c, 1) // of the CPU it came from
		ls[first].Unlock(c, f)
		if c.IRQsOff() {
			t.Error("still off")
		}
	})
	w.run("", dep{"a", machine.KIRQSave, "-", 1, move(1), false})
	wantFaults(t, w.m, fault.Unguarded)
}

// TestRTFaults: local locks taken where they must not be, and left.
func TestRTFaults(t *testing.T) {
	var l, other machine.LocalLock
	var s machine.SpinLock
	lock := func(c *machine.Ctx) { l.Unlock(c, l.Lock(c)) }
	for _, k := range []struct {
		name string
		body func(*machine.Ctx)
		want fault.Title
	}{
		{"interrupts off", func(c *machine.Ctx) { c.IRQSave(); lock(c); c.IRQEnable() },
			fault.Sleeping},
		{"preemption disabled", func(c *machine.Ctx) {
			c.PreemptDisable()
			lock(c)
			c.PreemptEnable()
		}, fault.Sleeping},
		{"spin lock held", func(c *machine.Ctx) { s.Lock(c); lock(c); s.Unlock(c) },
			fault.Sleeping},
		{"in a call", func(c *machine.Ctx) {
			c.CallOn(1, func(c *machine.Ctx) { other.Unlock(c, other.Lock(c)) })
		}, fault.Sleeping},
		{"of another CPU", func(c *machine.Ctx) { other.Unlock(c, other.Lock(c)) },
			fault.ForeignPerCPU},
		{"left", func(c *machine.Ctx) { l.Lock(c) }, fault.StateLeaked},
		{"twice", func(c *machine.Ctx) { l.Lock(c); l.Lock(c) }, fault.Deadlock},
		{"unlocked twice", func(c *machine.Ctx) { lock(c); l.Unlock(c, true) }, fault.StateLeaked},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptRT)
			l.Init(lockA, w.m.CPU(0))
			other.Init(lockB, w.m.CPU(1))
			s.Init(lockB, 1)
			w.free("a", 0, 0, k.body, barrier)
			w.task("b", 0, 2, func(c *machine.Ctx) { l.Unlock(c, l.Lock(c)) })
			s := newScript(t)
			if k.want != fault.Deadlock { // whatever was left, the task can move again
				s = newScript(t, dep{"a", machine.KBarrier, "-", 1, move(1), false})
			}
			run(t, w.m, s)
			s.done()
			got := titles(w.m)
			if len(got) == 0 || got[0] != k.want || len(got) > 2 {
				t.Errorf("faults %v", w.m.Faults())
			}
			if k.name == "twice" && !strings.Contains(got0(w.m), "which it took itself in oper") {
				t.Error(got0(w.m))
			}
		})
	}
}

func got0(m *machine.Machine) string { return m.Faults()[0].Detail }

// TestRTSleepOff: who sleeps with interrupts off, which is found, does not turn them
// off for the others.
func TestRTSleepOff(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptRT)
	var l machine.LocalLock
	l.Init(lockA, w.m.CPU(0))
	w.task("a", 0, 0, func(c *machine.Ctx) {
		f := l.Lock(c)
		c.Barrier()
		if c.IRQsOff() || !c.MayBlock() {
			t.Error("off for another task")
		}
		l.Unlock(c, f)
	})
	w.task("b", 0, 1, func(c *machine.Ctx) {
		c.PreemptDisable()
		c.IRQSave()
		f := l.Lock(c)
		if !c.IRQsOff() {
			t.Error("on again")
		}
		c.PreemptEnable()
		l.Unlock(c, f)
		c.IRQEnable()
	})
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.to("b"), false})
	wantFaults(t, w.m, fault.Sleeping)
}

// TestRTLockIRQ: handlers' tasks are no interrupts, calls are.
func TestRTLockIRQ(t *testing.T) {
	for _, call := range []bool{false, true} {
		w := newWorld(t, 2, machine.PreemptRT)
		var l machine.SpinLock
		l.Init(lockA, 1)
		use := func(c *machine.Ctx) { l.Lock(c); l.Unlock(c) }
		w.irq("h", 0, 0, use)
		w.task("a", 0, 1, func(c *machine.Ctx) {
			use(c)
			if call {
				c.CallOn(1, use)
			}
		})
		w.run("")
		if call {
			wantFaults(t, w.m, fault.LockIRQ)
		} else {
			wantFaults(t, w.m)
		}
	}
}
