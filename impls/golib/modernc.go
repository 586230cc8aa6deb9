package golib

import (
	"unsafe"

	"modernc.org/memory"

	"allocfuzz/impls"
)

// Limits of what modernc.org/memory, which takes from the system, may have.
const (
	moderncMax  = 64 << 20 // live at once
	moderncKept = 4 << 20  // live at once in a heap that goes back to the pool
)

// modernc is the backend over modernc.org/memory. Addresses are pointers outside
// Go's heap.
type modernc struct {
	a    *memory.Allocator
	live *table[uint64]
	peak uint64
	err  error // of the last request
}

func newModernc(live *table[uint64]) backend {
	return &modernc{a: &memory.Allocator{}, live: live}
}

func (m *modernc) asks(live, size uint64) bool {
	if size > moderncMax || live+size > moderncMax {
		return false
	}
	m.peak = max(m.peak, live+size)
	return true
}

func (m *modernc) alloc(size uint64, zero bool) impls.Addr {
	var p uintptr
	if zero {
		p, m.err = m.a.UintptrCalloc(int(size))
	} else {
		p, m.err = m.a.UintptrMalloc(int(size))
	}
	return impls.Addr(p)
}

// memalign is not to be had and not declared.
func (m *modernc) memalign(_, _ uint64) impls.Addr { return 0 }

func (m *modernc) realloc(p impls.Addr, size uint64) impls.Addr {
	var q uintptr
	q, m.err = m.a.UintptrRealloc(uintptr(p), int(size))
	return impls.Addr(q)
}

func (m *modernc) free(p impls.Addr) {
	if err := m.a.UintptrFree(uintptr(p)); err != nil {
		panic(err)
	}
}

func (m *modernc) usable(p impls.Addr) uint64 {
	return uint64(memory.UintptrUsableSize(uintptr(p)))
}

// view trusts no address that is not in a live block: anything else may be no
// memory at all.
func (m *modernc) view(a impls.Addr, n uint64) []byte {
	if n == 0 || n > moderncMax || !blockOf(m.live, a, n) {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(nil), uintptr(a))), int(n))
}

// full says whether the system refused; nothing else is a reason below the limit.
func (m *modernc) full(_, size uint64) bool { return size == 0 || m.err != nil }

func (m *modernc) reset() bool {
	if m.peak > moderncKept {
		return false
	}
	m.peak = 0
	m.live.each(func(a impls.Addr, _ *uint64) bool {
		m.err = m.a.UintptrFree(uintptr(a))
		return m.err == nil
	})
	return m.err == nil
}

// drop unmaps everything. An allocator whose own state is broken may fail to: what
// it mapped stays mapped then.
func (m *modernc) drop() {
	_ = m.a.Close()
}
