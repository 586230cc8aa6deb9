package oracle

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// This file is what the judge knows of caches: how many of their objects are live, and,
// where the machine merges caches, which names mean the same one.

// A kin is a cache as the program sees it.
type kin struct {
	live   int         // objects
	names  int         // that mean it
	handle impls.Cache // nil where caches are not merged
}

// merging says how a run merges caches.
type merging struct {
	on bool
	// alone says that one task does everything. Else whether a cache has another name at
	// the moment of a destroy depends on the order of steps that no event shows.
	alone bool
	// handle is the cache in a slot; nil where nobody can tell, on a remote subject.
	handle func(slot int) impls.Cache
	all    []*kin
}

// merges tells the judge of a new run whether caches are merged.
func (r *Runner) merges() {
	if r.p.Config.Merge {
		r.judge.merge = merging{on: true, alone: r.p.Sequential(), handle: r.exec.Cache}
	}
}

// opened notes what became of declared cache i.
func (r *Runner) opened(i int, o impls.Outcome) {
	r.res.opened = append(r.res.opened, o)
	if r.p.Config.Merge {
		r.judge.named(int32(i), o == impls.OK)
	}
}

// kinOf is what is known of the cache in slot i.
func (j *judge) kinOf(i int32) *kin {
	for int(i) >= len(j.inCache) {
		j.inCache = append(j.inCache, nil)
	}
	if j.inCache[i] == nil {
		j.inCache[i] = &kin{names: 1}
	}
	return j.inCache[i]
}

// owes says whether objects of the cache in slot i can be live that no name reaches: one
// of a merged cache that was destroyed leaves its own behind.
func (j *judge) owes(i int) bool { return j.merge.on && j.kinOf(int32(i)).live > 0 }

// cacheCount is the number of live objects of the cache in slot i.
func (j *judge) cacheCount(i int32) *int { return &j.kinOf(i).live }

// named is told that slot i means another cache from now on, when one was made: its own,
// or one that has a name already.
func (j *judge) named(i int32, made bool) {
	k := j.kinOf(i)
	if j.merge.handle == nil {
		*k = kin{names: 1}
		return
	}
	if j.inCache[i] = nil; !made { // another slot may share what was known
		return
	}
	h := j.merge.handle(int(i))
	for _, k := range j.merge.all {
		if k.handle == h { // a cache that is gone never gets a name again
			k.names++
			j.inCache[i] = k
			return
		}
	}
	j.inCache[i] = &kin{names: 1, handle: h}
	j.merge.all = append(j.merge.all, j.inCache[i])
}

// begins notes what the model knows of an operation when it begins: for a destroy
// the live objects of its cache, as its Size, none where it has another name. While it
// waits for other CPUs the name may come to mean another cache.
func (j *judge) begins(ev *impls.Event) {
	if ev.Code != impls.OpDestroy || ev.Cache < 0 {
		return
	}
	if k := j.kinOf(ev.Cache); k.names == 1 {
		ev.Size = uint64(k.live)
	}
}

// destroyed holds the answer of destroy against the live objects of the cache.
func (j *judge) destroyed(ev *impls.Event) {
	if ev.Cache < 0 || ev.Outcome != impls.OK && ev.Outcome != impls.Refused {
		return
	}
	if ev.Outcome == impls.OK {
		j.kinOf(ev.Cache).names--
	}
	if j.merge.on && (!j.merge.alone || j.merge.handle == nil) {
		return
	}
	n := ev.Size
	if (n > 0) != (ev.Outcome == impls.Refused) {
		j.fault(fault.OutcomesDiffer, "destroy of a cache with %d live objects: %s", n, ev.Outcome)
	}
}
