package slab

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

var (
	chainLock  = machine.Atomic("cache_chain", "lock")
	chainClock = machine.Guarded("cache_chain", "clock")
)

// A design is one choice of each axis.
type design struct {
	layer      func(*machine.Machine) page.Layer // where pages come from
	lists      func(*Cache) lists
	arrays     func(*Cache, *impls.CacheSpec) arrays // of caches without debug flags
	colouring  func(*Cache) colouring
	management management
	classes    *kmalloc.Table
}

// new sets the design up on a machine that was just made or reset.
func (d design) new(m *machine.Machine) impls.Instance {
	sys := &system{design: d, Arena: impls.Arena{M: m}, m: m, pages: d.layer(m),
		actor: page.NewActor(m), owner: make([]*Cache, m.Pages),
		boot: impls.BootOf(m, debugcheck.SLAB24)}
	sys.chain.Init(chainLock, rankChain)
	sys.clock.Init(chainClock, sys.chain.Guard(), 0)
	m.SetPageLayer(sys.pages)
	if m.Native {
		sys.makeGenerals()
	}
	return sys
}

// A system is one machine's caches: an impls.Instance, with the impls.Objects that it
// offers.
type system struct {
	design
	impls.Arena
	m        *machine.Machine
	boot     impls.Boot
	pages    page.Layer
	actor    *page.Actor
	sizes    impls.Allocator // made when first asked for
	limbo    impls.Limbo
	generals generals

	chain  machine.SpinLock
	caches []*Cache // every cache that a caller made, in order; guarded by chain
	// clock is the number of the cache at which the next reap begins; guarded by chain.
	clock machine.GuardedWord

	// owner is the cache whose slab begins at a page: ghost state, from the moment
	// the slab is on a list until it is taken out. Guarded by that cache's lock.
	owner []*Cache
}

var (
	_ impls.Instance   = (*system)(nil)
	_ impls.Objects    = (*system)(nil)
	_ impls.Hotplugger = (*system)(nil)
	_ impls.Reaper     = (*system)(nil)
)

// Memory is the machine's arena.
func (sys *system) Memory() impls.Memory { return sys.Arena }

// Objects makes caches.
func (sys *system) Objects() impls.Objects { return sys }

// Sizes is kmalloc over caches of this family, made at the first call.
func (sys *system) Sizes() impls.Allocator {
	if sys.sizes == nil {
		sys.sizes = kmalloc.New(sys.m, sys, sys.classes)
	}
	return sys.sizes
}

// Pages is the page cache, over the same pages.
func (sys *system) Pages() impls.Pages { return sys.actor }

// Close does nothing: all is the machine's.
func (sys *system) Close() {}

// NewCache is kmem_cache_create. ErrInvalid: a size of 0 or larger than the
// largest block of pages, an alignment that is no power of two or above a page,
// a number of objects that no slab of the order holds, a word that is no flag.
// It asks for no page, so none can be refused. c is nil when nothing runs yet.
func (sys *system) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	g, around, err := sys.layout(&spec)
	if err != nil {
		return nil, spec.TurnDown(c, err)
	}
	s := &Cache{geometry: g, constructs: constructsOf(&spec, around), rcu: spec.RCU()}
	s.init(sys, &spec, around)
	if c == nil {
		return sys.admit(s), nil
	}
	flags := sys.chain.LockIRQSave(c)
	s = sys.admit(s)
	sys.chain.UnlockIRQRestore(c, flags)
	return s, nil
}

// admit adds a cache to the chain, or finds one there that can stand for it. Holds the
// chain's lock.
func (sys *system) admit(s *Cache) *Cache {
	for _, k := range sys.caches {
		if k.kin.Takes(&s.kin) {
			k.kin.Join(&s.kin)
			return k
		}
	}
	sys.caches = append(sys.caches, s)
	return s
}

// unname takes a name of a cache away; true when it was the last.
func (sys *system) unname(c *machine.Ctx, s *Cache) (last bool) {
	if !sys.m.Merge {
		return true
	}
	flags := sys.chain.LockIRQSave(c)
	last = s.kin.Leave()
	sys.chain.UnlockIRQRestore(c, flags)
	return last
}

// rename is for a cache that could not be destroyed after all.
func (sys *system) rename(c *machine.Ctx, s *Cache) {
	if !sys.m.Merge {
		return
	}
	flags := sys.chain.LockIRQSave(c)
	s.kin.Stay()
	sys.chain.UnlockIRQRestore(c, flags)
}

// chained puts a cache on the chain, or takes it off as one that is destroyed.
func (sys *system) chained(c *machine.Ctx, s *Cache, on bool) {
	flags := sys.chain.LockIRQSave(c)
	s.dead = !on
	sys.chain.UnlockIRQRestore(c, flags)
}

// cacheAt is cache number i of all, nil for one that is off the chain; more is false behind
// the last one. Without chain.lock.
func (sys *system) cacheAt(c *machine.Ctx, i int) (s *Cache, more bool) {
	flags := sys.chain.LockIRQSave(c)
	all := sys.everyCache()
	if more = i < len(all); more && !all[i].dead {
		s = all[i]
	}
	sys.chain.UnlockIRQRestore(c, flags)
	return s, more
}

// Offline gives back what the arrays of every cache hold for a CPU, and then the pages that
// the page allocator does. The next call there finds them empty and uses them as before.
// ErrInvalid: the CPU is the one that c runs on. Only where calls to other CPUs are
// allowed.
func (sys *system) Offline(c *machine.Ctx, cpu int) error {
	if cpu == c.CPUID() {
		return impls.ErrInvalid
	}
	for i := 0; ; i++ {
		c.Progress() // there may be any number of caches without arrays
		s, more := sys.cacheAt(c, i)
		if !more {
			break
		}
		if s != nil {
			s.arrays.leave(c, s, cpu)
		}
	}
	sys.pages.DrainCPU(c, cpu)
	return nil
}
