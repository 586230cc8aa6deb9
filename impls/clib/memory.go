package clib

import (
	"unsafe"

	"allocfuzz/impls"
)

// memory is that of the child's own process. An address that is none ends the process, as
// it would end a program's.
type memory struct{}

var _ impls.Viewer = memory{}

// Of a block above wholeMost bytes only the first and the last edge bytes and one stretch in
// every stride carry the pattern, so that a block that exists on paper only stays so.
const (
	wholeMost = 64 << 20
	edge      = 64 << 10
	stride    = 4 << 20
	stretch   = 64
)

// guarded calls f, which touches blocks of the library.
func guarded(f func()) {
	defer func() {
		if v := recover(); v != nil {
			fell(v)
		}
	}()
	f()
}

// addressOf is the address of a word of Go's.
func addressOf(p *uint64) impls.Addr { return impls.Addr(uintptr(unsafe.Pointer(p))) }

// at is n bytes of the process at a.
func at(a impls.Addr, n uint64) []byte {
	if n == 0 {
		return nil
	}
	p := *(*unsafe.Pointer)(unsafe.Pointer(&a)) // not of Go's heap, so nothing can move it
	return unsafe.Slice((*byte)(p), n)
}

// pieces calls f for every piece of a block that is looked at, until it returns false. Each
// begins at a multiple of 8.
func pieces(n uint64, f func(from, to uint64) bool) {
	if n <= wholeMost {
		f(0, n)
		return
	}
	if !f(0, edge) {
		return
	}
	for i := uint64(stride); i+stretch < n-edge-8; i += stride {
		if !f(i, i+stretch) {
			return
		}
	}
	f((n-edge)&^7, n)
}

// Fill writes pattern p to the n bytes at a.
func (memory) Fill(a impls.Addr, n uint64, p impls.Pattern) {
	guarded(func() {
		pieces(n, func(from, to uint64) bool {
			p.FillFrom(at(a+from, to-from), from)
			return true
		})
	})
}

// Verify returns the offset of the first byte that is not pattern p, -1 when all are.
func (memory) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	bad := int64(-1)
	guarded(func() {
		pieces(n, func(from, to uint64) bool {
			if bad = p.VerifyFrom(at(a+from, to-from), from); bad >= 0 {
				bad += int64(from)
			}
			return bad < 0
		})
	})
	return bad
}

// Read copies bytes at a into b.
func (memory) Read(a impls.Addr, b []byte) (n int) {
	guarded(func() { n = copy(b, at(a, uint64(len(b)))) })
	return n
}

// Flip inverts the bits of mask in the byte at a.
func (memory) Flip(a impls.Addr, mask byte) { guarded(func() { at(a, 1)[0] ^= mask }) }

// Contains is true: nobody knows which memory the library's is.
func (memory) Contains(impls.Addr, uint64) bool { return true }

// View is the n bytes at a.
func (memory) View(a impls.Addr, n uint64) []byte { return at(a, n) }
