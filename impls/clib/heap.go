package clib

import (
	"fmt"
	"sync"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
)

// A caller calls functions of C on the thread that it is on.
type caller interface {
	// call is what the function at an address returns.
	call(fn uintptr, args ...uintptr) uintptr
	// posixMemalign calls the function at an address as posix_memalign: the memory, and the
	// error that it returned.
	posixMemalign(fn, align, size uintptr) (p uintptr, code int)
	// errno is where the functions leave the number of an error, for this thread.
	errno() *int32
}

// What a library may refuse: more than plenty bytes at once or in all. Any other request must
// be met.
const (
	plenty      = 1 << 30
	plentyAlign = 16 << 20 // likewise, of an alignment
)

// A heap is the Instance over a library in this process.
type heap struct {
	*library
	objects impls.Objects
	mu      sync.Mutex
	live    map[impls.Addr]block
	bytes   uint64 // of live
	broken  [impls.ThreadsMax]breach
	errnos  [impls.ThreadsMax]*int32 // a thread has a CPU as long as the heap is there
}

// A block is memory of the library as the heap knows it.
type block struct {
	size  uint64
	align uint64 // asked for, 0 for none
	plain bool   // from malloc or calloc, and never resized
}

// A breach is a promise that a call broke.
type breach struct {
	title    fault.Title
	evidence string
}

var (
	_ impls.Instance   = (*heap)(nil)
	_ impls.Callocer   = (*heap)(nil)
	_ impls.SizedFreer = (*heap)(nil)
	_ impls.Witness    = (*heap)(nil)
)

func newHeap(l *library) *heap {
	h := &heap{library: l, live: map[impls.Addr]block{}}
	h.objects = kmalloc.Caches(h, memory{})
	return h
}

// Memory is that of the process.
func (h *heap) Memory() impls.Memory { return memory{} }

// Objects makes caches out of malloc and memalign.
func (h *heap) Objects() impls.Objects { return h.objects }

// Sizes is the library.
func (h *heap) Sizes() impls.Allocator { return h }

// Pages is nil: there is no page layer.
func (h *heap) Pages() impls.Pages { return nil }

// Snapshot shows nothing.
func (h *heap) Snapshot(*impls.Snapshot) bool { return false }

// MinAlign is the alignment up to which caches of objects use malloc.
func (h *heap) MinAlign() uint64 { return h.profile.MinAlign }

// Close gives back what is live.
func (h *heap) Close() {
	//tidy:maporder the library has no order to keep
	for p := range h.live {
		h.call(h.addr[fnFree], uintptr(p))
	}
	clear(h.live)
	h.bytes = 0
}

// took notes what a request got, and what a refusal was worth.
func (h *heap) took(c *machine.Ctx, p uintptr, b block) impls.Addr {
	h.mu.Lock()
	defer h.mu.Unlock()
	if p != 0 {
		h.live[impls.Addr(p)] = b
		h.bytes += b.size
		return impls.Addr(p)
	}
	if b.size == 0 {
		return 0
	}
	if b.size >= plenty || b.align > plentyAlign || h.bytes >= plenty {
		c.NoteRefusal()
	}
	h.failed(c, int(*h.errnos[c.CPUID()]))
	return 0
}

// ask makes a call whose failure is to leave an error behind.
func (h *heap) ask(c *machine.Ctx, fn function, args ...uintptr) uintptr {
	at := &h.errnos[c.CPUID()]
	if *at == nil {
		*at = h.errno()
	}
	**at = 0
	return h.call(h.addr[fn], args...)
}

// failed looks at the error that a failed call left. Any is an answer, none is not.
func (h *heap) failed(c *machine.Ctx, errno int) {
	if h.profile.errno && errno == 0 {
		h.broke(c, fault.ErrnoWrong, "errno was left alone")
	}
}

func (h *heap) broke(c *machine.Ctx, title fault.Title, evidence string) {
	h.broken[c.CPUID()] = breach{title, evidence}
}

// Broke is what the last call of c broke.
func (h *heap) Broke(c *machine.Ctx) (fault.Title, string) {
	b := &h.broken[c.CPUID()]
	title, evidence := b.title, b.evidence
	*b = breach{}
	return title, evidence
}

// gone forgets p and returns what it was.
func (h *heap) gone(p impls.Addr) block {
	h.mu.Lock()
	defer h.mu.Unlock()
	b := h.live[p]
	delete(h.live, p)
	h.bytes -= b.size
	return b
}

// Malloc is malloc, or calloc of one element.
func (h *heap) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	if f&impls.FlagZero != 0 {
		return h.Calloc(c, 1, size)
	}
	p := h.ask(c, fnMalloc, uintptr(size))
	return h.took(c, p, block{size: size, plain: true})
}

// Calloc is calloc. A product that is no number is asked for as it is.
func (h *heap) Calloc(c *machine.Ctx, n, size uint64) impls.Addr {
	p := h.ask(c, fnCalloc, uintptr(n), uintptr(size))
	b := block{size: n * size, plain: true}
	if n != 0 && b.size/n != size {
		b.size = 1<<64 - 1
	}
	if p != 0 && b.size == 1<<64-1 {
		b.size = 0 // it holds nothing that anybody could count
	}
	return h.took(c, p, b)
}

// Memalign is one of the functions for aligned memory that the library has: by the request,
// so that every one is used and a program always means the same.
func (h *heap) Memalign(c *machine.Ctx, align, size uint64, _ impls.AllocFlags) impls.Addr {
	var p uintptr
	switch fn := h.alignedBy(align, size); fn {
	case fnPosixMemalign:
		return h.memalignPosix(c, align, size)
	case fnAlignedTBB:
		p = h.ask(c, fn, uintptr(size), uintptr(align))
	default: // aligned_alloc, memalign
		p = h.ask(c, fn, uintptr(align), uintptr(size))
	}
	return h.took(c, p, block{size: size, align: align})
}

// memalignPosix is posix_memalign, which tells of a failure by what it returns, and leaves
// errno alone.
func (h *heap) memalignPosix(c *machine.Ctx, align, size uint64) impls.Addr {
	p, code := h.caller.posixMemalign(h.addr[fnPosixMemalign], uintptr(align), uintptr(size))
	b := block{size: size, align: align}
	if code == 0 {
		return h.took(c, p, b)
	}
	if size >= plenty || align > plentyAlign || h.bytes >= plenty {
		c.NoteRefusal()
	}
	h.failed(c, code)
	return 0
}

// wordBytes is the smallest alignment that posix_memalign may be asked for.
const wordBytes = 8

// alignedBy is the function that a request for aligned memory goes to. Those that cannot be
// asked for it are left out: posix_memalign below a word, aligned_alloc where the size is no
// multiple (before C17 that was an error).
func (h *heap) alignedBy(align, size uint64) function {
	var can [3]function
	n := 0
	for _, fn := range [...]function{fnPosixMemalign, fnAlignedAlloc, fnMemalign, fnAlignedTBB} {
		switch {
		case h.addr[fn] == 0 || n == len(can):
		case fn == fnPosixMemalign && align < wordBytes:
		case fn == fnAlignedAlloc && (size%align != 0 || size == 0):
		default:
			can[n] = fn
			n++
		}
	}
	if n == 0 {
		return h.aligned
	}
	return can[(size/16+align/32)%uint64(n)]
}

// Realloc is realloc, or reallocarray of two halves where the library has that and the size
// is twice an odd number.
func (h *heap) Realloc(c *machine.Ctx, p impls.Addr, size uint64, _ impls.AllocFlags) impls.Addr {
	old := h.gone(p)
	var q uintptr
	if h.addr[fnReallocarray] != 0 && size%4 == 2 {
		q = h.ask(c, fnReallocarray, uintptr(p), 2, uintptr(size/2))
	} else {
		q = h.ask(c, fnRealloc, uintptr(p), uintptr(size))
	}
	if q == 0 && p != 0 && (size > 0 || h.profile.ReallocZero == impls.Never) {
		h.took(c, uintptr(p), old) // a failure leaves it
	}
	return h.took(c, q, block{size: size, align: 0})
}

// Free is free.
func (h *heap) Free(_ *machine.Ctx, p impls.Addr) {
	h.gone(p)
	h.call(h.addr[fnFree], uintptr(p))
}

// FreeSized is free_sized or what the library has in its place, told the alignment where it
// takes one.
func (h *heap) FreeSized(_ *machine.Ctx, p impls.Addr, size uint64) {
	b := h.gone(p)
	switch {
	case h.addr[fnFreeSized] != 0 && b.align == 0:
		h.call(h.addr[fnFreeSized], uintptr(p), uintptr(size))
	case h.addr[fnSdallocx] != 0 && p != 0:
		h.call(h.addr[fnSdallocx], uintptr(p), uintptr(size), uintptr(log2(b.align)))
	default:
		h.call(h.addr[fnFree], uintptr(p))
	}
}

// log2 is the exponent of an alignment, as jemalloc takes it in its flags; 0 for none.
func log2(align uint64) (n uint64) {
	for ; align > 1; align >>= 1 {
		n++
	}
	return n
}

// Usable is malloc_usable_size. Every byte of it may be used, so those behind the request
// are written to the end; what a library says it would give for the size must be what it gave.
func (h *heap) Usable(c *machine.Ctx, p impls.Addr) uint64 {
	n := uint64(h.call(h.addr[fnUsableSize], uintptr(p)))
	h.mu.Lock()
	b, known := h.live[p]
	h.mu.Unlock()
	if !known || p == 0 {
		return n
	}
	if good, ok := h.good(b.size); ok && b.plain && h.profile.good && good != n {
		h.broke(c, fault.UsableUnlike, fmt.Sprintf("%d bytes asked for: %d promised, %d usable",
			b.size, good, n))
	}
	if n > b.size && h.profile.slack {
		const slackPattern = 0x51ac
		rest := n - b.size
		memory{}.Fill(p+b.size, min(rest, wholeMost), slackPattern)
	}
	return n
}

// good is how many bytes the library says that it gives for a request of size bytes.
func (h *heap) good(size uint64) (uint64, bool) {
	switch {
	case size == 0:
	case h.addr[fnGoodSizeX] != 0:
		return uint64(h.call(h.addr[fnGoodSizeX], uintptr(size), 0)), true
	case h.addr[fnGoodSize] != 0:
		return uint64(h.call(h.addr[fnGoodSize], uintptr(size))), true
	}
	return 0, false
}
