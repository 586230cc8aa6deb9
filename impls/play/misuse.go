package play

import (
	"math/bits"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// This file is misuse: damage to the memory of a cache, and frees of what must not
// be freed. It hits exactly what it is meant to or is skipped: every byte lies in the
// slab of the victim's cache that holds the victim, from the first slot on, and is
// live to nobody. Bytes are damaged by inverting bits, so that they are wrong
// afterwards whatever they were.

// beginMisuse finds the victim. Damage to bytes is done here, in no time; what
// enters the allocator goes on.
func (e *Exec) beginMisuse(c *machine.Ctx, s *Step) bool {
	op, ev := s.op, s.ev
	if !op.Code.Misuses() || !e.caps.Has(impls.CapDebug) || e.native {
		ev.Outcome = impls.Unsupported
		return false
	}
	if why := e.entered(c, s); why != impls.OK {
		ev.Outcome = why
		return false
	}
	if !e.aim(s) || e.may != nil && !e.may(c, op, ev) {
		e.skip(c, s)
		return false
	}
	switch op.Code {
	case impls.OpFreeForeign, impls.OpFreeWrong:
		e.claim(c, op.Slot, anywhere, &s.held, true)
		e.construct(&s.held)
		return true
	case impls.OpFreeAgain, impls.OpFreeInside:
		return true
	}
	if op.Code == impls.OpFlip && !op.Region.InSlot() && op.Region != debugcheck.SlabPad {
		return true // Debugger.Damage
	}
	e.damage(ev)
	if s.cache != nil {
		e.leave(c, s.cache)
	}
	return false
}

// entered takes the cache that the operation names for as long as it lasts; OK also
// when it names none.
func (e *Exec) entered(c *machine.Ctx, s *Step) impls.Outcome {
	op := s.op
	if op.Cache < 0 {
		frees := op.Code == impls.OpFreeAgain || op.Code == impls.OpFreeInside ||
			op.Code == impls.OpFreeForeign
		return e.able(!frees || e.useSizes())
	}
	if !e.useObjects() {
		return impls.Unsupported
	}
	if s.cache = e.enter(c, op.Cache); s.cache == nil {
		return e.without(op.Cache)
	}
	return impls.OK
}

// skip ends a misuse that hits nothing; its event names no victim.
func (e *Exec) skip(c *machine.Ctx, s *Step) {
	if s.cache != nil {
		e.leave(c, s.cache)
	}
	ev := s.ev
	ev.Outcome, ev.Cache = impls.Skipped, s.op.Cache
	ev.Addr, ev.Old, ev.Size, ev.Region, ev.Mask = 0, 0, 0, 0, 0
}

// aim says in the event what the misuse hits; false when that is not what it is
// meant to hit.
func (e *Exec) aim(s *Step) bool {
	op := s.op
	if op.Code == impls.OpFlip && op.Region.OfCache() {
		return e.aimCache(s)
	}
	if op.Code == impls.OpFreeForeign {
		return e.aimForeign(s)
	}
	if op.Slot < 0 || int(op.Slot) >= len(e.slots) {
		return false
	}
	x := &e.slots[op.Slot]
	live, given := x.State == Live, x.State == Void && x.given
	switch op.Code {
	case impls.OpWriteFreed, impls.OpFreeAgain:
		if !given {
			return false
		}
	case impls.OpFlip:
		if !live && !given {
			return false
		}
	default:
		if !live {
			return false
		}
	}
	v := victim{e: e, s: s, x: x}
	return v.find() && v.hit()
}

// A victim is the object that a misuse is done to.
type victim struct {
	e      *Exec
	s      *Step
	x      *objectSlot
	layout *debugcheck.Layout
	slab   debugcheck.Slab
}

// find looks up the debugged cache and the slab that hold the object now. What was
// given back must still be in a slab of the cache that it came from.
func (v *victim) find() bool {
	e, x := v.e, v.x
	var cache impls.Cache
	switch {
	case x.from >= 0:
		if int(x.from) >= len(e.caches) {
			return false
		}
		if k := &e.caches[x.from]; k.state == Live && k.nth == x.nth {
			cache = k.cache
		}
	case x.from == fromSizes:
		cache = e.classOf(&x.Slot)
		if x.given && cache != x.class {
			return false
		}
	}
	if v.s.dbg, v.layout = debugged(cache); v.layout == nil {
		return false
	}
	var ok bool
	if v.slab, ok = v.s.dbg.Slab(x.Addr); !ok {
		return false
	}
	v.s.ev.Old, v.s.ev.Cache = x.Addr, max(x.from, fromSizes)
	v.slab.Objects = v.slab.Max // what is stored may be damaged already
	_, ok = v.layout.Index(&v.slab, x.Addr)
	return ok
}

// debugged is a cache that has debug flags; without them the layout is nil.
func debugged(cache impls.Cache) (impls.Debugger, *debugcheck.Layout) {
	d, ok := cache.(impls.Debugger)
	if !ok {
		return nil, nil
	}
	return d, d.Layout()
}

// classOf is the cache of what was allocated by size; nil where there is none or
// nobody needs to know.
func (e *Exec) classOf(x *Slot) impls.Cache {
	if x.from != fromSizes || !e.caps.Has(impls.CapDebug) || e.native {
		return nil
	}
	if o, ok := e.sizes.(impls.Owner); ok {
		return o.CacheOf(x.Addr)
	}
	return nil
}

// hit places the misuse.
func (v *victim) hit() bool {
	op, x := v.s.op, v.x
	switch op.Code {
	case impls.OpOverrun:
		end := x.Addr + x.Size
		return end >= x.Addr && v.bytes(end, op.Size)
	case impls.OpUnderrun:
		return v.bytes(x.Addr-op.Size, op.Size) // a difference below 0 is in no slab
	case impls.OpWriteFreed:
		return v.bytes(x.Addr, x.Size)
	case impls.OpFlip:
		return v.flip()
	}
	return v.free()
}

// bytes places damage to n bytes at a.
func (v *victim) bytes(a impls.Addr, n uint64) bool {
	v.s.ev.Addr, v.s.ev.Size = a, n
	if !v.belongs(a, n) || v.e.alive(a, n) {
		return false
	}
	v.soil()
	return true
}

// soil ends what is promised of the spare bytes of objects in the victim's slab: they may
// be what is damaged, and a realloc that adds them does not zero them again.
func (v *victim) soil() {
	for i := range v.e.slots {
		if s := &v.e.slots[i].Slot; s.Addr-v.slab.Addr < v.slab.Bytes {
			s.zeroed = false
		}
	}
}

// belongs says whether n bytes at a, one at least, lie in the victim's slab.
func (v *victim) belongs(a impls.Addr, n uint64) bool {
	end := v.slab.Addr + v.slab.Bytes
	return n > 0 && a >= v.slab.First && a < end && n <= end-a && v.e.mem.Contains(a, n)
}

// alive says whether any of n bytes at a is live to the program.
func (e *Exec) alive(a impls.Addr, n uint64) bool {
	in := func(s *Slot) bool {
		if s.Addr <= a {
			return a-s.Addr < s.Size
		}
		return s.Addr-a < n && s.Size > 0
	}
	for i := range e.slots {
		s := &e.slots[i].Slot
		if (s.State == Live || s.State == Void && s.held) && in(s) {
			return true
		}
	}
	for i := range e.strays {
		if in(&e.strays[i]) {
			return true
		}
	}
	return false
}

// flip places bits: of a region's bytes, or of a field of the slab.
func (v *victim) flip() bool {
	op, ev := v.s.op, v.s.ev
	ev.Region = op.Region
	if op.Region.OfSlab() {
		var ok bool
		ev.Mask, ok = fieldMask(op)
		return ok
	}
	var from, to impls.Addr
	if op.Region == debugcheck.SlabPad {
		from = v.slab.First + uint64(v.slab.Max)*v.layout.Stride
		to = v.slab.Addr + v.slab.Bytes
	} else {
		lo, hi := v.layout.At(op.Region)
		from, to = v.x.Addr+uint64(lo), v.x.Addr+uint64(hi)
	}
	if op.Arg == 0 {
		return false
	}
	zeros := uint64(bits.TrailingZeros64(op.Arg)) / 8
	ev.Mask = op.Arg >> (8 * zeros)
	n := uint64(bits.Len64(ev.Mask)+7) / 8
	skip := op.Size + zeros
	if from >= to || skip < zeros || skip >= to-from || n > to-from-skip {
		return false
	}
	return v.bytes(from+skip, n)
}

// fieldMask is the bits to invert in a field of one word; false when some are beyond
// it, or there are none.
func fieldMask(op *impls.Op) (mask uint64, ok bool) {
	if op.Arg == 0 || op.Size >= 8 {
		return 0, false
	}
	shift := 8 * op.Size
	return op.Arg << shift, op.Arg<<shift>>shift == op.Arg
}

func (e *Exec) aimCache(s *Step) bool {
	op, ev := s.op, s.ev
	if s.cache == nil {
		return false
	}
	var layout *debugcheck.Layout
	if s.dbg, layout = debugged(s.cache.cache); layout == nil {
		return false
	}
	ev.Region = op.Region
	var ok bool
	ev.Mask, ok = fieldMask(op)
	return ok
}

// free places a free that must not be.
func (v *victim) free() bool {
	op, x, ev := v.s.op, v.x, v.s.ev
	ev.Addr = x.Addr
	switch op.Code {
	case impls.OpFreeAgain:
		return x.from == max(op.Cache, fromSizes) && !v.e.alive(x.Addr, v.layout.Size)
	case impls.OpFreeInside:
		a := x.Addr + op.Size
		ev.Addr = a
		_, begins := v.layout.Index(&v.slab, a)
		return x.from == max(op.Cache, fromSizes) && op.Size > 0 && a > x.Addr && !begins &&
			v.belongs(a, 1)
	case impls.OpFreeWrong:
		return v.s.cache != nil && x.from != op.Cache
	}
	return false
}

// aimForeign places the free of whole pages to a cache, or by size.
func (e *Exec) aimForeign(s *Step) bool {
	op, ev := s.op, s.ev
	if op.Slot < 0 || int(op.Slot) >= len(e.slots) {
		return false
	}
	x := &e.slots[op.Slot].Slot
	if x.State != Live || x.from != fromPages {
		return false
	}
	ev.Addr, ev.Old, ev.Cache = x.Addr, x.Addr, max(op.Cache, fromSizes)
	if s.cache == nil {
		_, ok := e.sizes.(impls.Owner)
		return ok
	}
	_, layout := debugged(s.cache.cache)
	return layout != nil
}

// damage inverts the bits of the event's bytes: those of its mask for a flip, else
// all.
func (e *Exec) damage(ev *impls.Event) {
	mask := ev.Mask
	for i := range ev.Size {
		m := byte(0xff)
		if ev.Code == impls.OpFlip {
			m = byte(mask >> (8 * i))
		}
		if m != 0 {
			e.mem.Flip(ev.Addr+i, m)
		}
	}
}

func (e *Exec) beginValidate(c *machine.Ctx, s *Step) bool {
	if !e.caps.Has(impls.CapDebug) || !e.useObjects() {
		s.ev.Outcome = impls.Unsupported
		return false
	}
	s.cache = e.enter(c, s.op.Cache)
	if s.cache == nil {
		s.ev.Outcome = e.without(s.op.Cache)
		return false
	}
	var ok bool
	if s.dbg, ok = s.cache.cache.(impls.Debugger); !ok {
		e.leave(c, s.cache)
		s.ev.Outcome = impls.Unsupported
	}
	return ok
}

// callDebug is Call for misuse and validate.
func (e *Exec) callDebug(c *machine.Ctx, s *Step) {
	ev := s.ev
	switch s.op.Code {
	case impls.OpValidate:
		var slabs int
		slabs, s.err = s.dbg.Validate(c)
		ev.Usable = uint64(max(slabs, 0))
	case impls.OpFlip:
		if !s.dbg.Damage(c, ev.Region, ev.Old, ev.Mask) {
			s.err = impls.ErrUnsupported
		}
	default:
		if s.cache != nil {
			s.cache.cache.Free(c, ev.Addr)
		} else {
			e.sizes.Free(c, ev.Addr)
		}
	}
}

// endDebug is End for misuse and validate.
func (e *Exec) endDebug(c *machine.Ctx, s *Step) {
	op, ev := s.op, s.ev
	switch op.Code {
	case impls.OpFreeForeign, impls.OpFreeWrong:
		e.restore(c, op.Slot, &s.held)
	case impls.OpFlip:
		if s.err != nil { // the cache has no such field
			e.skip(c, s)
			return
		}
	case impls.OpValidate:
		if s.err != nil {
			ev.Usable = 0
			ev.Outcome, ev.Legit = OutcomeOf(s.err), c.Refused() > s.refused
		}
	}
	if s.cache != nil {
		e.leave(c, s.cache)
	}
}

// Collect puts the reports that the debug checks made since Begin into the event.
// End does so; where the run ended inside Call, its owner does.
func (s *Step) Collect(c *machine.Ctx) {
	notes := c.Notes()
	for i := s.noted; i < len(notes); i++ {
		if r, ok := notes[i].(*debugcheck.Report); ok {
			s.ev.Reports = append(s.ev.Reports, r)
		}
	}
	s.noted = max(s.noted, len(notes))
}

// Forget says that the memory of slot i is the allocator's again: a free that was a
// misuse, or one that had been refused before, took place. Only a model can tell.
func (e *Exec) Forget(i int) {
	if i >= 0 && i < len(e.slots) {
		s := &e.slots[i]
		s.State, s.held, s.given, s.class = Void, false, s.Addr != 0, e.classOf(&s.Slot)
	}
}
