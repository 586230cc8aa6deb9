package oracle

// This file is about what a subject holds for single CPUs, and about what must come back
// when it is asked to give something back.

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/pages"
)

// arrays checks what a subject shows of its arrays for single CPUs, but for what the slabs
// of the objects say: that none is live, free elsewhere or in two arrays.
func (r *Runner) arrays() {
	for i := range r.snap.Arrays {
		a := &r.snap.Arrays[i]
		k := &r.snap.Caches[a.Cache]
		if a.Avail != len(a.Objects) {
			r.broken(fault.CountWrong, "the array of %s for CPU %d counts %d objects, there are %d",
				k.Name, a.CPU, a.Avail, len(a.Objects))
		}
		if len(a.Objects) > a.Limit || a.Batch > a.Limit || a.Limit > 0 && a.Batch < 1 {
			r.broken(fault.ArrayLimit, "%d objects are in the array of %s for CPU %d, limit %d, "+
				"batch %d", len(a.Objects), k.Name, a.CPU, a.Limit, a.Batch)
		}
		for _, obj := range a.Objects {
			b := r.snap.SlabOf(uint64(r.m.PageSize), obj)
			if b == nil || b.Cache != a.Cache || !b.Holds(obj, k.Stride) {
				r.broken(fault.FreelistLeaves, "the array of %s for CPU %d holds %#x", k.Name,
					a.CPU, obj)
			}
		}
	}
}

// arrayOf is the array of a cache for a CPU, by the number of the cache; nil when the
// snapshot shows none.
func (r *Runner) arrayOf(cache, cpu int) *impls.Array {
	for i := range r.snap.Arrays {
		if a := &r.snap.Arrays[i]; a.Cache == cache && a.CPU == cpu {
			return a
		}
	}
	return nil
}

// empties says whether an operation leaves arrays empty or gives pages back, so that what
// it left is looked at.
func empties(ev *impls.Event) bool {
	switch ev.Code {
	case impls.OpFlush, impls.OpTune, impls.OpOffline, impls.OpReap:
		return ev.Outcome == impls.OK
	}
	return false
}

// emptied checks what such an operation has left behind, from the snapshot taken since.
func (r *Runner) emptied(ev *impls.Event) {
	switch ev.Code {
	case impls.OpReap:
		r.reaped(ev)
		return
	case impls.OpFlush, impls.OpOffline:
		r.released(ev)
	}
	k := r.exec.Cache(int(ev.Cache))
	op := r.lines[int(ev.Op)-r.base].Op
	for i := range r.snap.Arrays {
		a := &r.snap.Arrays[i]
		of := &r.snap.Caches[a.Cache]
		if ev.Code == impls.OpOffline && uint64(a.CPU) != op.Size ||
			ev.Code != impls.OpOffline && (k == nil || of.Handle != k) {
			continue
		}
		batch := int(op.Arg)
		if op.Size == 0 {
			batch = a.Batch // of no array
		}
		switch {
		case len(a.Objects) > 0:
			r.broken(fault.HeldOn, "%d objects are in the array of %s for CPU %d after %s",
				len(a.Objects), of.Name, a.CPU, ev.Code)
		case ev.Code == impls.OpTune && (a.Limit != int(op.Size) || a.Batch != batch):
			r.broken(fault.ArrayLimit, "limit %d and batch %d of the array of %s for CPU %d after "+
				"%s to %d and %d", a.Limit, a.Batch, of.Name, a.CPU, ev.Code, op.Size, op.Arg)
		}
	}
}

// shrunk checks that a cache which was just shrunk, also on the way to be destroyed, has no
// free slab, and what shrink answered, from the snapshot taken since.
func (r *Runner) shrunk(k impls.Cache, ev *impls.Event) {
	if k == nil || r.shadowed && r.shadow.Miscounts() {
		return
	}
	remain := 0
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		of := &r.snap.Caches[b.Cache]
		if of.Handle != k {
			continue
		}
		remain++
		if b.Inuse == 0 && !(r.shadowed && r.shadow.Odd(b.Page)) {
			r.broken(fault.FreeSlabKept, "%s", name(b, of))
		}
	}
	if ev.Code == impls.OpShrink {
		r.shrinkSaid(k, ev.Usable, remain)
	}
}

// shrinkSaid holds what shrink answered against what it promises to.
func (r *Runner) shrinkSaid(k impls.Cache, said uint64, remain int) {
	of, freed := r.stateOf(k), r.loose()-r.before
	switch {
	case of == nil:
	case of.Shrinks == impls.AnswersRemains && said != uint64(min(remain, 1)):
		r.broken(fault.OutcomesDiffer, "shrink of %s answers %d, and %d slabs remain", of.Name,
			said, remain)
	case of.Shrinks == impls.AnswersPages && said != uint64(freed):
		r.broken(fault.OutcomesDiffer, "shrink of %s answers %d, and %d pages came back",
			of.Name, said, freed)
	}
}

// loose is the page layer's own figure of free pages, with those that only wait for read
// sections in the snapshot taken last; 0 where there is no page layer.
func (r *Runner) loose() int {
	l := r.m.PageLayer()
	if l == nil {
		return 0
	}
	pages := l.FreePages()
	for _, b := range r.snap.Waiting {
		pages += 1 << b.Order
	}
	return pages
}

// givesBack notes what is there before an operation that says how many pages it gives
// back: the free pages, and for a reap the slabs that may go.
func (r *Runner) givesBack(op *impls.Op) {
	if op.Code != impls.OpShrink && op.Code != impls.OpReap || !r.deep {
		return
	}
	r.snap.Reset()
	r.in.Snapshot(&r.snap)
	r.before, r.shape.reap = r.loose(), r.shape.reap[:0]
	if op.Code == impls.OpShrink || r.shadowed || !r.p.Sequential() {
		return // where a slab was misused nobody can say how full it is
	}
	for i := range r.snap.Slabs {
		s := &r.snap.Slabs[i]
		if k := &r.snap.Caches[s.Cache]; k.FullLists && len(s.Free) == s.Objects &&
			len(s.On) == 1 && s.On[0].Kind == impls.OnList {
			r.shape.reap = append(r.shape.reap, waiting{k.Handle, s.Page, s.On[0].At})
		}
	}
}

// A waiting is a slab that may be given back.
type waiting struct {
	cache impls.Cache
	page  int
	at    int // in its list: those behind it were free before it was
}

// released checks after a flush that no CPU has anything of the cache any more, and after
// a CPU went out of use that it has nothing of any cache nor of the page layer, from the
// snapshot taken since.
func (r *Runner) released(ev *impls.Event) {
	cpu, k := -1, impls.Cache(nil)
	if ev.Code == impls.OpFlush {
		k = r.exec.Cache(int(ev.Cache))
	} else {
		cpu = int(r.lines[int(ev.Op)-r.base].Op.Size)
		pages.Released(&r.snap, cpu, r.broken)
	}
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		of := &r.snap.Caches[b.Cache]
		if k != nil && of.Handle != k || r.shadowed && r.shadow.Odd(b.Page) {
			continue
		}
		if cpu < 0 && len(b.CPUFree) > 0 {
			r.broken(fault.HeldOn, "%d objects of the %s", len(b.CPUFree), name(b, of))
		}
		for _, p := range b.On {
			if p.Kind != impls.OnList && (cpu < 0 || p.CPU == cpu) {
				r.broken(fault.HeldOn, "%s, by CPU %d", name(b, of), p.CPU)
			}
		}
	}
}

// reaped holds what a reap has answered against the pages that came back, and which slabs
// went against the order: of a cache that keeps lists of all slabs the first that goes is
// the one that was emptied first, which is behind the others.
func (r *Runner) reaped(ev *impls.Event) {
	if r.m.PageLayer() == nil {
		return
	}
	if back := r.loose() - r.before; uint64(back) != ev.Usable {
		r.broken(fault.ReapWrong, "%d pages, and %d came back", ev.Usable, back)
	}
	for i := range r.shape.reap {
		if r.stays(&r.shape.reap[i]) {
			continue
		}
		for j := range r.shape.reap {
			gone, other := &r.shape.reap[i], &r.shape.reap[j]
			if other.cache == gone.cache && other.at > gone.at && r.stays(other) {
				r.broken(fault.ReuseOrder, "the slab at page %d went back, and that at page %d, "+
					"which was emptied before, is there", gone.page, other.page)
			}
		}
	}
}

// stays says whether a slab is in the snapshot taken since.
func (r *Runner) stays(w *waiting) bool {
	for i := range r.snap.Slabs {
		s := &r.snap.Slabs[i]
		if s.Page == w.page && r.snap.Caches[s.Cache].Handle == w.cache {
			return true
		}
	}
	return false
}

// drained checks with a snapshot of its own what a drain has left behind.
func (r *Runner) drained(c *machine.Ctx) {
	r.snap.Reset()
	if r.v.Caps.Has(impls.CapDrain) && r.in.Snapshot(&r.snap) {
		r.judge.ctx = c
		pages.Drained(&r.snap, r.broken)
	}
}

// What follows checks that memory does not grow without bound under a steady load: what a
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
