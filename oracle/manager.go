package oracle

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// managed checks where the slabs are described that are described off them, and notes
// the objects that this takes: they are neither live, as the program sees it, nor free.
// The management may only come from a cache that keeps its own on its slabs, and must
// hold as many objects as the slab has.
func (r *Runner) managed() {
	clear(r.shape.own)
	for i := range r.snap.Caches {
		k := &r.snap.Caches[i]
		if !k.OffSlab {
			continue
		}
		if m := r.stateOf(k.Manager); m == nil || m.OffSlab {
			r.broken(fault.OffSlabLimit, "slabs of %s are described in objects of a cache that "+
				"does not describe its own slabs on them", k.Name)
		}
	}
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		if k := &r.snap.Caches[b.Cache]; k.OffSlab {
			r.described(b, k)
		}
	}
}

// stateOf finds the state of a cache; nil when it shows none.
func (r *Runner) stateOf(c impls.Cache) *impls.CacheState {
	for i := range r.snap.Caches {
		if c != nil && r.snap.Caches[i].Handle == c {
			return &r.snap.Caches[i]
		}
	}
	return nil
}

// described checks the object in which slab b is described, and notes it.
func (r *Runner) described(b *impls.SlabState, k *impls.CacheState) {
	if b.Objects > k.Limit {
		r.broken(fault.OffSlabLimit, "%s has %d objects, described off it, of at most %d",
			name(b, k), b.Objects, k.Limit)
	}
	in := r.snap.SlabOf(uint64(r.m.PageSize), b.Manager)
	if in == nil || !in.Holds(b.Manager, r.snap.Caches[in.Cache].Stride) ||
		r.snap.Caches[in.Cache].Handle != k.Manager {
		r.broken(fault.OutsideSlab, "%s is described at %#x", name(b, k), b.Manager)
		return
	}
	if size := r.snap.Caches[in.Cache].Size; uint64(b.Managed) > size {
		r.broken(fault.OffSlabLimit, "%s is described in %d bytes at %#x, where an object has %d",
			name(b, k), b.Managed, b.Manager, size)
	}
	if r.shape.own[b.Manager] {
		r.broken(fault.TwiceOut, "%#x, which describes the %s, describes another slab, too",
			b.Manager, name(b, k))
	}
	r.shape.own[b.Manager] = true
	if at, live := r.judge.live.Any(b.Manager, uint64(b.Managed)); live {
		r.broken(fault.Overlap, "%#x, which describes the %s, live from %#x", b.Manager,
			name(b, k), at)
	}
}
