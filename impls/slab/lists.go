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
	// spare is the number of slabs that are all free.
	spare(c *machine.Ctx, s *Cache) int
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
	o.init(s)
	return o
}

func (o *oneList) init(s *Cache) {
	o.slabs.init(s, impls.ListAny)
	o.notFull.Init(firstNotFull, s.guard, 0)
	s.heads, s.notFull = []*list{&o.slabs}, &o.notFull
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
	switch {
	case inuse == s.objects:
		o.wasFull(c, p)
	case inuse == 1:
		first := o.notFull.Load(c)
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

// wasFull makes p, which was full, the first slab that is not.
func (o *oneList) wasFull(c *machine.Ctx, p *machine.Page) {
	first := o.notFull.Load(c)
	o.notFull.Store(c, link(p))
	if nextWord.Load(c, p) != first {
		o.slabs.remove(c, p)
		o.slabs.insert(c, p, slabAt(c, first))
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

// spare counts from the tail, where the free slabs are.
func (o *oneList) spare(c *machine.Ctx, s *Cache) int {
	n := 0
	for p := o.slabs.last(c); p != nil && inuseWord.Load(c, p) == 0; {
		n = s.walked(c, n)
		p = slabAt(c, prevWord.Load(c, p))
	}
	return n
}

// moveToTail takes the emptied slab p behind the slabs that follow it, of which next
// is the first: it is the first that is not full where p was.
func (o *oneList) moveToTail(c *machine.Ctx, p, next *machine.Page) {
	if o.notFull.Load(c) == link(p) {
		o.notFull.Store(c, link(next))
	}
	o.slabs.remove(c, p)
	o.slabs.append(c, p)
}

// oneListLIFO is S1b, 2001: the one list, where an emptied slab stays in its place if
// that is in order.
//
// Cause: the tail is where a free slab may be, and on the old list it was also where
// every emptied one went. Effect: with another free slab in the cache the object
// freed last waited until all of the others had been handed out. Fix, as its comment
// intends: the last slab of the list, and one that only free ones follow, is behind
// every partial slab and before every other free one where it is, so it is left
// there and is used next when no slab is partial. Where partial ones follow, it goes
// to the tail as before: they come first anyhow.
type oneListLIFO struct{ oneList }

func newOneListLIFO(s *Cache) lists {
	o := &oneListLIFO{}
	o.init(s)
	return o
}

func (o *oneListLIFO) freed(c *machine.Ctx, s *Cache, p *machine.Page, inuse uint64) {
	switch {
	case inuse == s.objects:
		o.wasFull(c, p)
	case inuse == 1:
		if next := next(c, p); next != nil && inuseWord.Load(c, next) != 0 {
			o.moveToTail(c, p, next)
		}
	}
}

// oneListPosted is S1b′, 2001: that repair in the words in which it was mailed.
//
// Cause: the question was to be whether a partial slab follows the emptied one, and
// the condition asks whether a slab that is not full does. Effect: behind a slab that
// was not full there never is a full one, so whatever follows, the emptied slab goes
// to the tail, and every list looks as it did before the repair. Fix: to ask whether
// the next slab has objects in use, as oneListLIFO does.
type oneListPosted struct{ oneList }

func newOneListPosted(s *Cache) lists {
	o := &oneListPosted{}
	o.init(s)
	return o
}

func (o *oneListPosted) freed(c *machine.Ctx, s *Cache, p *machine.Page, inuse uint64) {
	switch {
	case inuse == s.objects:
		o.wasFull(c, p)
	case inuse == 1:
		if next := next(c, p); next != nil && inuseWord.Load(c, next) != s.objects {
			o.moveToTail(c, p, next)
		}
	}
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
	t.init(s)
	return t
}

func (t *threeLists) init(s *Cache) {
	s.heads = make([]*list, 0, len(t.of))
	for kind := range t.of {
		t.of[kind].init(s, impls.ListKind(kind))
		s.heads = append(s.heads, &t.of[kind])
	}
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

func (t *threeLists) spare(c *machine.Ctx, s *Cache) int {
	n := 0
	for p := t.of[impls.ListFree].first(c); p != nil; p = next(c, p) {
		n = s.walked(c, n)
	}
	return n
}

// threeListsOpt is S1d, 2001: the three lists without the flag.
//
// Cause: the three lists cost about six parts of a hundred in a loop of allocations and
// frees, against the one list. Effect: the flag that said where a slab was picked was
// carried to where the slab was filed, and asked there at every object; a free compared
// the count of the slab again for each case. Fix: a free slab becomes a partial one
// when it is picked, so that what follows knows where it is, and a free looks at the
// count once. Who sees the lists with the lock free sees no difference. The price is
// a second move where an object fills its slab alone.
type threeListsOpt struct{ threeLists }

func newThreeListsOpt(s *Cache) lists {
	t := &threeListsOpt{}
	t.init(s)
	return t
}

func (t *threeListsOpt) alloc(c *machine.Ctx, s *Cache) impls.Addr {
	partial := &t.of[impls.ListPartial]
	p := partial.first(c)
	if p == nil {
		free := &t.of[impls.ListFree]
		if p = free.first(c); p == nil {
			return 0
		}
		free.remove(c, p)
		partial.push(c, p)
	}
	obj, inuse := s.take(c, p)
	if inuse == s.objects {
		partial.remove(c, p)
		t.of[impls.ListFull].push(c, p)
	}
	return obj
}

func (t *threeListsOpt) freed(c *machine.Ctx, s *Cache, p *machine.Page, inuse uint64) {
	from, to := impls.ListPartial, impls.ListPartial
	if inuse == s.objects {
		from = impls.ListFull
	}
	if inuse == 1 {
		to = impls.ListFree
	}
	if from != to {
		t.of[from].remove(c, p)
		t.of[to].push(c, p)
	}
}
