package slab_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// coloured are the variants of the axis colour, the locked one first.
var coloured = []string{"colour-locked", "colour-racy", "colour-unclamped"}

// TestColours: each slab has the next colour, wrapping. Under the lock the first is 0 and a
// page that is refused has used one up; where it is taken when the page is there the first
// is 1, and nothing is used up.
func TestColours(t *testing.T) {
	for _, name := range append([]string{"threelists", "onelist"}, coloured...) {
		t.Run(name, func(t *testing.T) {
			first, refused := 0, 1
			if name == "colour-racy" || name == "colour-unclamped" {
				first, refused = 1, 0
			}
			r := newRigOf(t, variant(name), nil)
			s := r.cache(small(1200, 3)) // 448 left: 7 colours
			want := r.slabsOfThree(s, first, refused)
			snap := r.check()
			var got []int
			for _, b := range snap.Slabs {
				got = append(got, b.Colour)
				if b.First != b.Addr+48+uint64(b.Colour)*64 {
					t.Errorf("page %d: first at +%d, colour %d", b.Page, b.First-b.Addr, b.Colour)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			r.titles()
		})
	}
}

// slabsOfThree makes twelve slabs, with a refused page before the fifth, and returns the
// colours that they should have: from first on, less what the refused page has used up.
func (r *rig) slabsOfThree(s impls.Cache, first, refused int) (want []int) {
	r.run(func(c *machine.Ctx) {
		for n := range 12 {
			if n == 4 {
				r.op(c, func() {
					c.FailPage(1)
					if r.got(c, s, s.Alloc(c, 0)) != 0 {
						r.t.Error("an object though the page was refused")
					}
				})
				first += refused
			}
			for range 3 {
				r.alloc(c, s, 0)
			}
			want = append(want, (first+n)%7)
		}
	})
	return want
}

// TestOneColour: a cache that has room for one colour at most gives every slab colour 0.
func TestOneColour(t *testing.T) {
	for _, name := range coloured {
		for _, size := range []uint64{oneColour, noColour} {
			r := newRigOf(t, variant(name), nil)
			s := r.cache(small(size, 1))
			r.run(func(c *machine.Ctx) {
				for range 4 {
					r.alloc(c, s, 0)
				}
			})
			for _, b := range r.check().Slabs {
				if b.Colour != 0 {
					t.Errorf("%s: colour %d of %d", name, b.Colour, b.Colours)
				}
			}
			r.titles()
		}
	}
}

// Sizes of objects that leave room for so many colours of 64 bytes beside one object and
// 48 bytes in front of it.
const (
	twoColours = 4096 - 48 - 2*64
	oneColour  = 4096 - 48 - 64
	noColour   = 4096 - 48
)

// turns lets other CPUs run at points of the next colour, as a plan says; it counts the
// ways on that each such point had.
type turns struct {
	plan  []int // way at each point of the next colour; beyond it the CPU goes on
	ways  []int
	tasks []*machine.Ctx
	now   int
}

func (p *turns) Choose(c *machine.Ctx, at machine.Point) machine.Action {
	if at.Field.Name() != "cache.colour_next" {
		return machine.Action{}
	}
	var others []machine.Action
	for _, x := range p.tasks {
		a := machine.Action{Kind: machine.SwitchTo, Task: x}
		if x != c && c.Allowed(at, a) {
			others = append(others, a)
		}
	}
	way := 0
	if p.now < len(p.plan) {
		way = p.plan[p.now]
	}
	p.now++
	p.ways = append(p.ways, len(others))
	if way == 0 {
		return machine.Action{}
	}
	return others[way-1]
}

// next makes the plan after this one with at most bound switches; false when there is none.
func (p *turns) next(bound int) bool {
	plan := append(p.plan, make([]int, len(p.ways)-len(p.plan))...)
	for i := len(plan) - 1; i >= 0; i-- {
		used := 0
		for _, way := range plan[:i] {
			used += min(way, 1)
		}
		if plan[i] < p.ways[i] && used < bound {
			plan[i]++
			p.plan = plan[:i+1]
			return true
		}
	}
	return false
}

// seen is what the schedules of a search showed.
type seen struct {
	schedules int
	title     bool // the step was noted
	outside   bool // an object left its slab
	double    bool // two slabs in succession had one colour
	skipped   bool // a colour was left out
}

// search lets each of cpus tasks make slabs of one object under every schedule of at most
// bound switches at points of the next colour.
func (r *rig) search(size uint64, cpus, each, bound int) (out seen) {
	p := &turns{}
	for more := true; more; more = p.next(bound) {
		r.reset()
		s := r.cache(small(size, 1))
		p.ways, p.tasks, p.now = p.ways[:0], p.tasks[:0], 0
		for i := range cpus {
			p.tasks = append(p.tasks, r.m.AddTask(fmt.Sprint("cpu", i), i, i*each, true,
				func(c *machine.Ctx) {
					for k := range each {
						c.BeginLine(i*each+k, [2]int32{})
						r.got(c, s, s.Alloc(c, 0))
						c.EndLine(i*each + k + 1)
					}
				}))
		}
		r.finish(p)
		out.schedules++
		out.look(r)
	}
	return out
}

// look adds what one run left.
func (o *seen) look(r *rig) {
	for _, f := range r.m.Faults() {
		if f.Title != fault.ColourRange {
			r.t.Fatal(f)
		}
		o.title = true
	}
	r.inst.Snapshot(&r.snap)
	var colours []int
	for _, b := range r.snap.Slabs {
		o.outside = o.outside || b.First+r.snap.Caches[0].Size > b.Addr+uint64(r.m.PageSize)
		colours = append(colours, b.Colour)
	}
	slices.Sort(colours)
	if n := len(colours); n == 2 {
		o.double = o.double || colours[0] == colours[1]
	} else if n == 3 {
		o.skipped = o.skipped || !slices.Contains(colours, 0) || !slices.Contains(colours, 1)
	}
}

// TestColourBounds: how many switches it takes until the colour that is read is not below
// the limit, and until an object leaves its slab: fewer do not. With the clamp nothing
// does, and under the lock the next colour has no points at all.
func TestColourBounds(t *testing.T) {
	tests := []struct {
		size           uint64
		cpus, each     int
		title, outside int // bounds
	}{
		{twoColours, 2, 2, 2, 4},
		{oneColour, 2, 2, 2, 4},
		{noColour, 2, 2, 2, 2},
		{twoColours, 3, 1, 2, 3},
		{oneColour, 3, 1, 2, 3},
		{noColour, 3, 1, 2, 2},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%d/%d", tt.size, tt.cpus), func(t *testing.T) {
			cpus := func(c *machine.Config) { c.CPUs = tt.cpus }
			r := newRigOf(t, variant("colour-unclamped"), cpus)
			for bound := range 5 {
				got := r.search(tt.size, tt.cpus, tt.each, bound)
				if got.title != (bound >= tt.title) || got.outside != (bound >= tt.outside) {
					t.Errorf("bound %d: %+v", bound, got)
				}
			}
			r = newRigOf(t, variant("colour-racy"), cpus)
			if got := r.search(tt.size, tt.cpus, tt.each, 4); got.title || got.outside ||
				got.schedules < 100 {
				t.Errorf("with the clamp: %+v", got)
			}
			r = newRigOf(t, variant("colour-locked"), cpus)
			if got := r.search(tt.size, tt.cpus, tt.each, 4); got.schedules != 1 || got.title {
				t.Errorf("locked: %+v", got)
			}
		})
	}
}

// TestColourDoubles: without the lock two slabs get one colour, or a colour is left out.
func TestColourDoubles(t *testing.T) {
	for _, name := range coloured {
		two := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 2 })
		three := newRigOf(t, variant(name), func(c *machine.Config) { c.CPUs = 3 })
		double := two.search(1200, 2, 1, 1).double
		skipped := three.search(twoColours, 3, 1, 2).skipped
		if racy := name != "colour-locked"; double != racy || skipped != racy {
			t.Errorf("%s: doubles %v, gaps %v", name, double, skipped)
		}
	}
}
