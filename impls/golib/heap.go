package golib

import (
	"sync"

	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
)

// A backend is one outside allocator behind the smallest useful interface. Sizes
// and alignments that reach it have passed asks.
type backend interface {
	// asks says whether a request is passed on at all: not when its numbers do not
	// fit the allocator's, nor when meeting it would endanger the process.
	asks(live, size uint64) bool
	alloc(size uint64, zero bool) impls.Addr
	memalign(align, size uint64) impls.Addr
	realloc(p impls.Addr, size uint64) impls.Addr
	free(p impls.Addr)
	usable(p impls.Addr) uint64
	// view is n bytes at a; nil when they are not memory.
	view(a impls.Addr, n uint64) []byte
	// full says, after a refusal, whether the limit explains it.
	full(live, size uint64) bool
	// reset makes the heap as new, giving back what is live; false when this one
	// cannot be used again.
	reset() bool
	// drop gives everything back without trusting the allocator's state.
	drop()
}

// A heap is the Instance over a backend: it counts what is live and notes
// refusals.
type heap struct {
	backend
	objects impls.Objects
	live    *table[uint64] // bytes asked for, by address
	bytes   uint64         // sum of live
	inside  bool           // in a call of the allocator
	least   uint64         // see MinAlign
	pool    *pool
}

var (
	_ impls.Instance  = (*heap)(nil)
	_ impls.Allocator = (*heap)(nil)
	_ impls.Viewer    = (*heap)(nil)
)

// overhead is what an allocator may need beside each object, for judging refusals.
const overhead = 64

// alignMax is the largest alignment that is passed on.
const alignMax = 1 << 30

// poolMax is how many unused heaps a pool keeps.
const poolMax = 8

// A pool makes heaps of one kind and keeps unused ones.
type pool struct {
	mu    sync.Mutex
	free  []*heap
	make  func(live *table[uint64]) backend
	least uint64 // alignment up to which caches use Malloc
}

// get returns a heap that is as new.
func (p *pool) get() *heap {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n := len(p.free); n > 0 {
		h := p.free[n-1]
		p.free = p.free[:n-1]
		h.pool = p
		return h
	}
	h := &heap{live: &table[uint64]{}, pool: p, least: p.least}
	h.backend = p.make(h.live)
	h.objects = kmalloc.Caches(h, h)
	return h
}

func (p *pool) put(h *heap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.free) < poolMax {
		p.free = append(p.free, h)
		return
	}
	h.drop()
}

// MinAlign is the alignment up to which caches of objects use Malloc: that of every
// address, or more than anybody asks for when there is no other way.
func (h *heap) MinAlign() uint64 { return h.least }

// Memory is the heap itself.
func (h *heap) Memory() impls.Memory { return h }

// Objects makes caches out of the allocator.
func (h *heap) Objects() impls.Objects { return h.objects }

// Sizes is the allocator.
func (h *heap) Sizes() impls.Allocator { return h }

// Pages is nil: there is no page layer.
func (h *heap) Pages() impls.Pages { return nil }

// Snapshot shows nothing.
func (h *heap) Snapshot(*impls.Snapshot) bool { return false }

// Close gives back what is live. The heap must not be used afterwards.
func (h *heap) Close() {
	p := h.pool
	if p == nil {
		return
	}
	h.pool = nil
	if h.inside || !h.reset() {
		h.drop()
		return
	}
	h.live.reset()
	h.bytes = 0
	p.put(h)
}

// ask says whether a request of size bytes may be passed on; else it is refused.
func (h *heap) ask(c *machine.Ctx, size uint64) bool {
	if h.asks(h.bytes, size) {
		h.inside = true
		return true
	}
	c.NoteRefusal()
	return false
}

// took notes what the allocator answered to a request of size bytes, of which it
// had to find need in one piece.
func (h *heap) took(c *machine.Ctx, p impls.Addr, size, need uint64) impls.Addr {
	h.inside = false
	if p == 0 {
		if h.full(h.bytes+overhead*uint64(h.live.n), need) {
			c.NoteRefusal()
		}
		return 0
	}
	if h.live.put(p, size) {
		h.bytes += size
	}
	return p
}

// Malloc returns size bytes.
func (h *heap) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	if !h.ask(c, size) {
		return 0
	}
	return h.took(c, h.alloc(size, f&impls.FlagZero != 0), size, size)
}

// Memalign returns size bytes at a multiple of align. None of the libraries zeroes
// them.
func (h *heap) Memalign(c *machine.Ctx, align, size uint64, _ impls.AllocFlags) impls.Addr {
	need := size + align
	if align > alignMax || need < size {
		c.NoteRefusal()
		return 0
	}
	if !h.ask(c, need) {
		return 0
	}
	return h.took(c, h.memalign(align, size), size, need)
}

// Realloc changes the size of p, which may be 0. None of the libraries zeroes what it adds.
func (h *heap) Realloc(c *machine.Ctx, p impls.Addr, size uint64, _ impls.AllocFlags) impls.Addr {
	old := h.live.find(p)
	if p != 0 && old == nil {
		return 0
	}
	if !h.ask(c, size) {
		return 0
	}
	q := h.realloc(p, size)
	if p != 0 && (q != 0 || size == 0) {
		h.forget(p)
	}
	return h.took(c, q, size, size)
}

// Free takes p back. What is not live any more is left alone: the allocator handed
// it out twice, and that was found when it did.
func (h *heap) Free(_ *machine.Ctx, p impls.Addr) {
	if p == 0 || !h.forget(p) {
		return
	}
	h.inside = true
	h.free(p)
	h.inside = false
}

func (h *heap) forget(p impls.Addr) bool {
	size, ok := h.live.take(p)
	h.bytes -= size
	return ok
}

// Usable is the usable size of p, 0 at 0.
func (h *heap) Usable(_ *machine.Ctx, p impls.Addr) uint64 {
	if p == 0 {
		return 0
	}
	h.inside = true
	n := h.usable(p)
	h.inside = false
	return n
}

// Fill writes a pattern; outside the heap it does nothing.
func (h *heap) Fill(a impls.Addr, n uint64, p impls.Pattern) { p.Fill(h.view(a, n)) }

// Verify checks a pattern; outside the heap the first byte is wrong.
func (h *heap) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	b := h.view(a, n)
	if b == nil && n > 0 {
		return 0
	}
	return p.Verify(b)
}

// Read copies bytes at a into b.
func (h *heap) Read(a impls.Addr, b []byte) int { return copy(b, h.view(a, uint64(len(b)))) }

// Flip inverts bits of one byte.
func (h *heap) Flip(a impls.Addr, mask byte) {
	if b := h.view(a, 1); b != nil {
		b[0] ^= mask
	}
}

// View is n bytes at a; nil when they are not memory.
func (h *heap) View(a impls.Addr, n uint64) []byte { return h.view(a, n) }

// Contains says whether n bytes at a are memory. Where addresses are pointers only
// what is live is.
func (h *heap) Contains(a impls.Addr, n uint64) bool {
	return a != 0 && (n == 0 || h.view(a, n) != nil)
}

// blockOf finds the live block that holds n bytes at a, which need not be its
// first: that takes a walk, and only damage on purpose needs it.
func blockOf(live *table[uint64], a impls.Addr, n uint64) bool {
	if size := live.find(a); size != nil {
		return n <= *size
	}
	found := false
	live.each(func(first impls.Addr, size *uint64) bool {
		found = a >= first && a-first < *size && n <= *size-(a-first)
		return !found
	})
	return found
}
