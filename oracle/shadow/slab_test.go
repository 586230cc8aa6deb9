package shadow_test

import (
	"fmt"
	"testing"

	"allocfuzz/debugcheck"
)

// Titles of SLAB, short.
const (
	either  = debugcheck.TitleSlabEither
	double  = debugcheck.TitleSlabDouble
	outside = debugcheck.TitleSlabOutside
	start   = debugcheck.TitleSlabStart
	end     = debugcheck.TitleSlabEnd
	corrupt = debugcheck.TitleSlabPoison
	onChain = debugcheck.TitleSlabOnChain
	list    = debugcheck.TitleSlabChain
)

const (
	later = "machine rules=2.6; "
	zp    = "cache c flags=poison,redzone objects=3 size=64; "
	fz    = "cache c flags=redzone,sanity objects=3 size=64; "
	pOnly = "cache c flags=poison objects=3 size=64; "
	fOnly = "cache c flags=sanity objects=3 size=64; "
)

// slabPrograms are those of SLAB, under the rules of 2.4 unless they say otherwise: that
// kernel stops at what it finds, but in a validation.
var slabPrograms = []program{
	{"2.4 stops at a free", fzpu + two + "overrun a 2; free c a; validate c",
		[]string{"4: " + either}, nil},
	{"2.6 frees all the same", later + fzpu + two + "overrun a 2; free c a; validate c; " +
		"e = alloc c; free c b", []string{"4: " + outside}, nil},
	{"2.6 tells the first word", later + fzpu + two + "underrun b 2; overrun b 3; free c b",
		[]string{"5: " + outside}, nil},
	{"2.6 tells first and last byte", later + fzpu + two + "flip rightred of b byte=1; " +
		"flip rightred of b byte=4; validate c; validate c",
		[]string{"5: " + outside, "6: " + outside}, nil},
	{"the red words of 2.4 end in zeros", fzpu + two + "flip rightred of b byte=7; validate c",
		[]string{"4: " + either}, nil},
	{"2.4 goes on in a validation", fzpu + three + "overrun a 1; underrun d 1; validate c",
		[]string{"6: " + either, "6: " + either}, nil},
	{"a free object's words in a validation", fzpu + two + "free c a; flip leftred of a; " +
		"flip rightred of a; validate c", []string{"6: " + start, "6: " + end}, nil},
	{"a free object's words at an allocation", zp + two + "free c a; flip rightred of a; " +
		"e = alloc c; f = alloc c", []string{"5: " + either}, nil},
	{"a free object's words at an allocation, 2.6", later + zp + two + "free c a; " +
		"flip rightred of a byte=2 bits=513; e = alloc c; free c e; validate c",
		[]string{"5: " + either}, nil},
	{"the last byte", fzpu + two + "free c a; flip object of a byte=63; e = alloc c",
		[]string{"5: " + corrupt}, nil},
	{"what the weak check misses", fzpu + two + "free c a; flip object of a byte=5; " +
		"validate c; e = alloc c", nil, nil},
	{"an early end", fzpu + two + "free c a; flip object of a byte=5 bits=255; validate c; " +
		"e = alloc c", []string{"5: " + corrupt, "6: " + corrupt}, nil},
	{"2.6 sees every byte", later + fzpu + two + "free c a; flip object of a byte=5; " +
		"flip object of a byte=9; flip leftred of a; e = alloc c; validate c",
		[]string{"7: " + corrupt, "7: " + either}, nil},
	{"2.6 sees the last byte", later + pOnly + two + "free c a; flip object of a byte=63; " +
		"flip leftred of a; validate c", []string{"6: " + corrupt}, []int{5}},
	{"red words of nobody", pOnly + two + "overrun a 1; free c a; validate c", nil, []int{3}},
	{"no poison in the body", later + "cache c flags=poison,rcu,redzone objects=3 size=64; " +
		two + "free c a; writefreed a; e = alloc c", nil, nil},
	{"the last user is nobody's", fzpu + two + "flip alloctrack of a; free c a", nil, nil},

	{"freed again", fzpu + two + "free c a; freeagain c a", []string{"4: " + either}, nil},
	{"freed again, 2.6", later + fzpu + two + "free c a; freeagain c a",
		[]string{"4: " + double, "4: " + onChain}, nil},
	{"freed again with red words, 2.6", later + zp + two + "free c a; freeagain c a", nil,
		[]int{4}},
	{"freed again with red words", zp + two + "free c a; freeagain c a", []string{"4: " + either},
		nil},
	{"freed again without red words", fOnly + two + "free c a; freeagain c a",
		[]string{"4: " + onChain}, nil},
	{"freed again, damaged, 2.6", later + fz + two + "free c a; flip leftred of a; " +
		"freeagain c a", []string{"5: " + outside, "5: " + onChain}, nil},
	{"freed inside", fzpu + two + "freeinside c a 8", []string{"3: " + either}, nil},
	{"freed inside, 2.6", later + fzpu + two + "freeinside c a 8",
		[]string{"3: " + outside, "3: " + invalid}, nil},
	{"freed inside beside slack, 2.6", later + "cache c flags=sanity size=52; " + two +
		"freeinside c a 8", []string{"3: " + invalid}, nil},
	{"freed inside without red words", fOnly + two + "freeinside c a 8",
		[]string{"3: " + invalid}, nil},
	{"freed inside, unchecked", pOnly + two + "freeinside c a 8", nil, []int{3}},
	{"to the wrong cache", fzpu + "cache d flags=sanity objects=3 size=32; " + two +
		"freewrong d a", []string{"3: " + wrong}, nil},
	{"to the wrong cache, 2.6", later + fzpu + "cache d flags=sanity objects=3 size=32; " +
		two + "freewrong d a; validate c; e = alloc c", []string{"3: " + wrong}, nil},
	{"to the wrong cache, damaged, 2.6", later + fzpu +
		"cache d flags=sanity objects=3 size=32; " + two + "overrun a 1; freewrong d a",
		[]string{"4: " + wrong, "4: " + outside}, nil},
	{"of whole pages", fzpu + "a = alloc c; p = pages 0; freeforeign c p",
		[]string{"3: " + stray}, nil},
	{"of whole pages, 2.6", later + fzpu + "a = alloc c; p = pages 0; freeforeign c p; " +
		"pagesfree p", []string{"3: " + stray}, nil},

	{"the number of the first free", fzpu + two + "flip slab.freelist of a bits=4; validate c; " +
		"e = alloc c", []string{"4: " + list, "5: " + list}, nil},
	{"the number of the first free, at a free", later + fzpu + two +
		"flip slab.freelist of a bits=4; free c a", []string{"4: " + list}, nil},
	{"the number of the first free, unchecked", zp + two + "flip slab.freelist of a bits=4; " +
		"free c a; validate c", []string{"5: " + list}, nil},

	{"a slab that goes, 2.4", zp + two + "free c a; free c b; flip rightred of a; " +
		"flip object of a byte=63; flip leftred of b; shrink c", []string{"8: " + end}, nil},
	{"a slab that goes, 2.4, the first word", zp + two + "free c a; free c b; " +
		"flip leftred of b; flip rightred of b; shrink c", []string{"7: " + start}, nil},
	{"a slab that goes, 2.4, poison", zp + two + "free c a; free c b; " +
		"flip object of b byte=63; shrink c", []string{"6: " + corrupt}, nil},
	{"a slab that goes, 2.6", later + zp + two + "free c a; free c b; flip rightred of a; " +
		"flip leftred of a; flip object of a; flip leftred of b; shrink c",
		[]string{"9: " + corrupt, "9: " + start, "9: " + end, "9: " + start}, nil},
	{"several slabs that go, 2.6", later + zp + three + "e = alloc c; free c a; free c b; " +
		"free c d; free c e; writefreed a; writefreed e; destroy c",
		[]string{"11: " + corrupt, "11: " + corrupt}, nil},
}

// slabSizes are programs by size.
var slabSizes = []program{
	{"behind the class", "machine debug=\"FZPU\" rules=2.6; a = malloc 50; overrun a 15; free a",
		[]string{"3: " + outside}, nil},
	{"realloc that moves, 2.6", "machine debug=\"FZPU\" rules=2.6; a = malloc 64; overrun a 1; " +
		"a = realloc a 200; free a", []string{"3: " + outside}, nil},
	{"realloc that stops at the old", "machine debug=\"FZPU\"; a = malloc 64; overrun a 1; " +
		"a = realloc a 200; free a", []string{"3: " + either}, nil},
	{"realloc that stops at the new", "machine debug=\"FZPU\"; a = malloc 64; b = malloc 200; " +
		"d = malloc 200; free b; flip leftred of b; overrun a 1; a = realloc a 200",
		[]string{"7: " + either}, nil},
}

// TestSLAB: each program on both kinds of lists.
func TestSLAB(t *testing.T) {
	for _, name := range []string{"slab-2001-threelists", "slab-2001-onelist"} {
		for _, p := range slabPrograms {
			t.Run(name+"/"+p.name, func(t *testing.T) { p.test(t, name) })
		}
		for _, p := range slabSizes {
			t.Run(name+"/by size, "+p.name, func(t *testing.T) { p.test(t, name) })
		}
	}
}

// TestMagic: each byte of the four red words.
func TestMagic(t *testing.T) {
	for _, row := range []struct{ rules, live string }{{"", either}, {later, outside}} {
		for i := range 8 {
			p := program{text: row.rules + zp + two + fmt.Sprintf("free c b; "+
				"flip rightred of a byte=%d; flip leftred of b byte=%d; validate c", i, i),
				want: []string{"6: " + row.live, "6: " + start}}
			name := fmt.Sprint(row.rules, i)
			t.Run(name, func(t *testing.T) { p.test(t, "slab-2001-threelists") })
		}
	}
}
