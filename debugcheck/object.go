package debugcheck

import "fmt"

// A part is a run of bytes that hold one value while all is well.
type part struct {
	region Region
	title  string
	what   string // its name where it is repaired
}

// The parts of a slot and of a slab.
var (
	leftRedzone    = part{LeftRed, TitleLeftRedzone, "Left Redzone"}
	rightRedzone   = part{RightRed, TitleRightRedzone, "Right Redzone"}
	kmallocRedzone = part{Object, TitleKmallocRedzone, "kmalloc Redzone"}
	alignPadding   = part{RightRed, TitleAlignPadding, "Alignment padding"}
	bodyPoison     = part{Object, TitlePoison, "Poison"}
	lastPoison     = part{Object, TitleEndPoison, "End Poison"}
	objectPadding  = part{Padding, TitleObjectPadding, "Object padding"}
	slabPadding    = part{SlabPad, TitlePadding, "slab padding"}
)

// A span is where a part lies and what it should hold.
type span struct {
	from, n uint64
	want    byte
}

// all says whether every region of an object is looked at whatever was found before:
// 6.12. Older kernels stop at the first red zone or poison that is wrong, and padding
// that is wrong does not count against the object.
func (r Rules) all() bool { return r == SLUB612 }

// tail says whether the red zone of a kmalloc object begins where the size asked for
// ends: since 6.2. Earlier kernels keep that size for the report only.
func (r Rules) tail() bool { return r == SLUB612 }

// objectOK checks the object at a, which is one of s, against its state, in the
// kernel's order, and repairs what is wrong. False: the object fails.
func (k *Checker) objectOK(s *Slab, a uint64, st State) bool {
	all := k.Layout.Rules.all()
	ok := k.zonesOK(s, a, st)
	if (ok || all) && st == Inactive && k.Layout.Body {
		ok = k.bodyOK(s, a) && ok
	}
	if ok || all {
		ok = k.paddingOK(s, a) && ok
		ok = k.linkOK(s, a, st) && ok
	}
	return ok
}

// zonesOK checks the red zones, or the padding in the place of the right one.
func (k *Checker) zonesOK(s *Slab, a uint64, st State) bool {
	l, red := k.Layout, st.red()
	behind := span{a + l.Size, l.Inuse - l.Size, poisonInuse}
	if !l.Flags.Has(RedZone) {
		return !l.Flags.Has(Poison) || k.holds(s, a, &alignPadding, behind) || !l.Rules.all()
	}
	behind.want = red
	ok := k.holds(s, a, &leftRedzone, span{a - l.Pad, l.Pad, red})
	if ok || l.Rules.all() {
		ok = k.holds(s, a, &rightRedzone, behind) && ok
	}
	if st == Inactive || l.Orig == 0 || !l.Rules.tail() || !ok && !l.Rules.all() {
		return ok
	}
	if n := k.orig(a); n < l.Size {
		ok = k.holds(s, a, &kmallocRedzone, span{a + n, l.Size - n, red}) && ok
	}
	return ok
}

// bodyOK checks the poison of a free object: its last byte is another than the rest.
func (k *Checker) bodyOK(s *Slab, a uint64) bool {
	l := k.Layout
	b := k.bytes(Object, a, l.Size)
	if len(b) == 0 {
		return true
	}
	n := uint64(len(b)) - 1
	body, last := firstNot(b[:n], poisonFree) < 0, b[n] == poisonEnd
	if !body {
		k.wrong(s, a, &bodyPoison, span{a, n, poisonFree})
	}
	if !last && (body || l.Rules.all()) {
		k.wrong(s, a, &lastPoison, span{a + n, 1, poisonEnd})
	}
	return body && last
}

// paddingOK checks what lies between the debug data of an object and the next slot.
func (k *Checker) paddingOK(s *Slab, a uint64) bool {
	l := k.Layout
	if !l.Flags.Has(Poison) {
		return true
	}
	rest := span{a + l.Info, l.Stride - l.Pad - l.Info, poisonInuse}
	return k.holds(s, a, &objectPadding, rest) || !l.Rules.all()
}

// linkOK checks the free pointer, unless the program's bytes are in its place or there
// is none. A wrong one is cut: the rest of the freelist is lost.
func (k *Checker) linkOK(s *Slab, a uint64, st State) bool {
	l := k.Layout
	if !l.Rules.linked() || st == Active && !l.Outside {
		return true
	}
	if k.linkTo(s, k.link(a)) {
		return true
	}
	k.found(s, TitleFreepointer, "", a)
	k.Mem.SetLink(a, l.End)
	return false
}

// linkTo says whether a freelist of s may go on at a.
func (k *Checker) linkTo(s *Slab, a uint64) bool {
	return a == k.Layout.End || k.isObject(s, a)
}

// isObject says whether an object of s begins at a.
func (k *Checker) isObject(s *Slab, a uint64) bool {
	_, ok := k.Layout.Index(s, a)
	return ok
}

// objects is how many objects of s are looked at one after the other: as many as it
// says, but never more than fit.
func (k *Checker) objects(s *Slab) int { return min(s.Objects, s.Max) }

// holds says whether all bytes of w are what they should be; if not, it reports and
// repairs them. Where there is no memory nothing can be wrong.
func (k *Checker) holds(s *Slab, a uint64, p *part, w span) bool {
	if w.n == 0 || firstNot(k.bytes(p.region, w.from, w.n), w.want) < 0 {
		return true
	}
	k.wrong(s, a, p, w)
	return false
}

// wrong reports that a part is damaged, of the object at a or, when that is 0, of the
// slab, and writes what should be there from the first wrong byte to the last.
func (k *Checker) wrong(s *Slab, a uint64, p *part, w span) {
	b := k.bytes(p.region, w.from, w.n)
	i, j := firstNot(b, w.want), lastNot(b, w.want)
	if i < 0 {
		return
	}
	from, got := w.from+uint64(i), b[i]
	to := w.from + uint64(j) + 1
	detail := fmt.Sprintf("0x%x-0x%x @offset=%d", from, to-1, from-s.Addr)
	if a != 0 {
		detail += fmt.Sprintf(". First byte 0x%x instead of 0x%x", got, w.want)
	}
	r := k.found(s, p.title, detail, a)
	r.Region, r.From, r.To, r.Got, r.Want = p.region, from, to, got, w.want
	fill(k.bytes(p.region, from, to-from), w.want)
	k.fixed("Restoring %s 0x%x-0x%x=0x%x", p.what, from, to-1, w.want)
}

// found opens a report about slab s: about the object at a or, when that is 0, about
// the slab as a whole. What lies around an address that is no object of the slab is not
// looked at. The report goes out when the next one opens or by flush: until then
// repairs can be added to it.
func (k *Checker) found(s *Slab, title, detail string, a uint64) *Report {
	again := k.last != nil && k.last.Object == a && k.last.bracketed()
	k.flush()
	l := k.Layout
	r := &Report{Rules: l.Rules, Cache: l.Name, Title: title, Detail: detail, Object: a,
		Slab: s.Addr, Stored: *s, End: l.End, Again: again}
	k.last = r
	if a == 0 || !k.isObject(s, a) {
		return r
	}
	r.Layout = l
	if r.Slot = k.slot(a); r.Slot != nil {
		r.Alloc, r.Free = l.track(r.Slot, AllocTrack), l.track(r.Slot, FreeTrack)
	}
	return r
}

// track reads a track out of a copied slot; the zero track where the slot has none.
func (l *Layout) track(slot []byte, r Region) Track {
	from, to := l.At(r)
	if from >= to {
		return Track{}
	}
	pad := int64(l.Pad)
	return l.decodeTrack(slot[pad+from : pad+to])
}

// fixed adds what was repaired to the report that is open.
func (k *Checker) fixed(format string, args ...any) {
	k.last.Fixes = append(k.last.Fixes, fmt.Sprintf(format, args...))
}

// flush sends the open report out.
func (k *Checker) flush() {
	if r := k.last; r != nil {
		k.last = nil
		k.tell(r)
	}
}

// tell sends a report out.
func (k *Checker) tell(r *Report) {
	if k.Out != nil {
		k.Out(r)
	}
}

// slot copies the slot of the object at a, region by region; nil where a part of it is
// no memory.
func (k *Checker) slot(a uint64) []byte {
	l := k.Layout
	out := make([]byte, l.Stride)
	for r := LeftRed; r <= Padding; r++ {
		from, to := l.At(r)
		if from >= to || r == FreePtr && !l.Outside {
			continue
		}
		b := k.bytes(r, a+uint64(from), uint64(to-from))
		if b == nil {
			return nil
		}
		copy(out[uint64(from)+l.Pad:], b)
	}
	return out
}
