package history

import (
	"cmp"
	"slices"

	"allocfuzz/impls"
)

// A tree knows which life was the last of each byte: a segment tree over the places at
// which ranges begin and end. A node is one life, none, or mixed.
type tree struct {
	cuts  []impls.Addr // the first byte of each piece; the last is an end
	nodes []int32
	taken []int32 // lives that the last assign replaced
}

// What a node is, when it is no life.
const (
	noLife int32 = -1
	mixed  int32 = -2
)

// reset makes the tree ready for the ranges of marks, with no life anywhere.
func (t *tree) reset(marks []mark) {
	t.cuts = t.cuts[:0]
	for i := range marks {
		at := marks[i].at
		t.cuts = append(t.cuts, at.Addr, at.Addr+at.Size)
	}
	slices.SortFunc(t.cuts, func(a, b impls.Addr) int {
		return cmp.Compare(a-1, b-1) // an end at the end of all addresses is 0
	})
	t.cuts = slices.Compact(t.cuts)
	pieces := len(t.cuts) - 1
	t.nodes = slices.Grow(t.nodes[:0], 4*pieces)[:4*pieces]
	for i := range t.nodes {
		t.nodes[i] = noLife
	}
}

// piece is the number of the piece that begins at a.
func (t *tree) piece(a impls.Addr) int {
	i, _ := slices.BinarySearchFunc(t.cuts, a, func(a, b impls.Addr) int {
		return cmp.Compare(a-1, b-1)
	})
	return i
}

// assign gives the bytes of a range to a life and returns the lives that had them last,
// each at least once. The list is valid until the next call.
func (t *tree) assign(r Range, life int32) []int32 {
	t.taken = t.taken[:0]
	t.give(span{0, 0, len(t.cuts) - 1}, span{0, t.piece(r.Addr), t.piece(r.Addr + r.Size)}, life)
	return t.taken
}

// A span is a node with the pieces from lo up to hi that it covers.
type span struct{ node, lo, hi int }

func (s span) halves() (left, right span) {
	mid := (s.lo + s.hi) / 2
	return span{2*s.node + 1, s.lo, mid}, span{2*s.node + 2, mid, s.hi}
}

func (t *tree) give(s, want span, life int32) {
	if want.hi <= s.lo || s.hi <= want.lo {
		return
	}
	inside := want.lo <= s.lo && s.hi <= want.hi
	was := t.nodes[s.node]
	if inside && was != mixed {
		if n := len(t.taken); was != noLife && (n == 0 || t.taken[n-1] != was) {
			t.taken = append(t.taken, was)
		}
		t.nodes[s.node] = life
		return
	}
	left, right := s.halves()
	if was != mixed {
		t.nodes[left.node], t.nodes[right.node] = was, was
	}
	t.give(left, want, life)
	t.give(right, want, life)
	t.nodes[s.node] = mixed
	if inside {
		t.nodes[s.node] = life
	}
}
