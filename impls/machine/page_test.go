package machine_test

import (
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// Words of the test's descriptors: two views share their words.
var (
	slabWord = machine.PageField(machine.Atomic("page", "inuse"), machine.RegionBody,
		machine.ViewSlab, 1)
	cacheWord = machine.PageField(machine.Atomic("page", "mapping"), machine.RegionBody,
		machine.ViewPageCache, 1)
	racyWord = machine.PageField(machine.Racy("page", "hint", "may be out of date"),
		machine.RegionLinks, machine.ViewPartial, 0)
	bodyWord = machine.PageField(machine.Guarded("page", "body"), machine.RegionBody,
		machine.ViewSlab, 2)
	linkWord = machine.PageField(machine.Guarded("page", "link"), machine.RegionLinks,
		machine.ViewList, 2)
)

// bump is a page layer that hands out every page once.
type bump struct{ next, frees int }

func (b *bump) Alloc(c *machine.Ctx, order int) *machine.Page {
	if b.next+1<<order > c.Machine().Pages {
		return nil
	}
	p := c.Machine().PageAt(b.next)
	b.next += 1 << order
	p.SetBlock(order)
	return p
}
func (b *bump) Free(*machine.Ctx, *machine.Page, int) { b.frees++ }
func (b *bump) Drain(*machine.Ctx)                    {}
func (b *bump) FreePages() int                        { return 0 }

// TestBlocks: a block is described by its first page, by every address in it.
func TestBlocks(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	m := w.m
	p := m.PageAt(4)
	p.SetBlock(2)
	size := uint64(m.PageSize)
	for i := range uint64(16) {
		a := m.Base + i*size
		want := m.PageAt(int(i))
		if i >= 4 && i < 8 {
			want = p
		}
		if m.PageOf(a) != want || m.PageOf(a+size-1) != want {
			t.Errorf("page %d is described by page %d", i, m.PageOf(a).PFN())
		}
	}
	if p.Order() != 2 || p.Bytes() != 4*size || p.Addr() != m.Base+4*size || p.PFN() != 4 {
		t.Errorf("order %d, %d bytes at %#x", p.Order(), p.Bytes(), p.Addr())
	}
	if m.PageOf(m.Base-1) != nil || m.PageOf(m.Base+m.Bytes()) != nil {
		t.Error("a page outside the arena")
	}
	m.PageAt(4).SetBlock(0)
	m.PageAt(5).SetBlock(0)
	if m.PageOf(m.Base+5*size) != m.PageAt(5) {
		t.Error("a split block keeps its head")
	}
	for _, bad := range []struct{ pfn, order int }{{12, 3}, {15, 1}, {0, 5}, {0, -1}, {0, 63}} {
		wantPanic(t, func() { m.PageAt(bad.pfn).SetBlock(bad.order) })
	}
	m.PageAt(8).SetBlock(3)
	m.Reset()
	if m.PageOf(m.Base+9*size) != m.PageAt(9) || p.Order() != 0 || m.PageAt(8).Order() != 0 {
		t.Error("a block is left after Reset")
	}
}

// TestViews: words are shared by views, and a word of a view that is not current is
// found at the step itself, unless the reader says that it may be stale.
func TestViews(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	p := w.m.PageAt(1)
	stale := []fault.Title{fault.StaleView}
	for _, k := range []struct {
		name string
		body func(*machine.Ctx)
		want []fault.Title
	}{
		{"current", func(c *machine.Ctx) { slabWord.Store(c, p, 5); slabWord.Load(c, p) }, nil},
		{"load", func(c *machine.Ctx) {
			slabWord.Store(c, p, 5)
			p.SetView(machine.RegionBody, machine.ViewPageCache, machine.Guard{})
			if cacheWord.Load(c, p) != 5 {
				t.Error("a union lost its bits")
			}
			slabWord.Load(c, p)
		}, stale},
		{"store", func(c *machine.Ctx) { cacheWord.Store(c, p, 1) }, stale},
		{"exchange", func(c *machine.Ctx) { cacheWord.Cmpxchg(c, p, 0, 1) }, stale},
		{"stale load", func(c *machine.Ctx) {
			slabWord.Store(c, p, 5)
			p.SetView(machine.RegionBody, machine.ViewPageCache, machine.Guard{})
			p.Scribble(70)
			if v := slabWord.LoadStale(c, p); v != 75 {
				t.Errorf("garbage %d, want what the page's owner wrote", v)
			}
		}, nil},
		{"another region", func(c *machine.Ctx) {
			p.SetView(machine.RegionLinks, machine.ViewPartial, machine.Guard{})
			racyWord.Load(c, p)
			slabWord.Load(c, p)
		}, nil},
		{"another page", func(c *machine.Ctx) { slabWord.Load(c, w.m.PageAt(2)) }, stale},
	} {
		t.Run(k.name, func(t *testing.T) {
			w.m.Reset()
			p.SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
			if p.CurrentView(machine.RegionBody) != machine.ViewSlab ||
				p.CurrentView(machine.RegionLinks) != machine.ViewNone {
				t.Error("views")
			}
			w.task("a", 0, 0, k.body)
			w.run("")
			wantFaults(t, w.m, k.want...)
		})
	}
}

// TestViewAtThePoint: the view is asked for after what happens at the point.
func TestViewAtThePoint(t *testing.T) {
	for _, k := range []struct {
		kind machine.Kind
		body func(*machine.Ctx, *machine.Page)
	}{
		{machine.KLoad, func(c *machine.Ctx, p *machine.Page) { slabWord.Load(c, p) }},
		{machine.KStore, func(c *machine.Ctx, p *machine.Page) { slabWord.Store(c, p, 1) }},
		{machine.KCmpxchg, func(c *machine.Ctx, p *machine.Page) { slabWord.Cmpxchg(c, p, 0, 1) }},
	} {
		w := newWorld(t, 2, machine.PreemptNone)
		p := w.m.PageAt(0)
		p.SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
		w.task("a", 0, 0, func(c *machine.Ctx) { k.body(c, p) })
		w.task("b", 1, 1, func(*machine.Ctx) {
			p.SetView(machine.RegionBody, machine.ViewPageCache, machine.Guard{})
		})
		w.run("", dep{"a", k.kind, "page.inuse", 1, w.to("b"), false})
		wantFaults(t, w.m, fault.StaleView)
	}
}

// TestPageGuards: guarded words of a descriptor, by the page's own lock, a list's
// lock, interrupts off, and a local lock.
func TestPageGuards(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	list := locked(lockA, machine.RankSlabLock+1)
	var local machine.LocalLock
	local.Init(lockB, w.m.CPU(0))
	p := w.m.PageAt(3)
	off := func(c *machine.Ctx) { c.IRQDisable() }
	on := func(c *machine.Ctx) { c.IRQEnable() }
	for _, k := range []struct {
		name    string
		g       machine.Guard
		on, off func(*machine.Ctx)
	}{
		{"page", p.Lock.Guard(), p.Lock.Lock, p.Lock.Unlock},
		{"list", list.Guard(), list.Lock, list.Unlock},
		{"interrupts", machine.IRQsOffOn(w.m.CPU(0)), off, on},
		{"local", local.Guard(), off, on},
	} {
		t.Run(k.name, func(t *testing.T) {
			w.m.Reset()
			p.SetView(machine.RegionBody, machine.ViewSlab, k.g)
			p.SetView(machine.RegionLinks, machine.ViewList, list.Guard())
			w.task("a", 0, 0, func(c *machine.Ctx) {
				k.on(c)
				steps := w.m.Sim().Steps()
				bodyWord.Store(c, p, 1)
				if !bodyWord.Cmpxchg(c, p, 1, 2) || bodyWord.Cmpxchg(c, p, 1, 3) ||
					bodyWord.Load(c, p) != 2 || bodyWord.Peek(p) != 2 {
					t.Error("value")
				}
				if w.m.Sim().Steps() != steps {
					t.Error("a guarded access is a point")
				}
				k.off(c)
			})
			w.run("")
			wantFaults(t, w.m)
			w.m.Reset()
			p.SetView(machine.RegionBody, machine.ViewSlab, k.g)
			w.task("a", 0, 0, func(c *machine.Ctx) {
				bodyWord.Load(c, p)
				bodyWord.Store(c, p, 1)
				bodyWord.Cmpxchg(c, p, 1, 1)
			})
			w.run("")
			wantFaults(t, w.m, fault.Unguarded, fault.Unguarded, fault.Unguarded)
		})
	}
	w.m.Reset()
	p.SetView(machine.RegionLinks, machine.ViewList, list.Guard())
	w.task("a", 0, 0, func(c *machine.Ctx) { // the guard of the other region is not enough
		p.Lock.Lock(c)
		linkWord.Load(c, p)
		p.Lock.Unlock(c)
	})
	w.run("")
	wantFaults(t, w.m, fault.Unguarded)
}

// TestPageLockOrder: slab locks are below list locks and do not nest.
func TestPageLockOrder(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	list := locked(lockA, machine.RankSlabLock+1)
	p, q := w.m.PageAt(0), w.m.PageAt(1)
	w.task("a", 0, 0, nest(list, &p.Lock))
	w.run("")
	wantFaults(t, w.m)
	for _, line := range []func(*machine.Ctx){nest(&p.Lock, list), nest(&p.Lock, &q.Lock)} {
		w.m.Reset()
		w.task("a", 0, 0, line)
		w.run("")
		wantFaults(t, w.m, fault.LockOrder)
	}
}

// TestFailPage: the nth page request of an operation fails, by its line or by the
// chooser, and only that one.
func TestFailPage(t *testing.T) {
	ask := func(got *[]bool, fail int) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			if fail >= 0 {
				c.FailPage(fail)
			}
			*got = nil
			for range 4 {
				*got = append(*got, c.AllocPages(0, true) != nil)
			}
			refused := 0
			for _, ok := range *got {
				if !ok {
					refused++
				}
			}
			if c.PageRequests() != 4 || c.Refused() != refused {
				t.Errorf("%d requests, %d refused of %v", c.PageRequests(), c.Refused(), *got)
			}
			c.NoteRefusal()
			if c.Refused() != refused+1 {
				t.Error("a refusal was not noted")
			}
		}
	}
	check := func(got []bool, bad int) {
		t.Helper()
		for i, ok := range got {
			if ok == (i+1 == bad) || len(got) != 4 {
				t.Errorf("%v, want number %d to fail", got, bad)
			}
		}
	}
	for n := range 5 {
		var first, second []bool
		w := newWorld(t, 1, machine.PreemptNone)
		w.m.SetPageLayer(&bump{})
		w.task("a", 0, 0, ask(&first, n), ask(&second, -1))
		w.run("")
		check(first, n)
		check(second, 0)
		cfg := w.m.Config
		cfg.Native = true
		m := machine.New(cfg)
		m.SetPageLayer(&bump{})
		c := m.NativeCtx(0, "a")
		c.BeginLine(0, [2]int32{})
		ask(&first, n)(c)
		check(first, n)
		c.Release()
		if n == 0 {
			continue
		}
		w = newWorld(t, 1, machine.PreemptNone)
		w.m.SetPageLayer(&bump{})
		w.task("a", 0, 0, ask(&first, 0))
		fail := func() machine.Action { return machine.Action{Kind: machine.FailPages} }
		w.run("", dep{"a", machine.KPageAlloc, "zone.pages", n, fail, false},
			dep{"a", machine.KPageAlloc, "zone.pages", n, fail, true}) // once is enough
		check(first, n)
		wantFaults(t, w.m)
	}
}

// TestPagesRunOut: the layer's refusal counts, and Free goes to the layer.
func TestPagesRunOut(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	layer := &bump{}
	w.m.SetPageLayer(layer)
	w.task("a", 0, 0, func(c *machine.Ctx) {
		p := c.AllocPages(3, false)
		if c.AllocPages(3, false) == nil || c.AllocPages(0, false) != nil || c.Refused() != 1 {
			t.Error("16 pages")
		}
		c.FreePages(p)
	}, func(c *machine.Ctx) {
		if c.Refused() != 0 || c.PageRequests() != 0 {
			t.Error("counts of the line before")
		}
	})
	w.run("")
	if layer.frees != 1 || w.m.PageLayer() != machine.PageLayer(layer) {
		t.Error("the layer")
	}
	w.m.SetPageLayer(nil)
	w.m.Reset()
	w.task("a", 0, 0, func(c *machine.Ctx) { c.AllocPages(0, false) })
	wantHarness(t, w.m, "page layer")
}

// TestPageLocked: to free pages while somebody holds the lock of one of them is a finding,
// and the lock of another page is none.
func TestPageLocked(t *testing.T) {
	for _, k := range []struct {
		name string
		lock func(p *machine.Page, m *machine.Machine) *machine.SpinLock
		want []fault.Title
	}{
		{"its own", func(p *machine.Page, _ *machine.Machine) *machine.SpinLock { return &p.Lock },
			[]fault.Title{fault.PageLocked}},
		{"its last page's", func(p *machine.Page, m *machine.Machine) *machine.SpinLock {
			return &m.PageAt(p.PFN() + 3).Lock
		}, []fault.Title{fault.PageLocked}},
		{"another page's", func(p *machine.Page, m *machine.Machine) *machine.SpinLock {
			return &m.PageAt(p.PFN() + 4).Lock
		}, nil},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 1, machine.PreemptNone)
			layer := &bump{}
			w.m.SetPageLayer(layer)
			w.task("a", 0, 0, func(c *machine.Ctx) {
				p := c.AllocPages(2, false)
				l := k.lock(p, w.m)
				l.Lock(c)
				c.FreePages(p)
				l.Unlock(c)
			})
			w.run("")
			wantFaults(t, w.m, k.want...)
			if layer.frees != 1 {
				t.Error("the layer did not get the pages")
			}
		})
	}
}

// TestSleeping: page requests that may sleep, where sleeping is forbidden and where
// it is not; MayBlock says the same.
func TestSleeping(t *testing.T) {
	l := locked(lockA, 1)
	for _, k := range []struct {
		name    string
		on, off func(*machine.Ctx)
		ok      bool
	}{
		{"anywhere", barrier, barrier, true},
		{"interrupts off", (*machine.Ctx).IRQDisable, (*machine.Ctx).IRQEnable, false},
		{"preemption disabled", (*machine.Ctx).PreemptDisable, (*machine.Ctx).PreemptEnable, false},
		{"spin lock", l.Lock, l.Unlock, false},
	} {
		t.Run(k.name, func(t *testing.T) {
			for _, may := range []bool{false, true} {
				w := newWorld(t, 1, machine.PreemptNone)
				w.task("a", 0, 0, func(c *machine.Ctx) {
					k.on(c)
					if c.MayBlock() != k.ok {
						t.Errorf("may block: %v", c.MayBlock())
					}
					c.AllocPages(0, may)
					k.off(c)
				})
				w.run("")
				if may && !k.ok {
					wantFaults(t, w.m, fault.Sleeping)
				} else {
					wantFaults(t, w.m)
				}
			}
		})
	}
	w := newWorld(t, 1, machine.PreemptNone)
	w.irq("h", 0, 0, func(c *machine.Ctx) {
		if c.MayBlock() {
			t.Error("a handler may block")
		}
		c.AllocPages(0, true)
	})
	w.run("")
	wantFaults(t, w.m, fault.Sleeping)
}

// TestFailObject: the n-th object that an operation asks for is refused, which counts as a
// refusal, and the next operation begins anew.
func TestFailObject(t *testing.T) {
	for n := range 4 {
		w := newWorld(t, 1, machine.PreemptNone)
		ask := func(fail int) func(*machine.Ctx) {
			return func(c *machine.Ctx) {
				c.FailObject(fail)
				for i := 1; i <= 3; i++ {
					if c.ShouldFail() != (i == fail) {
						t.Errorf("object %d of those of which number %d fails", i, fail)
					}
				}
				if want := min(fail, 1); c.Refused() != want || c.Injected() != want {
					t.Errorf("%d refused, %d on purpose, want %d", c.Refused(), c.Injected(), want)
				}
			}
		}
		w.task("a", 0, 0, ask(n), func(c *machine.Ctx) {
			if c.ShouldFail() || c.ShouldFail() || c.Refused() != 0 {
				t.Error("the failure of the line before")
			}
		})
		w.run("")
		wantFaults(t, w.m)
	}
}
