package slab_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// arrayed are the variants with arrays.
var arrayed = []string{"percpu", "percpu-oldest"}

// bounded is a spec of one object a slab with arrays of these bounds.
func bounded(limit, batch int) impls.CacheSpec {
	spec := small(64, 1)
	spec.Limit, spec.Batch = limit, batch
	return spec
}

// TestBounds: the limit goes by the distance of two objects, the batch by the limit, and a
// spec overrides either.
func TestBounds(t *testing.T) {
	given := func(size uint64, limit, batch int) impls.CacheSpec {
		spec := impls.NewSpec("c", size)
		spec.Limit, spec.Batch = limit, batch
		return spec
	}
	tests := []struct {
		spec           impls.CacheSpec
		newest, oldest [2]int
	}{
		{given(1, -1, -1), [2]int{252, 126}, [2]int{120, 60}},
		{given(256, -1, -1), [2]int{252, 126}, [2]int{120, 60}},
		{given(257, -1, -1), [2]int{124, 62}, [2]int{54, 27}},
		{given(1024, -1, -1), [2]int{124, 62}, [2]int{54, 27}},
		{given(1025, -1, -1), [2]int{60, 30}, [2]int{24, 12}},
		{given(4096, -1, -1), [2]int{60, 30}, [2]int{24, 12}},
		{given(4097, -1, -1), [2]int{0, 0}, [2]int{8, 4}},
		{given(131072, -1, -1), [2]int{0, 0}, [2]int{8, 4}},
		{given(131073, -1, -1), [2]int{0, 0}, [2]int{1, 1}},
		{given(64, 7, -1), [2]int{7, 3}, [2]int{7, 4}},
		{given(64, 1, -1), [2]int{1, 1}, [2]int{1, 1}},
		{given(64, 0, -1), [2]int{0, 0}, [2]int{0, 0}},
		{given(64, 0, 3), [2]int{0, 0}, [2]int{0, 0}},
		{given(64, 5, 2), [2]int{5, 2}, [2]int{5, 2}},
		{given(64, 5, 9), [2]int{5, 5}, [2]int{5, 5}},
		{given(64, -1, 5), [2]int{252, 5}, [2]int{120, 5}},
	}
	for _, tt := range tests {
		for i, name := range arrayed {
			r := newRigOf(t, variant(name), func(c *machine.Config) { c.Pages, c.CPUs = 128, 2 })
			r.cache(tt.spec)
			want := [...][2]int{tt.newest, tt.oldest}[i]
			s := r.check()
			if len(s.Arrays) != 2 {
				t.Fatalf("%d arrays", len(s.Arrays))
			}
			for cpu, a := range s.Arrays {
				if got := [2]int{a.Limit, a.Batch}; got != want || a.CPU != cpu {
					t.Errorf("%s, %d bytes, %d, %d: %v of CPU %d, want %v", name, tt.spec.Size,
						tt.spec.Limit, tt.spec.Batch, got, a.CPU, want)
				}
			}
		}
	}
	r := newRigOf(t, variant("percpu"), nil)
	r.cache(flagged(64, 2, "Z"))
	if s := r.check(); len(s.Arrays) != 0 {
		t.Errorf("a cache with debug flags has arrays: %v", s.Arrays)
	}
}

// contents is what an array of the first cache holds, by the order in which the objects
// were first allocated, oldest first.
func (r *rig) contents(cpu int, objs []impls.Addr) []int {
	got := []int{}
	for _, a := range r.check().Arrays {
		if a.Cache == 0 && a.CPU == cpu {
			for _, obj := range a.Objects {
				got = append(got, slices.Index(objs, obj))
			}
		}
	}
	return got
}

// TestArrayOrder frees five objects of one-object slabs into an array of four that moves
// two: what is in the array then, which slabs were emptied, and the order in which the
// objects come back.
func TestArrayOrder(t *testing.T) {
	tests := []struct {
		name   string
		array  []int // oldest first
		free   []int // slabs by page, the next one to be used first
		reused []int
	}{
		// 3 and 2 were freed last; 3 is the newer one, and its slab comes first.
		{"percpu", []int{0, 1, 4}, []int{3, 2}, []int{4, 1, 0, 2, 3}},
		// 0 and 1 were freed first.
		{"percpu-oldest", []int{2, 3, 4}, []int{1, 0}, []int{4, 3, 2, 0, 1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRigOf(t, variant(tt.name), nil)
			s := r.cache(bounded(4, 2))
			r.run(func(c *machine.Ctx) {
				var objs []impls.Addr
				for range 5 {
					objs = append(objs, r.alloc(c, s, 0)) // each in a slab of its own
				}
				for _, obj := range objs {
					r.free(c, s, obj)
				}
				if diff := cmp.Diff(tt.array, r.contents(0, objs)); diff != "" {
					t.Error("array:", diff)
				}
				if diff := cmp.Diff(tt.free, order(&r.snap, impls.ListFree)); diff != "" {
					t.Error("free slabs:", diff)
				}
				var reused []int
				for range 5 {
					reused = append(reused, slices.Index(objs, r.alloc(c, s, 0)))
				}
				if diff := cmp.Diff(tt.reused, reused); diff != "" {
					t.Error("reused:", diff)
				}
			})
			r.check()
			r.titles()
		})
	}
}

// TestRefill: an empty array takes a batch of a slab and hands out the last object of it,
// and as many as there are when the slabs have fewer.
func TestRefill(t *testing.T) {
	for _, name := range arrayed {
		r := newRigOf(t, variant(name), nil)
		spec := small(64, 5)
		spec.Limit, spec.Batch = 4, 3
		s := r.cache(spec)
		r.run(func(c *machine.Ctx) {
			first := r.alloc(c, s, 0)
			b := r.check().Slabs[0]
			if first != b.First+2*64 || b.Inuse != 3 {
				t.Errorf("%s: %#x of the slab at %#x, %d in use", name, first, b.First, b.Inuse)
			}
			for i, want := range []impls.Addr{b.First + 64, b.First, b.First + 4*64,
				b.First + 3*64} {
				if got := r.alloc(c, s, 0); got != want {
					t.Errorf("%s: allocation %d is %#x, want %#x", name, i, got, want)
				}
			}
			if a := r.check().Arrays[0]; len(a.Objects) != 0 || len(r.snap.Slabs) != 1 {
				t.Errorf("%s: %v, %d slabs", name, a, len(r.snap.Slabs))
			}
		})
		r.titles()
	}
}

// twoCPUs runs a on CPU 0 and then b on CPU 1.
func (r *rig) twoCPUs(a, b func(c *machine.Ctx)) {
	r.m.AddTask("cpu0", 0, 0, true, a)
	r.m.AddTask("cpu1", 1, 500, true, func(c *machine.Ctx) {
		r.line = 500
		b(c)
	})
	r.finish(nil)
}

// TestForeignFree: an object that another CPU frees stays in the array of that CPU, and
// keeps its page, until the CPU is asked for it.
func TestForeignFree(t *testing.T) {
	empty := map[string]func(*machine.Ctx, *rig, impls.Cache){
		"flush": func(c *machine.Ctx, _ *rig, s impls.Cache) { s.(impls.Flusher).Flush(c) },
		"offline": func(c *machine.Ctx, r *rig, _ impls.Cache) {
			if err := r.inst.(impls.Hotplugger).Offline(c, 0); err != nil {
				t.Error(err)
			}
		},
		"tune": func(c *machine.Ctx, _ *rig, s impls.Cache) {
			if err := s.(impls.Tuner).Tune(c, 3, 1); err != nil {
				t.Error(err)
			}
		},
	}
	for _, name := range arrayed {
		for how, f := range empty {
			t.Run(name+"/"+how, func(t *testing.T) {
				r := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 2 })
				s := r.cache(bounded(4, 2))
				own := impls.Addr(0)
				r.twoCPUs(func(c *machine.Ctx) {
					own = r.alloc(c, s, 0)
					r.free(c, s, own)
				}, func(c *machine.Ctx) {
					if got := r.alloc(c, s, 0); got == own {
						t.Error("an object from the array of another CPU")
					}
					if n := len(r.contents(0, nil)); n != 1 {
						t.Errorf("%d objects in the array of CPU 0", n)
					}
					for range 2 { // the first one only forgets that the cache has grown
						r.op(c, func() {
							if n := r.inst.(impls.Reaper).Reap(c); n != 0 {
								t.Errorf("%d pages reaped", n)
							}
						})
					}
					r.op(c, func() { f(c, r, s) })
					if n := len(r.contents(0, nil)); n != 0 {
						t.Errorf("%d objects in the array of CPU 0 after it", n)
					}
					r.op(c, func() {
						if n := r.inst.(impls.Reaper).Reap(c); n != 1 {
							t.Errorf("%d pages reaped, want 1", n)
						}
					})
				})
				r.titles()
			})
		}
	}
}

// TestOffline: the own CPU cannot go; the arrays of all caches of the other do, and it may
// come back; another CPU's stay. With pools of pages these go as well.
func TestOffline(t *testing.T) {
	for _, name := range arrayed {
		r := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 2 })
		s, other := r.cache(bounded(4, 2)), r.cache(bounded(2, 1))
		r.twoCPUs(func(c *machine.Ctx) {
			for _, k := range []impls.Cache{s, other} {
				r.free(c, k, r.alloc(c, k, 0))
			}
		}, func(c *machine.Ctx) {
			r.free(c, s, r.alloc(c, s, 0))
			for _, tt := range []struct {
				cpu  int
				want error
				left int
			}{{1, impls.ErrInvalid, 3}, {0, nil, 1}, {0, nil, 1}} {
				r.op(c, func() {
					err := r.inst.(impls.Hotplugger).Offline(c, tt.cpu)
					if !errors.Is(err, tt.want) {
						t.Errorf("CPU %d: %v, want %v", tt.cpu, err, tt.want)
					}
				})
				left := 0
				for _, a := range r.check().Arrays {
					left += len(a.Objects)
				}
				if left != tt.left {
					t.Errorf("%d objects left in arrays, want %d", left, tt.left)
				}
			}
		})
		r.titles()
	}
	r := newRigOf(t, variant("threelists-percpu"), func(c *machine.Config) {
		c.CPUs, c.Pages = 2, 1024
	})
	r.twoCPUs(func(c *machine.Ctx) {
		r.op(c, func() { r.inst.Pages().FreePages(c, r.inst.Pages().AllocPages(c, 0, 0)) })
	}, func(c *machine.Ctx) {
		if p := r.check().Pools[0].Pages; len(p) != 1 {
			t.Errorf("pool %v", p)
		}
		r.op(c, func() {
			if err := r.inst.(impls.Hotplugger).Offline(c, 0); err != nil {
				t.Error(err)
			}
		})
		if p := r.check().Pools[0].Pages; len(p) != 0 {
			t.Errorf("pool %v of a CPU that is gone", p)
		}
	})
	r.titles()
}

// TestOfflinePast: a CPU may go though there are more caches without arrays, which there is
// nothing to do for, than one operation has points.
func TestOfflinePast(t *testing.T) {
	r := newRigOf(t, variant("percpu"), func(c *machine.Config) { c.CPUs = 2 })
	spec := small(64, 1)
	spec.Flags = []string{"sanity"}
	for range machine.StepsMax {
		r.cache(spec)
	}
	r.run(func(c *machine.Ctx) {
		r.op(c, func() {
			if err := r.inst.(impls.Hotplugger).Offline(c, 1); err != nil {
				t.Error(err)
			}
		})
	})
	r.titles()
}

// TestTune: bounds that do not fit together change nothing, others take every CPU's objects
// to the slabs; without arrays each free goes there, and what was in them is used again.
func TestTune(t *testing.T) {
	for _, name := range arrayed {
		t.Run(name, func(t *testing.T) {
			r := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 2 })
			s := r.cache(bounded(4, 2))
			tune := func(c *machine.Ctx, limit, batch int, want error) {
				t.Helper()
				r.op(c, func() {
					if err := s.(impls.Tuner).Tune(c, limit, batch); !errors.Is(err, want) {
						t.Errorf("limit %d, batch %d: %v, want %v", limit, batch, err, want)
					}
				})
			}
			var objs []impls.Addr
			r.twoCPUs(func(c *machine.Ctx) {
				for range 3 {
					objs = append(objs, r.alloc(c, s, 0))
				}
				r.free(c, s, objs[0])
				r.free(c, s, objs[1])
			}, func(c *machine.Ctx) {
				r.free(c, s, objs[2])
				tune(c, 2, 3, impls.ErrInvalid)
				tune(c, 2, 0, impls.ErrInvalid)
				tune(c, -1, -1, impls.ErrInvalid)
				if diff := cmp.Diff([]int{0, 1}, r.contents(0, objs)); diff != "" {
					t.Error("after no change:", diff)
				}
				tune(c, 2, 2, nil)
				for _, a := range r.check().Arrays {
					if len(a.Objects) > 0 || a.Limit != 2 || a.Batch != 2 {
						t.Errorf("%+v", a)
					}
				}
				// In the order of CPUs and of age: the last one back is the first one used.
				if diff := cmp.Diff([]int{2, 1, 0}, order(&r.snap, impls.ListFree)); diff != "" {
					t.Error("free slabs:", diff)
				}
				tune(c, 0, 5, nil)
				for _, want := range []int{2, 1, 0} {
					if a := r.alloc(c, s, 0); a != objs[want] {
						t.Errorf("%#x, want object %d", a, want)
					}
				}
				for _, obj := range objs {
					r.free(c, s, obj)
				}
				if n := len(r.contents(1, objs)); n != 0 {
					t.Errorf("%d objects in no array", n)
				}
				if n := len(order(&r.snap, impls.ListFree)); n != 3 {
					t.Errorf("%d free slabs, want 3", n)
				}
			})
			r.titles()
		})
	}
}

// TestTunePeak: what the arrays of a cache can have held does not become less when they may
// hold less: slabs that were made for it are still there.
func TestTunePeak(t *testing.T) {
	for _, name := range arrayed {
		r := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 2 })
		s := r.cache(bounded(2, 1))
		r.run(func(c *machine.Ctx) {
			for _, tt := range []struct{ limit, want int }{{0, 2}, {8, 8}, {3, 8}, {9, 9}} {
				r.op(c, func() {
					if err := s.(impls.Tuner).Tune(c, tt.limit, 1); err != nil {
						t.Error(err)
					}
				})
				if got := r.check().Caches[0].PerCPU; got != tt.want {
					t.Errorf("%s: at most %d objects for a CPU after a limit of %d, want %d", name,
						got, tt.limit, tt.want)
				}
			}
		})
		r.titles()
	}
}

// TestDestroyArrays: objects that wait in arrays, also of another CPU, keep no cache, and a
// live one does.
func TestDestroyArrays(t *testing.T) {
	for _, name := range arrayed {
		r := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 2 })
		s := r.cache(bounded(4, 2))
		var live impls.Addr
		r.twoCPUs(func(c *machine.Ctx) {
			a := r.alloc(c, s, 0)
			live = r.alloc(c, s, 0)
			r.free(c, s, a)
		}, func(c *machine.Ctx) {
			r.free(c, s, r.alloc(c, s, 0))
			for _, want := range []error{impls.ErrBusy, nil} {
				r.op(c, func() {
					if err := s.Destroy(c); !errors.Is(err, want) {
						t.Errorf("%s: %v, want %v", name, err, want)
					}
				})
				if want == impls.ErrBusy {
					if r.check().Caches[0].Dead {
						t.Errorf("%s: off the chain for good", name)
					}
					r.free(c, s, live)
				}
			}
		})
		r.allBack()
		r.titles()
	}
}

// TestArrayDamage: an array that counts more objects than it can have, or holds what is none
// of its cache, ends the run when it is used.
func TestArrayDamage(t *testing.T) {
	r := newRigOf(t, variant("percpu"), nil)
	s, other := r.cache(bounded(1, 1)), r.cache(bounded(1, 1))
	r.run(func(c *machine.Ctx) {
		a := r.alloc(c, other, 0)
		r.op(c, func() { s.Free(c, a) }) // found at once, as without arrays
		r.free(c, other, a)
	})
	r.check()
	r.titles(fault.OutsideSlab)
}
