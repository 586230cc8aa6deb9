package shadow

import (
	"slices"
	"sort"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// guardFamily predicts the reports of the guard around an allocator that has no checks
// of its own. There every object is a slab by itself, nothing is linked or counted,
// and a freed object stays in quarantine for a while. The guard shows no state: the
// Shadow follows it by what it handed out and took back.
type guardFamily struct{}

// quarantined is an object that was given back and has not left yet.
type quarantined struct {
	a impls.Addr
	k *cache
}

// lone is the view of an object that is a slab by itself.
func lone(k *cache, a impls.Addr) *view {
	return &view{k: k, b: &impls.SlabState{Addr: a - k.l.Pad, First: a},
		d: debugcheck.Slab{Max: 1, Objects: 1, Inuse: 1}}
}

// alloc checks nothing.
func (guardFamily) alloc(*Shadow, *cache) {}

// free checks a live object with F; whatever else is freed is told with any flags.
func (guardFamily) free(s *Shadow, k *cache, a impls.Addr) bool {
	v := lone(k, a)
	if s.objects[a] != nil {
		return !k.l.Flags.Has(debugcheck.Sanity) || s.checkObject(v, a, true)
	}
	for _, q := range s.quarantine {
		if q.a == a {
			return s.complainOf(v, a, alreadyFree)
		}
	}
	s.add(want{title: badPointer, cache: k, object: a, slab: s.block(k, a)})
	return false
}

// block is the slot of k, of a live object, that holds a; 0 for none.
func (s *Shadow) block(k *cache, a impls.Addr) impls.Addr {
	//tidy:maporder at most one does
	for at, o := range s.objects {
		if slot := at - k.l.Pad; o.cache == k && a-slot < k.l.Stride {
			return slot
		}
	}
	return 0
}

// validate checks the live objects in the order of their allocation, and then those in
// quarantine.
func (guardFamily) validate(s *Shadow, k *cache) {
	var live []impls.Addr
	//tidy:maporder sorted below
	for a, o := range s.objects {
		if o.cache == k {
			live = append(live, a)
		}
	}
	sort.Slice(live, func(i, j int) bool {
		return s.objects[live[i]].born < s.objects[live[j]].born
	})
	for _, a := range live {
		s.checkObject(lone(k, a), a, true)
	}
	for _, q := range s.quarantine {
		if q.k == k {
			s.checkObject(lone(k, q.a), q.a, false)
		}
	}
}

// discard is never asked for: leave is.
func (guardFamily) discard(*Shadow, *view) {}

// remains: nothing is said.
func (guardFamily) remains(*Shadow, *cache) {}

// leave adds what is checked of the objects that left quarantine during an operation: it
// has several events when it is a bulk one.
func (s *Shadow) leave(evs ...*impls.Event) {
	if !s.Blind {
		return
	}
	before := len(s.quarantine)
	for i, ev := range evs {
		if len(evs) == 1 && s.freed || len(evs) > 1 && s.goAhead[i] {
			s.enterQuarantine(ev)
		}
	}
	s.went = s.went[:0]
	for _, q := range s.quarantine {
		_, there := q.k.Slab(q.a)
		s.went = append(s.went, !there || handsOut(evs, q.a))
	}
	s.inTurn(evs, before)
	stay := s.quarantine[:0]
	for i, q := range s.quarantine {
		if !s.went[i] {
			stay = append(stay, q)
			continue
		}
		start := len(s.want)
		if q.k.l.Flags.Has(debugcheck.Sanity) {
			s.checkObject(lone(q.k, q.a), q.a, false)
		}
		if len(evs) > 1 {
			s.group(start)
		}
		q.k.hurt.heal(q.a-q.k.l.Pad, q.a-q.k.l.Pad+q.k.l.Stride)
		s.departed = append(s.departed, q.a)
	}
	s.quarantine = stay
}

// handsOut says whether an operation allocates the object at a.
func handsOut(evs []*impls.Event, a impls.Addr) bool {
	return slices.ContainsFunc(evs, func(ev *impls.Event) bool {
		return allocates(ev.Code) && ev.Addr == a
	})
}

// inTurn looks whether those left whose turn it was. Before the operation there were so
// many in quarantine; behind them is what it put there.
func (s *Shadow) inTurn(evs []*impls.Event, before int) {
	if s.lost || s.Quarantine == nil {
		return
	}
	ev := evs[0]
	s.due = append(s.due[:0], make([]bool, len(s.quarantine))...)
	// All go where there is no memory otherwise. A realloc also frees.
	all := ev.Outcome == impls.OK && ev.Code == impls.OpDrain || allocates(ev.Code) &&
		slices.Contains(s.went[:before], true) &&
		!(ev.Code == impls.OpRealloc && slices.Contains(s.went[:before], false))
	for i, q := range s.quarantine[:before] {
		if handsOut(evs, q.a) {
			return // the allocator behind gave out what was not given back to it
		}
		s.due[i] = ev.Outcome == impls.OK && ev.Code == impls.OpDestroy && q.k == s.doomed
	}
	for i := range before {
		s.due[i] = s.due[i] || all
	}
	s.crowdedOut()
	for i, q := range s.quarantine {
		if s.went[i] != s.due[i] {
			s.lost = true
			s.Raise(fault.OutOfTurn, "%s: object %#x, number %d of %d, has left: %v; the rules "+
				"say: %v", q.k.l.Name, q.a, i+1, len(s.quarantine), s.went[i], s.due[i])
			return
		}
	}
}

// crowdedOut adds to what is due those that are above the limits, the oldest first. One that
// is too large by itself does not stay at all.
func (s *Shadow) crowdedOut() {
	most, room := s.Quarantine()
	n, sum := 0, uint64(0)
	for i, q := range s.quarantine {
		s.due[i] = s.due[i] || q.k.l.Stride > room
		if !s.due[i] {
			n, sum = n+1, sum+q.k.l.Stride
		}
	}
	for i := 0; n > most || sum > room; i++ {
		if !s.due[i] {
			s.due[i] = true
			n, sum = n-1, sum-s.quarantine[i].k.l.Stride
		}
	}
}

// enterQuarantine notes the object that an operation gave back.
func (s *Shadow) enterQuarantine(ev *impls.Event) {
	a, ok := givenBack(ev)
	if o := s.objects[a]; ok && o != nil && ev.Outcome == impls.OK {
		s.quarantine = append(s.quarantine, quarantined{a, o.cache})
	}
}

// stray: nobody knows the address.
func (guardFamily) stray() string { return badPointer }

// mayFree: everything is seen.
func (guardFamily) mayFree(*Shadow, *cache, impls.Addr) bool { return true }

// mayHarm: nobody follows what lies around an object, and no field is stored.
func (guardFamily) mayHarm(_ *Shadow, _ *cache, h *harm) bool {
	return !h.region.OfSlab() && !h.region.OfCache() && h.region != debugcheck.SlabPad
}
