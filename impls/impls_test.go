package impls_test

import (
	"bytes"
	"slices"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// TestPattern: what is filled is verified, byte by byte, at every length and from
// any wrong byte; sizes of one pattern share their prefix, numbers differ.
func TestPattern(t *testing.T) {
	for _, p := range []impls.Pattern{0, 1, 2, 0xdeadbeef} {
		long := make([]byte, 41)
		p.Fill(long)
		for n := range len(long) {
			b := bytes.Repeat([]byte{0x5a}, n+1)
			p.Fill(b[:n])
			if !bytes.Equal(b[:n], long[:n]) || b[n] != 0x5a {
				t.Fatalf("pattern %d of %d bytes is %x, want %x", p, n, b, long[:n])
			}
			if bad := p.Verify(b[:n]); bad != -1 {
				t.Errorf("pattern %d of %d bytes: byte %d is wrong", p, n, bad)
			}
			for i := range n {
				if got := p.Byte(uint64(i)); got != b[i] {
					t.Errorf("byte %d of pattern %d is %#x, want %#x", i, p, got, b[i])
				}
				b[i] ^= 0x80
				if bad := p.Verify(b[:n]); bad != int64(i) {
					t.Errorf("pattern %d of %d bytes, wrong at %d: found at %d", p, n, i, bad)
				}
				b[i] ^= 0x80
			}
		}
		if q := p + 1; q.Verify(long) < 0 {
			t.Errorf("pattern %d passes for %d", p, q)
		}
	}
	if impls.Pattern(0).Verify(make([]byte, 19)) != -1 {
		t.Error("pattern 0 is not zeros")
	}
}

// TestSnapshotStorage: what a snapshot is filled with again shows nothing of before.
func TestSnapshotStorage(t *testing.T) {
	var s impls.Snapshot
	b := s.AddSlab()
	b.Cache, b.Page, b.Addr, b.First, b.Objects = 3, 2, 0x2000, 0x2010, 4
	b.Free, b.On = append(b.Free, 0x2010), append(b.On, impls.Place{Kind: impls.OnCPU})
	b.FreeEnd = impls.EndCycle
	if got := s.SlabOf(0x1000, 0x2fff); got != b {
		t.Errorf("the slab at 0x2fff is %v", got)
	}
	if s.SlabOf(0x1000, 0x1fff) != nil || s.SlabOf(0x1000, 0x3000) != nil {
		t.Error("a slab beside its pages")
	}
	for a, want := range map[impls.Addr]bool{0x2010: true, 0x2000: false, 0x2018: false,
		0x2310: true, 0x2410: false} {
		if b.Holds(a, 0x100) != want {
			t.Errorf("an object at %#x: %v", a, !want)
		}
	}
	s.Reset()
	c := s.AddSlab()
	if len(c.Free)+len(c.On) > 0 || c.FreeEnd != impls.EndOK || c.Colour != -1 || c.Page != 0 {
		t.Errorf("a new slab is %+v", c)
	}
}

// TestCapNames: every capability has a name, and Has wants all.
func TestCapNames(t *testing.T) {
	all := ^impls.Caps(0)
	names := all.Names()
	if slices.Contains(names, "") || len(slices.Compact(slices.Sorted(slices.Values(names)))) !=
		len(names) {
		t.Errorf("names %q", names)
	}
	two := impls.CapZero | impls.CapIRQ
	if got := two.Names(); !slices.Equal(got, []string{"zero", "irq"}) {
		t.Errorf("names %q", got)
	}
	if two.Has(impls.CapZero|impls.CapSMP) || !two.Has(impls.CapIRQ) {
		t.Error("Has")
	}
	for c := range impls.LastCode + 1 {
		if c.String() == "" {
			t.Errorf("operation %d has no name", c)
		}
	}
}

// TestTitles: each title stands once in the table, with a sentence, and is found,
// those of reports by what stands before the colon.
func TestTitles(t *testing.T) {
	seen := map[fault.Title]bool{}
	rules := map[fault.Rule]bool{}
	for _, e := range fault.Titles() {
		if seen[e.Title] || e.Means == "" {
			t.Errorf("%q: twice %v, means %q", e.Title, seen[e.Title], e.Means)
		}
		seen[e.Title], rules[e.Rule] = true, true
		if got, ok := fault.Lookup(e.Title); !ok || got != e {
			t.Errorf("%q is found as %+v", e.Title, got)
		}
		got, ok := fault.Lookup(e.Title + ": Right Redzone overwritten")
		if ok != (e.Rule == fault.Reports) || ok && got != e {
			t.Errorf("%q with a report's title is found as %+v, %v", e.Title, got, ok)
		}
	}
	for _, r := range fault.Rules() {
		if got, ok := fault.RuleNamed(r.String()); !ok || got != r || !rules[r] {
			t.Errorf("rule %s is found as %s and has titles: %v", r, got, rules[r])
		}
	}
	if _, ok := fault.RuleNamed(""); ok {
		t.Error("a rule without a name")
	}
}
