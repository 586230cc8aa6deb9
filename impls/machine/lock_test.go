package machine_test

import (
	"fmt"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// many are more lock classes than a machine word has bits.
var many = func() (fs []*machine.Field) {
	for i := range 130 {
		fs = append(fs, machine.Atomic("many", fmt.Sprint("lock", i)))
	}
	return fs
}()

// nest is one operation that takes the locks in order and releases them.
func nest(ls ...*machine.SpinLock) func(*machine.Ctx) {
	return func(c *machine.Ctx) {
		for _, l := range ls {
			l.Lock(c)
		}
		for i := range ls {
			ls[len(ls)-1-i].Unlock(c)
		}
	}
}

func locked(f *machine.Field, rank int) *machine.SpinLock {
	l := &machine.SpinLock{}
	l.Init(f, rank)
	return l
}

// TestLockOrder: ranks fall, and two classes are not taken in both orders, whatever
// the ranks of the instances; on one run, not on one and the next.
func TestLockOrder(t *testing.T) {
	a2, b1 := locked(lockA, 2), locked(lockB, 1)
	a1, b2 := locked(lockA, 1), locked(lockB, 2)
	for _, k := range []struct {
		name  string
		lines []func(*machine.Ctx)
		want  []fault.Title
	}{
		{"falling", []func(*machine.Ctx){nest(a2, b1), nest(a2, b1)}, nil},
		{"rising", []func(*machine.Ctx){nest(b1, a2)}, []fault.Title{fault.LockOrder}},
		{"equal", []func(*machine.Ctx){nest(a2, b2)}, []fault.Title{fault.LockOrder}},
		{"both orders", []func(*machine.Ctx){nest(a2, b1), nest(b2, a1)},
			[]fault.Title{fault.LockOrder}},
		{"one after the other", []func(*machine.Ctx){nest(a1), nest(b1), nest(b2), nest(a2)}, nil},
		{"tried", []func(*machine.Ctx){func(c *machine.Ctx) {
			b1.Lock(c)
			a2.TryLock(c)
			a2.Unlock(c)
			b1.Unlock(c)
		}}, nil},
		{"below a tried one", []func(*machine.Ctx){func(c *machine.Ctx) {
			b1.TryLock(c)
			a2.Lock(c)
			a2.Unlock(c)
			b1.Unlock(c)
		}}, []fault.Title{fault.LockOrder}},
		{"released in order", []func(*machine.Ctx){func(c *machine.Ctx) {
			a2.Lock(c)
			b1.Lock(c)
			a2.Unlock(c)
			b1.Unlock(c)
			a1.Lock(c)
			a1.Unlock(c)
		}}, nil},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 1, machine.PreemptNone)
			w.task("a", 0, 0, k.lines...)
			w.run("")
			wantFaults(t, w.m, k.want...)
		})
	}
	w := newWorld(t, 1, machine.PreemptNone)
	for _, line := range []func(*machine.Ctx){nest(a2, b1), nest(b2, a1)} {
		w.task("a", 0, 0, line)
		w.run("")
		wantFaults(t, w.m)
		w.m.Reset()
	}
}

// TestManyLockClasses: classes are told apart however many there are.
func TestManyLockClasses(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	for i := range 129 {
		w.m.Reset()
		w.task("a", 0, 0, nest(locked(many[i], 2), locked(many[i+1], 1)),
			nest(locked(many[(i+1+64)%130], 2), locked(many[i], 1)),
			nest(locked(many[(i+64)%130], 2), locked(many[i+1], 1)))
		w.run("")
		wantFaults(t, w.m)
	}
	for i := range 129 {
		w.m.Reset()
		w.task("a", 0, 0, nest(locked(many[i], 2), locked(many[i+1], 1)),
			nest(locked(many[i+1], 2), locked(many[i], 1)))
		w.run("")
		wantFaults(t, w.m, fault.LockOrder)
	}
}

// TestLockStates: the rule about interrupts, by how task and handler take the lock;
// it is told once a run.
func TestLockStates(t *testing.T) {
	l := locked(lockA, 1)
	use := func(c *machine.Ctx) { l.Lock(c); l.Unlock(c) }
	off := func(c *machine.Ctx) { l.UnlockIRQRestore(c, l.LockIRQSave(c)) }
	try := func(c *machine.Ctx) {
		if l.TryLock(c) {
			l.Unlock(c)
		}
	}
	for _, k := range []struct {
		name      string
		task, irq func(*machine.Ctx)
		bad       bool
	}{
		{"on, not in interrupts", use, barrier, false},
		{"on and in interrupts", use, use, true},
		{"on and in interrupts with them off", use, off, true},
		{"off and in interrupts", off, use, false},
		{"tried and in interrupts", try, use, true},
		{"on and tried in interrupts", use, try, false},
		{"only in interrupts", barrier, use, false},
	} {
		for order := range 2 {
			t.Run(fmt.Sprint(k.name, order), func(t *testing.T) {
				w := newWorld(t, 1, machine.PreemptNone)
				w.task("a", 0, 1, k.task, k.task)
				w.irq("h", 0, order*5, k.irq)
				w.run("")
				if k.bad {
					wantFaults(t, w.m, fault.LockIRQ)
				} else {
					wantFaults(t, w.m)
				}
				w.m.Reset() // and forgotten with the run
				w.task("a", 0, 0, k.task)
				w.run("")
				wantFaults(t, w.m)
			})
		}
	}
}

// TestLockOrderNested: what a handler takes has no order with what it interrupted.
func TestLockOrderNested(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	low, high := locked(lockB, 1), locked(lockA, 2)
	w.task("a", 0, 0, func(c *machine.Ctx) { low.Lock(c); c.Barrier(); low.Unlock(c) })
	w.irq("h", 0, 1, nest(high))
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.deliver("h"), false})
	wantFaults(t, w.m)
}

// TestInit makes a lock free that a machine, gone since, died with.
func TestInit(t *testing.T) {
	var l machine.SpinLock
	var local machine.LocalLock
	for range 2 {
		w := newWorld(t, 1, machine.PreemptRT)
		l.Init(lockA, 1)
		local.Init(lockB, w.m.CPU(0))
		w.task("a", 0, 0, func(c *machine.Ctx) {
			local.Lock(c)
			l.Lock(c)
			c.Die(fault.WildAddress, "")
		})
		w.run("")
		wantFaults(t, w.m, fault.WildAddress)
	}
}

// TestTryLock: a lock that is held is not taken.
func TestTryLock(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	l := locked(lockA, 1)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		if !l.TryLock(c) || !l.HeldBy(c) || !l.Held() || l.TryLock(c) {
			t.Error("not taken once")
		}
		c.Barrier()
		l.Unlock(c)
	})
	w.task("b", 1, 1, func(c *machine.Ctx) {
		if l.TryLock(c) || l.HeldBy(c) {
			t.Error("taken from its holder")
		}
		l.Unlock(c)
		if !l.Held() {
			t.Error("unlocked by another")
		}
	})
	w.run("", dep{"a", machine.KBarrier, "-", 1, w.to("b"), false})
	wantFaults(t, w.m, fault.StateLeaked) // b's unlock
}

// TestTryLockRace: who holds the lock is asked at the point, not before it.
func TestTryLockRace(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	l := locked(lockA, 1)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		if l.TryLock(c) {
			t.Error("taken")
		}
	})
	w.task("b", 1, 1, func(c *machine.Ctx) { l.Lock(c); c.Barrier(); l.Unlock(c) })
	w.run("", dep{"a", machine.KLock, "test.lock_a", 1, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false})
	wantFaults(t, w.m)
}
