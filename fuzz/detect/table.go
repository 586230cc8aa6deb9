package detect

import (
	"slices"
	"strings"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// columns are the sets of debug options of the table: each alone, then more and more.
var columns = []debugcheck.Flags{
	debugcheck.Sanity, debugcheck.RedZone, debugcheck.Poison, debugcheck.StoreUser,
	debugcheck.Sanity | debugcheck.RedZone,
	debugcheck.Sanity | debugcheck.RedZone | debugcheck.Poison,
	debugcheck.Default,
}

// Columns lists the sets of options, in the order of the table. They must not be
// changed.
func Columns() []debugcheck.Flags { return columns }

// A Table holds the answers of subjects that answer alike.
type Table struct {
	Subjects []*impls.Variant
	Rules    debugcheck.Rules
	All      bool       // they are all of their family, by the first word of their names
	Answers  [][]Answer // by kind and column
}

// Name says whose table it is: the family when it is all of it, else every subject.
func (t *Table) Name() string {
	var names []string
	for _, v := range t.Subjects {
		names = append(names, v.Name)
	}
	if t.All && len(names) > 1 {
		names = []string{familyOf(t.Subjects[0]) + "-*"}
	}
	return strings.Join(names, ", ")
}

// familyOf is the first word of a subject's name.
func familyOf(v *impls.Variant) string {
	word, _, _ := strings.Cut(v.Name, "-")
	return word
}

// Tables finds out what the subjects answer, each under those of the rules that are for
// its family, or, without any, under its own. A subject that cannot be debugged is left
// out. An error says that a run was not as the model has it, or could not be made.
func Tables(subjects []*impls.Variant, rules []debugcheck.Rules) ([]*Table, error) {
	t := newTester()
	defer t.close()
	var out []*Table
	var asked []*impls.Variant
	for _, v := range subjects {
		if !v.Caps.Has(impls.CapDebug) || v.New == nil {
			continue
		}
		asked = append(asked, v)
		for _, r := range rulesFor(v, rules) {
			answers, err := t.answers(v, r)
			if err != nil {
				return nil, err
			}
			out = join(out, v, r, answers)
		}
	}
	for _, x := range out {
		x.All = x.holds(asked)
	}
	slices.SortStableFunc(out, func(a, b *Table) int { return int(a.Rules) - int(b.Rules) })
	return out, nil
}

// rulesFor are the rules, of those that were asked for, that are for a subject's family.
func rulesFor(v *impls.Variant, asked []debugcheck.Rules) []debugcheck.Rules {
	var out []debugcheck.Rules
	for _, r := range asked {
		if v.Rules != debugcheck.Guard && r != debugcheck.Guard && r.SLAB() == v.Rules.SLAB() &&
			!slices.Contains(out, r) {
			out = append(out, r)
		}
	}
	if out == nil {
		out = []debugcheck.Rules{v.Rules}
	}
	return out
}

// answers are those of one subject.
func (t *tester) answers(v *impls.Variant, r debugcheck.Rules) ([][]Answer, error) {
	out := make([][]Answer, len(kinds))
	for i := range kinds {
		for _, f := range columns {
			a, err := t.answer(&kinds[i], v, f, r)
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], a)
		}
	}
	return out, nil
}

// join adds a subject to the table of those that answer as it does, or a new one.
func join(list []*Table, v *impls.Variant, r debugcheck.Rules, answers [][]Answer) []*Table {
	for _, x := range list {
		if x.Rules == r && familyOf(x.Subjects[0]) == familyOf(v) && alike(x.Answers, answers) {
			x.Subjects = append(x.Subjects, v)
			return list
		}
	}
	return append(list, &Table{Subjects: []*impls.Variant{v}, Rules: r, Answers: answers})
}

// alike says whether two subjects answer the same throughout.
func alike(a, b [][]Answer) bool {
	return slices.EqualFunc(a, b, func(x, y []Answer) bool { return slices.Equal(x, y) })
}

// holds says whether a table is that of every subject of its family among some.
func (t *Table) holds(all []*impls.Variant) bool {
	n := 0
	for _, v := range all {
		if familyOf(v) == familyOf(t.Subjects[0]) {
			n++
		}
	}
	return n == len(t.Subjects)
}
