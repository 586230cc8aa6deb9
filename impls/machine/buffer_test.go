package machine_test

import (
	"slices"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// newBuffered is newWorld of a machine with store buffers.
func newBuffered(t testing.TB, cpus int, p machine.Preempt) *world {
	cfg := config(cpus, p)
	cfg.TSO = true
	w := &world{t: t, m: machine.New(cfg), tasks: map[string]*machine.Ctx{},
		irqs: map[string]*machine.Handler{}}
	t.Cleanup(w.m.Close)
	w.m.SetPageLayer(noPages{})
	return w
}

func hold() machine.Action { return machine.Action{Kind: machine.Hold} }

func drain(cpu int) func() machine.Action {
	return func() machine.Action { return machine.Action{Kind: machine.Drain, CPU: cpu} }
}

var probe = machine.Atomic("test", "probe")

// look is a point at which a script lets somebody else run.
func look(c *machine.Ctx) { c.LoadMem(probe, c.Machine().Base) }

// heldAt holds back the first store of a task to a field; probed acts at its n-th look.
func heldAt(who, field string) dep {
	return dep{who: who, kind: machine.KStore, field: field, n: 1, act: hold}
}

func probed(who string, n int, act func() machine.Action) dep {
	return dep{who: who, kind: machine.KMemLoad, field: "test.probe", n: n, act: act}
}

// TestDrains: what drains a held store before it acts, so that another CPU sees it, and what
// does not.
func TestDrains(t *testing.T) {
	var other, flag machine.Word
	var lock machine.SpinLock
	for _, row := range []struct {
		name    string
		preempt machine.Preempt
		op      func(c *machine.Ctx)
		drains  bool
	}{
		{"nothing", machine.PreemptNone, func(*machine.Ctx) {}, false},
		{"load", machine.PreemptNone, func(c *machine.Ctx) { other.Load(c) }, false},
		{"store", machine.PreemptNone, func(c *machine.Ctx) { other.Store(c, 1) }, false},
		{"interrupts off", machine.PreemptNone, func(c *machine.Ctx) { c.IRQRestore(c.IRQSave()) },
			false},
		{"preemption off", machine.PreemptFull, func(c *machine.Ctx) {
			c.PreemptDisable()
			c.PreemptEnable()
		}, false},
		{"local exchange", machine.PreemptNone, func(c *machine.Ctx) {
			other.CmpxchgLocal(c, 0, 1)
		}, false},
		{"failing trylock", machine.PreemptNone, func(c *machine.Ctx) { lock.TryLock(c) }, false},
		{"reader", machine.PreemptNone, (*machine.Ctx).RCUReadLock, false},
		{"bytes elsewhere", machine.PreemptNone, func(c *machine.Ctx) {
			c.MemRacy(probe, c.Machine().Base, 16)
		}, false},
		{"barrier", machine.PreemptNone, barrier, true},
		{"exchange", machine.PreemptNone, func(c *machine.Ctx) { other.Cmpxchg(c, 0, 1) }, true},
		{"add", machine.PreemptNone, func(c *machine.Ctx) { other.Add(c, 1) }, true},
		{"call", machine.PreemptNone, func(c *machine.Ctx) { c.CallOn(1, func(*machine.Ctx) {}) },
			true},
		{"work elsewhere", machine.PreemptNone, func(c *machine.Ctx) {
			c.RunOn(1, func(*machine.Ctx) {})
		}, true},
		{"end of a reader", machine.PreemptNone, func(c *machine.Ctx) {
			c.RCUReadLock()
			c.RCUReadUnlock()
		}, true},
		{"callback", machine.PreemptNone, func(c *machine.Ctx) { c.CallRCU(func(*machine.Ctx) {}) },
			true},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newBuffered(t, 3, row.preempt)
			flag.Init(word, -1, 0)
			other.Init(link, -1, 0)
			lock.Init(lockA, 1)
			var seen, own uint64
			w.task("keeper", 2, 0, func(c *machine.Ctx) {
				lock.Lock(c)
				look(c)
				lock.Unlock(c)
			})
			w.task("a", 0, 1, func(c *machine.Ctx) {
				flag.Store(c, 1)
				row.op(c)
				look(c)
				own = flag.Load(c)
			})
			w.task("b", 1, 2, func(c *machine.Ctx) { seen = flag.Load(c) })
			s := newScript(t,
				probed("keeper", 1, w.to("a")), heldAt("a", "test.word"), probed("a", 1, w.to("b")))
			if row.name == "call" {
				s.deps[2].act = goOn // b had its turn while a waited
			}
			run(t, w.m, s)
			s.done()
			wantFaults(t, w.m)
			if want := row.drains; seen != b2u(want) || own != 1 || flag.Peek() != 1 {
				t.Errorf("others see %d, the CPU itself %d; want it drained: %v", seen, own, want)
			}
		})
	}
}

func b2u(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// TestLocksDrain: taking a lock drains, and so does giving it up: who takes it next sees what
// was stored while it was held.
func TestLocksDrain(t *testing.T) {
	var flag machine.Word
	var lock machine.SpinLock
	for _, row := range []struct {
		name string
		op   func(c *machine.Ctx)
	}{
		{"lock", func(c *machine.Ctx) {
			flag.Store(c, 1)
			lock.Lock(c)
			look(c)
			lock.Unlock(c)
		}},
		{"trylock", func(c *machine.Ctx) {
			flag.Store(c, 1)
			lock.TryLock(c)
			look(c)
			lock.Unlock(c)
		}},
		{"unlock", func(c *machine.Ctx) {
			lock.Lock(c)
			flag.Store(c, 1)
			lock.Unlock(c)
			look(c)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newBuffered(t, 2, machine.PreemptNone)
			flag.Init(word, -1, 0)
			lock.Init(lockA, 1)
			var seen uint64
			w.task("a", 0, 0, row.op)
			w.task("b", 1, 1, func(c *machine.Ctx) { seen = flag.Load(c) })
			s := newScript(t,
				heldAt("a", "test.word"), probed("a", 1, w.to("b")))
			run(t, w.m, s)
			s.done()
			wantFaults(t, w.m)
			if seen != 1 {
				t.Error("the store is still held")
			}
		})
	}
}

// TestSwitchDrains: a task that loses its CPU, or leaves it, has its stores done, and what it
// finds on the other CPU is done, too.
func TestSwitchDrains(t *testing.T) {
	var flag, there machine.Word
	for _, row := range []struct {
		name string
		act  func(w *world) func() machine.Action
	}{
		{"switch", func(w *world) func() machine.Action { return w.to("same") }},
		{"migration", func(*world) func() machine.Action { return move(1) }},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newBuffered(t, 3, machine.PreemptFull)
			flag.Init(word, -1, 0)
			there.Init(link, -1, 0)
			var seen, both uint64
			w.free("target", 1, 0, func(c *machine.Ctx) {
				there.Store(c, 1)
				look(c)
			})
			w.free("a", 0, 1, func(c *machine.Ctx) {
				flag.Store(c, 1)
				look(c)
				look(c)
			})
			w.free("same", 0, 2, func(c *machine.Ctx) { look(c) })
			w.free("b", 2, 3, func(c *machine.Ctx) { seen, both = flag.Load(c), there.Load(c) })
			s := newScript(t,
				heldAt("target", "test.link"), probed("target", 1, w.to("a")),
				heldAt("a", "test.word"), probed("a", 1, row.act(w)))
			second := probed("a", 2, w.to("b"))
			if row.name == "switch" {
				second = probed("same", 1, w.to("b"))
			}
			s.deps, s.used = append(s.deps, second), append(s.used, false)
			run(t, w.m, s)
			s.done()
			wantFaults(t, w.m)
			if seen != 1 || both != b2u(row.name == "migration") {
				t.Errorf("others see %d, and of the target %d", seen, both)
			}
		})
	}
}

// TestHoldIsOneDeparture: a store that is held is late by itself: its operation ends when others
// had their turn.
func TestHoldIsOneDeparture(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	var x, y machine.Word
	x.Init(word, -1, 0)
	y.Init(word, -1, 0)
	var a, b uint64
	w.task("a", 0, 0, func(c *machine.Ctx) {
		x.Store(c, 1)
		a = y.Load(c)
	}, w.say("a"))
	w.task("b", 1, 1, func(c *machine.Ctx) {
		y.Store(c, 1)
		b = x.Load(c)
	}, w.say("b"))
	w.run("b1 a0", heldAt("a", "test.word"))
	if a != 0 || b != 0 || x.Peek() != 1 {
		t.Errorf("read %d and %d", a, b)
	}
}

// TestInterruptForwards: a handler reads its CPU's held store while others do not, and when it
// returns the store is done.
func TestInterruptForwards(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	var x machine.Word
	x.Init(word, -1, 0)
	var in, out, after uint64
	w.task("a", 0, 0, func(c *machine.Ctx) {
		x.Store(c, 1)
		look(c)
		after = x.Peek()
	})
	w.task("b", 1, 1, func(c *machine.Ctx) { out = x.Load(c) })
	w.irq("irq", 0, 5, func(c *machine.Ctx) {
		in = x.Load(c)
		look(c)
	})
	s := newScript(t,
		dep{who: "a", kind: machine.KStore, field: "test.word", n: 1, act: hold},
		dep{who: "a", kind: machine.KMemLoad, field: "test.probe", n: 1, act: w.deliver("irq")},
		dep{who: "irq", kind: machine.KMemLoad, field: "test.probe", n: 1, act: w.to("b")})
	run(t, w.m, s)
	s.done()
	if in != 1 || out != 0 || after != 1 {
		t.Errorf("the handler read %d and another CPU %d; when it returned memory had %d", in, out,
			after)
	}
}

// TestBufferIsBounded: with one store more than the buffer holds the oldest is done, and a
// drain that is chosen does one.
func TestBufferIsBounded(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	var x [machine.StoresMax + 1]machine.Word
	for i := range x {
		x[i].Init(word, -1, 0)
	}
	var seen []int
	count := func(*machine.Ctx) {
		n := 0
		for n < len(x) && x[n].Peek() == 1 {
			n++
		}
		for i := n; i < len(x); i++ {
			if x[i].Peek() != 0 {
				n = -1
			}
		}
		seen = append(seen, n)
	}
	w.task("a", 0, 0, func(c *machine.Ctx) {
		for i := range x {
			x[i].Store(c, 1)
		}
		count(c)
		look(c)
		count(c)
	})
	s := newScript(t, heldAt("a", "test.word"), probed("a", 1, drain(0)))
	run(t, w.m, s)
	s.done()
	count(nil)
	if want := []int{1, 2, len(x)}; !slices.Equal(seen, want) {
		t.Errorf("done %v of the stores, want %v", seen, want)
	}
}

// TestHoldAllowed: only a plain store can be held, once, with an empty buffer and somebody who
// could notice, and only what is held can be drained.
func TestHoldAllowed(t *testing.T) {
	var x machine.Word
	body := func(c *machine.Ctx) {
		x.Store(c, 1)
		x.Store(c, 2)
		x.Add(c, 1)
		x.Load(c)
		c.MemRacy(link, c.Machine().Base, 8)
	}
	at := func(k machine.Kind, n int, act func() machine.Action, deny bool) dep {
		d := dep{who: "a", kind: k, field: "test.word", n: n, act: act, deny: deny}
		if k == machine.KMemStore {
			d.field = "test.link"
		}
		return d
	}
	for _, row := range []struct {
		name string
		cpus int
		off  bool
		deps []dep
	}{
		{"in order", 2, false, []dep{at(machine.KStore, 1, drain(0), true),
			at(machine.KStore, 1, hold, false), at(machine.KStore, 2, drain(1), true),
			at(machine.KStore, 2, hold, true), at(machine.KStore, 3, hold, true),
			at(machine.KLoad, 1, drain(0), true), at(machine.KLoad, 1, hold, true),
			at(machine.KMemStore, 1, hold, true)}},
		{"twice", 2, false, []dep{at(machine.KStore, 1, hold, false),
			at(machine.KStore, 1, hold, true)}},
		{"again when it is empty", 2, false, []dep{at(machine.KStore, 1, hold, false),
			at(machine.KStore, 2, drain(0), false), at(machine.KStore, 2, hold, false)}},
		{"no such CPU", 2, false, []dep{at(machine.KStore, 1, drain(2), true)}},
		{"alone", 1, false, []dep{at(machine.KStore, 1, hold, true)}},
		{"no buffers", 2, true, []dep{at(machine.KStore, 1, hold, true)}},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := newBuffered(t, row.cpus, machine.PreemptNone)
			if row.off {
				w = newWorld(t, row.cpus, machine.PreemptNone)
			}
			x.Init(word, -1, 0)
			w.task("a", 0, 0, body)
			s := newScript(t, row.deps...)
			run(t, w.m, s)
			s.done()
		})
	}
}

// TestGuardedBehindHeld: a guarded store to a word, and bytes written over it, come after this
// CPU's held store to it, and a guarded load sees that.
func TestGuardedBehindHeld(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	a, b := w.m.Base+64, w.m.Base+72
	p := w.m.PageAt(3)
	p.SetView(machine.RegionBody, machine.ViewSlab, machine.IRQsOffOn(w.m.CPU(0)))
	shut := machine.PageField(held, machine.RegionBody, machine.ViewSlab, 0)
	var got []uint64
	w.task("a", 0, 0, func(c *machine.Ctx) {
		g := machine.IRQsOffOn(c.CPU())
		flags := c.IRQSave()
		c.StoreMem(link, a, 1)
		got = append(got, c.LoadMemGuarded(held, g, a))
		c.StoreMemGuarded(held, g, a, 2)
		c.Barrier()
		got = append(got, c.LoadMemGuarded(held, g, a))
		c.StoreMem(link, a, 3)
		c.Machine().MemBytes(a, 1)[0] = 4
		got = append(got, uint64(c.Machine().MemView(a, 1)[0]))
		c.StoreMem(link, b, 0x0707)
		got = append(got, uint64(c.Machine().MemView(b+1, 1)[0]))
		openA.Store(c, p, 5)
		got = append(got, shut.Load(c, p), openA.LoadStale(c, p))
		shut.Store(c, p, 6)
		c.IRQRestore(flags)
	})
	s := newScript(t, dep{who: "a", kind: machine.KMemStore, field: "test.link", n: 1, act: hold},
		dep{who: "a", kind: machine.KMemStore, field: "test.link", n: 2, act: hold},
		dep{who: "a", kind: machine.KMemStore, field: "test.link", n: 3, act: hold},
		heldAt("a", "test.open_a"))
	run(t, w.m, s)
	s.done()
	wantFaults(t, w.m)
	v, _ := w.m.Peek(a)
	if got = append(got, v, shut.Peek(p)); !slices.Equal(got, []uint64{1, 2, 4, 7, 5, 5, 4, 6}) {
		t.Errorf("read %v", got)
	}
}

// TestHeldStoreIsChecked: guard, owner and address are looked at where the store is, and a run
// that dies leaves nothing for the next one.
func TestHeldStoreIsChecked(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	var mine, x machine.Word
	mine.Init(own, 1, 0)
	x.Init(word, -1, 0)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		mine.Store(c, 1)
		x.Store(c, 1)
		c.StoreMem(link, 8, 1)
	})
	run(t, w.m, newScript(t, heldAt("a", "test.own")))
	wantFaults(t, w.m, fault.ForeignPerCPU, fault.WildAddress)
	if x.Peek() != 0 {
		t.Fatal("the store was not held")
	}
	w.m.Reset()
	w.task("b", 0, 0, func(c *machine.Ctx) { c.Barrier() })
	run(t, w.m, nil)
	if x.Peek() != 0 {
		t.Error("a store of the run before was done")
	}
}

// TestBufferTrace: the trace hash tells a store that was held from one that was not, and where
// it was drained; without a departure a machine has the same trace with buffers and without.
func TestBufferTrace(t *testing.T) {
	hash := func(tso bool, deps ...dep) uint64 {
		cfg := config(2, machine.PreemptNone)
		cfg.TSO = tso
		m := machine.New(cfg)
		defer m.Close()
		var x machine.Word
		x.Init(word, -1, 0)
		m.AddTask("a", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			x.Store(c, 1)
			x.Load(c)
			x.Load(c)
		}))
		s := newScript(t, deps...)
		run(t, m, s)
		s.done()
		return m.Sim().Hash()
	}
	late := heldAt("a", "test.word")
	at := func(n int) dep {
		return dep{who: "a", kind: machine.KLoad, field: "test.word", n: n, act: drain(0)}
	}
	plain, again := hash(true), hash(true)
	list := []uint64{plain, hash(true, late), hash(true, late, at(1)), hash(true, late, at(2))}
	if plain != again || plain != hash(false) {
		t.Error("the trace without departures depends on more than the program")
	}
	slices.Sort(list)
	if len(slices.Compact(list)) != 4 {
		t.Errorf("different runs have one hash: %x", list)
	}
}

// TestForwarding: a CPU reads the newest of its stores, in exchanges as well.
func TestForwarding(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	var x machine.Word
	var d machine.DoubleWord
	for _, p := range []*machine.Word{&x, &d.A, &d.B} {
		p.Init(word, -1, 0)
	}
	var got []uint64
	w.task("a", 0, 0, func(c *machine.Ctx) {
		x.Store(c, 1)
		x.Store(c, 2)
		got = append(got, x.Load(c), b2u(x.CmpxchgLocal(c, 1, 5)), b2u(x.CmpxchgLocal(c, 2, 3)),
			x.Load(c), x.Peek())
		d.B.Store(c, 1)
		got = append(got, b2u(d.CmpxchgDoubleLocal(c, [2]uint64{}, [2]uint64{4, 4})),
			b2u(d.CmpxchgDoubleLocal(c, [2]uint64{0, 1}, [2]uint64{6, 7})), d.A.Peek())
	})
	s := newScript(t, heldAt("a", "test.word"))
	run(t, w.m, s)
	s.done()
	got = append(got, d.A.Peek(), d.B.Peek())
	if want := []uint64{2, 0, 1, 3, 0, 0, 1, 0, 6, 7}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// A late is a run on a machine of three CPUs in which x is stored and held somewhere, and b
// reads it.
type late struct {
	*world
	x    machine.Word
	seen uint64
}

func newLate(t *testing.T, p machine.Preempt) *late {
	l := &late{world: newBuffered(t, 3, p)}
	l.x.Init(word, -1, 0)
	l.task("b", 2, 3, func(c *machine.Ctx) { l.seen = l.x.Load(c) })
	return l
}

func (l *late) store(c *machine.Ctx) { l.x.Store(c, 1) }

// drained demands that b finds the store done.
func (l *late) drained(deps ...dep) {
	l.t.Helper()
	s := newScript(l.t, deps...)
	run(l.t, l.m, s)
	s.done()
	wantFaults(l.t.(*testing.T), l.m)
	if l.seen != 1 {
		l.t.Error("the store is still held")
	}
}

// TestCallsDrain: a call finds what its CPU stored before done, and who made it what the call
// stored.
func TestCallsDrain(t *testing.T) {
	t.Run("before", func(t *testing.T) {
		l := newLate(t, machine.PreemptNone)
		l.task("t", 1, 0, then(l.store, look))
		l.task("a", 0, 1, func(c *machine.Ctx) { c.CallOn(1, look) })
		l.drained(heldAt("t", "test.word"), probed("t", 1, l.to("a")),
			probed("t", 1, l.to("b")))
	})
	t.Run("after", func(t *testing.T) {
		l := newLate(t, machine.PreemptNone)
		l.task("a", 0, 1, func(c *machine.Ctx) {
			c.CallOn(1, l.store)
			look(c)
		})
		l.drained(heldAt("idle", "test.word"), dep{who: "a", kind: machine.KWait,
			field: "cpu.call", n: 1, act: goOn}, probed("a", 1, goOn))
	})
	t.Run("callback", func(t *testing.T) {
		l := newLate(t, machine.PreemptNone)
		l.task("r", 1, 0, func(c *machine.Ctx) {
			c.RCUReadLock()
			look(c)
			c.RCUReadUnlock()
			look(c)
		})
		l.task("a", 0, 1, func(c *machine.Ctx) { c.CallRCU(l.store) })
		l.drained(probed("r", 1, l.to("a")), dep{who: "a", kind: machine.KEnd, field: "-", n: 1,
			act: l.to("r")}, heldAt("r", "test.word"), probed("r", 2, l.to("b")))
	})
}

// TestEndsDrain: what ends without the end of a line has its stores done as well.
func TestEndsDrain(t *testing.T) {
	t.Run("handler", func(t *testing.T) {
		l := newLate(t, machine.PreemptNone)
		h := &machine.Handler{CPU: 0, Name: "irq", Pos: 80, Body: l.store}
		l.irqs["irq"] = h
		l.m.AddHandler(h)
		l.task("a", 0, 0, then(look, look))
		l.drained(probed("a", 1, l.deliver("irq")), heldAt("irq", "test.word"),
			probed("a", 2, l.to("b")))
	})
	t.Run("task", func(t *testing.T) {
		l := newLate(t, machine.PreemptNone)
		l.m.AddTask("a", 0, 0, true, l.store)
		l.drained(heldAt("a", "test.word"))
	})
}

// TestRealTimeDrains: where handlers are tasks and locks sleep, both switch tasks.
func TestRealTimeDrains(t *testing.T) {
	var lock machine.LocalLock
	make := func(t *testing.T) *late {
		l := newLate(t, machine.PreemptRT)
		lock.Init(lockA, l.m.CPU(0))
		return l
	}
	t.Run("lock", func(t *testing.T) {
		l := make(t)
		l.task("a", 0, 0, func(c *machine.Ctx) {
			l.store(c)
			flags := lock.Lock(c)
			look(c)
			lock.Unlock(c, flags)
		})
		l.drained(heldAt("a", "test.word"), probed("a", 1, l.to("b")))
	})
	t.Run("unlock", func(t *testing.T) {
		l := make(t)
		l.task("a", 0, 0, func(c *machine.Ctx) {
			flags := lock.Lock(c)
			l.store(c)
			lock.Unlock(c, flags)
			look(c)
		})
		l.drained(heldAt("a", "test.word"), probed("a", 1, l.to("b")))
	})
	t.Run("handler wakes", func(t *testing.T) {
		l := make(t)
		l.irq("irq", 0, 80, look)
		l.task("a", 0, 0, then(l.store, look))
		l.drained(heldAt("a", "test.word"), probed("a", 1, l.deliver("irq")),
			probed("irq", 1, l.to("b")))
	})
	t.Run("handler takes over", func(t *testing.T) {
		l := make(t)
		l.irq("irq", 0, 80, func(c *machine.Ctx) {
			flags := lock.Lock(c)
			look(c)
			lock.Unlock(c, flags)
		})
		l.task("a", 0, 0, func(c *machine.Ctx) {
			flags := lock.Lock(c)
			look(c)
			off := c.IRQSave()
			lock.Unlock(c, flags)
			l.store(c)
			c.IRQRestore(off)
		})
		l.drained(probed("a", 1, l.deliver("irq")), heldAt("a", "test.word"),
			probed("irq", 1, l.to("b")))
	})
	t.Run("work takes over", func(t *testing.T) {
		l := make(t)
		l.irq("irq", 0, 80, func(c *machine.Ctx) { c.RunOn(1, look) })
		l.task("t", 1, 0, then(l.store, look))
		l.task("a", 0, 1, look)
		l.drained(heldAt("t", "test.word"), probed("t", 1, l.to("a")),
			probed("a", 1, l.deliver("irq")), probed("irq", 1, l.to("b")))
	})
}

// TestHoldKeepsHandlersInPlace: a handler does not come early because its CPU's task waits for
// its buffer.
func TestHoldKeepsHandlersInPlace(t *testing.T) {
	l := newLate(t, machine.PreemptNone)
	l.task("a", 0, 0, l.store, l.say("a"))
	l.irq("irq", 0, 2, l.say("i"))
	l.run("a0 i0!", heldAt("a", "test.word"))
}

// TestHoldElsewhere: that a store can be held says nothing about the points of a handler in
// front of it, or of the next line that a chooser is asked about.
func TestHoldElsewhere(t *testing.T) {
	l := newLate(t, machine.PreemptNone)
	l.irq("irq", 0, 80, look)
	l.task("a", 0, 0, l.store, look)
	refused := probed("irq", 1, hold)
	refused.deny = true
	s := newScript(t, dep{who: "a", kind: machine.KStore, field: "test.word", n: 1,
		act: l.deliver("irq")}, refused)
	run(t, l.m, s)
	s.done()

	l = newLate(t, machine.PreemptNone)
	l.task("a", 0, 0, l.store, look)
	refused = probed("a", 1, hold)
	refused.deny = true
	s = newScript(t, refused)
	run(t, l.m, secondLine{s})
	s.done()
}

// secondLine is a script that is not asked on the first line.
type secondLine struct{ *script }

// Wants says so.
func (secondLine) Wants(c *machine.Ctx) bool { return c.Line().Pos > 0 }
