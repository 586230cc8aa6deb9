package guard

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// An object is one block of the allocator behind that the guard has.
type object struct {
	addr  impls.Addr // of the object itself
	block impls.Addr
	cache *cache
	free  bool    // in quarantine
	calls *stacks // with Options.Stacks
	prev  *object
	next  *object
}

// A list holds objects in the order in which they came.
type list struct {
	first, last *object
	n           int
}

func (l *list) push(o *object) {
	o.prev, o.next = l.last, nil
	if l.last != nil {
		l.last.next = o
	} else {
		l.first = o
	}
	l.last = o
	l.n++
}

func (l *list) remove(o *object) {
	if o.prev != nil {
		o.prev.next = o.next
	} else {
		l.first = o.next
	}
	if o.next != nil {
		o.next.prev = o.prev
	} else {
		l.last = o.prev
	}
	o.prev, o.next = nil, nil
	l.n--
}

// enter keeps other threads out; simulated, nothing else runs before the next call of
// the allocator behind.
func (g *Allocator) enter(c *machine.Ctx) {
	g.lock.Lock(c)
	g.c = c
}

// leave ends enter.
func (g *Allocator) leave(c *machine.Ctx) {
	g.c = nil
	g.lock.Unlock(c)
}

// record makes the record of a new object of k.
func (g *Allocator) record(k *cache, block impls.Addr) *object {
	o := g.spare
	if o == nil {
		o = &object{}
	} else {
		g.spare = o.next
	}
	*o = object{addr: block + k.layout.Pad, block: block, cache: k, calls: o.calls}
	return o
}

// keep puts a live object into quarantine.
func (g *Allocator) keep(o *object) {
	g.live.remove(o)
	o.cache.live--
	o.free = true
	g.kept.push(o)
	g.bytes += o.cache.layout.Stride
}

// forget takes an object out of every book.
func (g *Allocator) forget(o *object) {
	if o.free {
		g.kept.remove(o)
		g.bytes -= o.cache.layout.Stride
	} else {
		g.live.remove(o)
		o.cache.live--
	}
	delete(g.table, o.addr)
}

// drop forgets an object, keeps its record for the next, and returns its block.
func (g *Allocator) drop(o *object) impls.Addr {
	g.forget(o)
	o.next, g.spare = g.spare, o
	return o.block
}

// undo takes back objects that were just handed out and never used.
func (g *Allocator) undo(c *machine.Ctx, objects []impls.Addr) {
	for _, a := range objects {
		g.enter(c)
		block := g.drop(g.table[a])
		g.leave(c)
		g.inner.Free(c, block)
	}
}

// discard checks an object that leaves the quarantine and returns its block.
func (g *Allocator) discard(o *object) impls.Addr {
	g.look(o)
	g.check.Discard(&g.slab)
	return g.drop(o)
}

// excess is the block of the object that is longest in quarantine if that is over its
// limits, 0 when it is not.
func (g *Allocator) excess() impls.Addr {
	if g.kept.n <= g.opt.Count && g.bytes <= g.opt.Bytes {
		return 0
	}
	return g.discard(g.kept.first)
}

// oldest is excess for who holds no lock.
func (g *Allocator) oldest(c *machine.Ctx) impls.Addr {
	g.enter(c)
	defer g.leave(c)
	return g.excess()
}

// release gives the objects of cache k that are in quarantine now, nil for all, back
// to the allocator behind, and returns how many there were.
func (g *Allocator) release(c *machine.Ctx, k *cache) int {
	n := 0
	for block := g.next(c, k); block != 0; block = g.next(c, k) {
		g.inner.Free(c, block)
		n++
	}
	return n
}

// next is the block of the object of k, nil for any, that is longest in quarantine,
// taken out of it; 0 when there is none.
func (g *Allocator) next(c *machine.Ctx, k *cache) impls.Addr {
	g.enter(c)
	defer g.leave(c)
	for o := g.kept.first; o != nil; o = o.next {
		if k == nil || o.cache == k {
			return g.discard(o)
		}
	}
	return 0
}

// look makes o what the checker looks at: a slab of one object.
func (g *Allocator) look(o *object) {
	l, bytes := &o.cache.layout, g.mem.View(o.block, o.cache.layout.Stride)
	g.slot.block, g.slot.bytes, g.slot.object = o.block, bytes, o
	g.check.Layout, g.check.View, g.check.ViewAt = l, bytes, o.block
	o.describe(&g.slab)
}

// describe fills in a slab of which o is the only object, field by field: one that is
// copied as a whole right behind this makes the processor wait.
func (o *object) describe(s *debugcheck.Slab) {
	l := &o.cache.layout
	s.Addr, s.Bytes, s.First = o.block, l.Stride, o.block
	s.Max, s.Objects, s.Inuse, s.Frozen, s.Freelist = 1, 1, 1, false, l.End
	if o.free {
		s.Inuse, s.Freelist = 0, o.addr
	}
}

// holds says whether a lies in the slot of o.
func (o *object) holds(a impls.Addr) bool {
	return a >= o.block && a-o.block < o.cache.layout.Stride
}

// holder finds the object whose slot holds a: that takes a walk unless a is the
// object's own address or in the slot that was found last, and only misuse needs it.
func (g *Allocator) holder(a impls.Addr) *object {
	if o := g.table[a]; o != nil {
		return o
	}
	if o := g.found; o != nil && o.holds(a) && g.table[o.addr] == o {
		return o
	}
	for _, l := range [...]*list{&g.live, &g.kept} {
		for o := l.first; o != nil; o = o.next {
			if o.holds(a) {
				g.found = o
				return o
			}
		}
	}
	return nil
}

// stray reports a free, by way of cache from, of an address that is no live object: o
// is the object that is in quarantine there. All that is asked of the checker is to
// refuse, so it asks with option F on.
func (g *Allocator) stray(p impls.Addr, o *object, from *cache) {
	if o == nil {
		o = g.holder(p)
	}
	if o == nil {
		g.unknown(p, from)
		return
	}
	g.look(o)
	strict := o.cache.layout
	strict.Flags |= debugcheck.Sanity
	g.check.Layout = &strict
	g.check.FreeOne(&g.slab, p)
}
