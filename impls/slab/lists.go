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

// oneList is S1a, 2001 and before: all slabs on one list, the full ones first, then
// the partial ones, then the free ones, and a word that says which is the first
// that is not full.
//
// Cause: an allocation wants a partial slab, and what shrinks the cache wants a free
// one, both without a search. Effect: objects come from the slab of that word and
// pages from the tail. A slab that gets full stays where it is and the word moves
// on, so that few operations move a slab; a full slab that gets an object back
// comes in front of the first that is not full, and is used next. Fix, which this
// still lacks: an emptied slab goes to the tail, behind the free ones, and its
// object, which was used last, is handed out last.
type oneList struct {
	slabs   list
	notFull machine.GuardedWord // link of the first slab that is not full, 0 for none
}

var firstNotFull = machine.Guarded("cache", "firstnotfull")

func newOneList(s *Cache) lists {
	o := &oneList{}
	o.slabs.init(s, impls.ListAny)
	o.notFull.Init(firstNotFull, s.guard, 0)
	s.heads, s.notFull = []*list{&o.slabs}, &o.notFull
	return o
}

func (o *oneList) alloc(c *machine.Ctx, s *Cache) impls.Addr {
	p := slabAt(c, o.notFull.Load(c))
	if p == nil {
		return 0
	}
	obj, inuse := s.take(c, p)
	if inuse == s.objects {
		o.notFull.Store(c, nextWord.Load(c, p))
	}
	return obj
}

func (o *oneList) freed(c *machine.Ctx, s *Cache, p *machine.Page, inuse uint64) {
	first := o.notFull.Load(c)
	switch {
	case inuse == s.objects:
		o.notFull.Store(c, link(p))
		if nextWord.Load(c, p) != first {
			o.slabs.remove(c, p)
			o.slabs.insert(c, p, slabAt(c, first))
		}
	case inuse == 1:
		prev := slabAt(c, prevWord.Load(c, p))
		o.slabs.remove(c, p)
		o.slabs.append(c, p)
		if first != link(p) {
			return
		}
		o.notFull.Store(c, o.slabs.head.Load(c))
		if prev != nil {
			o.notFull.Store(c, nextWord.Load(c, prev))
		}
	}
}

func (o *oneList) add(c *machine.Ctx, p *machine.Page) {
	o.slabs.append(c, p)
	if o.notFull.Load(c) == 0 {
		o.notFull.Store(c, link(p))
	}
}

func (o *oneList) reap(c *machine.Ctx) *machine.Page {
	p := o.slabs.last(c)
	if p == nil || inuseWord.Load(c, p) != 0 {
		return nil
	}
	if o.notFull.Load(c) == link(p) {
		o.notFull.Store(c, 0) // every slab before the first that is not full is full
	}
	o.slabs.remove(c, p)
	return p
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
	s.heads = make([]*list, 0, len(t.of))
	for kind := range t.of {
		t.of[kind].init(s, impls.ListKind(kind))
		s.heads = append(s.heads, &t.of[kind])
	}
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
