package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A management decides where the slabs of a cache are described, that is where their
// descriptions and index arrays are: the axis of row S1g. It is asked when a cache is
// made. What it decides is in the geometry and the keeper of the cache.
type management interface {
	// element is the width in bits of a number in the index array of n objects.
	element(n, wordBytes uint64) uint
	// off says whether objects of so many bytes may be described off their slab.
	off(size, page uint64) bool
	// limit is how many objects a slab may have that is described off it, where size is
	// that of the largest general cache that describes its own slabs on them, and the
	// description and each number of the index array have so many bytes.
	limit(size, description, number uint64) uint64
}

// onSlab is the first design, of 1996 and before: a slab begins with what describes it.
//
// Cause: the description must be found from the slab and come and go with it. Effect:
// nothing can fail behind the page, and nobody else is asked; but where objects are
// large fractions of a page or aligned to their size, the few bytes in front cost the
// place of a whole object. Fix: offSlab. The width of the numbers is this project's:
// 16 bits while they are enough, as later kernels had it.
type onSlab struct{}

func (onSlab) element(n, _ uint64) uint {
	if n <= narrowMost {
		return 16
	}
	return 32
}

func (onSlab) off(_, _ uint64) bool { return false }

func (onSlab) limit(_, _, _ uint64) uint64 { return 0 }

// largeShare is the part of a page from which on an object is large: the 8th.
const largeShare = 8

// offSlab is the design of 2.2 and 2.4: large objects are described in an object of a
// general cache.
//
// Cause: of a page of eight objects the description in front takes one. Effect: the
// objects have all of the slab, and what is left over can serve for more colours; where
// it suffices for the description, that goes back on the slab. But growing a cache now
// allocates, and if what it allocates from were described in the same way, to grow that
// one would ask for an object, too. Fix: a limit. The description must fit an object of
// the largest general cache that describes its own slabs on them, so it comes from a
// cache that asks nobody. What is beyond the limit has fewer pages, and where that does
// not help its description on the slab: 2.4 met no such cache, for its pages were
// large. Numbers are unsigned int, 32 bits, or a word where that is less.
type offSlab struct{}

func (offSlab) element(_, wordBytes uint64) uint { return uint(min(4, wordBytes) * 8) }

func (offSlab) off(size, page uint64) bool { return size >= page/largeShare }

func (offSlab) limit(size, description, number uint64) uint64 {
	return bytesLeft(size, description) / number
}

// offSlabHalf is S1g, 2.4.0 to 2.4.18 at least: the limit of offSlab as it was written.
//
// Cause: what is left of the general object is divided by 2, as if a number had two
// bytes, and it has four. Effect: the limit is twice too high. A slab of more objects
// than fit is described in an object of the next larger general cache, whose slabs are
// described off them as well. Where that is the cache itself, as with eight objects of
// the 8th part of a page each of whose descriptions is larger than such an object,
// growing it asks it for an object and so grows it, until there are no pages left. Fix:
// to divide by the size of a number, as mailed in 2001. On a machine with 16-bit words
// 2 is that size, and nothing is wrong.
type offSlabHalf struct{ offSlab }

func (offSlabHalf) limit(size, description, _ uint64) uint64 {
	return bytesLeft(size, description) / 2
}

// bytesLeft is what of size bytes is left for the index array.
func bytesLeft(size, description uint64) uint64 {
	if size < description {
		return 0
	}
	return size - description
}

// A keeper has the descriptions of the slabs of one cache.
type keeper interface {
	// place finds a place for the description of the new slab p, 0 when there is no
	// memory. No lock is held.
	place(c *machine.Ctx, s *Cache, p *machine.Page, colour uint64, f impls.AllocFlags) impls.Addr
	// vacate ends the use of a place whose slab is gone. No lock is held.
	vacate(c *machine.Ctx, at impls.Addr)
}

// ownSlab describes every slab at its start, behind the colour.
type ownSlab struct{}

func (ownSlab) place(_ *machine.Ctx, s *Cache, p *machine.Page, colour uint64,
	_ impls.AllocFlags) impls.Addr {
	return s.start(p, colour)
}

func (ownSlab) vacate(*machine.Ctx, impls.Addr) {}

// general describes every slab in an object of a general cache. Debug words around that
// are the general cache's own business.
type general struct{ from *Cache }

func (g general) place(c *machine.Ctx, _ *Cache, _ *machine.Page, _ uint64,
	f impls.AllocFlags) impls.Addr {
	return g.from.get(c, f&^impls.FlagZero)
}

func (g general) vacate(c *machine.Ctx, at impls.Addr) { g.from.Free(c, at) }
