package shadow_test

import (
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// layoutLies are wrong in one number of a layout each.
var layoutLies = []struct {
	name string
	slot func(l *debugcheck.Layout)
}{
	{"size", func(l *debugcheck.Layout) { l.Size -= l.Word }},
	{"front", func(l *debugcheck.Layout) { l.Pad += l.Word }},
	{"end", func(l *debugcheck.Layout) { l.Inuse += l.Word }},
	{"link", func(l *debugcheck.Layout) { l.Link += l.Word }},
	{"outside", func(l *debugcheck.Layout) { l.Outside = !l.Outside }},
	{"tracks", func(l *debugcheck.Layout) { l.Track += l.Word }},
	{"length of tracks", func(l *debugcheck.Layout) { l.Tracks -= 2 }},
	{"size asked for", func(l *debugcheck.Layout) { l.Orig += l.Word }},
	{"length of that", func(l *debugcheck.Layout) { l.OrigLen += 2 }},
	{"data", func(l *debugcheck.Layout) { l.Info += l.Word }},
	{"stride", func(l *debugcheck.Layout) { l.Stride += l.Align }},
	{"poison", func(l *debugcheck.Layout) { l.Body = !l.Body }},
}

// TestLayoutLies: each number of a layout that is wrong is found, and a right one is not.
func TestLayoutLies(t *testing.T) {
	for _, row := range []struct{ subject, text string }{
		{slub, fzpu + "a = alloc c"},
		{slub, "cache c flags=user size=100; a = alloc c"},
		{slub, "machine word=16 pages=8; cache c flags=redzone,user size=1; a = alloc c"},
		{slub, "machine word=32; cache c flags=redzone align=64 size=60; a = alloc c"},
		{"slub-2008-seq", "cache c flags=sanity size=60; a = alloc c"},
		{"slab-2001-threelists", fzpu + "a = alloc c"},
		{"slab-2001-onelist", "machine rules=2.6; cache c flags=redzone align=32 size=20; " +
			"a = alloc c"},
		{"go-modernc-memory-guarded", fzpu + "a = alloc c"},
	} {
		c := compile(t, row.text)
		var list []seen
		for _, l := range layoutLies {
			res := runner.Run(c, lying(subject(t, row.subject), &lie{slot: l.slot}, &list),
				oracle.Options{NoEnd: true})
			if got := titles(res); len(got) == 0 || got[0] != fault.WrongLayout {
				t.Errorf("%s, %s: %s: found %q", row.subject, row.text, l.name, got)
			}
		}
		res := runner.Run(c, lying(subject(t, row.subject), &lie{}, &list), oracle.Options{})
		if len(res.Faults) > 0 {
			t.Errorf("%s, %s: %v", row.subject, row.text, res.Faults)
		}
	}
}

// TestLayoutOfSizes: size classes keep the size asked for, and where the rules tell what is
// behind it the link has to be elsewhere.
func TestLayoutOfSizes(t *testing.T) {
	for _, name := range []string{slub, "slub-2008-seq"} {
		for _, text := range []string{
			"machine debug=\"ZU\" rules=6.12; a = malloc 50; b = malloc 3",
			"machine debug=\"ZU\"; a = malloc 50; b = malloc 3",
			"machine debug=\"U\" rules=6.12 word=32; a = malloc 50; b = malloc 3",
			"machine debug=\"PU\" word=16 pages=8; a = malloc 50; b = malloc 3",
		} {
			res := runner.Run(compile(t, text), subject(t, name), oracle.Options{})
			if len(res.Faults) > 0 {
				t.Errorf("%s, %s: %v", name, text, res.Faults)
			}
		}
	}
}
