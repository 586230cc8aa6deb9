package machine_test

import (
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// TestExchanges: what another CPU can do between the load and the store of each
// exchange, and that a failed one stores nothing.
func TestExchanges(t *testing.T) {
	type words struct {
		w machine.Word
		d machine.DoubleWord
		p machine.PerCPUDouble
	}
	var x *words
	for _, k := range []struct {
		name string
		swap func(c *machine.Ctx) bool
		lost bool // another CPU's store inside it is lost
	}{
		{"for all", func(c *machine.Ctx) bool { return x.w.Cmpxchg(c, 0, 1) }, false},
		{"local", func(c *machine.Ctx) bool { return x.w.CmpxchgLocal(c, 0, 1) }, true},
		{"double", func(c *machine.Ctx) bool {
			ok := x.d.CmpxchgDoubleLocal(c, [2]uint64{0, 0}, [2]uint64{1, 2})
			if ok && (x.d.A.Peek() != 1 || x.d.B.Peek() != 2) {
				t.Error("not both were stored")
			}
			x.w.Init(word, -1, x.d.A.Peek())
			return ok
		}, true},
		{"double of this CPU", func(c *machine.Ctx) bool {
			ok := x.p.CmpxchgDoubleThisCPU(c, [2]uint64{0, 0}, [2]uint64{1, 2})
			if ok && (x.p[0].A.Peek() != 1 || x.p[0].B.Peek() != 2) || x.p[1].B.Peek() != 0 {
				t.Error("not both were stored, or another CPU's")
			}
			x.w.Init(word, -1, x.p[0].A.Peek())
			return ok
		}, true},
	} {
		t.Run(k.name, func(t *testing.T) {
			for n, wantStored := range []bool{false, false, true} {
				w := newWorld(t, 2, machine.PreemptFull)
				x = &words{}
				x.w.Init(word, -1, 0)
				x.d.A.Init(word, -1, 0)
				x.d.B.Init(word, -1, 0)
				x.p = make(machine.PerCPUDouble, 2)
				for i := range x.p {
					x.p[i].A.Init(word, -1, 0)
					x.p[i].B.Init(word, -1, 0)
				}
				ok, inside := false, false
				w.task("a", 0, 0, func(c *machine.Ctx) { ok = k.swap(c) })
				w.task("b", 1, 1, func(c *machine.Ctx) {
					x.w.Store(c, 10)
					x.d.A.Store(c, 10)
					x.p[0].A.Store(c, 10)
				})
				w.irq("h", 0, 2, barrier)
				point := []machine.Kind{machine.KCmpxchg, machine.KStore, machine.KEnd}[n]
				if point == machine.KStore && !k.lost {
					continue // no point between its load and its store
				}
				ch := chooser(func(c *machine.Ctx, p machine.Point) machine.Action {
					if inside || c != w.tasks["a"] || p.Kind != point {
						return machine.Action{}
					}
					inside = true
					if irq := c.Allowed(p, w.deliver("h")()); irq != (point != machine.KStore) {
						t.Errorf("an interrupt at %s: %v", point, irq)
					}
					return w.to("b")()
				})
				run(t, w.m, ch)
				if ok != (point != machine.KCmpxchg) || !inside {
					t.Errorf("b at %s: exchanged %v", point, ok)
				}
				if lost := x.w.Peek() == 1; lost != (point == machine.KStore) {
					t.Errorf("b at %s: the word is %d (%v)", point, x.w.Peek(), wantStored)
				}
				wantFaults(t, w.m)
			}
		})
	}
}

// chooser makes a Chooser of a function.
type chooser func(c *machine.Ctx, p machine.Point) machine.Action

func (f chooser) Choose(c *machine.Ctx, p machine.Point) machine.Action { return f(c, p) }

// TestExchangeFails: the value is compared in full, and what differs stays.
func TestExchangeFails(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	var x machine.Word
	var d machine.DoubleWord
	x.Init(word, -1, 5)
	d.A.Init(word, -1, 5)
	d.B.Init(word, -1, 6)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		if x.Cmpxchg(c, 4, 1) || x.CmpxchgLocal(c, 4, 1) || x.CmpxchgLocal(c, 5|1<<63, 1) ||
			d.CmpxchgDoubleLocal(c, [2]uint64{5, 5}, [2]uint64{}) ||
			d.CmpxchgDoubleLocal(c, [2]uint64{6, 6}, [2]uint64{}) {
			t.Error("exchanged")
		}
		if x.Peek() != 5 || d.A.Peek() != 5 || d.B.Peek() != 6 {
			t.Error("stored")
		}
		if !x.Cmpxchg(c, 5, 7) || x.Add(c, ^uint64(0)) != 6 || x.Load(c) != 6 {
			t.Error("lost")
		}
		x.WriteOnce(c, 8)
		x.StoreRelease(c, x.ReadOnce(c)+x.LoadAcquire(c))
		if x.Peek() != 16 {
			t.Errorf("word is %d", x.Peek())
		}
	})
	w.run("")
}

// TestThisCPU: the pair that is exchanged is that of the CPU that the step is made on,
// wherever its point began. Old values tell whose they were, and nothing else does.
func TestThisCPU(t *testing.T) {
	for name, k := range map[string]struct {
		old  [2]uint64
		to   int // CPU that the task is moved to at the point
		ok   bool
		want [2]uint64 // first words afterwards
	}{
		"stays":                   {[2]uint64{7, 0}, 0, true, [2]uint64{9, 7}},
		"moved, told by the id":   {[2]uint64{7, 0}, 1, false, [2]uint64{7, 7}},
		"moved, the other's":      {[2]uint64{7, 1}, 1, true, [2]uint64{7, 9}},
		"stays, has the other's":  {[2]uint64{7, 1}, 0, false, [2]uint64{7, 7}},
		"moved, told by the word": {[2]uint64{6, 1}, 1, false, [2]uint64{7, 7}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptFull)
			p := make(machine.PerCPUDouble, 2)
			for i := range p {
				p[i].A.Init(own, i, 7)
				p[i].B.Init(own, i, uint64(i))
			}
			w.free("a", 0, 0, func(c *machine.Ctx) {
				if ok := p.CmpxchgDoubleThisCPU(c, k.old, [2]uint64{9, 5}); ok != k.ok {
					t.Errorf("exchanged %v", ok)
				}
				if c.CPUID() != k.to {
					t.Errorf("on CPU %d", c.CPUID())
				}
			})
			d := dep{"a", machine.KCmpxchg, "test.own", 1, goOn, false}
			if k.to == 1 {
				d.act = move(1)
			}
			w.run("", d)
			wantFaults(t, w.m)
			if got := [2]uint64{p[0].A.Peek(), p[1].A.Peek()}; got != k.want {
				t.Errorf("words %v, want %v", got, k.want)
			}
			if p[k.to].B.Peek() == 5 != k.ok || p[1-k.to].B.Peek() != uint64(1-k.to) {
				t.Errorf("ids %d and %d", p[0].B.Peek(), p[1].B.Peek())
			}
		})
	}
}

// TestForeign: a per-CPU word is written by its CPU; anybody may read it.
func TestForeign(t *testing.T) {
	var x machine.Word
	var d machine.DoubleWord
	for name, write := range map[string]func(*machine.Ctx){
		"store":    func(c *machine.Ctx) { x.Store(c, 1) },
		"exchange": func(c *machine.Ctx) { x.Cmpxchg(c, 0, 1) },
		"local":    func(c *machine.Ctx) { x.CmpxchgLocal(c, 0, 1) },
		"add":      func(c *machine.Ctx) { x.Add(c, 1) },
		"double":   func(c *machine.Ctx) { d.CmpxchgDoubleLocal(c, [2]uint64{}, [2]uint64{1, 1}) },
		"moved":    nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptFull)
			x.Init(own, 0, 0)
			d.A.Init(own, 0, 0)
			d.B.Init(own, 0, 0)
			if name == "moved" { // at the point of the store itself
				w.free("a", 0, 0, func(c *machine.Ctx) { x.Load(c); x.Store(c, 1) })
				w.run("", dep{"a", machine.KStore, "test.own", 1, move(1), false})
				wantFaults(t, w.m, fault.ForeignPerCPU)
				return
			}
			w.task("a", 0, 0, write)
			w.task("b", 1, 1, func(c *machine.Ctx) { x.Load(c); d.A.Load(c) })
			w.run("")
			wantFaults(t, w.m)
			w.m.Reset()
			x.Init(own, 0, 0)
			d.A.Init(own, 0, 0)
			w.task("b", 1, 0, write)
			w.run("")
			wantFaults(t, w.m, fault.ForeignPerCPU)
		})
	}
}

// TestGuards: each guard holds exactly where it says.
func TestGuards(t *testing.T) {
	l, other := locked(lockA, 2), locked(lockB, 1)
	for _, rt := range []bool{false, true} {
		kernel := machine.PreemptFull
		if rt {
			kernel = machine.PreemptRT
		}
		w := newWorld(t, 2, kernel)
		var local, far machine.LocalLock
		local.Init(lockA, w.m.CPU(0))
		far.Init(lockA, w.m.CPU(1))
		guards := []machine.Guard{l.Guard(), machine.IRQsOffOn(w.m.CPU(0)), local.Guard(),
			machine.IRQsOffOn(w.m.CPU(1)), far.Guard(), {}}
		for i, k := range []struct {
			name    string
			on, off func(*machine.Ctx)
			want    [6]bool
		}{
			{"nothing", barrier, barrier, [6]bool{}},
			{"its lock", l.Lock, l.Unlock, [6]bool{0: true}},
			{"another lock", other.Lock, other.Unlock, [6]bool{}},
			{"interrupts off", (*machine.Ctx).IRQDisable, (*machine.Ctx).IRQEnable,
				[6]bool{1: true, 2: !rt}},
			{"the local lock", func(c *machine.Ctx) { local.Lock(c) },
				func(c *machine.Ctx) { local.Unlock(c, true) }, [6]bool{1: !rt, 2: true}},
		} {
			w.m.Reset()
			want := 0
			w.task("a", 0, 0, func(c *machine.Ctx) {
				k.on(c)
				for j := range guards {
					var g machine.GuardedWord
					g.Init(held, guards[j], 7)
					if guards[j].Held(c) != k.want[j] {
						t.Errorf("rt %v, %s: guard %d held %v", rt, k.name, j, guards[j].Held(c))
					}
					before := len(w.m.Faults())
					if g.Load(c) != 7 || g.Add(c, 1) != 8 {
						t.Errorf("value %d", g.Peek())
					}
					g.Store(c, 9)
					expect := 3 // one an access
					if k.want[j] {
						expect = 0
					}
					if found := len(w.m.Faults()) - before; found != expect {
						t.Errorf("rt %v, %s: guard %d: %d faults", rt, k.name, j, found)
					}
					want += expect
				}
				k.off(c)
			})
			steps := w.m.Sim().Steps()
			w.run("")
			if got := w.m.Sim().Steps() - steps; got != 3 {
				t.Errorf("rt %v, %d: %d points: a guarded access is none", rt, i, got)
			}
			wantFaults(t, w.m, repeatTitle(fault.Unguarded, want)...)
		}
	}
}

func repeatTitle(title fault.Title, n int) (ts []fault.Title) {
	for range n {
		ts = append(ts, title)
	}
	return ts
}

// TestMemory: words of memory by address, in every width, and what lies outside.
func TestMemory(t *testing.T) {
	for _, cfg := range []machine.Config{
		{CPUs: 1, Pages: 4, PageSize: 4096, Word: 64, Base: 1 << 32, SeqBits: 32},
		{CPUs: 1, Pages: 4, PageSize: 4096, Word: 64, Base: 1<<64 - 4*4096, SeqBits: 32},
		{CPUs: 1, Pages: 4, PageSize: 4096, Word: 32, Base: 1<<32 - 4*4096, SeqBits: 16},
		{CPUs: 1, Pages: 4, PageSize: 128, Word: 16, Base: 1<<16 - 4*128, SeqBits: 8},
	} {
		m := machine.New(cfg)
		n, end := uint64(m.WordBytes()), cfg.Base+cfg.Bytes()
		top := ^uint64(0) >> (64 - uint(cfg.Word))
		m.AddTask("a", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			for _, a := range []uint64{cfg.Base, cfg.Base + 2*n, end - n} {
				c.StoreMem(link, a, top-1)
				if got := c.LoadMem(link, a); got != top-1 {
					t.Errorf("%d bits: %#x at %#x", cfg.Word, got, a)
				}
				if p, ok := m.Peek(a); !ok || p != top-1 || m.PageOf(a) == nil {
					t.Errorf("%d bits: peek %#x %v", cfg.Word, p, ok)
				}
			}
			if c.LoadMem(link, cfg.Base+n) != 0 {
				t.Errorf("%d bits: a word spills", cfg.Word)
			}
		}))
		run(t, m, nil)
		wantFaults(t, m)
		for _, a := range []uint64{end, end - n + 1, cfg.Base + 1, cfg.Base - n, 0, ^uint64(0)} {
			for i, access := range []func(*machine.Ctx){
				func(c *machine.Ctx) { c.LoadMem(link, a) },
				func(c *machine.Ctx) { c.StoreMem(link, a, 1) },
				func(c *machine.Ctx) { c.LoadMemGuarded(link, machine.IRQsOffOn(c.CPU()), a) },
				func(c *machine.Ctx) { c.StoreMemGuarded(link, machine.IRQsOffOn(c.CPU()), a, 1) },
			} {
				if _, ok := m.Peek(a); ok && a%n == 0 {
					t.Errorf("%d bits: peek at %#x", cfg.Word, a)
				}
				m.Reset()
				m.AddTask("a", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
					c.IRQSave()
					access(c)
					t.Errorf("%d bits: access %d of %#x went on", cfg.Word, i, a)
				}))
				run(t, m, nil)
				wantFaults(t, m, fault.WildAddress)
				if !m.Sim().Aborted() {
					t.Error("the run went on")
				}
			}
		}
		m.Close()
	}
}

// TestMemGuards: guarded memory is no point and is checked.
func TestMemGuards(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	g := machine.IRQsOffOn(w.m.CPU(0))
	w.task("a", 0, 0, func(c *machine.Ctx) {
		a := w.m.Base
		f := c.IRQSave()
		c.StoreMemGuarded(link, g, a, 3)
		if c.LoadMemGuarded(link, g, a) != 3 {
			t.Error("lost")
		}
		c.IRQRestore(f)
		c.StoreMemGuarded(link, g, a, 4)
		c.LoadMemGuarded(link, g, a)
	})
	w.run("")
	wantFaults(t, w.m, fault.Unguarded, fault.Unguarded)
	if w.m.Sim().Steps() != 3 {
		t.Errorf("%d points", w.m.Sim().Steps())
	}
}

// TestBytes: memory as bytes, inside the arena only; Reset clears what was written.
func TestBytes(t *testing.T) {
	for _, native := range []bool{false, true} {
		cfg := config(1, machine.PreemptNone)
		cfg.Native, cfg.PageSize = native, 64
		m := machine.New(cfg)
		end := m.Base + m.Bytes()
		for _, k := range []struct {
			a  uint64
			n  int
			ok bool
		}{
			{m.Base, 1, true}, {end - 1, 1, true}, {m.Base, int(m.Bytes()), true}, {end, 0, true},
			{end, 1, false}, {m.Base - 1, 1, false}, {m.Base - 1, 2, false}, {m.Base, -1, false},
			{m.Base, int(m.Bytes()) + 1, false}, {m.Base + 60, 8, true}, {0, 1, false},
		} {
			view := m.MemView(k.a, k.n)
			b := m.MemBytes(k.a, k.n)
			if (b != nil) != k.ok || (view != nil) != k.ok || len(b) != cap(b) {
				t.Errorf("%d bytes at %#x: %v", k.n, k.a, b != nil)
			}
			for i := range b {
				b[i] = 0xee
			}
			m.Reset()
			for i, v := range m.MemView(m.Base, int(m.Bytes())) {
				if v != 0 {
					t.Fatalf("native %v: byte %d is %#x after Reset", native, i, v)
				}
			}
		}
		m.Close()
	}
}

// TestClasses: a field is used as it was declared.
func TestClasses(t *testing.T) {
	var x machine.Word
	for name, f := range map[string]func(){
		"a guarded word as a plain one": func() { x.Init(held, 0, 0) },
		"a per-CPU word without a CPU":  func() { x.Init(own, -1, 0) },
		"a page word of a CPU": func() {
			machine.PageField(own, machine.RegionBody, machine.ViewSlab, 0)
		},
		"no such page word": func() {
			machine.PageField(link, machine.RegionBody, machine.ViewSlab, 4)
		},
		"racy without a reason": func() { machine.Racy("test", "why", "") },
	} {
		t.Run(name, func(t *testing.T) { wantPanic(t, f) })
	}
	if held.Class.String() != "guarded" || held.Name() != "test.held" ||
		machine.Class(9).String() != "number 9" {
		t.Error("names")
	}
}
