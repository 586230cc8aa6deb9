package machine_test

import (
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// binding is a name that some line binds.
type binding struct{ set bool }

func (f *binding) Ready(*machine.Ctx) bool { return f.set }

// TestWait: a line that waits for a name goes on once it is bound, and gives its CPU
// away meanwhile.
func TestWait(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	var x binding
	w.task("a", 0, 0, func(c *machine.Ctx) {
		w.say("a")(c)
		if !c.Wait(&x) {
			t.Error("gave up")
		}
		w.say("a")(c)
	})
	w.task("b", 0, 1, w.say("b"), func(*machine.Ctx) { x.set = true }, w.say("b"))
	w.run("a0 b0 b0 a0")
	wantFaults(t, w.m)
}

// TestWaitDeparts: while a line waits the chooser may let another task of its CPU go
// first, without preemption, too.
func TestWaitDeparts(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	var x binding
	w.task("a", 0, 0, func(c *machine.Ctx) { c.Wait(&x); w.say("a")(c) })
	w.task("b", 1, 1, w.say("b"))
	w.task("c", 0, 2, then(func(*machine.Ctx) { x.set = true }, w.say("c")))
	w.run("c0 a0 b1", dep{"a", machine.KWait, "-", 1, w.to("c"), false},
		dep{"c", machine.KEnd, "-", 1, w.to("a"), false})
}

// TestWaitGivesUp: only when nothing else can run, handlers included, the earliest
// line first; what it does then may save the others.
func TestWaitGivesUp(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	var x, y binding
	wait := func(f *binding, s string) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			if c.Wait(f) {
				s += "+"
			}
			w.trail = append(w.trail, s)
		}
	}
	w.task("late", 1, 5, wait(&x, "late"), func(*machine.Ctx) { y.set = true })
	w.task("early", 0, 1, wait(&x, "early"))
	w.task("other", 0, 8, wait(&y, "other"))
	w.task("setter", 1, 3, w.say("s"))
	w.irq("h", 1, 9, w.say("h"))
	w.m.SetBarriers([]int{10}, func(int) { w.trail = append(w.trail, "check") })
	w.task("behind", 0, 11, wait(&x, "behind"))
	w.run("s1 h1! early late other+ check behind")
	wantFaults(t, w.m)
}

// TestWaitNever: a handler does not wait, and what is bound needs no wait.
func TestWaitNever(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	x, y := binding{}, binding{set: true}
	ask := func(c *machine.Ctx) {
		before := w.m.Sim().Steps()
		if got, want := c.Wait(&x), x.set; got != want {
			t.Errorf("unbound %v", got)
		}
		if !c.Wait(&y) || w.m.Sim().Steps() != before {
			t.Error("waited")
		}
	}
	w.irq("h", 0, 0, ask)
	w.run("")
}

// TestWaitIsQuiet: a line that waits has not begun.
func TestWaitIsQuiet(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	var x binding
	w.task("a", 0, 0, func(c *machine.Ctx) { c.Wait(&x) })
	w.task("b", 1, 1, func(c *machine.Ctx) {
		if !w.m.Sim().Quiet(c) {
			t.Error("not quiet")
		}
	})
	w.run("", dep{"a", machine.KWait, "-", 1, w.to("b"), false})
}

// TestWaitStuckCPU: a wait is not given up on a CPU that somebody else holds.
func TestWaitStuckCPU(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	var x binding
	var a, b machine.SpinLock
	a.Init(lockA, 2)
	b.Init(lockB, 1)
	w.task("w", 0, 0, func(c *machine.Ctx) { c.Wait(&x); w.say("gave up")(c) })
	w.task("p", 0, 1, then(a.Lock, b.Lock))
	w.task("q", 1, 2, then(b.Lock, a.Lock))
	w.run("", dep{"p", machine.KLock, "test.lock_b", 1, w.to("q"), false})
	got := titles(w.m)
	if got[len(got)-1] != fault.Deadlock || !w.m.Sim().Aborted() {
		t.Errorf("faults %v", w.m.Faults())
	}
}

// TestSpinAttempts: each time a spinning CPU is woken is an attempt of its own; a
// call that it makes meanwhile is no attempt of its lock.
func TestSpinAttempts(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	var l machine.SpinLock
	l.Init(lockA, 1)
	calls := 0
	w.task("holder", 0, 0, func(c *machine.Ctx) {
		l.Lock(c)
		c.Barrier()
		c.Barrier()
		l.Unlock(c)
	})
	w.task("spinner", 1, 1, func(c *machine.Ctx) { l.Lock(c); w.say("got")(c); l.Unlock(c) })
	w.task("caller", 2, 2, func(c *machine.Ctx) { c.CallOn(1, func(*machine.Ctx) { calls++ }) })
	w.m.Sim().Trace()
	w.run("got1",
		dep{"holder", machine.KBarrier, "-", 1, w.to("spinner"), false},
		dep{"spinner", machine.KWait, "test.lock_a", 2, w.to("holder"), false})
	waits := 0
	for _, e := range w.m.Sim().Entries() {
		if e.Kind == machine.KWait && e.Where.Task == "spinner" {
			waits++
			if e.N != waits {
				t.Errorf("wait %d has number %d", waits, e.N)
			}
		}
	}
	if waits != 2 || calls != 1 {
		t.Errorf("%d waits and %d calls", waits, calls)
	}
	wantFaults(t, w.m)
}

// TestSpinUnderHandler: what is nested on a spinning CPU does not wait for the lock,
// may itself spin, and leaves the wait as it was.
func TestSpinUnderHandler(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	var a, b machine.SpinLock
	a.Init(lockA, 2)
	b.Init(lockB, 2)
	irqOff := func(l *machine.SpinLock, f func(*machine.Ctx)) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			flags := l.LockIRQSave(c)
			f(c)
			l.UnlockIRQRestore(c, flags)
		}
	}
	w.task("holder", 0, 0, func(c *machine.Ctx) {
		a.Lock(c)
		c.Barrier()
		c.Barrier()
		a.Unlock(c)
	})
	w.task("spinner", 1, 1, func(c *machine.Ctx) { a.Lock(c); w.say("s")(c); a.Unlock(c) })
	w.task("other", 2, 2, irqOff(&b, then(barrier, w.say("o"))))
	w.irq("h", 1, 3, irqOff(&b, then(barrier, w.say("h"))))
	w.run("o2 h1! s1",
		dep{"holder", machine.KBarrier, "-", 1, w.to("spinner"), false},
		dep{"spinner", machine.KWait, "test.lock_a", 1, w.to("other"), false},
		dep{"other", machine.KBarrier, "-", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("holder"), false},
		dep{"holder", machine.KBarrier, "-", 2, w.to("spinner"), false})
	wantFaults(t, w.m)
}

// TestHandlerOnSpinner: a handler that was left in the middle on a spinning CPU can go
// on, though the lock is not free.
func TestHandlerOnSpinner(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	l := locked(lockA, 1)
	w.task("holder", 0, 0, func(c *machine.Ctx) {
		l.Lock(c)
		c.Barrier()
		c.Barrier()
		w.say("free")(c)
		l.Unlock(c)
	})
	w.task("spinner", 1, 1, then(nest(l), w.say("s")))
	w.irq("h", 1, 2, then(barrier, w.say("h")))
	w.run("h1! free0 s1",
		dep{"holder", machine.KBarrier, "-", 1, w.to("spinner"), false},
		dep{"spinner", machine.KWait, "test.lock_a", 1, w.deliver("h"), false},
		dep{"h", machine.KBarrier, "-", 1, w.to("holder"), false},
		dep{"holder", machine.KBarrier, "-", 2, w.to("spinner"), false})
	wantFaults(t, w.m)
}

// TestDeadlocks: every way to wait for ever is found and ends the run.
func TestDeadlocks(t *testing.T) {
	var a, b machine.SpinLock
	for _, k := range []struct {
		name string
		set  func(w *world) []dep
	}{
		{"a lock twice", func(w *world) []dep {
			w.task("t", 0, 0, then(a.Lock, a.Lock))
			return nil
		}},
		{"a handler on the task's lock", func(w *world) []dep {
			w.task("t", 0, 0, func(c *machine.Ctx) { a.Lock(c); c.Barrier(); a.Unlock(c) })
			w.irq("h", 0, 1, a.Lock)
			return []dep{{"t", machine.KBarrier, "-", 1, w.deliver("h"), false}}
		}},
		{"two CPUs", func(w *world) []dep {
			w.task("t", 0, 0, then(a.Lock, b.Lock))
			w.task("u", 1, 1, then(b.Lock, a.Lock))
			return []dep{{"t", machine.KLock, "test.lock_b", 1, w.to("u"), false}}
		}},
		{"two idle CPUs", func(w *world) []dep {
			w.irq("h", 0, 0, then(a.Lock, b.Lock))
			w.irq("i", 1, 1, then(b.Lock, a.Lock))
			return []dep{{"h", machine.KLock, "test.lock_b", 1, w.deliver("i"), false}}
		}},
		{"a call with interrupts off", func(w *world) []dep {
			w.task("t", 0, 0, func(c *machine.Ctx) { c.IRQSave(); c.CallOn(1, barrier) })
			w.task("u", 1, 1, func(c *machine.Ctx) {
				c.IRQSave()
				c.Barrier()
				c.CallOn(0, barrier)
			})
			return []dep{{"t", machine.KCall, "cpu.call", 1, w.to("u"), false},
				{"u", machine.KBarrier, "-", 1, w.to("t"), false}}
		}},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptFull)
			for range 2 { // and the machine can be used again
				a.Init(lockA, 1)
				b.Init(lockB, 1)
				s := newScript(t, k.set(w)...)
				run(t, w.m, s)
				s.done()
				got := titles(w.m)
				if len(got) == 0 || got[len(got)-1] != fault.Deadlock || !w.m.Sim().Aborted() {
					t.Fatalf("faults %v", w.m.Faults())
				}
				w.m.Reset()
			}
		})
	}
}
