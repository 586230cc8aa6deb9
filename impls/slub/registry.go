package slub

import "allocfuzz/impls/machine"

// rankGhost is below every other rank: it is taken last.
const rankGhost = 0

var ghostLock = machine.Atomic("slub", "registry")

// A registry is ghost state: the slabs that exist, whatever lists they are on.
type registry struct {
	mutex machine.SpinLock
	slabs []slabNote
	where []int32 // by page number: place in slabs
}

// lock keeps threads apart on a native machine. Simulated, one context runs at a
// time and ghost state is no part of what is tested. Without a context nothing
// runs yet.
func (g *registry) lock(c *machine.Ctx) {
	if c != nil && c.Native() {
		g.mutex.Lock(c)
	}
}

// unlock ends lock.
func (g *registry) unlock(c *machine.Ctx) {
	if c != nil && c.Native() {
		g.mutex.Unlock(c)
	}
}

// A slabNote is one slab that exists.
type slabNote struct {
	page  *machine.Page
	cache *Cache
	free  uint64 // free objects when it came to a CPU's store
}

// add notes a slab of cache k that was made of the block of p.
func (g *registry) add(c *machine.Ctx, k *Cache, p *machine.Page) {
	g.lock(c)
	for len(g.where) <= p.PFN() {
		g.where = append(g.where, -1)
	}
	g.where[p.PFN()] = int32(len(g.slabs))
	g.slabs = append(g.slabs, slabNote{page: p, cache: k})
	g.unlock(c)
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
	g.lock(c)
	if n := g.at(p); n != nil {
		last := g.slabs[len(g.slabs)-1]
		*n = last
		g.where[last.page.PFN()] = g.where[p.PFN()]
		g.where[p.PFN()] = -1
		g.slabs = g.slabs[:len(g.slabs)-1]
	}
	g.unlock(c)
}

// pushed notes the free objects of a slab that comes to a CPU's store.
func (g *registry) pushed(c *machine.Ctx, p *machine.Page, free uint64) {
	g.lock(c)
	if n := g.at(p); n != nil {
		n.free = free
	}
	g.unlock(c)
}
