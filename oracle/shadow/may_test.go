package shadow_test

import (
	"fmt"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/oracle"
)

const (
	four    = "cache c flags=poison,redzone,sanity,user objects=4 size=64; " + two
	objects = debugcheck.TitleObjectsWrong
	order   = debugcheck.TitleSlabOrder
	remains = debugcheck.TitleRemaining
	slabOut = debugcheck.TitleSlabRemaining
)

// slubMay are programs about what is carried out and what is skipped. Objects of 64 bytes
// with all flags lie at 8, 168 and 328 in their slab, so that 480 turns the address of the
// last into that of the one before.
var slubMay = []program{
	{"fields without checks", zOnly + two + "flip slab.inuse of a; " +
		"flip slab.objects of a bits=4; flip slab.frozen of a; flip slab.freelist of a byte=1",
		nil, []int{3, 4, 5, 6}},
	{"fields of a retired slab", retires + "flip slab.inuse of a; flip slab.frozen of a",
		[]string{"5: " + body}, []int{6, 7}},
	{"bits beyond a field", fzpu + two + "flip slab.inuse of a bits=65537; " +
		"flip slab.objects of a bits=32772; flip slab.frozen of a bits=3", nil, []int{3, 4, 5}},
	{"bits beyond a word", "machine word=16 pages=8; cache c flags=sanity objects=2 size=8; " +
		two + "flip cache.nr_partial c bits=65537; free c a; flip slab.freelist of a bits=65538",
		nil, []int{3, 5}},
	{"no objects, or as many as there are", fzpu + two + "flip slab.objects of a bits=3; " +
		"flip slab.objects of a bits=4; flip slab.objects of a bits=4; validate c", nil, []int{3}},
	{"the head to another object", fzpu + two + "flip slab.freelist of a bits=480", nil, []int{3}},
	{"the head when there is none", fzpu + three + "flip slab.freelist of a bits=480; " +
		"validate c", []string{"5: " + pointer}, nil},
	{"a link to another object", fzpu + two + "free c a; flip freeptr of a bits=480", nil,
		[]int{4}},
	{"a live object's link to another object", fzpu + two + "flip freeptr of a bits=480; " +
		"free c a", nil, nil},
	{"a link inside", fOnly + two + "free c a; flip freeptr of a bits=192; flip freeptr of a; " +
		"validate c", []string{"6: " + chain, "6: " + count}, []int{4}},
	{"a link inside without checks", zOnly + two + "free c a; flip freeptr of a byte=1", nil,
		[]int{4}},
	{"a link outside without checks", pOnly + two + "free c a; flip freeptr of a byte=1", nil,
		[]int{4}},
	{"beside a link without checks", "cache c flags=poison,redzone,user objects=3 size=64; " +
		three + "free c a; underrun b 81; underrun b 80; validate c",
		[]string{"7: " + padding, "7: " + left}, []int{5}},
	{"past the last slot", fzpu + three + "overrun d 100; free c d; freeagain c d; " +
		"freeagain c d",
		[]string{"5: " + slabEnd, "5: " + right, "6: " + padding, "6: " + pointer}, nil},
	{"a wrong count waits", four + "flip slab.inuse of a; e = alloc c; shrink c; validate c; " +
		"e = alloc c; shrink c", []string{"6: " + count}, []int{4}},
	{"a wrong count at a free", four + "flip slab.inuse of a; free c a; e = alloc c; shrink c",
		[]string{"4: " + count}, nil},
	{"misuse beside a wrong count", four + "flip slab.inuse of a; overrun a 1; free c a; " +
		"free c b", []string{"5: " + count, "5: " + right}, nil},
	{"a wrong count put right", four + "flip slab.inuse of a; flip slab.inuse of a; e = alloc c",
		nil, nil},
	{"a count that is seen", fzpu + two + "flip slab.inuse of a; e = alloc c",
		[]string{"4: " + maxInuse}, nil},
	{"a wrong number waits", four + "flip slab.objects of a bits=7; e = alloc c; validate c; " +
		"e = alloc c; f = alloc c",
		[]string{"5: " + chain, "5: " + objects, "5: " + count, "5: " + left}, []int{4}},
	{"a wrong number alone", four + "d = alloc c; e = alloc c; free c a; " +
		"flip slab.objects of d bits=7; validate c; e = alloc c", []string{"7: " + objects}, nil},
	{"what a cut chain lost", fzpu + three + "free c a; free c b; flip freeptr of b byte=1; " +
		"validate c; freeagain c a; freeagain c a; e = alloc c; validate c",
		[]string{"7: " + chain, "7: " + count, "7: " + left, "8: " + right}, nil},
	{"a wrong number at a free", four + "flip slab.objects of a bits=7; free c a; e = alloc c",
		[]string{"4: " + chain, "4: " + objects, "4: " + count}, nil},
	{"a wrong counter", fzpu + two + "flip cache.nr_slabs c; verify a; fill a; free c a; " +
		"e = alloc c; validate c; flip cache.nr_slabs c; free c a", []string{"8: " + slabs},
		[]int{6, 7}},
	{"from a cache that is not debugged", "cache c objects=3 size=64; " +
		"cache d flags=sanity size=32; " + two + "freewrong d a", nil, []int{3}},
	{"again without checks", zOnly + two + "free c a; freeagain c a; free c b; freeagain c b",
		[]string{"6: " + few}, []int{4}},
	{"retired while empty", fzpu + "a = alloc c; free c a; writefreed a; e = alloc c",
		[]string{"4: " + body}, nil},
	{"end of a slab without checks", "cache c flags=poison objects=3 size=64; " + two +
		"flip slabpad of a; free c a; e = alloc c; validate c", []string{"6: " + slabEnd}, nil},
	{"in use", fzpu + two + "destroy c", []string{"3: " + remains}, nil},
	{"in use, damaged", fzpu + three + "e = alloc c; overrun e 1; destroy c",
		[]string{"6: " + remains}, nil},
}

// sizesMay are the same by size.
var sizesMay = []program{
	{"the size asked for", "machine debug=\"FZPU\"; a = malloc 50; b = malloc 50; " +
		"flip origsize of a; free a; flip origsize of a; e = malloc 50", nil, []int{3}},
	{"a tail that is written over", "machine debug=\"FZPU\"; a = malloc 50; b = malloc 50; " +
		"overrun a 1; free a; e = malloc 50", nil, nil},
	{"a chain cut in 6.12", "machine debug=\"FZPU\" rules=6.12; a = malloc 50; b = malloc 50; " +
		"d = malloc 50; free a; free b; flip freeptr of b; d = realloc d 60; free d; " +
		"freeagain a", []string{"8: " + chain, "8: " + count}, []int{9}},
	{"realloc without memory", "machine debug=\"FZPU\" pages=2; a = malloc 64; overrun a 1; " +
		"b = realloc a 5000; free a", []string{"4: " + right}, nil},
}

// slabMay are those of SLAB.
var slabMay = []program{
	{"fields that are not stored", fzpu + two + "flip slab.objects of a bits=4; " +
		"flip slab.frozen of a; flip cache.nr_partial c; flip slab.freelist of a bits=2; " +
		"flip slab.freelist of a bits=65537; d = alloc c; flip slab.freelist of a", nil,
		[]int{3, 4, 5, 6, 7, 9}},
	{"a wrong count waits for a validation", later + fzpu + two + "flip slab.inuse of a; " +
		"e = alloc c; free c a; freeagain c a; validate c; flip slab.inuse of a; validate c; " +
		"free c a", []string{"7: " + list}, []int{4, 5, 6}},
	{"a second free beside a wrong count", later + fzpu + two + "free c b; " +
		"flip slab.inuse of a; freeagain c b", nil, []int{5}},
	{"a second free that nobody sees", pOnly + two + "free c a; freeagain c a", nil, []int{4}},
	{"a count beyond its field", later + fzpu + two + "flip slab.inuse of a bits=65536", nil,
		[]int{3}},
	{"red words without poison", fz + two + "free c a; flip leftred of a; e = alloc c",
		[]string{"5: " + either}, nil},
	{"all of a free object in a validation", zp + two + "free c a; flip leftred of a; " +
		"flip object of a byte=63; validate c; validate c",
		[]string{"6: " + start, "6: " + corrupt, "7: " + start, "7: " + corrupt}, nil},
	{"all of a free object in a validation, 2.6", later + zp + two + "free c a; " +
		"flip leftred of a; flip object of a byte=63; validate c",
		[]string{"6: " + corrupt, "6: " + start}, nil},
	{"in use", fzpu + two + "destroy c", []string{"3: " + slabOut}, nil},
	{"in use, 2.6", later + fzpu + two + "overrun a 1; destroy c", nil, nil},
}

// oneList are those of the one list of 2001, which is tested for its order.
var oneList = []program{
	{"partial, it says full", fzpu + two + "flip slab.inuse of a; validate c",
		[]string{"4: " + order}, nil},
	{"full, it says partial", fzpu + three + "e = alloc c; flip slab.inuse of a; validate c",
		[]string{"6: " + order}, nil},
	{"all say full", fzpu + three + "e = alloc c; flip slab.inuse of e bits=2; validate c",
		[]string{"6: " + order}, nil},
	{"partial behind free", fzpu + three + "e = alloc c; flip slab.inuse of a bits=3; " +
		"validate c", []string{"6: " + order}, nil},
	{"in order", fzpu + three + "e = alloc c; f = alloc c; overrun f 1; free c e; validate c",
		[]string{"8: " + either}, nil},
	{"still in order", fzpu + three + "e = alloc c; f = alloc c; flip slab.inuse of e bits=3; " +
		"validate c", []string{"7: " + list}, nil},
}

// TestMay: what the rules leave open is skipped, what they say is done.
func TestMay(t *testing.T) {
	for _, f := range []struct {
		name     string
		programs []program
	}{
		{slub, slubMay}, {slub, sizesMay}, {"slab-2001-threelists", slabMay},
		{"slab-2001-onelist", slabMay}, {"slab-2001-onelist", oneList},
	} {
		for _, p := range f.programs {
			t.Run(f.name+"/"+p.name, func(t *testing.T) { p.test(t, f.name) })
		}
	}
}

// TestMayEnd: a head and a link may not become the end of the chain, which nothing tells
// from a full slab.
func TestMayEnd(t *testing.T) {
	start := fzpu + two
	res := runner.Run(compile(t, start), subject(t, slub), oracle.Options{})
	base := res.Events[0].Addr &^ 4095
	for _, p := range []program{
		{"the head", start + fmt.Sprintf("flip slab.freelist of a bits=%d", base+328^1), nil,
			[]int{3}},
		{"a link", start + fmt.Sprintf("free c a; flip freeptr of a bits=%d", base+328^1), nil,
			[]int{4}},
		{"the last link", start + fmt.Sprintf("d = alloc c; free c a; flip freeptr of a bits=%d",
			base+168^1), nil, []int{5}},
	} {
		t.Run(p.name, func(t *testing.T) { p.test(t, slub) })
	}
}
