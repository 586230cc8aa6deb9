package slab

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// The ranks of the locks: above the slab lock and the zone lock.
const (
	rankCache = machine.RankSlabLock * 2
	rankChain = machine.RankSlabLock * 3
)

var (
	cacheLock   = machine.Atomic("cache", "lock")
	cacheSlabs  = machine.Guarded("cache", "slabs")
	growingWord = machine.Guarded("cache", "growing")
	grownWord   = machine.Guarded("cache", "grown")
)

// Cache is a cache of the SLAB family.
type Cache struct {
	geometry
	name       string
	sys        *system
	constructs construction // when the constructor of the objects is called
	rcu        bool         // readers may look at objects after their free
	lists      lists
	arrays     arrays
	colouring  colouring
	keeper     keeper    // of what describes its slabs
	debug      *debugger // nil without debug flags

	// For walking from outside: the cache's number in the last snapshot, the heads of lists,
	// and the word firstnotfull of the one list, nil where there are several.
	number  int
	heads   []*list
	notFull *machine.GuardedWord

	lock  machine.SpinLock
	guard machine.Guard // lock is held

	// Guarded by lock.
	slabs   machine.GuardedWord // Invariant SLAB3: slabs on the lists
	growing machine.GuardedWord // contexts that are making a slab
	grown   machine.GuardedWord // 1 since a slab was made, until the next reap

	// Guarded by the chain's lock.
	dead bool // off the chain: destroyed
	kin  impls.Kin
}

var (
	_ impls.Cache   = (*Cache)(nil)
	_ impls.Flusher = (*Cache)(nil)
	_ impls.Tuner   = (*Cache)(nil)
)

// init makes a cache of its geometry ready, with what debugging puts around objects. With
// that it has no arrays: what debugging knows of an object is whether its slab has it, and
// of one that waits in an array neither is true. 2.4 kept the arrays of such caches and
// checked objects on their way between array and slab only, so that a free was looked at
// when its batch was; 2.6 checked at each call and had smaller arrays, of at most 32.
func (s *Cache) init(sys *system, spec *impls.CacheSpec, around *debugcheck.Layout) {
	s.sys, s.name = sys, spec.Name
	s.lock.Init(cacheLock, rankCache)
	s.guard = s.lock.Guard()
	s.slabs.Init(cacheSlabs, s.guard, 0)
	s.growing.Init(growingWord, s.guard, 0)
	s.grown.Init(grownWord, s.guard, 0)
	s.lists, s.colouring = sys.design.lists(s), sys.design.colouring(s)
	s.keeper = sys.keeperFor(&s.geometry)
	if around != nil {
		s.debug, s.arrays = newDebugger(s, around), noArrays{}
	} else {
		s.arrays = sys.design.arrays(s, spec)
	}
	s.kin.Init(sys.m, spec, impls.Places{Stride: s.stride, Align: s.align, Lies: s.align},
		around != nil)
}

// Size is the largest size that was asked for.
func (s *Cache) Size() uint64 { return s.kin.Size() }

// Align is the alignment of every object.
func (s *Cache) Align() uint64 { return s.align }

// Alloc is kmem_cache_alloc: it returns the object on top of this CPU's array, else the one
// freed last of the first slab that has one, making a slab when none has; 0 when no page
// can be had.
func (s *Cache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	if c.ShouldFail() {
		return 0
	}
	return s.get(c, f)
}

// get is Alloc for the family itself, whose own objects are never refused on purpose.
func (s *Cache) get(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	for {
		obj := s.arrays.alloc(c, s)
		if obj != 0 {
			if f&impls.FlagZero != 0 {
				clear(s.sys.m.MemBytes(obj, int(s.kin.Size())))
			}
			return obj
		}
		if !s.grow(c, f) {
			return 0
		}
	}
}

// grow is kmem_cache_grow: it adds a slab and says whether it could. The page is
// asked for with the lock free and interrupts as they were; meanwhile others may
// take the new objects or add slabs of their own.
func (s *Cache) grow(c *machine.Ctx, f impls.AllocFlags) bool {
	flags := s.lock.LockIRQSave(c)
	ahead := s.colouring.before(c, s)
	s.growing.Add(c, 1)
	s.lock.UnlockIRQRestore(c, flags)

	p, colour, manager := s.newPages(c, ahead, f)

	flags = s.lock.LockIRQSave(c)
	s.growing.Store(c, s.growing.Load(c)-1)
	if p != nil {
		s.grown.Store(c, 1)
		s.legal(c, colour)
		s.setUp(c, p, colour, manager)
		s.sys.owner[p.PFN()] = s
		s.slabs.Add(c, 1)
		s.lists.add(c, p)
	}
	s.lock.UnlockIRQRestore(c, flags)
	return p != nil
}

// newPages asks for what a new slab needs: its pages, then its colour and, as 2.4 does, a
// place for its description; p is nil when there is no memory, and then nothing is kept.
// ahead is what the colouring said before.
func (s *Cache) newPages(c *machine.Ctx, ahead uint64, f impls.AllocFlags) (p *machine.Page,
	colour uint64, at impls.Addr) {
	p = c.AllocPages(s.order, f.Waits(c))
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

// Free is kmem_cache_free: it takes back an object of this cache. Anything else
// is a finding and changes nothing, unless debugging has something to say about it.
func (s *Cache) Free(c *machine.Ctx, obj impls.Addr) {
	p := s.sys.m.PageOf(obj)
	if p == nil || p.Tag != any(s) {
		s.stray(c, p, obj)
		return
	}
	s.arrays.free(c, s, p, obj)
}

// stray is a free of what no slab of s holds: what is in a slab of another cache is
// that one's to report, and goes back to it when the report lets the kernel go on.
func (s *Cache) stray(c *machine.Ctx, p *machine.Page, obj impls.Addr) {
	var of *Cache
	if p != nil {
		of, _ = p.Tag.(*Cache)
	}
	if of == nil {
		of = s
	}
	if of.debug == nil {
		c.Fault(fault.OutsideSlab, "%#x freed to cache %s, which has no slab there", obj, s.name)
		return
	}
	of.debug.stray(c, s, obj)
	if of != s {
		of.Free(c, obj)
	}
}

// Shrink is kmem_cache_shrink: it empties the arrays and then gives every free slab back,
// the one that was freed first at first. It returns the number of pages. Only where calls
// to other CPUs are allowed.
func (s *Cache) Shrink(c *machine.Ctx) int {
	s.arrays.drain(c, s)
	pages := 0
	for {
		flags := s.lock.LockIRQSave(c)
		p, manager := s.takeFree(c)
		s.lock.UnlockIRQRestore(c, flags)
		if p == nil {
			return pages
		}
		pages += 1 << s.order
		s.dropPages(c, p, manager)
	}
}

// takeFree takes out the free slab whose pages go back next, nil when there is none, and
// says where it is described. Holds cache.lock.
func (s *Cache) takeFree(c *machine.Ctx) (p *machine.Page, manager impls.Addr) {
	if p = s.lists.reap(c); p == nil {
		return nil, 0
	}
	manager = managerWord.Load(c, p)
	if s.debug != nil {
		s.debug.discard(c, p)
	}
	s.slabs.Store(c, s.slabs.Load(c)-1)
	s.sys.owner[p.PFN()] = nil
	return p, manager
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

// Flush empties the arrays of all CPUs. No page goes back. Only where calls to other CPUs
// are allowed.
func (s *Cache) Flush(c *machine.Ctx) { s.arrays.drain(c, s) }

// Tune is kmem_tune_cpucache: from now on each CPU's array holds limit objects, of which
// batch move at once; with a limit of 0 there is none. ErrInvalid: the batch is larger, or
// nothing. A cache with debug flags has no arrays all the same. Only where calls to other
// CPUs are allowed.
func (s *Cache) Tune(c *machine.Ctx, limit, batch int) error {
	switch {
	case limit == 0:
		batch = 0
	case batch < 1 || batch > limit:
		return impls.ErrInvalid
	}
	s.arrays.tune(c, s, uint64(limit), uint64(batch))
	return nil
}

// Destroy is kmem_cache_destroy: it takes the cache off the chain, so that no reap finds
// it, and gives every slab back. While objects are live it answers ErrBusy, which 2.4
// reports where a cache is debugged; the free slabs are gone, and the cache is on the chain
// again and may be used on. Pages that readers still look at are waited for, unless the
// caller is a reader itself or may not sleep: then the cache is gone and they come later.
// Where the cache has another name only this one is gone, whatever is live.
func (s *Cache) Destroy(c *machine.Ctx) error {
	if !s.sys.unname(c, s) {
		return nil
	}
	s.sys.chained(c, s, false)
	s.Shrink(c)
	flags := s.lock.LockIRQSave(c)
	busy := s.slabs.Load(c) != 0 || s.growing.Load(c) != 0
	if busy && s.debug != nil {
		s.debug.remaining(c)
	}
	s.lock.UnlockIRQRestore(c, flags)
	if busy {
		s.sys.chained(c, s, true)
		s.sys.rename(c, s)
		return impls.ErrBusy
	}
	if s.rcu {
		c.RCUBarrier()
	}
	return nil
}
