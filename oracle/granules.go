package oracle

import (
	"math/bits"

	"allocfuzz/impls"
)

// set makes n bytes at a live and returns the first address that was live
// already.
func (g *granules) set(a impls.Addr, n uint64) (at impls.Addr, clash bool) {
	first, last := a>>g.shift, (a+n-1)>>g.shift
	if first>>6 == last>>6 { // one word: the common case
		k := g.chunk(first >> chunkBits)
		w := int(first>>6) & (chunkWords - 1)
		mask := ^uint64(0) << (first & 63) & (^uint64(0) >> (63 - last&63))
		k.touch(w)
		was := k.live[w] & mask
		k.live[w] |= mask
		if was == 0 {
			return 0, false
		}
		return (first&^63 + uint64(bits.TrailingZeros64(was))) << g.shift, true
	}
	g.span(a, n, func(k *chunk, w int, mask, base uint64) bool {
		k.touch(w)
		if was := k.live[w] & mask; was != 0 && !clash {
			at, clash = (base+uint64(bits.TrailingZeros64(was)))<<g.shift, true
		}
		k.live[w] |= mask
		return false
	})
	return at, clash
}

func (k *chunk) touch(w int) {
	if w < k.lo {
		k.lo = w
	}
	if w > k.hi {
		k.hi = w
	}
}

// clear ends the life of n bytes at a.
func (g *granules) clear(a impls.Addr, n uint64) {
	first, last := a>>g.shift, (a+n-1)>>g.shift
	if first>>6 == last>>6 {
		k := g.chunk(first >> chunkBits)
		w := int(first>>6) & (chunkWords - 1)
		mask := ^uint64(0) << (first & 63) & (^uint64(0) >> (63 - last&63))
		k.live[w] &^= mask
		k.from[w] &^= mask
		return
	}
	g.span(a, n, func(k *chunk, w int, mask, _ uint64) bool {
		k.live[w] &^= mask
		k.from[w] &^= mask
		return false
	})
}

// start marks a as the first byte of an object.
func (g *granules) start(a impls.Addr) {
	n := a >> g.shift
	k := g.chunk(n >> chunkBits)
	k.from[int(n>>6)&(chunkWords-1)] |= 1 << (n & 63)
}

// starts says whether an object starts at a.
func (g *granules) starts(a impls.Addr) bool {
	n := a >> g.shift
	k := g.chunk(n >> chunkBits)
	return k.from[int(n>>6)&(chunkWords-1)]&(1<<(n&63)) != 0
}

// has says whether the byte at a is live.
func (g *granules) has(a impls.Addr) bool {
	n := a >> g.shift
	k := g.chunk(n >> chunkBits)
	return k.live[int(n>>6)&(chunkWords-1)]&(1<<(n&63)) != 0
}
