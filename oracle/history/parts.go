package history

import (
	"cmp"
	"slices"
)

// Parts divides a history into parts that say nothing about each other: operations whose
// ranges overlap hang together, so do the two ranges of a realloc. Each part is numbers of
// operations in order; the last one is those with no range, and may be empty.
func (h *History) Parts() [][]int {
	type place struct {
		at Range
		op int
	}
	var places []place
	group := make([]int, len(h.Ops))
	for i := range h.Ops {
		group[i] = i
		for _, at := range []Range{h.Ops[i].Old, h.Ops[i].New} {
			if at.Size > 0 {
				places = append(places, place{at, i})
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return cmp.Compare(a.at.Addr, b.at.Addr) })
	for i := 1; i < len(places); i++ {
		a, b := &places[i-1], &places[i]
		if a.at.Addr+(a.at.Size-1) >= b.at.Addr {
			group[root(group, b.op)] = root(group, a.op)
			if b.at.Addr+(b.at.Size-1) < a.at.Addr+(a.at.Size-1) {
				b.at = a.at // what comes next may overlap the longer one only
			}
		}
	}
	return h.gather(group)
}

// root is the operation that stands for the part of operation i.
func root(group []int, i int) int {
	for group[i] != i {
		group[i] = group[group[i]]
		i = group[i]
	}
	return i
}

// gather lists the operations of each part.
func (h *History) gather(group []int) [][]int {
	var parts [][]int
	var bare []int
	number := map[int]int{}
	for i := range h.Ops {
		if h.Ops[i].Old.Size == 0 && h.Ops[i].New.Size == 0 {
			bare = append(bare, i)
			continue
		}
		r := root(group, i)
		n, ok := number[r]
		if !ok {
			n = len(parts)
			number[r] = n
			parts = append(parts, nil)
		}
		parts[n] = append(parts[n], i)
	}
	return append(parts, bare)
}

// Around is the part of the history that a violation is in.
func (h *History) Around(v *Violation) *History {
	for _, part := range h.Parts() {
		if slices.Contains(part, v.Second) {
			return h.Part(part)
		}
	}
	return h
}
