package slab_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// reap is a reap as an operation.
func (r *rig) reap(c *machine.Ctx, want int) {
	r.t.Helper()
	r.op(c, func() {
		if got := r.inst.(impls.Reaper).Reap(c); got != want {
			r.t.Errorf("%d pages reaped, want %d", got, want)
		}
	})
}

// spare fills n slabs of one object and empties them in that order. It returns their pages.
func (r *rig) spare(c *machine.Ctx, s impls.Cache, n int) (pages []int) {
	var objs []impls.Addr
	for range n {
		a := r.alloc(c, s, 0)
		objs = append(objs, a)
		pages = append(pages, r.m.PageOf(a).PFN())
	}
	for _, a := range objs {
		r.free(c, s, a)
	}
	return pages
}

// traffic notes the pages that go back.
type traffic struct {
	page.Layer
	back []int
}

func (w *traffic) Free(c *machine.Ctx, p *machine.Page, order int) {
	w.back = append(w.back, p.PFN())
	w.Layer.Free(c, p, order)
}

// TestReapHalf: once for having grown the cache is passed by; then half of the free slabs
// goes, rounded up, until there are none. On every kind of list the slab goes first that
// was emptied first: with one object a slab that is so on the old one list, too.
func TestReapHalf(t *testing.T) {
	each(t, func(t *testing.T, v *impls.Variant) {
		r := newRigOf(t, v, nil)
		w := &traffic{Layer: r.m.PageLayer().(page.Layer)}
		r.m.SetPageLayer(w)
		s := r.cache(bounded(0, -1))
		var pages []int
		r.run(func(c *machine.Ctx) {
			pages = r.spare(c, s, 5)
			for _, want := range []int{0, 3, 1, 1, 0} {
				r.reap(c, want)
				r.check()
			}
		})
		if diff := cmp.Diff(pages, w.back); diff != "" {
			t.Error(diff)
		}
		r.allBack()
		r.titles()
	})
}

// TestShrinkFIFO: shrink and destroy give pages back in the order in which the slabs were
// emptied, behind what the arrays held.
func TestShrinkFIFO(t *testing.T) {
	for _, end := range []func(*machine.Ctx, impls.Cache){
		func(c *machine.Ctx, s impls.Cache) { s.Shrink(c) },
		func(c *machine.Ctx, s impls.Cache) { _ = s.Destroy(c) },
	} {
		for _, name := range append([]string{"threelists", "threelists-opt"}, arrayed...) {
			r := newRigOf(t, variant(name), nil)
			w := &traffic{Layer: r.m.PageLayer().(page.Layer)}
			r.m.SetPageLayer(w)
			s := r.cache(bounded(3, 1))
			r.run(func(c *machine.Ctx) {
				r.spare(c, s, 5)
				r.op(c, func() { end(c, s) })
			})
			want := []int{0, 1, 2, 3, 4}
			if name == "percpu" { // the array of three gave 2 and 3 up, the others waited
				want = []int{2, 3, 0, 1, 4}
			}
			if diff := cmp.Diff(want, w.back); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
			r.allBack()
			r.titles()
		}
	}
}

// TestReapChoice: the cache with the most pages in free slabs is taken, where those of
// constructed objects, and of slabs of several pages, count four fifths.
func TestReapChoice(t *testing.T) {
	type kind struct {
		slabs, order int
		ctor         bool
	}
	tests := []struct {
		name string
		of   []kind
		want []int // free slabs that are left
		got  int
	}{
		{"more slabs", []kind{{2, 0, false}, {3, 0, false}}, []int{2, 1}, 2},
		{"the first of two alike", []kind{{3, 0, false}, {3, 0, false}}, []int{1, 3}, 2},
		{"more pages in fewer slabs", []kind{{3, 0, false}, {2, 1, false}}, []int{1, 2}, 2},
		{"still more", []kind{{2, 0, false}, {2, 1, false}}, []int{2, 1}, 2},
		{"constructed", []kind{{3, 0, true}, {3, 0, false}}, []int{3, 1}, 2},
		// 10 slabs, 8 when reduced once, and less than 7 when twice.
		{"enough to look no further", []kind{{10, 0, false}, {12, 0, false}}, []int{5, 12}, 5},
		{"reduced below that", []kind{{10, 0, true}, {9, 0, false}}, []int{10, 4}, 5},
		{"reduced twice", []kind{{5, 1, true}, {7, 0, false}}, []int{5, 3}, 4},
		{"reduced once each", []kind{{5, 1, false}, {7, 0, false}}, []int{2, 7}, 6},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRigOf(t, variant("threelists"), func(c *machine.Config) { c.Pages = 64 })
			var caches []impls.Cache
			for _, k := range tt.of {
				spec := bounded(-1, -1)
				spec.Order, spec.Ctor = k.order, k.ctor
				caches = append(caches, r.cache(spec))
			}
			r.run(func(c *machine.Ctx) {
				for i, k := range tt.of {
					r.spare(c, caches[i], k.slabs)
				}
				r.reap(c, 0)
				r.reap(c, tt.got)
			})
			got := make([]int, len(tt.of))
			for _, b := range r.check().Slabs {
				got[b.Cache]++
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			r.titles()
		})
	}
}

// thirteen makes three caches more than a reap looks at.
func thirteen(t *testing.T) (r *rig, caches []impls.Cache) {
	r = newRigOf(t, variant("threelists"), func(c *machine.Config) { c.Pages = 64 })
	for range 13 {
		caches = append(caches, r.cache(small(64, 1)))
	}
	return r, caches
}

// TestReapClock: ten caches are looked at, and the next search begins behind them; a cache
// that was destroyed is not counted.
func TestReapClock(t *testing.T) {
	r, caches := thirteen(t)
	r.run(func(c *machine.Ctx) {
		r.op(c, func() {
			if err := caches[3].Destroy(c); err != nil {
				t.Error(err)
			}
		})
		r.spare(c, caches[10], 1)
		r.spare(c, caches[11], 4)
		r.spare(c, caches[2], 2)
		r.reap(c, 0) // 0 to 10: these have grown
		r.reap(c, 1) // 11 has grown, and then 2
		r.reap(c, 2) // from 9 on: 10, and 11, which has more
	})
	if n := len(r.check().Slabs); n != 4 {
		t.Errorf("%d slabs", n)
	}
	r.titles()
}

// TestReapDead: caches that were destroyed are not among the ten.
func TestReapDead(t *testing.T) {
	r, caches := thirteen(t)
	r.run(func(c *machine.Ctx) {
		for _, s := range caches[3:6] {
			r.op(c, func() {
				if err := s.Destroy(c); err != nil {
					t.Error(err)
				}
			})
		}
		r.spare(c, caches[2], 2)
		r.spare(c, caches[11], 4)
		r.reap(c, 0)
		r.reap(c, 2)
	})
	r.titles()
}

// TestReapArray: what this CPU's array holds goes back to the slabs first, but not in a cache
// that is passed by.
func TestReapArray(t *testing.T) {
	for _, name := range arrayed {
		r := newRigOf(t, variant(name), nil)
		s := r.cache(bounded(4, 2))
		r.run(func(c *machine.Ctx) {
			r.spare(c, s, 3)
			for _, want := range []struct{ pages, waiting int }{{0, 3}, {2, 0}} {
				r.reap(c, want.pages)
				if n := len(r.check().Arrays[0].Objects); n != want.waiting {
					t.Errorf("%s: %d objects in the array, want %d", name, n, want.waiting)
				}
			}
		})
		r.titles()
	}
}

// TestReapGrowing: a cache that is making a slab is passed by, whatever it has, and another
// one is taken. A handler empties slabs while the page is asked for.
func TestReapGrowing(t *testing.T) {
	r := newRigOf(t, variant("threelists"), nil)
	s, other := r.cache(small(64, 1)), r.cache(small(64, 1))
	var a, b impls.Addr
	h := &machine.Handler{Name: "irq0", Pos: 50, Body: func(c *machine.Ctx) {
		c.BeginLine(50, [2]int32{})
		r.drop(c, s, a)
		r.drop(c, s, b)
		for range 2 {
			if n := r.inst.(impls.Reaper).Reap(c); n != 1 {
				t.Errorf("%d pages reaped, want one of the cache that does not grow", n)
			}
		}
		c.EndLine(machine.After)
	}}
	r.m.AddHandler(h)
	ch := &atPages{}
	r.m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		r.spare(c, other, 2)
		r.reap(c, 0) // it has grown
		a, b = r.alloc(c, s, 0), r.alloc(c, s, 0)
		ch.h = h
		r.free(c, s, r.alloc(c, s, 0))
		r.reap(c, 0) // now s has
		r.reap(c, 2)
	})
	r.finish(ch)
	if h.Delivered() != 1 {
		t.Error("no interrupt")
	}
	r.titles()
}
