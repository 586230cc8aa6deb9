package golib

import (
	"bytes"
	"math"

	"github.com/ncruces/wasm2go/libc-gen/test_alloc/bump"
	"github.com/ncruces/wasm2go/libc-gen/test_alloc/sbrk"
	"github.com/ncruces/wasm2go/libc-gen/test_alloc/tlsf"

	"allocfuzz/impls"
)

// The memory of a module: its statics begin above the stack, its heap above them.
const (
	wasmPage  = 1 << 16
	wasmStack = wasmPage     // first byte above the stack
	wasmFirst = 2 * wasmPage // bytes of a new module
	wasmMax   = 64 << 20     // bytes that it grows to
	wasmKept  = 4 << 20      // storage that a pooled module keeps
	stackUsed = 4096         // deepest that the allocators' own stack goes
)

// A module is an allocator translated from C by way of WebAssembly.
type module[M any] interface {
	Xmalloc(size int32) int32
	Xmemalign(align, size int32) int32
	Xrealloc(p, size int32) int32
	Xfree(p int32)
	Xmemory() M
}

// wasm is the backend over a module. Addresses are offsets in its memory, which
// moves when it grows: it is always reached through mem.
type wasm[M any] struct {
	module[M]
	mem     *[]byte
	statics []byte // of a new module, up to the last that is not 0
}

func newSbrk(*table[uint64]) backend {
	m := sbrk.New()
	return newWasm(m, m.Xmemory().Slice())
}

func newTLSF(*table[uint64]) backend {
	m := tlsf.New()
	return newWasm(m, m.Xmemory().Slice())
}

// newBump has an arena: what is freed is lost, unless it is what was handed out last.
func newBump(*table[uint64]) backend {
	m := bump.New()
	return newWasm(m, m.Xmemory().Slice())
}

func newWasm[M any](m module[M], mem *[]byte) backend {
	statics := (*mem)[wasmStack:]
	for len(statics) > 0 && statics[len(statics)-1] == 0 {
		statics = statics[:len(statics)-1]
	}
	return &wasm[M]{m, mem, bytes.Clone(statics)}
}

func addr(p int32) impls.Addr { return impls.Addr(uint32(p)) }

func (w *wasm[M]) asks(_, size uint64) bool { return size <= math.MaxUint32 }

func (w *wasm[M]) alloc(size uint64, _ bool) impls.Addr { return addr(w.Xmalloc(int32(size))) }

func (w *wasm[M]) memalign(align, size uint64) impls.Addr {
	return addr(w.Xmemalign(int32(align), int32(size)))
}

func (w *wasm[M]) realloc(p impls.Addr, size uint64) impls.Addr {
	return addr(w.Xrealloc(int32(p), int32(size)))
}

func (w *wasm[M]) free(p impls.Addr) { w.Xfree(int32(p)) }

func (w *wasm[M]) usable(impls.Addr) uint64 { return 0 }

func (w *wasm[M]) view(a impls.Addr, n uint64) []byte {
	b := *w.mem
	if a < wasmStack || a > uint64(len(b)) || n > uint64(len(b))-a {
		return nil
	}
	return b[a : a+n : a+n]
}

// full says whether the module could not grow by what was asked for, with what tlsf rounds
// it up by before it grows, a sixteenth at most, and two pages for its own needs. How little
// is live counts for nothing: tlsf does not find a free block of the very size that is
// asked for when it is none of its classes', so that a large block which is allocated and
// freed again and again takes new memory each time.
func (w *wasm[M]) full(_, size uint64) bool {
	return size == 0 || uint64(len(*w.mem))+size+size/16+2*wasmPage > wasmMax
}

// reset clears what a new module has as zeros, puts its statics back and hides what it grew
// by: growing again clears that.
func (w *wasm[M]) reset() bool {
	if cap(*w.mem) > wasmKept {
		*w.mem = make([]byte, wasmFirst)
	} else {
		*w.mem = (*w.mem)[:wasmFirst]
		clear((*w.mem)[wasmStack-stackUsed:])
	}
	copy((*w.mem)[wasmStack:], w.statics)
	return true
}

func (w *wasm[M]) drop() {}
