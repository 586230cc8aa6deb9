package slab_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// A listed is the one list of a cache after operations, and its first slab that is not
// full.
type listed struct {
	name    string
	objects int
	ops     string
	want    []int
	first   int
}

// TestOneList plays operations as TestLists does, "s" shrinks, and looks at the list
// and at the first slab that is not full afterwards. The repair as it was mailed
// changes nothing.
func TestOneList(t *testing.T) {
	tests := []listed{
		{"first object", 2, "a", []int{0}, 0},
		{"full", 2, "aa", []int{0}, -1},
		{"full before partial", 2, "aaa", []int{0, 1}, 1},
		{"full to partial, all full", 2, "aaaa0", []int{1, 0}, 0},
		{"the last one stays", 2, "aaaa2", []int{0, 1}, 1},
		{"full to partial before the others", 2, "aaaaaa02", []int{2, 1, 0}, 1},
		{"full to partial and adjacent", 2, "aaaaaa024", []int{2, 1, 0}, 2},
		{"partial to full", 2, "aaaaaa02a", []int{2, 1, 0}, 0},
		{"partial to free, the first", 2, "aaa2", []int{0, 1}, 1},
		{"partial to free, the head", 2, "aaaa0123", []int{0, 1}, 0},
		{"partial to free, not the first", 2, "aaaaaa0243", []int{2, 0, 1}, 2},
		{"the one emptied first is the first", 2, "aaaaaa012345", []int{0, 1, 2}, 0},
		{"free slabs in order", 2, "aaaaaa012345aaa", []int{0, 1, 2}, 1},
		{"one object: full to free", 1, "aa0", []int{1, 0}, 0},
		{"one object: free to full", 1, "aa0a", []int{1, 0}, -1},
		{"one object: last in front", 1, "aaa012", []int{2, 1, 0}, 2},
		{"three objects stay partial", 3, "aaa01", []int{0}, 0},
		{"shrink takes the first that is not full", 2, "aaa2s", []int{0}, -1},
		{"shrink takes all free ones", 2, "aaaaaa0123s", []int{2}, -1},
		{"shrink stops at a partial one", 2, "aaaaaa012s", []int{2, 1}, 1},
		{"a slab after shrink", 2, "aaa2sa", []int{0, 1}, 1},
		{"all gone", 2, "aaa012s", nil, -1},
	}
	for _, name := range []string{"onelist", "onelist-lifo-posted"} {
		t.Run(name, func(t *testing.T) { playLists(t, name, tests) })
	}
}

// TestOneListLIFO: an emptied slab that is the last, or that a free one follows, stays
// where it is; before a partial one it goes to the tail.
func TestOneListLIFO(t *testing.T) {
	playLists(t, "onelist-lifo", []listed{
		{"full before partial", 2, "aaa", []int{0, 1}, 1},
		{"full to partial before the others", 2, "aaaaaa02", []int{2, 1, 0}, 1},
		{"the last is emptied", 2, "aaa2", []int{0, 1}, 1},
		{"the last is emptied, not the first", 2, "aaaa021", []int{1, 0}, 1},
		{"a partial one follows", 2, "aaaaaa0243", []int{2, 0, 1}, 2},
		{"a partial one follows the first", 2, "aaaa023", []int{0, 1}, 0},
		{"a partial one and a free one follow", 2, "aaaaaa02415", []int{1, 0, 2}, 1},
		{"a free one follows", 2, "aaaa0123", []int{1, 0}, 1},
		{"a free one follows the first, full ones before", 2, "aaaaaa0123", []int{2, 1, 0}, 1},
		{"a free one follows, not the first", 2, "aaaaaa012435", []int{2, 1, 0}, 2},
		{"the one emptied last is the first", 2, "aaaaaa012345", []int{2, 1, 0}, 2},
		{"the one emptied last is used next", 2, "aaaaaa012345aaa", []int{2, 1, 0}, 1},
		{"one object: full to free", 1, "aa0", []int{1, 0}, 0},
		{"one object: last in front", 1, "aaa012", []int{2, 1, 0}, 2},
		{"shrink takes all free ones", 2, "aaaaaa0123s", []int{2}, -1},
		{"shrink stops at a partial one", 2, "aaaaaa012s", []int{2, 1}, 1},
		{"all gone", 2, "aaa012s", nil, -1},
	})
}

func playLists(t *testing.T, name string, tests []listed) {
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRigOf(t, variant(name), nil)
			s := r.cache(small(64, tt.objects))
			r.run(func(c *machine.Ctx) { r.play(c, s, tt.ops) })
			snap := r.check()
			if diff := cmp.Diff(tt.want, order(snap, impls.ListAny)); diff != "" {
				t.Error(diff)
			}
			if got := snap.Caches[0].FirstNotFull; got != tt.first {
				t.Errorf("the first slab that is not full is %d, want %d", got, tt.first)
			}
			r.titles()
		})
	}
}

// play allocates for each a, shrinks for each s, and frees the object allocated so
// manyth for each digit.
func (r *rig) play(c *machine.Ctx, s impls.Cache, ops string) (objs []impls.Addr) {
	for _, op := range ops {
		switch op {
		case 'a':
			objs = append(objs, r.alloc(c, s, 0))
		case 's':
			r.op(c, func() { s.Shrink(c) })
		default:
			r.free(c, s, objs[op-'0'])
		}
		r.check()
	}
	return objs
}

// TestReuse: where no other slab is partial, what was freed last comes next, always
// with three lists and with the repaired one; with one list that is not, or in the words
// of the mail, not when a slab of several objects was emptied and another free slab
// exists. Only the first of these does not promise it.
func TestReuse(t *testing.T) {
	each(t, func(t *testing.T, v *impls.Variant) {
		tail := forgets(v)
		promises := v.Caps.Has(impls.CapReuseLIFO)
		found := v.Finds.Consequence == string(fault.ReuseOrder)
		if promises == (v.Name == "slab-2001-onelist") || found != (promises && tail) {
			t.Error("the wrong promise")
		}
		for objects := 1; objects <= 3; objects++ {
			t.Run(fmt.Sprint(objects), func(t *testing.T) {
				r := newRigOf(t, v, nil)
				s := r.cache(small(64, objects))
				broken, kept := 0, 0
				r.run(func(c *machine.Ctx) { broken, kept = r.reuse(c, s, tail) })
				if kept == 0 || (broken > 0) != (tail && objects > 1) {
					t.Errorf("reused %d times, not %d times", kept, broken)
				}
				r.titles()
			})
		}
	})
}

// reuse allocates and frees at random, and after each free allocates. It counts what
// came back at once and what did not where no other slab was partial.
func (r *rig) reuse(c *machine.Ctx, s impls.Cache, tail bool) (broken, kept int) {
	var objs []impls.Addr
	rnd := uint32(1)
	for range 4000 {
		rnd = rnd*1664525 + 1013904223
		n := int(rnd >> 16)
		if want := n / 64 % 8; len(objs) == 0 || len(objs) < want && n%4 != 0 {
			objs = append(objs, r.alloc(c, s, 0))
			continue
		}
		i := n / 4 % len(objs)
		a := objs[i]
		r.free(c, s, a)
		objs[i] = objs[len(objs)-1]
		objs = objs[:len(objs)-1]
		if n%3 == 0 {
			continue
		}
		promised, lost := r.promise(a, tail)
		b := r.alloc(c, s, 0)
		objs = append(objs, b)
		switch {
		case !promised:
		case (a == b) == lost:
			r.t.Errorf("%#x freed, %#x allocated, lost is %v", a, b, lost)
		case lost:
			broken++
		default:
			kept++
		}
	}
	return broken, kept
}

// promise says whether no slab but that of a, which was just freed, is partial, and
// whether a must not come next for all that.
func (r *rig) promise(a impls.Addr, tail bool) (promised, lost bool) {
	snap := r.check()
	promised, free, emptied := true, 0, false
	for _, b := range snap.Slabs {
		own := r.m.PageOf(a).PFN() == b.Page
		if b.Inuse == 0 {
			free++
		}
		promised = promised && (own || b.Inuse == 0 || b.Inuse == b.Objects)
		emptied = emptied || own && b.Inuse == 0 && b.Objects > 1
	}
	return promised, tail && emptied && free > 1
}
