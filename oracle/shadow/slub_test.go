package shadow_test

import (
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/oracle"
)

// A program is one on a real subject, and the reports that its lines make: "line: title",
// with lines counted from 1 behind the declarations. What is wanted follows from the rules
// of the kernel; that the shadow raises nothing says that it predicts exactly that.
type program struct {
	name string
	text string
	want []string
	// skips are the lines that are skipped, because the rules leave open what follows.
	skips []int
}

// Titles, short.
const (
	left     = debugcheck.TitleLeftRedzone
	right    = debugcheck.TitleRightRedzone
	tail     = debugcheck.TitleKmallocRedzone
	align    = debugcheck.TitleAlignPadding
	body     = debugcheck.TitlePoison
	bodyEnd  = debugcheck.TitleEndPoison
	padding  = debugcheck.TitleObjectPadding
	slabEnd  = debugcheck.TitlePadding
	pointer  = debugcheck.TitleFreepointer
	chain    = debugcheck.TitleFreechain
	head     = debugcheck.TitleFreelistHead
	count    = debugcheck.TitleCountWrong
	maxInuse = debugcheck.TitleInuseMax
	maxAll   = debugcheck.TitleObjectsMax
	disabled = debugcheck.TitleSlabDisabled
	already  = debugcheck.TitleAlreadyFree
	invalid  = debugcheck.TitleInvalidPointer
	few      = debugcheck.TitleTooFew
	wrong    = debugcheck.TitleWrongCache
	stray    = debugcheck.TitleNotSlab
	partials = debugcheck.TitleNrPartial
	slabs    = debugcheck.TitleNrSlabs
)

const (
	newer = "machine rules=6.12; "
	fzpu  = "cache c flags=poison,redzone,sanity,user objects=3 size=64; "
	fzp   = "cache c flags=poison,redzone,sanity objects=3 size=64; "
	zOnly = "cache c flags=redzone objects=3 size=64; "
	two   = "a = alloc c; b = alloc c; "
	three = two + "d = alloc c; "
)

// slubPrograms are those of SLUB, under the rules of 6.1 unless they say otherwise.
var slubPrograms = []program{
	{"overrun is refused once", fzpu + two + "overrun a 2; free c a; freeagain c a; " +
		"validate c; a = alloc c", []string{"4: " + right}, nil},
	{"underrun", fzpu + two + "underrun b 3; free c b; freeagain c b", []string{"4: " + left}, nil},
	{"6.1 stops at the first region", fzpu + two + "underrun b 1; overrun b 1; free c b; " +
		"freeagain c b; validate c", []string{"5: " + left, "6: " + right}, nil},
	{"6.12 goes on", newer + fzpu + two + "underrun b 1; overrun b 1; free c b; freeagain c b; " +
		"validate c", []string{"5: " + left, "5: " + right}, nil},
	{"twice the same bits is no damage", fzpu + two + "overrun a 1; overrun a 1; free c a", nil,
		nil},
	{"first and last wrong byte", fzpu + two + "flip rightred of a byte=1; " +
		"flip rightred of a byte=5; validate c; free c a", []string{"5: " + right}, nil},
	{"validation goes by slab and object", fzpu + three + "e = alloc c; f = alloc c; " +
		"overrun b 1; overrun d 1; overrun f 1; overrun e 1; validate c; validate c; validate c",
		[]string{"10: " + right, "10: " + right, "11: " + right, "11: " + right}, nil},
	{"poison, and its end", fzpu + two + "free c a; writefreed a; validate c; validate c; " +
		"validate c", []string{"5: " + body, "6: " + bodyEnd}, nil},
	{"poison, and its end at once", newer + fzpu + two + "free c a; writefreed a; validate c; " +
		"validate c", []string{"5: " + body, "5: " + bodyEnd}, nil},
	{"end of the poison alone", fzpu + two + "free c a; flip object of a byte=63; validate c",
		[]string{"5: " + bodyEnd}, nil},
	{"byte before the end", fzpu + two + "free c a; flip object of a byte=62 bits=128; " +
		"validate c", []string{"5: " + body}, nil},
	{"no poison in the body", "cache c flags=poison,redzone,rcu,sanity objects=3 size=64; " +
		two + "free c a; writefreed a; validate c; a = alloc c", nil, nil},
	{"retired at an allocation", fzpu + two + "free c a; writefreed a; e = alloc c; " +
		"validate c; free c b; f = alloc c; shrink c",
		[]string{"5: " + body, "6: " + slabs, "7: " + disabled}, nil},
	{"two slabs retired by one allocation", fzpu + three + "e = alloc c; free c a; free c e; " +
		"writefreed a; writefreed e; f = alloc c", []string{"9: " + body, "9: " + body}, nil},
	{"the first object of a slab only", fzpu + two + "free c b; free c a; writefreed b; " +
		"e = alloc c; f = alloc c", []string{"7: " + body}, nil},
	{"soft padding", fzpu + two + "flip padding of a byte=1; free c a; e = alloc c",
		[]string{"4: " + padding}, nil},
	{"padding is not soft", newer + fzpu + two + "flip padding of a byte=1; free c a; " +
		"freeagain c a", []string{"4: " + padding}, nil},
	{"soft padding at an allocation", fzpu + two + "free c a; flip padding of a; e = alloc c; " +
		"validate c", []string{"5: " + padding}, nil},
	{"padding retires", newer + fzpu + two + "free c a; flip padding of a; e = alloc c; " +
		"validate c", []string{"5: " + padding, "6: " + slabs}, nil},
	{"soft padding, then what is behind it", fzpu + two + "flip padding of a; " +
		"flip freeptr of a byte=2; free c a; freeagain c a",
		[]string{"5: " + padding, "5: " + pointer}, nil},
	{"alignment padding", "cache c flags=poison,sanity objects=3 size=60; " + two +
		"overrun a 1; free c a; e = alloc c", []string{"4: " + align}, nil},
	{"end of the poison retires", fzpu + two + "free c a; flip object of a byte=63; e = alloc c; " +
		"validate c", []string{"5: " + bodyEnd, "6: " + slabs}, nil},
	{"padding without poison is nobody's", fz + two + "flip padding of a; free c a; validate c",
		nil, nil},
	{"alignment padding before poison", newer + "cache c flags=poison,sanity objects=3 size=60; " +
		two + "free c a; writefreed a; flip rightred of a; validate c",
		[]string{"6: " + align, "6: " + body, "6: " + bodyEnd}, nil},
	{"poison before padding", newer + fzpu + two + "free c a; flip padding of a; " +
		"flip object of a byte=63; validate c", []string{"6: " + bodyEnd, "6: " + padding}, nil},
	{"alignment padding of a free object", "cache c flags=poison,sanity objects=3 size=60; " + two +
		"free c a; flip rightred of a byte=1; validate c; flip rightred of a byte=1; " +
		"e = alloc c; validate c", []string{"5: " + align, "7: " + align}, nil},
	{"alignment padding is not soft", newer + "cache c flags=poison,sanity objects=3 size=60; " +
		two + "overrun a 1; free c a; freeagain c a", []string{"4: " + align}, nil},
	{"slack is red zone", "cache c flags=poison,redzone,sanity objects=3 size=60; " + two +
		"overrun a 1; free c a", []string{"4: " + right}, nil},
	{"end of the slab", fzpu + two + "flip slabpad of a byte=7; free c a; " +
		"flip slabpad of a byte=9; e = alloc c; flip slabpad of b; validate c; validate c",
		[]string{"4: " + slabEnd, "6: " + slabEnd, "8: " + slabEnd}, nil},
	{"end of a slab that goes", fzpu + two + "flip slabpad of a byte=7; free c a; free c b; " +
		"flip slabpad of b; flip object of a; shrink c",
		[]string{"4: " + slabEnd, "8: " + slabEnd, "8: " + body}, nil},
	{"tracks are nobody's", fzpu + two + "flip alloctrack of a; flip freetrack of a; free c a; " +
		"validate c", nil, nil},

	{"link of a live object", fzpu + two + "flip freeptr of a; free c a; freeagain c a; " +
		"e = alloc c", []string{"4: " + pointer}, nil},
	{"link inside a live object", "cache c flags=sanity objects=3 size=64; " + two +
		"flip freeptr of a; free c a", nil, []int{3}},
	{"link of a live object without checks", "cache c flags=poison objects=3 size=64; " + two +
		"flip freeptr of a byte=1; free c a; validate c", nil, nil},
	{"link of the last of a chain", fzpu + two + "free c a; free c b; " +
		"flip freeptr of b byte=1; validate c; validate c",
		[]string{"6: " + chain, "6: " + count, "6: " + left, "7: " + right}, nil},
	{"link of the only one, at an allocation", fzpu + three + "free c a; " +
		"flip freeptr of a byte=1; e = alloc c", []string{"6: " + pointer}, nil},
	{"link at a free", fzpu + three + "free c a; flip freeptr of a byte=1; free c b; validate c",
		[]string{"6: " + chain}, nil},
	{"link met late", "cache c flags=sanity,user objects=3 size=64; " + three + "free c a; " +
		"free c b; flip freeptr of a byte=1; e = alloc c; f = alloc c", []string{"8: " + pointer},
		nil},
	{"a chain cut loses the rest", "cache c flags=sanity,user objects=3 size=64; " + three +
		"free c a; free c b; flip freeptr of b; free c d; e = alloc c; f = alloc c; " +
		"validate c; destroy c", []string{"7: " + chain, "7: " + count}, nil},

	{"head of the chain", fzpu + two + "flip slab.freelist of a byte=1; validate c; " +
		"validate c; free c a; e = alloc c; f = alloc c", []string{"4: " + pointer, "5: " + left},
		[]int{6, 7, 8}},
	{"head at a free", fzpu + two + "flip slab.freelist of a byte=1; free c a; validate c",
		[]string{"5: " + pointer}, []int{4}},
	{"head at an allocation", fzpu + two + "flip slab.freelist of a byte=1; e = alloc c; " +
		"f = alloc c", []string{"4: " + head}, nil},
	{"count too large", fzpu + two + "flip slab.inuse of a bits=4; validate c; free c a; " +
		"e = alloc c", []string{"4: " + maxInuse, "5: " + maxInuse, "6: " + maxInuse}, nil},
	{"count wrong", fzpu + two + "flip slab.inuse of a bits=1; validate c; validate c; " +
		"e = alloc c", []string{"4: " + count}, nil},
	{"count wrong at a free", fzpu + two + "flip slab.inuse of a bits=3; free c a; validate c; " +
		"free c b", []string{"4: " + count}, nil},
	{"count of none", fzpu + two + "flip slab.inuse of a bits=2; free c a; validate c; " +
		"free c b; freeagain c a", []string{"4: " + few, "5: " + count}, nil},
	{"number of objects", fzpu + two + "flip slab.objects of a bits=8192; free c a; " +
		"validate c; e = alloc c", []string{"4: " + maxAll, "5: " + maxAll, "6: " + maxAll}, nil},
	{"frozen", fzpu + two + "flip slab.frozen of a; free c a; validate c; " +
		"flip slab.frozen of a; free c b", []string{"4: " + disabled, "5: " + disabled}, nil},
	{"frozen at an allocation", fzpu + two + "flip slab.frozen of a; e = alloc c; f = alloc c",
		[]string{"4: " + disabled}, nil},
	{"count of partial slabs", fzpu + two + "flip cache.nr_partial c; validate c; e = alloc c; " +
		"free c a; flip cache.nr_partial c; validate c", []string{"4: " + partials}, []int{5, 6}},
	{"count of slabs", fzpu + two + "flip cache.nr_slabs c bits=2; validate c; shrink c; " +
		"flip cache.nr_slabs c bits=2; validate c", []string{"4: " + slabs}, []int{5}},
	{"destroyed with a wrong count of slabs", fzpu + "a = alloc c; free c a; " +
		"flip cache.nr_slabs c bits=4; destroy c; validate c; flip cache.nr_slabs c bits=4; " +
		"validate c; destroy c", []string{"5: " + slabs}, nil},
	{"destroyed with a wrong count of partial slabs", fzpu + "a = alloc c; free c a; " +
		"flip cache.nr_partial c bits=2; destroy c; validate c; flip cache.nr_partial c bits=2; " +
		"destroy c", []string{"5: " + partials}, nil},
	{"destroyed with a wrong count, in use", fzpu + two + "flip cache.nr_partial c bits=8; " +
		"destroy c; validate c", []string{"5: " + partials}, []int{4}},
	{"destroyed with a wrong count, in use and full", fzpu + three + "flip cache.nr_slabs c; " +
		"destroy c; validate c; flip cache.nr_slabs c; destroy c", []string{"6: " + slabs},
		[]int{5}},
	{"destroyed with another cache's count wrong", fzpu + "cache d flags=sanity size=32; " +
		"a = alloc c; free c a; flip cache.nr_slabs d bits=2; destroy c; destroy d; validate d",
		nil, []int{4}},
	{"count of slabs without a list of full ones", fzp + two + "flip cache.nr_slabs c bits=2; " +
		"validate c; flip cache.nr_slabs c bits=2", nil, nil},

	{"freed again", fzpu + two + "free c a; freeagain c a; validate c", []string{"4: " + already},
		nil},
	{"freed again without user", fzp + two + "free c a; freeagain c a; validate c",
		[]string{"4: " + already}, nil},
	{"freed again, the count first", fzpu + "a = alloc c; free c a; freeagain c a",
		[]string{"3: " + few}, nil},
	{"freed again, none in use", "cache c flags=redzone objects=3 size=64; a = alloc c; " +
		"free c a; freeagain c a", []string{"3: " + few}, nil},
	{"freed again, none in use, checked", "cache c flags=sanity objects=3 size=64; " +
		"a = alloc c; free c a; freeagain c a", []string{"3: " + few}, nil},
	{"freed inside", fzpu + two + "freeinside c a 8; free c a; validate c",
		[]string{"3: " + invalid}, nil},
	{"freed inside, damage first", fzpu + two + "flip slabpad of a; freeinside c a 8",
		[]string{"4: " + slabEnd, "4: " + invalid}, nil},
	{"to the wrong cache", fzpu + "cache d flags=sanity objects=3 size=32; " + two +
		"freewrong d a; validate c; e = alloc c; free c b", []string{"3: " + wrong}, nil},
	{"to the wrong cache, damaged", fzpu + "cache d flags=sanity objects=3 size=32; " + two +
		"overrun a 1; freewrong d a; free c a", []string{"4: " + wrong, "4: " + right}, nil},
	{"to a cache that does not check", fzpu + "cache d flags=redzone objects=3 size=32; " +
		two + "freewrong d a", nil, []int{3}},
	{"of whole pages", fzpu + "a = alloc c; p = pages 0; freeforeign c p; pagesfree p",
		[]string{"3: " + stray}, nil},
	{"of whole pages to a cache that does not check", zOnly + "a = alloc c; p = pages 0; " +
		"freeforeign c p", nil, []int{3}},

	{"nothing is seen without checks", zOnly + two + "overrun a 1; free c a; validate c", nil, nil},
	{"a validation sees without checks", zOnly + two + "overrun a 1; validate c; free c a",
		[]string{"4: " + right}, nil},
	{"poison without checks", "cache c flags=poison objects=3 size=64; " + two + "free c a; " +
		"writefreed a; e = alloc c; free c b; writefreed b; validate c", []string{"8: " + body},
		nil},
	{"full slabs are seen with user only", fzp + three + "overrun a 1; validate c; free c a",
		[]string{"6: " + right}, nil},
	{"full slabs are seen with user", fzpu + three + "overrun a 1; validate c; free c a",
		[]string{"5: " + right}, nil},
	{"one slab that goes", fzpu + two + "free c a; free c b; writefreed a; flip leftred of b; " +
		"shrink c", []string{"7: " + body, "7: " + left}, nil},
	{"a slab that goes at a free",
		"cache c flags=poison,redzone,sanity,user min_partial=0 objects=2 size=64; " + two +
			"free c a; writefreed a; free c b", []string{"5: " + body}, nil},
	{"a slab that goes unseen", "cache c flags=poison,redzone objects=2 size=64; " + two +
		"free c a; free c b; writefreed a; shrink c", nil, nil},
	{"several slabs that go", fzpu + three + "e = alloc c; free c a; free c b; free c d; " +
		"free c e; writefreed a; writefreed b; flip leftred of e; destroy c",
		[]string{"12: " + left, "12: " + body, "12: " + body}, nil},
	{"several caches", fzpu + "cache d flags=poison,sanity objects=2 size=32; a = alloc c; " +
		"b = alloc d; free c a; free d b; writefreed a; writefreed b; validate d; validate c; " +
		"destroy d; destroy c",
		[]string{"7: " + body, "8: " + body, "9: " + bodyEnd, "10: " + bodyEnd}, nil},
	{"damage that a free writes over", zOnly + two + "overrun a 1; free c a; a = alloc c; " +
		"validate c", nil, nil},
	{"a cache made again", "c = create flags=poison,redzone,sanity objects=2 size=64; " +
		"a = alloc c; overrun a 1; free c a; freeagain c a; destroy c; " +
		"c = create flags=poison,redzone,sanity objects=2 size=32; a = alloc c; overrun a 1; " +
		"free c a", []string{"4: " + right, "10: " + right}, nil},
	{"halves of words", "machine word=16 pages=8; " +
		"cache c flags=poison,redzone,sanity objects=2 size=8; " + two + "overrun a 1; " +
		"free c a; flip freeptr of b byte=1; free c b", []string{"4: " + right, "6: " + pointer},
		nil},
}

// sizePrograms allocate by size, with the boot parameter for all caches.
var sizePrograms = []program{
	{"behind what was asked for", "machine debug=\"FZPU\"; a = malloc 50; overrun a 1; free a",
		nil, nil},
	{"behind what was asked for, 6.12", "machine debug=\"FZPU\" rules=6.12; a = malloc 50; " +
		"b = malloc 50; overrun a 1; free a; freeagain a", []string{"4: " + tail}, nil},
	{"behind all, and what was asked for", "machine debug=\"FZPU\" rules=6.12; a = malloc 50; " +
		"b = malloc 50; overrun a 20; free a", []string{"4: " + right, "4: " + tail}, nil},
	{"all was asked for", "machine debug=\"FZPU\" rules=6.12; a = malloc 64; overrun a 1; " +
		"free a", []string{"3: " + right}, nil},
	{"widened by usable", "machine debug=\"FZPU\" rules=6.12; a = malloc 50; overrun a 1; " +
		"usable a; free a", nil, nil},
	{"behind the class", "machine debug=\"FZPU\"; a = malloc 50; b = malloc 50; overrun a 20; " +
		"free a; freeagain a", []string{"4: " + right}, nil},
	{"realloc that moves", "machine debug=\"FZPU\"; a = malloc 50; underrun a 1; " +
		"a = realloc a 200; free a", []string{"3: " + left}, nil},
	{"realloc in place", "machine debug=\"FZPU\" rules=6.12; a = malloc 50; a = realloc a 60; " +
		"overrun a 1; free a", nil, nil},
	{"realloc to a bad slab", "machine debug=\"FZPU\"; a = malloc 50; b = malloc 200; " +
		"d = malloc 200; free b; writefreed b; a = realloc a 200; free a", []string{"6: " + body},
		nil},
	{"freed again", "machine debug=\"FZPU\"; a = malloc 50; b = malloc 50; free a; freeagain a",
		[]string{"4: " + already}, nil},
	{"freed inside", "machine debug=\"FZPU\"; a = malloc 50; freeinside a 16; free a",
		[]string{"2: " + invalid}, nil},
	{"a list of caches", "machine debug=\"FZPU,kmalloc-64\"; a = malloc 50; b = malloc 90; " +
		"overrun b 3; overrun a 15; free a", []string{"5: " + right}, []int{3}},
	{"zeroed", "machine debug=\"FZPU\" rules=6.12; a = malloc 50 flags=zero; b = calloc 3 7; " +
		"overrun b 3; free b; free a", []string{"4: " + tail}, nil},
	{"aligned", "machine debug=\"FZPU\"; a = memalign 8 40; b = memalign 8 40; " +
		"flip leftred of b byte=7; free b", []string{"4: " + left}, nil},
}

// TestSLUB: each program on a design with lists per node, and on the oldest.
func TestSLUB(t *testing.T) {
	for _, name := range []string{"slub-2022-debug-locked", "slub-2008-irqsave"} {
		for _, p := range slubPrograms {
			t.Run(name+"/"+p.name, func(t *testing.T) { p.test(t, name) })
		}
		for _, p := range sizePrograms {
			t.Run(name+"/by size, "+p.name, func(t *testing.T) { p.test(t, name) })
		}
	}
}

var runner = oracle.NewRunner()
