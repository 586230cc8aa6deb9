package slub

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A registry is ghost state: the slabs that exist, whatever lists they are on.
type registry struct {
	lock  machine.ThreadLock
	slabs []slabNote
	where []int32 // by page number: place in slabs
}

// A slabNote is one slab that exists.
type slabNote struct {
	page  *machine.Page
	cache *Cache
	free  uint64 // free objects when it came to a CPU's store
	bad   bool   // retired
}

// add notes a slab of cache k that was made of the block of p.
func (g *registry) add(c *machine.Ctx, k *Cache, p *machine.Page) {
	g.lock.Lock(c)
	for len(g.where) <= p.PFN() {
		g.where = append(g.where, -1)
	}
	g.where[p.PFN()] = int32(len(g.slabs))
	g.slabs = append(g.slabs, slabNote{page: p, cache: k})
	g.lock.Unlock(c)
}

// at finds p; nil when it is no slab.
func (g *registry) at(p *machine.Page) *slabNote {
	if p.PFN() >= len(g.where) || g.where[p.PFN()] < 0 {
		return nil
	}
	return &g.slabs[g.where[p.PFN()]]
}

// remove forgets a slab whose pages go back. One that is no slab any more was
// given back twice: the page layer says so.
func (g *registry) remove(c *machine.Ctx, p *machine.Page) {
	g.lock.Lock(c)
	if n := g.at(p); n != nil {
		last := g.slabs[len(g.slabs)-1]
		*n = last
		g.where[last.page.PFN()] = g.where[p.PFN()]
		g.where[p.PFN()] = -1
		g.slabs = g.slabs[:len(g.slabs)-1]
	}
	g.lock.Unlock(c)
}

// pushed notes the free objects of a slab that comes to a CPU's store.
func (g *registry) pushed(c *machine.Ctx, p *machine.Page, free uint64) {
	g.lock.Lock(c)
	if n := g.at(p); n != nil {
		n.free = free
	}
	g.lock.Unlock(c)
}

// retired notes that a slab has failed a check of an allocation.
func (g *registry) retired(c *machine.Ctx, p *machine.Page) {
	g.lock.Lock(c)
	if n := g.at(p); n != nil {
		n.bad = true
	}
	g.lock.Unlock(c)
}

// Snapshot fills s from the caches' own structures: slabs from the list that is
// kept beside them, and where they are from lists and CPUs.
func (h *heap) Snapshot(s *impls.Snapshot) bool {
	s.Reset()
	h.pages.Snapshot(s)
	h.limbo.Snapshot(s)
	for _, k := range h.caches {
		s.Caches = append(s.Caches, k.state())
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

// state describes the cache. A CPU's store takes one slab whatever its limit.
func (k *Cache) state() impls.CacheState {
	s := impls.CacheState{Name: k.name, Handle: k, Size: k.kin.Size(), Stride: k.stride,
		Align: k.align, LinkOffset: k.link, Dead: k.dead, Shrinks: impls.AnswersRemains,
		Bounded: true, Spare: int(k.minPartial)}
	if k.partial.keeps() {
		s.Store = int(max(k.cpuPartial, 1))
	}
	return s
}

// show adds the slab. Its place in s is that in the registry.
func (n *slabNote) show(s *impls.Snapshot) {
	p, k := n.page, n.cache
	b := s.AddSlab()
	b.Cache, b.Page, b.Order = k.index, p.PFN(), k.order
	b.Addr, b.First, b.Objects = p.Addr(), p.Addr()+k.pad, k.objects
	b.Inuse = int(slabInuse.Peek(p))
	b.Frozen, b.Retired = slabFrozen.Peek(p) != 0, n.bad
	b.Free, b.FreeEnd = k.walk(b, b.Free, slabFreelist.Peek(p))
}

// walk follows a freelist of slab b from a on, and appends it to list.
func (k *Cache) walk(b *impls.SlabState, list []impls.Addr, a uint64) (
	[]impls.Addr, impls.FreeEnd) {
	for !k.ends(a) {
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

// ends says whether a link ends a freelist. In a debug cache any but the end mark
// itself is damage.
func (k *Cache) ends(a uint64) bool {
	if k.debug != nil {
		return a == endMark
	}
	return isEnd(a)
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

// walkNode adds what is on the node's lists, and its counters.
func (k *Cache) walkNode(s *impls.Snapshot) {
	at := impls.Place{Kind: impls.OnList, List: impls.ListPartial}
	n, _ := k.follow(s, k.node.partial.first.Peek(), at, listNext)
	at.List = impls.ListFull
	k.follow(s, k.node.full.first.Peek(), at, listNext)
	slabs := 0
	for i := range s.Slabs {
		if s.Slabs[i].Cache == k.index {
			slabs++
		}
	}
	s.Counts = append(s.Counts,
		impls.Count{Name: nrPartial.Name(), Stored: int(k.node.nrPartial.Peek()), Counted: n},
		impls.Count{Name: nrSlabs.Name(), Stored: int(k.node.nrSlabs.load(nil)), Counted: slabs})
}

// walkCPU adds a CPU's slab with its freelist, and the CPU's store.
func (k *Cache) walkCPU(s *impls.Snapshot, u *cpuSlab) {
	a := k.fast.first(nil, u)
	b := k.slabAt(s, u.page.load(nil))
	if b != nil {
		b.On = append(b.On, impls.Place{Kind: impls.OnCPU, CPU: u.cpu})
		b.CPUFree, b.CPUEnd = k.walk(b, b.CPUFree, a)
	} else if !isEnd(a) {
		// A list without a slab leaves the one that it leads to: show it there.
		if b = s.SlabOf(uint64(k.heap.m.PageSize), a); b != nil {
			b.CPUFree, b.CPUEnd = append(b.CPUFree, a), impls.EndLeaves
		}
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

// Words shows what every cache keeps for every CPU.
func (h *heap) Words() (list []impls.Word) {
	for _, k := range h.caches {
		for i := range k.cpus {
			u := &k.cpus[i]
			words := append(k.fast.words(u), impls.Word{Name: cpuPage.Name(),
				Value: u.page.load(nil), Page: true})
			if k.partial.keeps() {
				words = append(words, impls.Word{Name: cpuStore.Name(),
					Value: u.partial.load(nil), Page: true})
			}
			for _, w := range words {
				w.Cache, w.CPU = k.index, u.cpu
				list = append(list, w)
			}
		}
	}
	return list
}

func (locked) words(s *cpuSlab) []impls.Word { return s.plainWords() }

func (cmpxchgLocal) words(s *cpuSlab) []impls.Word { return s.plainWords() }

func (cmpxchgSeq) words(s *cpuSlab) []impls.Word {
	w := s.freelist.load(nil)
	return []impls.Word{
		{Name: cpuFreelist.Name(), Value: w, Parts: []impls.WordPart{
			{Name: "sequence", Value: s.split.sequence(w)},
			{Name: "offset", Value: w & s.split.low},
		}},
		{Name: cpuBase.Name(), Value: s.base.load(nil)},
	}
}

func (cmpxchgDouble) words(s *cpuSlab) []impls.Word {
	return []impls.Word{
		{Name: cpuFreelist.Name(), Value: s.pair.A.Peek()},
		{Name: cpuTID.Name(), Value: s.pair.B.Peek()},
	}
}

// plainWords shows the list of a CPU whose word is an address.
func (s *cpuSlab) plainWords() []impls.Word {
	return []impls.Word{{Name: cpuFreelist.Name(), Value: s.freelist.load(nil)}}
}
