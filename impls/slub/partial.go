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

// The same words where a push has interrupts on.
var (
	openNext = machine.PageField(machine.Atomic("slab", "next"),
		machine.RegionLinks, machine.ViewPartial, 0)
	openPages = machine.PageField(headPages,
		machine.RegionLinks, machine.ViewPartial, 1)
	openObjects = machine.PageField(headObjects,
		machine.RegionLinks, machine.ViewPartial, 2)

	headPages   = machine.Racy("slab", "pages", trusted)
	headObjects = machine.Racy("slab", "pobjects", trusted)
)

// trusted is why counts are read with interrupts on, which is the mistake of the design.
const trusted = "a push reads the head's counts with interrupts on, and takes them for those of " +
	"the list that its cmpxchg finds, as long as the head is the same"

// noPartial is the design before 2012: what is freed into a full slab brings it
// back to the node's list, under the list lock each time.
type noPartial struct{}

func (noPartial) init(*cpuSlab) {}

func (noPartial) keeps() bool { return false }

func (noPartial) push(*machine.Ctx, *Cache, *machine.Page, gift) {}

func (noPartial) pop(*machine.Ctx, *Cache, *cpuSlab) *machine.Page { return nil }

func (noPartial) flush(*machine.Ctx, *Cache, *cpuSlab) {}

// cmpxchgPartial is the store of 2012 to 2021: pushed with a local cmpxchg of the head.
// Cause: slabs that turn partial should cost no lock and no interrupt operation, and
// the slow path, which alone takes slabs away, has interrupts off. Effect: the counts
// are read from the head's descriptor before the cmpxchg, and the cmpxchg sees only
// that the head is the same as before. An interrupt that takes the head and brings it
// back over another list leaves counts that are out of date, and they become those of
// the new head; if the head's pages went to somebody else in between, they are words of
// that one's use. The list itself stays right, since the new head leads to whatever head
// the cmpxchg found. Fix: irqSavePartial.
type cmpxchgPartial struct{}

func (cmpxchgPartial) init(s *cpuSlab) { s.partial.leaveOpen(cpuStore, s.cpu, none) }

func (cmpxchgPartial) keeps() bool { return true }

func (q cmpxchgPartial) push(c *machine.Ctx, k *Cache, p *machine.Page, g gift) {
	c.PreemptDisable()
	s := k.cpu(c)
	p.SetView(machine.RegionLinks, machine.ViewPartial, machine.Guard{}) // nobody else has p yet
	k.ghost.pushed(c, p, g.free)
	for done := false; !done; {
		old := s.partial.open.Load(c)
		pages, objects := uint64(0), uint64(0)
		if old != none {
			head := k.page(c, old)
			pages, objects = openPages.Load(c, head), openObjects.Load(c, head)
		}
		if g.drain && int64(pages) >= int64(k.cpuPartial) { // signed, as in the kernel
			flags := c.IRQSave()
			q.flush(c, k, s)
			c.IRQRestore(flags)
			old, pages, objects = none, 0, 0
		}
		openNext.Store(c, p, old)
		openPages.Store(c, p, pages+1)
		openObjects.Store(c, p, objects+g.free)
		done = s.partial.open.CmpxchgLocal(c, old, ref(p))
	}
	c.PreemptEnable()
}

func (cmpxchgPartial) pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page {
	head := s.partial.open.Load(c)
	if head == none {
		return nil
	}
	p := k.page(c, head)
	s.partial.open.Store(c, openNext.Load(c, p))
	p.SetView(machine.RegionLinks, machine.ViewNone, machine.Guard{})
	return p
}

func (cmpxchgPartial) flush(c *machine.Ctx, k *Cache, s *cpuSlab) {
	head := s.partial.open.Load(c)
	s.partial.open.Store(c, none)
	k.unfreezeAll(c, head)
}

// irqsOnPartial is cmpxchgPartial under a slow path that no longer has interrupts off
// when it takes a slab from the store, as the real-time kernels of 2021 first had it.
// Cause: the slow path is long, and a real-time kernel must not keep interrupts away
// from it. Effect: the slow path reads the head and its successor and makes the
// successor the head. A push in between succeeds, because the head is as it was, and
// is then written over: its slab is on no list. Fix: irqSavePartial, whose push and
// slow path exclude each other. That kernel's slow path held a lock of the CPU against
// other slow paths; here an interrupt may take a slab there, too.
type irqsOnPartial struct{ cmpxchgPartial }

// pop has interrupts on in a task. What an interrupt made the CPU's slab meanwhile is
// let go, as after a page request.
func (q irqsOnPartial) pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page {
	if c.InInterrupt() {
		return q.cmpxchgPartial.pop(c, k, s)
	}
	c.PreemptDisable()
	c.IRQEnable()
	p := q.cmpxchgPartial.pop(c, k, s)
	c.IRQDisable()
	c.PreemptEnable()
	if s.page.load(c) != none {
		k.deactivate(c, s)
	}
	return p
}

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
