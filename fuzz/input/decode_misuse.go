package input

import "allocfuzz/corpus/prog"

// This file reads misuse, which needs no more than a slot that was bound at some time.

// fillMisuse makes a line of the misuse verbs. Byte 4 is the number of bytes, the offset, or the
// region of a flip.
func (d *Decoder) fillMisuse(l *prog.Line, r *record) bool {
	s := &d.slots
	memory := s.objs | s.of[kindSize]
	if l.Verb == prog.Flip {
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
		l.Nums = d.numbers(1 + uint64(r[4]))
	case prog.FreeInside:
		l.Nums = d.numbers(1 + uint64(r[4]))
		d.owner(l, i)
	case prog.FreeAgain, prog.FreeForeign:
		d.owner(l, i)
	case prog.FreeWrong:
		return d.wrongCache(l, r, i)
	}
	return true
}

// victim returns the slot that a misuse is done to: one given back for the verbs that need that.
func (d *Decoder) victim(b byte, verb prog.Verb, memory uint64) (int, bool) {
	s := &d.slots
	known := s.known & memory
	if b < SlotsMax && known>>b&1 != 0 {
		return int(b), true
	}
	first := known & s.live
	if verb == prog.WriteFreed || verb == prog.FreeAgain {
		first = known &^ s.live
	}
	switch {
	case first != 0:
		return nth(first, int(b)), true
	case known != 0:
		return nth(known, int(b)), true
	}
	return 0, false
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
	if r[5] != 0 {
		kv[n] = prog.KV{Key: "byte", Num: uint64(r[5]) - 1, IsNum: true}
		n++
	}
	d.options(l, kv[:n]...)
}
