package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// This file follows one operation: what was there before it, what its reports must be, and
// what is there behind it.

// look makes before the state of now.
func (s *Shadow) look() bool {
	if s.shown {
		return true
	}
	s.before.Reset()
	s.shown = s.Snapshot(&s.before)
	s.stored = s.stored[:0]
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		var d debugcheck.Slab
		if k := s.cacheOf(s.before.Caches[b.Cache].Handle); k != nil {
			d, _ = k.Slab(b.Addr)
			s.readLinks(k, b)
		}
		s.stored = append(s.stored, d)
	}
	return s.shown
}

// readLinks notes the free pointers of a slab that were damaged, as they are now: the
// operation that meets them repairs them.
func (s *Shadow) readLinks(k *cache, b *impls.SlabState) {
	if len(k.hurt) == 0 && !s.odd[b.Page] {
		return
	}
	for i := range b.Objects {
		a := b.First + uint64(i)*k.l.Stride
		at := a + k.l.Link
		if _, _, hurt := k.hurt.span(at, at+k.l.Word); hurt || s.odd[b.Page] {
			s.links[a], _ = s.word(k, at)
		}
	}
}

// Begin is told of an operation that is about to be carried out.
func (s *Shadow) Begin(ev *impls.Event) {
	if ev.Code == impls.OpRealloc && ev.Size > 0 {
		s.measured(ev.Old)
	}
	if !s.Alone {
		s.began(ev)
		return
	}
	s.begun, s.target = true, nil
	if s.lost || !s.misused {
		return
	}
	s.look()
	switch ev.Code {
	case impls.OpRealloc:
		s.target = s.of(-1, ev.Old)
	case impls.OpFree, impls.OpFreeSized, impls.OpFreeAgain, impls.OpFreeInside:
		s.target = s.of(ev.Cache, ev.Addr)
	}
}

// Untried says that the allocation which is about to end was refused on purpose before the
// allocator looked for an object.
func (s *Shadow) Untried() { s.untried = true }

// End is told of an operation that is over, with its reports. One that was skipped
// had no Begin.
func (s *Shadow) End(ev *impls.Event) {
	s.freed, s.gone, s.kept = true, false, false
	switch {
	case s.lost:
	case !s.Alone:
		s.ended(ev)
	case s.begun:
		s.judge(ev)
	case len(ev.Reports) > 0:
		s.accuse(ev.Reports[0])
	}
	s.begun, s.untried, s.lost = false, false, s.lost || s.blurred
	s.shown = s.shown && !ev.Code.Misuses()
	s.track(ev)
}

// Halted is told of the operation at which the kernel stopped on purpose.
func (s *Shadow) Halted(ev *impls.Event) {
	switch {
	case s.lost, len(ev.Reports) == 0:
	case !s.begun, !s.Alone:
		s.haltedAmong(ev, ev.Reports)
	case !s.misused:
		s.accuse(ev.Reports[0])
	case s.shown:
		s.fresh()
		s.predict(ev)
		if n := len(s.want); n < len(ev.Reports) {
			s.goes(ev.Reports[n].Slab)
		}
		s.match(ev.Reports)
		s.stopped(true)
	}
	s.begun = false
}

// haltedAmong judges the reports of an operation of several contexts at which the kernel
// stopped, or of one that never began.
func (s *Shadow) haltedAmong(ev *impls.Event, reports []*debugcheck.Report) {
	for _, r := range reports {
		if s.Alone || r.Kind != debugcheck.Fatal || !s.explained(ev, r) {
			s.accuse(r)
			return
		}
	}
}

// goes adds what is checked of the slab at a as its pages go back, if all its objects
// are free by now.
func (s *Shadow) goes(a impls.Addr) {
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		k := s.cacheOf(s.before.Caches[b.Cache].Handle)
		if b.Addr == a && k != nil {
			if v := s.view(k, i); v.d.Inuse <= 1 { // a chain may be cut short by damage
				familyOf(k.l.Rules).discard(s, v)
			}
		}
	}
}

// fresh begins the prediction of an operation.
func (s *Shadow) fresh() {
	s.want, s.groups, s.mended = s.want[:0], s.groups[:0], s.mended[:0]
	s.reports++
}

// judge holds the reports of an operation of the only task against the prediction.
func (s *Shadow) judge(ev *impls.Event) {
	s.fresh()
	switch {
	case !s.misused:
		s.leave(ev)
		if s.busy(ev) && s.look() {
			s.left(ev)
			s.shown = false
		}
		s.match(ev.Reports)
	case s.Blind:
		s.predict(ev)
		s.leave(ev)
		s.match(ev.Reports)
		s.repaired()
	default:
		s.judgeState(ev, ev.Reports, func() { s.predict(ev) })
	}
}

// judgeState is judge behind a misuse, where the subject shows its state: what the reports
// must be follows from the state before the operation, and what was repaired, and what
// went back, from the one behind it.
func (s *Shadow) judgeState(ev *impls.Event, reports []*debugcheck.Report, predict func()) {
	if s.shown {
		predict()
	}
	s.swap()
	now := s.look() // before is the state behind the operation until the next swap
	s.swap()
	if now {
		s.vanished()
	}
	if now && s.busy(ev) {
		s.swap()
		s.left(ev)
		s.swap()
	}
	s.match(reports)
	s.stopped(false)
	if now {
		s.repaired()
		s.mends()
		s.settle()
	}
	s.swap()
	s.shown = now
}

// busy says whether ev is an attempt to destroy a cache that is in use.
func (s *Shadow) busy(ev *impls.Event) bool {
	return ev.Code == impls.OpDestroy && ev.Outcome == impls.Refused
}

// left adds what must be told of what kept a cache from being destroyed. The state is
// the one after that.
func (s *Shadow) left(ev *impls.Event) {
	if k := s.of(ev.Cache, 0); k != nil {
		familyOf(k.l.Rules).remains(s, k)
	}
}

// swap exchanges the two states, of which before is the one that look makes.
func (s *Shadow) swap() {
	s.before, s.after = s.after, s.before
	s.stored, s.storedAfter = s.storedAfter, s.stored
	s.shown = false
}

// predict fills want with the reports that the operation must make, in order.
func (s *Shadow) predict(ev *impls.Event) {
	switch ev.Code {
	case impls.OpAlloc, impls.OpMalloc, impls.OpCalloc, impls.OpMemalign:
		s.allocates(ev)
	case impls.OpRealloc:
		if ev.Addr != ev.Old || ev.Old == 0 { // that of nothing may come to nothing
			s.allocates(ev)
		}
		stops := len(s.want) > 0 && s.want[len(s.want)-1].fatal
		if ev.Outcome == impls.OK && ev.Addr != ev.Old && !stops {
			s.frees(s.target, ev.Old)
		}
	case impls.OpFree, impls.OpFreeSized, impls.OpFreeAgain, impls.OpFreeInside:
		s.frees(s.target, ev.Addr)
	case impls.OpFreeForeign:
		if k := s.of(ev.Cache, 0); k != nil {
			s.add(want{title: familyOf(k.l.Rules).stray(), cache: k, object: ev.Addr,
				fatal: k.l.Rules == debugcheck.SLAB24})
		}
	case impls.OpFreeWrong:
		s.wrong(ev)
	case impls.OpValidate:
		if k := s.of(ev.Cache, 0); k != nil {
			familyOf(k.l.Rules).validate(s, k)
		}
	}
}

// allocates predicts an allocation. By size the class is known by what came of it.
func (s *Shadow) allocates(ev *impls.Event) {
	k := s.of(ev.Cache, ev.Addr)
	if k == nil && ev.Cache < 0 && ev.Addr == 0 && len(ev.Reports) > 0 {
		k = s.named(ev.Reports[0].Cache)
	}
	if k != nil && !s.untried && !(ev.Code == impls.OpRealloc && k == s.target) {
		familyOf(k.l.Rules).alloc(s, k)
	}
}

// named finds a debugged cache by its name; nil when there is none.
func (s *Shadow) named(name string) *cache {
	for i := range s.before.Caches {
		if c := &s.before.Caches[i]; c.Name == name {
			return s.cacheOf(c.Handle)
		}
	}
	return nil
}

// frees predicts a free of the object at a.
func (s *Shadow) frees(k *cache, a impls.Addr) {
	if k != nil {
		s.freed = familyOf(k.l.Rules).free(s, k, a)
	}
	if k != nil && s.freed {
		s.deactivate(k, a)
	}
}

// wrong predicts a free to a cache that is not the object's: it is said, and the
// object goes back to its own.
func (s *Shadow) wrong(ev *impls.Event) {
	own := s.objects[ev.Addr]
	if own == nil {
		return
	}
	stops := own.cache.l.Rules == debugcheck.SLAB24
	s.add(want{title: wrongCache, cache: own.cache, object: ev.Addr, fatal: stops})
	if !stops {
		s.frees(own.cache, ev.Addr)
	}
}

// vanished adds what must be checked of the slabs whose pages went back during the
// operation, and forgets what was done to them.
func (s *Shadow) vanished() {
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		k := s.cacheOf(s.before.Caches[b.Cache].Handle)
		if k == nil || s.remains(b) {
			continue
		}
		start := len(s.want)
		v := s.view(k, i)
		familyOf(k.l.Rules).discard(s, v)
		if len(s.want) > start {
			s.groups = append(s.groups, group{start, len(s.want)})
		}
		k.hurt.heal(b.Addr, b.Addr+s.PageSize<<uint(b.Order))
	}
}

// remains says whether a slab of before is there after the operation, too.
func (s *Shadow) remains(b *impls.SlabState) bool {
	for i := range s.after.Slabs {
		if o := &s.after.Slabs[i]; o.Page == b.Page {
			return s.after.Caches[o.Cache].Handle == s.before.Caches[b.Cache].Handle
		}
	}
	return false
}
