package slub

import (
	"math/bits"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A freelist is how a CPU's slab writes down its list of free objects. The
// methods are the slow paths' way to it.
type freelist interface {
	// init makes the words of s, one of k's, that the fast path uses, with an empty list.
	init(k *Cache, s *cpuSlab)
	// first is the first object, or an end marker. Holds the CPU; without a
	// context it is a look at a quiet point.
	first(c *machine.Ctx, s *cpuSlab) uint64
	// set makes a the first object; a may be an end marker. It comes last where the CPU's
	// slab changes, too. Holds the CPU.
	set(c *machine.Ctx, s *cpuSlab, a uint64)
	// words shows the words of s that lead to the first object.
	words(s *cpuSlab) []impls.Word
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

// locked is the design of 2007 up to 2.6.37, and again of real-time kernels since 2021: the
// CPU is held around the few loads and the store, as the slow paths hold it. Cause: the
// list is shared with the CPU's own interrupts and nobody else. Effect: right, at the
// price of two interrupt operations, which were most of the cost of an allocation. A
// real-time kernel has no choice: a compare and exchange would come in between the steps of
// a slow path that was preempted, which holds nothing but its lock.
type locked struct{}

func (locked) init(_ *Cache, s *cpuSlab) {
	s.freelist.guard(heldFreelist, s.guard, endMark)
	s.page.guard(heldPage, s.guard, none)
}

func (locked) first(c *machine.Ctx, s *cpuSlab) uint64 { return s.freelist.load(c) }

func (locked) set(c *machine.Ctx, s *cpuSlab, a uint64) { s.freelist.store(c, a) }

func (locked) alloc(c *machine.Ctx, k *Cache) uint64 {
	h := k.exclusion.lock(c, k)
	s := h.s
	a := s.freelist.guarded.Load(c)
	if isEnd(a) {
		k.exclusion.unlock(c, h)
		return 0
	}
	s.freelist.guarded.Store(c, c.LoadMemGuarded(objectLink, s.guard, a+k.link))
	k.exclusion.unlock(c, h)
	return a
}

func (locked) free(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool {
	h := k.exclusion.lock(c, k)
	s := h.s
	own := s.page.guarded.Load(c) == ref(p)
	if own {
		c.StoreMemGuarded(objectLink, s.guard, a+k.link, s.freelist.guarded.Load(c))
		s.freelist.guarded.Store(c, a)
	}
	k.exclusion.unlock(c, h)
	return own
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

func (cmpxchgLocal) init(_ *Cache, s *cpuSlab) {
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

func (cmpxchgSeq) init(k *Cache, s *cpuSlab) {
	s.split = splitOf(k.heap.m)
	s.freelist.leaveOpen(cpuFreelist, s.cpu, s.split.word(k.heap.m.Seq0, endMark))
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

// cmpxchgDouble is the fast path that came to stay, merged for 2.6.39 in 2011:
// the list's head and a transaction id are two whole words that a
// double-word cmpxchg changes together. Cause: half a word is little for a sequence
// number, and a list that must stay within one base falls back to the slow path; the
// fast path also had to keep its CPU for as long as it ran. Effect: no base and no
// overflow rule; an id is never the same on two CPUs, nor twice on one, so the task
// may even be moved in the middle, and the cmpxchg, which is made on the CPU that it
// finds itself on, fails if that is not the one whose words were read. What makes it
// right is a discipline: every change of the list or of the slab changes the id, and
// changes it last, because a task that was moved reads its old CPU's words from
// another CPU, in the middle of a slow path there. Two lapses were found late: an id
// that came from another CPU than the list (2013), and a slab that was
// let go without a new id since its list was empty already (2022, eeaa345e1285).
//
// Ids count in 64 bits whatever a word of the machine is, so that they do not come
// round. A kernel's are as wide as its words, and nothing is done about a wrap.
type cmpxchgDouble struct{}

func (cmpxchgDouble) init(k *Cache, s *cpuSlab) {
	if k.pairs == nil {
		k.pairs = make(machine.PerCPUDouble, len(k.cpus))
	}
	s.pair = &k.pairs[s.cpu]
	s.step = 1 << uint(bits.Len(uint(len(k.cpus)-1)))
	s.pair.A.Init(cpuFreelist, s.cpu, endMark)
	s.pair.B.Init(cpuTID, s.cpu, uint64(s.cpu))
	s.page.leaveOpen(cpuPage, s.cpu, none)
}

func (cmpxchgDouble) first(c *machine.Ctx, s *cpuSlab) uint64 {
	if c == nil {
		return s.pair.A.Peek()
	}
	return s.pair.A.Load(c)
}

// set changes the id last: until then whoever read the old one fails, and whoever reads
// the new one finds everything else new.
func (cmpxchgDouble) set(c *machine.Ctx, s *cpuSlab, a uint64) {
	s.pair.A.Store(c, a)
	s.pair.B.Store(c, s.pair.B.Load(c)+s.step)
}

// alloc reads the words of one CPU, the id first: whatever changes after that changes
// it, too.
func (cmpxchgDouble) alloc(c *machine.Ctx, k *Cache) uint64 {
	for {
		s := k.cpu(c) // may be another CPU's from here on
		tid := s.pair.B.Load(c)
		c.Barrier()
		a := s.pair.A.Load(c)
		if isEnd(a) {
			return 0
		}
		next := c.LoadMem(objectLink, a+k.link) // garbage when a is live by now
		if k.pairs.CmpxchgDoubleThisCPU(c, [2]uint64{a, tid}, [2]uint64{next, tid + s.step}) {
			return a
		}
	}
}

func (cmpxchgDouble) free(c *machine.Ctx, k *Cache, p *machine.Page, a uint64) bool {
	for {
		s := k.cpu(c)
		tid := s.pair.B.Load(c)
		c.Barrier()
		first := s.pair.A.Load(c)
		if s.page.open.Load(c) != ref(p) {
			return false
		}
		c.StoreMem(objectLink, a+k.link, first) // a is still the caller's
		if k.pairs.CmpxchgDoubleThisCPU(c, [2]uint64{first, tid}, [2]uint64{a, tid + s.step}) {
			return true
		}
	}
}
