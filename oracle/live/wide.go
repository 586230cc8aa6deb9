package live

import (
	"slices"
	"sort"

	"allocfuzz/impls"
)

// wideMost is how many chunks a block may span and still be kept by granules alone.
const wideMost = 4

// An interval is a range of whole chunks, all live: the inside of a large block. The chunks at
// its two ends are kept by granules like any other.
type interval struct{ from, to uint64 } // numbers of chunks, to is excluded

// A wide is a set of intervals in order, none of which touch.
type wide []interval

// at is the number of intervals that end at or before chunk n.
func (s wide) at(n uint64) int {
	return sort.Search(len(s), func(i int) bool { return s[i].to > n })
}

// first is the first chunk of [from, to) that is in the set.
func (s wide) first(from, to uint64) (n uint64, any bool) {
	i := s.at(from)
	if i == len(s) || s[i].from >= to {
		return 0, false
	}
	return max(s[i].from, from), true
}

// add puts [from, to) into the set.
func (s *wide) add(from, to uint64) {
	i := s.at(from)
	if i > 0 && (*s)[i-1].to == from {
		i--
	}
	j := i
	for ; j < len(*s) && (*s)[j].from <= to; j++ {
		from, to = min(from, (*s)[j].from), max(to, (*s)[j].to)
	}
	*s = slices.Replace(*s, i, j, interval{from, to})
}

// remove takes [from, to) out of the set.
func (s *wide) remove(from, to uint64) {
	i := s.at(from)
	j := i
	var rest []interval
	for ; j < len(*s) && (*s)[j].from < to; j++ {
		if k := (*s)[j]; k.from < from {
			rest = append(rest, interval{k.from, from})
		}
		if k := (*s)[j]; k.to > to {
			rest = append(rest, interval{to, k.to})
		}
	}
	*s = slices.Replace(*s, i, j, rest...)
}

// inside are the whole chunks of granules first to last that are not at its ends; none of a
// block that is not large.
func inside(first, last uint64) (from, to uint64) {
	from, to = first>>chunkBits+1, last>>chunkBits
	if to < from || to-from < wideMost {
		return 0, 0
	}
	return from, to
}

// addWide makes the inside of a large block live and returns the first address of it that was.
func (g *Bytes) addWide(from, to uint64) (at impls.Addr, clash bool) {
	at, clash = g.anyWide(from, to)
	g.wide.add(from, to)
	return at, clash
}

// anyWide is the first address of whole chunks that is live.
func (g *Bytes) anyWide(from, to uint64) (at impls.Addr, any bool) {
	if n, ok := g.wide.first(from, to); ok {
		at, any = n<<chunkBits<<g.shift, true
	}
	//tidy:maporder the smallest is looked for
	for n, k := range g.chunks {
		if n < from || n >= to || any && n<<chunkBits<<g.shift >= at {
			continue
		}
		if w, ok := k.first(); ok {
			at, any = (n<<chunkBits+w)<<g.shift, true
		}
	}
	return at, any
}

// first is the first live granule of a chunk.
func (k *chunk) first() (n uint64, any bool) {
	for w := max(k.lo, 0); w <= k.hi; w++ {
		if k.live[w] != 0 {
			return uint64(w)*64 + trailing(k.live[w]), true
		}
	}
	return 0, false
}

// removeWide ends the life of the inside of a large block.
func (g *Bytes) removeWide(from, to uint64) {
	g.wide.remove(from, to)
	//tidy:maporder every chunk by itself
	for n, k := range g.chunks {
		if n >= from && n < to && k.lo <= k.hi {
			clear(k.live[k.lo : k.hi+1])
			clear(k.from[k.lo : k.hi+1])
		}
	}
}

// narrow keeps the chunks at the ends of granules first to last, and every one between them that
// is not taken out as a whole, by granules where they are inside a large block: blocks that
// overlap are freed in any order, and leave parts of each other.
func (g *Bytes) narrow(first, last uint64) {
	from, to := inside(first, last)
	for n := first >> chunkBits; n <= last>>chunkBits; n++ {
		if n == from && from < to {
			n = to
		}
		if _, in := g.wide.first(n, n+1); !in {
			continue
		}
		g.wide.remove(n, n+1)
		k := g.chunk(n)
		k.lo, k.hi = 0, chunkWords-1
		for w := range k.live {
			k.live[w] = ^uint64(0)
		}
	}
}
