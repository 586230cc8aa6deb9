package slub

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

var (
	_ impls.Debugger   = (*Cache)(nil)
	_ impls.SizedCache = (*Cache)(nil)
)

// Layout says where what lies around an object; nil without debug flags.
func (k *Cache) Layout() *debugcheck.Layout {
	if k.debug == nil {
		return nil
	}
	return &k.debug.Layout
}

// Validate is validate_slab_cache: it checks the slabs of the partial list and, with
// option U, the full ones, and holds the counters against what it met. It returns
// the number of slabs; impls.ErrInvalid without debug flags. It may be called
// anywhere: no CPU has a slab of a debug cache, so none is asked to let it go.
func (k *Cache) Validate(c *machine.Ctx) (int, error) {
	if k.debug == nil {
		return 0, impls.ErrInvalid
	}
	n := &k.node
	flags := n.lock.LockIRQSave(c)
	u := k.checker(c, n.guard)
	slabs := k.validate(c, u, &n.partial)
	u.Counted(debugcheck.NrPartial, slabs, int(n.nrPartial.Load(c)))
	if k.debug.Flags.Has(debugcheck.StoreUser) {
		slabs += k.validate(c, u, &n.full)
		u.Counted(debugcheck.NrSlabs, slabs, int(n.nrSlabs.load(c)))
	}
	n.lock.UnlockIRQRestore(c, flags)
	return slabs, nil
}

// validate checks the slabs of a list and returns how many there are.
// Holds k.node.lock; interrupts off.
func (k *Cache) validate(c *machine.Ctx, u *checker, l *slabList) (slabs int) {
	for r := l.first.Load(c); r != none; slabs++ {
		k.bounded(c, slabs)
		p := k.page(c, r)
		p.Lock.Lock(c)
		k.load(c, u, p)
		u.Checker.Validate(&u.slab)
		k.save(c, u, p)
		p.Lock.Unlock(c)
		r = listNext.Load(c, p)
	}
	return slabs
}

// remaining is list_slab_objects for each slab that destroying the cache left on the
// partial list. Full slabs are not looked for, as in the kernel.
func (k *Cache) remaining(c *machine.Ctx) {
	n := &k.node
	flags := n.lock.LockIRQSave(c)
	u, i := k.checker(c, n.guard), 0
	for r := n.partial.first.Load(c); r != none; i++ {
		k.bounded(c, i)
		p := k.page(c, r)
		p.Lock.Lock(c)
		k.load(c, u, p)
		u.Remaining(&u.slab, u.slab.Inuse)
		p.Lock.Unlock(c)
		r = listNext.Load(c, p)
	}
	n.lock.UnlockIRQRestore(c, flags)
}

// own finds the slab of a debug cache whose memory holds a; nil when none does.
func (k *Cache) own(a impls.Addr) *machine.Page {
	if k.debug == nil {
		return nil
	}
	p := k.heap.m.PageOf(a)
	if p == nil || p.Tag != any(k) {
		return nil
	}
	return p
}

// Slab describes the slab whose memory holds a as it is stored.
func (k *Cache) Slab(a impls.Addr) (debugcheck.Slab, bool) {
	p := k.own(a)
	if p == nil {
		return debugcheck.Slab{}, false
	}
	var s debugcheck.Slab
	k.describe(p, &s)
	s.Objects, s.Inuse = int(slabObjects.Peek(p)), int(slabInuse.Peek(p))
	s.Frozen, s.Freelist = slabFrozen.Peek(p) != 0, slabFreelist.Peek(p)
	return s, true
}

// Damage inverts bits of a stored field. Fields are as wide as in the kernel: bits
// beyond that are none of theirs, and a mask of such bits alone finds no field. That
// a slab is this cache's is no stored word here, so slab.cache is none either.
func (k *Cache) Damage(c *machine.Ctx, r debugcheck.Region, a impls.Addr, mask uint64) bool {
	p, word := k.own(a), ^uint64(0)>>uint(64-k.heap.m.Word)
	if k.debug == nil || r.OfSlab() && p == nil {
		return false
	}
	var at *machine.PageWord
	switch r {
	case debugcheck.SlabInuse:
		at, mask = slabInuse, mask&inuseMax
	case debugcheck.SlabObjects:
		at, mask = slabObjects, mask&objectsMax
	case debugcheck.SlabFrozen:
		at, mask = slabFrozen, mask&1
	case debugcheck.SlabFreelist:
		at, mask = slabFreelist, mask&word
	case debugcheck.NrPartial, debugcheck.NrSlabs:
		mask &= word
	default:
		return false
	}
	if mask == 0 {
		return false
	}
	flags := k.node.lock.LockIRQSave(c)
	switch {
	case at != nil:
		p.Lock.Lock(c)
		at.Store(c, p, at.Load(c, p)^mask)
		p.Lock.Unlock(c)
	case r == debugcheck.NrPartial:
		k.node.nrPartial.Store(c, k.node.nrPartial.Load(c)^mask)
	default:
		k.node.nrSlabs.store(c, k.node.nrSlabs.load(c)^mask)
	}
	k.node.lock.UnlockIRQRestore(c, flags)
	return true
}

// AllocSize is Alloc of an object of which size bytes were asked for: at most as many
// as it has. Only a cache that keeps the size takes notice. Since 6.2 it zeroes no more
// than that: what lies behind is red zone.
func (k *Cache) AllocSize(c *machine.Ctx, f impls.AllocFlags, size uint64) impls.Addr {
	if k.debug == nil || k.debug.Orig == 0 {
		return k.Alloc(c, f)
	}
	if c.ShouldFail() {
		return 0
	}
	size = min(size, k.size)
	a := k.slowAlloc(c, f, size)
	if k.debug.Rules != debugcheck.SLUB612 {
		size = k.size
	}
	if a != 0 && f&impls.FlagZero != 0 {
		clear(k.heap.m.MemBytes(a, int(size)))
	}
	return a
}

// Widen makes all bytes of the object at a usable, whatever size was asked for, and
// returns that size: of what was damaged at most all of them.
func (k *Cache) Widen(c *machine.Ctx, a impls.Addr) (asked uint64) {
	if k.debug == nil || k.debug.Orig == 0 {
		return k.size
	}
	p := k.own(a)
	if p == nil || !k.holds(p, a) {
		return k.size
	}
	flags := k.node.lock.LockIRQSave(c)
	asked = k.checker(c, k.node.guard).Checker.Widen(a)
	k.node.lock.UnlockIRQRestore(c, flags)
	return min(asked, k.size)
}
