package slub

import "allocfuzz/impls/machine"

// A slowStart is what an allocation's slow path does first: with what belongs to the
// CPU already.
type slowStart interface {
	// fromCPU takes an object from the CPU's list or slab. A slab that has none is let
	// go: then it returns 0. Holds the CPU.
	fromCPU(c *machine.Ctx, k *Cache, s *cpuSlab) uint64
}

// overwriteList is the slow path of 2007 and 2008, which was part of the fast path's
// region of disabled interrupts: the slab's freelist becomes the CPU's.
// Cause: the fast path went there with an empty list only, and nothing came in between.
// Effect: under a fast path that leaves interrupts on the CPU's list need not be empty.
// It gives up at a sequence number of all ones and on a list that leaves its base, as the
// last object of every fresh list does, whose end mark has none; an interrupt frees onto
// the list that it found empty; and the task may have come to another CPU. If objects
// were freed to the slab meanwhile, too, these become the list, and those that were on it
// are on none. (If not, the slab is let go, and its objects go back to it.) The mail that
// proposed such a fast path does not show the slow path. Fix: takeList.
type overwriteList struct{}

func (overwriteList) fromCPU(c *machine.Ctx, k *Cache, s *cpuSlab) uint64 {
	if s.page.load(c) == none {
		return 0
	}
	a := k.reload(c, s)
	if a == 0 {
		k.deactivate(c, s)
	}
	return a
}

// takeList trusts nothing that the fast path saw, as slow paths have since 2011: it looks
// at the CPU that it is on, which it holds, and takes the first object of a list
// that is not empty. Cause: as there. Effect: the four ways in are all right, at the
// price of one more look.
type takeList struct{}

func (takeList) fromCPU(c *machine.Ctx, k *Cache, s *cpuSlab) uint64 {
	a := k.fast.first(c, s)
	if !isEnd(a) {
		k.fast.set(c, s, c.LoadMemGuarded(objectLink, s.guard, a+k.link))
		return a
	}
	return overwriteList{}.fromCPU(c, k, s)
}
