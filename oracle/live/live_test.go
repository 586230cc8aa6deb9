package live

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"allocfuzz/impls"
)

// naive is the same set, granule by granule.
type naive struct {
	shift      uint
	live, from map[impls.Addr]bool
}

func (m *naive) granules(a impls.Addr, n uint64, f func(g impls.Addr)) {
	for g := a >> m.shift; g <= (a+n-1)>>m.shift; g++ {
		f(g)
	}
}

func (m *naive) add(a impls.Addr, n uint64) (at impls.Addr, clash bool) {
	m.granules(a, n, func(g impls.Addr) {
		if m.live[g] && !clash {
			at, clash = g<<m.shift, true
		}
		m.live[g] = true
	})
	return at, clash
}

func (m *naive) remove(a impls.Addr, n uint64) {
	m.granules(a, n, func(g impls.Addr) {
		delete(m.live, g)
		delete(m.from, g)
	})
}

// pair is a set beside the naive one.
type pair struct {
	t *testing.T
	g Bytes
	m naive
}

func (p *pair) reset(shift uint) {
	p.g.Reset(shift)
	p.m = naive{shift, map[impls.Addr]bool{}, map[impls.Addr]bool{}}
}

func (p *pair) add(a impls.Addr, n uint64) {
	p.t.Helper()
	at, clash := p.g.Add(a, n)
	if wantAt, want := p.m.add(a, n); at != wantAt || clash != want {
		p.t.Fatalf("add %#x, %d: %#x, %v; want %#x, %v", a, n, at, clash, wantAt, want)
	}
	p.g.Start(a)
	p.m.from[a>>p.m.shift] = true
}

func (p *pair) remove(a impls.Addr, n uint64) {
	p.g.Remove(a, n)
	p.m.remove(a, n)
}

// same looks at every granule from a up to b.
func (p *pair) same(a, b impls.Addr) {
	p.t.Helper()
	for g := a >> p.m.shift; g <= b>>p.m.shift; g++ {
		at := g << p.m.shift
		if p.g.Has(at) != p.m.live[g] || p.g.Starts(at) != p.m.from[g] {
			p.t.Fatalf("%#x is live %v and starts %v; want %v and %v", at, p.g.Has(at),
				p.g.Starts(at), p.m.live[g], p.m.from[g])
		}
	}
}

// borders are addresses around which words and chunks begin, in granules.
var borders = []uint64{0, 64, 128, 1 << chunkBits, 3 << chunkBits, 1<<40 + 1<<chunkBits,
	1<<52 + 64}

// TestBorders: ranges that end, begin and lie across the borders of words and chunks, in
// every order of two.
func TestBorders(t *testing.T) {
	for _, shift := range []uint{0, 3} {
		for _, border := range borders {
			t.Run(fmt.Sprintf("%d/%#x", shift, border), func(t *testing.T) {
				aroundBorder(t, shift, border)
			})
		}
	}
}

func aroundBorder(t *testing.T, shift uint, border uint64) {
	p := &pair{t: t}
	unit := uint64(1) << shift
	var ranges [][2]uint64 // from and to, in granules
	for _, from := range []uint64{border - 65, border - 1, border, border + 1, border + 63} {
		for _, n := range []uint64{1, 64, 130} {
			if from < border+1<<20 { // not below 0
				ranges = append(ranges, [2]uint64{from, from + n})
			}
		}
	}
	ranges = append(ranges, [2]uint64{border + 1, border + 1<<chunkBits + 2})
	low := max(border, 140) - 140
	for i, x := range ranges {
		for j, y := range ranges {
			if j == len(ranges)-1 && i%5 > 0 {
				continue // the long one
			}
			p.reset(shift)
			p.add(x[0]*unit, (x[1]-x[0])*unit)
			p.add(y[0]*unit, (y[1]-y[0])*unit)
			p.remove(x[0]*unit, (x[1]-x[0])*unit)
			p.same(low*unit, (border+200)*unit)
			p.same((x[1]-1)*unit, (x[1]+1)*unit)
		}
	}
}

// TestRandom: long histories of ranges of odd sizes, with resets between them.
func TestRandom(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	p := &pair{t: t}
	for round := range 40 {
		p.reset(uint(round % 5))
		base := borders[rng.IntN(len(borders))] << p.m.shift
		type span struct{ a, n uint64 }
		var live []span
		for range 200 {
			if len(live) > 0 && rng.IntN(3) == 0 {
				i := rng.IntN(len(live))
				p.remove(live[i].a, live[i].n)
				live[i] = live[len(live)-1]
				live = live[:len(live)-1]
				continue
			}
			s := span{base + rng.Uint64N(9000), 1 + rng.Uint64N(1<<rng.IntN(11))}
			p.add(s.a, s.n)
			live = append(live, s)
		}
		p.same(base, base+9000+2048)
	}
}
