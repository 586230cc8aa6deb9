package slab

import (
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// A colouring gives each slab of a cache its colour, by turns, so that objects of one
// number in different slabs do not share their lines of the processor's cache: the axis
// colour.
type colouring interface {
	// before is asked ahead of a slab's page request, with cache.lock held.
	before(c *machine.Ctx, s *Cache) uint64
	// after is asked when the page is there, with no lock and interrupts as they were
	// before the allocation; ahead is what before answered. It returns the slab's colour.
	after(c *machine.Ctx, s *Cache, ahead uint64) uint64
}

// lockedColour is S3a, 2016 and before: the next colour is read, advanced and wrapped
// under cache.lock, ahead of the page request.
//
// Cause: the lock is taken there anyhow, to note that the cache is growing. Effect: the
// colours come round without a gap or a double, from 0, as long as every page can be
// had; a page that is refused has used one up. Fix, of what it costs: a slab that is
// made needs the lock for nothing else, and all CPUs that make slabs of one cache meet
// at it.
type lockedColour struct {
	next machine.GuardedWord // below the cache's colours, or 0
}

var colourNext = machine.Guarded("cache", "colour_next")

func newLockedColour(s *Cache) colouring {
	k := &lockedColour{}
	k.next.Init(colourNext, s.guard, 0)
	return k
}

func (k *lockedColour) before(c *machine.Ctx, s *Cache) uint64 {
	colour := k.next.Load(c)
	next := colour + 1
	if next >= s.colours {
		next = 0
	}
	k.next.Store(c, next)
	return colour
}

func (*lockedColour) after(_ *machine.Ctx, _ *Cache, ahead uint64) uint64 { return ahead }

// racyColour is S3b, 2016: the next colour is advanced without a lock when the page is
// there, and the slab has what it is then.
//
// Cause: which colour a slab has matters to nobody but the processor's cache, so no lock
// is worth its while for it, as long as the colour is one of the cache's. Effect: CPUs
// that advance at the same time give one colour twice or leave one out, and what is read
// last may be what another CPU has just stored and not yet wrapped: the number of
// colours, or more where several are at it. Fix, which is part of the design: what was
// read last is what is used, and it is held against the limit once more. Since the
// advance comes first, the first slab has colour 1.
type racyColour struct{ next machine.Word }

var racyNext = machine.Racy("cache", "colour_next",
	"a colour that is given twice or left out does no harm, and what is read is held against "+
		"the number of colours before it is used")

func newRacyColour(*Cache) colouring {
	k := &racyColour{}
	k.next.Init(racyNext, 0, 0)
	return k
}

func (*racyColour) before(*machine.Ctx, *Cache) uint64 { return 0 }

func (k *racyColour) after(c *machine.Ctx, s *Cache, _ uint64) uint64 {
	colour := k.advance(c, s)
	if colour >= s.colours {
		colour = 0
	}
	return colour
}

// advance takes the word one colour on and returns what it holds afterwards, which may
// be anybody's.
func (k *racyColour) advance(c *machine.Ctx, s *Cache) uint64 {
	next := k.next.Load(c) + 1
	k.next.Store(c, next)
	if next >= s.colours {
		k.next.Store(c, 0)
	}
	return k.next.Load(c)
}

// unclampedColour is S3c: racyColour that trusts what it reads last.
//
// Cause: the word was wrapped a moment ago, so what is read seems to be below the limit.
// Effect: it is what another CPU has stored and not wrapped yet. A slab of as many steps
// as there are colours still fits, since what is left over is at least so many; with one
// step more, or at once where nothing is left over, the last object leaves its slab. Fix:
// racyColour.
type unclampedColour struct{ racyColour }

var trustedNext = machine.Racy("cache", "colour_next",
	"what was wrapped is taken to be below the number of colours, which is the mistake of the "+
		"design")

func newUnclampedColour(*Cache) colouring {
	k := &unclampedColour{}
	k.next.Init(trustedNext, 0, 0)
	return k
}

func (k *unclampedColour) after(c *machine.Ctx, s *Cache, _ uint64) uint64 {
	return k.advance(c, s)
}

// legal notes a slab that is about to get a colour which the cache does not have.
func (s *Cache) legal(c *machine.Ctx, colour uint64) {
	if colour >= max(s.colours, 1) {
		c.Fault(fault.ColourRange, "cache %s: a slab gets colour %d of %d", s.name, colour,
			s.colours)
	}
}
