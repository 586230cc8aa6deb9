package history_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
)

// TestPorcupine: porcupine agrees with the check, and with itself on the part around what is
// wrong alone.
func TestPorcupine(t *testing.T) {
	t.Logf("seed %d", *seed)
	each := 2000
	if testing.Short() {
		each = 300
	}
	var k history.Checker
	for n, w := range worlds {
		w.ops, w.time, w.places = 2*w.ops, 3*w.time, 2*w.places
		rng := rand.New(rand.NewPCG(*seed, uint64(100+n)))
		for range each {
			h := generate(rng, w)
			v := k.Check(h)
			want := linear.Linearizable
			if v != nil {
				want = linear.NotLinearizable
			}
			if got := linear.Check(h, time.Hour); got != want {
				t.Fatalf("%+v: porcupine says %v, the check %v\n%s", w, got, v, text(h))
			}
			if v == nil {
				continue
			}
			part := h.Around(v)
			if got := linear.Check(part, time.Hour); got != linear.NotLinearizable {
				t.Fatalf("%+v: the part around %v is %v\n%s\n%s", w, v, got, text(part), text(h))
			}
		}
	}
}

// TestParts: what overlaps is together, and so are the ends of a realloc; nothing else is.
func TestParts(t *testing.T) {
	rng := rand.New(rand.NewPCG(*seed, 7))
	for range 3000 {
		h := generate(rng, world{ops: 12, places: 40, sizes: 4, time: 60, reallocs: true})
		want := make([]int, len(h.Ops)) // the slow way: spread the lower number
		for i := range want {
			want[i] = i
		}
		for range h.Ops {
			for i := range h.Ops {
				for j := range h.Ops {
					if touch(&h.Ops[i], &h.Ops[j]) {
						want[i] = min(want[i], want[j])
					}
				}
			}
		}
		seen := map[int]bool{}
		for _, part := range h.Parts() {
			for _, i := range part {
				if seen[i] {
					t.Fatalf("%d is in two parts\n%s", i, text(h))
				}
				seen[i] = true
				bare := h.Ops[i].Old.Size+h.Ops[i].New.Size == 0
				if !bare && want[i] != part[0] {
					t.Fatalf("%d is in the part of %d, want %d\n%s", i, part[0], want[i], text(h))
				}
			}
		}
		if len(seen) != len(h.Ops) {
			t.Fatalf("%d of %d operations are in a part", len(seen), len(h.Ops))
		}
	}
}

func touch(a, b *history.Op) bool {
	for _, x := range []history.Range{a.Old, a.New} {
		if x.Overlaps(b.Old) || x.Overlaps(b.New) {
			return true
		}
	}
	return false
}
