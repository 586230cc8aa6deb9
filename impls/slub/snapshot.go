package slub

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Snapshot fills s from the caches' own structures: slabs from the list that is
// kept beside them, and where they are from lists and CPUs.
func (h *heap) Snapshot(s *impls.Snapshot) bool {
	s.Reset()
	h.pages.Snapshot(s)
	for _, k := range h.caches {
		s.Caches = append(s.Caches, impls.CacheState{Name: k.name, Size: k.size,
			Stride: k.stride, Align: k.align, LinkOffset: k.link, Dead: k.dead})
	}
	for i := range h.ghost.slabs {
		h.ghost.slabs[i].show(s)
	}
	for _, k := range h.caches {
		k.walkNode(s)
		for i := range k.cpus {
			k.walkCPU(s, &k.cpus[i])
		}
	}
	return true
}

// show adds the slab. Its place in s is that in the registry.
func (n *slabNote) show(s *impls.Snapshot) {
	p, k := n.page, n.cache
	b := s.AddSlab()
	b.Cache, b.Page, b.Order = k.index, p.PFN(), k.order
	b.Addr, b.First, b.Objects = p.Addr(), p.Addr(), k.objects
	b.Inuse = int(slabInuse.Peek(p))
	b.Frozen = slabFrozen.Peek(p) != 0
	b.Free, b.FreeEnd = k.walk(b, b.Free, slabFreelist.Peek(p))
}

// walk follows a freelist of slab b from a on, and appends it to list.
func (k *Cache) walk(b *impls.SlabState, list []impls.Addr, a uint64) (
	[]impls.Addr, impls.FreeEnd) {
	for !isEnd(a) {
		if len(list) > b.Objects {
			return list, impls.EndCycle
		}
		list = append(list, a)
		next, ok := k.heap.m.Peek(a + k.link)
		if !ok || !b.Holds(a, k.stride) {
			return list, impls.EndLeaves
		}
		a = next
	}
	return list, impls.EndOK
}

// slabAt finds the entry of the slab that a list or a CPU means; nil when there
// is no such slab of this cache.
func (k *Cache) slabAt(s *impls.Snapshot, r uint64) *impls.SlabState {
	if r == none || r > uint64(len(k.ghost.where)) || k.ghost.where[r-1] < 0 {
		return nil
	}
	if b := &s.Slabs[k.ghost.where[r-1]]; b.Cache == k.index {
		return b
	}
	return nil
}

// follow puts down the places of the slabs on a list, and returns how many there
// are and the free objects that they came with. It stops where the list leads to
// no slab of the cache, or goes on too long.
func (k *Cache) follow(s *impls.Snapshot, r uint64, at impls.Place,
	next *machine.PageWord) (slabs, objects int) {
	for slabs < len(s.Slabs)+1 {
		b := k.slabAt(s, r)
		if b == nil {
			break
		}
		at.At = slabs
		b.On = append(b.On, at)
		p := k.heap.m.PageAt(b.Page)
		slabs++
		objects += int(k.ghost.at(p).free)
		r = next.Peek(p)
	}
	return slabs, objects
}

// walkNode adds what is on the node's list, and its counters.
func (k *Cache) walkNode(s *impls.Snapshot) {
	at := impls.Place{Kind: impls.OnList, List: impls.ListPartial}
	n, _ := k.follow(s, k.node.first.Peek(), at, listNext)
	slabs := 0
	for i := range s.Slabs {
		if s.Slabs[i].Cache == k.index {
			slabs++
		}
	}
	s.Counts = append(s.Counts,
		impls.Count{Name: nrPartial.Name(), Stored: int(k.node.nrPartial.Peek()), Counted: n},
		impls.Count{Name: nrSlabs.Name(), Stored: int(k.node.nrSlabs.Peek()), Counted: slabs})
}

// walkCPU adds a CPU's slab with its freelist, and the CPU's store.
func (k *Cache) walkCPU(s *impls.Snapshot, u *cpuSlab) {
	a := k.fast.first(nil, u)
	b := k.slabAt(s, u.page.load(nil))
	if b != nil {
		b.On = append(b.On, impls.Place{Kind: impls.OnCPU, CPU: u.cpu})
	} else if !isEnd(a) {
		b = s.SlabOf(uint64(k.heap.m.PageSize), a) // a list without a slab: show it where it leads
	}
	if b != nil {
		b.CPUFree, b.CPUEnd = k.walk(b, b.CPUFree, a)
	}
	if !k.partial.keeps() {
		return
	}
	head := u.partial.load(nil)
	n, objects := k.follow(s, head, impls.Place{Kind: impls.OnCPUPartial, CPU: u.cpu}, partialNext)
	pages := impls.Count{Name: "slab.pages", Counted: n}
	pobjects := impls.Count{Name: "slab.pobjects", Counted: objects}
	if head != none && head <= uint64(k.heap.m.Pages) {
		p := k.heap.m.PageAt(int(head - 1))
		pages.Stored, pobjects.Stored = int(partialPages.Peek(p)), int(partialObjects.Peek(p))
	}
	s.Counts = append(s.Counts, pages, pobjects)
}
