package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// An arrays is what stands between the callers of a cache and its slabs: the axis of the
// per-CPU arrays.
type arrays interface {
	// alloc returns an object, 0 when neither this CPU's array nor a slab has one.
	alloc(c *machine.Ctx, s *Cache) impls.Addr
	// free takes back an object of slab p.
	free(c *machine.Ctx, s *Cache, p *machine.Page, obj impls.Addr)
	// drain has the arrays of all CPUs emptied into the slabs, each by its CPU. Only where
	// calls to other CPUs are allowed.
	drain(c *machine.Ctx, s *Cache)
	// leave is drain for one CPU.
	leave(c *machine.Ctx, s *Cache, cpu int)
	// own empties the array of the CPU that c runs on. Holds cache.lock; interrupts off.
	own(c *machine.Ctx, s *Cache)
	// tune gives every CPU an array with other bounds: all of them give theirs up first,
	// then what was in them goes back. Only where calls to other CPUs are allowed.
	tune(c *machine.Ctx, s *Cache, limit, batch uint64)
	// most is how many objects one of the arrays can have held, now or before.
	most() int
	// snapshot shows the arrays; cache is the number of theirs.
	snapshot(cache int, s *impls.Snapshot)
}

// noArrays is the cache without arrays: every call goes to the slabs, under the cache's
// lock. It is the design up to 2.2, that of 2.4 on a machine with one CPU, and that of all
// caches with debug flags here (see Cache.init).
//
// Cause: one lock over one set of lists is enough to be right. Effect: it is, and two CPUs
// that use one cache wait for each other at every object, and take the line with the lock
// and the slab's count from each other. Fix: newestOut.
type noArrays struct{}

func newNoArrays(*Cache, *impls.CacheSpec) arrays { return noArrays{} }

func (noArrays) alloc(c *machine.Ctx, s *Cache) impls.Addr {
	flags := s.lock.LockIRQSave(c)
	obj := s.lists.alloc(c, s)
	s.lock.UnlockIRQRestore(c, flags)
	return obj
}

func (noArrays) free(c *machine.Ctx, s *Cache, p *machine.Page, obj impls.Addr) {
	flags := s.lock.LockIRQSave(c)
	s.give(c, p, obj)
	if s.debug != nil {
		s.debug.chainTest(c)
	}
	s.lock.UnlockIRQRestore(c, flags)
}

func (noArrays) drain(*machine.Ctx, *Cache) {}

func (noArrays) leave(*machine.Ctx, *Cache, int) {}

func (noArrays) own(*machine.Ctx, *Cache) {}

func (noArrays) tune(*machine.Ctx, *Cache, uint64, uint64) {}

func (noArrays) most() int { return 0 }

func (noArrays) snapshot(int, *impls.Snapshot) {}

// A spill is how large arrays are and what a full one gives back, which is what two
// kernels did differently.
type spill interface {
	// bounds are limit and batch for objects that are stride bytes apart. A limit of 0 is
	// no array.
	bounds(stride, page uint64) (limit, batch uint64)
	// batch is that for a limit.
	batch(limit uint64) uint64
	// flush makes room in the full array a of this CPU: a batch goes back to the slabs.
	// Interrupts off.
	flush(c *machine.Ctx, s *Cache, a *cpuArray)
}

// newestOut is S1f as in 2.4: each CPU has an array of free objects in front of a cache,
// used with interrupts off and no lock. An allocation takes the top; when there is none a
// batch of objects comes from the slabs under the lock, as far as they have so many. A free
// puts its object on top; when the array is full the batch on top goes back first.
//
// Cause: most objects are freed on the CPU that allocated them and soon asked for again.
// Effect: the lock is taken once a batch, and an object comes back warm. But of a full
// array the objects that were freed last go, and those at the bottom may lie there for
// ever: what goes back is warm and what is kept is cold, and slabs of old objects cannot
// empty. Fix: oldestOut. What no end cures is that for the slabs a waiting object is in
// use: its page stays until somebody empties the array.
type newestOut struct{}

func newNewestOut(s *Cache, spec *impls.CacheSpec) arrays {
	return newPerCPU(s, spec, newestOut{})
}

func (n newestOut) bounds(stride, page uint64) (limit, batch uint64) {
	switch {
	case stride > page:
		return 0, 0
	case stride > 1024:
		limit = 60
	case stride > 256:
		limit = 124
	default:
		limit = 252
	}
	return limit, n.batch(limit)
}

// batch is half of the limit; a limit of 1 needs one, too.
func (newestOut) batch(limit uint64) uint64 { return max(limit/2, min(limit, 1)) }

// flush counts the objects out before it gives them back.
func (newestOut) flush(c *machine.Ctx, s *Cache, a *cpuArray) {
	n := a.batch.Load(c)
	keep := a.avail.Load(c) - n
	a.avail.Store(c, keep)
	s.lock.Lock(c)
	s.giveAll(c, a.read(c, keep, n))
	s.lock.Unlock(c)
}

// oldestOut is S1f as in 2.6: of a full array the batch at the bottom goes back, and the
// rest moves down.
//
// Cause: the top is what the CPU used last. Effect: the objects that stay are the warm
// ones, and no object grows old in an array; the price is that the rest is moved. The
// arrays are smaller, and objects of several pages have one, too. What 2.6 has besides is
// left out: an array shared by the CPUs of a node and one for each other node, which the
// machine here has none of, a smaller batch for an array that was not used of late, and a
// timer that empties such arrays. Fix for what 2.6 had until 2020: slabs that the objects
// emptied went back before the objects were counted out, and the page layer could come
// back to this array then; here no page goes back at all.
type oldestOut struct{}

func newOldestOut(s *Cache, spec *impls.CacheSpec) arrays {
	return newPerCPU(s, spec, oldestOut{})
}

func (o oldestOut) bounds(stride, page uint64) (limit, batch uint64) {
	switch {
	case stride > 1<<17:
		limit = 1
	case stride > page:
		limit = 8
	case stride > 1024:
		limit = 24
	case stride > 256:
		limit = 54
	default:
		limit = 120
	}
	return limit, o.batch(limit)
}

// batch is half of the limit, rounded up.
func (oldestOut) batch(limit uint64) uint64 { return (limit + 1) / 2 }

// flush counts the objects out, and moves the others down, before anybody else can come to
// the array.
func (oldestOut) flush(c *machine.Ctx, s *Cache, a *cpuArray) {
	n := a.batch.Load(c)
	s.lock.Lock(c)
	s.giveAll(c, a.read(c, 0, n))
	s.lock.Unlock(c)
	a.drop(c, n)
}
