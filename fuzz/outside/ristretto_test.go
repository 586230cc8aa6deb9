package outside

import (
	"testing"

	"allocfuzz/fuzz/subject"

	"github.com/dgraph-io/ristretto/v2/z"
)

// arena is z.Allocator of github.com/dgraph-io/ristretto: an arena. It takes no single object back,
// so Free does nothing; that is declared by Used, with which refusals are judged by what is used up
// instead of by what is live. Reset is the arena's own, and the next run gets its memory again.
type arena struct{ *z.Allocator }

func newArena() any { return arena{z.NewAllocator(1<<10, "allocfuzz")} }

func (a arena) Malloc(n int) []byte { return a.Allocate(n) }
func (a arena) Calloc(n int) []byte { return a.AllocateAligned(n) }
func (a arena) Free([]byte)         {}
func (a arena) Used() int           { return a.Size() }
func (a arena) Close()              { a.Release() }

func FuzzArena(f *testing.F) { subject.Fuzz(f, newArena) }

// aligned is the same by AllocateAligned alone, which promises the alignment of a word of 8 bytes
// and zeroes.
type aligned struct{ arena }

func newAligned() any { return aligned{newArena().(arena)} }

func (a aligned) Malloc(n int) []byte { return a.AllocateAligned(n) }
func (a aligned) MinAlign() int       { return 8 }

func FuzzAligned(f *testing.F) { subject.Fuzz(f, newAligned) }

// TestCapacityOfNeighbour shows what is found when UsableSize is the capacity, as it is of most
// slices: that of a slice of the arena reaches into what is handed out next, so that an append to
// the one overwrites the other. Nothing in the arena's documentation forbids the append. Should
// this test fail, that was put right: give the adapter a UsableSize.
func TestCapacityOfNeighbour(t *testing.T) {
	a := newArena().(arena)
	defer a.Close()
	first, second := a.Malloc(8), a.Malloc(8)
	if cap(first) < 16 {
		t.Fatalf("capacity %d: it ends where the object does", cap(first))
	}
	if _ = append(first, 7); second[0] != 7 {
		t.Error("the neighbour is as it was: its memory is elsewhere")
	}
}
