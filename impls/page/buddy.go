package page

import (
	"math/bits"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// MaxOrder is the largest order of a block; an arena of fewer pages has a
// smaller one.
const MaxOrder = 10

// RankZone is the rank of the zone lock: the lowest, so that it may be taken
// with every other lock held.
const RankZone = machine.RankSlabLock / 2

var (
	zoneLock = machine.Atomic("zone", "lock")
	zoneFree = machine.Guarded("zone", "free")
	zoneArea = machine.Guarded("zone", "area")
	nextWord = machine.PageField(machine.Guarded("page", "next"),
		machine.RegionLinks, machine.ViewBuddy, 0)
	prevWord = machine.PageField(machine.Guarded("page", "prev"),
		machine.RegionLinks, machine.ViewBuddy, 1)
)

// What starts at a page, to which its order is added.
const (
	free  uint8 = 0x40
	given uint8 = 0x80
)

// Buddy is a machine's page allocator: a machine.PageLayer.
type Buddy struct {
	m     *machine.Machine
	lock  machine.SpinLock
	guard machine.Guard
	// areas are the heads of the lists of free blocks, by order. Heads and links
	// are page numbers above which 1 is added: 0 ends a list.
	areas [MaxOrder + 1]machine.GuardedWord
	free  machine.GuardedWord // Invariant PAGE2: pages of the free blocks
	// blocks says by page number what block starts there: free or given and its
	// order, else 0. It stands for the type field of the descriptor and is apart
	// from the union, since buddies are looked at while somebody else owns them.
	// Guarded by lock. Invariant PAGE1: the blocks cover the arena once.
	blocks []uint8
	fresh  bool // nothing was asked for yet: the lists are still to be filled
}

// New builds the page allocator of m with every page free; m.SetPageLayer makes
// it the machine's. It costs little: descriptors are touched when the first block
// is asked for.
func New(m *machine.Machine) *Buddy {
	b := &Buddy{m: m, blocks: make([]uint8, m.Pages), fresh: true}
	b.lock.Init(zoneLock, RankZone)
	b.guard = b.lock.Guard()
	for i := range b.areas {
		b.areas[i].Init(zoneArea, b.guard, 0)
	}
	b.free.Init(zoneFree, b.guard, uint64(m.Pages))
	return b
}

// Alloc returns the first page of a block of 1<<order pages, nil when there is
// none: the head of the smallest list that can serve it, lowest half first. The
// views of its pages are ViewNone; the owner sets its own.
func (b *Buddy) Alloc(c *machine.Ctx, order int) *machine.Page {
	if order < 0 || order > MaxOrder {
		return nil
	}
	flags := b.lock.LockIRQSave(c)
	p := b.take(c, order)
	b.lock.UnlockIRQRestore(c, flags)
	return p
}

// take is Alloc. Holds b.lock; interrupts off.
func (b *Buddy) take(c *machine.Ctx, order int) *machine.Page {
	if b.fresh {
		b.fill(c)
	}
	for o := order; o <= MaxOrder; o++ {
		head := b.areas[o].Load(c)
		if head == 0 {
			continue
		}
		p := b.at(c, head, o)
		b.unlink(c, p, o)
		for o > order {
			o--
			b.push(c, b.m.PageAt(p.PFN()+1<<o), o)
		}
		b.free.Store(c, b.free.Load(c)-1<<order)
		b.setViews(p, order, machine.ViewNone)
		p.SetBlock(order)
		b.blocks[p.PFN()] = given + uint8(order)
		return p
	}
	return nil
}

// fill puts the arena on the lists, lowest blocks first. Holds b.lock; interrupts off.
func (b *Buddy) fill(c *machine.Ctx) {
	b.fresh = false
	b.eachWhole(func(pfn, order int) { b.push(c, b.m.PageAt(pfn), order) })
}

// eachWhole calls f for the largest blocks that make up the arena: those of the largest
// order from the last to the first, then the smaller ones behind them.
func (b *Buddy) eachWhole(f func(pfn, order int)) {
	whole := b.m.Pages >> MaxOrder << MaxOrder
	for pfn := whole - 1<<MaxOrder; pfn >= 0; pfn -= 1 << MaxOrder {
		f(pfn, MaxOrder)
	}
	for pfn := whole; pfn < b.m.Pages; {
		order := bits.Len(uint(b.m.Pages-pfn)) - 1
		f(pfn, order)
		pfn += 1 << order
	}
}

// Free takes a block back and joins it with its buddies as far as they are free.
// A page that starts no block of that order, or whose block is free already, is a
// finding and changes nothing.
func (b *Buddy) Free(c *machine.Ctx, p *machine.Page, order int) {
	flags := b.lock.LockIRQSave(c)
	b.give(c, p, order)
	b.lock.UnlockIRQRestore(c, flags)
}

// give is Free. Holds b.lock; interrupts off.
func (b *Buddy) give(c *machine.Ctx, p *machine.Page, order int) {
	if !b.mayFree(c, p, order) {
		return
	}
	b.setViews(p, order, machine.ViewBuddy)
	b.blocks[p.PFN()] = 0
	b.free.Add(c, 1<<order)
	b.join(c, p.PFN(), order)
}

// mayFree says whether p starts a block of order that was given out. Holds b.lock.
func (b *Buddy) mayFree(c *machine.Ctx, p *machine.Page, order int) bool {
	if b.blocks[p.PFN()] == given+uint8(order) {
		return true
	}
	c.Fault(fault.StaleView, "page %d freed with order %d: no such block was given out there",
		p.PFN(), order)
	return false
}

// join puts a free block on its list after joining it with its buddies. Holds
// b.lock; interrupts off.
func (b *Buddy) join(c *machine.Ctx, pfn, order int) {
	for order < MaxOrder {
		buddy := pfn ^ 1<<order
		if buddy >= b.m.Pages || b.blocks[buddy] != free+uint8(order) {
			break
		}
		b.unlink(c, b.m.PageAt(buddy), order)
		pfn &^= 1 << order
		order++
	}
	b.push(c, b.m.PageAt(pfn), order)
}

// push puts p at the head of its list. Holds b.lock; interrupts off.
func (b *Buddy) push(c *machine.Ctx, p *machine.Page, order int) {
	p.SetView(machine.RegionLinks, machine.ViewBuddy, b.guard)
	p.SetView(machine.RegionBody, machine.ViewBuddy, b.guard)
	b.blocks[p.PFN()] = free + uint8(order)
	head := b.areas[order].Load(c)
	if head != 0 {
		prevWord.Store(c, b.at(c, head, order), link(p))
	}
	nextWord.Store(c, p, head)
	prevWord.Store(c, p, 0)
	b.areas[order].Store(c, link(p))
}

// unlink takes p from its list. Holds b.lock; interrupts off.
func (b *Buddy) unlink(c *machine.Ctx, p *machine.Page, order int) {
	next, prev := nextWord.Load(c, p), prevWord.Load(c, p)
	if next != 0 {
		prevWord.Store(c, b.at(c, next, order), prev)
	}
	if prev != 0 {
		nextWord.Store(c, b.at(c, prev, order), next)
	} else {
		b.areas[order].Store(c, next)
	}
	b.blocks[p.PFN()] = 0
}

// link is what a list says for p.
func link(p *machine.Page) uint64 { return uint64(p.PFN()) + 1 }

// at is the block that a link of a list means. Somebody who wrote to a page that
// was free may have changed it: then the run ends.
func (b *Buddy) at(c *machine.Ctx, link uint64, order int) *machine.Page {
	if link > uint64(b.m.Pages) || b.blocks[link-1] != free+uint8(order) {
		c.Die(fault.WildAddress, "free list of order %d leads to page %#x, which is not on it",
			order, link-1)
	}
	return b.m.PageAt(int(link - 1))
}

// setViews says what every page of a block is used as.
func (b *Buddy) setViews(p *machine.Page, order int, v machine.View) {
	for i := 0; i < 1<<order; i++ {
		q := b.m.PageAt(p.PFN() + i)
		q.SetView(machine.RegionLinks, v, b.guard)
		q.SetView(machine.RegionBody, v, b.guard)
	}
}

// Drain does nothing: no page is held back for a CPU.
func (b *Buddy) Drain(*machine.Ctx) {}

// DrainCPU does nothing either.
func (b *Buddy) DrainCPU(*machine.Ctx, int) {}

// FreePages is the number of free pages, as it is kept. Call it at quiet points.
func (b *Buddy) FreePages() int { return int(b.free.Peek()) }

// Snapshot adds to s the number of pages, how many are free, that number beside what
// a walk of the lists counts, and the free blocks.
func (b *Buddy) Snapshot(s *impls.Snapshot) {
	s.PagesTotal, s.PagesFree, s.TopOrder = b.m.Pages, b.FreePages(), MaxOrder
	if b.fresh {
		b.eachWhole(func(pfn, order int) {
			s.Blocks = append(s.Blocks, impls.Block{Page: pfn, Order: order})
		})
	}
	for order := range b.areas {
		b.list(s, order)
	}
	counted := 0
	for _, k := range s.Blocks {
		counted += 1 << k.Order
	}
	s.Counts = append(s.Counts, impls.Count{Name: zoneFree.Name(), Stored: s.PagesFree,
		Counted: counted})
}

// list adds the blocks of one list to s, as far as its links make sense.
func (b *Buddy) list(s *impls.Snapshot, order int) {
	for at, n := b.areas[order].Peek(), 0; at != 0 && n < b.m.Pages; n++ {
		if at > uint64(b.m.Pages) || b.blocks[at-1] != free+uint8(order) {
			return
		}
		s.Blocks = append(s.Blocks, impls.Block{Page: int(at - 1), Order: order})
		at = nextWord.Peek(b.m.PageAt(int(at - 1)))
	}
}
