package page_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// pooledOf is a machine with pools.
func pooledOf(t *testing.T, pages, cpus int) (*machine.Machine, *page.Pool) {
	t.Helper()
	cfg := machine.DefaultConfig()
	cfg.Pages, cfg.CPUs = pages, cpus
	m := machine.New(cfg)
	t.Cleanup(m.Close)
	p := page.NewPool(m)
	m.SetPageLayer(p)
	return m, p
}

// shown is the snapshot, of which every stored count must be right.
func shown(t *testing.T, l page.Layer) *impls.Snapshot {
	t.Helper()
	var s impls.Snapshot
	l.Snapshot(&s)
	for _, n := range s.Counts {
		if n.Stored != n.Counted {
			t.Errorf("%s is %d, counted %d", n.Name, n.Stored, n.Counted)
		}
	}
	return &s
}

// zone is the number of free pages of the zone.
func zone(t *testing.T, l page.Layer) int {
	t.Helper()
	n := 0
	for _, b := range shown(t, l).Blocks {
		n += 1 << b.Order
	}
	return n
}

// pool demands the pages of a CPU's pool, in order.
func pool(t *testing.T, l page.Layer, cpu int, want ...int) {
	t.Helper()
	got := append([]int(nil), shown(t, l).Pools[cpu].Pages...)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("pool of CPU %d (-want +got):\n%s", cpu, diff)
	}
}

// TestPoolSizes: a 128th of the memory for all CPUs together, from 1 to 64 pages each,
// of which those who may sleep leave an eighth.
func TestPoolSizes(t *testing.T) {
	for _, tt := range []struct{ pages, cpus, max, keep int }{
		{1, 1, 1, 0}, {16, 1, 1, 0}, {255, 1, 1, 0}, {256, 1, 2, 0}, {256, 2, 1, 0},
		{1023, 1, 7, 0}, {1024, 1, 8, 1}, {8191, 1, 63, 7}, {8192, 1, 64, 8},
		{20000, 1, 64, 8}, {8192, 4, 16, 2},
	} {
		m, p := pooledOf(t, tt.pages, tt.cpus)
		o := shown(t, p).Pools
		if len(o) != tt.cpus || o[0].Max != tt.max || o[0].Keep != tt.keep {
			t.Errorf("%d pages, %d CPUs: %+v, want at most %d and %d kept", tt.pages, tt.cpus, o,
				tt.max, tt.keep)
		}
		m.Close()
	}
}

// single takes n single pages.
func single(t *testing.T, c *machine.Ctx, n int) []*machine.Page {
	t.Helper()
	got := make([]*machine.Page, n)
	for i := range got {
		if got[i] = c.AllocPages(0, true); got[i] == nil {
			t.Fatalf("%d pages, want %d", i, n)
		}
	}
	return got
}

// TestPoolOrder: the page given back last is the first to go, a full pool lets further
// ones through to the zone, and blocks pass it by.
func TestPoolOrder(t *testing.T) {
	m, p := pooledOf(t, 512, 1) // at most 4
	run(t, m, func(c *machine.Ctx) {
		got := single(t, c, 6)
		pair := c.AllocPages(1, true)
		if got[0].PFN() != 0 || got[5].PFN() != 5 || pair.PFN() != 6 {
			t.Errorf("pages %d to %d and %d", got[0].PFN(), got[5].PFN(), pair.PFN())
		}
		c.FreePages(pair)
		pool(t, p, 0)
		for _, i := range []int{2, 0, 3, 5, 1} {
			c.FreePages(got[i])
		}
		pool(t, p, 0, 5, 3, 0, 2)
		if n, all := zone(t, p), shown(t, p).PagesFree; n != 507 || all != 511 {
			t.Errorf("%d pages free in the zone and %d in all", n, all)
		}
		views(t, m, 5, 6, machine.ViewPool)
		if q := c.AllocPages(1, true); q.PFN() != 6 {
			t.Errorf("a block of two at page %d", q.PFN())
		} else {
			c.FreePages(q)
		}
		var order []int
		for _, q := range single(t, c, 5) {
			order = append(order, q.PFN())
			views(t, m, q.PFN(), q.PFN()+1, machine.ViewNone)
		}
		if diff := cmp.Diff([]int{5, 3, 0, 2, 1}, order); diff != "" {
			t.Error(diff)
		}
	})
	noFaults(t, m)
}

// TestPoolReserves: those who may sleep leave an eighth of a pool, others take all.
func TestPoolReserves(t *testing.T) {
	m, p := pooledOf(t, 1024, 1) // at most 8, 1 kept
	run(t, m, func(c *machine.Ctx) {
		got := single(t, c, 8)
		for _, q := range got {
			c.FreePages(q)
		}
		for order := 10; order >= 0; order-- { // nothing is left in the zone
			for c.AllocPages(order, true) != nil {
				continue
			}
		}
		pool(t, p, 0, 0)
		if q := c.AllocPages(0, true); q != nil {
			t.Errorf("page %d of the reserve for one who may sleep", q.PFN())
		}
		if q := c.AllocPages(0, false); q == nil || q.PFN() != 0 {
			t.Errorf("%v of the reserve, want page 0", q)
		}
		if q := c.AllocPages(0, false); q != nil {
			t.Errorf("page %d of nothing", q.PFN())
		}
	})
	noFaults(t, m)
}

// TestPoolShort: while memory is short a page goes to the zone.
func TestPoolShort(t *testing.T) {
	m, p := pooledOf(t, 512, 1) // short below 16
	run(t, m, func(c *machine.Ctx) {
		x := c.AllocPages(8, true)
		got := single(t, c, 241)
		if n := zone(t, p); n != 15 {
			t.Fatalf("%d pages free", n)
		}
		c.FreePages(got[7])
		pool(t, p, 0)
		c.FreePages(got[9])
		pool(t, p, 0, got[9].PFN())
		c.FreePages(x)
	})
	noFaults(t, m)
}

// TestPoolsApart: a page in a pool joins nobody and goes to no other CPU, until a drain
// by any CPU.
func TestPoolsApart(t *testing.T) {
	for drainer := range 2 {
		m, p := pooledOf(t, 2, 2)
		m.AddTask("cpu0", 0, 0, true, line(0, func(c *machine.Ctx) {
			got := single(t, c, 2)
			c.FreePages(got[0])
			c.FreePages(got[1])
			pool(t, p, 0, 1)
			if c.AllocPages(1, true) != nil {
				t.Error("a page of the pool was joined")
			}
		}))
		m.AddTask("cpu1", 1, 1, true, line(1, func(c *machine.Ctx) {
			if got := single(t, c, 1); got[0].PFN() != 0 {
				t.Errorf("page %d, want 0", got[0].PFN())
			}
			if q := c.AllocPages(0, false); q != nil {
				t.Errorf("page %d of another CPU", q.PFN())
			}
			c.FreePages(m.PageAt(0))
		}))
		m.AddTask("drain", drainer, 2, true, line(2, func(c *machine.Ctx) {
			pool(t, p, 0, 1)
			pool(t, p, 1) // memory was short
			p.Drain(c)
			pool(t, p, 0)
			if q := c.AllocPages(1, true); q == nil {
				t.Error("not joined after the drain")
			}
		}))
		if err := m.Sim().Run(nil); err != nil {
			t.Fatal(err)
		}
		noFaults(t, m)
	}
}

// TestPoolShortEnds: pages that a drain gives to the zone end a shortage.
func TestPoolShortEnds(t *testing.T) {
	m, p := pooledOf(t, 2, 2)
	m.AddTask("cpu0", 0, 0, true, line(0, func(c *machine.Ctx) {
		got := single(t, c, 2)
		c.FreePages(got[0])
		c.FreePages(got[1])
	}))
	m.AddTask("cpu1", 1, 1, true, line(1, func(c *machine.Ctx) {
		got := single(t, c, 1)
		pool(t, p, 0, 1)
		p.Drain(c)
		c.FreePages(got[0])
		pool(t, p, 1, 0)
	}))
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
	noFaults(t, m)
}

// TestPoolDrainHere: where other CPUs may not be called a drain is of one pool.
func TestPoolDrainHere(t *testing.T) {
	m, p := pooledOf(t, 8, 2)
	free := func(c *machine.Ctx) { c.FreePages(c.AllocPages(0, true)) }
	m.AddTask("cpu0", 0, 0, true, line(0, free))
	m.AddTask("cpu1", 1, 1, true, line(1, func(c *machine.Ctx) {
		free(c)
		flags := c.IRQSave()
		p.Drain(c)
		c.IRQRestore(flags)
		pool(t, p, 0, 0)
		pool(t, p, 1)
	}))
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
	noFaults(t, m)
}

// TestOffline: a CPU that goes out of use gives up its pool and no other, the own CPU cannot
// go, and without pools there is nothing to do.
func TestOffline(t *testing.T) {
	for _, v := range page.Variants() {
		cfg := machine.DefaultConfig()
		cfg.CPUs = 3
		m := machine.New(cfg)
		in := v.New(m)
		var after [3]int
		var own error
		m.AddTask("cpu0", 0, 0, true, line(0, func(c *machine.Ctx) {
			c.RunOnAll(func(c *machine.Ctx) {
				in.Pages().FreePages(c, in.Pages().AllocPages(c, 0, 0))
			})
			own = in.(impls.Hotplugger).Offline(c, 0)
			if err := in.(impls.Hotplugger).Offline(c, 1); err != nil {
				t.Errorf("%s: %v", v.Name, err)
			}
		}))
		if err := m.Sim().Run(nil); err != nil {
			t.Fatal(err)
		}
		noFaults(t, m)
		var s impls.Snapshot
		in.Snapshot(&s)
		for _, p := range s.Pools {
			after[p.CPU] = len(p.Pages)
		}
		want := [3]int{1, 0, 1}
		if v.Name == "page-buddy" {
			want = [3]int{}
		}
		if after != want || !errors.Is(own, impls.ErrInvalid) || s.PagesFree != cfg.Pages {
			t.Errorf("%s: pools of %v pages, %d free, own %v", v.Name, after, s.PagesFree, own)
		}
		m.Close()
	}
}

// TestPoolDrainLong: the largest pools of the most CPUs are drained within the limit of
// steps of an operation.
func TestPoolDrainLong(t *testing.T) {
	const cpus = machine.MaxCPUs
	m, p := pooledOf(t, cpus*128*page.PoolMax, cpus)
	for i := range cpus {
		m.AddTask(fmt.Sprint("cpu", i), i, i, true, line(i, func(c *machine.Ctx) {
			for _, q := range single(t, c, page.PoolMax) {
				c.FreePages(q)
			}
		}))
	}
	m.AddTask("drain", 0, cpus, true, line(cpus, func(c *machine.Ctx) {
		if n := p.FreePages() - zone(t, p); n != cpus*page.PoolMax {
			t.Errorf("%d pages in pools", n)
		}
		p.Drain(c)
	}))
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
	if n := zone(t, p); n != m.Pages {
		t.Errorf("%d of %d pages free", n, m.Pages)
	}
	noFaults(t, m)
}

// TestPoolWrongFree gives back what is not given out: a finding, and nothing changes.
func TestPoolWrongFree(t *testing.T) {
	for _, tt := range []struct {
		name       string
		pfn, order int
	}{
		{"in the pool", 1, 0}, {"in the pool, as a block", 1, 1}, {"never given out", 12, 0},
		{"inside a block", 3, 0}, {"smaller order", 2, 0}, {"larger order", 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, p := pooledOf(t, 512, 1) // the pool has room for more
			run(t, m, func(c *machine.Ctx) {
				got := single(t, c, 2)
				c.AllocPages(1, true)
				c.FreePages(got[1])
				p.Free(c, m.PageAt(tt.pfn), tt.order)
				pool(t, p, 0, 1)
			})
			if n := zone(t, p); n != 508 {
				t.Errorf("%d pages free", n)
			}
			titles(t, m, fault.StaleView)
		})
	}
}

// TestPoolWritten writes to a page in a pool: the run ends with a finding.
func TestPoolWritten(t *testing.T) {
	m, _ := pooledOf(t, 512, 1)
	run(t, m, func(c *machine.Ctx) {
		got := single(t, c, 2)
		c.FreePages(got[0])
		c.FreePages(got[1])
		got[1].Scribble(1 << 40)
		single(t, c, 2)
		t.Error("the run went on")
	})
	titles(t, m, fault.WildAddress)
}

// TestPoolEverywhere lets a handler, or a task of another CPU, use its pool at every
// point of one that does the same.
func TestPoolEverywhere(t *testing.T) {
	for _, cpus := range []int{1, 2} {
		for k := 1; ; k++ {
			m, p := pooledOf(t, 6, cpus)
			ch := &at{k: k}
			body := func(c *machine.Ctx) {
				x, y := c.AllocPages(0, false), c.AllocPages(1, false)
				c.FreePages(x)
				c.FreePages(c.AllocPages(0, false))
				c.FreePages(y)
			}
			if cpus == 1 {
				ch.h = &machine.Handler{CPU: 0, Name: "irq0", Pos: 1, Body: line(0, body)}
				m.AddHandler(ch.h)
			} else {
				ch.to = m.AddTask("cpu1", 1, 1, true, line(1, body))
			}
			m.AddTask("cpu0", 0, 0, true, line(0, body))
			if err := m.Sim().Run(ch); err != nil {
				t.Fatal(err)
			}
			noFaults(t, m)
			if shown(t, p); p.FreePages() != 6 {
				t.Errorf("at point %d: %d pages free", k, p.FreePages())
			}
			if ch.n < k {
				break
			}
		}
	}
}

// TestPoolNative has goroutines share one arena, each with its pool.
func TestPoolNative(t *testing.T) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs, cfg.Pages = true, 2, 2048
	m := machine.New(cfg)
	p := page.NewPool(m)
	m.SetPageLayer(p)
	var wg sync.WaitGroup
	for i := range cfg.CPUs {
		wg.Go(func() {
			c := m.NativeCtx(i, "stress")
			defer c.Release()
			for n := 0; n < 2000; n++ {
				x, y := c.AllocPages(n%2, true), c.AllocPages(0, true)
				c.FreePages(x)
				c.FreePages(y)
				if n%100 == 0 {
					p.Drain(c)
				}
			}
		})
	}
	wg.Wait()
	c := m.NativeCtx(0, "end")
	p.Drain(c)
	c.Release()
	if n := zone(t, p); n != cfg.Pages {
		t.Errorf("%d pages free, %v", n, shown(t, p).Pools)
	}
	noFaults(t, m)
}
