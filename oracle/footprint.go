package oracle

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// This file checks that memory does not grow without bound under a steady load: what a
// cache keeps at a quiet point is what its design keeps at most, after what the program has
// had live.
//
// A cache with lists of all slabs keeps free ones until somebody takes them, and so is
// bound by the past. It makes a slab only when all are full, so at the last time when it
// decided to, its slabs were full of objects: live ones, those that are held for CPUs, and
// those of operations in flight. Since then each context can have added one slab that it
// had decided on before, and no more. A cache that takes in freed slabs only up to a
// number is bound by the present: no more than that many of its node are free, and a CPU's
// list is no longer than its limit.

// A tally is what one cache has.
type tally struct {
	slabs   int
	objects int // of a slab
	spare   int // free slabs on lists of the node
	store   int // slabs on the longest partial list of a CPU
}

// footprint holds the slabs of each cache that names bounds against them. Misuse that the
// allocator answers by giving memory up makes them void.
func (r *Runner) footprint() {
	if r.shadowed && r.shadow.Misused() {
		return
	}
	of := r.shape.tallies[:0]
	for range r.snap.Caches {
		of = append(of, tally{})
	}
	r.shape.tallies = of
	for i := range r.snap.Slabs {
		of[r.snap.Slabs[i].Cache].add(&r.snap.Slabs[i])
	}
	for i := range of {
		k, n := &r.snap.Caches[i], &of[i]
		switch {
		case !k.Bounded || k.Internal || n.slabs == 0:
		case k.FullLists:
			if most := r.slabsMost(k, n); n.slabs > most {
				r.broken(fault.Footprint, "%s has %d slabs of %d objects, and there were at most "+
					"%d objects, which takes %d", k.Name, n.slabs, n.objects, r.judge.peak, most)
			}
		case n.spare > k.Spare:
			r.broken(fault.Footprint, "%s keeps %d free slabs on its node, at most %d are to stay",
				k.Name, n.spare, k.Spare)
		case n.store > k.Store:
			r.broken(fault.Footprint, "%s keeps %d slabs for one CPU, at most %d are to stay",
				k.Name, n.store, k.Store)
		}
	}
}

// add counts a slab.
func (n *tally) add(b *impls.SlabState) {
	n.slabs++
	n.objects = b.Objects
	for _, p := range b.On {
		switch {
		case p.Kind == impls.OnCPUPartial:
			n.store = max(n.store, p.At+1)
		case p.Kind == impls.OnList && b.Objects > 0 && len(b.Free) == b.Objects:
			n.spare++
		}
	}
}

// slabsMost is the largest number of slabs that a cache with lists of all slabs can have
// come to. Of the program's objects each may have been one of this cache. An operation in
// flight may have two more, the old and the new one of a realloc, or as many as a bulk
// allocation takes.
func (r *Runner) slabsMost(k *impls.CacheState, n *tally) int {
	objects, wide := r.judge.peak+k.PerCPU*r.m.CPUs, max(1, r.p.wide)
	if r.p.Sequential() {
		return (objects + wide + n.objects - 1) / n.objects
	}
	return (objects+(1+wide)*len(r.p.Ctxs))/n.objects + 1 + len(r.p.Ctxs)
}

// farFirst is the operation of a long program after which the structure is looked at first;
// twice as many lie before each next time.
const farFirst = 512

// farBetween looks at the structure after some operations of a long program: seldom enough
// that it costs little however long that is, and often enough to see what grows.
func (r *Runner) farBetween(c *machine.Ctx) {
	n := r.res.Counts.Operations
	if n < farFirst || n&(n-1) != 0 || r.opt.Shallow || !r.opt.Checks.On(fault.Structure) ||
		!r.native && !r.m.Sim().Quiet(c) {
		return
	}
	r.structure(c)
}
