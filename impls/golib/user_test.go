package golib

import "unsafe"

// plain is the least that a user has to write.
type plain struct{}

func (plain) Malloc(size int) []byte { return make([]byte, size) }
func (plain) Free([]byte)            {}

// full has every method for slices.
type full struct{ out int }

const fullMax = 16 << 20

func (f *full) Limit() int { return fullMax }

func (f *full) Malloc(size int) []byte {
	if f.out+size > fullMax {
		return nil
	}
	f.out += size
	return make([]byte, size, size+16)
}

func (f *full) Calloc(size int) []byte { return f.Malloc(size) }

func (f *full) Free(b []byte) { f.out -= len(b) }

func (f *full) Realloc(b []byte, size int) []byte {
	n := f.Malloc(size)
	if n == nil {
		return nil
	}
	copy(n, b)
	f.Free(b)
	return n
}

func (f *full) UsableSize(b []byte) int { return cap(b) }

func (f *full) Memalign(align, size int) []byte {
	if f.out+size > fullMax {
		return nil
	}
	b := make([]byte, size+align)
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & uintptr(align-1))
	f.out += size
	return b[skip : skip+size : skip+size]
}

func (f *full) Reset() { f.out = 0 }

// arena is a HeapAllocator that never reuses anything but all at once.
type arena struct {
	mem  []byte
	next uint64
	live int
}

func newHeap(size int) *arena { return &arena{mem: make([]byte, size), next: 16} }

func (h *arena) Alloc(size uint64) uint64 { return h.Memalign(1, size) }

func (h *arena) Calloc(size uint64) uint64 {
	a := h.Alloc(size)
	if a != 0 {
		clear(h.mem[a : a+size])
	}
	return a
}

func (h *arena) Memalign(align, size uint64) uint64 {
	a := (h.next + align - 1) &^ (align - 1)
	if a > uint64(len(h.mem)) || size > uint64(len(h.mem))-a {
		return 0
	}
	h.next = a + max(size, 1)
	h.live++
	return a
}

func (h *arena) Free(uint64) {
	if h.live--; h.live == 0 {
		h.next = 16
	}
}

func (h *arena) Bytes() []byte { return h.mem }

func (h *arena) Reset() { *h = arena{mem: h.mem, next: 16} }

// miser has nothing to give.
type miser struct{}

func (miser) Malloc(int) []byte { return nil }
func (miser) Free([]byte)       {}

// bomb panics.
type bomb struct{ closed *int }

func (*bomb) Malloc(int) []byte { panic("out of order") }
func (*bomb) Free([]byte)       {}
func (b *bomb) Close()          { *b.closed++ }
func (b *bomb) Reset()          {}

// spent is an arena of slices.
type spent struct{ used int }

func (s *spent) Malloc(size int) []byte {
	if s.used+size > fullMax {
		return nil
	}
	s.used += size
	return make([]byte, size)
}

func (*spent) Free([]byte) {}

func (s *spent) Used() int { return s.used }
func (*spent) Limit() int  { return fullMax }
func (s *spent) Reset()    { s.used = 0 }
