package machine_test

import (
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

func TestLineOrder(t *testing.T) {
	m := machine.New(config(2, machine.PreemptNone))
	defer m.Close()
	var got []int
	say := func(i int) func(*machine.Ctx) { return func(*machine.Ctx) { got = append(got, i) } }
	m.AddTask("cpu0", 0, 0, true, lines(0, 2, say(0), say(2), say(4)))
	m.AddTask("cpu1", 1, 1, true, lines(1, 2, say(1), say(3), say(5)))
	m.AddTask("t", 1, 6, false, lines(6, 1, say(6)))
	run(t, m, nil)
	for i, g := range got {
		if g != i {
			t.Fatalf("order %v", got)
		}
	}
	if len(got) != 7 {
		t.Fatalf("order %v", got)
	}
}

func TestHandlerAtItsPlace(t *testing.T) {
	m := machine.New(config(2, machine.PreemptNone))
	defer m.Close()
	var got []string
	say := func(s string) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			if c.InInterrupt() {
				s += "!"
			}
			got = append(got, s)
		}
	}
	m.AddTask("cpu0", 0, 0, true, lines(0, 3, say("a"), say("d")))
	m.AddHandler(&machine.Handler{CPU: 0, Name: "irq0", Pos: 1, Body: lines(1, 1, say("b"))})
	m.AddHandler(&machine.Handler{CPU: 1, Name: "irq1", Pos: 2, Body: lines(2, 1, say("c"))})
	m.AddHandler(&machine.Handler{CPU: 1, Name: "irq1.late", Pos: 9, Body: lines(9, 1, say("e"))})
	run(t, m, nil)
	want := "a b! c! d e!"
	s := ""
	for i, g := range got {
		if i > 0 {
			s += " "
		}
		s += g
	}
	if s != want {
		t.Fatalf("order %q, want %q", s, want)
	}
}

func TestBarrier(t *testing.T) {
	m := machine.New(config(2, machine.PreemptNone))
	defer m.Close()
	var got []int
	say := func(i int) func(*machine.Ctx) { return func(*machine.Ctx) { got = append(got, i) } }
	m.AddTask("cpu0", 0, 0, true, lines(0, 4, say(0), say(4)))
	m.AddTask("cpu1", 1, 1, true, lines(1, 4, say(1), say(5)))
	m.AddHandler(&machine.Handler{CPU: 0, Name: "irq0", Pos: 2, Body: lines(2, 1, say(2))})
	m.SetBarriers([]int{3}, func(int) { got = append(got, 3) })
	run(t, m, nil)
	for i, g := range got {
		if g != i || len(got) != 6 {
			t.Fatalf("order %v", got)
		}
	}
}

// TestLocalCmpxchg shows both halves of a local cmpxchg: another CPU may run
// inside it, an interrupt of its own CPU may not.
func TestLocalCmpxchg(t *testing.T) {
	for n := 1; n <= 8; n++ {
		m := machine.New(config(2, machine.PreemptNone))
		var w machine.Word
		w.Init(word, -1, 0)
		lost := false
		m.AddTask("cpu0", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			for !w.CmpxchgLocal(c, w.Load(c), w.Peek()+1) {
			}
		}))
		t1 := m.AddTask("cpu1", 1, 1, true, lines(1, 1, func(c *machine.Ctx) { w.Store(c, 10) }))
		ch := &at{n: n, act: machine.Action{Kind: machine.SwitchTo, Task: t1}}
		run(t, m, ch)
		lost = w.Peek() == 1
		m.Close()
		if lost != (n == 3) {
			t.Errorf("switch at point %d: word is %d", n, w.Peek())
		}
	}
	for n := 1; n <= 8; n++ {
		m := machine.New(config(2, machine.PreemptNone))
		var w machine.Word
		w.Init(word, -1, 0)
		m.AddTask("cpu0", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			for {
				old := w.Load(c)
				if w.CmpxchgLocal(c, old, old+1) {
					break
				}
			}
		}))
		h := &machine.Handler{CPU: 0, Name: "irq0", Pos: 1,
			Body: lines(1, 1, func(c *machine.Ctx) { w.Add(c, 10) })}
		m.AddHandler(h)
		run(t, m, &at{n: n, act: machine.Action{Kind: machine.Interrupt, Handler: h}})
		if w.Peek() != 11 {
			t.Errorf("interrupt at point %d: word is %d, want 11", n, w.Peek())
		}
		m.Close()
	}
}

func TestStepFaults(t *testing.T) {
	var a, b machine.SpinLock
	var g machine.GuardedWord
	var w machine.Word
	cases := []struct {
		name string
		task func(c *machine.Ctx)
		want []fault.Title
	}{
		{"clean", func(c *machine.Ctx) {
			f := a.LockIRQSave(c)
			g.Store(c, 1)
			b.Lock(c)
			b.Unlock(c)
			a.UnlockIRQRestore(c, f)
		}, nil},
		{"guard", func(c *machine.Ctx) { g.Load(c) }, []fault.Title{fault.Unguarded}},
		{"foreign", func(c *machine.Ctx) { w.Store(c, 1) }, []fault.Title{fault.ForeignPerCPU}},
		{"rank", func(c *machine.Ctx) {
			b.Lock(c)
			a.Lock(c)
			a.Unlock(c)
			b.Unlock(c)
		}, []fault.Title{fault.LockOrder}},
		{"self", func(c *machine.Ctx) { a.Lock(c); a.Lock(c) }, []fault.Title{fault.Deadlock}},
		{"irq left off", func(c *machine.Ctx) { c.IRQSave() }, []fault.Title{fault.StateLeaked}},
		{"lock left", func(c *machine.Ctx) { a.Lock(c) }, []fault.Title{fault.StateLeaked}},
		{"preemption left", func(c *machine.Ctx) { c.PreemptDisable() },
			[]fault.Title{fault.StateLeaked}},
		{"wild", func(c *machine.Ctx) { c.LoadMem(link, 1<<40) }, []fault.Title{fault.WildAddress}},
		{"unaligned", func(c *machine.Ctx) { c.LoadMem(link, c.Machine().Base+3) },
			[]fault.Title{fault.WildAddress}},
		{"endless", func(c *machine.Ctx) {
			for {
				c.Barrier()
			}
		}, []fault.Title{fault.NoProgress}},
		{"sleeping", func(c *machine.Ctx) {
			f := c.IRQSave()
			c.AllocPages(0, true)
			c.IRQRestore(f)
		}, []fault.Title{fault.Sleeping}},
		{"call", func(c *machine.Ctx) {
			f := c.IRQSave()
			c.CallOn(1, func(*machine.Ctx) {})
			c.IRQRestore(f)
		}, []fault.Title{fault.CallIRQOff}},
	}
	for _, k := range cases {
		t.Run(k.name, func(t *testing.T) {
			m := machine.New(config(2, machine.PreemptNone))
			defer m.Close()
			m.SetPageLayer(noPages{})
			a, b = machine.SpinLock{}, machine.SpinLock{}
			a.Init(lockA, 20)
			b.Init(lockB, 10)
			g.Init(held, a.Guard(), 0)
			w.Init(own, 1, 0)
			m.AddTask("cpu0", 0, 0, true, lines(0, 1, k.task))
			run(t, m, nil)
			wantFaults(t, m, k.want...)
		})
	}
}

// TestLockIRQ: a lock taken in a handler and with interrupts on is reported
// without the deadlock having happened, and taken with them off is not.
func TestLockIRQ(t *testing.T) {
	for _, off := range []bool{false, true} {
		m := machine.New(config(1, machine.PreemptNone))
		var a machine.SpinLock
		a.Init(lockA, 1)
		m.AddTask("cpu0", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			f := machine.Flags(false)
			if off {
				f = c.IRQSave()
			}
			a.Lock(c)
			a.Unlock(c)
			if off {
				c.IRQRestore(f)
			}
		}))
		m.AddHandler(&machine.Handler{CPU: 0, Name: "irq0", Pos: 1,
			Body: lines(1, 1, func(c *machine.Ctx) { a.Lock(c); a.Unlock(c) })})
		run(t, m, nil)
		if off {
			wantFaults(t, m)
		} else {
			wantFaults(t, m, fault.LockIRQ)
		}
		m.Close()
	}
}

func TestDeadlock(t *testing.T) {
	m := machine.New(config(2, machine.PreemptNone))
	defer m.Close()
	var a, b machine.SpinLock
	a.Init(lockA, 1)
	b.Init(lockB, 1)
	t0 := func(c *machine.Ctx) { a.Lock(c); b.Lock(c); b.Unlock(c); a.Unlock(c) }
	t1 := func(c *machine.Ctx) { b.Lock(c); a.Lock(c); a.Unlock(c); b.Unlock(c) }
	m.AddTask("cpu0", 0, 0, true, lines(0, 1, t0))
	other := m.AddTask("cpu1", 1, 1, true, lines(1, 1, t1))
	run(t, m, &at{n: 2, act: machine.Action{Kind: machine.SwitchTo, Task: other}})
	got := titles(m)
	if len(got) == 0 || got[len(got)-1] != fault.Deadlock {
		t.Fatalf("faults %v", m.Faults())
	}
}

// TestSpin: a CPU that finds the lock taken waits until it is free.
func TestSpin(t *testing.T) {
	for n := 1; n <= 12; n++ {
		m := machine.New(config(2, machine.PreemptNone))
		var a machine.SpinLock
		a.Init(lockA, 1)
		var g machine.GuardedWord
		g.Init(held, a.Guard(), 0)
		body := func(c *machine.Ctx) {
			f := a.LockIRQSave(c)
			v := g.Load(c)
			c.Barrier()
			g.Store(c, v+1)
			a.UnlockIRQRestore(c, f)
		}
		m.AddTask("cpu0", 0, 0, true, lines(0, 1, body))
		other := m.AddTask("cpu1", 1, 1, true, lines(1, 1, body))
		run(t, m, &at{n: n, act: machine.Action{Kind: machine.SwitchTo, Task: other}})
		wantFaults(t, m)
		if g.Peek() != 2 {
			t.Errorf("switch at %d: %d, want 2", n, g.Peek())
		}
		m.Close()
	}
}

// TestCall: a call runs on its CPU with interrupts off, whatever that CPU does.
func TestCall(t *testing.T) {
	for n := 1; n <= 12; n++ {
		m := machine.New(config(2, machine.PreemptNone))
		var w machine.Word
		w.Init(own, 1, 0)
		m.AddTask("cpu0", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			c.CallOn(1, func(c *machine.Ctx) {
				if c.CPUID() != 1 || !c.IRQsOff() {
					t.Errorf("call on CPU %d, interrupts off %v", c.CPUID(), c.IRQsOff())
				}
				w.Add(c, 1)
			})
			if w.Peek() == 0 {
				t.Error("the caller did not wait")
			}
		}))
		other := m.AddTask("cpu1", 1, 1, true, lines(1, 1, func(c *machine.Ctx) {
			f := c.IRQSave()
			v := w.Load(c)
			w.Store(c, v+10)
			c.IRQRestore(f)
		}))
		run(t, m, &at{n: n, act: machine.Action{Kind: machine.SwitchTo, Task: other}})
		wantFaults(t, m)
		if w.Peek() != 11 {
			t.Errorf("switch at %d: %d, want 11", n, w.Peek())
		}
		m.Close()
	}
}

// TestReuse: a machine that was used and reset gives the trace of a new one.
func TestReuse(t *testing.T) {
	m := machine.New(config(2, machine.PreemptFull))
	defer m.Close()
	var hashes []uint64
	for range 3 {
		var w machine.Word
		w.Init(word, -1, 0)
		m.AddTask("cpu0", 0, 0, true, lines(0, 2, func(c *machine.Ctx) { w.Add(c, 1) }))
		m.AddTask("cpu1", 1, 1, true, lines(1, 2, func(c *machine.Ctx) { w.Add(c, 2) }))
		run(t, m, nil)
		hashes = append(hashes, m.Sim().Hash())
		m.Reset()
	}
	if hashes[0] != hashes[1] || hashes[1] != hashes[2] {
		t.Fatalf("hashes %x", hashes)
	}
}
