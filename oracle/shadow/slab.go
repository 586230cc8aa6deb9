package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// slabFamily predicts SLAB's reports: those of 2.4, which stops at the first, and those
// of 2.6, which goes on. Nothing is repaired: what was damaged is reported until an
// allocation or a free writes over it.
type slabFamily struct{}

// Titles of SLAB.
const (
	slabEither  = "double free, or memory outside object was overwritten"
	slabDouble  = "double free detected"
	slabOutside = "memory outside object was overwritten"
	slabStart   = "start of a freed object was overwritten"
	slabEnd     = "end of a freed object was overwritten"
	slabPoison  = "Slab corruption"
	slabOnChain = "slab: double free detected in cache"
	slabChain   = "Internal list corruption detected"

	slabOrder     = "slabs of the list are out of order"
	slabRemaining = "Can't free all objects"
)

// A slabRules is what differs between two kernels of the family.
type slabRules struct {
	free, live uint64 // red words
	body       byte   // of a free object
	stops      bool   // at whatever is found
	weak       bool   // the check of the body asks for the place of the first last byte only
	redFirst   bool   // before a slab goes: red words, then the body
}

var (
	slab24 = slabRules{free: 0x5a2cf071, live: 0x170fc2a5, body: neverUsed, stops: true,
		weak: true, redFirst: true}
	slab26 = slabRules{free: 0x09f911029d74e35b, live: 0xd84156c5635688c0, body: bodyFree}
)

func rulesOf(k *cache) *slabRules {
	if k.l.Rules == debugcheck.SLAB24 {
		return &slab24
	}
	return &slab26
}

// redWord is what is wrong with one red word of the object at a, which has the bytes
// of has and should have those of should.
func (s *Shadow) redWord(v *view, a impls.Addr, r debugcheck.Region, has, should uint64) (
	w want, wrong bool) {
	from, to := v.k.l.At(r)
	w = want{cache: v.k, slab: v.b.Addr, object: a}
	if !v.k.l.Flags.Has(debugcheck.RedZone) {
		return w, false
	}
	for i := range uint64(to - from) {
		at := a + uint64(from) + i
		b, good := byte(has>>(8*i))^v.k.hurt[at], byte(should>>(8*i))
		if b == good {
			continue
		}
		if !wrong {
			w.bytes, w.from, w.got, w.byte, wrong = true, at, b, good, true
		}
		w.to = at + 1
	}
	return w, wrong
}

// reds is the check of both words; the report is about the first that is wrong.
func (s *Shadow) reds(v *view, a impls.Addr, has, should uint64) (w want, wrong bool) {
	w, wrong = s.redWord(v, a, debugcheck.LeftRed, has, should)
	if !wrong {
		w, wrong = s.redWord(v, a, debugcheck.RightRed, has, should)
	}
	return w, wrong
}

// body is the check of a free object's own bytes; true when all is well.
func (s *Shadow) body(v *view, a impls.Addr, stops bool) bool {
	k, u := v.k, rulesOf(v.k)
	if !k.l.Body {
		return true
	}
	w := want{title: slabPoison, cache: k, slab: v.b.Addr, object: a, bytes: true, fatal: stops}
	found := false
	for i := range k.l.Size {
		should, last := u.body, i == k.l.Size-1
		if last {
			should = bodyEnd
		}
		b := should ^ k.hurt[a+i]
		if !u.weak && b == should || u.weak && b != bodyEnd && !last {
			continue
		}
		if b == should {
			return true // the first 0xa5 is the last byte
		}
		if !found {
			w.from, w.got, w.byte, found = a+i, b, should, true
		}
		w.to = a + i + 1
		if u.weak {
			break
		}
	}
	if found {
		s.add(w)
	}
	return !found
}

// ends is the check of the red words of a free object, each by itself; true when both
// are well. With stops the first is enough.
func (s *Shadow) ends(v *view, a impls.Addr, stops bool) bool {
	u, ok := rulesOf(v.k), true
	if w, wrong := s.redWord(v, a, debugcheck.LeftRed, u.free, u.free); wrong {
		w.title, w.fatal, ok = slabStart, stops, false
		s.add(w)
	}
	if w, wrong := s.redWord(v, a, debugcheck.RightRed, u.free, u.free); wrong && (ok || !stops) {
		w.title, w.fatal, ok = slabEnd, stops, false
		s.add(w)
	}
	return ok
}

// inactive is the check of a free object on its own.
func (s *Shadow) inactive(v *view, a impls.Addr, stops bool) bool {
	if rulesOf(v.k).redFirst {
		ok := s.ends(v, a, stops)
		return (ok || !stops) && s.body(v, a, stops) && ok
	}
	ok := s.body(v, a, stops)
	return s.ends(v, a, stops) && ok
}

// active is the check of the red words of an object that should be allocated.
func (s *Shadow) active(v *view, a impls.Addr, has uint64, stops bool) bool {
	u := rulesOf(v.k)
	w, wrong := s.reds(v, a, has, u.live)
	if !wrong {
		return true
	}
	w.title, w.fatal = slabOutside, stops
	if u.stops {
		w.title = slabEither
	} else if _, other := s.reds(v, a, has, u.free); !other {
		w.title, w.bytes = slabDouble, false
	}
	s.add(w)
	return false
}

// first is the slab that the next object comes from; nil when there must be a new one.
func (s *Shadow) first(k *cache) *view {
	for _, list := range [...]impls.ListKind{impls.ListPartial, impls.ListFree, impls.ListAny} {
		for _, v := range s.listed(k, list) {
			if len(v.chain) > 0 {
				return v
			}
		}
	}
	return nil
}

// alloc checks the object that comes: that it is one, its body, its red words.
func (slabFamily) alloc(s *Shadow, k *cache) {
	v, u := s.first(k), rulesOf(k)
	if v == nil {
		return
	}
	a := v.chain[0]
	if !v.holds(a) {
		s.complain(v, slabChain)
		s.stop()
		return
	}
	v.pop()
	if !s.body(v, a, u.stops) && u.stops {
		return
	}
	if w, wrong := s.reds(v, a, u.free, u.free); wrong {
		w.title, w.fatal = slabEither, u.stops
		s.add(w)
	}
}

// free checks red words and, with F, pointer and chain. What is found with F stops the
// kernel; before that everything is freed all the same by 2.6.
func (slabFamily) free(s *Shadow, k *cache, a impls.Addr) bool {
	v, u := s.viewOf(k, a), rulesOf(k)
	if v == nil {
		return false
	}
	begins := v.holds(a)
	switch {
	case begins:
		has := u.live
		if s.objects[a] == nil {
			has = u.free
		}
		if !s.active(v, a, has, u.stops) && u.stops {
			return false
		}
	case k.l.Flags.Has(debugcheck.RedZone) && !s.inside:
		title := slabOutside
		if u.stops {
			title = slabEither
		}
		s.complainOf(v, a, title)
		if u.stops {
			return s.stop()
		}
	}
	if !k.l.Flags.Has(debugcheck.Sanity) {
		return true
	}
	switch {
	case !begins:
		s.complainOf(v, a, badPointer)
	case v.free(a):
		s.complainOf(v, a, slabOnChain)
	case s.offChain(v):
		s.complain(v, slabChain)
	default:
		return true
	}
	return s.stop()
}

// offChain says whether the chain leads to what is no object.
func (s *Shadow) offChain(v *view) bool {
	n := len(v.chain)
	return n > 0 && !v.holds(v.chain[n-1])
}

// validate checks the order of the one list, which stops the kernel, and then every slab:
// the chain, and all objects by what the chain says.
func (slabFamily) validate(s *Shadow, k *cache) {
	u := rulesOf(k)
	if u.stops && s.misordered(k) {
		return
	}
	for _, list := range [...]impls.ListKind{impls.ListPartial, impls.ListFull, impls.ListFree,
		impls.ListAny} {
		for _, v := range s.listed(k, list) {
			s.validateChain(v, u)
		}
	}
}

// misordered is the test of the one list: by the counts that are stored full slabs come
// first, then partial ones, then free ones, and the mark is at the first that is not full.
func (s *Shadow) misordered(k *cache) bool {
	before, first := 0, -1
	for _, v := range s.listed(k, impls.ListAny) {
		now := 1
		switch v.d.Inuse {
		case v.d.Max:
			now = 0
		case 0:
			now = 2
		}
		if now < before {
			s.complain(v, slabOrder)
			s.stop()
			return true
		}
		if now > 0 && first < 0 {
			first = v.b.Page
		}
		before = now
	}
	for i := range s.before.Caches {
		c := &s.before.Caches[i]
		if c.Handle == k.Debugger.(impls.Cache) && c.Ordered && c.FirstNotFull != first {
			w := want{title: slabOrder, cache: k, fatal: true}
			if c.FirstNotFull >= 0 {
				w.slab = s.Base + uint64(c.FirstNotFull)*s.PageSize
			}
			s.add(w)
			return true
		}
	}
	return false
}

// validateChain checks one slab.
func (s *Shadow) validateChain(v *view, u *slabRules) {
	if s.offChain(v) {
		s.complain(v, slabChain)
		return
	}
	if len(v.chain) != v.d.Objects-v.d.Inuse {
		s.complain(v, slabChain)
	}
	for i := range v.d.Max {
		if a := v.object(i); v.free(a) {
			s.inactive(v, a, false)
		} else {
			s.active(v, a, u.live, false)
		}
	}
}

// discard checks every object of a slab that goes.
func (slabFamily) discard(s *Shadow, v *view) {
	stops := rulesOf(v.k).stops
	for i := range v.d.Max {
		if !s.inactive(v, v.object(i), stops) && stops {
			return
		}
	}
}

// mayFree: with F everything is seen and stops the kernel, and 2.4 stops at red words,
// too. Otherwise the chain would have an object twice, or what is none.
func (slabFamily) mayFree(s *Shadow, k *cache, a impls.Addr) bool {
	v := s.viewOf(k, a)
	if v == nil || s.shaky[v.b.Page] != nil {
		return false
	}
	s.inside = !v.holds(a) && s.looksLive(v, a)
	return k.l.Flags.Has(debugcheck.Sanity) ||
		rulesOf(k).stops && k.l.Flags.Has(debugcheck.RedZone) && v.holds(a)
}

// looksLive says whether the bytes around a, where no object begins, happen to be the
// red words of an allocated object: those of its neighbours.
func (s *Shadow) looksLive(v *view, a impls.Addr) bool {
	var b [1]byte
	live := rulesOf(v.k).live
	for _, r := range [...]debugcheck.Region{debugcheck.LeftRed, debugcheck.RightRed} {
		from, to := v.k.l.At(r)
		for i := range uint64(to - from) {
			at := a + uint64(from) + i
			if at < v.b.Addr || at >= v.end(s.PageSize) || s.Memory.Read(at, b[:]) != 1 ||
				b[0] != byte(live>>(8*i)) {
				return false
			}
		}
	}
	return true
}

// mayHarm: what lies around objects is followed by nobody. Of the fields the first free
// object can be damaged so that something notices before it matters, and the count so
// that only a validation may follow.
func (slabFamily) mayHarm(s *Shadow, k *cache, h *harm) bool {
	if !h.region.OfSlab() && !h.region.OfCache() {
		return !s.Alone || s.viewOf(k, h.at) != nil
	}
	v := s.viewOf(k, h.victim)
	if v == nil || !s.Alone {
		return false
	}
	if h.region == debugcheck.SlabInuse {
		return uint64(v.d.Inuse)^h.mask <= 1<<16-1
	}
	if h.region != debugcheck.SlabFreelist {
		return false
	}
	i := v.index(v.d.Freelist, v.d.Max)
	n := uint64(i) ^ h.mask
	return i >= 0 && n >= uint64(v.d.Max) && n < 1<<16-1
}

// remains: 2.4 says it once, 2.6 does not.
func (slabFamily) remains(s *Shadow, k *cache) {
	if k.l.Rules == debugcheck.SLAB24 {
		s.add(want{title: slabRemaining, cache: k})
	}
}

// stray: the owner of the address is looked up first.
func (slabFamily) stray() string { return notSlab }
