package golib

import (
	"fmt"
	"unsafe"

	"allocfuzz/impls"
)

// A Mallocer is a user's allocator that hands out slices.
type Mallocer interface {
	// Malloc returns a slice of size bytes, nil when there is no memory. For size 0
	// it may return an empty slice or nil.
	Malloc(size int) []byte
	// Free takes back a slice as Malloc returned it.
	Free(b []byte)
}

// A Zeroer also hands out zeroed memory.
type Zeroer interface {
	// Calloc is Malloc with every byte 0.
	Calloc(size int) []byte
}

// A Reallocer also changes the size of what it handed out.
type Reallocer interface {
	// Realloc returns size bytes that begin with those of b, which it takes back;
	// nil when there is no memory, and then b is as it was. It is never called with nil:
	// that is a Malloc.
	Realloc(b []byte, size int) []byte
}

// An Aligner also hands out memory at multiples of a power of two.
type Aligner interface {
	// Memalign is Malloc with the first byte's address a multiple of align.
	Memalign(align, size int) []byte
}

// A Usabler also tells how many bytes from b's first may be used.
type Usabler interface {
	// UsableSize is at least len(b).
	UsableSize(b []byte) int
}

// A HeapAllocator is a user's allocator over memory of its own, in which an
// address is an offset in bytes above 0.
type HeapAllocator interface {
	// Alloc returns the offset of size bytes, 0 when there is no memory.
	Alloc(size uint64) (addr uint64)
	// Free takes back what Alloc returned.
	Free(addr uint64)
	// Bytes is the whole memory. It may be another slice after each call.
	Bytes() []byte
}

// A HeapZeroer is Zeroer for offsets.
type HeapZeroer interface {
	// Calloc is Alloc with every byte 0.
	Calloc(size uint64) (addr uint64)
}

// A HeapReallocer is Reallocer for offsets.
type HeapReallocer interface {
	// Realloc keeps the bytes that both sizes share; 0 leaves addr as it was. It is never
	// called with 0: that is an Alloc.
	Realloc(addr, size uint64) (moved uint64)
}

// A HeapAligner is Aligner for offsets: the offset is the multiple.
type HeapAligner interface {
	// Memalign is Alloc at a multiple of align.
	Memalign(align, size uint64) (addr uint64)
}

// A HeapUsabler is Usabler for offsets.
type HeapUsabler interface {
	// UsableSize is how many bytes at addr may be used.
	UsableSize(addr uint64) uint64
}

// A Limiter says how many bytes it can hand out in all, so that its refusals can
// be judged: one with less than a quarter of that live or asked for is a finding.
// Without it a HeapAllocator has the length of Bytes, a Mallocer 64 MiB.
type Limiter interface{ Limit() int }

// An Arena never hands out again what was freed, or only what it handed out last: its Free does
// nothing, and it is given back as a whole. The subject promises no reuse then (impls.Profile), and
// refusals are judged by what Used says instead of by what is live.
type Arena interface {
	// Used is how many bytes are used up, freed ones included.
	Used() int
}

// A Resetter goes back to its first state, with all that was live taken back. It
// is used again for the next run then; others are made anew.
type Resetter interface{ Reset() }

// A Closer gives up what it holds outside Go's heap when it is not needed any more.
type Closer interface{ Close() }

const wrapMax = 64 << 20

// Wrap is the way in for a user's own allocator: a subject named name, each run of
// which starts with what construct returns, a Mallocer or a HeapAllocator. What
// else that can do (Zeroer, Reallocer, Aligner, Usabler and their Heap forms) is
// found out by looking and declared as capabilities, as is an Arena. It promises no alignment;
// set Profile and About of what is returned to say more. A value of another kind
// panics.
func Wrap(name string, construct func() any) *impls.Variant {
	first := construct()
	caps := capsOf(first)
	if c, ok := first.(Closer); ok {
		c.Close()
	}
	least := uint64(noMemalign)
	if caps.Has(impls.CapAlign) {
		least = 1
	}
	reuse := impls.Unspecified
	if has[Arena](first) {
		reuse = impls.Never
	}
	return &impls.Variant{
		Name: name, Machines: all, Sound: true, Caps: wrapCaps | caps,
		About:   fmt.Sprintf("a user's allocator, %T", first),
		Profile: impls.Profile{MinAlign: 1, Source: "its author", Reuse: reuse},
		New: pooled(func(live *table[uint64]) backend {
			return wrapped(construct(), live)
		}, least),
	}
}

// has says whether v is an I.
func has[I any](v any) bool {
	_, ok := v.(I)
	return ok
}

// capsOf looks at what an allocator can do.
func capsOf(v any) impls.Caps {
	var able [4]bool
	switch v.(type) {
	case Mallocer:
		able = [4]bool{has[Zeroer](v), has[Reallocer](v), has[Aligner](v), has[Usabler](v)}
	case HeapAllocator:
		able = [4]bool{has[HeapZeroer](v), has[HeapReallocer](v), has[HeapAligner](v),
			has[HeapUsabler](v)}
	default:
		panic(fmt.Sprintf("allocfuzz: golib: %T is no allocator: give it the methods "+
			"Malloc(int) []byte and Free([]byte), or Alloc(uint64) uint64, Free(uint64) and "+
			"Bytes() []byte", v))
	}
	var caps impls.Caps
	for i, c := range []impls.Caps{impls.CapZero, impls.CapRealloc, impls.CapAlign,
		impls.CapUsable} {
		if able[i] {
			caps |= c
		}
	}
	return caps
}

func wrapped(v any, live *table[uint64]) backend {
	if a, ok := v.(Mallocer); ok {
		w := &slices{ends: ends{v}, a: a, live: live, held: &table[[]byte]{}}
		w.zero, _ = v.(Zeroer)
		w.re, _ = v.(Reallocer)
		w.al, _ = v.(Aligner)
		w.us, _ = v.(Usabler)
		return w
	}
	w := &offsets{ends: ends{v}, a: v.(HeapAllocator)}
	w.zero, _ = v.(HeapZeroer)
	w.re, _ = v.(HeapReallocer)
	w.al, _ = v.(HeapAligner)
	w.us, _ = v.(HeapUsabler)
	return w
}

// ends is how a user's allocator is limited and ended.
type ends struct{ v any }

func (e ends) limit(otherwise int) uint64 {
	if l, ok := e.v.(Limiter); ok {
		return uint64(max(l.Limit(), 0))
	}
	return uint64(otherwise)
}

func (e ends) reset() bool {
	r, ok := e.v.(Resetter)
	if ok {
		r.Reset()
	}
	return ok
}

func (e ends) drop() {
	if c, ok := e.v.(Closer); ok {
		c.Close()
	}
}

// asks keeps a request below what the process can bear: a user's own limit may be
// larger than that.
func (e ends) asks(live, size uint64) bool {
	return size <= wrapMax && e.used(live)+size <= wrapMax
}

// used is what is used up: what is live, or more in an arena.
func (e ends) used(live uint64) uint64 {
	if a, ok := e.v.(Arena); ok {
		return max(live, uint64(max(a.Used(), 0)))
	}
	return live
}

// slices is the backend over a Mallocer. It keeps each slice as it was returned,
// by the address of its first byte.
type slices struct {
	ends
	a    Mallocer
	zero Zeroer
	re   Reallocer
	al   Aligner
	us   Usabler
	live *table[uint64]
	held *table[[]byte]
	some [1]byte // stands for an empty slice with no memory of its own
}

// keep turns a slice into an address. An empty one that is not nil has an address
// too, if only one: of two at a time the second is not told apart.
func (s *slices) keep(b []byte, size uint64) impls.Addr {
	if b == nil {
		return 0
	}
	if uint64(len(b)) < size {
		panic(fmt.Sprintf("%T returned %d bytes where %d were asked for", s.a, len(b), size))
	}
	p := unsafe.SliceData(b)
	if cap(b) == 0 {
		p = &s.some[0]
	}
	a := impls.Addr(uintptr(unsafe.Pointer(p)))
	s.held.put(a, b)
	return a
}

func (s *slices) alloc(size uint64, zero bool) impls.Addr {
	if zero && s.zero != nil {
		return s.keep(s.zero.Calloc(int(size)), size)
	}
	return s.keep(s.a.Malloc(int(size)), size)
}

func (s *slices) memalign(align, size uint64) impls.Addr {
	return s.keep(s.al.Memalign(int(align), int(size)), size)
}

func (s *slices) realloc(p impls.Addr, size uint64) impls.Addr {
	if p == 0 {
		return s.alloc(size, false)
	}
	old, _ := s.held.take(p)
	b := s.re.Realloc(old, int(size))
	if b == nil && size > 0 {
		s.held.put(p, old)
	}
	return s.keep(b, size)
}

func (s *slices) free(p impls.Addr) {
	if b, ok := s.held.take(p); ok {
		s.a.Free(b)
	}
}

func (s *slices) usable(p impls.Addr) uint64 {
	b := s.held.find(p)
	if b == nil {
		return 0
	}
	return uint64(max(s.us.UsableSize(*b), 0))
}

func (s *slices) view(a impls.Addr, n uint64) []byte {
	if b := s.held.find(a); b != nil {
		if n > uint64(len(*b)) {
			return nil
		}
		return (*b)[:n:n]
	}
	var in []byte
	s.held.each(func(first impls.Addr, b *[]byte) bool {
		size := uint64(len(*b))
		if a < first || a-first >= size || n > size-(a-first) {
			return true
		}
		in = (*b)[a-first : a-first+n]
		return false
	})
	return in
}

func (s *slices) full(live, size uint64) bool {
	return size == 0 || s.used(live)+size > s.limit(wrapMax)/4
}

func (s *slices) reset() bool {
	s.held.reset()
	return s.ends.reset()
}

// offsets is the backend over a HeapAllocator.
type offsets struct {
	ends
	a    HeapAllocator
	zero HeapZeroer
	re   HeapReallocer
	al   HeapAligner
	us   HeapUsabler
}

func (o *offsets) alloc(size uint64, zero bool) impls.Addr {
	if zero && o.zero != nil {
		return o.zero.Calloc(size)
	}
	return o.a.Alloc(size)
}

func (o *offsets) memalign(align, size uint64) impls.Addr { return o.al.Memalign(align, size) }

func (o *offsets) realloc(p impls.Addr, size uint64) impls.Addr {
	if p == 0 {
		return o.alloc(size, false)
	}
	return o.re.Realloc(p, size)
}

func (o *offsets) free(p impls.Addr) { o.a.Free(p) }

func (o *offsets) usable(p impls.Addr) uint64 { return o.us.UsableSize(p) }

func (o *offsets) view(a impls.Addr, n uint64) []byte {
	b := o.a.Bytes()
	if a == 0 || a > uint64(len(b)) || n > uint64(len(b))-a {
		return nil
	}
	return b[a : a+n : a+n]
}

func (o *offsets) full(live, size uint64) bool {
	return size == 0 || o.used(live)+size > o.limit(len(o.a.Bytes()))/4
}
