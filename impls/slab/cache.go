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
)

// Cache is a cache of the SLAB family.
type Cache struct {
	geometry
	name  string
	sys   *system
	lock  machine.SpinLock
	guard machine.Guard
	debug *debugger // nil without debug flags
	// constructs is when the constructor of the objects is called.
	constructs construction
	keeper     keeper // of what describes its slabs
	rcu        bool   // readers may look at objects after their free
	lists      lists
	heads      []*list // of lists, for walking
	// notFull is the word firstnotfull of the one list, nil where there are several.
	notFull *machine.GuardedWord

	colouring colouring

	// Guarded by lock.
	slabs   machine.GuardedWord // Invariant SLAB3: slabs on the lists
	growing machine.GuardedWord // contexts that are making a slab
	dead    bool                // destroyed; guarded by the system's lock
}

var _ impls.Cache = (*Cache)(nil)

// init makes a cache of its geometry ready, with what debugging puts around objects.
func (s *Cache) init(sys *system, spec *impls.CacheSpec, around *debugcheck.Layout) {
	s.sys, s.name = sys, spec.Name
	s.lock.Init(cacheLock, rankCache)
	s.guard = s.lock.Guard()
	s.slabs.Init(cacheSlabs, s.guard, 0)
	s.growing.Init(growingWord, s.guard, 0)
	s.lists, s.colouring = sys.newLists(s), sys.newColouring(s)
	s.keeper = sys.keeperFor(&s.geometry)
	if around != nil {
		s.debug = newDebugger(s, around)
	}
}

// Size is the size that was asked for.
func (s *Cache) Size() uint64 { return s.size }

// Align is the alignment of every object.
func (s *Cache) Align() uint64 { return s.align }

// Alloc is kmem_cache_alloc: it returns the object freed last of the first slab
// that has one, making a slab when none has; 0 when no page can be had.
func (s *Cache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	if c.ShouldFail() {
		return 0
	}
	return s.get(c, f)
}

// get is Alloc for the family itself, whose own objects are never refused on purpose.
func (s *Cache) get(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	for {
		flags := s.lock.LockIRQSave(c)
		obj := s.lists.alloc(c, s)
		s.lock.UnlockIRQRestore(c, flags)
		if obj != 0 {
			if f&impls.FlagZero != 0 {
				clear(s.sys.m.MemBytes(obj, int(s.size)))
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
		s.legal(c, colour)
		s.setUp(c, p, colour, manager)
		s.sys.owner[p.PFN()] = s
		s.slabs.Add(c, 1)
		s.lists.add(c, p)
	}
	s.lock.UnlockIRQRestore(c, flags)
	return p != nil
}

// Free is kmem_cache_free: it takes back an object of this cache. Anything else
// is a finding and changes nothing, unless debugging has something to say about it.
func (s *Cache) Free(c *machine.Ctx, obj impls.Addr) {
	p := s.sys.m.PageOf(obj)
	if p == nil || p.Tag != any(s) {
		s.stray(c, p, obj)
		return
	}
	flags := s.lock.LockIRQSave(c)
	inuse, ok := s.put(c, p, obj)
	if ok {
		s.lists.freed(c, s, p, inuse)
	}
	if s.debug != nil {
		s.debug.chainTest(c)
	}
	s.lock.UnlockIRQRestore(c, flags)
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

// Shrink is kmem_cache_shrink: it gives every free slab back, the one that was
// freed first at first, and returns the number of pages.
func (s *Cache) Shrink(c *machine.Ctx) int {
	pages := 0
	for {
		flags := s.lock.LockIRQSave(c)
		p, manager := s.lists.reap(c), impls.Addr(0)
		if p != nil {
			manager = managerWord.Load(c, p)
			if s.debug != nil {
				s.debug.discard(c, p)
			}
			s.slabs.Store(c, s.slabs.Load(c)-1)
			s.sys.owner[p.PFN()] = nil
		}
		s.lock.UnlockIRQRestore(c, flags)
		if p == nil {
			return pages
		}
		pages += 1 << s.order
		s.dropPages(c, p, manager)
	}
}

// Destroy is kmem_cache_destroy: it gives every slab back. While objects are live
// it answers ErrBusy, which 2.4 reports where a cache is debugged; the free slabs are
// gone and the cache may be used on. Pages that readers still look at are waited for, unless
// the caller is a reader itself or may not sleep: then the cache is gone and they come later.
func (s *Cache) Destroy(c *machine.Ctx) error {
	s.Shrink(c)
	flags := s.lock.LockIRQSave(c)
	busy := s.slabs.Load(c) != 0 || s.growing.Load(c) != 0
	if busy && s.debug != nil {
		s.debug.remaining(c)
	}
	s.lock.UnlockIRQRestore(c, flags)
	if busy {
		return impls.ErrBusy
	}
	if s.rcu {
		c.RCUBarrier()
	}
	s.sys.drop(c, s)
	return nil
}
