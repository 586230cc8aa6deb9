package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A lists keeps a cache's slabs by fullness: the axis of the debate of 2001. All
// methods hold cache.lock with interrupts off.
type lists interface {
	// alloc takes an object from a slab that has one free and puts the slab where
	// it belongs then; 0 when no slab has any.
	alloc(c *machine.Ctx, s *Cache) impls.Addr
	// freed puts p where it belongs after an object of it came back; inuse is its
	// count before.
	freed(c *machine.Ctx, s *Cache, p *machine.Page, inuse uint64)
	// add takes in a new slab, all free.
	add(c *machine.Ctx, p *machine.Page)
	// reap takes out the slab to be given back next, nil when none is all free.
	reap(c *machine.Ctx) *machine.Page
}

// threeLists is S1c, 2001: full, partial and free slabs on lists of their own.
//
// Cause: on one ordered list an emptied slab went to the tail, so the object freed
// last, which is still in the processor's cache, was handed out last. Effect: the
// kernel slowed down where caches empty and fill. Fix: an emptied slab goes to the
// head of its own list; what is given back comes from that list's tail. The price
// is an unlink and a link at each change where a pointer advanced before, and a
// flag that says where the slab was picked.
type threeLists struct {
	of [3]list // by impls.ListKind
}

func newThreeLists(s *Cache) lists {
	t := &threeLists{}
	for kind := range t.of {
		t.of[kind].init(s, impls.ListKind(kind))
	}
	s.heads = t.of[:]
	return t
}

func (t *threeLists) alloc(c *machine.Ctx, s *Cache) impls.Addr {
	p, fromPartial := t.of[impls.ListPartial].first(c), true
	if p == nil {
		p, fromPartial = t.of[impls.ListFree].first(c), false
	}
	if p == nil {
		return 0
	}
	from := &t.of[impls.ListFree]
	if fromPartial {
		from = &t.of[impls.ListPartial]
	}
	obj, inuse := s.take(c, p)
	switch {
	case inuse == s.objects:
		from.remove(c, p)
		t.of[impls.ListFull].push(c, p)
	case !fromPartial:
		from.remove(c, p)
		t.of[impls.ListPartial].push(c, p)
	}
	return obj
}

func (t *threeLists) freed(c *machine.Ctx, s *Cache, p *machine.Page, inuse uint64) {
	wasFull := inuse == s.objects
	from := &t.of[impls.ListPartial]
	if wasFull {
		from = &t.of[impls.ListFull]
	}
	switch {
	case inuse == 1:
		from.remove(c, p)
		t.of[impls.ListFree].push(c, p)
	case wasFull:
		from.remove(c, p)
		t.of[impls.ListPartial].push(c, p)
	}
}

func (t *threeLists) add(c *machine.Ctx, p *machine.Page) { t.of[impls.ListFree].append(c, p) }

func (t *threeLists) reap(c *machine.Ctx) *machine.Page {
	p := t.of[impls.ListFree].last(c)
	if p != nil {
		t.of[impls.ListFree].remove(c, p)
	}
	return p
}
