package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// This file follows bulk operations: one call, and an event an object. What an allocation
// meets is predicted object by object, on slabs that change meanwhile. Objects that are
// freed are each checked by themselves, in an order that SLUB and a guard choose, so that
// the reports about one come together and the order of the objects is open. A bulk
// allocation that fails has taken objects and given them back, nobody knows how many: what
// it reports must be explained by damage, and what of the damage it wrote over is seen by
// looking.

// BeginBulk is Begin for a bulk operation.
func (s *Shadow) BeginBulk(evs []impls.Event) {
	if s.Alone {
		s.begun, s.target = true, s.of(evs[0].Cache, 0)
		if !s.lost && s.misused && !s.Blind {
			s.look()
			s.peek()
		}
		return
	}
	p := s.starts(&evs[0])
	p.many = allocates(evs[0].Code)
	for i := range evs {
		if ev := &evs[i]; freesProperly(ev.Code) && ev.Outcome == impls.OK {
			s.gives(p, ev.Addr)
		}
	}
}

// EndBulk is End for a bulk operation that made these reports, in order. done is called for
// each event when that is settled.
func (s *Shadow) EndBulk(evs []impls.Event, reports []*debugcheck.Report,
	done func(*impls.Event)) {
	s.freed, s.gone = true, false
	s.goAhead = s.goAhead[:0]
	for range evs {
		s.goAhead = append(s.goAhead, true)
	}
	failed := s.failed(evs)
	switch {
	case s.lost:
	case !s.Alone:
		s.endedBulk(evs, reports)
	case s.begun && failed && s.misused:
		s.judgeFailed(&evs[0], reports)
	case s.begun:
		s.judgeBulk(evs, reports)
	case len(reports) > 0:
		s.accuse(reports[0])
	}
	s.begun, s.lost = false, s.lost || s.blurred
	for i := range evs {
		s.freed, s.kept = s.goAhead[i], false
		s.track(&evs[i])
		done(&evs[i])
	}
	s.freed = true
}

// HaltedBulk is Halted for a bulk operation.
func (s *Shadow) HaltedBulk(evs []impls.Event, reports []*debugcheck.Report) {
	s.goAhead = append(s.goAhead[:0], make([]bool, len(evs))...)
	switch {
	case s.lost, len(reports) == 0:
	case !s.begun, !s.Alone:
		s.haltedAmong(&evs[0], reports)
	case !s.misused:
		s.accuse(reports[0])
	case s.shown:
		s.fresh()
		s.predictBulk(evs)
		s.match(reports)
		s.stopped(true)
	}
	s.begun = false
}

// failed says whether a bulk operation was an allocation that had no memory, and notes that
// it has left its tracks on objects of its cache. A guard forgets objects with their tracks.
func (s *Shadow) failed(evs []impls.Event) bool {
	k := s.of(evs[0].Cache, 0)
	if k == nil || s.Blind || evs[0].Code != impls.OpAlloc || evs[0].Outcome != impls.NoMem {
		return false
	}
	k.untold = true
	return true
}

// peek notes the damaged bytes of the cache in hand as they are.
func (s *Shadow) peek() {
	s.peeked = s.peeked[:0]
	if s.target == nil {
		return
	}
	var b [1]byte
	//tidy:maporder each is looked at by itself
	for a := range s.target.hurt {
		if s.Memory.Read(a, b[:]) == 1 {
			s.peeked = append(s.peeked, peeked{a, b[0]})
		}
	}
}

// A peeked is a damaged byte, wrong as it is.
type peeked struct {
	a    impls.Addr
	byte byte
}

// judgeFailed judges a bulk allocation that had no memory.
func (s *Shadow) judgeFailed(ev *impls.Event, reports []*debugcheck.Report) {
	for _, r := range reports {
		if !s.explained(ev, r) {
			s.accuse(r)
			return
		}
	}
	var b [1]byte
	for _, p := range s.peeked {
		if s.Memory.Read(p.a, b[:]) == 1 && b[0] != p.byte {
			s.target.hurt.heal(p.a, p.a+1)
		}
	}
	s.swap()
	now := s.look()
	s.swap()
	if now {
		s.forgets()
		s.settle()
	}
	s.swap()
	s.shown = now
}

// forgets is vanished where what was checked is settled already.
func (s *Shadow) forgets() {
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		if k := s.cacheOf(s.before.Caches[b.Cache].Handle); k != nil && !s.remains(b) {
			k.hurt.heal(b.Addr, b.Addr+s.PageSize<<uint(b.Order))
		}
	}
}

// judgeBulk is judge for a bulk operation.
func (s *Shadow) judgeBulk(evs []impls.Event, reports []*debugcheck.Report) {
	s.fresh()
	all := make([]*impls.Event, len(evs))
	for i := range evs {
		all[i] = &evs[i]
	}
	switch {
	case !s.misused:
		s.leave(all...)
		s.match(reports)
	case s.Blind:
		s.predictBulk(evs)
		s.leave(all...)
		s.match(reports)
		s.repaired()
	default:
		s.judgeState(&evs[0], reports, func() { s.predictBulk(evs) })
	}
}

// predictBulk fills want with the reports of a bulk operation. What the rules of SLAB stop
// at ends it.
func (s *Shadow) predictBulk(evs []impls.Event) {
	k := s.target
	if k == nil {
		return
	}
	s.views = map[int]*view{}
	f := familyOf(k.l.Rules)
	for i := range evs {
		start, ev := len(s.want), &evs[i]
		switch {
		case allocates(ev.Code):
			f.alloc(s, k)
		case ev.Outcome == impls.OK:
			s.freed = true
			s.frees(k, ev.Addr)
			if s.goAhead[i] = s.freed; !k.l.Rules.SLAB() {
				s.group(start)
			}
		}
		if n := len(s.want); n > start && s.want[n-1].fatal {
			break
		}
	}
	s.views = nil
}

// group makes what was added to want behind start a group, and what is said of the slab
// one of its own: it comes with the first object of the slab.
func (s *Shadow) group(start int) {
	if n := len(s.want); start+1 < n && s.want[start].title == slabPadding {
		s.groups = append(s.groups, group{start, start + 1})
		start++
	}
	if n := len(s.want); start < n {
		s.groups = append(s.groups, group{start, n})
	}
}

// endedBulk is ended for a bulk operation.
func (s *Shadow) endedBulk(evs []impls.Event, reports []*debugcheck.Report) {
	p := s.pending(&evs[0])
	if !p.busy {
		if len(reports) > 0 {
			s.accuse(reports[0])
		}
		return
	}
	p.busy = false
	s.clock++
	s.reports++
	for _, r := range reports {
		if !s.explained(&evs[0], r) {
			s.accuse(r)
			return
		}
		if k := s.reporter(r); k != nil {
			s.tracked(k, r, blotted(k, r.Object), func(a impls.Addr) bool {
				return s.settled(&evs[0], r, a)
			})
		}
		if s.lost {
			return
		}
		if s.keeps(r) {
			s.keepBack(evs, r)
		}
	}
	for i := range evs {
		if !s.said(reports, evs[i].Addr) {
			s.unsaid(p, &evs[i])
		}
	}
}

// said says whether one of the reports is about the object at a, or all of its slab: those of
// a slab that was retired are looked at no more.
func (s *Shadow) said(reports []*debugcheck.Report, a impls.Addr) bool {
	for _, r := range reports {
		if r.Object == a {
			return true
		}
		if k := s.reporter(r); r.Object == 0 && k != nil {
			if d, ok := k.Slab(a); ok && d.Addr == r.Slab {
				return true
			}
		}
	}
	return false
}

// keepBack notes which frees a report refuses: that of its object, or of all objects of its
// slab.
func (s *Shadow) keepBack(evs []impls.Event, r *debugcheck.Report) {
	k := s.reporter(r)
	for i := range evs {
		a := evs[i].Addr
		if r.Object == 0 && k != nil {
			d, ok := k.Slab(a)
			s.goAhead[i] = s.goAhead[i] && !(ok && d.Addr == r.Slab)
		} else if r.Object == a {
			s.goAhead[i] = false
		}
	}
}
