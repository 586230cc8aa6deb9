package debugcheck

import "encoding/binary"

// The bytes that are written around and into objects.
const (
	redInactive = 0xbb // red zones of a free object
	redActive   = 0xcc // red zones of an allocated one, and what kmalloc gave too much
	poisonInuse = 0x5a // the whole slab at first: what stays of it is padding
	poisonFree  = 0x6b // the body of an object
	poisonEnd   = 0xa5 // its last byte
)

// red is the byte of the red zones of an object in state st.
func (st State) red() byte {
	if st == Active {
		return redActive
	}
	return redInactive
}

// SetUp fills a new slab: padding, every object inactive, tracks empty. Nobody else
// knows the slab yet. Links are the allocator's to write afterwards. When all objects are
// in use from the start, their red zones and poison are left for Activate.
func (k *Checker) SetUp(s *Slab) {
	l := k.Layout
	if l.Rules.SLAB() {
		k.slabSetUp(s)
		return
	}
	ready := s.Inuse >= s.Objects // for Activate
	if l.Flags.Has(Poison) && s.First >= s.Addr && s.First-s.Addr <= s.Bytes {
		from, end := s.First, s.Addr+s.Bytes
		if ready && l.Body {
			from += l.Pad + l.Size // what is in front will be red zone and poison
		}
		fill(k.bytes(SlabPad, from, end-from), poisonInuse)
	}
	if !l.Flags.Has(RedZone) && !l.Flags.Has(StoreUser) && !l.Body {
		return
	}
	a := s.First + l.Pad
	for range k.objects(s) {
		if !ready {
			k.Deactivate(a)
		}
		if l.Track != 0 {
			clear(k.bytes(AllocTrack, a+l.Track, l.Tracks))
			clear(k.bytes(FreeTrack, a+l.Track+l.Tracks, l.Tracks))
		}
		a += l.Stride
	}
}

// Activate is what an allocation writes around the object at a, of which size bytes
// were asked for: red zones, poison, the size where it is kept. Where the size is not
// kept it is the cache's; one above the cache's counts as that.
func (k *Checker) Activate(a, size uint64) {
	l := k.Layout
	if l.Rules.SLAB() {
		k.slabActivate(a)
		return
	}
	n := l.Size
	if l.Orig != 0 {
		size = min(size, l.Size)
		k.setOrig(a, size)
		if l.Flags.Has(RedZone) && l.Rules.tail() {
			n = size // what is behind it is red zone
		}
	}
	k.paint(a, n, Active)
}

// Deactivate is what a free writes. The size asked for is forgotten by it: all of the
// object is poisoned.
func (k *Checker) Deactivate(a uint64) {
	if k.Layout.Rules.SLAB() {
		k.slabDeactivate(a)
		return
	}
	k.paint(a, k.Layout.Size, Inactive)
}

// Widen makes the whole object at a usable, whatever size was asked for (ksize), and
// returns that size as it was kept. Nothing but the size is written: what was red zone is
// the program's from now on.
func (k *Checker) Widen(a uint64) (asked uint64) {
	asked = k.Layout.Size
	if k.Layout.Orig != 0 {
		asked = k.orig(a)
		k.setOrig(a, k.Layout.Size)
	}
	return asked
}

// paint writes the red zones of an object of which n bytes are used, and the poison
// into those. A state shows in the red zones only: poison is the same in both.
func (k *Checker) paint(a, n uint64, st State) {
	l := k.Layout
	zoned := l.Flags.Has(RedZone)
	if zoned && l.Pad > 0 {
		fill(k.bytes(LeftRed, a-l.Pad, l.Pad), st.red())
	}
	if l.Body || n < l.Size {
		k.paintBody(a, n, st)
	}
	if zoned && l.Inuse > l.Size {
		fill(k.bytes(RightRed, a+l.Size, l.Inuse-l.Size), st.red())
	}
}

// paintBody writes what lies in the object itself: poison into the n bytes used, and
// red zone into the rest.
func (k *Checker) paintBody(a, n uint64, st State) {
	l := k.Layout
	if !l.Body {
		fill(k.bytes(Object, a+n, l.Size-n), st.red())
		return
	}
	b := k.bytes(Object, a, l.Size)
	if b == nil {
		return
	}
	fill(b[n:], st.red())
	if n > 0 {
		fill(b[:n-1], poisonFree)
		b[n-1] = poisonEnd
	}
}

// setOrig keeps the size asked for, in as many bytes as the kernel's type has.
func (k *Checker) setOrig(a, size uint64) {
	b := k.bytes(OrigSize, a+k.Layout.Orig, k.Layout.OrigLen)
	for i := range b {
		b[i] = byte(size >> (8 * i))
	}
}

// orig is the size asked for, as it is kept.
func (k *Checker) orig(a uint64) uint64 {
	size := uint64(0)
	for i, v := range k.bytes(OrigSize, a+k.Layout.Orig, k.Layout.OrigLen) {
		size |= uint64(v) << (8 * i)
	}
	return size
}

// spread holds 1 in each byte: times v it is a word of v.
const spread = 0x0101010101010101

// fill writes v to all of b, by words; what is longer than a few of them by copying
// what is there already, twice as much each time.
func fill(b []byte, v byte) {
	const stretch, near = 64, 1 << 13 // what is copied stays at hand
	w := uint64(v) * spread
	n := 0
	for ; n < stretch && n+8 <= len(b); n += 8 {
		binary.LittleEndian.PutUint64(b[n:], w)
	}
	switch {
	case n == stretch:
		for n < len(b) {
			n += copy(b[n:], b[:min(n, near)])
		}
	case n > 0: // the last word once more, up to the end
		binary.LittleEndian.PutUint64(b[len(b)-8:], w)
	default:
		for i := range b {
			b[i] = v
		}
	}
}

// firstNot is the index of the first byte of b that is not v, -1 when all are. It
// compares four words at a time, then words, then bytes.
func firstNot(b []byte, v byte) int {
	w := uint64(v) * spread
	n := 0
	for ; n+32 <= len(b); n += 32 {
		c := b[n : n+32 : n+32]
		d := binary.LittleEndian.Uint64(c) ^ w
		d |= binary.LittleEndian.Uint64(c[8:]) ^ w
		d |= binary.LittleEndian.Uint64(c[16:]) ^ w
		d |= binary.LittleEndian.Uint64(c[24:]) ^ w
		if d != 0 {
			break
		}
	}
	for ; n+8 <= len(b) && binary.LittleEndian.Uint64(b[n:]) == w; n += 8 {
	}
	if len(b)-n < 8 && len(b) >= 8 && binary.LittleEndian.Uint64(b[len(b)-8:]) == w {
		return -1
	}
	for ; n < len(b); n++ {
		if b[n] != v {
			return n
		}
	}
	return -1
}

// lastNot is the index of the last byte of b that is not v, -1 when all are. Only
// damage is measured with it.
func lastNot(b []byte, v byte) int {
	for n := len(b) - 1; n >= 0; n-- {
		if b[n] != v {
			return n
		}
	}
	return -1
}
