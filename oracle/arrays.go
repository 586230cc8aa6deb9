package oracle

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
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
