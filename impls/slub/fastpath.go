package slub

import "allocfuzz/impls/machine"

// A freelist is how a CPU's slab writes down its list of free objects. The
// methods are the slow paths' way to it.
type freelist interface {
	// init makes the words of s that the fast path uses, with an empty list.
	init(m *machine.Machine, s *cpuSlab)
	// first is the first object, or an end marker. Interrupts off; without a
	// context it is a look at a quiet point.
	first(c *machine.Ctx, s *cpuSlab) uint64
	// set makes a the first object; a may be an end marker. Interrupts off.
	set(c *machine.Ctx, s *cpuSlab, a uint64)
}

// A fastPath takes objects from the list of this CPU's slab, and gives them back
// to it, without a lock.
type fastPath interface {
	freelist
	// alloc returns an object, 0 when the slow path must.
	alloc(c *machine.Ctx, k *Cache) uint64
	// free takes back object a of slab p; false when the slow path must.
	free(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool
}

// irqSave is the design of 2007 up to 2.6.37: interrupts are off around the few
// loads and the store. Cause: the list is shared with the CPU's own interrupts
// and nobody else. Effect: right, at the price of two interrupt operations, which
// were most of the cost of an allocation.
type irqSave struct{}

func (irqSave) init(_ *machine.Machine, s *cpuSlab) {
	s.freelist.guard(offFreelist, s.off, endMark)
	s.page.guard(offPage, s.off, none)
}

func (irqSave) first(c *machine.Ctx, s *cpuSlab) uint64 { return s.freelist.load(c) }

func (irqSave) set(c *machine.Ctx, s *cpuSlab, a uint64) { s.freelist.store(c, a) }

func (irqSave) alloc(c *machine.Ctx, k *Cache) uint64 {
	flags := c.IRQSave()
	s := k.cpu(c)
	a := s.freelist.guarded.Load(c)
	if isEnd(a) {
		c.IRQRestore(flags)
		return 0
	}
	s.freelist.guarded.Store(c, c.LoadMemGuarded(objectLink, s.off, a+k.link))
	c.IRQRestore(flags)
	return a
}

func (irqSave) free(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool {
	flags := c.IRQSave()
	s := k.cpu(c)
	if s.page.guarded.Load(c) != ref(p) {
		c.IRQRestore(flags)
		return false
	}
	c.StoreMemGuarded(objectLink, s.off, a+k.link, s.freelist.guarded.Load(c))
	s.freelist.guarded.Store(c, a)
	c.IRQRestore(flags)
	return true
}

// cmpxchgLocal is the first attempt of 2008 to leave interrupts on, in 2.6.25-rc
// for a while (1f84260c8ce3) and taken back (00e962c5408b): a local cmpxchg of
// the list's head. Cause: the cmpxchg sees only that the head is the same as
// before. Effect: an interrupt that takes two objects and gives the first back
// leaves the head as it was and its successor live, and the stale successor
// becomes the list; and on a free onto an empty list every empty list looks the
// same, so the object lands on the list of whatever slab an interrupt has put
// there. Fix: cmpxchgSeq.
type cmpxchgLocal struct{}

func (cmpxchgLocal) init(_ *machine.Machine, s *cpuSlab) {
	s.freelist.leaveOpen(cpuFreelist, s.cpu, endMark)
	s.page.leaveOpen(cpuPage, s.cpu, none)
}

func (cmpxchgLocal) first(c *machine.Ctx, s *cpuSlab) uint64 { return s.freelist.load(c) }

func (cmpxchgLocal) set(c *machine.Ctx, s *cpuSlab, a uint64) { s.freelist.store(c, a) }

func (cmpxchgLocal) alloc(c *machine.Ctx, k *Cache) uint64 {
	c.PreemptDisable()
	s := k.cpu(c)
	a := s.freelist.open.Load(c)
	for !isEnd(a) {
		next := c.LoadMem(objectLink, a+k.link)
		if s.freelist.open.CmpxchgLocal(c, a, next) {
			break
		}
		a = s.freelist.open.Load(c)
	}
	c.PreemptEnable()
	if isEnd(a) {
		return 0
	}
	return a
}

func (cmpxchgLocal) free(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool {
	c.PreemptDisable()
	s := k.cpu(c)
	done := false
	for !done {
		old := s.freelist.open.Load(c)
		if s.page.open.Load(c) != ref(p) {
			break
		}
		c.StoreMem(objectLink, a+k.link, old)
		done = s.freelist.open.CmpxchgLocal(c, old, a)
	}
	c.PreemptEnable()
	return done
}

// cmpxchgSeq is the repair that was proposed in March 2008: cmpxchgLocal with a
// sequence number in the word that the cmpxchg compares. Cause: as there. Effect:
// the word's lower half is the lower half of the first object's address, or an
// end marker, and its upper half counts every change, so an interrupt that
// brings the head back does not bring the word back; the upper half of the
// address is beside it in base. A counter can come round, therefore at all ones
// everybody takes the slow path, and only code that interrupts nothing goes on
// from there to 0. That holds only as long as no other task comes in between:
// preemption is disabled.
type cmpxchgSeq struct{}

func (cmpxchgSeq) init(m *machine.Machine, s *cpuSlab) {
	s.split = splitOf(m)
	s.freelist.leaveOpen(cpuFreelist, s.cpu, s.split.word(m.Seq0, endMark))
	s.base.leaveOpen(cpuBase, s.cpu, 0)
	s.page.leaveOpen(cpuPage, s.cpu, none)
}

func (cmpxchgSeq) first(c *machine.Ctx, s *cpuSlab) uint64 {
	return s.base.load(c) | s.freelist.load(c)&s.split.low
}

// set is the one way in which slow paths change the list. Every change counts,
// so that a fast path it interrupts notices; but an interrupt does not count on
// past all ones, where the fast path that it interrupts may have started.
func (q cmpxchgSeq) set(c *machine.Ctx, s *cpuSlab, a uint64) {
	sequence := s.split.sequence(s.freelist.load(c))
	s.base.store(c, a&^s.split.low)
	if sequence != s.split.ones || !c.InInterrupt() {
		sequence++
	}
	s.freelist.store(c, s.split.word(sequence, a))
}

// exhausted says whether the sequence number of a word is all ones: then only the
// slow path may change the list.
func (cmpxchgSeq) exhausted(_ *machine.Ctx, s *cpuSlab, word uint64) bool {
	return s.split.sequence(word) == s.split.ones
}

// pin keeps other tasks away from this CPU, and this task on it.
func (cmpxchgSeq) pin(c *machine.Ctx) { c.PreemptDisable() }

// unpin ends pin.
func (cmpxchgSeq) unpin(c *machine.Ctx) { c.PreemptEnable() }

func (q cmpxchgSeq) alloc(c *machine.Ctx, k *Cache) uint64 {
	q.pin(c)
	a := q.take(c, k, k.cpu(c))
	q.unpin(c)
	return a
}

// take is alloc on the list of s; preemption is disabled.
func (q cmpxchgSeq) take(c *machine.Ctx, k *Cache, s *cpuSlab) uint64 {
	for {
		word := s.freelist.open.Load(c) // before base: a change of base counts in it
		base := s.base.open.Load(c)
		if isEnd(word) {
			return 0
		}
		if q.exhausted(c, s, word) {
			return 0
		}
		if s.freelist.open.Load(c) != word {
			continue // base may belong to another word
		}
		a := base | word&s.split.low
		next := c.LoadMem(objectLink, a+k.link) // garbage when a is live by now
		if !s.split.sameBase(base, next) {
			return 0
		}
		if s.freelist.open.CmpxchgLocal(c, word, s.split.next(word, next)) {
			return a
		}
	}
}

func (q cmpxchgSeq) free(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool {
	q.pin(c)
	done := q.give(c, k, p, a)
	q.unpin(c)
	return done
}

// give is free; preemption is disabled. Word and base need not belong together:
// what is made of them counts only if the cmpxchg finds the word unchanged.
func (q cmpxchgSeq) give(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool {
	s := k.cpu(c)
	for {
		word := s.freelist.open.Load(c) // before page and base, see take
		base := s.base.open.Load(c)
		if q.exhausted(c, s, word) {
			return false
		}
		if !s.split.sameBase(base, a) {
			return false
		}
		if s.page.open.Load(c) != ref(p) {
			return false
		}
		c.StoreMem(objectLink, a+k.link, base|word&s.split.low) // a is still the caller's
		if s.freelist.open.CmpxchgLocal(c, word, s.split.next(word, a)) {
			return true
		}
	}
}
