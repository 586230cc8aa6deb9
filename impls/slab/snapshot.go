package slab

import (
	"slices"
	"sort"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Snapshot walks every list, every array and every chain. Slabs come in order of their pages.
func (sys *system) Snapshot(s *impls.Snapshot) bool {
	s.Reset()
	sys.pages.Snapshot(s)
	sys.limbo.Snapshot(s)
	all := sys.everyCache()
	for i, k := range all {
		k.number = i
		s.Caches = append(s.Caches, k.state())
	}
	for i := len(sys.caches); i < len(all); i++ {
		s.Caches[i].Internal = true
	}
	for pfn, k := range sys.owner {
		if k != nil {
			k.describe(s, sys.m.PageAt(pfn))
		}
	}
	for _, k := range all {
		k.showArrays(s)
		listed := k.places(s)
		s.Counts = append(s.Counts, impls.Count{Name: cacheSlabs.Name(),
			Stored: int(k.slabs.Peek()), Counted: listed})
	}
	return true
}

// state describes the cache.
func (s *Cache) state() impls.CacheState {
	k := impls.CacheState{Name: s.name, Handle: s, Size: s.kin.Size(), Stride: s.stride,
		Align: s.align, Dead: s.dead, FullLists: true, Bounded: true,
		Shrinks: impls.AnswersPages}
	k.PerCPU = s.arrays.most()
	for _, l := range s.heads {
		k.Moves += l.moves
	}
	if s.notFull != nil {
		k.Ordered, k.FirstNotFull = true, int(s.notFull.Peek())-1
	}
	if g, ok := s.keeper.(general); ok {
		k.OffSlab, k.Manager, k.Limit = true, g.from, int(s.sys.generals.limit)
	}
	return k
}

// everyCache is every cache that was made, with the general ones behind the others.
func (sys *system) everyCache() []*Cache {
	all := slices.Clip(sys.caches)
	for i := range sys.generals.sizes {
		if k := sys.generals.sizes[i].cache; k != nil {
			all = append(all, k)
		}
	}
	return all
}

// describe adds the slab that begins at p.
func (s *Cache) describe(snap *impls.Snapshot, p *machine.Page) {
	b := snap.AddSlab()
	colour := colourWord.Peek(p)
	b.Cache, b.Page, b.Order, b.Addr = s.number, p.PFN(), p.Order(), p.Addr()
	b.First = s.start(p, colour) + s.first
	b.Objects, b.Inuse = int(s.objects), int(inuseWord.Peek(p))
	b.Colour, b.Colours = int(colour), int(s.colours)
	manager := managerWord.Peek(p)
	if s.offSlab {
		b.Manager, b.Managed = manager, int(s.described(s.objects))
	}
	index := freeWord.Peek(p)
	for index != s.end() {
		b.Free = append(b.Free, b.First+index*s.stride)
		if index >= s.objects {
			b.FreeEnd = impls.EndLeaves
			return
		}
		if len(b.Free) > b.Objects {
			b.FreeEnd = impls.EndCycle
			return
		}
		off, shift := s.indexAt(index)
		word, ok := s.sys.m.Peek(manager + off)
		if !ok {
			b.FreeEnd = impls.EndLeaves
			return
		}
		index = word >> shift & s.end()
	}
}

// places adds to each slab where the cache's lists have it, and counts what is
// on them.
func (s *Cache) places(snap *impls.Snapshot) int {
	listed := 0
	for _, l := range s.heads {
		at := 0
		for v := l.head.Peek(); v != 0 && at <= s.sys.m.Pages; at++ {
			if v > uint64(s.sys.m.Pages) {
				break
			}
			pfn := int(v - 1)
			if b := slabOf(snap, pfn); b != nil {
				b.On = append(b.On, impls.Place{Kind: impls.OnList, List: l.kind, At: at})
			}
			v = nextWord.Peek(s.sys.m.PageAt(pfn))
		}
		listed += at
	}
	return listed
}

// slabOf finds the slab that begins at a page: they are in order of their pages.
func slabOf(s *impls.Snapshot, pfn int) *impls.SlabState {
	i := sort.Search(len(s.Slabs), func(i int) bool { return s.Slabs[i].Page >= pfn })
	if i < len(s.Slabs) && s.Slabs[i].Page == pfn {
		return &s.Slabs[i]
	}
	return nil
}
