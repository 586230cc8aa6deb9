package impls

import (
	"math/bits"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// This file is what an allocator of a real process can do and promise beside the
// contract: an Allocator has these methods where it has them.

// A Callocer is an Allocator whose calloc takes a count: whether their product fits is its
// own to see.
type Callocer interface {
	Allocator
	// Calloc is n elements of size bytes, zeroed; 0 where there is no memory or the product
	// is none.
	Calloc(c *machine.Ctx, n, size uint64) Addr
}

// A SizedFreer is an Allocator that is told the size of what comes back.
type SizedFreer interface {
	Allocator
	// FreeSized is Free of memory for which size bytes were asked.
	FreeSized(c *machine.Ctx, p Addr, size uint64)
}

// A Witness is an Allocator that looks at promises which nobody else can see kept: what a
// failed call left in errno, the size that the library says it would give.
type Witness interface {
	Allocator
	// Broke is what the last call of c broke, and the evidence; "" for nothing. It is
	// told once.
	Broke(c *machine.Ctx) (fault.Title, string)
}

// Alignment is what the address of size bytes is a multiple of, unless more was asked for.
func (p *Profile) Alignment(size uint64) uint64 {
	align := max(p.MinAlign, 1)
	if p.SizeAlign && size < align {
		align = 1
		if size > 0 {
			align = 1 << (bits.Len64(size) - 1)
		}
	}
	return align
}
