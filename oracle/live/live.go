// Package live is the set of bytes that belong to a program: what the model knows of
// memory.
package live

import (
	"math/bits"

	"allocfuzz/impls"
)

// Bytes is a set of live bytes in units of one granule, and of the granules
// at which an object starts. Addresses may be anywhere: memory is kept in chunks
// that are made when first touched, so a dense arena costs one look-up.
type Bytes struct {
	shift  uint
	chunks map[uint64]*chunk
	last   *chunk
	lastN  uint64
	used   []*chunk
	spare  []*chunk
	wide   wide // the insides of large blocks
}

func trailing(word uint64) uint64 { return uint64(bits.TrailingZeros64(word)) }

const (
	chunkBits  = 14 // granules a chunk, as a power of two
	chunkWords = 1 << chunkBits / 64
)

type chunk struct {
	live [chunkWords]uint64
	from [chunkWords]uint64 // granules at which an object starts
	lo   int                // words that may be set, for a cheap reset
	hi   int
}

// Reset empties the set; a granule is 1<<shift bytes.
func (g *Bytes) Reset(shift uint) {
	g.shift, g.last = shift, nil
	if g.chunks == nil {
		g.chunks = map[uint64]*chunk{}
	}
	clear(g.chunks)
	g.wide = g.wide[:0]
	for _, k := range g.used {
		if k.lo <= k.hi {
			clear(k.live[k.lo : k.hi+1])
			clear(k.from[k.lo : k.hi+1])
		}
		k.lo, k.hi = chunkWords, -1
	}
	g.spare = append(g.spare, g.used...)
	g.used = g.used[:0]
}

func (g *Bytes) chunk(n uint64) *chunk {
	if g.last != nil && g.lastN == n {
		return g.last
	}
	k := g.chunks[n]
	if k == nil {
		if len(g.spare) > 0 {
			k = g.spare[len(g.spare)-1]
			g.spare = g.spare[:len(g.spare)-1]
		} else {
			k = &chunk{lo: chunkWords, hi: -1}
		}
		g.used = append(g.used, k)
		g.chunks[n] = k
	}
	g.last, g.lastN = k, n
	return k
}

// span calls f for every word of the set that granules first to last touch, with the mask
// of those; f stops the walk by answering true.
func (g *Bytes) span(first, last uint64, f func(k *chunk, w int, mask, at uint64) bool) {
	for first <= last {
		k := g.chunk(first >> chunkBits)
		w := int(first>>6) & (chunkWords - 1)
		end := first | 63
		mask := ^uint64(0) << (first & 63)
		if end >= last {
			mask &= ^uint64(0) >> (63 - last&63)
		}
		if f(k, w, mask, first&^63) {
			return
		}
		if end >= last {
			return
		}
		first = end + 1
	}
}

// Add makes n bytes at a live and returns the first address that was live
// already.
func (g *Bytes) Add(a impls.Addr, n uint64) (at impls.Addr, clash bool) {
	first, last := a>>g.shift, (a+n-1)>>g.shift
	if first>>6 == last>>6 { // one word: the common case
		k := g.chunk(first >> chunkBits)
		w := int(first>>6) & (chunkWords - 1)
		mask := ^uint64(0) << (first & 63) & (^uint64(0) >> (63 - last&63))
		k.touch(w)
		was := k.live[w] & mask
		k.live[w] |= mask
		if len(g.wide) > 0 {
			if at, clash := g.inWide(first, last); clash {
				return at, clash
			}
		}
		if was == 0 {
			return 0, false
		}
		return (first&^63 + trailing(was)) << g.shift, true
	}
	if len(g.wide) > 0 {
		at, clash = g.inWide(first, last)
	}
	add := func(k *chunk, w int, mask, base uint64) bool {
		k.touch(w)
		if was := k.live[w] & mask; was != 0 && !clash {
			at, clash = (base+trailing(was))<<g.shift, true
		}
		k.live[w] |= mask
		return false
	}
	from, to := inside(first, last)
	if from == to {
		g.span(first, last, add)
		return at, clash
	}
	g.span(first, from<<chunkBits-1, add)
	if in, any := g.addWide(from, to); any && !clash {
		at, clash = in, true
	}
	g.span(to<<chunkBits, last, add)
	return at, clash
}

// inWide is the first address of granules first to last that is inside a large block.
func (g *Bytes) inWide(first, last uint64) (at impls.Addr, any bool) {
	n, any := g.wide.first(first>>chunkBits, last>>chunkBits+1)
	return max(n<<chunkBits, first) << g.shift, any
}

func (k *chunk) touch(w int) {
	if w < k.lo {
		k.lo = w
	}
	if w > k.hi {
		k.hi = w
	}
}

// Any returns the first address among n bytes at a that is live.
func (g *Bytes) Any(a impls.Addr, n uint64) (at impls.Addr, any bool) {
	if n == 0 {
		return 0, false
	}
	first, last := a>>g.shift, (a+n-1)>>g.shift
	if len(g.wide) > 0 {
		at, any = g.inWide(first, last)
	}
	look := func(k *chunk, w int, mask, base uint64) bool {
		was := k.live[w] & mask
		if was != 0 {
			if found := (base + trailing(was)) << g.shift; !any || found < at {
				at, any = found, true
			}
			return true
		}
		return false
	}
	from, to := inside(first, last)
	if from == to {
		g.span(first, last, look)
		return at, any
	}
	g.span(first, from<<chunkBits-1, look)
	if in, ok := g.anyWide(from, to); ok && (!any || in < at) {
		at, any = in, true
	}
	if !any {
		g.span(to<<chunkBits, last, look)
	}
	return at, any
}

// Remove ends the life of n bytes at a.
func (g *Bytes) Remove(a impls.Addr, n uint64) {
	first, last := a>>g.shift, (a+n-1)>>g.shift
	if first>>6 == last>>6 {
		k := g.chunk(first >> chunkBits)
		w := int(first>>6) & (chunkWords - 1)
		mask := ^uint64(0) << (first & 63) & (^uint64(0) >> (63 - last&63))
		if len(g.wide) > 0 {
			g.narrow(first, last)
		}
		k.live[w] &^= mask
		k.from[w] &^= mask
		return
	}
	if len(g.wide) > 0 { // a part of a large block may be what is taken out
		g.narrow(first, last)
	}
	cut := func(k *chunk, w int, mask, _ uint64) bool {
		k.live[w] &^= mask
		k.from[w] &^= mask
		return false
	}
	from, to := inside(first, last)
	if from == to {
		g.span(first, last, cut)
		return
	}
	g.span(first, from<<chunkBits-1, cut)
	g.removeWide(from, to)
	g.span(to<<chunkBits, last, cut)
}

// Start marks a as the first byte of an object.
func (g *Bytes) Start(a impls.Addr) {
	n := a >> g.shift
	k := g.chunk(n >> chunkBits)
	k.from[int(n>>6)&(chunkWords-1)] |= 1 << (n & 63)
}

// Starts says whether an object starts at a.
func (g *Bytes) Starts(a impls.Addr) bool {
	n := a >> g.shift
	k := g.chunk(n >> chunkBits)
	return k.from[int(n>>6)&(chunkWords-1)]&(1<<(n&63)) != 0
}

// Has says whether the byte at a is live.
func (g *Bytes) Has(a impls.Addr) bool {
	n := a >> g.shift
	k := g.chunk(n >> chunkBits)
	if len(g.wide) > 0 {
		if _, in := g.inWide(n, n); in {
			return true
		}
	}
	return k.live[int(n>>6)&(chunkWords-1)]&(1<<(n&63)) != 0
}
