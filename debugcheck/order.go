package debugcheck

import (
	"fmt"
	"math/bits"
)

// The kernel's own bounds of slabs.
const (
	MaxObjects = 1<<15 - 1 // objects of a slab: the count is a field of 15 bits
	UsualOrder = 3         // slab_max_order: highest order of a slab of several objects
	LastOrder  = 10        // highest order of any slab
)

// Bounds are what the choice of a slab's order depends on, besides the size.
type Bounds struct {
	PageSize   uint64 // a power of two
	CPUs       int    // by their number a slab should hold more objects
	MinObjects int    // slab_min_objects; 0 is by the number of CPUs
	MinOrder   int    // slab_min_order, 0 to TopOrder
	MaxOrder   int    // slab_max_order, 0 to TopOrder
	TopOrder   int    // highest order where only a single object asks for it
	MaxObjects int    // objects of a slab; 0 is the kernel's MaxObjects
}

// Order chooses the order of the slabs of a cache whose slots have size bytes, and how
// many objects such a slab holds.
//
// Both rule sets look for the lowest order that holds enough objects and wastes little,
// and put up with more waste step by step. 6.12 (and its neighbours since 6.7) stops at
// half of the slab. 6.1 stops at a quarter, but then asks for fewer objects, one by one.
// In the end one object decides. The rules of SLAB are not among them: a slab there also
// holds what manages it.
func Order(size uint64, r Rules, b Bounds) (order, objects int, err error) {
	if b.MaxObjects == 0 {
		b.MaxObjects = MaxObjects
	}
	if err := b.valid(size, r); err != nil {
		return 0, 0, err
	}
	if r == SLUB612 {
		order = b.order612(size)
	} else {
		order = b.order61(size)
	}
	if order > b.TopOrder {
		return 0, 0, fmt.Errorf("a slot of %d bytes takes pages of order %d: at most %d",
			size, order, b.TopOrder)
	}
	return order, int(min(b.fit(order, size), uint64(b.MaxObjects))), nil
}

// valid says with what there is no order.
func (b *Bounds) valid(size uint64, r Rules) error {
	top := bits.LeadingZeros64(b.PageSize) - 1 // a slab's bytes fit 63 bits
	switch {
	case size == 0:
		return fmt.Errorf("a slot of 0 bytes")
	case r.SLAB() || r >= nRules:
		return fmt.Errorf("rule set %d is not SLUB's", uint8(r))
	case b.PageSize == 0 || b.PageSize&(b.PageSize-1) != 0:
		return fmt.Errorf("a page of %d bytes is no power of two", b.PageSize)
	case b.TopOrder < 0 || b.TopOrder > top:
		return fmt.Errorf("highest order %d: expected 0 to %d", b.TopOrder, top)
	case b.MinOrder < 0 || b.MinOrder > b.TopOrder:
		return fmt.Errorf("lowest order %d: expected 0 to %d", b.MinOrder, b.TopOrder)
	case b.MaxOrder < 0 || b.MaxOrder > b.TopOrder:
		return fmt.Errorf("usual order %d: expected 0 to %d", b.MaxOrder, b.TopOrder)
	case b.CPUs < 0 || b.MinObjects < 0 || b.MaxObjects < 0:
		return fmt.Errorf("%d CPUs, %d to %d objects: a number is negative",
			b.CPUs, b.MinObjects, b.MaxObjects)
	}
	return nil
}

// fit is how many objects a slab of an order has room for.
func (b *Bounds) fit(order int, size uint64) uint64 {
	return b.PageSize << uint(order) / size
}

// enough is how many objects a slab should hold, no more than the usual order does.
func (b *Bounds) enough(size uint64) uint64 {
	n := uint64(b.MinObjects)
	if n == 0 {
		n = 4 * (uint64(bits.Len(uint(b.CPUs))) + 1)
	}
	return min(n, b.fit(b.MaxOrder, size))
}

// frugal is the lowest usual order from the order from on that wastes at most a part-th
// of the slab; false when there is none.
func (b *Bounds) frugal(size uint64, from int, part uint64) (order int, ok bool) {
	for o := from; o <= b.MaxOrder; o++ {
		if bytes := b.PageSize << uint(o); bytes%size <= bytes/part {
			return o, true
		}
	}
	return 0, false
}

// crowded is for slots so small that the order lowest holds more objects than a slab
// may: the order below the one that holds that many, or that of one object.
func (b *Bounds) crowded(size uint64, lowest int) (order int, ok bool) {
	if most := uint64(b.MaxObjects); b.fit(lowest, size) > most {
		return max(MinOrder(size, b.PageSize), MinOrder(size*most, b.PageSize)-1), true
	}
	return 0, false
}

// order612 is the choice of 6.12.
func (b *Bounds) order612(size uint64) int {
	lowest := max(b.MinOrder, MinOrder(b.enough(size)*size, b.PageSize))
	if o, ok := b.crowded(size, lowest); ok {
		return o
	}
	for part := uint64(16); part > 1; part /= 2 {
		if o, ok := b.frugal(size, lowest, part); ok {
			return o
		}
	}
	return MinOrder(size, b.PageSize)
}

// order61 is the choice of 6.1.
func (b *Bounds) order61(size uint64) int {
	if o, ok := b.crowded(size, b.MinOrder); ok {
		return o
	}
	for n := b.enough(size); n > 1; n-- {
		lowest := max(b.MinOrder, MinOrder(n*size, b.PageSize))
		for part := uint64(16); part >= 4; part /= 2 {
			if o, ok := b.frugal(size, lowest, part); ok {
				return o
			}
		}
	}
	return max(b.MinOrder, MinOrder(size, b.PageSize))
}

// MinOrder is the lowest order whose pages hold size bytes, 0 for none; page is a power
// of two.
func MinOrder(size, page uint64) int {
	if size <= page {
		return 0
	}
	return bits.Len64((size - 1) / page)
}

// MinPartial is how many slabs with free objects a node keeps before it gives empty
// ones back, by the size of a slot: the rule of 6.1 and of 6.12.
func MinPartial(stride uint64) int {
	return max(5, min(10, (bits.Len64(stride)-1)/2))
}

// CPUPartial is how many slabs a CPU's own store holds, by the rule of 6.1 and of 6.12:
// as many as have so many free objects as the size of a slot suggests, when half of each
// slab is free. A cache that is debugged has no store.
func CPUPartial(f Flags, stride, page uint64, perSlab int) int {
	if f.Debugs() || perSlab <= 0 {
		return 0
	}
	free := 120
	switch {
	case stride >= page:
		free = 6
	case stride >= 1024:
		free = 24
	case stride >= 256:
		free = 52
	}
	// Rounded up without a sum: perSlab may be any number.
	return (2*free-1)/perSlab + 1
}
