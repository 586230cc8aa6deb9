package slub

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A debugLocking is which locks a debug cache holds while it takes an object back.
type debugLocking interface {
	// free checks each of some objects of slab p, marks those free that the check does not
	// refuse, and links them. It says whether the slab is to be given back.
	free(c *machine.Ctx, k *Cache, p *machine.Page, list []impls.Addr) (spare bool)
}

// racyDebug is the design before September 2022: an object is checked and marked
// under the list lock and the slab lock, and put on the freelist later, after both
// were dropped. Cause: the check was an addition in front of the free that all
// caches shared, which took its own locks. Effect: a validation in between takes
// the object, which is on no freelist yet, for one in use, finds 0xbb around it
// where 0xcc belongs and reports what nobody overwrote ("Left Redzone
// overwritten"). It even puts 0xcc there, so that the next allocation finds the
// reverse and retires a good slab. Fix: lockedDebug.
type racyDebug struct{}

func (racyDebug) free(c *machine.Ctx, k *Cache, p *machine.Page, list []impls.Addr) bool {
	flags := k.node.lock.LockIRQSave(c)
	p.Lock.Lock(c)
	l := k.markAll(c, p, list)
	p.Lock.Unlock(c)
	k.node.lock.UnlockIRQRestore(c, flags)
	if l.n == 0 {
		return false
	}
	flags = k.node.lock.LockIRQSave(c)
	p.Lock.Lock(c)
	spare := k.putBack(c, p, l)
	p.Lock.Unlock(c)
	k.node.lock.UnlockIRQRestore(c, flags)
	return spare
}

// lockedDebug is the design since then (c7323a5ad078): debug caches have an
// allocation and a free of their own, which hold the list lock from the check to
// the link. Cause: as there. Effect: whoever holds the list lock, as a validation
// does, sees each object either marked and linked or neither. Caches that are not
// debugged pay nothing for it.
type lockedDebug struct{}

func (lockedDebug) free(c *machine.Ctx, k *Cache, p *machine.Page, list []impls.Addr) bool {
	flags := k.node.lock.LockIRQSave(c)
	p.Lock.Lock(c)
	l := k.markAll(c, p, list)
	spare := l.n > 0 && k.putBack(c, p, l)
	p.Lock.Unlock(c)
	k.node.lock.UnlockIRQRestore(c, flags)
	return spare
}
