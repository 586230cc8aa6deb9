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
	// push is put_cpu_partial of a free: g comes to the store of this CPU, which goes to
	// the node first when it is full.
	push(c *machine.Ctx, k *Cache, g gift)
	// put is put_cpu_partial of a slow path: g comes to the store of s, however full that
	// is. Holds the CPU and k.node.lock.
	put(c *machine.Ctx, k *Cache, s *cpuSlab, g gift)
	// pop takes the slab that came last, nil when there is none. Holds the CPU.
	pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page
	// flush empties the store of s to the node. Holds the CPU.
	flush(c *machine.Ctx, k *Cache, s *cpuSlab)
}

// A gift is a slab that comes to a store: frozen, and nobody else's.
type gift struct {
	page *machine.Page
	free uint64 // its free objects
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

func (noPartial) push(*machine.Ctx, *Cache, gift) {}

func (noPartial) put(*machine.Ctx, *Cache, *cpuSlab, gift) {}

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
// the cmpxchg found. Fix: lockedPartial.
type cmpxchgPartial struct{}

func (cmpxchgPartial) init(s *cpuSlab) { s.partial.leaveOpen(cpuStore, s.cpu, none) }

func (cmpxchgPartial) keeps() bool { return true }

func (q cmpxchgPartial) push(c *machine.Ctx, k *Cache, g gift) { q.exchange(c, k, g, true) }

func (q cmpxchgPartial) put(c *machine.Ctx, k *Cache, _ *cpuSlab, g gift) {
	q.exchange(c, k, g, false)
}

// exchange is push, which drains a full store, and put.
func (q cmpxchgPartial) exchange(c *machine.Ctx, k *Cache, g gift, drain bool) {
	c.PreemptDisable()
	s, p := k.cpu(c), g.page
	p.SetView(machine.RegionLinks, machine.ViewPartial, machine.Guard{}) // nobody else has p yet
	k.ghost.pushed(c, p, g.free)
	for done := false; !done; {
		old := s.partial.open.Load(c)
		pages, objects := uint64(0), uint64(0)
		if old != none {
			head := k.page(c, old)
			pages, objects = openPages.Load(c, head), openObjects.Load(c, head)
		}
		if drain && int64(pages) >= int64(k.cpuPartial) { // signed, as in the kernel
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
// is then written over: its slab is on no list. Fix: lockedPartial, whose push and
// slow path exclude each other. The slow path holds a lock of the CPU against other slow
// paths; on a kernel that is not real-time an interrupt may take a slab there, too.
type irqsOnPartial struct{ cmpxchgPartial }

// pop has interrupts on in a task. What an interrupt made the CPU's slab meanwhile is
// let go, as after a page request.
func (q irqsOnPartial) pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page {
	if c.InInterrupt() {
		return q.cmpxchgPartial.pop(c, k, s)
	}
	k.exclusion.open(c)
	p := q.cmpxchgPartial.pop(c, k, s)
	k.exclusion.shut(c)
	if s.page.load(c) != none {
		k.deactivate(c, s)
	}
	return p
}

// lockedPartial is the store as of September 2021 (e0a043aa4145): pushed by who holds the
// CPU, first with interrupts off, soon after under the local lock of 5.15. Cause: before, it
// was pushed with a local cmpxchg of the head under disabled preemption, with counts
// read from the head's descriptor in between. Effect: the head could leave, be used for
// something else and come back, and its counts were somebody else's words; and on a
// real-time kernel a push came in the middle of a slow path that took a slab. Fix: push
// and slow path exclude each other; the cost was measured as 22 cycles against 11, with
// no retry loop any more. What a full store held goes to the node after the hold, which
// lasts only for a moment.
type lockedPartial struct{}

func (lockedPartial) init(s *cpuSlab) { s.partial.guard(heldPartial, s.guard, none) }

func (lockedPartial) keeps() bool { return true }

func (q lockedPartial) push(c *machine.Ctx, k *Cache, g gift) {
	h := k.exclusion.lock(c, k)
	old, full := h.s.partial.load(c), uint64(none)
	if old != none && partialPages.Load(c, k.page(c, old)) >= k.cpuPartial {
		old, full = none, old
	}
	// Nobody has come in since the head was read, so that is still what the store begins
	// with, and the new slab leads to it.
	q.link(c, k, h.s, g, old)
	k.exclusion.unlock(c, h)
	k.unfreezeAll(c, full)
}

func (q lockedPartial) put(c *machine.Ctx, k *Cache, s *cpuSlab, g gift) {
	q.link(c, k, s, g, s.partial.load(c))
}

// link makes g the head of the store of s, in front of old. Holds the CPU.
func (lockedPartial) link(c *machine.Ctx, k *Cache, s *cpuSlab, g gift, old uint64) {
	var pages, objects uint64
	if old != none {
		head := k.page(c, old)
		pages, objects = partialPages.Load(c, head), partialObjects.Load(c, head)
	}
	g.page.SetView(machine.RegionLinks, machine.ViewPartial, s.guard)
	partialNext.Store(c, g.page, old)
	partialPages.Store(c, g.page, pages+1)
	partialObjects.Store(c, g.page, objects+g.free)
	k.ghost.pushed(c, g.page, g.free)
	s.partial.store(c, ref(g.page))
}

func (lockedPartial) pop(c *machine.Ctx, k *Cache, s *cpuSlab) *machine.Page {
	head := s.partial.load(c)
	if head == none {
		return nil
	}
	p := k.page(c, head)
	s.partial.store(c, partialNext.Load(c, p))
	p.SetView(machine.RegionLinks, machine.ViewNone, machine.Guard{})
	return p
}

func (lockedPartial) flush(c *machine.Ctx, k *Cache, s *cpuSlab) {
	head := s.partial.load(c)
	s.partial.store(c, none)
	k.unfreezeAll(c, head)
}
