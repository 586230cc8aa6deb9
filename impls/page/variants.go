package page

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// caps is what every variant of the family can do.
const caps = impls.CapPages | impls.CapZero | impls.CapDrain | impls.CapIRQ | impls.CapSMP |
	impls.CapOffline

var profile = impls.Profile{MinAlign: 8, Source: "Linux, alloc_pages"}

var everyMachine = []machine.Preempt{machine.PreemptNone, machine.PreemptFull,
	machine.PreemptRT}

// axes are the choices of a variant.
func axes(pools, entry string) []impls.Axis {
	a := []impls.Axis{{Name: "pools", Value: pools}}
	if entry != "" {
		a = append(a, impls.Axis{Name: "entry", Value: entry})
	}
	return a
}

// cpuFirstPools is the layer with the pools as mailed.
func cpuFirstPools(m *machine.Machine) Layer { return newPool(m, cpuFirst{}) }

var variants = []*impls.Variant{
	{
		Name: "page-buddy", Row: "S1h", Year: 1999, Sound: true,
		About:    "blocks of pages that are split and joined, under one lock",
		Axes:     axes("none", ""),
		Machines: everyMachine, Caps: caps, Profile: profile,
		New: alone(Plain),
	},
	{
		Name: "page-2001-percpu", Row: "S1h", Year: 2001, Sound: true,
		About: "a pool of single pages for each CPU, as mailed: it asks for its CPU before " +
			"interrupts go off",
		Axes:     axes("per CPU", "CPU first"),
		Machines: []machine.Preempt{machine.PreemptNone}, Caps: caps | impls.CapReuseLIFO,
		Profile: profile, Racy: Racy(), New: alone(cpuFirstPools),
	},
	{
		Name: "page-2001-percpu-preempt", Row: "S1h", Year: 2001,
		About: "the same where tasks are preempted: a task that moves changes the pool of the " +
			"CPU that it left",
		Finds: impls.Finds{Step: string(fault.ForeignPerCPU),
			Consequence: string(fault.TwiceOut)},
		Axes:     axes("per CPU", "CPU first"),
		Machines: []machine.Preempt{machine.PreemptFull}, Caps: caps | impls.CapReuseLIFO,
		Profile: profile, Racy: Racy(), New: alone(cpuFirstPools),
	},
	{
		Name: "page-2001-percpu-irqfirst", Row: "S1h", Year: 2001, Sound: true,
		About:    "the same with the two in the other order, for kernels of every kind",
		Axes:     axes("per CPU", "interrupts off first"),
		Machines: everyMachine, Caps: caps | impls.CapReuseLIFO,
		Profile: profile, Racy: Racy(), New: alone(Pooled),
	},
}

// Racy are the racy fields of a page allocator with pools, for families over one.
func Racy() []*machine.Field { return []*machine.Field{zoneShort} }

// Variants returns the page allocators that are under test by themselves. Do not change
// what they point to.
func Variants() []*impls.Variant { return append([]*impls.Variant(nil), variants...) }
