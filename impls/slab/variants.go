package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
)

// caps is what every variant of the family can do.
const caps = impls.CapObjects | impls.CapSizes | impls.CapPages | impls.CapZero | impls.CapAlign |
	impls.CapZeroAlign | impls.CapRealloc | impls.CapUsable | impls.CapShrink |
	impls.CapDestroy | impls.CapIRQ | impls.CapSMP

var variants = []*impls.Variant{
	{
		Name:     "slab-2001-threelists",
		Alias:    "slab-locked",
		Row:      "S1c",
		Year:     2001,
		About:    "full, partial and free slabs on lists of their own under one lock",
		Axes:     []impls.Axis{{Name: "lists", Value: "three"}, {Name: "arrays", Value: "none"}},
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Sound:    true,
		Caps:     caps | impls.CapReuseLIFO,
		Profile:  kmalloc.Profile,
		New:      with(newThreeLists),
	},
}

// Variants returns the variants of the family in order of their source rows.
func Variants() []*impls.Variant { return variants }
