package shadow

import (
	"fmt"

	"allocfuzz/debugcheck"
	"allocfuzz/impls/fault"
)

// This file works out where what must lie around an object. Everything else here goes by
// the layout that the subject shows, which is held against that once for each cache.

// A plot is a place of a slot, from the object's own address on; of 0 bytes where there is
// no such thing.
type plot struct{ at, n uint64 }

// A slot is what there is for one object.
type slot struct {
	front   uint64 // bytes in front of the object
	inuse   uint64 // where object and right red zone end
	link    uint64
	outside bool // the link is behind the object
	track   plot // the first track; a second one follows in SLUB
	orig    plot // the size that was asked for
	info    uint64
	stride  uint64
	body    bool
}

// upTo is n raised to a multiple of unit.
func upTo(n, unit uint64) uint64 { return (n + unit - 1) / unit * unit }

// slotOf lays the slot of a Spec out.
func slotOf(p *debugcheck.Spec) (t slot) {
	red, user := p.Flags.Has(debugcheck.RedZone), p.Flags.Has(debugcheck.StoreUser)
	unit := max(p.Align, p.Word)
	built := p.Ctor && p.Rules != debugcheck.SLAB26 // there an allocation constructs
	t.body = p.Flags.Has(debugcheck.Poison) && !built && !p.RCU
	t.inuse = upTo(p.Size, p.Word)
	if red {
		t.front = upTo(p.Word, unit)
	}
	if p.Rules.SLAB() {
		if red {
			t.inuse += p.Word
		}
		t.info = t.inuse
		if user {
			t.track = plot{t.inuse, p.Word}
			t.info += p.Word
		}
		t.stride = upTo(t.front+t.info, unit)
		return t
	}
	if red && p.Size%p.Word == 0 {
		t.inuse += p.Word
	}
	t.places(p, red, user)
	if red {
		t.stride = p.Word // always left behind everything
	}
	t.stride = upTo(t.front+t.info+t.stride, unit)
	return t
}

// places puts link, tracks and size where they belong in SLUB.
func (t *slot) places(p *debugcheck.Spec, red, user bool) {
	since62 := p.Rules == debugcheck.SLUB612
	t.outside = p.Flags.Has(debugcheck.Poison) || p.Ctor || p.RCU ||
		red && p.Size < p.Word || red && user && p.Kmalloc && since62
	t.info = t.inuse
	switch {
	case t.outside:
		t.link = t.inuse
		t.info += p.Word
	case !p.First:
		t.link = p.Size / 2 / p.Word * p.Word
	}
	if !user {
		return
	}
	t.track = plot{t.info, 5 * p.Word}
	if p.Word == 8 {
		t.track.n = 32
	}
	t.info += 2 * t.track.n
	if !p.Kmalloc {
		return
	}
	t.orig = plot{t.info, p.Word}
	if !since62 {
		t.orig.n = min(p.Word, 4) // an unsigned int
	}
	t.info += t.orig.n
}

// laidOut holds the layout that a cache shows against what it must be.
func (s *Shadow) laidOut(k *cache) {
	l := k.l
	t := slotOf(&l.Spec)
	size := k.Size()
	if l.Rules == debugcheck.SLAB24 {
		size = upTo(size, l.Word)
	}
	shows := slot{front: l.Pad, inuse: l.Inuse, link: l.Link, outside: l.Outside,
		track: plot{l.Track, l.Tracks}, orig: plot{l.Orig, l.OrigLen}, info: l.Info,
		stride: l.Stride, body: l.Body}
	if shows != t || l.Size != size {
		s.lost = true
		s.Raise(fault.WrongLayout, "%s: objects of %d bytes, %s; the rules say: %d, %s", l.Name,
			l.Size, &shows, size, &t)
	}
}

// String lists what is where.
func (t *slot) String() string {
	return fmt.Sprintf("%d in front, %d in use, link at %d, outside %v, track at %d of %d, size "+
		"asked for at %d of %d, data to %d, slot %d, poisoned %v", t.front, t.inuse, t.link,
		t.outside, t.track.at, t.track.n, t.orig.at, t.orig.n, t.info, t.stride, t.body)
}
