package slub

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

var _ impls.BulkCache = (*Cache)(nil)

// lookAhead is how many objects of other slabs end the search for those of one slab.
const lookAhead = 3

// AllocBulk is kmem_cache_alloc_bulk: it fills into with objects under one hold of the
// CPU, or gives back what it has and says false. It may be called
// anywhere, and sleeps for pages where c may.
func (k *Cache) AllocBulk(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) bool {
	if n := k.takeAll(c, f, into); n < len(into) {
		k.FreeBulk(c, into[:n])
		return false
	}
	if f&impls.FlagZero != 0 {
		for _, a := range into {
			clear(k.heap.m.MemBytes(a, int(k.kin.Size()))) // its link, too
		}
	}
	return true
}

// takeAll takes one object after the other and returns how many there were. Where it must
// ask for pages the CPU may be let go, and anything may have happened afterwards.
func (k *Cache) takeAll(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) int {
	if k.debug != nil {
		return k.takeChecked(c, f, into)
	}
	wait := f.Waits(c)
	h := k.exclusion.lock(c, k)
	n := 0
	for ; n < len(into) && !c.ShouldFail(); n++ {
		c.Progress()
		if into[n], h = k.takeFirst(c, h, wait); into[n] == 0 {
			break
		}
	}
	k.exclusion.unlock(c, h)
	return n
}

// takeChecked is takeAll of a debug cache, which has no list of a CPU's to take from.
func (k *Cache) takeChecked(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) int {
	n := 0
	for ; n < len(into) && !c.ShouldFail(); n++ {
		c.Progress()
		if into[n] = k.debugAlloc(c, f, k.size); into[n] == 0 {
			break
		}
	}
	return n
}

// takeFirst takes the first object of the CPU's list; the slow path when there is none. The
// hold that it returns may be of another CPU.
func (k *Cache) takeFirst(c *machine.Ctx, h hold, wait bool) (uint64, hold) {
	a := k.fast.first(c, h.s)
	if isEnd(a) {
		return k.refill(c, h, wait)
	}
	k.fast.set(c, h.s, c.LoadMemGuarded(objectLink, h.s.guard, a+k.link))
	return a, h
}

// FreeBulk is kmem_cache_free_bulk: it takes back live objects of this cache. From the end
// of objects on, those of one slab that are near each other go back as one list.
func (k *Cache) FreeBulk(c *machine.Ctx, objects []impls.Addr) {
	for n := len(objects); n > 0; {
		c.Progress()
		last := objects[n-1]
		p := k.heap.m.PageOf(last)
		if p == nil || p.Tag != any(k) {
			n--
			k.Free(c, last) // which says what is wrong with it
			continue
		}
		from := k.detach(p, objects[:n])
		k.freeDetached(c, p, objects[from:n])
		n = from
	}
}

// detach brings the objects of slab p, which the last one is of, to the end of objects,
// the last one found first, and returns the place of that one. It gives up after a few
// objects of other slabs.
func (k *Cache) detach(p *machine.Page, objects []impls.Addr) (from int) {
	from = len(objects) - 1
	for i, others := from-1, 0; i >= 0 && others < lookAhead; i-- {
		if k.heap.m.PageOf(objects[i]) != p {
			others++
			continue
		}
		from--
		objects[i], objects[from] = objects[from], objects[i]
	}
	return from
}

// freeDetached gives objects of slab p back in one step: to the CPU's list when p is its
// slab, else to the slab's own.
func (k *Cache) freeDetached(c *machine.Ctx, p *machine.Page, list []impls.Addr) {
	if k.debug != nil {
		if k.debug.locking.free(c, k, p, list) {
			k.debugDiscard(c, p)
		}
		return
	}
	l := chain{head: list[0], tail: list[len(list)-1], n: uint64(len(list))}
	h := k.exclusion.lock(c, k)
	s := h.s
	for i, a := range list[1:] {
		c.StoreMemGuarded(objectLink, s.guard, list[i]+k.link, a)
	}
	own := s.page.load(c) == ref(p)
	if own {
		c.StoreMemGuarded(objectLink, s.guard, l.tail+k.link, k.fast.first(c, s))
		k.fast.set(c, s, l.head)
	}
	k.exclusion.unlock(c, h)
	if !own {
		k.freeChain(c, p, l)
	}
}
