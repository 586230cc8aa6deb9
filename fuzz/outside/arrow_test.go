package outside

import (
	"fmt"
	"testing"

	"allocfuzz/fuzz/subject"

	"github.com/apache/arrow-go/v18/arrow/memory"
)

// arrow is the allocator of github.com/apache/arrow-go that is used by default, in the wrapper
// which counts what is live. The adapter counts too, and panics, which is a finding, where the two
// do not agree.
type arrow struct {
	mem  *memory.CheckedAllocator
	live int
}

func newArrow() any { return &arrow{mem: memory.NewCheckedAllocator(memory.NewGoAllocator())} }

func (a *arrow) Malloc(n int) []byte { return a.count(n, a.mem.Allocate(n)) }

func (a *arrow) Realloc(b []byte, n int) []byte {
	was := len(b)
	return a.count(n-was, a.mem.Reallocate(n, b))
}

func (a *arrow) Free(b []byte) {
	was := len(b)
	a.mem.Free(b)
	a.count(-was, nil)
}

func (a *arrow) count(n int, b []byte) []byte {
	if a.live += n; a.mem.CurrentAlloc() != a.live {
		panic(fmt.Sprintf("CurrentAlloc is %d, want %d", a.mem.CurrentAlloc(), a.live))
	}
	return b
}

// UsableSize is the capacity: Reallocate keeps its slice up to that.
func (a *arrow) UsableSize(b []byte) int { return cap(b) }

// MinAlign is what the allocator pads each slice for, and what Arrow's format recommends.
func (a *arrow) MinAlign() int { return 64 }

func FuzzArrow(f *testing.F) { subject.Fuzz(f, newArrow) }
