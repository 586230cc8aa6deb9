package slub

import (
	"math/bits"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// The bounds of a slab.
const (
	orderMax   = 10        // of a slab of one object
	orderUsual = 3         // of others, unless the spec says otherwise
	objectsMax = 1<<15 - 1 // the count is a field of 15 bits
)

// A layout is what a cache's objects and slabs look like. It never changes.
type layout struct {
	size    uint64 // bytes asked for
	stride  uint64 // distance of two objects
	align   uint64
	link    uint64 // where a free object keeps the address of the next
	order   int    // a slab is 1<<order pages
	objects int    // objects of a slab
}

// newLayout lays objects out; impls.ErrInvalid when spec cannot be met on m. With
// middle the link is near the middle of the object, else it is the first word.
func newLayout(m *machine.Machine, spec *impls.CacheSpec, middle bool) (layout, error) {
	word := uint64(m.WordBytes())
	l := layout{size: spec.Size, align: max(spec.Align, word)}
	switch {
	case spec.Size == 0 || spec.Size > m.Bytes():
		return l, impls.ErrInvalid
	case spec.Align&(spec.Align-1) != 0 || spec.Align > uint64(m.PageSize):
		return l, impls.ErrInvalid
	}
	padded := (spec.Size + word - 1) &^ (word - 1)
	l.stride = (padded + l.align - 1) &^ (l.align - 1)
	if middle {
		l.link = (padded / 2) &^ (word - 1)
	}
	if !l.slabs(m, spec) {
		return l, impls.ErrInvalid
	}
	return l, nil
}

// slabs chooses order and number of objects; false when there is no way.
func (l *layout) slabs(m *machine.Machine, spec *impls.CacheSpec) bool {
	top := min(orderMax, bits.Len(uint(m.Pages))-1)
	page := uint64(m.PageSize)
	l.order, l.objects = spec.Order, spec.Objects
	if l.order < 0 && l.objects > 0 {
		l.order = orderOf(page, l.stride*uint64(min(l.objects, objectsMax)))
	}
	if l.order < 0 {
		l.order = l.usualOrder(m, top)
	}
	if l.order > top {
		return false
	}
	fit := page << uint(l.order) / l.stride
	if l.objects < 0 {
		l.objects = int(min(fit, objectsMax))
	}
	return l.objects > 0 && l.objects <= objectsMax && uint64(l.objects) <= fit
}

// usualOrder is calculate_order: the lowest order that wastes at most a
// sixteenth of the slab, else an eighth and so on, and holds enough objects for
// the number of CPUs; else the order of one object. A slab is at most an eighth
// of the arena where that is possible.
func (l *layout) usualOrder(m *machine.Machine, top int) int {
	page := uint64(m.PageSize)
	usual := max(0, min(orderUsual, top-3))
	enough := min(uint64(4*(bits.Len(uint(m.CPUs))+1)), page<<uint(usual)/l.stride)
	least := orderOf(page, max(enough, 1)*l.stride)
	for part := uint64(16); part > 1; part /= 2 {
		for o := least; o <= usual; o++ {
			if bytes := page << uint(o); bytes%l.stride <= bytes/part {
				return o
			}
		}
	}
	return orderOf(page, l.stride)
}

// orderOf is the lowest order whose pages hold n bytes.
func orderOf(page, n uint64) int {
	return bits.Len64((n+page-1)/page - 1)
}

// minPartial is how many slabs a node keeps before it gives empty ones back.
func (l *layout) minPartial(spec *impls.CacheSpec) uint64 {
	if spec.MinPartial >= 0 {
		return uint64(spec.MinPartial)
	}
	return uint64(max(5, min(10, (bits.Len64(l.stride)-1)/2)))
}

// cpuPartial is how many slabs a CPU's store holds. By default it is as many as
// hold the objects that the size suggests when they are half full.
func (l *layout) cpuPartial(m *machine.Machine, spec *impls.CacheSpec) uint64 {
	if spec.CPUPartial >= 0 {
		return uint64(spec.CPUPartial)
	}
	objects := 120
	switch {
	case l.stride >= uint64(m.PageSize):
		objects = 6
	case l.stride >= 1024:
		objects = 24
	case l.stride >= 256:
		objects = 52
	}
	return uint64((2*objects + l.objects - 1) / l.objects)
}
