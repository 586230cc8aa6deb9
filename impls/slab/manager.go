package slab

import (
	"strconv"

	"allocfuzz/debugcheck"
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

// newPages asks for what a new slab needs: its pages, then its colour and, as 2.4 does, a
// place for its description; p is nil when there is no memory, and then nothing is kept.
// ahead is what the colouring said before.
func (s *Cache) newPages(c *machine.Ctx, ahead uint64, f impls.AllocFlags) (p *machine.Page,
	colour uint64, at impls.Addr) {
	p = c.AllocPages(s.order, f&impls.FlagAtomic == 0 && c.MayBlock())
	if p == nil {
		return nil, 0, 0
	}
	colour = s.colouring.after(c, s, ahead)
	if at = s.keeper.place(c, s, p, colour, f); at == 0 {
		c.FreePages(p)
		return nil, 0, 0
	}
	return p, colour, at
}

// dropPages gives back what newPages got. Readers may go on looking at the pages as long as
// they are at it; at what describes a slab they never do.
func (s *Cache) dropPages(c *machine.Ctx, p *machine.Page, at impls.Addr) {
	p.Tag = nil
	if s.rcu {
		s.sys.limbo.Free(c, p)
	} else {
		c.FreePages(p)
	}
	s.keeper.vacate(c, at)
}

// Sizes of the general caches, each twice the one before. 2.4 leaves the smallest out
// where pages are not of 4 KiB; machines here may have small ones.
const (
	generalLeast = 32
	generalMost  = 131072
)

// A generalSize is one general cache, which is made when it is needed first.
type generalSize struct {
	spec   impls.CacheSpec
	g      geometry
	around *debugcheck.Layout
	cache  *Cache
}

// generals are the general caches of a system. They are there for descriptions only.
type generals struct {
	sizes []generalSize
	limit uint64 // of objects of a slab that is described off it
	known bool
}

// offLimit is the limit for slabs described off them. Each general cache that describes
// its own on them raises it; later ones are made with what the earlier ones gave.
func (sys *system) offLimit() uint64 {
	k := &sys.generals
	if k.known {
		return k.limit
	}
	k.known = true
	word := uint64(sys.m.WordBytes())
	for size := uint64(generalLeast); size <= generalMost; size *= 2 {
		spec := impls.NewSpec("size-"+strconv.FormatUint(size, 10), size)
		g, around, err := sys.layout(&spec)
		if err != nil {
			continue
		}
		k.sizes = append(k.sizes, generalSize{spec: spec, g: g, around: around})
		if !g.offSlab {
			k.limit = sys.management.limit(size, managerWords*word,
				uint64(sys.management.element(0, word)/8))
		}
	}
	for i := 0; i < len(k.sizes) && sys.m.Native; i++ {
		sys.general(i)
	}
	return k.limit
}

// keeperFor is what keeps the descriptions of a cache of geometry g. Whatever the limit,
// there is a general cache that they fit: it allows at most twice what fits one of them.
func (sys *system) keeperFor(g *geometry) keeper {
	if !g.offSlab {
		return ownSlab{}
	}
	for i := range sys.generals.sizes {
		if sys.generals.sizes[i].spec.Size >= g.described(g.objects) {
			return general{sys.general(i)}
		}
	}
	panic("allocfuzz: a description of slabs that fits no general cache")
}

// general is general cache number i. In simulation it is made when it is needed first, as
// if it had been there from the start. Its own descriptions may be its own objects, where
// the limit is wrong.
func (sys *system) general(i int) *Cache {
	k := &sys.generals.sizes[i]
	if k.cache == nil {
		k.cache = &Cache{geometry: k.g}
		k.cache.init(sys, &k.spec, k.around)
	}
	return k.cache
}
