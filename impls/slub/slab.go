package slub

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// RankListLock is the rank of a node's list lock: slab locks are taken inside it.
const RankListLock = machine.RankSlabLock + 100

// endMark ends a freelist. Any word with bit 0 set does, since a fast path puts
// the upper half of an address above it: use isEnd.
const endMark = 1

// isEnd says whether the link of a free object ends the list.
func isEnd(link uint64) bool { return link&endMark != 0 }

var (
	objectLink = machine.Racy("object", "link",
		"a fast path may read the link of an object that an interrupt has handed out: the word it "+
			"compares afterwards has changed then")
	listLock = machine.Atomic("node", "list_lock")
	nrSlabs  = machine.Atomic("node", "nr_slabs")

	nodeFirst = machine.Guarded("node", "first")
	nodeLast  = machine.Guarded("node", "last")
	fullFirst = machine.Guarded("node", "full_first")
	fullLast  = machine.Guarded("node", "full_last")
	nrPartial = machine.Guarded("node", "nr_partial")
)

// The words of a slab's descriptor, guarded by the slab lock.
var (
	// Invariant SLUB4: the list holds free objects of the slab, and no CPU's
	// freelist does.
	slabFreelist = machine.PageField(machine.Guarded("slab", "freelist"),
		machine.RegionBody, machine.ViewSlab, 0)
	// Invariant SLUB5: objects that are not on slabFreelist.
	slabInuse = machine.PageField(machine.Guarded("slab", "inuse"),
		machine.RegionBody, machine.ViewSlab, 1)
	// 1 while the slab belongs to a CPU, as its slab or in its store; in a debug cache,
	// where none does, 1 once a check of it has failed.
	slabFrozen = machine.PageField(machine.Guarded("slab", "frozen"),
		machine.RegionBody, machine.ViewSlab, 2)
	// The number of objects. It is stored where debugging looks for damage.
	slabObjects = machine.PageField(machine.Guarded("slab", "objects"),
		machine.RegionBody, machine.ViewSlab, 3)
)

// The links of a slab on a list of the node, guarded by the list lock, see ref.
// Invariant SLUB6, of the partial list: the slab has a free object and is not frozen.
var (
	listNext = machine.PageField(machine.Guarded("slab", "list_next"),
		machine.RegionLinks, machine.ViewList, 0)
	listPrev = machine.PageField(machine.Guarded("slab", "list_prev"),
		machine.RegionLinks, machine.ViewList, 1)
	// 1 on the list of full slabs. Stored in debug caches only, the others have none.
	listFull = machine.PageField(machine.Guarded("slab", "list_full"),
		machine.RegionLinks, machine.ViewList, 2)
)

// A slabList is a list of slabs, guarded by the list lock.
type slabList struct{ first, last machine.GuardedWord }

// A node holds the slabs that belong to no CPU and are not full. With debug option
// U it knows the full ones, too.
type node struct {
	lock      machine.SpinLock
	guard     machine.Guard // lock is held
	partial   slabList
	full      slabList
	nrPartial machine.GuardedWord // Invariant SLUB7: the length of the partial list
	// Invariant SLUB8: slabs of the cache, wherever they are. Anybody counts, except
	// in a debug cache: there it changes under the list lock, together with the lists.
	nrSlabs dualWord
}

func (n *node) init(debugged bool) {
	n.lock.Init(listLock, RankListLock)
	n.guard = n.lock.Guard()
	n.partial.first.Init(nodeFirst, n.guard, none)
	n.partial.last.Init(nodeLast, n.guard, none)
	n.full.first.Init(fullFirst, n.guard, none)
	n.full.last.Init(fullLast, n.guard, none)
	n.nrPartial.Init(nrPartial, n.guard, 0)
	if debugged {
		n.nrSlabs.guard(nrSlabs, n.guard, 0)
	} else {
		n.nrSlabs.leaveOpen(nrSlabs, -1, 0)
	}
}

// lockList takes the list lock where the CPU is not held.
func (k *Cache) lockList(c *machine.Ctx) machine.Flags {
	flags := k.exclusion.spins(c)
	k.node.lock.Lock(c)
	return flags
}

// unlockList ends lockList.
func (k *Cache) unlockList(c *machine.Ctx, flags machine.Flags) {
	k.node.lock.Unlock(c)
	k.exclusion.spun(c, flags)
}

// page is the page that a list or a CPU means. Somebody who wrote to a descriptor
// that was not his may have changed it: then the run ends.
func (k *Cache) page(c *machine.Ctx, r uint64) *machine.Page {
	if r == none || r > uint64(k.heap.m.Pages) {
		c.Die(fault.WildAddress, "cache %s: a list leads to page %#x of %d", k.name, r-1,
			k.heap.m.Pages)
	}
	return k.heap.m.PageAt(int(r - 1))
}

// bounded is for walks of a list of slabs that have come past n of them: each is
// progress, and more than there are pages means that the list runs into itself.
func (k *Cache) bounded(c *machine.Ctx, n int) {
	c.Progress()
	if n > k.heap.m.Pages {
		c.Die(fault.NoProgress, "cache %s: a list of slabs runs into itself", k.name)
	}
}

// add puts p on the partial list, in front or at the end.
// Holds k.node.lock and the slab lock of p.
func (k *Cache) add(c *machine.Ctx, p *machine.Page, front bool) {
	k.insert(c, &k.node.partial, p, front)
	k.node.nrPartial.Add(c, 1)
}

// remove takes p from the partial list. Holds k.node.lock.
func (k *Cache) remove(c *machine.Ctx, p *machine.Page) {
	k.unlink(c, &k.node.partial, p)
	k.node.nrPartial.Add(c, ^uint64(0))
}

// insert puts p on a list of the node, in front or at the end. Holds k.node.lock.
func (k *Cache) insert(c *machine.Ctx, l *slabList, p *machine.Page, front bool) {
	p.SetView(machine.RegionLinks, machine.ViewList, k.node.guard)
	prev, next := l.last.Load(c), uint64(none)
	if front {
		prev, next = none, l.first.Load(c)
	}
	k.join(c, l, prev, ref(p))
	k.join(c, l, ref(p), next)
}

// unlink takes p from the list of the node that it is on. Holds k.node.lock.
func (k *Cache) unlink(c *machine.Ctx, l *slabList, p *machine.Page) {
	k.join(c, l, listPrev.Load(c, p), listNext.Load(c, p))
	p.SetView(machine.RegionLinks, machine.ViewNone, machine.Guard{})
}

// join makes neighbours of two slabs on a list of the node; with none in place of
// one the other is an end of the list. Holds k.node.lock.
func (k *Cache) join(c *machine.Ctx, l *slabList, prev, next uint64) {
	if prev != none {
		listNext.Store(c, k.page(c, prev), next)
	} else {
		l.first.Store(c, next)
	}
	if next != none {
		listPrev.Store(c, k.page(c, next), prev)
	} else {
		l.last.Store(c, prev)
	}
}

// takePartial takes the first slab from the partial list, frozen, and returns its
// free objects, too; nil when the list is empty. Holds k.node.lock.
func (k *Cache) takePartial(c *machine.Ctx) (*machine.Page, uint64) {
	first := k.node.partial.first.Load(c)
	if first == none {
		return nil, 0
	}
	p := k.page(c, first)
	p.Lock.Lock(c)
	k.remove(c, p)
	slabFrozen.Store(c, p, 1)
	free := uint64(k.objects) - slabInuse.Load(c, p)
	p.Lock.Unlock(c)
	return p, free
}

// format makes a slab of a new block: every object free and in order of address.
// Holds the CPU of s, for which it is frozen.
func (k *Cache) format(c *machine.Ctx, s *cpuSlab, p *machine.Page) {
	k.construct(p)
	a := p.Addr()
	for i := 1; i < k.objects; i++ {
		c.StoreMemGuarded(objectLink, s.guard, a+k.link, a+k.stride)
		a += k.stride
	}
	c.StoreMemGuarded(objectLink, s.guard, a+k.link, endMark)
	p.Tag = k
	p.Lock.Lock(c)
	p.SetView(machine.RegionBody, machine.ViewSlab, p.Lock.Guard())
	p.SetView(machine.RegionLinks, machine.ViewNone, machine.Guard{})
	slabFreelist.Store(c, p, p.Addr())
	slabInuse.Store(c, p, 0)
	slabFrozen.Store(c, p, 1)
	p.Lock.Unlock(c)
	k.ghost.add(c, k, p)
	k.node.nrSlabs.add(c, 1)
}

// construct calls the constructor, where there is one, for every object of a new slab: the
// only time that the allocator does. Whoever frees an object leaves it in that state.
func (k *Cache) construct(p *machine.Page) {
	if !k.ctor {
		return
	}
	a, mem := p.Addr()+k.pad, impls.Arena{M: k.heap.m}
	for range k.objects {
		impls.Construct(mem, a, k.size)
		a += k.stride
	}
}

// discard gives the pages of an empty slab back that is on no list any more.
func (k *Cache) discard(c *machine.Ctx, p *machine.Page) {
	k.node.nrSlabs.add(c, ^uint64(0))
	k.giveBack(c, p)
}

// giveBack gives the pages of a slab back that nobody counts any more. Readers may go on
// looking at them as long as they are at it.
func (k *Cache) giveBack(c *machine.Ctx, p *machine.Page) {
	k.ghost.remove(c, p)
	p.Tag = nil
	if k.rcu {
		k.heap.limbo.Free(c, p)
		return
	}
	c.FreePages(p)
}

// unfreeze is unfreeze_slab: a slab stops belonging to a CPU. It goes to the
// node's list, to its front when its objects are still warm, unless it is full;
// an empty one is given back when the node has enough. Holds the CPU.
func (k *Cache) unfreeze(c *machine.Ctx, p *machine.Page, front bool) {
	p.Lock.Lock(c)
	if isEnd(slabFreelist.Load(c, p)) {
		slabFrozen.Store(c, p, 0)
		p.Lock.Unlock(c)
		return
	}
	p.Lock.Unlock(c) // nobody else takes it while it is frozen
	k.node.lock.Lock(c)
	spare := k.unfreezeLocked(c, p, front)
	k.node.lock.Unlock(c)
	if spare {
		k.discard(c, p)
	}
}

// unfreezeLocked is unfreeze of a slab that is not full; it says whether the slab
// is to be given back. Holds k.node.lock.
func (k *Cache) unfreezeLocked(c *machine.Ctx, p *machine.Page, front bool) bool {
	p.Lock.Lock(c)
	slabFrozen.Store(c, p, 0)
	spare := slabInuse.Load(c, p) == 0 && k.node.nrPartial.Load(c) >= k.minPartial
	if !spare {
		k.add(c, p, front)
	}
	p.Lock.Unlock(c)
	return spare
}

// unfreezeAll brings a list that was taken from a CPU's store to the node. It is
// private: the list lock is taken for its links' sake, too.
func (k *Cache) unfreezeAll(c *machine.Ctx, list uint64) {
	for n := 0; list != none; n++ {
		k.bounded(c, n)
		p := k.page(c, list)
		flags := k.lockList(c)
		p.SetView(machine.RegionLinks, machine.ViewPartial, k.node.guard)
		list = partialNext.Load(c, p)
		spare := k.unfreezeLocked(c, p, false)
		k.unlockList(c, flags)
		if spare {
			k.discard(c, p)
		}
	}
}
