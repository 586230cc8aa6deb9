package live

import (
	"math/rand/v2"
	"testing"
)

// TestWide: blocks of any size, added and removed in any order though they overlap, are the set
// that a map of bytes is, and every answer is its own.
func TestWide(t *testing.T) {
	const unit = 1 << (chunkBits - 1) // half a chunk of bytes
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 1))
		var g Bytes
		g.Reset(0)
		plain := make([]bool, 64)
		for range 60 {
			from := r.IntN(len(plain))
			n := 1 + r.IntN(len(plain)-from)
			a, size := uint64(from)*unit+unit<<40, uint64(n)*unit
			first := -1
			for i := from; i < from+n; i++ {
				if plain[i] && first < 0 {
					first = i
				}
			}
			remove := r.IntN(2) == 0
			at, any := g.Any(a, size)
			if any != (first >= 0) || any && at != uint64(first)*unit+unit<<40 {
				t.Fatalf("seed %d: any at %#x %v, want unit %d", seed, at, any, first)
			}
			if remove {
				g.Remove(a, size)
			} else if at, clash := g.Add(a, size); clash != any {
				t.Fatalf("seed %d: clash at %#x %v, any %v", seed, at, clash, any)
			}
			for i := from; i < from+n; i++ {
				plain[i] = !remove
			}
			for i, want := range plain {
				if got := g.Has(uint64(i)*unit + unit<<40 + 7); got != want {
					t.Fatalf("seed %d: unit %d live %v, want %v", seed, i, got, want)
				}
			}
		}
	}
}

// TestWideMemory: a block of terabytes costs no more than its ends.
func TestWideMemory(t *testing.T) {
	var g Bytes
	g.Reset(0)
	const size = 1 << 42
	if _, clash := g.Add(4096, size); clash {
		t.Fatal("clash")
	}
	g.Start(4096)
	if len(g.chunks) > 2*wideMost {
		t.Errorf("%d chunks", len(g.chunks))
	}
	if at, clash := g.Add(1<<41, 8); !clash || at != 1<<41 || !g.Starts(4096) {
		t.Errorf("clash %v at %#x, starts %v", clash, at, g.Starts(4096))
	}
	g.Remove(4096, size)
	if g.Has(1 << 40) {
		t.Error("still live")
	}
}
