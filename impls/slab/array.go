package slab

import (
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// The words of an array of free objects. Each CPU has one a cache, and interrupts off on
// that CPU guard it.
var (
	arrayAvail = machine.Guarded("cpu_array", "avail")
	arrayLimit = machine.Guarded("cpu_array", "limit")
	arrayBatch = machine.Guarded("cpu_array", "batch")
	arrayEntry = machine.Guarded("cpu_array", "entry")
)

// A cpuArray is the free objects that a cache holds for one CPU: a stack, whose top was
// freed last. For its slab an object in it is in use. Guarded by interrupts off on the CPU.
type cpuArray struct {
	off   machine.Guard
	avail machine.GuardedWord // Invariant SLAB7: objects in it, at most limit
	limit machine.GuardedWord // 0: there is no array, each object comes from the slabs
	batch machine.GuardedWord // objects that move to or from the slabs at once
	// entry are its places, oldest object first. Those that were never used are not there.
	entry []machine.GuardedWord
	peak  uint64 // ghost state: the highest limit so far
}

func (a *cpuArray) init(cpu *machine.CPU, limit, batch uint64) {
	a.off = machine.IRQsOffOn(cpu)
	a.avail.Init(arrayAvail, a.off, 0)
	a.limit.Init(arrayLimit, a.off, limit)
	a.batch.Init(arrayBatch, a.off, batch)
	a.peak = limit
}

// at is place i. Behind the last place there is no memory to speak of: the run ends.
func (a *cpuArray) at(c *machine.Ctx, i uint64) *machine.GuardedWord {
	if limit := a.limit.Load(c); i >= limit {
		c.Die(fault.WildAddress, "place %d of an array of %d objects", int64(i), limit)
	}
	for uint64(len(a.entry)) <= i {
		a.entry = append(a.entry, machine.GuardedWord{})
		a.entry[len(a.entry)-1].Init(arrayEntry, a.off, 0)
	}
	return &a.entry[i]
}

// pop takes the object on top, 0 when there is none.
func (a *cpuArray) pop(c *machine.Ctx) impls.Addr {
	n := a.avail.Load(c)
	if n == 0 {
		return 0
	}
	a.avail.Store(c, n-1)
	return a.at(c, n-1).Load(c)
}

// push puts an object on top.
func (a *cpuArray) push(c *machine.Ctx, obj impls.Addr) {
	n := a.avail.Load(c)
	a.at(c, n).Store(c, obj)
	a.avail.Store(c, n+1)
}

// read returns the n objects from place i on, oldest first.
func (a *cpuArray) read(c *machine.Ctx, i, n uint64) []impls.Addr {
	objs := make([]impls.Addr, n)
	for k := range objs {
		objs[k] = a.at(c, i+uint64(k)).Load(c)
	}
	return objs
}

// take empties the array and returns what was in it, oldest first.
func (a *cpuArray) take(c *machine.Ctx) []impls.Addr {
	objs := a.read(c, 0, a.avail.Load(c))
	a.avail.Store(c, 0)
	return objs
}

// drop counts the n oldest objects out and moves the others down.
func (a *cpuArray) drop(c *machine.Ctx, n uint64) {
	left := a.avail.Load(c) - n
	for i := range left {
		a.at(c, i).Store(c, a.at(c, i+n).Load(c))
	}
	a.avail.Store(c, left)
}

// perCPU is arrays for each CPU, whatever a full one does: the mechanics of the axis.
type perCPU struct {
	of    []cpuArray // by CPU
	spill spill
}

// newPerCPU makes the arrays of a cache; a limit or a batch that is not given is that of
// the design.
func newPerCPU(s *Cache, spec *impls.CacheSpec, spill spill) *perCPU {
	limit, batch := spill.bounds(s.stride, uint64(s.sys.m.PageSize))
	if spec.Limit >= 0 {
		limit = uint64(spec.Limit)
		batch = spill.batch(limit)
	}
	if spec.Batch > 0 {
		batch = min(uint64(spec.Batch), limit)
	}
	k := &perCPU{of: make([]cpuArray, s.sys.m.CPUs), spill: spill}
	for i := range k.of {
		k.of[i].init(s.sys.m.CPU(i), limit, batch)
	}
	return k
}

// cpu is the array of the CPU that c runs on. Interrupts off, else it is another one's the
// next moment.
func (k *perCPU) cpu(c *machine.Ctx) *cpuArray { return &k.of[c.CPUID()] }

func (k *perCPU) alloc(c *machine.Ctx, s *Cache) impls.Addr {
	flags := c.IRQSave()
	a := k.cpu(c)
	obj := a.pop(c)
	if obj == 0 {
		s.lock.Lock(c)
		obj = k.refill(c, s, a)
		s.lock.Unlock(c)
	}
	c.IRQRestore(flags)
	return obj
}

// refill moves a batch of objects from the slabs to array a, as far as they have any, and
// returns the one on top. Where there is no array it is one object from the slabs. Holds
// cache.lock; interrupts off.
func (k *perCPU) refill(c *machine.Ctx, s *Cache, a *cpuArray) impls.Addr {
	if a.limit.Load(c) == 0 {
		return s.lists.alloc(c, s)
	}
	for range a.batch.Load(c) {
		obj := s.lists.alloc(c, s)
		if obj == 0 {
			break
		}
		a.push(c, obj)
	}
	return a.pop(c)
}

func (k *perCPU) free(c *machine.Ctx, s *Cache, p *machine.Page, obj impls.Addr) {
	flags := c.IRQSave()
	a := k.cpu(c)
	switch limit := a.limit.Load(c); {
	case limit == 0:
		s.lock.Lock(c)
		s.give(c, p, obj)
		s.lock.Unlock(c)
	case a.avail.Load(c) >= limit:
		k.spill.flush(c, s, a)
		fallthrough
	default:
		a.push(c, obj)
	}
	c.IRQRestore(flags)
}

func (k *perCPU) drain(c *machine.Ctx, s *Cache) {
	for cpu := range k.of {
		k.leave(c, s, cpu)
	}
}

func (k *perCPU) leave(c *machine.Ctx, s *Cache, cpu int) {
	c.Progress()
	c.CallOn(cpu, func(c *machine.Ctx) {
		s.lock.Lock(c)
		k.own(c, s)
		s.lock.Unlock(c)
	})
}

func (k *perCPU) own(c *machine.Ctx, s *Cache) { s.giveAll(c, k.cpu(c).take(c)) }

func (k *perCPU) tune(c *machine.Ctx, s *Cache, limit, batch uint64) {
	old := make([][]impls.Addr, len(k.of))
	for cpu := range k.of {
		c.Progress()
		c.CallOn(cpu, func(c *machine.Ctx) {
			a := k.cpu(c)
			old[cpu] = a.take(c)
			a.limit.Store(c, limit)
			a.batch.Store(c, batch)
			a.peak = max(a.peak, limit)
		})
	}
	for _, objs := range old {
		flags := s.lock.LockIRQSave(c)
		s.giveAll(c, objs)
		s.lock.UnlockIRQRestore(c, flags)
	}
}

func (k *perCPU) most() int {
	most := uint64(0)
	for i := range k.of {
		most = max(most, k.of[i].peak)
	}
	return int(most)
}

func (k *perCPU) snapshot(cache int, s *impls.Snapshot) {
	for cpu := range k.of {
		a := &k.of[cpu]
		o := s.AddArray(cache, cpu)
		o.Avail, o.Limit = int(a.avail.Peek()), int(a.limit.Peek())
		o.Batch = int(a.batch.Peek())
		for i := range min(a.avail.Peek(), uint64(len(a.entry))) {
			o.Objects = append(o.Objects, a.entry[i].Peek())
		}
	}
}

// give puts an object of slab p back into it, and p where it belongs then. Holds
// cache.lock.
func (s *Cache) give(c *machine.Ctx, p *machine.Page, obj impls.Addr) {
	if inuse, ok := s.put(c, p, obj); ok {
		s.lists.freed(c, s, p, inuse)
	}
}

// giveAll is free_block: it puts objects that were in an array back into their slabs, one
// by one. Holds cache.lock.
func (s *Cache) giveAll(c *machine.Ctx, objs []impls.Addr) {
	for _, obj := range objs {
		p := s.sys.m.PageOf(obj)
		if p == nil || p.Tag != any(s) {
			c.Die(fault.WildAddress, "%#x was in an array of cache %s, which has no slab there",
				obj, s.name)
		}
		s.give(c, p, obj)
	}
}

// showArrays adds the arrays of the cache, and to each slab its objects that are in one: by
// CPU, and in each the one that is handed out first first.
func (s *Cache) showArrays(snap *impls.Snapshot) {
	from := len(snap.Arrays)
	s.arrays.snapshot(s.number, snap)
	for i := range snap.Arrays[from:] {
		for _, obj := range slices.Backward(snap.Arrays[from+i].Objects) {
			p := s.sys.m.PageOf(obj)
			if p == nil || s.sys.owner[p.PFN()] != s {
				continue
			}
			b := slabOf(snap, p.PFN())
			b.CPUFree = append(b.CPUFree, obj)
		}
	}
}
