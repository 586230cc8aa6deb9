package history

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestTree: against a table of bytes, the lives that an assign replaces are the same, each
// at least once; and a range that is given away as a whole is one node afterwards, which is
// what bounds the cost.
func TestTree(t *testing.T) {
	const size = 40
	rng := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		var marks []mark
		for range 20 {
			from := 1 + rng.Uint64N(size-1)
			marks = append(marks, mark{at: Range{from, 1 + rng.Uint64N(size-from)}})
		}
		marks = append(marks, mark{at: Range{1, size}})
		var tr tree
		tr.reset(marks)
		bytes := map[uint64]int32{}
		for i, m := range marks {
			want := map[int32]bool{}
			for a := m.at.Addr; a < m.at.Addr+m.at.Size; a++ {
				if life, ok := bytes[a]; ok {
					want[life] = true
				}
				bytes[a] = int32(i)
			}
			got := tr.assign(m.at, int32(i))
			for _, life := range got {
				if !want[life] {
					t.Fatalf("assign of %v replaces %v, want %v", m.at, got, want)
				}
			}
			for life := range want {
				if !slices.Contains(got, life) {
					t.Fatalf("assign of %v replaces %v, want %v", m.at, got, want)
				}
			}
		}
		if tr.nodes[0] != int32(len(marks)-1) {
			t.Fatalf("the root is %d after all was given to one life", tr.nodes[0])
		}
	}
}
