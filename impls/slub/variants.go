package slub

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
	impls.CapZeroAlign | impls.CapRealloc | impls.CapUsable | impls.CapShrink | impls.CapDestroy |
	impls.CapDrain | impls.CapDebug | impls.CapIRQ | impls.CapSMP | impls.CapCtor |
	impls.CapFlush | impls.CapOffline | impls.CapBulk | impls.CapFailSlab | impls.CapRCU |
	impls.CapZeroRealloc

// machines are the kernels of the time: none of them real-time.
var machines = []machine.Preempt{machine.PreemptNone, machine.PreemptFull}

// everyMachine are the kernels since 2021, real-time ones among them.
var everyMachine = []machine.Preempt{machine.PreemptNone, machine.PreemptFull,
	machine.PreemptRT}

// variants are the designs that existed, oldest first.
var variants = []*impls.Variant{
	{
		Name: "slub-2008-irqsave", Row: "S2a", Year: 2008, Sound: true,
		About: "interrupts off around the CPU's freelist",
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "node only"},
			{Name: "size classes", Value: kmalloc.Page2008.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: irqsOff{}, partial: noPartial{}, locking: lockedDebug{},
			classes: kmalloc.Page2008}.new,
	},
	{
		Name: "slub-2008-cmpxchg", Row: "S2b", Year: 2008,
		About: "a local cmpxchg of the freelist's head alone: an interrupt can bring the head back",
		Finds: impls.Finds{Step: string(fault.LiveOnFreelist), Consequence: string(fault.TwiceOut)},
		Axes: []impls.Axis{{Name: "fast path", Value: "cmpxchg"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "node only"},
			{Name: "size classes", Value: kmalloc.Page2008.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{objectLink, allocTrack},
		New: design{layer: page.Plain, fast: cmpxchgLocal{}, start: takeList{},
			exclusion: irqsOff{}, partial: noPartial{}, locking: lockedDebug{},
			classes: kmalloc.Page2008}.new,
	},
	{
		Name: "slub-2008-seq", Row: "S2c, S2d, S2e, S2f, S2g", Year: 2008, Sound: true,
		About: "a local cmpxchg of the freelist's head with a sequence number",
		Axes: []impls.Axis{{Name: "fast path", Value: "cmpxchg with sequence number"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "node only"},
			{Name: "size classes", Value: kmalloc.Page2008.Name}},
		Machines: machines, Caps: caps, Profile: kmalloc.Profile,
		Racy: []*machine.Field{cpuBase, objectLink, allocTrack},
		New: design{layer: page.Plain, fast: cmpxchgSeq{}, start: takeList{},
			exclusion: irqsOff{}, partial: noPartial{}, locking: lockedDebug{},
			classes: kmalloc.Page2008}.new,
	},
	{
		Name: "slub-2008-seq-slowpath", Row: "S2g", Year: 2008,
		About: "the same over the slow path of the time, which overwrites the CPU's list",
		Finds: impls.Finds{Consequence: string(fault.FreeLost)},
		Axes: []impls.Axis{{Name: "fast path", Value: "cmpxchg with sequence number"},
			{Name: "slow path", Value: "overwrites the list"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "node only"},
			{Name: "size classes", Value: kmalloc.Page2008.Name}},
		Machines: machines, Caps: caps, Profile: kmalloc.Profile,
		Racy: []*machine.Field{cpuBase, objectLink, allocTrack},
		New: design{layer: page.Plain, fast: cmpxchgSeq{}, start: overwriteList{},
			exclusion: irqsOff{}, partial: noPartial{}, locking: lockedDebug{},
			classes: kmalloc.Page2008}.new,
	},
	{
		Name: "slub-2011-tid", Row: "S2c, S2d, S2e, S2f, S2g", Year: 2011, Sound: true,
		About: "the later form: a double-word cmpxchg of the freelist's head and a transaction " +
			"id, with no hold on the CPU",
		Axes: []impls.Axis{{Name: "fast path", Value: "double cmpxchg with transaction id"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "node only"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{objectLink, allocTrack},
		New: design{layer: page.Plain, fast: cmpxchgDouble{}, start: takeList{},
			exclusion: irqsOff{}, partial: noPartial{}, locking: lockedDebug{},
			classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2021-partial-cmpxchg", Row: "S4a", Year: 2021,
		About: "per-CPU partial lists that are pushed by a local cmpxchg, with counts that are " +
			"read before it",
		Finds: impls.Finds{Step: string(fault.StaleView), Consequence: string(fault.CountWrong)},
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "per CPU, cmpxchg"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{headPages, headObjects, allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: irqsOff{}, partial: cmpxchgPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2021-partial-cmpxchg-irqson", Row: "S4a′", Year: 2021,
		About: "the same where the slow path takes slabs from the list with interrupts on",
		Finds: impls.Finds{Consequence: string(fault.SlabLost)},
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "local lock"},
			{Name: "partial list", Value: "per CPU, cmpxchg, taken from with interrupts on"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: everyMachine, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{headPages, headObjects, allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: localLock{}, partial: irqsOnPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2021-partial-irqsave", Row: "S4b", Year: 2021, Sound: true,
		About: "per-CPU partial lists that are pushed under disabled interrupts",
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "per CPU, locked"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: irqsOff{}, partial: lockedPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2021-partial-irqsave-pools", Row: "S4b, S1h", Year: 2021, Sound: true,
		About: "the same over a page allocator with a pool of single pages for each CPU",
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "per CPU, locked"},
			{Name: "pages", Value: "per-CPU pools"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: append(page.Racy(), allocTrack),
		New: design{layer: page.Pooled, fast: locked{}, start: takeList{},
			exclusion: irqsOff{}, partial: lockedPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2021-tid-partial", Row: "S4b, S2c, S2d, S2e, S2f, S2g", Year: 2021, Sound: true,
		About: "both: transaction ids, and per-CPU partial lists under disabled interrupts",
		Axes: []impls.Axis{{Name: "fast path", Value: "double cmpxchg with transaction id"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "per CPU, locked"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{objectLink, allocTrack},
		New: design{layer: page.Plain, fast: cmpxchgDouble{}, start: takeList{},
			exclusion: irqsOff{}, partial: lockedPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2021-partial-locallock", Row: "S4c", Year: 2021, Sound: true,
		About: "what belongs to a CPU is under a local lock, which sleeps on real-time kernels",
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "local lock"},
			{Name: "partial list", Value: "per CPU, locked"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: everyMachine, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: localLock{}, partial: lockedPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2022-debug-racy", Row: "S5a", Year: 2022,
		About: "debug caches mark a freed object under one hold of the list lock and link it " +
			"under the next",
		Finds: impls.Finds{
			Consequence: string(fault.FalseReport) + ": " + debugcheck.TitleLeftRedzone},
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "per CPU, locked"},
			{Name: "debug locking", Value: "marked, then linked"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: irqsOff{}, partial: lockedPartial{}, locking: racyDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
	{
		Name: "slub-2022-debug-locked", Row: "S5b, S5c", Year: 2022, Sound: true,
		About: "debug caches hold the list lock from the check of a freed object to its link",
		Axes: []impls.Axis{{Name: "fast path", Value: "locked"},
			{Name: "exclusion", Value: "interrupts off"},
			{Name: "partial list", Value: "per CPU, locked"},
			{Name: "debug locking", Value: "list lock throughout"},
			{Name: "size classes", Value: kmalloc.TwoPages.Name}},
		Machines: machines, Caps: caps | impls.CapReuseLIFO, Profile: kmalloc.Profile,
		Racy: []*machine.Field{allocTrack},
		New: design{layer: page.Plain, fast: locked{}, start: takeList{},
			exclusion: irqsOff{}, partial: lockedPartial{}, locking: lockedDebug{},
			middle: true, classes: kmalloc.TwoPages}.new,
	},
}

// Variants returns the allocators of this family, oldest first. Do not change
// what they point to.
func Variants() []*impls.Variant { return append([]*impls.Variant(nil), variants...) }
