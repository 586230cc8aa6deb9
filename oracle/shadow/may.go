package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// A harm is damage that a misuse would do.
type harm struct {
	region debugcheck.Region // of a field
	victim impls.Addr        // the object
	at     impls.Addr        // first byte
	n      uint64            // bytes, 0 for a field
	mask   uint64            // bits of a flip, from the byte at on; all bits of every byte when 0
}

// bits is what is inverted of byte i.
func (h *harm) bits(i uint64) byte {
	switch {
	case h.mask == 0:
		return 0xff
	case i > 7:
		return 0
	}
	return byte(h.mask >> (8 * i))
}

// May says whether the rules define what a misuse leads to; what they leave open is not
// done. It is asked when everything else about the misuse is settled, and what it
// allows is carried out at once, so it notes the damage.
func (s *Shadow) May(op *impls.Op, ev *impls.Event) bool {
	k := s.victim(op, ev)
	if k == nil || s.lost {
		return false
	}
	f := familyOf(k.l.Rules)
	switch op.Code {
	case impls.OpFreeAgain, impls.OpFreeInside, impls.OpFreeForeign, impls.OpFreeWrong:
		may := s.Alone && (s.Blind || s.look()) && s.mayFree(op, ev, k, f)
		s.misused = s.misused || may
		return may
	}
	h := &harm{region: ev.Region, victim: ev.Old, at: ev.Addr, n: ev.Size, mask: ev.Mask}
	if s.Alone && !s.Blind && !s.look() || s.takesMany() || !f.mayHarm(s, k, h) ||
		s.spoils(k, h) {
		return false
	}
	s.misused = true
	s.hurt(k, h)
	return true
}

// victim is the cache that a misuse is done to.
func (s *Shadow) victim(op *impls.Op, ev *impls.Event) *cache {
	if op.Code == impls.OpFreeWrong {
		return s.of(op.Cache, 0)
	}
	return s.of(ev.Cache, ev.Old)
}

// hurt notes the damage of a harm.
func (s *Shadow) hurt(k *cache, h *harm) {
	open := !s.Alone && s.inFlight()
	for i := range h.n {
		if m := h.bits(i); m != 0 {
			// With several contexts the slab may have gone since the last damage, and be made anew.
			if open || !s.Alone && k.hurt[h.at+i] != 0 {
				k.maybe[h.at+i] = true
			}
			k.hurt.flip(h.at+i, m)
		}
	}
	switch h.region {
	case debugcheck.NrPartial:
		n := uint64(len(s.listed(k, impls.ListPartial)))
		k.over.partial = (n + k.over.partial) ^ h.mask - n
	case debugcheck.NrSlabs:
		n := uint64(s.slabsOf(k))
		k.over.slabs = (n + k.over.slabs) ^ h.mask - n
	}
	s.harmed(k, h)
}

// mayFree says whether a free that no program may do is defined.
func (s *Shadow) mayFree(op *impls.Op, ev *impls.Event, k *cache, f family) bool {
	switch op.Code {
	case impls.OpFreeForeign:
		return op.Cache >= 0 && k.l.Flags.Has(debugcheck.Sanity)
	case impls.OpFreeWrong:
		own := s.objects[ev.Addr]
		asks := k.l.Rules.SLAB() || k.l.Flags.Has(debugcheck.Sanity)
		return own != nil && asks
	}
	return f.mayFree(s, k, ev.Addr)
}

// mayFree: with option F whatever is wrong is seen, and without it only that a slab
// has no object in use.
func (slubFamily) mayFree(s *Shadow, k *cache, a impls.Addr) bool {
	v := s.viewOf(k, a)
	if v == nil || v.headless() && !v.free(a) {
		return false
	}
	return k.l.Flags.Has(debugcheck.Sanity) || v.d.Inuse < 1
}

// mayHarm: bytes that the allocator follows or counts by must be checked before it does.
func (slubFamily) mayHarm(s *Shadow, k *cache, h *harm) bool {
	switch {
	case h.region.OfCache():
		return s.Alone && h.mask>>(8*k.l.Word-1)>>1 == 0
	case h.region.OfSlab():
		return s.Alone && slubField(s, k, h)
	}
	if !s.Alone {
		return !s.touchesLinks(k, h, nil)
	}
	v := s.viewOf(k, h.at)
	return v != nil && !s.touchesLinks(k, h, v)
}

// slubField says whether damage to a field of a slab's descriptor is defined.
func slubField(s *Shadow, k *cache, h *harm) bool {
	v := s.viewOf(k, h.victim)
	if v == nil || !k.l.Flags.Has(debugcheck.Sanity) || s.retired[v.b.Page] {
		return false
	}
	switch h.region {
	case debugcheck.SlabInuse:
		n := uint64(v.d.Inuse) ^ h.mask
		return n <= 1<<16-1
	case debugcheck.SlabObjects:
		n := uint64(v.d.Objects) ^ h.mask
		return n > 0 && n < 1<<15
	case debugcheck.SlabFrozen:
		return h.mask == 1
	case debugcheck.SlabFreelist:
		n := v.d.Freelist ^ h.mask
		return n != k.l.End && v.index(n, v.d.Max) < 0 && n>>(8*k.l.Word-1)>>1 == 0
	}
	return false
}

// touchesLinks says whether a harm would change a free pointer so that nothing
// notices, or the size that was asked for. Without a view any touch counts.
func (s *Shadow) touchesLinks(k *cache, h *harm, v *view) bool {
	l := k.l
	if v == nil {
		d, ok := k.Slab(h.at)
		if !ok {
			return true
		}
		b := &impls.SlabState{First: d.First + l.Pad, Addr: d.Addr}
		v = &view{k: k, b: b, d: d}
	}
	first := int64(h.at-v.b.First) / int64(l.Stride)
	for i := max(first-1, 0); i < int64(v.d.Max) && v.object(int(i)) < h.at+h.n+l.Pad; i++ {
		a := v.object(int(i))
		if overlap(h, a+l.Orig, l.OrigLen) && s.objects[a] != nil {
			return true
		}
		if overlap(h, a+l.Link, l.Word) && s.followed(v, a, h) {
			return true
		}
	}
	return false
}

// spoils says whether a harm would change what a constructor made of an object. Where that
// is made once, and no check looks at it, the next owner would get it as it is then; where it
// is made by each allocation, the owner of one in flight that has been there already.
func (s *Shadow) spoils(k *cache, h *harm) bool {
	l := k.l
	if !l.Ctor || l.Body && !s.takes() || h.n == 0 || l.Rules == debugcheck.Guard {
		return false
	}
	d, ok := k.Slab(h.at)
	if !ok {
		return true
	}
	for i := range d.Max {
		if overlap(h, d.First+l.Pad+uint64(i)*l.Stride, l.Size) {
			return true
		}
	}
	return false
}

// overlap says whether a harm touches n bytes at a.
func overlap(h *harm, a impls.Addr, n uint64) bool { return a < h.at+h.n && h.at < a+n }

// followed says whether the allocator would follow the free pointer of the object at
// a, as it is after a harm, without a check.
func (s *Shadow) followed(v *view, a impls.Addr, h *harm) bool {
	if s.objects[a] != nil && !s.leaves(a) && !v.k.l.Outside {
		return false // it is the object's own bytes, and written anew when it is freed
	}
	if !s.Alone || !v.k.l.Flags.Has(debugcheck.Sanity) && s.objects[a] == nil {
		return true
	}
	w, ok := s.word(v.k, a+v.k.l.Link)
	if !ok {
		return true
	}
	after := w ^ h.word(a+v.k.l.Link, v.k.l.Word)
	return s.objects[a] == nil && (after == v.k.l.End || v.index(after, v.d.Max) >= 0)
}

// leaves says whether an operation in flight gives back the object at a: the allocator may
// have it by now.
func (s *Shadow) leaves(a impls.Addr) bool {
	for i := range s.ops {
		if p := &s.ops[i]; p.busy && p.gave(a) != nil {
			return true
		}
	}
	return false
}

// word is what a harm inverts of the n bytes at a, as a word of the machine.
func (h *harm) word(a impls.Addr, n uint64) uint64 {
	var b [8]byte
	for i := range n {
		if at := a + i; at >= h.at && at < h.at+h.n {
			b[i] = h.bits(at - h.at)
		}
	}
	return native(b[:n])
}

// harmed notes what a harm makes of the operations that follow.
func (s *Shadow) harmed(k *cache, h *harm) {
	if !s.Alone {
		return
	}
	v := s.viewOf(k, h.victim)
	if v == nil { // a field of the cache, or of a subject that shows no slabs
		return
	}
	if h.region == debugcheck.SlabInuse || h.region == debugcheck.SlabObjects {
		s.shaky[v.b.Page] = k
	}
	for i := range v.d.Max {
		if a := v.object(i); h.region.OfSlab() || overlap(h, a+k.l.Link, k.l.Word) {
			s.odd[v.b.Page] = true
		}
	}
}

// Odd says whether misuse damaged a link or a count of the slab at page, which its
// allocator may carry on with for a while.
func (s *Shadow) Odd(page int) bool { return s.odd[page] }

// Miscounts says whether misuse changed a counter of a cache.
func (s *Shadow) Miscounts() bool {
	for _, k := range s.known {
		if k.over != (counts{}) {
			return true
		}
	}
	return false
}

// Blocks says whether an operation may not be done now, a free that of the object at a: misuse
// has changed a count or a freelist that the allocator goes by, and nothing would notice
// first. A validation, or a free to the slab, puts a count right in SLUB; a counter of the
// cache, and whatever SLAB has, only the same flip does. Several objects at once are not
// asked for meanwhile. What a freelist that was given
// up leaves behind no rule defines.
func (s *Shadow) Blocks(op *impls.Op, a impls.Addr) bool {
	code := op.Code
	switch code {
	case impls.OpValidate, impls.OpVerify, impls.OpFill, impls.OpUsable, impls.OpFlip:
		return false
	}
	switch {
	case s.Miscounts():
		return code != impls.OpDestroy || !s.asksCounters(s.of(op.Cache, 0)) || s.shakes(op)
	case len(s.odd) == 0 || s.lost || code.Misuses():
		return false
	case !s.look():
		return true
	case code.Bulk():
		return s.unsound(s.of(op.Cache, 0))
	case freesProperly(code):
		return s.neverMends() || s.headless(a)
	}
	return s.shakes(op)
}

// unsound says whether a slab of k has a link or a count that is not what it should be: which
// of several objects meets it is the allocator's choice.
func (s *Shadow) unsound(k *cache) bool {
	if k == nil {
		return false
	}
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		if s.before.Caches[b.Cache].Handle != k.Debugger.(impls.Cache) || !s.odd[b.Page] ||
			s.retired[b.Page] {
			continue
		}
		v := s.view(k, i)
		if v.d.Objects != v.d.Max || v.d.Inuse != v.d.Objects-len(v.chain) || v.d.Frozen {
			return true
		}
		for _, a := range v.chain {
			if !v.holds(a) || !k.l.Rules.SLAB() && s.badLink(v, a) {
				return true
			}
		}
	}
	return false
}

// asksCounters says whether a destroy of k is refused for nothing but its counters: it has no
// object in use, and no other cache has a wrong counter.
func (s *Shadow) asksCounters(k *cache) bool {
	for _, o := range s.known {
		if o != k && o.over != (counts{}) {
			return false
		}
	}
	if k == nil || !s.look() {
		return false
	}
	for i := range s.before.Slabs {
		c := s.before.Caches[s.before.Slabs[i].Cache].Handle
		if c == k.Debugger.(impls.Cache) && s.view(k, i).d.Inuse > 0 {
			return false
		}
	}
	return true
}

// headless says whether the partial slab of SLUB that holds the object at a has no
// freelist to speak of: its head leads nowhere, or was given up for that. The kernel
// takes it for a full slab then, which it is not on the list of.
func (s *Shadow) headless(a impls.Addr) bool {
	for _, k := range s.known {
		if v := s.viewOf(k, a); v != nil {
			return v.headless()
		}
	}
	return false
}

// headless is the same of a view.
func (v *view) headless() bool {
	if v.k.l.Rules.SLAB() {
		return false
	}
	for _, p := range v.b.On {
		if p.Kind == impls.OnList && p.List == impls.ListPartial {
			return len(v.chain) == 0 || !v.holds(v.chain[0])
		}
	}
	return false
}

// shakes says whether a slab is in a state that an operation which is no free would go by
// unnoticed.
func (s *Shadow) shakes(op *impls.Op) bool {
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		c := s.before.Caches[b.Cache].Handle
		if op.Cache >= 0 && s.Cache(op.Cache) != c {
			continue
		}
		k := s.cacheOf(c)
		if k == nil || !s.odd[b.Page] || s.retired[b.Page] {
			continue
		}
		if s.view(k, i).shakes(s, op.Code) {
			return true
		}
	}
	return false
}

// shakes is the same of one slab. An allocation looks whether there are too many objects,
// or too many of them in use; what ends slabs looks whether none is in use, and that alone.
func (v *view) shakes(s *Shadow, code impls.Code) bool {
	counts := s.shaky[v.b.Page] != nil &&
		(v.d.Inuse != v.d.Objects-len(v.chain) || v.d.Objects != v.d.Max)
	switch {
	case allocates(code) && v.headless():
		return len(v.chain) == 0
	case !counts:
		return false
	case v.k.l.Rules.SLAB():
		return true
	case allocates(code):
		return v.d.Inuse < v.d.Objects && v.d.Objects <= v.d.Max
	case code == impls.OpShrink || code == impls.OpDestroy || code == impls.OpDrain:
		return v.d.Inuse == 0
	}
	return false
}

// neverMends says whether a wrong count is of a cache whose rules repair nothing.
func (s *Shadow) neverMends() bool {
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		k := s.cacheOf(s.before.Caches[b.Cache].Handle)
		if s.shaky[b.Page] == nil || k == nil || !k.l.Rules.SLAB() {
			continue
		}
		if v := s.view(k, i); v.d.Inuse != v.d.Objects-len(v.chain) {
			return true
		}
	}
	return false
}

// Mends says whether the caches are again as their allocator needs them, so that the end
// of a run may free, destroy and drain.
func (s *Shadow) Mends() bool { return !s.Blocks(&impls.Op{Code: impls.OpDrain, Cache: -1}, 0) }
