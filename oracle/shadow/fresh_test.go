package shadow_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// TestFresh: one byte of a fresh object, or beside it, that is not what the rules say is
// found, and one that no rule is about is not. Bytes are counted from the object.
func TestFresh(t *testing.T) {
	const (
		onelist = "slab-2001-onelist"
		guarded = "go-modernc-memory-guarded"
		z       = "cache c flags=redzone size=64; "
		p       = "cache c flags=poison size=64; "
		sized   = "machine debug=\"FZPU\"; a = malloc 50"
		sized12 = "machine debug=\"FZPU\" rules=6.12; a = malloc 50"
		boot12  = "machine debug=\"PU\" rules=6.12; a = malloc 50"
		moved   = "machine debug=\"FZPU\" rules=6.12; b = malloc 10; a = realloc b 100"
	)
	for _, row := range []struct {
		name, subject, text string
		at                  int64
		found               bool
	}{
		{"first byte", slub, fzpu + "a = alloc c", 0, true},
		{"byte before the last", slub, fzpu + "a = alloc c", 62, true},
		{"last byte", slub, fzpu + "a = alloc c", 63, true},
		{"right red zone", slub, z + "a = alloc c", 64, true},
		{"end of the right red zone", slub, z + "a = alloc c", 71, true},
		{"left red zone", slub, z + "a = alloc c", -1, true},
		{"start of the left red zone", slub, z + "a = alloc c", -8, true},
		{"behind all that is left red zone", slub, z + "a = alloc c", -9, false},
		{"without poison", slub, z + "a = alloc c", 3, false},
		{"without red zones", slub, p + "a = alloc c", 64, false},
		{"zeroed", slub, fzpu + "a = alloc c flags=zero", -1, true},
		{"read after its free", slub, "cache c flags=poison,redzone,rcu size=64; a = alloc c", 3,
			false},
		{"behind the size asked for", slub, sized, 51, true},
		{"the size asked for", slub, sized12, 49, true},
		{"behind it", slub, sized12, 50, true},
		{"all behind it", slub, sized12, 63, true},
		{"before its end without red zones", slub, boot12, 48, true},
		{"behind it without red zones", slub, boot12, 50, false},
		{"its end without red zones", slub, boot12, 49, false},
		{"behind what a realloc asked for", slub, moved, 100, true},
		{"the bytes of a realloc", slub, moved, 99, false},
		{"2.4", onelist, fzpu + "a = alloc c", 63, true},
		{"2.4, red word", onelist, fzpu + "a = alloc c", 64, true},
		{"2.6", onelist, "machine rules=2.6; " + fzpu + "a = alloc c", 7, true},
		{"2.6, red word", onelist, "machine rules=2.6; " + fzpu + "a = alloc c", -8, true},
		{"2.6, without poison", onelist, "machine rules=2.6; " + z + "a = alloc c", 7, false},
		{"guard", guarded, "a = malloc 50", 49, true},
		{"guard, behind it", guarded, "a = malloc 50", 50, true},
		{"guard, in front", guarded, "a = malloc 50", -1, true},
		{"guard, a long one", guarded, "a = malloc 10000", 5000, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := compile(t, row.text)
			var list []seen
			good := runner.Run(c, lying(subject(t, row.subject), &lie{}, &list), oracle.Options{})
			if got := titles(good); len(got) > 0 {
				t.Fatalf("honest: %q", got)
			}
			n := int32(len(c.Lines) - 1)
			l := &lie{got: func(t *liar, c *machine.Ctx, a impls.Addr) {
				if c.Where().Line == int(n) {
					t.Memory().Flip(a+uint64(row.at), 0x80)
				}
			}}
			res := runner.Run(c, lying(subject(t, row.subject), l, &list), oracle.Options{
				Checks: oracle.Checks(1 << fault.Contents), NoEnd: true})
			got := titles(res)
			if row.found != (len(got) == 1 && got[0] == fault.FreshUnmarked) ||
				!row.found && len(got) > 0 {
				t.Errorf("found %q", got)
			}
		})
	}
}

// TestFreshOfSeveral: what a handler does to an object on its way to the program may come
// behind the allocation, and what is not written then at all is found.
func TestFreshOfSeveral(t *testing.T) {
	c := compile(t, "machine cpus=2; "+fzpu+"cpu1 a = alloc c; b = alloc c")
	l := &lie{got: func(t *liar, c *machine.Ctx, a impls.Addr) { t.Memory().Flip(a+5, 1) }}
	var list []seen
	res := runner.Run(c, lying(subject(t, slub), l, &list), oracle.Options{})
	if got := titles(res); len(got) == 0 || got[0] != fault.FreshUnmarked {
		t.Errorf("found %q", got)
	}
}

// TestWiped: damage to a free object that no check looks at is wiped by the allocation.
func TestWiped(t *testing.T) {
	for _, name := range []string{slub, "slab-2001-threelists", "go-modernc-memory-guarded"} {
		for _, text := range []string{
			"cache c flags=poison,redzone size=64; " + two + "free c a; writefreed a; " +
				"flip leftred of a; flip rightred of a; e = alloc c; f = alloc c",
			"machine rules=2.6; cache c flags=poison size=64; " + two + "free c a; " +
				"flip object of a byte=9; e = alloc c",
			"cache c flags=poison size=64; " + two + "free c a; flip object of a byte=9; " +
				"e = alloc c",
		} {
			res := runner.Run(compile(t, text), subject(t, name), oracle.Options{})
			if got := titles(res); len(got) > 0 {
				t.Errorf("%s: %s: %q", name, text, got)
			}
		}
	}
}
