package pairs

import (
	"allocfuzz/impls"
	"allocfuzz/impls/all"
)

// A View is what of a pair is compared.
type View uint8

// The views, from the sharpest on.
const (
	// Whole is outcomes, addresses, pages in the order in which they go and come, every
	// list in order with the freelists of its slabs, counters, and what was reported.
	Whole View = iota
	// Uncoloured is Whole but for the colours: an object goes by its page and its number
	// in its slab. Programs with misuse do not apply: what lies behind an object depends
	// on the colour of its slab.
	Uncoloured
	// Outcomes is what each operation of one task answered and nothing else. Each side
	// runs on a machine that it is made for. Programs with misuse do not apply, since
	// what is hit depends on addresses, nor those of several contexts or with departures,
	// which meet other points on each side.
	Outcomes
)

// A Row is a pair in the table.
type Row struct {
	Row     string // of the seed table
	A, B    string // names of the subjects
	View    View
	LeftOut string // what is not compared, and why
}

// rows is the one table of what is equal by design.
var rows = []Row{
	{"S1c≡S1d", "slab-2001-threelists", "slab-2001-threelists-opt", Whole,
		"moves between the lists under the lock: the optimised lists make one more or one less"},
	{"S1a≡S1b′", "slab-2001-onelist", "slab-2001-onelist-lifo-posted", Whole,
		"the promise of the one that breaks it"},
	{"S3a≡S3b", "slab-colour-locked", "slab-colour-racy", Uncoloured,
		"colours: they are taken in another place, and a refused page uses one up or none"},
	{"S4b≡S5b", "slub-2021-partial-irqsave", "slub-2022-debug-locked", Outcomes,
		"addresses, pages and lists: the debugging of one is locked otherwise"},
	{"S4b≡S4c", "slub-2021-partial-irqsave", "slub-2021-partial-locallock", Outcomes,
		"addresses, pages and lists: where what belongs to a CPU is locked otherwise"},
}

// Rows returns the table. Do not change it.
func Rows() []Row { return rows }

// All returns the pairs of the table, afresh: those whose subjects there are.
func All() []*Pair { return Of(all.Variants()) }

// Of returns the pairs, afresh, of which both subjects are among those given.
func Of(subjects []*impls.Variant) []*Pair {
	var out []*Pair
	for i := range rows {
		a, b := named(subjects, rows[i].A), named(subjects, rows[i].B)
		if a != nil && b != nil {
			out = append(out, New(&rows[i], a, b))
		}
	}
	return out
}

// Subjects returns the subjects of every pair that has one of those given, or of all
// pairs when none has.
func Subjects(given []*impls.Variant) []*impls.Variant {
	var some, every []*impls.Variant
	for i := range rows {
		a, b := subject(given, rows[i].A), subject(given, rows[i].B)
		if a == nil || b == nil {
			continue
		}
		every = add(every, a, b)
		if named(given, a.Name) != nil || named(given, b.Name) != nil {
			some = add(some, a, b)
		}
	}
	if len(some) == 0 {
		return every
	}
	return some
}

// subject finds a subject among those given, or else among all.
func subject(given []*impls.Variant, name string) *impls.Variant {
	if v := named(given, name); v != nil {
		return v
	}
	v, _ := all.Lookup(name)
	return v
}

// named finds a subject by its name; nil when there is none.
func named(subjects []*impls.Variant, name string) *impls.Variant {
	for _, v := range subjects {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// add appends what is not yet in a list.
func add(list []*impls.Variant, more ...*impls.Variant) []*impls.Variant {
	for _, v := range more {
		if named(list, v.Name) == nil {
			list = append(list, v)
		}
	}
	return list
}
