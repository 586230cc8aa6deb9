package debugcheck

import (
	"fmt"
	"math"
	"math/bits"
)

// A Spec is what a layout is computed from.
type Spec struct {
	Name    string // of the cache, for reports
	Size    uint64 // bytes of an object, above 0
	Align   uint64 // a power of two; 0 is the word
	Flags   Flags
	Ctor    bool // objects have a constructor: no poison in the body, but in SLAB of 2.6
	RCU     bool // objects may be read after they were freed: no poison in the body
	Kmalloc bool // a size class: with U the size asked for is kept
	First   bool // a link inside lies at the first word (before 5.7), else near the middle
	Rules   Rules
	Word    uint64 // bytes of a word: 8, 4 or 2
	End     uint64 // the link that ends a freelist
}

// A Layout says where what lies in the slot of an object, in bytes. Offsets are
// from the object's own address unless they say otherwise. It never changes. Of the
// Spec, Align is never below the word; Size is that of the slot's object, which
// SLAB24 rounds up to words.
//
//	slot -> [Pad: left red zone] object -> [Size] [right red zone to Inuse]
//	[link, when outside] [alloc track] [free track] [size asked for] [padding] -> slot + Stride
//
// SLAB has words of one kind each, and its links are elsewhere:
//
//	slot -> [Pad, its last word: red word] object -> [Size] [red word to Inuse] [last user]
//	[padding] -> slot + Stride
type Layout struct {
	Spec
	Pad     uint64 // from the start of the slot to the object
	Inuse   uint64 // end of the object and its right red zone or alignment padding
	Link    uint64 // place of the free pointer
	Outside bool   // the free pointer lies behind the object
	Track   uint64 // place of the alloc track, 0 without U; the free track follows
	Tracks  uint64 // bytes of one track
	Orig    uint64 // place of the size asked for, 0 when it is not kept
	OrigLen uint64 // its bytes
	Info    uint64 // end of all that: the padding of the slot begins here
	Stride  uint64 // bytes of a slot
	Body    bool   // the body of a free object is poisoned

	// Stride is odd << twos, and odd * inverse is 1 modulo 2^64; most
	// slots have less than 2^64 bytes.
	twos          uint8
	inverse, most uint64
}

// metadata are the options that make a slot larger. The letter O leaves them out where
// the smallest slab would need more pages for them.
const metadata = RedZone | Poison | StoreUser

// The largest object and alignment: the sum of all parts still fits 64 bits.
const layoutMax = 1 << 62

// NewLayout lays out the slot of an object.
func NewLayout(s Spec) (Layout, error) {
	l := Layout{Spec: s}
	if err := l.Fill(); err != nil {
		return Layout{}, err
	}
	return l, nil
}

// Bare is what is around the objects of a cache that is not debugged: nothing. It is for
// reports of calls only, which need name and rules.
func Bare(name string, r Rules) *Layout {
	return &Layout{Spec: Spec{Name: name, Rules: r}}
}

// Fill is NewLayout of the Spec in l, of which all else is zero. It spares callers who
// have little stack the copies.
func (l *Layout) Fill() error {
	if err := l.valid(); err != nil {
		return err
	}
	l.Align = max(l.Align, l.Word)
	l.Body = l.Flags.Has(Poison) && !l.RCU && (!l.Ctor || l.Rules == SLAB26)
	if l.Rules.SLAB() {
		l.slab()
	} else {
		l.slub()
	}
	if l.Stride > math.MaxInt64 {
		return tooLarge(l.Stride, l.Spec.Size)
	}
	l.twos, l.most = uint8(bits.TrailingZeros64(l.Stride)), math.MaxUint64/l.Stride
	l.inverse = inverse(l.Stride >> l.twos)
	return nil
}

func tooLarge(stride, size uint64) error {
	return fmt.Errorf("a slot of %d bytes for objects of %d is too large", stride, size)
}

// valid says what cannot be laid out.
func (s *Spec) valid() error {
	switch {
	case s.Word != 8 && s.Word != 4 && s.Word != 2:
		return fmt.Errorf("a word of %d bytes: expected 8, 4 or 2", s.Word)
	case s.Size == 0:
		return fmt.Errorf("objects of 0 bytes")
	case s.Size > layoutMax:
		return fmt.Errorf("objects of %d bytes: at most %d", s.Size, uint64(layoutMax))
	case s.Align&(s.Align-1) != 0:
		return fmt.Errorf("alignment %d is no power of two", s.Align)
	case s.Align > layoutMax:
		return fmt.Errorf("alignment %d: at most %d", s.Align, uint64(layoutMax))
	case s.Rules >= nRules:
		return fmt.Errorf("rule set %d does not exist", uint8(s.Rules))
	}
	return nil
}

// slub is the layout of SLUB. The right red zone takes what rounding up to words leaves,
// and a word of its own only where nothing is left.
func (l *Layout) slub() {
	red, user := l.Flags.Has(RedZone), l.Flags.Has(StoreUser)
	l.Inuse = roundUp(l.Size, l.Word)
	if red && l.Inuse == l.Size {
		l.Inuse += l.Word
	}
	l.Info = l.Inuse
	l.link(red, user)
	if user {
		l.Track, l.Tracks = l.Info, trackBytes(l.Word)
		l.Info += 2 * l.Tracks
		if l.Kmalloc {
			l.Orig, l.OrigLen = l.Info, l.origBytes()
			l.Info += l.OrigLen
		}
	}
	slot := l.Info
	if red {
		// A word at the end of the slot is never anything else, so that what runs over
		// from the front of the next object is seen whatever its alignment.
		l.Pad = roundUp(l.Word, l.Align)
		slot += l.Word + l.Pad
	}
	l.Stride = roundUp(slot, l.Align)
}

// link places the free pointer: behind the object where it must not lie in bytes that
// are poisoned, constructed, still read after the free, or part of a red zone. That of
// a size class begins inside the object where the rules say so.
func (l *Layout) link(red, user bool) {
	l.Outside = l.RCU || l.Ctor || l.Flags.Has(Poison) ||
		red && (l.Size < l.Word || l.Kmalloc && user && l.Rules.tail())
	switch {
	case l.Outside:
		l.Link = l.Inuse
		l.Info += l.Word
	case !l.First:
		l.Link = roundDown(l.Size/2, l.Word)
	}
}

// slab is the layout of SLAB: red words on both sides, then a word for the last user,
// which 2.4 did not have yet; U brings it there too. 2.4 knows the size in words only.
// What 2.4 gives up for red words is the alignment to cache lines, 2.6 gives up the red
// words where more than a word is asked for; an alignment that is asked for by number
// is kept here in both, and the red words stay next to the object.
func (l *Layout) slab() {
	end := roundUp(l.Size, l.Word)
	if l.Rules == SLAB24 {
		l.Size = end
	}
	if l.Flags.Has(RedZone) {
		l.Pad = roundUp(l.Word, l.Align)
		end += l.Word
	}
	l.Inuse = end
	if l.Flags.Has(StoreUser) {
		l.Track, l.Tracks = end, l.Word
		end += l.Word
	}
	l.Info = end
	l.Stride = roundUp(l.Pad+end, l.Align)
}

// trackBytes is the size of a track: an address, a handle of a stack, a CPU, a task and
// a time. With words of 8 bytes the middle three take 4 each and the time is aligned
// behind them; with smaller words each of the five takes a word.
func trackBytes(word uint64) uint64 {
	if word == 8 {
		return 32
	}
	return 5 * word
}

// origBytes is the size of the place for the size asked for: a C unsigned int until
// 6.1, a long in 6.12. No machine has an int above its word here.
func (l *Layout) origBytes() uint64 {
	if l.Rules == SLUB612 {
		return l.Word
	}
	return min(4, l.Word)
}

// roundUp and roundDown give the next multiple of the power of two to.
func roundUp(n, to uint64) uint64   { return (n + to - 1) &^ (to - 1) }
func roundDown(n, to uint64) uint64 { return n &^ (to - 1) }

// DropGrowing applies the letter O: s without metadata where a slab of one object would
// need more pages with it than for the bare object.
func DropGrowing(s Spec, page uint64) Spec {
	l, err := NewLayout(s)
	if err != nil || MinOrder(l.Stride, page) > MinOrder(s.Size, page) {
		s.Flags &^= metadata
	}
	return s
}

// At gives the bytes of a region of the slot, from to below to, counted from the
// object's address; equal where the slot has no such region. RightRed is the alignment
// padding without Z. A link inside overlaps the object, and with a size that is no
// multiple of the word the bytes behind it. With SLAB's red words, up to a word behind
// an object of SLAB26 and what alignment leaves in front of the first red word are in
// no region: nothing is written there and nothing looks.
func (l *Layout) At(r Region) (from, to int64) {
	var at, n uint64
	switch r {
	case LeftRed:
		return -int64(l.leftRed()), 0
	case Object:
		n = l.Size
	case RightRed:
		at, n = l.rightRed()
	case FreePtr:
		if !l.Rules.SLAB() {
			at, n = l.Link, l.Word
		}
	case AllocTrack:
		at, n = l.Track, l.Tracks
	case FreeTrack:
		if !l.Rules.SLAB() {
			at, n = l.Track+l.Tracks, l.Tracks
		}
	case OrigSize:
		at, n = l.Orig, l.OrigLen
	case Padding:
		at, n = l.Info, l.Stride-l.Pad-l.Info
	}
	return int64(at), int64(at + n)
}

// leftRed is how many bytes in front of the object are the left red zone.
func (l *Layout) leftRed() uint64 {
	if l.Rules.SLAB() {
		return min(l.Pad, l.Word)
	}
	return l.Pad
}

// rightRed is where the right red zone lies, and its bytes.
func (l *Layout) rightRed() (at, n uint64) {
	if l.Rules.SLAB() && l.Flags.Has(RedZone) {
		return l.Inuse - l.Word, l.Word
	}
	return l.Size, l.Inuse - l.Size
}

// objectAt is the address of object i of a slab.
func (l *Layout) objectAt(s *Slab, i int) uint64 {
	return s.First + uint64(i)*l.Stride + l.Pad
}

// Index finds the object of a slab whose address is a. Not ok: a is none, but between
// objects, outside the slab, or behind the number of objects that the slab says it has,
// and never behind those that fit.
func (l *Layout) Index(s *Slab, a uint64) (i int, ok bool) {
	n := min(s.Objects, s.Max)
	at, ok := l.Slots(a - s.First - l.Pad) // wraps in front of the first object: far too many
	if n <= 0 || !ok || at >= uint64(n) {
		return 0, false
	}
	return int(at), true
}

// Slots is how many slots n bytes are; not ok when the last would be a part of one. It
// needs no division: times the inverse of the odd part of the stride, turned by the rest,
// a multiple of the stride becomes the number of slots, and all else one that is too big.
func (l *Layout) Slots(n uint64) (slots uint64, ok bool) {
	slots = bits.RotateLeft64(n*l.inverse, -int(l.twos))
	return slots, slots <= l.most
}

// inverse is the number by which odd is 1 modulo 2^64. Each step doubles the number of
// low bits that are right; odd itself has three.
func inverse(odd uint64) uint64 {
	v := odd
	for range 5 {
		v *= 2 - odd*v
	}
	return v
}
