package oracle

import (
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// This file is the part of check 1 that is about readers. An object of a cache with flags=rcu
// that was live while a read section was open may be looked at until every section that was
// open at its free has ended. Until then its memory may only become an object of the same
// cache at the same place: whatever else is handed out there is a finding, whether or not
// somebody looks.

// A relic is an object that readers may still look at.
type relic struct {
	addr impls.Addr
	size uint64
	slot int32  // of its cache
	nth  uint32 // which cache of that slot
	last uint64 // the last section that was open at its free
}

// relics are the objects that readers may look at, by the stretches of memory that they lie in.
type relics struct {
	at map[impls.Addr][]relic
	// sections are the number of read sections begun so far and the oldest that is open, 0
	// for none; nil where there are no sections to know of.
	sections func() (last, oldest uint64)
	stable   func(slot int32) (nth uint32, ok bool) // see play.Exec.Stable
}

// stretch is the size of a stretch, as a shift.
const stretch = 12

func (k *relics) reset() {
	clear(k.at)
	k.sections, k.stable = nil, nil
}

// freed notes an object that is given back.
func (k *relics) freed(ev *impls.Event) {
	if k.sections == nil || ev.Cache < 0 || ev.Size == 0 {
		return
	}
	nth, ok := k.stable(ev.Cache)
	last, oldest := k.sections()
	if !ok || oldest == 0 {
		return
	}
	if k.at == nil {
		k.at = map[impls.Addr][]relic{}
	}
	r := relic{addr: ev.Addr, size: ev.Size, slot: ev.Cache, nth: nth, last: last}
	for i := ev.Addr >> stretch; i <= (ev.Addr+ev.Size-1)>>stretch; i++ {
		list := slices.DeleteFunc(k.at[i], func(o relic) bool {
			return o.last < oldest || o.addr == r.addr && o.slot == r.slot && o.nth == r.nth
		})
		k.at[i] = append(list, r)
	}
}

// reused finds the object that readers may look at where an allocation got size bytes, which
// is neither over nor the same again; nil for none.
func (k *relics) reused(ev *impls.Event, size uint64) *relic {
	if len(k.at) == 0 {
		return nil
	}
	_, oldest := k.sections()
	if oldest == 0 {
		clear(k.at)
		return nil
	}
	nth := uint32(0)
	if ev.Cache >= 0 {
		nth, _ = k.stable(ev.Cache)
	}
	for i := ev.Addr >> stretch; i <= (ev.Addr+size-1)>>stretch; i++ {
		for n := range k.at[i] {
			r := &k.at[i][n]
			apart := r.addr >= ev.Addr+size || ev.Addr >= r.addr+r.size
			same := r.addr == ev.Addr && r.slot == ev.Cache && r.nth == nth
			if !apart && !same && r.last >= oldest {
				return r
			}
		}
	}
	return nil
}

// read judges an allocation of size bytes.
func (j *judge) read(ev *impls.Event, size uint64) {
	if r := j.relics.reused(ev, size); r != nil {
		j.fault(fault.ReadReuse, "%s of %d bytes at %#x: an object of %d bytes was freed at %#x "+
			"and a read section from before that is open", ev.Code, size, ev.Addr, r.size, r.addr)
	}
}

// readersTold is what the transcript of a remote subject tells of its one reader and of its
// caches.
type readersTold struct {
	depth  int
	begun  uint64
	caches []told
}

// told is one slot of a cache: how many it held, and whether readers may look at objects of
// the last after their free.
type told struct {
	nth    uint32
	stable bool
}

func (t *readersTold) begin(caches []impls.CacheSpec) {
	for i := range caches {
		t.caches = append(t.caches, told{stable: caches[i].RCU()})
	}
}

// event is told of an operation of a batch that has ended, or for a free began.
func (t *readersTold) event(ev *impls.Event, ops []impls.Op) {
	if ev.Outcome != impls.OK {
		return
	}
	switch ev.Code {
	case impls.OpRCULock:
		if t.depth++; t.depth == 1 {
			t.begun++
		}
	case impls.OpRCUUnlock:
		t.depth--
	case impls.OpCreate:
		if ev.Op < 0 || int(ev.Op) >= len(ops) || ev.Cache < 0 {
			return
		}
		if spec := ops[ev.Op].Spec; spec != nil {
			for int(ev.Cache) >= len(t.caches) {
				t.caches = append(t.caches, told{})
			}
			k := &t.caches[ev.Cache]
			k.nth++
			k.stable = spec.RCU()
		}
	}
}

func (t *readersTold) sections() (last, oldest uint64) {
	if t.depth > 0 {
		oldest = t.begun
	}
	return t.begun, oldest
}

func (t *readersTold) which(slot int32) (nth uint32, ok bool) {
	if int(slot) >= len(t.caches) {
		return 0, false
	}
	return t.caches[slot].nth, t.caches[slot].stable
}
