package thin

import (
	"cmp"
	"slices"
)

// A Cover is what one input covers.
type Cover struct {
	Name     string
	Size     int // bytes
	Features []Feature
}

// Pick returns the names of inputs that cover together what all cover, in order: the smallest
// ones first, each that covers something new, and then without those that the others made needless.
// None of what it returns can be left out.
func Pick(inputs []Cover) []string {
	list := slices.Clone(inputs)
	slices.SortFunc(list, bySize)
	times := map[Feature]int{}
	var kept []Cover
	for _, in := range list {
		fresh := slices.ContainsFunc(in.Features, func(f Feature) bool { return times[f] == 0 })
		if !fresh {
			continue
		}
		kept = append(kept, in)
		for _, f := range distinct(in.Features) {
			times[f]++
		}
	}
	var names []string
	for _, in := range slices.Backward(kept) { // the large ones go first
		own := distinct(in.Features)
		if slices.ContainsFunc(own, func(f Feature) bool { return times[f] == 1 }) {
			names = append(names, in.Name)
			continue
		}
		for _, f := range own {
			times[f]--
		}
	}
	slices.Sort(names)
	return names
}

// distinct are features, each once.
func distinct(list []Feature) []Feature {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// Covered is what inputs cover together.
func Covered(inputs []Cover) map[Feature]bool {
	all := map[Feature]bool{}
	for _, in := range inputs {
		for _, f := range in.Features {
			all[f] = true
		}
	}
	return all
}

// Fresh returns the names of inputs that cover what old ones do not, the smallest first: each
// covers something that neither they nor the others before it do.
func Fresh(old, inputs []Cover) []string {
	have := Covered(old)
	list := slices.Clone(inputs)
	slices.SortFunc(list, bySize)
	var names []string
	for _, in := range list {
		fresh := false
		for _, f := range in.Features {
			fresh = fresh || !have[f]
			have[f] = true
		}
		if fresh {
			names = append(names, in.Name)
		}
	}
	return names
}

// bySize orders inputs: the smallest first, and those of one size by name.
func bySize(a, b Cover) int {
	return cmp.Or(cmp.Compare(a.Size, b.Size), cmp.Compare(a.Name, b.Name))
}
