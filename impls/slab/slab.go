package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// The words of a slab: in the descriptor of its first page, but for the chain of
// free objects, which is in memory: behind the address of manager.
var (
	inuseWord = machine.PageField(machine.Guarded("slab", "inuse"),
		machine.RegionBody, machine.ViewSlab, 0)
	freeWord = machine.PageField(machine.Guarded("slab", "free"),
		machine.RegionBody, machine.ViewSlab, 1)
	colourWord = machine.PageField(machine.Guarded("slab", "colour"),
		machine.RegionBody, machine.ViewSlab, 2)
	managerWord = machine.PageField(machine.Guarded("slab", "manager"),
		machine.RegionBody, machine.ViewSlab, 3)
	bufctl = machine.Guarded("slab", "bufctl")
)

// setUp makes p an empty slab with a colour that is described at manager. Nobody else
// knows p yet. Holds cache.lock.
func (s *Cache) setUp(c *machine.Ctx, p *machine.Page, colour uint64, manager impls.Addr) {
	p.SetView(machine.RegionBody, machine.ViewSlab, s.guard)
	p.SetView(machine.RegionLinks, machine.ViewList, s.guard)
	p.Tag = s
	inuseWord.Store(c, p, 0)
	freeWord.Store(c, p, 0)
	colourWord.Store(c, p, colour)
	managerWord.Store(c, p, manager)
	per := uint64(1) << s.perShift
	at := manager + s.chain
	for i := uint64(0); i < s.objects; i += per {
		var word uint64
		for k := uint64(0); k < per && i+k < s.objects; k++ {
			next := i + k + 1
			if next == s.objects {
				next = s.end()
			}
			word |= next << (uint(k) * s.indexBits)
		}
		c.StoreMemGuarded(bufctl, s.guard, at, word)
		at += s.wordBytes
	}
	if s.debug != nil {
		s.debug.made(c, p)
	}
	if s.constructs == whenMade {
		for i := range s.objects {
			s.construct(s.start(p, colour) + s.first + i*s.stride)
		}
	}
}

// take takes the first object of p's chain; inuse is the count after it. Holds
// cache.lock.
func (s *Cache) take(c *machine.Ctx, p *machine.Page) (obj impls.Addr, inuse uint64) {
	index := freeWord.Load(c, p)
	if index >= s.objects {
		if s.debug != nil {
			s.debug.noObject(c, p, index)
		}
		c.Die(fault.WildAddress, "slab.free of page %d is %#x, it has %d objects", p.PFN(), index,
			s.objects)
	}
	colour := colourWord.Load(c, p)
	freeWord.Store(c, p, s.loadIndex(c, managerWord.Load(c, p), index))
	inuse = inuseWord.Load(c, p) + 1
	inuseWord.Store(c, p, inuse)
	obj = s.start(p, colour) + s.first + index*s.stride
	if s.debug != nil {
		s.debug.taken(c, p, obj)
	}
	if s.constructs == whenTaken {
		s.construct(obj)
	}
	return obj, inuse
}

// put chains obj in p again and returns the count before; ok is false when obj is
// no object of p, which is a finding, and when debugging refuses. Holds cache.lock.
func (s *Cache) put(c *machine.Ctx, p *machine.Page, obj impls.Addr) (inuse uint64, ok bool) {
	if s.debug != nil && !s.debug.mayFree(c, p, obj) {
		return 0, false
	}
	colour := colourWord.Load(c, p)
	index, ok := s.indexOf(p, colour, obj)
	if !ok {
		c.Fault(fault.OutsideSlab, "%#x freed to cache %s, where no object begins", obj, s.name)
		return 0, false
	}
	if s.debug != nil {
		s.debug.freed(c, obj)
	}
	s.storeIndex(c, managerWord.Load(c, p), index, freeWord.Load(c, p))
	freeWord.Store(c, p, index)
	inuse = inuseWord.Load(c, p)
	inuseWord.Store(c, p, inuse-1)
	return inuse, true
}

// indexOf is the number of the object at obj; ok is false when none begins there.
func (s *Cache) indexOf(p *machine.Page, colour uint64, obj impls.Addr) (index uint64, ok bool) {
	off := obj - s.start(p, colour) - s.first
	index = off / s.stride
	return index, index < s.objects && index*s.stride == off
}

// start is the address behind the colour.
func (s *Cache) start(p *machine.Page, colour uint64) impls.Addr {
	return p.Addr() + colour*s.colourOff
}

// indexAt is where the successor of an object is kept: the word and the shift.
func (g *geometry) indexAt(index uint64) (off uint64, shift uint) {
	inWord := index & (1<<g.perShift - 1)
	return g.chain + index>>g.perShift*g.wordBytes, uint(inWord) * g.indexBits
}

// loadIndex is the successor of an object in the index array of what is described at
// manager. Holds cache.lock.
func (s *Cache) loadIndex(c *machine.Ctx, manager impls.Addr, index uint64) uint64 {
	off, shift := s.indexAt(index)
	return c.LoadMemGuarded(bufctl, s.guard, manager+off) >> shift & s.end()
}

// storeIndex makes v the successor. Holds cache.lock.
func (s *Cache) storeIndex(c *machine.Ctx, manager impls.Addr, index, v uint64) {
	off, shift := s.indexAt(index)
	at := manager + off
	word := c.LoadMemGuarded(bufctl, s.guard, at)
	c.StoreMemGuarded(bufctl, s.guard, at, word&^(s.end()<<shift)|v<<shift)
}
