package slub

import "allocfuzz/impls/machine"

// A partialList is a CPU's store of slabs that it does not allocate from yet:
// slabs that were full until somebody on this CPU freed one of their objects. It
// spares the node's list lock. Slabs on it are frozen.
type partialList interface {
	// init makes the words of s that the list uses.
	init(s *cpuSlab)
	// keeps says whether there is a store at all.
	keeps() bool
	// push is put_cpu_partial: it stores p, frozen by the caller, which has
	// g.free free objects. With g.drain a full store goes to the node first.
	push(c *machine.Ctx, k *Cache, p *machine.Page, g gift)
	// pop takes the slab that came last, nil when there is none. Interrupts off.
	pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page
	// flush empties the store of s to the node. Interrupts off.
	flush(c *machine.Ctx, k *Cache, s *cpuSlab)
}

// A gift is what push must know beside the slab.
type gift struct {
	free  uint64 // free objects of the slab
	drain bool   // the store may be emptied to the node
}

// The words of a stored slab's descriptor: the next slab, and counts over the
// list from this one on. They share their storage with a list's links.
var (
	partialNext = machine.PageField(machine.Guarded("slab", "next"),
		machine.RegionLinks, machine.ViewPartial, 0)
	partialPages = machine.PageField(machine.Guarded("slab", "pages"),
		machine.RegionLinks, machine.ViewPartial, 1)
	partialObjects = machine.PageField(machine.Guarded("slab", "pobjects"),
		machine.RegionLinks, machine.ViewPartial, 2)
)

// noPartial is the design before 2012: what is freed into a full slab brings it
// back to the node's list, under the list lock each time.
type noPartial struct{}

func (noPartial) init(*cpuSlab) {}

func (noPartial) keeps() bool { return false }

func (noPartial) push(*machine.Ctx, *Cache, *machine.Page, gift) {}

func (noPartial) pop(*machine.Ctx, *Cache, *cpuSlab) *machine.Page { return nil }

func (noPartial) flush(*machine.Ctx, *Cache, *cpuSlab) {}

// irqSavePartial is the store as of September 2021 (e0a043aa4145): pushed with
// interrupts off. Cause: before, it was pushed with a local cmpxchg of the head
// under disabled preemption, with counts read from the head's descriptor in
// between. Effect: the head could leave, be used for something else and come
// back, and its counts were somebody else's words. Fix: interrupts off; the cost
// was measured as 22 cycles against 11, with no retry loop any more. What a full
// store held goes to the node after interrupts are back on, which keeps them off
// only for a moment.
type irqSavePartial struct{}

func (irqSavePartial) init(s *cpuSlab) { s.partial.guard(offPartial, s.off, none) }

func (irqSavePartial) keeps() bool { return true }

func (irqSavePartial) push(c *machine.Ctx, k *Cache, p *machine.Page, g gift) {
	flags := c.IRQSave()
	s := k.cpu(c)
	old, full := s.partial.load(c), uint64(none)
	var pages, objects uint64
	if old != none {
		head := k.page(c, old)
		pages, objects = partialPages.Load(c, head), partialObjects.Load(c, head)
	}
	if g.drain && pages >= k.cpuPartial {
		full, old, pages, objects = old, none, 0, 0
	}
	p.SetView(machine.RegionLinks, machine.ViewPartial, s.off)
	partialNext.Store(c, p, old)
	partialPages.Store(c, p, pages+1)
	partialObjects.Store(c, p, objects+g.free)
	k.ghost.pushed(c, p, g.free)
	s.partial.store(c, ref(p))
	c.IRQRestore(flags)
	k.unfreezeAll(c, full)
}

func (irqSavePartial) pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page {
	head := s.partial.load(c)
	if head == none {
		return nil
	}
	p := k.page(c, head)
	s.partial.store(c, partialNext.Load(c, p))
	p.SetView(machine.RegionLinks, machine.ViewNone, machine.Guard{})
	return p
}

func (irqSavePartial) flush(c *machine.Ctx, k *Cache, s *cpuSlab) {
	head := s.partial.load(c)
	s.partial.store(c, none)
	k.unfreezeAll(c, head)
}
