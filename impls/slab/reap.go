package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// The bounds of a reap, as in 2.4.
const (
	reapScan    = 10 // caches that are looked at
	reapPerfect = 10 // pages that are enough to look no further
)

// Reap is kmem_cache_reap of 2.4: of the caches that it looks at, beginning where the last
// one stopped, it takes the one with the most pages in free slabs and gives half of these
// slabs back, the one that was freed first at first. It returns the number of pages. A
// cache that is making a slab is passed by, and so is, once, one that has made one since
// the last look.
//
// The kernel holds a semaphore over the chain from end to end. Here it is the chain's lock,
// with interrupts off: nobody destroys a cache meanwhile. Caches that must not be reaped are
// left out, since none here asks for that.
func (sys *system) Reap(c *machine.Ctx) int {
	pages := 0
	flags := sys.chain.LockIRQSave(c)
	if best, free := sys.candidate(c); best != nil {
		pages = best.giveHalf(c, free)
	}
	sys.chain.UnlockIRQRestore(c, flags)
	return pages
}

// candidate is the cache to be reaped, with the number of its free slabs; nil when none has
// any. The next search begins behind the last cache that was looked at. Holds chain.lock.
func (sys *system) candidate(c *machine.Ctx) (best *Cache, free int) {
	all := sys.everyCache()
	n := len(all)
	most, left := 0, reapScan
	at := int(sys.clock.Load(c))
	for i := 0; i < n && left > 0 && most < reapPerfect; i++ {
		s := all[at%n]
		at = at%n + 1
		if s.dead {
			continue
		}
		left--
		if slabs, pages := s.spare(c); pages > most {
			best, free, most = s, slabs, pages
		}
	}
	sys.clock.Store(c, uint64(at))
	return best, free
}

// spare is the number of free slabs of a cache that may be reaped, and what their pages
// count, none for one that may not. What this CPU's array holds goes back first: it may be
// all that keeps a slab. Objects that must be constructed again count less, and so do blocks
// of several pages, since they are hard to get. Holds chain.lock.
func (s *Cache) spare(c *machine.Ctx) (slabs, pages int) {
	s.lock.Lock(c)
	switch {
	case s.growing.Load(c) != 0:
	case s.grown.Load(c) != 0:
		s.grown.Store(c, 0)
	default:
		s.arrays.own(c, s)
		slabs = s.lists.spare(c, s)
	}
	s.lock.Unlock(c)
	pages = slabs << s.order
	if s.constructs != never {
		pages = (pages*4 + 1) / 5
	}
	if s.order > 0 {
		pages = (pages*4 + 1) / 5
	}
	return slabs, pages
}

// giveHalf gives back half of so many free slabs, rounded up, or as many as are there now,
// and returns the number of pages. It stops when somebody begins to make a slab. Holds
// chain.lock.
func (s *Cache) giveHalf(c *machine.Ctx, free int) (pages int) {
	for range (free + 1) / 2 {
		c.Progress()
		var (
			p       *machine.Page
			manager impls.Addr
		)
		s.lock.Lock(c)
		if s.growing.Load(c) == 0 {
			p, manager = s.takeFree(c)
		}
		s.lock.Unlock(c)
		if p == nil {
			break
		}
		pages += 1 << s.order
		s.dropPages(c, p, manager)
	}
	return pages
}
