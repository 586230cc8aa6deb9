package slub

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// Cache is one cache (struct kmem_cache): an impls.Cache. It does not know which
// alternatives of its axes it was given.
type Cache struct {
	layout
	name       string
	index      int // in the heap
	heap       *heap
	ghost      *registry
	fast       fastPath
	start      slowStart
	exclusion  exclusion
	partial    partialList
	minPartial uint64    // slabs on the node's list above which empty ones go back
	cpuPartial uint64    // slabs that a CPU's store holds
	dead       bool      // destroyed
	kin        impls.Kin // natively under the registry's lock
	debug      *debugging
	node       node
	cpus       []cpuSlab
	pairs      machine.PerCPUDouble // of cpus where the fast path has them, else nil
	few        [2]cpuSlab           // storage of cpus on a small machine
}

var (
	_ impls.Cache   = (*Cache)(nil)
	_ impls.Flusher = (*Cache)(nil)
)

// newCache makes a cache of objects that are laid out as the Spec in g says. It may run on
// a small stack, which little on it keeps small.
func newCache(h *heap, spec *impls.CacheSpec, g *debugcheck.Layout) (*Cache, error) {
	l, err := h.newLayout(spec, g)
	if err != nil {
		return nil, err
	}
	k := &Cache{layout: l, name: spec.Name, heap: h, ghost: &h.ghost, fast: h.fast,
		start: h.start, exclusion: h.exclusion, partial: h.partial,
		minPartial: l.minPartial(spec),
		cpuPartial: l.cpuPartial(h.m, spec)}
	if g.Flags.Debugs() {
		k.debug = newDebugging(k, g)
	}
	k.node.init(k.debug != nil)
	k.kin.Init(h.m, spec, impls.Places{Stride: k.stride, Align: k.align,
		Lies: min(k.stride&-k.stride, uint64(h.m.PageSize))}, k.debug != nil)
	if h.m.CPUs <= len(k.few) {
		k.cpus = k.few[:h.m.CPUs]
	} else {
		k.cpus = make([]cpuSlab, h.m.CPUs)
	}
	for i := range k.cpus {
		s := &k.cpus[i]
		s.cpu = i
		k.exclusion.init(s, h.m.CPU(i))
		k.fast.init(k, s)
		k.partial.init(s)
	}
	return k, nil
}

// cpu is what the cache keeps for the CPU that c runs on. Something keeps c there, else
// it is another one's the next moment.
func (k *Cache) cpu(c *machine.Ctx) *cpuSlab { return &k.cpus[c.CPUID()] }

// Alloc is kmem_cache_alloc: it returns an object, 0 when there is no memory. It
// may be called anywhere; it sleeps for pages where c may.
func (k *Cache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	if c.ShouldFail() {
		return 0
	}
	a := k.fast.alloc(c, k)
	if a == 0 {
		a = k.slowAlloc(c, f, k.size)
	}
	if a != 0 && f&impls.FlagZero != 0 {
		clear(k.heap.m.MemBytes(a, int(k.kin.Size())))
	}
	return a
}

// Free is kmem_cache_free: it takes back a live object of this cache. It may be
// called anywhere. An address outside the arena ends the run, unless checks find it.
func (k *Cache) Free(c *machine.Ctx, a impls.Addr) {
	p := k.heap.m.PageOf(a)
	if p == nil {
		if k.checked() {
			k.reporter(c).NotSlab(a)
			return
		}
		c.Die(fault.WildAddress, "cache %s: free of %#x", k.name, a)
	}
	if !k.fast.free(c, k, p, a) {
		k.slowFree(c, p, a)
	}
}

// Size is the number of bytes of an object that may be used.
func (k *Cache) Size() uint64 { return k.kin.Size() }

// Align is the alignment of every object.
func (k *Cache) Align() uint64 { return k.align }

// release is flush_slab for the CPU of s: nothing belongs to it any more. Holds the CPU.
func (k *Cache) release(c *machine.Ctx, s *cpuSlab) {
	if s.page.load(c) != none {
		k.deactivate(c, s)
	}
	k.partial.flush(c, k, s)
}

// Flush is flush_all: every CPU lets its slab and its store go, one that has a store alone
// no less than the others. Empty slabs are given back as far as the node has enough. Only
// where calls to other CPUs are allowed.
func (k *Cache) Flush(c *machine.Ctx) {
	for i := range k.cpus {
		k.exclusion.on(c, k, i)
	}
}

// Shrink is kmem_cache_shrink: every CPU lets its slabs go, empty slabs are given
// back, and the others are put in order, the fullest first, so that the emptiest
// have the best chance to empty. It answers 1 when slabs remain, else 0. Only
// where calls to other CPUs are allowed.
func (k *Cache) Shrink(c *machine.Ctx) int {
	k.Flush(c)
	flags := k.lockList(c)
	k.sort(c)
	k.unlockList(c, flags)
	if k.discardEmpty(c) != 0 {
		return 1
	}
	return 0
}

// promoteMax is the number of free objects up to which shrinking sorts slabs.
const promoteMax = 32

// sort brings empty slabs to the front of the node's list, behind them those with
// few free objects, fewest first, and then the rest as they were.
// Holds k.node.lock.
func (k *Cache) sort(c *machine.Ctx) {
	list := &k.node.partial
	var ends [promoteMax + 2]struct{ first, last uint64 }
	for r, n := list.first.Load(c), 0; r != none; n++ {
		k.bounded(c, n)
		p := k.page(c, r)
		p.Lock.Lock(c)
		inuse := slabInuse.Load(c, p)
		p.Lock.Unlock(c)
		rank := promoteMax + 1
		if free := uint64(k.objects) - inuse; inuse == 0 {
			rank = 0
		} else if free <= promoteMax {
			rank = int(free)
		}
		next := listNext.Load(c, p)
		if e := &ends[rank]; e.first == none {
			e.first, e.last = r, r
		} else {
			k.join(c, list, e.last, r)
			e.last = r
		}
		r = next
	}
	last := uint64(none)
	for _, e := range ends {
		if e.first != none {
			k.join(c, list, last, e.first)
			last = e.last
		}
	}
	k.join(c, list, last, none)
}

// othersMake is how many times the slabs that there is room for handlers and other CPUs may
// make while empty ones are given back.
const othersMake = 8

// discardEmpty gives back the empty slabs at the front of the node's list, and returns
// how many slabs are counted then. A debug cache stops counting a slab as it leaves the
// list, and others count by themselves.
func (k *Cache) discardEmpty(c *machine.Ctx) (slabs uint64) {
	for n := 0; ; n++ {
		k.bounded(c, n/othersMake)
		flags := k.lockList(c)
		p := k.firstEmpty(c)
		if k.debug != nil {
			slabs = k.countDropped(c, p)
		}
		k.unlockList(c, flags)
		switch {
		case p == nil && k.debug == nil:
			return k.node.nrSlabs.load(c)
		case p == nil:
			return slabs
		case k.debug == nil:
			k.discard(c, p)
		default:
			k.debugDiscard(c, p)
		}
	}
}

// firstEmpty takes the first slab from the partial list if it is empty; nil when it is
// not. Holds k.node.lock.
func (k *Cache) firstEmpty(c *machine.Ctx) *machine.Page {
	first := k.node.partial.first.Load(c)
	if first == none {
		return nil
	}
	p := k.page(c, first)
	p.Lock.Lock(c)
	empty := slabInuse.Load(c, p) == 0
	if empty {
		k.remove(c, p)
	}
	p.Lock.Unlock(c)
	if !empty {
		return nil
	}
	return p
}

// Destroy is kmem_cache_destroy: all pages are given back. impls.ErrBusy when
// objects are live, or a debug cache has a slab that was retired or a free that was
// refused: the cache is then as usable as before, and a debug cache reports its
// partial slabs. Nobody else may use the cache meanwhile, and calls to other CPUs
// must be allowed. Pages that readers still look at are waited for, unless the caller is a
// reader itself or may not sleep: then the cache is gone and they come later. Where the
// cache has another name only this one is gone, whatever is live.
func (k *Cache) Destroy(c *machine.Ctx) error {
	if !k.unname(c) {
		return nil
	}
	if k.Shrink(c) != 0 || k.debug != nil && k.debugPartials(c) != 0 {
		if k.debug != nil {
			k.remaining(c)
		}
		k.rename(c)
		return impls.ErrBusy
	}
	if k.rcu {
		c.RCUBarrier()
	}
	k.dead = true
	return nil
}

// unname takes a name of the cache away; true when it was the last.
func (k *Cache) unname(c *machine.Ctx) (last bool) {
	k.ghost.lock.Lock(c)
	defer k.ghost.lock.Unlock(c)
	return k.kin.Leave()
}

// rename is for a cache that could not be destroyed after all.
func (k *Cache) rename(c *machine.Ctx) {
	k.ghost.lock.Lock(c)
	k.kin.Stay()
	k.ghost.lock.Unlock(c)
}
