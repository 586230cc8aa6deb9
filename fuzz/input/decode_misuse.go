package input

import "allocfuzz/corpus/prog"

// This file reads misuse, which needs no more than a slot that was bound at some time.

// fillMisuse makes a line of the misuse verbs. Byte 4 is the number of bytes, the offset, the
// cache, or the region of a flip. What needs a slot given back gives one back when there is none.
func (d *Decoder) fillMisuse(l *prog.Line, r *record) bool {
	s := &d.slots
	memory := s.objs | s.of[kindSize]
	switch l.Verb {
	case prog.FreeForeign:
		memory = s.of[kindPages]
	case prog.WriteFreed, prog.FreeAgain:
		if !s.exact(r[3], memory) && s.known&memory&^s.live == 0 {
			l.Verb = prog.Free
			return d.fillUse(l, r)
		}
	case prog.Flip:
		if i := int(r[4] & 15); i >= len(prog.FlipRegions) {
			return d.flipCache(l, r, prog.FlipCacheFields[i-len(prog.FlipRegions)])
		}
		l.Region = prog.FlipRegions[r[4]&15]
		d.flipOptions(l, r)
	}
	i, ok := d.victim(r[3], l.Verb, memory)
	if !ok {
		return false
	}
	l.Slots = d.one(s.show(i))
	switch l.Verb {
	case prog.Overrun, prog.Underrun:
		l.Nums = d.numbers(uint64(bytesOf(r[4])))
	case prog.FreeInside:
		l.Nums = d.numbers(uint64(bytesOf(r[4])))
		d.owner(l, i)
	case prog.FreeAgain:
		d.owner(l, i)
	case prog.FreeForeign:
		if k, ok := d.caches.find(r[4]); ok && r[4] < foreignSize {
			l.Cache = d.caches.show(k)
		}
	case prog.FreeWrong:
		return d.wrongCache(l, r, i)
	}
	return true
}

// foreignSize is the first byte that means no cache for the free of pages.
const foreignSize = 192

// victim returns the slot that a misuse is done to: one given back for the verbs that need that,
// for a flip one of either sort, and of a cache that looks for damage if there is one.
func (d *Decoder) victim(b byte, verb prog.Verb, memory uint64) (int, bool) {
	s := &d.slots
	known := s.known & memory
	if b < SlotsMax && known>>b&1 != 0 {
		return int(b), true
	}
	first := known & s.live
	if verb == prog.WriteFreed || verb == prog.FreeAgain || verb == prog.Flip && b&1 != 0 {
		first = known &^ s.live
	}
	checked := d.checked()
	for _, set := range [...]uint64{first & checked, first, known & checked, known} {
		if set != 0 {
			return nth(set, int(b>>1)), true
		}
	}
	return 0, false
}

// checked returns the slots whose memory the debug checks look after.
func (d *Decoder) checked() uint64 {
	s := &d.slots
	if d.p.Machine.Debug != "" {
		return s.typed
	}
	var set uint64
	for k := range CachesMax {
		if d.caches.checked>>k&1 != 0 {
			set |= s.of[k]
		}
	}
	return set
}

// wrongCache names a cache that is not the object's own; false when there is no other.
func (d *Decoder) wrongCache(l *prog.Line, r *record, slot int) bool {
	others := d.caches.known
	if k := d.slots.kind[slot]; k < CachesMax {
		others &^= 1 << k
	}
	if others == 0 {
		return false
	}
	k := int(r[4] % CachesMax)
	if others>>k&1 == 0 {
		k = nth(uint64(others), k)
	}
	l.Cache = d.caches.show(k)
	return true
}

func (d *Decoder) flipCache(l *prog.Line, r *record, region string) bool {
	k, ok := d.caches.find(r[3])
	if !ok {
		return false
	}
	l.Region, l.Cache = region, d.caches.show(k)
	d.flipOptions(l, r)
	return true
}

// flipOptions adds the bits of byte 7 and the place of byte 5, where they are not 0.
func (d *Decoder) flipOptions(l *prog.Line, r *record) {
	var kv [2]prog.KV
	n := 0
	if r[7] != 0 {
		kv[n] = prog.KV{Key: "bits", Num: uint64(r[7]), IsNum: true}
		n++
	}
	if at := offsetOf(r[5]); at >= 0 {
		kv[n] = prog.KV{Key: "byte", Num: uint64(at), IsNum: true}
		n++
	}
	d.options(l, kv[:n]...)
}
