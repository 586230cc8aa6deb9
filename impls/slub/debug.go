package slub

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// debugging is what a cache with debug flags has beside the others, as since 2022.
//
// Such a cache never gives a CPU a slab or a store: the CPU's freelist stays empty
// and its page none, so every fast path fails by itself. One object at a time comes
// from the first partial slab, under the list lock, and goes back under it; that is
// also what a validation holds, so it sees every object either free or in use. The
// slab lock is taken inside for the words of the slab.
//
// A slab that fails a check on allocation is retired: it leaves the partial list
// for good, with all its objects counted as used.
type debugging struct {
	debugcheck.Layout
	locking  debugLocking
	checkers []checker // by CPU
}

// checked says whether the cache checks what it is given (option F).
func (k *Cache) checked() bool {
	return k.debug != nil && k.debug.Flags.Has(debugcheck.Sanity)
}

func newDebugging(k *Cache, l *debugcheck.Layout) *debugging {
	d := &debugging{Layout: *l, locking: k.heap.locking,
		checkers: make([]checker, k.heap.m.CPUs)}
	for i := range d.checkers {
		d.checkers[i].init(k, &d.Layout)
	}
	return d
}

// holds says whether a is the address of an object of slab p.
func (k *Cache) holds(p *machine.Page, a uint64) bool {
	// In front of the first object that is more slots than any slab has.
	i, ok := k.debug.Slots(a - p.Addr() - k.pad)
	return ok && i < uint64(k.objects)
}

// debugAlloc is slowAlloc of a debug cache: size bytes were asked for.
func (k *Cache) debugAlloc(c *machine.Ctx, f impls.AllocFlags, size uint64) uint64 {
	wait := f.Waits(c)
	flags := c.IRQSave()
	a := k.fromPartial(c, size)
	for a == 0 {
		p := k.newPages(c, wait)
		if p == nil {
			break
		}
		a = k.fromNew(c, p, size)
	}
	if a != 0 && k.debug.Flags.Has(debugcheck.StoreUser) {
		u := k.checker(c, machine.Guard{})
		u.mem.racy = true
		u.SetTrack(debugcheck.AllocTrack, a, impls.TrackOf(c))
		u.mem.racy = false
	}
	c.IRQRestore(flags)
	return a
}

// fromPartial takes one object from the first partial slab that has a good one, and
// retires those whose first object fails its check; 0 when there is none.
// Interrupts off.
func (k *Cache) fromPartial(c *machine.Ctx, size uint64) uint64 {
	n := &k.node
	n.lock.Lock(c)
	u, a := k.checker(c, n.guard), uint64(0)
	for i := 0; a == 0; i++ {
		first := n.partial.first.Load(c)
		if first == none {
			break
		}
		k.bounded(c, i)
		p := k.page(c, first)
		p.Lock.Lock(c)
		k.load(c, u, p)
		a = k.take(c, u, p, size)
		k.save(c, u, p)
		p.Lock.Unlock(c)
	}
	n.lock.Unlock(c)
	return a
}

// take takes an object from partial slab p, which u describes. When it returns 0 the
// slab has left the partial list. Holds k.node.lock and the slab lock of p.
func (k *Cache) take(c *machine.Ctx, u *checker, p *machine.Page, size uint64) uint64 {
	a, s := u.slab.Freelist, &u.slab
	if a == endMark || !k.checked() && !k.holds(p, a) { // a repair has cut the list
		k.remove(c, p)
		k.whenFull(c, p)
		return 0
	}
	s.Freelist = k.after(u, p, a)
	s.Inuse++
	if !u.AllocOK(s, a) {
		k.remove(c, p)
		k.ghost.retired(c, p)
		return 0
	}
	u.Activate(a, size)
	if s.Inuse == s.Objects {
		k.remove(c, p)
		k.whenFull(c, p)
	}
	return a
}

// after is the object behind a on a freelist of slab p. What is no object of the
// slab is never followed: neither from there nor to there.
func (k *Cache) after(u *checker, p *machine.Page, a uint64) uint64 {
	if !k.holds(p, a) {
		return endMark
	}
	next := u.mem.Link(a)
	if !k.holds(p, next) {
		return endMark
	}
	return next
}

// whenFull puts slab p where full slabs are, which are on no list without option U.
// Holds k.node.lock.
func (k *Cache) whenFull(c *machine.Ctx, p *machine.Page) {
	if k.debug.Flags.Has(debugcheck.StoreUser) {
		k.insert(c, &k.node.full, p, false)
		listFull.Store(c, p, 1)
	}
}

// whenPartial puts slab p on the partial list. Holds k.node.lock and the slab lock of p.
func (k *Cache) whenPartial(c *machine.Ctx, p *machine.Page, front bool) {
	k.add(c, p, front)
	listFull.Store(c, p, 0)
}

// leave takes slab p from the list it is on, if any, and says whether that was the
// partial list. Holds k.node.lock and the slab lock of p.
func (k *Cache) leave(c *machine.Ctx, p *machine.Page) (partial bool) {
	switch {
	case p.CurrentView(machine.RegionLinks) != machine.ViewList:
		return false
	case listFull.Load(c, p) != 0:
		k.unlink(c, &k.node.full, p)
		return false
	}
	k.remove(c, p)
	return true
}

// fromNew makes a slab of a new block and takes its first object. Nobody else knows
// the slab until the lists do, and from then on the node counts it. Interrupts off.
func (k *Cache) fromNew(c *machine.Ctx, p *machine.Page, size uint64) uint64 {
	p.Tag = k
	p.Lock.Lock(c)
	p.SetView(machine.RegionBody, machine.ViewSlab, p.Lock.Guard())
	p.SetView(machine.RegionLinks, machine.ViewNone, machine.Guard{})
	u := k.checker(c, p.Lock.Guard())
	k.handle(c, u, p)
	s := &u.slab
	s.Objects, s.Inuse, s.Frozen, s.Freelist = k.objects, 0, false, endMark
	u.SetUp(s)
	k.construct(p)
	for i := k.objects; i > 0; i-- {
		a := p.Addr() + k.pad + uint64(i-1)*k.stride
		u.mem.SetLink(a, s.Freelist)
		s.Freelist = a
	}
	a := s.Freelist
	s.Freelist, s.Inuse = k.after(u, p, a), 1
	good := u.AllocOK(s, a)
	if good {
		u.Activate(a, size)
	}
	k.save(c, u, p)
	p.Lock.Unlock(c)
	k.ghost.add(c, k, p)
	k.node.lock.Lock(c)
	k.node.nrSlabs.add(c, 1)
	switch {
	case !good:
		k.ghost.retired(c, p)
		a = 0
	case k.objects == 1:
		k.whenFull(c, p)
	default:
		k.whenPartial(c, p, true)
	}
	k.node.lock.Unlock(c)
	return a
}

// debugFree is slowFree of a debug cache. With option F an object of another cache
// goes back to that one, and what is in no slab goes nowhere.
func (k *Cache) debugFree(c *machine.Ctx, p *machine.Page, a uint64) {
	if owner, _ := p.Tag.(*Cache); owner != k {
		switch {
		case !k.checked():
			c.Fault(fault.OutsideSlab, "cache %s: free of %#x, which is not its own", k.name, a)
		case owner == nil:
			k.reporter(c).NotSlab(a)
		default:
			owner.witness(c, p, a).WrongCache(k.name, a)
			owner.Free(c, a)
		}
		return
	}
	if k.debug.locking.free(c, k, p, []impls.Addr{a}) {
		k.debugDiscard(c, p)
	}
}

// mark checks an object that is freed and writes the marks of a free one around it;
// false when the free is refused. Holds k.node.lock and the slab lock of p.
func (k *Cache) mark(c *machine.Ctx, p *machine.Page, a uint64) bool {
	u := k.checker(c, k.node.guard)
	k.load(c, u, p)
	s := &u.slab
	objects, inuse, frozen, freelist := s.Objects, s.Inuse, s.Frozen, s.Freelist
	ok := u.FreeOne(s, a)
	if s.Objects != objects || s.Inuse != inuse || s.Frozen != frozen || s.Freelist != freelist {
		k.save(c, u, p) // repaired
	}
	if !ok {
		return false
	}
	if !k.checked() && !k.holds(p, a) { // option F looks for that
		c.Fault(fault.OutsideSlab, "cache %s: free of %#x, which is no object", k.name, a)
		return false
	}
	if k.debug.Flags.Has(debugcheck.StoreUser) {
		u.SetTrack(debugcheck.FreeTrack, a, impls.TrackOf(c))
	}
	u.Deactivate(a)
	return true
}

// markAll is mark for several objects of a slab, and makes a chain of those whose free is
// not refused. Holds k.node.lock and the slab lock of p.
func (k *Cache) markAll(c *machine.Ctx, p *machine.Page, list []impls.Addr) chain {
	var l chain
	for _, a := range list {
		if !k.mark(c, p, a) {
			continue
		}
		if l.n == 0 {
			l.head = a
		} else {
			k.checker(c, k.node.guard).mem.SetLink(l.tail, a)
		}
		l.tail = a
		l.n++
	}
	return l
}

// putBack puts marked objects on the freelist of their slab, and the slab on the list
// for it; true when the slab is empty, too many are kept, and it is on no list and
// not counted any more. Holds k.node.lock and the slab lock of p.
func (k *Cache) putBack(c *machine.Ctx, p *machine.Page, l chain) bool {
	k.checker(c, k.node.guard).mem.SetLink(l.tail, slabFreelist.Load(c, p))
	slabFreelist.Store(c, p, l.head)
	inuse := (slabInuse.Load(c, p) - l.n) & inuseMax
	slabInuse.Store(c, p, inuse)
	if slabFrozen.Load(c, p) != 0 && k.checked() {
		return false // retired since the object was marked
	}
	spare := inuse == 0 && k.node.nrPartial.Load(c) >= k.minPartial
	listed := p.CurrentView(machine.RegionLinks) == machine.ViewList
	switch {
	case spare:
		k.leave(c, p)
		k.node.nrSlabs.add(c, ^uint64(0))
	case !listed:
		k.whenPartial(c, p, false)
	case listFull.Load(c, p) != 0:
		k.leave(c, p)
		k.whenPartial(c, p, false)
	}
	return spare
}

// debugDiscard checks the objects of an empty slab (option F) that is on no list any
// more, and gives its pages back.
func (k *Cache) debugDiscard(c *machine.Ctx, p *machine.Page) {
	if k.checked() {
		flags := p.Lock.LockIRQSave(c)
		u := k.checker(c, p.Lock.Guard())
		k.load(c, u, p)
		u.Discard(&u.slab)
		p.Lock.UnlockIRQRestore(c, flags)
	}
	k.giveBack(c, p)
}

// countDropped is nr_slabs after slab p, nil for none, has left the list of a debug
// cache as it shrinks: from then on it is not counted. Holds k.node.lock.
func (k *Cache) countDropped(c *machine.Ctx, p *machine.Page) uint64 {
	if p != nil {
		k.node.nrSlabs.add(c, ^uint64(0))
	}
	return k.node.nrSlabs.load(c)
}

// debugPartials is nr_partial of a debug cache. Damage can make it say that slabs
// remain where none do, and then they do to all who ask.
func (k *Cache) debugPartials(c *machine.Ctx) uint64 {
	flags := k.node.lock.LockIRQSave(c)
	n := k.node.nrPartial.Load(c)
	k.node.lock.UnlockIRQRestore(c, flags)
	return n
}
