package arena_test

import (
	"testing"

	"allocfuzz/fuzz/subject"

	arena "example.com/arena"
)

// heap gives an Arena the methods that allocfuzz looks for in an allocator of offsets.
type heap struct{ *arena.Arena }

func (h heap) Alloc(n uint64) uint64      { r, _ := h.Arena.Alloc(int(n)); return uint64(r) }
func (h heap) Free(a uint64)              { h.Arena.Free(arena.Ref(a)) }
func (h heap) Bytes() []byte              { return h.Memory() }
func (h heap) UsableSize(a uint64) uint64 { return uint64(h.Cap(arena.Ref(a))) }
func (h heap) MinAlign() int              { return 8 }
func (h heap) Realloc(a, n uint64) uint64 {
	r, _ := h.Resize(arena.Ref(a), int(n))
	return uint64(r)
}

func newArena() any { return heap{arena.New(1 << 20)} }

func FuzzArena(f *testing.F) { subject.Fuzz(f, newArena) }

func TestArenaRegressions(t *testing.T) { subject.Replay(t, newArena, "testdata/regress") }

// slices gives a Pool the methods that allocfuzz looks for in an allocator of slices.
type slices struct{ arena.Pool }

func (s *slices) Malloc(n int) []byte     { return s.Get(n) }
func (s *slices) Free(b []byte)           { s.Put(b) }
func (s *slices) UsableSize(b []byte) int { return cap(b) }

func FuzzPool(f *testing.F) { subject.Fuzz(f, func() any { return new(slices) }) }
