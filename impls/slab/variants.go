package slab

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// caps is what every variant of the family can do.
const caps = impls.CapObjects | impls.CapSizes | impls.CapPages | impls.CapZero | impls.CapAlign |
	impls.CapZeroAlign | impls.CapRealloc | impls.CapUsable | impls.CapShrink |
	impls.CapDestroy | impls.CapDebug | impls.CapIRQ | impls.CapSMP | impls.CapCtor

var variants = []*impls.Variant{
	{
		Name:     "slab-2001-threelists",
		Alias:    "slab-locked",
		Row:      "S1c",
		Year:     2001,
		About:    "full, partial and free slabs on lists of their own under one lock",
		Axes:     []impls.Axis{{Name: "lists", Value: "three"}, {Name: "arrays", Value: "none"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      with(newThreeLists),
	},
	{
		Name:     "slab-2001-onelist",
		Row:      "S1a",
		Year:     2001,
		About:    "one list of slabs, full before partial before free, and a pointer into it",
		Axes:     []impls.Axis{{Name: "lists", Value: "one"}, {Name: "arrays", Value: "none"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps,
		Profile:  kmalloc.Profile,
		New:      with(newOneList),
	},
	{
		Name:  "slab-2001-onelist-lifo",
		Row:   "S1b",
		Year:  2001,
		About: "one list where an emptied slab stays before the free ones",
		Axes: []impls.Axis{{Name: "lists", Value: "one, LIFO"},
			{Name: "arrays", Value: "none"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      with(newOneListLIFO),
	},
	{
		Name:  "slab-2001-onelist-lifo-posted",
		Row:   "S1b′",
		Year:  2001,
		About: "that repair as mailed: an emptied slab goes to the tail still",
		Axes: []impls.Axis{{Name: "lists", Value: "one, LIFO as mailed"},
			{Name: "arrays", Value: "none"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Finds:    impls.Finds{Consequence: string(fault.ReuseOrder)},
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      with(newOneListPosted),
	},
	{
		Name:  "slab-2001-threelists-opt",
		Row:   "S1d",
		Year:  2001,
		About: "three lists where a free slab becomes partial when it is picked",
		Axes: []impls.Axis{{Name: "lists", Value: "three, optimised"},
			{Name: "arrays", Value: "none"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      with(newThreeListsOpt),
	},
	{
		Name:  "slab-2001-threelists-percpu",
		Row:   "S1h",
		Year:  2001,
		About: "three lists over a page allocator with a pool of single pages for each CPU",
		Axes: []impls.Axis{{Name: "lists", Value: "three"}, {Name: "arrays", Value: "none"},
			{Name: "pages", Value: "per-CPU pools"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps | impls.CapReuseLIFO | impls.CapDrain,
		Profile:  kmalloc.Profile,
		Racy:     page.Racy(),
		New:      over(pooled, newThreeLists),
	},
	{
		Name:  "slab-2001-offslab",
		Row:   "S1g",
		Year:  2001,
		About: "slabs of large objects are described in objects of a general cache",
		Axes: []impls.Axis{{Name: "lists", Value: "three"}, {Name: "arrays", Value: "none"},
			{Name: "management", Value: "off the slab from the 8th part of a page on"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      keeping(offSlab{}, with(newThreeLists)),
	},
	{
		Name:  "slab-2001-offslab-half",
		Row:   "S1g",
		Year:  2001,
		About: "the same with a limit of objects that is twice too high",
		Axes: []impls.Axis{{Name: "lists", Value: "three"}, {Name: "arrays", Value: "none"},
			{Name: "management", Value: "off the slab, limit divided by 2"}},
		Rules:    debugcheck.SLAB24,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Finds:    impls.Finds{Consequence: string(fault.OffSlabLimit)},
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      keeping(offSlabHalf{}, with(newThreeLists)),
	},
}

// Variants returns the variants of the family the reference first.
func Variants() []*impls.Variant { return variants }
