package slub

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// slowAlloc is __slab_alloc: it returns an object when the fast path could not, 0
// when there is no memory. It trusts nothing that the fast path saw: since then
// the task may have come to another CPU, and interrupts may have filled the list
// or brought another slab. The list need not even be empty, since some fast paths
// also give up on a list that they could not divide. size is what was asked for.
func (k *Cache) slowAlloc(c *machine.Ctx, f impls.AllocFlags, size uint64) uint64 {
	if k.debug != nil {
		return k.debugAlloc(c, f, size)
	}
	wait := f.Waits(c)
	h := k.exclusion.lock(c, k)
	a, h := k.refill(c, h, wait)
	k.exclusion.unlock(c, h)
	return a
}

// refill is slowAlloc of a cache that is not debugged, under the hold h; wait says that the
// caller may sleep. The hold that it returns may be of another CPU.
func (k *Cache) refill(c *machine.Ctx, h hold, wait bool) (uint64, hold) {
	a := k.start.fromCPU(c, k, h.s)
	for a == 0 {
		p := k.nextSlab(c, h.s)
		if p == nil {
			p, h = k.exclusion.pages(c, k, h, wait)
			if p == nil {
				break
			}
			if h.s.page.load(c) != none { // brought by an interrupt or another task
				k.deactivate(c, h.s)
			}
			k.format(c, h.s, p)
		}
		h.s.page.store(c, ref(p))
		a = k.reload(c, h.s)
	}
	return a, h
}

// reload moves the slab's freelist to the CPU's, whose own is empty, and returns
// the first object of it; 0 when the slab has none. Holds the CPU.
func (k *Cache) reload(c *machine.Ctx, s *cpuSlab) uint64 {
	p := k.page(c, s.page.load(c))
	p.Lock.Lock(c)
	a := slabFreelist.Load(c, p)
	if isEnd(a) {
		p.Lock.Unlock(c)
		return 0
	}
	slabFreelist.Store(c, p, endMark)
	slabInuse.Store(c, p, uint64(k.objects))
	k.fast.set(c, s, c.LoadMemGuarded(objectLink, s.guard, a+k.link))
	p.Lock.Unlock(c)
	return a
}

// nextSlab finds the CPU another slab, frozen for it, without asking for pages:
// from its store, else from the node; nil when there is none. Holds the CPU.
func (k *Cache) nextSlab(c *machine.Ctx, s *cpuSlab) *machine.Page {
	if p := k.partial.pop(c, k, s); p != nil {
		return p
	}
	k.node.lock.Lock(c)
	p, _ := k.takePartial(c)
	if p != nil && k.partial.keeps() {
		k.stock(c, s)
	}
	k.node.lock.Unlock(c)
	return p
}

// stock fills the CPU's store from the node while the list lock is held anyway,
// to half of what it may hold and one more. Holds the CPU and k.node.lock.
func (k *Cache) stock(c *machine.Ctx, s *cpuSlab) {
	if k.cpuPartial == 0 {
		return
	}
	for moved := uint64(0); moved <= k.cpuPartial/2; moved++ {
		p, free := k.takePartial(c)
		if p == nil {
			return
		}
		k.partial.put(c, k, s, gift{p, free})
	}
}

// newPages asks for the pages of a slab with interrupts off. When the caller may wait, they
// are on meanwhile, and anything may have happened afterwards.
func (k *Cache) newPages(c *machine.Ctx, wait bool) *machine.Page {
	if !wait {
		return c.AllocPages(k.order, false)
	}
	c.IRQEnable()
	p := c.AllocPages(k.order, true)
	c.IRQDisable()
	return p
}

// deactivate is deactivate_slab: the CPU lets its slab go, and what is on its own
// list goes back to the slab's. Holds the CPU.
func (k *Cache) deactivate(c *machine.Ctx, s *cpuSlab) {
	p := k.page(c, s.page.load(c))
	p.Lock.Lock(c)
	head, inuse, moved := slabFreelist.Load(c, p), slabInuse.Load(c, p), 0
	for a := k.fast.first(c, s); !isEnd(a); moved++ {
		if moved == k.objects {
			c.Die(fault.NoProgress, "cache %s: a CPU's freelist is longer than its slab", k.name)
		}
		next := c.LoadMemGuarded(objectLink, s.guard, a+k.link)
		c.StoreMemGuarded(objectLink, s.guard, a+k.link, head)
		head, a = a, next
		inuse--
	}
	slabFreelist.Store(c, p, head)
	slabInuse.Store(c, p, inuse)
	s.page.store(c, none)
	k.fast.set(c, s, endMark)
	p.Lock.Unlock(c)
	k.unfreeze(c, p, moved > 0)
}

// slowFree is __slab_free: object a goes back to its slab p.
func (k *Cache) slowFree(c *machine.Ctx, p *machine.Page, a uint64) {
	if k.debug != nil {
		k.debugFree(c, p, a)
		return
	}
	k.freeChain(c, p, chain{head: a, tail: a, n: 1})
}

// A chain is objects of one slab that are linked from head to tail and belong to who frees
// them.
type chain struct {
	head, tail uint64
	n          uint64
}

// freeChain gives a chain back to its slab p.
func (k *Cache) freeChain(c *machine.Ctx, p *machine.Page, l chain) {
	flags := k.exclusion.spins(c)
	p.Lock.Lock(c)
	full, last := isEnd(slabFreelist.Load(c, p)), slabInuse.Load(c, p) == l.n
	frozen := slabFrozen.Load(c, p) != 0
	store := full && !frozen && k.partial.keeps()
	if !frozen && !store && (full || last) {
		p.Lock.Unlock(c)
		k.freeListed(c, p, l)
		k.exclusion.spun(c, flags)
		return
	}
	k.linkChain(c, p, l)
	if store {
		slabFrozen.Store(c, p, 1) // this context's own until it is in the store
	}
	free := uint64(k.objects) - slabInuse.Load(c, p)
	p.Lock.Unlock(c)
	k.exclusion.spun(c, flags)
	if store {
		k.partial.push(c, k, gift{p, free})
	}
}

// freeListed is freeChain where the slab may have to enter or leave the node's
// list. What made it so may be over by the time the list lock is held.
// Between spins and spun.
func (k *Cache) freeListed(c *machine.Ctx, p *machine.Page, l chain) {
	n := &k.node
	n.lock.Lock(c)
	p.Lock.Lock(c)
	full, frozen := isEnd(slabFreelist.Load(c, p)), slabFrozen.Load(c, p) != 0
	k.linkChain(c, p, l)
	spare := !frozen && slabInuse.Load(c, p) == 0 && n.nrPartial.Load(c) >= k.minPartial
	switch {
	case frozen:
	case spare && !full:
		k.remove(c, p)
	case !spare && full:
		k.add(c, p, false)
	}
	p.Lock.Unlock(c)
	n.lock.Unlock(c)
	if spare {
		k.discard(c, p)
	}
}

// linkChain puts a chain in front of the freelist of its slab. Holds the slab lock of p.
func (k *Cache) linkChain(c *machine.Ctx, p *machine.Page, l chain) {
	c.StoreMemGuarded(objectLink, p.Lock.Guard(), l.tail+k.link, slabFreelist.Load(c, p))
	slabFreelist.Store(c, p, l.head)
	slabInuse.Store(c, p, slabInuse.Load(c, p)-l.n)
}
