package slab_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

func TestCreateRefuses(t *testing.T) {
	tests := []struct {
		name string
		spec func(*impls.CacheSpec)
		want error
	}{
		{"size 0", func(s *impls.CacheSpec) { s.Size = 0 }, impls.ErrInvalid},
		{"the largest block", func(s *impls.CacheSpec) { s.Size = 4 << 20 }, impls.ErrInvalid},
		{"absurd size", func(s *impls.CacheSpec) { s.Size = 1<<64 - 1 }, impls.ErrInvalid},
		{"align 3", func(s *impls.CacheSpec) { s.Align = 3 }, impls.ErrInvalid},
		{"align of a page", func(s *impls.CacheSpec) { s.Align = 4096 }, nil},
		{"align above a page", func(s *impls.CacheSpec) { s.Align = 8192 }, impls.ErrInvalid},
		{"no objects", func(s *impls.CacheSpec) { s.Objects = 0 }, impls.ErrInvalid},
		{"too many objects", func(s *impls.CacheSpec) { s.Objects = 1 << 20 }, impls.ErrInvalid},
		{"order too large", func(s *impls.CacheSpec) { s.Order = 11 }, impls.ErrInvalid},
		{"objects do not fit the order", func(s *impls.CacheSpec) { s.Order, s.Objects = 0, 64 },
			impls.ErrInvalid},
		{"objects fit the order", func(s *impls.CacheSpec) { s.Order, s.Objects = 0, 60 }, nil},
		{"object larger than the order", func(s *impls.CacheSpec) { s.Order, s.Size = 0, 4096 },
			impls.ErrInvalid},
		{"constructor", func(s *impls.CacheSpec) { s.Ctor = true }, nil},
		{"constructor of a size class", func(s *impls.CacheSpec) { s.Ctor, s.Kmalloc = true, true },
			impls.ErrInvalid},
		{"cache lines", func(s *impls.CacheSpec) { s.Flags = []string{"hwalign"} }, nil},
		{"ignored keys", func(s *impls.CacheSpec) {
			s.MinPartial, s.CPUPartial, s.Limit, s.Batch = 0, 2, 3, 1
		}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			spec := impls.NewSpec("c", 64)
			tt.spec(&spec)
			s, err := r.inst.Objects().NewCache(nil, spec)
			if !errors.Is(err, tt.want) || (s == nil) != (tt.want != nil) {
				t.Errorf("cache %v, error %v, want %v", s, err, tt.want)
			}
		})
	}
}

// TestGeometry looks at the first slab of a cache.
func TestGeometry(t *testing.T) {
	word := func(bits, pagesize int) func(*machine.Config) {
		return func(c *machine.Config) {
			c.Word, c.PageSize, c.SeqBits, c.Base = bits, pagesize, bits/2, 4096
		}
	}
	type shape struct {
		order, objects int
		first, stride  uint64
		colours        int
	}
	tests := []struct {
		name  string
		m     func(*machine.Config)
		size  uint64
		align uint64
		objs  int
		want  shape
	}{
		{"64 bytes", nil, 64, 0, -1, shape{0, 61, 40 + 128, 64, 0}},
		{"one byte is a word", nil, 1, 0, -1, shape{0, 405, 40 + 816, 8, 0}},
		{"100 bytes", nil, 100, 0, -1, shape{0, 38, 40 + 80, 104, 0}},
		{"two a slab", nil, 64, 0, 2, shape{0, 2, 48, 64, (4096 - 48 - 128) / 64}},
		{"one byte aligned", nil, 1, 32, 1, shape{0, 1, 64, 32, (4096 - 64 - 32) / 64}},
		{"a page", nil, 4096, 0, -1, shape{1, 1, 48, 4096, 63}},
		{"a page, aligned", nil, 4096, 4096, -1, shape{1, 1, 4096, 4096, 0}},
		{"1000 bytes waste no more than the 8th part", nil, 1000, 0, -1, shape{0, 4, 48, 1000, 0}},
		{"1500 bytes need order 1", nil, 1500, 0, -1, shape{1, 5, 56, 1504, 9}},
		{"eleven pages", nil, 11 * 4096, 0, -1, shape{4, 1, 48, 11 * 4096, (5*4096 - 48) / 64}},
		{"1500 bytes in one page", func(c *machine.Config) { c.Pages = 1 }, 1500, 0, -1,
			shape{0, 2, 48, 1504, 16}},
		{"an alignment below the word", nil, 9, 2, 1, shape{0, 1, 48, 16, (4096 - 48 - 16) / 64}},
		{"16-bit words", word(16, 128), 16, 0, -1, shape{0, 6, 10 + 12, 16, 5}},
		{"16-bit words, one byte", word(16, 128), 1, 0, -1, shape{0, 29, 10 + 58, 2, 1}},
		{"32-bit words", word(32, 4096), 16, 0, -1, shape{0, 226, 20 + 452, 16, 0}},
		{"more than 16 bits can number", nil, 8, 0, 66000, shape{8, 66000, 40 + 4*66000, 8, 4008}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *machine.Config) {
				c.Pages = 256
				if tt.m != nil {
					tt.m(c)
				}
			})
			spec := small(tt.size, tt.objs)
			spec.Align = tt.align
			s := r.cache(spec)
			r.run(func(c *machine.Ctx) { r.alloc(c, s, 0) })
			b := r.check().Slabs[0]
			got := shape{b.Order, b.Objects, b.First - b.Addr, r.snap.Caches[0].Stride, b.Colours}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(shape{})); diff != "" {
				t.Error(diff)
			}
			r.titles()
		})
	}
}

// TestLists plays allocations and frees and looks at the lists afterwards. Where a free
// slab becomes partial makes no difference.
func TestLists(t *testing.T) {
	type lists struct{ Full, Partial, Free []int }
	tests := []struct {
		name    string
		objects int
		ops     string // "a": alloc, digit: free the object allocated so manyth
		want    lists
	}{
		{"first object", 2, "a", lists{Partial: []int{0}}},
		{"full", 2, "aa", lists{Full: []int{0}}},
		{"full slabs, last first", 2, "aaaa", lists{Full: []int{1, 0}}},
		{"full to partial head", 2, "aaaaaa02", lists{Full: []int{2}, Partial: []int{1, 0}}},
		{"partial head is used", 2, "aaaaaa02a", lists{Full: []int{1, 2}, Partial: []int{0}}},
		{"partial to free", 2, "aaa2", lists{Full: []int{0}, Free: []int{1}}},
		{"free head is the one emptied last", 2, "aaaaaa012345", lists{Free: []int{2, 1, 0}}},
		{"a free slab is used before growing", 2, "aaaaaa012345aaa",
			lists{Full: []int{2}, Partial: []int{1}, Free: []int{0}}},
		{"partial before free", 2, "aaaa01a", lists{Full: []int{1}, Partial: []int{0}}},
		{"one object: full to free", 1, "aa0", lists{Full: []int{1}, Free: []int{0}}},
		{"one object: free to full", 1, "aa0a", lists{Full: []int{0, 1}}},
		{"three objects stay partial", 3, "aaa01", lists{Partial: []int{0}}},
		{"middle of partial empties", 2, "aaaaaa0243", lists{Partial: []int{2, 0}, Free: []int{1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, name := range []string{"threelists", "threelists-opt"} {
				r := newRigOf(t, variant(name), nil)
				s := r.cache(small(64, tt.objects))
				r.run(func(c *machine.Ctx) { r.play(c, s, tt.ops) })
				snap := r.check()
				got := lists{order(snap, impls.ListFull), order(snap, impls.ListPartial),
					order(snap, impls.ListFree)}
				if diff := cmp.Diff(tt.want, got); diff != "" {
					t.Errorf("%s: %s", name, diff)
				}
				r.titles()
			}
		})
	}
}

// TestLIFO: the object freed last comes first, within a slab and between slabs.
func TestLIFO(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(small(64, 3))
	r.run(func(c *machine.Ctx) {
		var a []impls.Addr
		for range 9 {
			a = append(a, r.alloc(c, s, 0))
		}
		for i, obj := range a[:3] {
			if d := a[i+1] - obj; i < 2 && d != 64 {
				t.Errorf("objects of a fresh slab %d apart, want 64", d)
			}
		}
		for _, i := range []int{8, 1, 4, 0, 3, 2} {
			r.free(c, s, a[i])
			if got := r.alloc(c, s, 0); got != a[i] {
				t.Errorf("allocation after free %d is %#x, want %#x", i, got, a[i])
			}
		}
		for _, i := range []int{0, 2, 1} {
			r.free(c, s, a[i])
		}
		for _, i := range []int{1, 2, 0} {
			if got := r.alloc(c, s, 0); got != a[i] {
				t.Errorf("object %d is %#x, want %#x", i, got, a[i])
			}
		}
	})
	r.check()
	r.titles()
}

// TestFull takes every object that there is, and all again after freeing.
func TestFull(t *testing.T) {
	for _, spec := range []impls.CacheSpec{small(64, 2), small(700, -1), small(5000, -1),
		small(4096, 3)} {
		t.Run(fmt.Sprint(spec.Size), func(t *testing.T) {
			r := newRig(t, nil)
			s := r.cache(spec)
			r.run(func(c *machine.Ctx) {
				first := 0
				for range 3 {
					var all []impls.Addr
					for a := r.alloc(c, s, 0); a != 0; a = r.alloc(c, s, 0) {
						all = append(all, a)
					}
					r.check()
					if first == 0 {
						first = len(all)
					}
					if len(all) == 0 || len(all) != first {
						t.Errorf("%d objects, want %d", len(all), first)
					}
					r.free(c, s, all[len(all)/2])
					if r.alloc(c, s, 0) != all[len(all)/2] {
						t.Error("the only free object was not found")
					}
					for i := range all {
						r.free(c, s, all[(i*7+3)%len(all)])
						if len(all)%7 == 0 {
							t.Fatal("choose another size: 7 divides the number of objects")
						}
					}
				}
				r.op(c, func() {
					if err := s.Destroy(c); err != nil {
						t.Error(err)
					}
				})
			})
			r.allBack()
			r.titles()
		})
	}
}

// TestFailures lets each page request in turn fail.
func TestFailures(t *testing.T) { each(t, failures) }

func failures(t *testing.T, v *impls.Variant) {
	r := newRigOf(t, v, nil)
	for n := 1; n <= 4; n++ {
		r.reset()
		s := r.cache(small(64, 2))
		r.run(func(c *machine.Ctx) {
			r.op(c, func() {
				c.FailPage(n)
				got := 0
				for range 6 {
					if r.got(c, s, s.Alloc(c, impls.FlagAtomic)) != 0 {
						got++
					}
				}
				want := 6
				if n <= 3 {
					want = 5 // and one more request made up for it
				}
				if got != want {
					t.Errorf("request %d fails: %d objects, want %d", n, got, want)
				}
			})
			for a := range r.live {
				r.free(c, s, a)
			}
			r.op(c, func() { s.Shrink(c) })
		})
		r.allBack()
		r.titles()
	}
}

func TestZero(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(small(60, 2))
	mem := r.inst.Memory()
	r.run(func(c *machine.Ctx) {
		a := r.alloc(c, s, 0)
		b := r.alloc(c, s, 0)
		mem.Fill(a, s.Size(), 7)
		mem.Fill(b, s.Size(), 9)
		r.free(c, s, a)
		if got := r.alloc(c, s, impls.FlagZero); got != a {
			t.Fatalf("%#x, want %#x", got, a)
		}
		if at := mem.Verify(a, s.Size(), 0); at >= 0 {
			t.Errorf("byte %d is not zero", at)
		}
		if at := mem.Verify(b, s.Size(), 9); at >= 0 {
			t.Errorf("byte %d of the neighbour changed", at)
		}
		r.free(c, s, a)
		if at := mem.Verify(a, s.Size(), 0); at >= 0 {
			t.Errorf("byte %d of a free object was written", at)
		}
	})
	r.check()
	r.titles()
}

// TestShrink gives back the slab that was emptied first, at first, and all.
func TestShrink(t *testing.T) {
	r := newRig(t, nil)
	spec := small(3000, -1)
	spec.Order = 1
	s := r.cache(spec)
	r.run(func(c *machine.Ctx) {
		var a []impls.Addr
		for range 6 {
			a = append(a, r.alloc(c, s, 0))
		}
		for _, i := range []int{2, 3, 0, 1, 4} {
			r.free(c, s, a[i])
		}
		r.op(c, func() {
			if got := s.Shrink(c); got != 4 {
				t.Errorf("shrink released %d pages, want 4", got)
			}
		})
		if snap := r.check(); snap.PagesFree != 14 || len(snap.Slabs) != 1 {
			t.Errorf("%d pages free, %d slabs", snap.PagesFree, len(snap.Slabs))
		}
		// The page layer gives the block that it got last.
		if got := r.alloc(c, s, 0); got == 0 {
			t.Error("no object")
		}
		r.op(c, func() {
			if got := s.Shrink(c); got != 0 {
				t.Errorf("shrink released %d pages of slabs in use", got)
			}
		})
	})
	r.check()
	r.titles()
}

// TestShrinkOrder shows by the page layer's order which slab went back last.
func TestShrinkOrder(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(small(64, 1))
	r.run(func(c *machine.Ctx) {
		var a []impls.Addr
		for range 6 {
			a = append(a, r.alloc(c, s, 0))
		}
		for _, i := range []int{4, 0, 2} {
			r.free(c, s, a[i])
		}
		r.op(c, func() { s.Shrink(c) })
		if p := r.m.PageOf(r.alloc(c, s, 0)); p.PFN() != 2 {
			t.Errorf("page %d went back last, want 2", p.PFN())
		}
		// What was given back is no slab any more.
		r.op(c, func() { s.Free(c, a[4]) })
	})
	r.check()
	r.titles(fault.OutsideSlab)
}

func TestDestroy(t *testing.T) { each(t, destroy) }

func destroy(t *testing.T, v *impls.Variant) {
	r := newRigOf(t, v, nil)
	s := r.cache(small(64, 2))
	other := r.cache(small(32, 2))
	r.run(func(c *machine.Ctx) {
		destroy := func(want error) {
			t.Helper()
			r.op(c, func() {
				if err := s.Destroy(c); !errors.Is(err, want) {
					t.Errorf("destroy: %v, want %v", err, want)
				}
			})
		}
		o := r.alloc(c, other, 0)
		a, b, d := r.alloc(c, s, 0), r.alloc(c, s, 0), r.alloc(c, s, 0)
		r.free(c, s, d)
		destroy(impls.ErrBusy)
		if snap := r.check(); snap.Caches[0].Dead || len(snap.Slabs) != 2 {
			t.Errorf("a refused destroy left %v", snap.Caches)
		}
		r.free(c, s, a)
		destroy(impls.ErrBusy)
		if got := r.alloc(c, s, 0); got != a {
			t.Errorf("%#x after a refused destroy, want %#x", got, a)
		}
		r.free(c, s, b)
		r.free(c, s, a)
		destroy(nil)
		if snap := r.check(); !snap.Caches[0].Dead || snap.PagesFree != 15 {
			t.Errorf("%v, %d pages free", snap.Caches, snap.PagesFree)
		}
		r.free(c, other, o)
		r.op(c, func() { other.Shrink(c) })
	})
	r.allBack()
	r.titles()
}

// TestCreateInRun makes a cache as an operation.
func TestCreateInRun(t *testing.T) {
	r := newRig(t, nil)
	r.run(func(c *machine.Ctx) {
		var s impls.Cache
		r.op(c, func() {
			var err error
			if s, err = r.inst.Objects().NewCache(c, small(64, 2)); err != nil {
				t.Error(err)
			}
		})
		r.alloc(c, s, 0)
	})
	if snap := r.check(); len(snap.Caches) != 1 || snap.Caches[0].Name != "c" {
		t.Errorf("%v", snap.Caches)
	}
	r.titles()
}

// TestWrongFree frees what is no live object: a finding, and nothing changes.
func TestWrongFree(t *testing.T) {
	tests := []struct {
		name string
		addr func(obj, other impls.Addr) impls.Addr
	}{
		{"outside the arena", func(_, _ impls.Addr) impls.Addr { return 64 }},
		{"inside an object", func(a, _ impls.Addr) impls.Addr { return a + 8 }},
		{"before the first object", func(a, _ impls.Addr) impls.Addr { return a - 64 }},
		{"behind the last object", func(a, _ impls.Addr) impls.Addr { return a + 128 }},
		{"of another cache", func(_, o impls.Addr) impls.Addr { return o }},
		{"of no slab", func(a, _ impls.Addr) impls.Addr { return a + 8*4096 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, nil)
			s, other := r.cache(small(64, 2)), r.cache(small(64, 2))
			r.run(func(c *machine.Ctx) {
				a, o := r.alloc(c, s, 0), r.alloc(c, other, 0)
				r.op(c, func() { s.Free(c, tt.addr(a, o)) })
			})
			r.check()
			r.titles(fault.OutsideSlab)
		})
	}
}
