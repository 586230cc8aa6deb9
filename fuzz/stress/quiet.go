package stress

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/play"
)

// quiet looks at what threads left behind: nothing runs but it.
func (d *round) quiet() {
	t := d.end
	t.take(0)
	d.structure()
	for i := range d.exec.Slots() {
		if s := d.exec.Slot(i); s.State == play.Live {
			t.free(object{int32(i), s.Owner()})
		}
	}
	for i := range specs() {
		t.op = impls.Op{Code: impls.OpDestroy, Cache: int32(i), Slot: -1, Result: -1}
		if ev := t.do(); ev.Outcome == impls.Refused {
			d.raise(t, fault.OutcomesDiffer, "", "destroy refused, though every object was freed")
		}
	}
	d.returned()
	t.c.Release()
}

// structure walks the lists of the caches of the round.
func (d *round) structure() {
	var s impls.Snapshot
	if !d.in.Snapshot(&s) {
		return
	}
	live := map[impls.Addr]bool{}
	for i := range d.exec.Slots() {
		if o := d.exec.Slot(i); o.State == play.Live && o.Owner() >= 0 {
			live[o.Addr] = true
		}
	}
	for i := range s.Slabs {
		if k := &s.Caches[s.Slabs[i].Cache]; d.ours(k) {
			d.slab(k, &s.Slabs[i], live)
		}
	}
	for _, n := range s.Counts {
		if n.Stored != n.Counted {
			d.broken(fault.CountWrong, "%s: stored %d, counted %d", n.Name, n.Stored, n.Counted)
		}
	}
}

// ours says whether a cache is one of the round: what a program of sizes holds in the others
// is not known object by object.
func (d *round) ours(k *impls.CacheState) bool {
	for i := range specs() {
		if k.Handle != nil && d.exec.Cache(i) == k.Handle {
			return true
		}
	}
	return false
}

// broken raises a finding about what is there at the end.
func (d *round) broken(t fault.Title, format string, args ...any) {
	d.end.mu.Lock()
	d.end.began = false // no operation is to blame
	d.end.mu.Unlock()
	d.raise(d.end, t, "", format, args...)
}

// slab checks that each object of a slab is either live or free in one place.
func (d *round) slab(k *impls.CacheState, b *impls.SlabState, live map[impls.Addr]bool) {
	for _, end := range []impls.FreeEnd{b.FreeEnd, b.CPUEnd} {
		switch end {
		case impls.EndCycle:
			d.broken(fault.FreelistCycle, "of the slab of %s at page %d", k.Name, b.Page)
			return
		case impls.EndLeaves:
			d.broken(fault.FreelistLeaves, "of the slab of %s at page %d", k.Name, b.Page)
			return
		}
	}
	free := map[impls.Addr]bool{}
	for _, list := range [][]impls.Addr{b.Free, b.CPUFree} {
		for _, a := range list {
			switch {
			case live[a]:
				d.broken(fault.LiveOnFreelist, "%#x of the slab of %s at page %d", a, k.Name,
					b.Page)
			case free[a]:
				d.broken(fault.FreeTwice, "%#x of the slab of %s at page %d", a, k.Name, b.Page)
			}
			free[a] = true
		}
	}
	for i := range b.Objects {
		if a := b.First + uint64(i)*k.Stride; !live[a] && !free[a] {
			d.broken(fault.FreeLost, "%#x of the slab of %s at page %d", a, k.Name, b.Page)
		}
	}
	switch {
	case len(b.On) > 1:
		d.broken(fault.SlabTwice, "the slab of %s at page %d is in %d places", k.Name, b.Page,
			len(b.On))
	case len(b.On) == 0 && len(free) > 0:
		d.broken(fault.SlabLost, "the slab of %s at page %d has %d free objects", k.Name, b.Page,
			len(free))
	}
}

// returned demands every page back but those of slabs that caches may keep.
func (d *round) returned() {
	var s impls.Snapshot
	if !d.in.Snapshot(&s) || s.PagesTotal == 0 {
		return
	}
	kept := 0
	for i := range s.Slabs {
		b := &s.Slabs[i]
		kept += 1 << b.Order
		if s.Caches[b.Cache].Dead {
			d.broken(fault.PagesLeaked, "the slab of %s at page %d outlives its cache",
				s.Caches[b.Cache].Name, b.Page)
			return
		}
	}
	for _, b := range s.Waiting {
		kept += 1 << b.Order
	}
	if s.PagesFree+kept != s.PagesTotal {
		d.broken(fault.PagesLeaked, "%d pages, %d free and %d in slabs after the end", s.PagesTotal,
			s.PagesFree, kept)
	}
}
