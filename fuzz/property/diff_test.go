package property_test

import (
	"strings"
	"testing"

	"allocfuzz/fuzz/property"
	"allocfuzz/impls"
)

// TestDiff: the differences of two snapshots and of two outcomes are named by field, and what is
// equal, an empty list for a nil one included, says nothing.
func TestDiff(t *testing.T) {
	a := impls.Snapshot{PagesFree: 3, Slabs: []impls.SlabState{{Inuse: 2}}}
	b := impls.Snapshot{PagesFree: 3, Slabs: []impls.SlabState{{Inuse: 1, Free: []impls.Addr{}}},
		Counts: []impls.Count{}}
	d := property.Diff(a, b)
	for _, line := range strings.Split(d, "\n") {
		changed := strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+")
		if changed != strings.Contains(line, "Inuse:") {
			t.Errorf("%q in\n%s", line, d)
		}
	}
	if !strings.Contains(d, "Inuse:") {
		t.Errorf("no inuse in %q", d)
	}
	b.Slabs[0].Inuse = 2
	if d := property.Diff(a, b); d != "" {
		t.Errorf("equal snapshots differ:\n%s", d)
	}
	if d := property.Diff(impls.OK, impls.NoMem); !strings.Contains(d, "ok") ||
		!strings.Contains(d, "enomem") {
		t.Errorf("outcomes differ by %q", d)
	}
}
