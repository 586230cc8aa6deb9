package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// Links and heads are page numbers above which 1 is added: 0 ends a list.
var (
	listHead = machine.Guarded("cache", "list_head")
	listTail = machine.Guarded("cache", "list_tail")
	nextWord = machine.PageField(machine.Guarded("slab", "next"),
		machine.RegionLinks, machine.ViewList, 0)
	prevWord = machine.PageField(machine.Guarded("slab", "prev"),
		machine.RegionLinks, machine.ViewList, 1)
)

// A list chains slabs through their page descriptors. Guarded by the cache's lock.
type list struct {
	kind       impls.ListKind
	head, tail machine.GuardedWord
	moves      int // ghost state: slabs that were taken off, to go elsewhere or away
}

func (l *list) init(s *Cache, kind impls.ListKind) {
	l.kind = kind
	l.head.Init(listHead, s.guard, 0)
	l.tail.Init(listTail, s.guard, 0)
}

// first is the slab at the head, nil when the list is empty. Holds cache.lock.
func (l *list) first(c *machine.Ctx) *machine.Page { return slabAt(c, l.head.Load(c)) }

// last is the slab at the tail, nil when the list is empty. Holds cache.lock.
func (l *list) last(c *machine.Ctx) *machine.Page { return slabAt(c, l.tail.Load(c)) }

// next is the slab behind p on its list, nil behind the last. Holds cache.lock.
func next(c *machine.Ctx, p *machine.Page) *machine.Page { return slabAt(c, nextWord.Load(c, p)) }

// push puts p at the head. Holds cache.lock.
func (l *list) push(c *machine.Ctx, p *machine.Page) { l.insert(c, p, l.first(c)) }

// append puts p at the tail. Holds cache.lock.
func (l *list) append(c *machine.Ctx, p *machine.Page) { l.insert(c, p, nil) }

// insert puts p in front of a slab of the list, at the tail when that is nil. Holds
// cache.lock.
func (l *list) insert(c *machine.Ctx, p, before *machine.Page) {
	prev := l.last(c)
	if before != nil {
		prev = slabAt(c, prevWord.Load(c, before))
	}
	prevWord.Store(c, p, link(prev))
	nextWord.Store(c, p, link(before))
	if before != nil {
		prevWord.Store(c, before, link(p))
	} else {
		l.tail.Store(c, link(p))
	}
	if prev != nil {
		nextWord.Store(c, prev, link(p))
	} else {
		l.head.Store(c, link(p))
	}
}

// remove takes p off the list. Holds cache.lock.
func (l *list) remove(c *machine.Ctx, p *machine.Page) {
	l.moves++
	next, prev := slabAt(c, nextWord.Load(c, p)), slabAt(c, prevWord.Load(c, p))
	if next != nil {
		prevWord.Store(c, next, link(prev))
	} else {
		l.tail.Store(c, link(prev))
	}
	if prev != nil {
		nextWord.Store(c, prev, link(next))
	} else {
		l.head.Store(c, link(next))
	}
}

// link is what a list says for p, 0 for none.
func link(p *machine.Page) uint64 {
	if p == nil {
		return 0
	}
	return uint64(p.PFN()) + 1
}

// slabAt is the page that a link means, nil for 0. Outside the arena the run ends.
func slabAt(c *machine.Ctx, link uint64) *machine.Page {
	m := c.Machine()
	if link == 0 {
		return nil
	}
	if link > uint64(m.Pages) {
		c.Die(fault.WildAddress, "list of slabs leads to page %#x of %d", link-1, m.Pages)
	}
	return m.PageAt(int(link - 1))
}
