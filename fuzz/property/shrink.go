package property

import (
	"github.com/leanovate/gopter"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/edit"
)

// Shrink is the gopter.Shrinker of a *prog.Program. In this order it tries to leave out halves,
// quarters and so on down to single lines, contexts, departures and declarations, to have CPU 0 run
// the lines of a context, to open repeats, and to make counts, sizes, options, caches and the
// machine simpler. Every candidate is a program of one line or more that prog.Validate accepts (see
// package edit). Candidates are made when they are asked for; v is not changed.
func Shrink(v any) gopter.Shrink {
	p := v.(*prog.Program)
	all := cuts(p)
	return func() (any, bool) {
		for len(all) > 0 {
			k := all[0]
			all = all[1:]
			if q := k.Apply(p); q != nil && len(q.Lines) > 0 {
				return q, true
			}
		}
		return nil, false
	}
}

// cuts lists what could be simpler, the largest steps first.
func cuts(p *prog.Program) []edit.Cut {
	list := edit.Parts(p)
	list = append(list, edit.Contexts(p)...)
	list = append(list, edit.Departures(p)...)
	list = append(list, edit.Declarations(p)...)
	list = append(list, edit.Options(p)...)
	for _, n := range edit.Numbers(p) {
		list = append(list, n.Smaller()...)
	}
	return append(list, edit.Machine(p)...)
}
