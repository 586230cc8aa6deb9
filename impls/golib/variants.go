package golib

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Versions of the modules under test, as go.mod has them.
const (
	moderncVersion = "v1.13.0"
	wasmVersion    = "v0.4.22"
	mcacheVersion  = "v0.1.4"
)

// Alignments that they promise: modernc.org/memory two words of the host, the
// translated ones that of C's max_align_t in 32-bit WebAssembly.
const (
	word      = 4 << (^uintptr(0) >> 63)
	wasmAlign = 16
)

// noMemalign makes caches of objects never ask for an alignment. One that is above
// what the profile promises is not supported without CapAlign.
const noMemalign = 1 << 62

// all are the kinds of kernel: a subject that knows none runs on any.
var all = []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT}

const (
	wrapCaps = impls.CapObjects | impls.CapSizes | impls.CapDestroy | impls.CapCtor |
		impls.CapBulk
	moderncCaps = wrapCaps | impls.CapZero | impls.CapRealloc | impls.CapUsable
	wasmCaps    = wrapCaps | impls.CapAlign | impls.CapRealloc
)

// Variants returns the outside Go allocators, in order. Each call makes its own
// pools of heaps.
func Variants() []*impls.Variant {
	return []*impls.Variant{
		{
			Name: "go-modernc-memory", Year: 2026, Machines: all, Sound: true, Caps: moderncCaps,
			About: "modernc.org/memory " + moderncVersion +
				": size classes on 64 KiB pages from the system, at most 64 MiB live here",
			Profile: impls.Profile{MallocZero: impls.Never, ReallocZero: impls.Always,
				MinAlign: 2 * word, Source: "own documentation"},
			New: pooled(newModernc, noMemalign),
		},
		{
			Name: "go-wasm2go-sbrk", Year: 2026, Machines: all, Sound: true, Caps: wasmCaps,
			About: "Doug Lea's malloc, translated to Go by github.com/ncruces/wasm2go " +
				wasmVersion + ", in a byte heap of up to 64 MiB",
			Profile: impls.Profile{MallocZero: impls.Always, ReallocZero: impls.Never,
				MinAlign: wasmAlign, Source: "own documentation"},
			New: pooled(newSbrk, wasmAlign),
		},
		{
			Name: "go-wasm2go-tlsf", Year: 2026, Machines: all, Sound: true, Caps: wasmCaps,
			About: "a two-level segregated fit allocator, translated to Go by " +
				"github.com/ncruces/wasm2go " + wasmVersion + ", in a byte heap of up to 64 MiB",
			Profile: impls.Profile{MinAlign: wasmAlign, Source: "own documentation"},
			New:     pooled(newTLSF, wasmAlign),
		},
		{
			Name: "go-wasm2go-bump", Year: 2026, Machines: all, Sound: true, Caps: wasmCaps,
			About: "a bump allocator, which uses only the newest block again, translated to Go " +
				"by github.com/ncruces/wasm2go " + wasmVersion + ", in a byte heap of up to 64 MiB",
			Profile: impls.Profile{ReallocZero: impls.Always, MinAlign: wasmAlign,
				Reuse: impls.Never, Source: "comments in malloc_bump.c"},
			New: pooled(newBump, wasmAlign),
		},
		mcacheVariant(),
	}
}

// pooled is the New of a variant over one kind of backend; least is the alignment
// up to which caches of objects use Malloc.
func pooled(make func(*table[uint64]) backend,
	least uint64) func(*machine.Machine) impls.Instance {
	p := &pool{make: make, least: least}
	return func(*machine.Machine) impls.Instance { return p.get() }
}
