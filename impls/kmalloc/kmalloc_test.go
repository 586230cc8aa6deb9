package kmalloc_test

import (
	"fmt"
	"math"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slab"
)

func system(t testing.TB, change func(*machine.Config)) (*machine.Machine, impls.Instance) {
	t.Helper()
	cfg := machine.DefaultConfig()
	cfg.Pages = 128
	if change != nil {
		change(&cfg)
	}
	m := machine.New(cfg)
	t.Cleanup(m.Close)
	return m, &classed{Instance: slab.Variants()[0].New(m), m: m, table: kmalloc.TwoPages}
}

// classed is an instance with the classes of a table.
type classed struct {
	impls.Instance
	m     *machine.Machine
	table *kmalloc.Table
	sizes impls.Allocator
}

func (s *classed) Sizes() impls.Allocator {
	if s.sizes == nil {
		s.sizes = kmalloc.New(s.m, s.Objects(), s.table)
	}
	return s.sizes
}

// run runs body as the one line of a task and demands these findings.
func run(t *testing.T, m *machine.Machine, body func(c *machine.Ctx), want ...fault.Title) {
	t.Helper()
	m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		c.BeginLine(0, [2]int32{})
		body(c)
		c.EndLine(machine.After)
	})
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
	var got []fault.Title
	for _, f := range m.Faults() {
		got = append(got, f.Title)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s%v", diff, m.Faults())
	}
}

// TestUsable: every size is served by the smallest class that holds it, larger
// ones by the smallest block.
func TestUsable(t *testing.T) {
	sizes := []uint64{8, 16, 32, 64, 96, 128, 192, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768}
	m, inst := system(t, nil)
	k := inst.Sizes()
	run(t, m, func(c *machine.Ctx) {
		for n := uint64(1); n <= 20000; n++ {
			want := uint64(0)
			for i := len(sizes) - 1; i >= 0 && sizes[i] >= n; i-- {
				want = sizes[i]
			}
			c.BeginLine(0, [2]int32{})
			p := k.Malloc(c, n, 0)
			if got := k.Usable(c, p); got != want || p == 0 {
				t.Fatalf("malloc %d: %#x of %d bytes, want %d", n, p, got, want)
			}
			if align := min(want&-want, 4096); p%align != 0 {
				t.Fatalf("malloc %d: %#x is not aligned to %d", n, p, align)
			}
			k.Free(c, p)
		}
	})
}

// TestNames: the caches are those of the kernel, up to two pages.
func TestNames(t *testing.T) {
	tests := []struct {
		page int
		last string
		n    int
	}{
		{4096, "kmalloc-8k", 13}, {2048, "kmalloc-4k", 12},
		{128, "kmalloc-256", 8}, {64, "kmalloc-128", 6},
	}
	for _, tt := range tests {
		m, inst := system(t, func(c *machine.Config) { c.PageSize, c.Pages = tt.page, 1024 })
		k := inst.Sizes()
		run(t, m, func(c *machine.Ctx) {
			for n := uint64(1); n <= 3*uint64(tt.page); n++ {
				c.BeginLine(0, [2]int32{})
				k.Free(c, k.Malloc(c, n, 0))
			}
		})
		var s impls.Snapshot
		inst.Snapshot(&s)
		if len(s.Caches) != tt.n || s.Caches[len(s.Caches)-1].Name != tt.last {
			t.Errorf("page size %d: %d caches to %s, want %d to %s", tt.page, len(s.Caches),
				s.Caches[len(s.Caches)-1].Name, tt.n, tt.last)
		}
	}
}

func TestZeroSize(t *testing.T) {
	m, inst := system(t, nil)
	k := inst.Sizes()
	run(t, m, func(c *machine.Ctx) {
		if p := k.Malloc(c, 0, impls.FlagZero); p != kmalloc.ZeroSize {
			t.Errorf("malloc 0: %#x", p)
		}
		for _, p := range []impls.Addr{0, kmalloc.ZeroSize} {
			k.Free(c, p)
			if n := k.Usable(c, p); n != 0 {
				t.Errorf("usable %#x: %d", p, n)
			}
			q := k.Realloc(c, p, 100, 0)
			if k.Usable(c, q) != 128 {
				t.Errorf("realloc %#x: %#x", p, q)
			}
			if r := k.Realloc(c, q, 0, 0); r != kmalloc.ZeroSize {
				t.Errorf("realloc to 0: %#x", r)
			}
			if again := k.Malloc(c, 100, 0); again != q {
				t.Errorf("realloc to 0 did not free: %#x, want %#x", again, q)
			}
			if r := k.Realloc(c, p, 0, 0); r != kmalloc.ZeroSize {
				t.Errorf("realloc %#x to 0: %#x", p, r)
			}
		}
		if p := k.Memalign(c, 64, 0, 0); p == 0 || p%64 != 0 {
			t.Errorf("memalign of no bytes: %#x", p)
		}
	})
}

func TestRealloc(t *testing.T) {
	tests := []struct {
		from, to uint64
		moves    bool
	}{
		{40, 64, false}, {40, 65, true}, {64, 1, false}, {96, 97, true}, {8192, 8193, true},
		{8193, 16384, false}, {8193, 16385, true}, {100000, 10, false}, {10, 100000, true},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d to %d", tt.from, tt.to), func(t *testing.T) {
			m, inst := system(t, nil)
			k, mem := inst.Sizes(), inst.Memory()
			run(t, m, func(c *machine.Ctx) {
				p := k.Malloc(c, tt.from, 0)
				mem.Fill(p, tt.from, 5)
				q := k.Realloc(c, p, tt.to, 0)
				if q == 0 || (q != p) != tt.moves {
					t.Fatalf("%#x to %#x, moves %v", p, q, tt.moves)
				}
				if at := mem.Verify(q, min(tt.from, tt.to), 5); at >= 0 {
					t.Errorf("byte %d lost", at)
				}
				if k.Usable(c, q) < tt.to {
					t.Errorf("%d bytes", k.Usable(c, q))
				}
				if tt.moves {
					c.FailPage(0)
					if k.Malloc(c, tt.from, 0) != p {
						t.Error("the old place was not freed")
					}
				}
			})
		})
	}
}

// TestReallocFails keeps the old memory when there is no new.
func TestReallocFails(t *testing.T) {
	m, inst := system(t, nil)
	k, mem := inst.Sizes(), inst.Memory()
	run(t, m, func(c *machine.Ctx) {
		p := k.Malloc(c, 100, 0)
		mem.Fill(p, 100, 5)
		for _, n := range []uint64{1 << 30, math.MaxUint64} {
			before := c.Refused()
			if q := k.Realloc(c, p, n, 0); q != 0 || c.Refused() == before {
				t.Errorf("realloc %d: %#x, %d refused", n, q, c.Refused()-before)
			}
		}
		if mem.Verify(p, 100, 5) >= 0 || k.Usable(c, p) != 128 {
			t.Error("the old memory is not as it was")
		}
		k.Free(c, p)
		if k.Malloc(c, 100, 0) != p {
			t.Error("the old memory could not be freed")
		}
	})
}

// TestHuge: sizes that no block has are refused page requests.
func TestHuge(t *testing.T) {
	for _, native := range []bool{false, true} {
		m, inst := system(t, func(c *machine.Config) { c.Native, c.Pages = native, 2048 })
		body := func(c *machine.Ctx) {
			for _, n := range []uint64{4<<20 + 1, 8 << 20, 1 << 40, 1<<64 - 4096,
				1<<64 - 4095, math.MaxUint64} {
				before := c.Refused()
				k := inst.Sizes()
				p, q := k.Malloc(c, n, impls.FlagZero), k.Memalign(c, 1<<16, n, 0)
				if p != 0 || q != 0 || c.Refused() != before+2 {
					t.Errorf("%d bytes: %#x and %#x, %d refused", n, p, q, c.Refused()-before)
				}
			}
		}
		if native {
			c := m.NativeCtx(0, "test")
			body(c)
			c.Release()
			continue
		}
		run(t, m, body)
	}
}

func TestMemalign(t *testing.T) {
	for _, base := range []uint64{1 << 32, 1<<32 + 3*4096} {
		m, inst := system(t, func(c *machine.Config) { c.Base, c.Pages = base, 256 })
		k, mem := inst.Sizes(), inst.Memory()
		run(t, m, func(c *machine.Ctx) {
			for align := uint64(1); align <= 1<<17; align *= 2 {
				for _, n := range []uint64{1, 8, 60, 96, 100, 192, 1000, 5000, 8192, 10000, 70000} {
					c.BeginLine(0, [2]int32{})
					p := k.Memalign(c, align, n, impls.FlagZero)
					if at := mem.Verify(p, n, 0); at >= 0 {
						t.Errorf("memalign %d %d: byte %d is not zero", align, n, at)
					}
					if end := p + k.Usable(c, p) - 1; m.PageOf(end) != m.PageOf(p) {
						t.Errorf("memalign %d %d: %#x is not in the block of %#x", align, n, end, p)
					}
					if p == 0 || p%align != 0 || k.Usable(c, p) < n || !mem.Contains(p, n) {
						t.Errorf("memalign %d %d: %#x of %d", align, n, p, k.Usable(c, p))
					}
					mem.Fill(p, n, 3)
					k.Free(c, p)
				}
			}
		})
		var s impls.Snapshot
		inst.Snapshot(&s)
		inUse := 0
		for _, b := range s.Slabs {
			inUse += 1 << b.Order
			if b.Inuse != 0 {
				t.Errorf("page %d: %d in use", b.Page, b.Inuse)
			}
		}
		if s.PagesFree+inUse != s.PagesTotal {
			t.Errorf("%d pages free, %d in slabs, of %d", s.PagesFree, inUse, s.PagesTotal)
		}
	}
}

func TestZeroed(t *testing.T) {
	m, inst := system(t, nil)
	k, mem := inst.Sizes(), inst.Memory()
	run(t, m, func(c *machine.Ctx) {
		for _, n := range []uint64{1, 8, 100, 2000, 8192, 8193, 50000} {
			p := k.Malloc(c, n, 0)
			mem.Fill(p, k.Usable(c, p), 9)
			k.Free(c, p)
			q := k.Malloc(c, n, impls.FlagZero)
			if q != p {
				t.Errorf("%d bytes: %#x, want %#x again", n, q, p)
			}
			if at := mem.Verify(q, k.Usable(c, q), 0); at >= 0 {
				t.Errorf("%d bytes: byte %d is not zero", n, at)
			}
			if n > 8192 {
				k.Free(c, q)
			}
		}
	})
}

// TestOutOfMemory takes all, frees all, and takes all again.
func TestOutOfMemory(t *testing.T) {
	for _, n := range []uint64{40, 1500, 9000} {
		m, inst := system(t, func(c *machine.Config) { c.Pages = 16 })
		k := inst.Sizes()
		run(t, m, func(c *machine.Ctx) {
			first := 0
			for range 2 {
				var all []impls.Addr
				for p := k.Malloc(c, n, 0); p != 0; p = k.Malloc(c, n, 0) {
					c.BeginLine(0, [2]int32{})
					all = append(all, p)
				}
				if c.Refused() == 0 || len(all) == 0 || first != 0 && first != len(all) {
					t.Errorf("%d bytes: %d blocks, %d before, %d refused", n, len(all), first,
						c.Refused())
				}
				first = len(all)
				for _, p := range all {
					c.BeginLine(0, [2]int32{})
					k.Free(c, p)
				}
			}
		})
	}
}

// TestWrongFree frees what was not handed out: a finding, no panic.
func TestWrongFree(t *testing.T) {
	m, inst := system(t, nil)
	k := inst.Sizes()
	run(t, m, func(c *machine.Ctx) {
		k.Free(c, 8)
		k.Free(c, m.Base+20*4096)
		p := k.Malloc(c, 9000, 0)
		k.Free(c, p)
		k.Free(c, p)
		if n := k.Usable(c, p); n != 0 {
			t.Errorf("%d bytes usable at what was freed", n)
		}
		k.Free(c, k.Malloc(c, 64, 0)+8)
	}, fault.WildAddress, fault.StaleView, fault.StaleView, fault.OutsideSlab)
}

// TestLargeTag: what a page was before is not what it is.
func TestLargeTag(t *testing.T) {
	m, inst := system(t, nil)
	s, err := inst.Objects().NewCache(nil, impls.NewSpec("c", 8))
	if err != nil {
		t.Fatal(err)
	}
	k := inst.Sizes()
	run(t, m, func(c *machine.Ctx) {
		m.PageAt(0).Tag = s
		p := k.Malloc(c, 9000, 0)
		if p != m.Base || k.Usable(c, p) != 16384 {
			t.Errorf("%#x of %d bytes", p, k.Usable(c, p))
		}
		k.Free(c, p)
	})
}

// TestAtomic: nothing sleeps with interrupts off or when told not to.
func TestAtomic(t *testing.T) {
	m, inst := system(t, nil)
	k := inst.Sizes()
	run(t, m, func(c *machine.Ctx) {
		flags := c.IRQSave()
		for _, n := range []uint64{8, 9000} {
			p, q := k.Malloc(c, n, impls.FlagAtomic), k.Malloc(c, 2*n, 0)
			r := k.Memalign(c, 4096, n, impls.FlagAtomic)
			if p == 0 || q == 0 || r == 0 {
				t.Errorf("%d bytes: no memory", n)
			}
			k.Free(c, k.Realloc(c, p, 8*n, 0))
		}
		c.IRQRestore(flags)
	})
}

// none makes no cache at all.
type none struct{}

func (none) NewCache(*machine.Ctx, impls.CacheSpec) (impls.Cache, error) {
	return nil, impls.ErrInvalid
}

// TestNoCache: a class that the family cannot make has no memory, for a reason.
func TestNoCache(t *testing.T) {
	m, _ := system(t, nil)
	k := kmalloc.New(m, none{}, nil)
	run(t, m, func(c *machine.Ctx) {
		for range 2 {
			before := c.Refused()
			if p := k.Malloc(c, 8, 0); p != 0 || c.Refused() == before {
				t.Errorf("%#x, %d refused", p, c.Refused())
			}
		}
		if p := k.Malloc(c, 10000, 0); p == 0 {
			t.Error("no pages")
		}
	})
}

// TestNative has goroutines use sizes of all kinds and free each other's.
func TestNative(t *testing.T) {
	m, inst := system(t, func(c *machine.Config) { c.Native, c.CPUs, c.Pages = true, 2, 2048 })
	k, mem := inst.Sizes(), inst.Memory()
	o, err := kmalloc.Caches(k, mem).NewCache(nil, impls.NewSpec("c", 24))
	if err != nil {
		t.Fatal(err)
	}
	swap := make(chan impls.Addr, 16)
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			c := m.NativeCtx(i, "stress")
			defer c.Release()
			for n := range uint64(2000) {
				size := (n*n*31+7)%12000 + 1
				p := k.Malloc(c, size, impls.FlagZero)
				if p == 0 || mem.Verify(p, size, 0) >= 0 {
					t.Errorf("malloc %d: %#x", size, p)
					return
				}
				mem.Fill(p, size, 1)
				p = k.Realloc(c, p, size*2, 0)
				select {
				case swap <- p:
				default:
					k.Free(c, <-swap)
					k.Free(c, p)
				}
				o.Free(c, o.Alloc(c, 0))
			}
		})
	}
	wg.Wait()
	c := m.NativeCtx(0, "end")
	close(swap)
	for p := range swap {
		k.Free(c, p)
	}
	if err := o.Destroy(c); err != nil {
		t.Error(err)
	}
	if len(m.Faults()) > 0 {
		t.Error(m.Faults())
	}
}

func BenchmarkMalloc(b *testing.B) {
	m, inst := system(b, func(c *machine.Config) { c.Native = true })
	k := inst.Sizes()
	c := m.NativeCtx(0, "bench")
	k.Malloc(c, 60, 0)
	b.ReportAllocs()
	for b.Loop() {
		k.Free(c, k.Malloc(c, 60, 0))
	}
}

// TestReallocZero: with the wish for zeroes, what realloc adds is zero, in place as
// elsewhere, and what it cuts off is cleared.
func TestReallocZero(t *testing.T) {
	tests := [][]uint64{{20, 30, 5, 32, 64, 65, 40, 96}, {1, 9000, 8300, 9001, 16384, 16385},
		{0, 7, 8, 0, 8}}
	for _, sizes := range tests {
		m, inst := system(t, nil)
		k, mem := inst.Sizes(), inst.Memory()
		run(t, m, func(c *machine.Ctx) {
			p := k.Malloc(c, sizes[0], impls.FlagZero)
			for i, n := range sizes[1:] {
				was := sizes[i]
				mem.Fill(p, was, 7)
				p = k.Realloc(c, p, n, impls.FlagZero)
				if p == 0 || mem.Verify(p, min(was, n), 7) >= 0 ||
					n > was && mem.Verify(p+was, n-was, 0) >= 0 {
					t.Errorf("%v: from %d to %d: %#x", sizes, was, n, p)
				}
			}
		})
	}
}

// TestReallocLeaves: without the wish what is cut off stays as it is.
func TestReallocLeaves(t *testing.T) {
	m, inst := system(t, nil)
	k, mem := inst.Sizes(), inst.Memory()
	run(t, m, func(c *machine.Ctx) {
		p := k.Malloc(c, 64, 0)
		mem.Fill(p, 64, 7)
		if q := k.Realloc(c, p, 10, 0); q != p || mem.Verify(p, 64, 7) >= 0 {
			t.Errorf("%#x, want %#x untouched", q, p)
		}
	})
}
