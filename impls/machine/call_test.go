package machine_test

import (
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// TestCallStates: a call reaches a CPU in every state, at once where its interrupts
// are on and as soon as they are where not, and the caller waits for it.
func TestCallStates(t *testing.T) {
	off := func(c *machine.Ctx) {
		f := c.IRQSave()
		c.Barrier()
		c.IRQRestore(f)
	}
	for _, k := range []struct {
		name string
		busy func(w *world, c *machine.Ctx)
		want string
	}{
		{"in the middle of a line", func(w *world, c *machine.Ctx) { c.Barrier(); w.say("b")(c) },
			"call1! b1 done0"},
		{"preemption disabled", func(w *world, c *machine.Ctx) {
			c.PreemptDisable()
			c.Barrier()
			w.say("b")(c)
			c.PreemptEnable()
		}, "call1! b1 done0"},
		{"interrupts off", func(w *world, c *machine.Ctx) {
			f := c.IRQSave()
			c.Barrier()
			w.say("b")(c)
			c.IRQRestore(f)
			w.say("b")(c)
		}, "b1 call1! b1 done0"},
		{"interrupts off twice", func(w *world, c *machine.Ctx) {
			f := c.IRQSave()
			off(c)
			w.say("b")(c)
			c.IRQRestore(f)
		}, "b1 call1! done0"},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptFull)
			w.task("b", 1, 0, func(c *machine.Ctx) { k.busy(w, c) })
			w.task("a", 0, 1, func(c *machine.Ctx) { c.CallOn(1, w.say("call")); w.say("done")(c) })
			w.run(k.want, dep{"b", machine.KBarrier, "-", 1, w.to("a"), false})
			wantFaults(t, w.m)
		})
	}
}

// TestCallIdle: an idle CPU makes the call.
func TestCallIdle(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		c.CallOnAll(w.say("call"))
		w.say("done")(c)
	})
	w.run("call0 call1! done0")
	wantFaults(t, w.m)
}

// TestCallSpinning: a CPU that spins with interrupts on makes calls meanwhile.
func TestCallSpinning(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	var l machine.SpinLock
	l.Init(lockA, 1)
	w.task("holder", 0, 0, func(c *machine.Ctx) { l.Lock(c); c.Barrier(); l.Unlock(c) })
	w.task("spinner", 1, 1, func(c *machine.Ctx) { l.Lock(c); w.say("got")(c); l.Unlock(c) })
	w.task("caller", 2, 2, func(c *machine.Ctx) { c.CallOn(1, w.say("call")); w.say("done")(c) })
	w.run("call1! done2 got1",
		dep{"holder", machine.KBarrier, "-", 1, w.to("spinner"), false},
		dep{"caller", machine.KWait, "cpu.call", 1, w.to("spinner"), false},
		dep{"spinner", machine.KWait, "test.lock_a", 2, w.to("caller"), false})
	wantFaults(t, w.m)
}

// TestCallEachOther: two CPUs that call each other make each other's calls.
func TestCallEachOther(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("a", 0, 0, func(c *machine.Ctx) { c.CallOn(1, w.say("x")); w.say("a")(c) })
	w.task("b", 1, 1, func(c *machine.Ctx) { c.CallOn(0, w.say("y")); w.say("b")(c) })
	w.run("y0! x1! b1 a0",
		dep{"a", machine.KCall, "cpu.call", 1, w.to("b"), false},
		dep{"b", machine.KWait, "cpu.call", 1, w.to("a"), false})
	wantFaults(t, w.m)
}

// TestCallInWindow: a call that arrives inside a local cmpxchg waits for its store.
func TestCallInWindow(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	var x machine.Word
	x.Init(own, 1, 0)
	w.task("b", 1, 0, func(c *machine.Ctx) {
		if !x.CmpxchgLocal(c, 0, 1) {
			t.Error("the exchange failed")
		}
		w.say("b")(c)
	})
	w.task("a", 0, 1, func(c *machine.Ctx) {
		c.CallOn(1, func(c *machine.Ctx) {
			if x.Peek() != 1 {
				t.Error("the call came inside the exchange")
			}
			w.say("call")(c)
		})
	})
	w.run("call1! b1", dep{"b", machine.KStore, "test.own", 1, w.to("a"), false})
	wantFaults(t, w.m)
}

// TestCallStays: a caller is not moved before a call on its own CPU was made, nor
// while it waits for another.
func TestCallStays(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptFull)
	w.free("a", 0, 0, func(c *machine.Ctx) {
		c.CallOn(0, w.say("x"))
		c.CallOn(1, w.say("y"))
	})
	w.task("b", 1, 5, func(c *machine.Ctx) { f := c.IRQSave(); c.Barrier(); c.IRQRestore(f) })
	w.task("s", 0, 6, barrier)
	w.run("x0 y1!",
		dep{"a", machine.KIRQSave, "-", 1, move(1), true},
		dep{"a", machine.KIRQRestore, "-", 1, move(1), true},
		dep{"a", machine.KCall, "cpu.call", 2, w.to("b"), false},
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"a", machine.KWait, "cpu.call", 1, w.to("s"), true})
	wantFaults(t, w.m)
}

// TestCallIsTheCallersLine: the points and page requests of a call count for the
// line that made it, and so do its steps.
func TestCallIsTheCallersLine(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	var x machine.Word
	x.Init(word, -1, 0)
	w.task("a", 0, 4, func(c *machine.Ctx) {
		x.Load(c)
		c.CallOn(1, func(c *machine.Ctx) {
			x.Load(c)
			c.AllocPages(0, false)
			if c.Line().Pos != 4 {
				t.Errorf("a call is at line %d", c.Line().Pos)
			}
		})
		x.Load(c)
		if c.PageRequests() != 1 || c.Refused() != 1 {
			t.Errorf("%d requests, %d refused", c.PageRequests(), c.Refused())
		}
	})
	w.m.Sim().Trace()
	run(t, w.m, nil)
	n := 0
	for _, e := range w.m.Sim().Entries() {
		if e.Kind == machine.KLoad {
			n++
			if e.N != n || e.Where.Line != 4 || e.Where.CPU != (n+1)%2 || e.Depth != (n+1)%2 {
				t.Errorf("load %d: %+v", n, e)
			}
		}
	}
	if n != 3 {
		t.Errorf("%d loads", n)
	}
	w.m.Reset()
	w.task("a", 0, 0, func(c *machine.Ctx) {
		c.CallOn(1, func(c *machine.Ctx) {
			for {
				x.Load(c)
			}
		})
	})
	run(t, w.m, nil)
	wantFaults(t, w.m, fault.NoProgress)
	w.m.Reset() // frames were shared when the run died: they must not be any more
	w.task("a", 0, 0, barrier)
	w.irq("h", 1, 1, barrier)
	w.m.Sim().Trace()
	run(t, w.m, nil)
	for _, e := range w.m.Sim().Entries() {
		if e.N != 1 || e.Where.Line != map[string]int{"a": 0, "h": 1}[e.Where.Task] {
			t.Errorf("after a death in a call: %+v", e)
		}
	}
}

// TestCallInOrder: a call that was left in the middle has its turn by the caller's
// line; a handler nested on it, since it turned interrupts on, is no part of it.
func TestCallInOrder(t *testing.T) {
	w := newWorld(t, 3, machine.PreemptNone)
	var x machine.Word
	x.Init(word, -1, 0)
	w.task("b", 2, 3, then(barrier, w.say("b")))
	w.task("a", 0, 7, func(c *machine.Ctx) {
		x.Load(c)
		c.CallOn(1, func(c *machine.Ctx) {
			c.Barrier()
			c.IRQEnable()
			x.Load(c)
			if c.Line().Pos != 7 || c.Line().Handler != nil {
				t.Errorf("at %+v", c.Line())
			}
			x.Load(c)
			w.say("call")(c)
		})
	})
	w.task("d", 2, 8, w.say("d"))
	w.irq("h", 1, 9, then(func(c *machine.Ctx) { x.Load(c) }, w.say("h")))
	w.run("b2 h1! call1! d2",
		dep{"b", machine.KBarrier, "-", 1, w.to("a"), false},
		dep{"idle", machine.KBarrier, "-", 1, w.to("b"), false},
		dep{"idle", machine.KLoad, "test.word", 2, w.deliver("h"), false},
		dep{"h", machine.KLoad, "test.word", 1, w.deliver("h"), true},
		dep{"idle", machine.KLoad, "test.word", 3, goOn, false})
	wantFaults(t, w.m)
}

// TestCallFaults: calls where they may deadlock are findings, and are made anyway;
// what a call leaves behind is found.
func TestCallFaults(t *testing.T) {
	var l machine.SpinLock
	for _, k := range []struct {
		name string
		body func(*machine.Ctx, func(*machine.Ctx))
		want fault.Title
	}{
		{"interrupts off", func(c *machine.Ctx, f func(*machine.Ctx)) {
			flags := c.IRQSave()
			c.CallOn(1, f)
			c.IRQRestore(flags)
		}, fault.CallIRQOff},
		{"lock held", func(c *machine.Ctx, f func(*machine.Ctx)) {
			l.Lock(c)
			c.CallOn(1, f)
			l.Unlock(c)
		}, fault.CallIRQOff},
		{"from a call", func(c *machine.Ctx, f func(*machine.Ctx)) {
			c.CallOn(1, func(c *machine.Ctx) { c.CallOn(0, f) })
		}, fault.CallIRQOff},
		{"lock left", func(c *machine.Ctx, f func(*machine.Ctx)) {
			c.CallOn(1, func(c *machine.Ctx) { l.Lock(c); f(c) })
		}, fault.StateLeaked},
		{"preemption left", func(c *machine.Ctx, f func(*machine.Ctx)) {
			c.CallOn(1, func(c *machine.Ctx) { c.PreemptDisable(); f(c) })
		}, fault.StateLeaked},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptNone)
			l.Init(lockA, 1)
			made := 0
			w.task("a", 0, 0, func(c *machine.Ctx) {
				k.body(c, func(*machine.Ctx) { made++ })
			})
			run(t, w.m, nil)
			wantFaults(t, w.m, k.want)
			if made != 1 || l.Held() {
				t.Errorf("made %d times, lock held %v", made, l.Held())
			}
		})
	}
}

// TestCallFromHandler: a handler must not call another CPU.
func TestCallFromHandler(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.irq("h", 0, 0, func(c *machine.Ctx) { c.CallOn(0, w.say("x")); c.CallOn(1, w.say("y")) })
	w.run("x0! y1!")
	wantFaults(t, w.m, fault.CallIRQOff)
}
