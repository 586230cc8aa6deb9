package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// slubFamily predicts SLUB's reports.
type slubFamily struct{}

// checkSlab is what is looked at of a slab before anything else.
func (s *Shadow) checkSlab(v *view) bool {
	switch {
	case v.d.Objects > v.d.Max:
		return s.complain(v, tooMany)
	case v.d.Inuse > v.d.Objects:
		return s.complain(v, tooManyInuse)
	case v.d.Frozen:
		return s.complain(v, disabled)
	}
	s.padding(v)
	return true
}

// complain adds a report about a slab and is false.
func (s *Shadow) complain(v *view, title string) bool {
	s.add(want{title: title, cache: v.k, slab: v.b.Addr})
	return false
}

// padding is the check of what lies behind the last slot.
func (s *Shadow) padding(v *view) {
	if !v.k.l.Flags.Has(debugcheck.Poison) {
		return
	}
	from := v.object(v.d.Max) - v.k.l.Pad
	s.bytes(v, 0, wantBytes{slabPadding, from, v.end(s.PageSize), neverUsed})
}

// wantBytes is one comparison of bytes: those from a up to b.
type wantBytes struct {
	title string
	a, b  impls.Addr
	byte  byte
}

// bytes adds the report about damaged bytes, which are repaired then, and says
// whether there were none.
func (s *Shadow) bytes(v *view, object impls.Addr, w wantBytes) bool {
	first, last, bad := v.k.hurt.span(w.a, w.b)
	if !bad {
		return true
	}
	s.add(want{title: w.title, cache: v.k, slab: v.b.Addr, object: object, from: first,
		to: last + 1, got: w.byte ^ v.k.hurt[first], byte: w.byte, bytes: true})
	v.k.hurt.heal(first, last+1)
	return false
}

// checkObject is the check of one object.
func (s *Shadow) checkObject(v *view, a impls.Addr, live bool) bool {
	ok, l := true, v.k.l
	stops := l.Rules != debugcheck.SLUB612
	for i := range slubObject {
		r := &slubObject[i]
		should := r.free
		if live {
			should = r.live
		}
		if should == unseen || !r.applies(l) {
			continue
		}
		from, to := r.at(l, s.asked(v.k, a))
		x, y := span(a, from, to)
		if s.bytes(v, a, wantBytes{r.title, x, y, byte(should)}) || r.soft && stops {
			continue
		}
		ok = false
		if stops {
			return false
		}
	}
	if live && !l.Outside || !s.badLink(v, a) {
		return ok
	}
	s.add(want{title: freePointer, cache: v.k, slab: v.b.Addr, object: a})
	v.k.hurt.heal(a+l.Link, a+l.Link+l.Word)
	return false
}

// asked is the number of bytes that were asked for.
func (s *Shadow) asked(k *cache, a impls.Addr) uint64 {
	if o := s.objects[a]; o != nil {
		return o.asked
	}
	return k.l.Size
}

// walk is the walk along the chain: it says whether it met search, which ends it.
func (s *Shadow) walk(v *view, search impls.Addr) bool {
	n := 0
	for i := 0; i < len(v.chain) && n <= v.d.Objects; i++ {
		a := v.chain[i]
		if a == search {
			return true
		}
		if v.holds(a) {
			n++
			continue
		}
		if i == 0 {
			s.complain(v, freePointer)
			s.mend(v, freePointer)
			v.chain, v.d.Inuse = nil, v.d.Objects
			s.cut(v)
			return false
		}
		last := v.chain[i-1]
		s.add(want{title: freeChain, cache: v.k, slab: v.b.Addr, object: last})
		v.k.hurt.heal(last+v.k.l.Link, last+v.k.l.Link+v.k.l.Word)
		s.mend(v, freeChain)
		v.chain = v.chain[:i]
		s.cut(v)
	}
	if v.d.Objects != v.d.Max {
		s.complain(v, wrongObjects)
		s.mend(v, wrongObjects)
		v.d.Objects = v.d.Max
	}
	if v.d.Inuse != v.d.Objects-n {
		s.complain(v, wrongCount)
		s.mend(v, wrongCount)
		v.d.Inuse = v.d.Objects - n
	}
	return false
}

// alloc tries the first object of one partial slab after the other. A slab that fails
// is not used again.
func (slubFamily) alloc(s *Shadow, k *cache) {
	if !k.l.Flags.Has(debugcheck.Sanity) {
		return
	}
	for _, v := range s.listed(k, impls.ListPartial) {
		if v.left {
			continue
		}
		if len(v.chain) == 0 {
			return
		}
		a := v.chain[0]
		v.d.Inuse++
		if s.checkSlab(v) && (v.holds(a) || s.complainOf(v, a, badHead)) &&
			s.checkObject(v, a, false) {
			v.pop()
			return
		}
		s.retire(v)
		v.left = true
	}
}

// retire gives a slab up whose first object, or what is said about it, was bad: all its
// objects count as used for good.
func (s *Shadow) retire(v *view) {
	s.retired[v.b.Page] = true
	s.mend(v, s.want[len(s.want)-1].title)
	v.chain, v.d.Inuse, v.d.Frozen = nil, v.d.Objects, true
}

// complainOf adds a report about an object and is false.
func (s *Shadow) complainOf(v *view, a impls.Addr, title string) bool {
	s.add(want{title: title, cache: v.k, slab: v.b.Addr, object: a})
	return false
}

// free checks the slab, its count, the pointer, the chain and the object.
func (slubFamily) free(s *Shadow, k *cache, a impls.Addr) bool {
	v := s.viewOf(k, a)
	if v == nil {
		return false
	}
	sane := k.l.Flags.Has(debugcheck.Sanity)
	if sane && !s.checkSlab(v) {
		return false
	}
	if v.d.Inuse < 1 {
		return s.complain(v, tooFewInuse)
	}
	if !sane {
		return true
	}
	if !v.holds(a) {
		return s.complainOf(v, a, badPointer)
	}
	if s.walk(v, a) {
		return s.complainOf(v, a, alreadyFree)
	}
	if !s.checkObject(v, a, true) {
		return false
	}
	v.chain = append([]impls.Addr{a}, v.chain...)
	v.d.Inuse--
	return true
}

// validate checks the slabs that lists hold, and the counters of the lists.
func (slubFamily) validate(s *Shadow, k *cache) {
	partial := s.listed(k, impls.ListPartial)
	for _, v := range partial {
		s.validateSlab(v)
	}
	if k.over.partial != 0 {
		s.add(want{title: partialCount, cache: k})
	}
	if !k.l.Flags.Has(debugcheck.StoreUser) {
		return
	}
	full := s.listed(k, impls.ListFull)
	for _, v := range full {
		s.validateSlab(v)
	}
	if uint64(s.slabsOf(k))+k.over.slabs != uint64(len(partial)+len(full)) {
		s.add(want{title: slabsCount, cache: k})
	}
}

// slabsOf is the number of slabs of k.
func (s *Shadow) slabsOf(k *cache) int {
	n := 0
	for i := range s.before.Slabs {
		if s.before.Caches[s.before.Slabs[i].Cache].Handle == k.Debugger.(impls.Cache) {
			n++
		}
	}
	return n
}

// validateSlab checks the slab, its chain and its objects up to the first bad one.
func (s *Shadow) validateSlab(v *view) {
	if !s.checkSlab(v) {
		return
	}
	s.walk(v, v.k.l.End) // which no chain holds: it only counts
	if v.chain == nil && len(v.b.Free) > 0 {
		return // the head led nowhere: nothing is known of the objects
	}
	for i := range v.d.Objects {
		a := v.object(i)
		if !s.checkObject(v, a, !v.free(a)) {
			return
		}
	}
}

// cut makes the objects that a chain lost look as they do to the checks from now on:
// in use, with the bytes of a free object around them.
func (s *Shadow) cut(v *view) {
	l := v.k.l
	if l.Orig != 0 && l.Rules == debugcheck.SLUB612 && l.Flags.Has(debugcheck.RedZone) {
		s.blurred = true // the sizes asked for in former lives are not followed
	}
	for i := range v.d.Max {
		a := v.object(i)
		if s.objects[a] != nil || v.free(a) {
			continue
		}
		s.objects[a] = &object{cache: v.k, asked: l.Size, kept: true}
		if !l.Flags.Has(debugcheck.RedZone) {
			continue
		}
		for _, r := range [...]debugcheck.Region{debugcheck.LeftRed, debugcheck.RightRed} {
			from, to := l.At(r)
			for x, y := span(a, from, to); x != y; x++ {
				v.k.hurt.flip(x, redFree^redLive)
			}
		}
	}
}

// discard checks padding and every object of a slab that goes.
func (slubFamily) discard(s *Shadow, v *view) {
	if !v.k.l.Flags.Has(debugcheck.Sanity) {
		return
	}
	s.padding(v)
	for i := range v.d.Objects {
		s.checkObject(v, v.object(i), false)
	}
}

// remains: each slab on the partial list is told of, and no full one.
func (slubFamily) remains(s *Shadow, k *cache) {
	for _, v := range s.listed(k, impls.ListPartial) {
		s.complain(v, remaining)
	}
}

// stray: the owner of the address is looked up first.
func (slubFamily) stray() string { return notSlab }
