package shadow

import (
	"bytes"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// This file looks at an object that was just handed out, before its owner writes to it:
// what an allocation writes is wiped damage, too, which no check would have seen.

// A stretch is bytes of an object that hold one value, from and to relative to it.
type stretch struct {
	from, to int64
	byte     byte
	left     bool // the allocation does not write it: damage stays
}

// Fresh is told of an allocation that succeeded, before the program writes to what it
// returned.
func (s *Shadow) Fresh(op *impls.Op, ev *impls.Event) {
	if s.lost || ev.Addr == 0 || ev.Addr == ev.Old {
		return
	}
	k := s.of(ev.Cache, ev.Addr)
	if k == nil {
		return
	}
	asked := k.askedBy(ev)
	s.stretches = k.around(s.stretches[:0], asked)
	zero := op.Flags&impls.FlagZero != 0 || op.Code == impls.OpCalloc
	if k.l.Body && !k.l.Ctor && !zero && op.Code != impls.OpRealloc { // else written over already
		s.stretches = k.poison(s.stretches, asked)
	}
	for i := range s.stretches {
		x := &s.stretches[i]
		if at, got, bad := s.unlike(k, ev.Addr, x); bad {
			s.lost = true
			s.Raise(fault.FreshUnmarked, "%s: byte at %#x of object %#x is %#02x; the rules say: "+
				"%#02x", k.l.Name, at, ev.Addr, got, x.byte)
			return
		}
	}
}

// askedBy is the size that an allocation asks k for. A memalign of nothing asks a size class
// for one byte: what malloc returns for nothing has an alignment of its own.
func (k *cache) askedBy(ev *impls.Event) uint64 {
	if ev.Code == impls.OpMemalign && k.l.Kmalloc {
		return max(ev.Size, 1)
	}
	return ev.Size
}

// around adds the marks of an allocated object: red zones, or red words.
func (k *cache) around(to []stretch, asked uint64) []stretch {
	l := k.l
	if !l.Flags.Has(debugcheck.RedZone) {
		return to
	}
	for _, r := range [...]debugcheck.Region{debugcheck.LeftRed, debugcheck.RightRed} {
		from, end := l.At(r)
		if !l.Rules.SLAB() {
			to = append(to, stretch{from: from, to: end, byte: redLive})
			continue
		}
		word := rulesOf(k).live
		for at := from; at < end; at++ {
			to = append(to, stretch{from: at, to: at + 1, byte: byte(word)})
			word >>= 8
		}
	}
	if k.tailed() && asked < l.Size {
		to = append(to, stretch{from: int64(asked), to: int64(l.Size), byte: redLive})
	}
	return to
}

// tailed says whether what lies behind the size asked for is told from what lies before it.
func (k *cache) tailed() bool { return k.l.Orig != 0 && k.l.Rules == debugcheck.SLUB612 }

// poison adds what fills an object that nobody has written to. 2.4 leaves what the free
// wrote, and since 6.2 where it ends without red zones no rule says.
func (k *cache) poison(to []stretch, asked uint64) []stretch {
	l := k.l
	n, body, last := int64(l.Size), byte(bodyFree), true
	switch {
	case l.Rules.SLAB():
		body = neverUsed
	case k.tailed():
		n = int64(min(asked, l.Size))
		last = l.Flags.Has(debugcheck.RedZone)
	}
	if n == 0 {
		return to
	}
	left := l.Rules == debugcheck.SLAB24
	to = append(to, stretch{from: 0, to: n - 1, byte: body, left: left})
	if last {
		to = append(to, stretch{from: n - 1, to: n, byte: bodyEnd, left: left})
	}
	return to
}

// unlike finds the first byte of a stretch of the object at a that is not what it should
// be. With several contexts what was done while an operation was in flight may have come
// behind the allocation.
func (s *Shadow) unlike(k *cache, a impls.Addr, x *stretch) (at impls.Addr, got byte, bad bool) {
	from, to := span(a, x.from, x.to)
	for n := uint64(0); from != to; from += n {
		n = min(to-from, uint64(len(s.window)))
		b := s.window[:n]
		if s.Memory.Read(from, b) != int(n) {
			return 0, 0, false
		}
		if b[0] == x.byte && bytes.Equal(b[1:], b[:n-1]) {
			continue
		}
		for i, v := range b {
			p := from + uint64(i)
			if v == x.byte || k.maybe[p] || x.left && v == x.byte^k.hurt[p] {
				continue
			}
			return p, v, true
		}
	}
	return 0, 0, false
}
