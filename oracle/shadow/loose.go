package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// With several contexts the order of steps is open, and so is which operation meets
// the damage. What can be said is this: a report must be about damage that was done
// before the operation ended and that nobody has repaired, and a free that nothing
// overlaps must report what was done to its own object before. What was done while
// another operation was in flight may be reported, and need not be. Only damage to bytes that no
// allocator follows is done at all, see mayHarm.

// A pending operation is in flight.
type pending struct {
	busy    bool
	overlap bool // another one was in flight at the same time
	takes   bool // it allocates
	many    bool // several objects
	from    uint64
	gives   []given // what it gives back
}

// A given is an object that a pending operation gives back.
type given struct {
	a      impls.Addr
	victim *object // as it was when the operation began
	hurt   bool    // a free: something was done to the object that it must report
}

// gave finds what p gives back at a; nil when that is nothing.
func (p *pending) gave(a impls.Addr) *given {
	for i := range p.gives {
		if p.gives[i].a == a {
			return &p.gives[i]
		}
	}
	return nil
}

// began notes an operation that may overlap others.
func (s *Shadow) began(ev *impls.Event) {
	p := s.starts(ev)
	switch {
	case freesProperly(ev.Code):
		s.gives(p, ev.Addr)
	case ev.Code == impls.OpRealloc:
		p.gives = append(p.gives, given{a: ev.Old, victim: s.objects[ev.Old]})
	}
}

// starts notes that an operation is in flight, and who else is.
func (s *Shadow) starts(ev *impls.Event) *pending {
	p := s.pending(ev)
	s.clock++
	*p = pending{busy: true, takes: allocates(ev.Code), from: s.clock, gives: p.gives[:0]}
	for i := range s.ops {
		if o := &s.ops[i]; o.busy && i != int(ev.Ctx) {
			o.overlap, p.overlap = true, true
		}
	}
	return p
}

// gives notes that p frees the object at a.
func (s *Shadow) gives(p *pending, a impls.Addr) {
	g := given{a: a, victim: s.objects[a]}
	if g.victim != nil {
		_, g.hurt = s.redHurt(g.victim.cache, a)
	}
	p.gives = append(p.gives, g)
}

// inFlight says whether an operation has begun and not ended.
func (s *Shadow) inFlight() bool {
	for i := range s.ops {
		if s.ops[i].busy {
			return true
		}
	}
	return false
}

// takes says whether an allocation is in flight.
func (s *Shadow) takes() bool {
	for i := range s.ops {
		if s.ops[i].busy && s.ops[i].takes {
			return true
		}
	}
	return false
}

// takesMany says whether a bulk allocation is in flight: it has given some of its objects
// their contents, and nobody knows which they are.
func (s *Shadow) takesMany() bool {
	for i := range s.ops {
		if s.ops[i].busy && s.ops[i].many {
			return true
		}
	}
	return false
}

// wrong says whether the byte at a is wrong, or may be.
func (k *cache) wrong(a impls.Addr) bool { return k.hurt[a] != 0 || k.maybe[a] }

// surely says whether some byte from a up to b is wrong and may not be right all the same.
func (k *cache) surely(a, b impls.Addr) bool {
	for p := a; p != b && len(k.hurt) > 0; p++ {
		if k.hurt[p] != 0 && !k.maybe[p] {
			return true
		}
	}
	return false
}

// pending is the operation of a context.
func (s *Shadow) pending(ev *impls.Event) *pending {
	for int(ev.Ctx) >= len(s.ops) {
		s.ops = append(s.ops, pending{})
	}
	return &s.ops[ev.Ctx]
}

func freesProperly(c impls.Code) bool { return c == impls.OpFree || c == impls.OpFreeSized }

// redHurt finds damage in the red zones of a live object that a free of it must meet.
func (s *Shadow) redHurt(k *cache, a impls.Addr) (title string, hurt bool) {
	if k.l.Rules.SLAB() {
		return s.wordHurt(k, a)
	}
	if !k.l.Flags.Has(debugcheck.Sanity | debugcheck.RedZone) {
		return "", false
	}
	for i := range slubObject {
		r := &slubObject[i]
		if r.soft || r.live == unseen || !r.applies(k.l) {
			continue
		}
		from, to := r.at(k.l, s.asked(k, a))
		x, y := span(a, from, to)
		if k.surely(x, y) {
			return r.title, true
		}
	}
	return "", false
}

// wordHurt is redHurt for the red words of SLAB.
func (s *Shadow) wordHurt(k *cache, a impls.Addr) (title string, hurt bool) {
	if !k.l.Flags.Has(debugcheck.RedZone) {
		return "", false
	}
	for _, r := range [...]debugcheck.Region{debugcheck.LeftRed, debugcheck.RightRed} {
		from, to := k.l.At(r)
		x, y := span(a, from, to)
		hurt = hurt || k.surely(x, y)
	}
	if rulesOf(k).stops {
		return slabEither, hurt
	}
	return slabOutside, hurt
}

// ended judges an operation that may have overlapped others.
func (s *Shadow) ended(ev *impls.Event) {
	p := s.pending(ev)
	if !p.busy { // it never entered the allocator
		if len(ev.Reports) > 0 {
			s.accuse(ev.Reports[0])
		}
		return
	}
	p.busy = false
	s.clock++
	s.reports++
	for _, r := range ev.Reports {
		if !s.explained(ev, r) {
			s.accuse(r)
			return
		}
		if k := s.reporter(r); k != nil {
			s.tracked(k, r, blotted(k, r.Object), func(a impls.Addr) bool {
				return s.settled(ev, r, a)
			})
		}
		if s.lost {
			return
		}
		about := r.Object == 0 || r.Object == ev.Addr || r.Object == ev.Old
		s.freed = s.freed && !(about && s.keeps(r))
	}
	s.unsaid(p, ev)
}

// unsaid looks whether a free that nothing overlapped should have reported something.
func (s *Shadow) unsaid(p *pending, ev *impls.Event) {
	g, o := p.gave(ev.Addr), s.objects[ev.Addr]
	if g == nil || !g.hurt || p.overlap || len(ev.Reports) > 0 || o == nil {
		return
	}
	if title, still := s.redHurt(o.cache, ev.Addr); still {
		s.miss(&want{title: title, cache: o.cache, object: ev.Addr})
	}
}

// keeps says whether a report of a free refuses it. Where the slab goes the object was taken
// back before.
func (s *Shadow) keeps(r *debugcheck.Report) bool { return s.refuses(r) && !ofGoing(r) }

// ofGoing says whether a report is about a slab without any object in use: one that goes, where
// it is a free that makes it.
func ofGoing(r *debugcheck.Report) bool { return r.Stored.Inuse == 0 }

// refuses says whether a report means that its object was not handed out, or not taken back.
func (s *Shadow) refuses(r *debugcheck.Report) bool {
	k := s.reporter(r)
	if k == nil || !k.l.Flags.Has(debugcheck.Sanity) || k.l.Rules.SLAB() {
		return false
	}
	for i := range slubObject {
		if slubObject[i].title == r.Title && slubObject[i].soft {
			return k.l.Rules == debugcheck.SLUB612
		}
	}
	return r.Title != slabPadding
}

// reporter is the cache that a report is about.
func (s *Shadow) reporter(r *debugcheck.Report) *cache {
	if k := s.objects[r.Object]; k != nil {
		return k.cache
	}
	var named *cache
	for _, k := range s.known {
		if k.l.Name != r.Cache {
			continue
		}
		if _, holds := k.Slab(r.Slab); holds {
			return k // of several caches that had the name
		}
		if named == nil {
			named = k
		}
	}
	return named
}

// maybeRetired says whether an operation in flight may have retired a slab of k, whose
// report is not known yet.
func (s *Shadow) maybeRetired(k *cache, ev *impls.Event) bool {
	for i := range s.ops {
		if s.ops[i].busy && i != int(ev.Ctx) && len(k.hurt) > 0 {
			return true
		}
	}
	return false
}

// explained says whether a report is about damage that was done, which is repaired
// then, or follows from a slab that was retired for it.
func (s *Shadow) explained(ev *impls.Event, r *debugcheck.Report) bool {
	k := s.reporter(r)
	if k == nil {
		return false
	}
	page := int((r.Slab - s.Base) / s.PageSize)
	if r.From == r.To {
		if s.busy(ev) && (r.Title == remaining || r.Title == slabRemaining) {
			return true
		}
		gone := s.retired[page] || s.maybeRetired(k, ev) // by an operation that goes on
		return r.Title == disabled && gone ||
			r.Title == slabsCount && (len(s.retired) > 0 || s.maybeRetired(k, ev))
	}
	if !k.wrong(r.From) || !k.wrong(r.To-1) {
		return false
	}
	switch r.Title {
	case slabEither, slabOutside, slabStart, slabEnd, slabPoison:
		return k.l.Rules.SLAB() // nothing is repaired
	}
	if r.Got != r.Want^k.hurt[r.From] && !k.maybe[r.From] || !s.ruled(k, r) {
		return false
	}
	k.hurt.heal(r.From, r.To)
	if allocates(ev.Code) && s.refuses(r) {
		s.retired[page], k.stuck = true, true
	}
	return true
}

func allocates(c impls.Code) bool {
	switch c {
	case impls.OpAlloc, impls.OpMalloc, impls.OpCalloc, impls.OpMemalign, impls.OpRealloc:
		return true
	}
	return false
}

// ruled says whether a rule has the title and the byte of a report, and looks where the
// report says.
func (s *Shadow) ruled(k *cache, r *debugcheck.Report) bool {
	if r.Title == slabPadding {
		d, ok := k.Slab(r.Slab) // or it has gone since
		return r.Want == neverUsed && (!ok || r.From >= d.First+uint64(d.Max)*k.l.Stride)
	}
	for i := range slubObject {
		u := &slubObject[i]
		if u.title != r.Title || int(r.Want) != u.free && int(r.Want) != u.live || !u.applies(k.l) {
			continue
		}
		from, to := u.at(k.l, s.asked(k, r.Object))
		x, y := span(r.Object, from, to)
		return x <= r.From && r.To <= y
	}
	return false
}
