package slub

import (
	"math/bits"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// The bounds of a slab.
const (
	orderMax   = debugcheck.LastOrder  // of a slab of one object
	objectsMax = debugcheck.MaxObjects // the count is a field of 15 bits
)

// A layout is what a cache's objects and slabs look like. It never changes.
type layout struct {
	size    uint64 // bytes asked for
	stride  uint64 // distance of two objects
	align   uint64
	pad     uint64 // from the start of a slab to its first object
	link    uint64 // where a free object keeps the address of the next
	order   int    // a slab is 1<<order pages
	objects int    // objects of a slab
	rcu     bool   // readers may look at objects after their free; likewise
	ctor    bool   // objects are constructed when their slab is made; the link is behind them
}

// newLayout lays objects out as the Spec in g says, and fills g; impls.ErrInvalid when
// spec cannot be met on the machine.
func (h *heap) newLayout(spec *impls.CacheSpec, g *debugcheck.Layout) (layout, error) {
	switch {
	case spec.Size == 0 || spec.Size > h.m.Bytes():
		return layout{}, impls.ErrInvalid
	case spec.Align&(spec.Align-1) != 0 || spec.Align > uint64(h.m.PageSize):
		return layout{}, impls.ErrInvalid
	}
	if g.Fill() != nil {
		return layout{}, impls.ErrInvalid
	}
	l := layout{size: spec.Size, stride: g.Stride, align: g.Align, pad: g.Pad, link: g.Link,
		ctor: g.Ctor, rcu: g.RCU}
	if h.middle && !g.Outside && !g.Flags.Debugs() {
		l.link = g.Inuse / 2 &^ (g.Word - 1) // the middle of whole words, whatever the size
	}
	if !l.slabs(h.m, spec, g) {
		return l, impls.ErrInvalid
	}
	return l, nil
}

// slabs chooses order and number of objects; false when there is no way.
func (l *layout) slabs(m *machine.Machine, spec *impls.CacheSpec, g *debugcheck.Layout) bool {
	top := min(orderMax, bits.Len(uint(m.Pages))-1)
	page := uint64(m.PageSize)
	l.order, l.objects = spec.Order, spec.Objects
	if l.order < 0 && l.objects > 0 {
		l.order = debugcheck.MinOrder(l.stride*uint64(min(l.objects, objectsMax)), page)
	}
	if l.order < 0 {
		l.order = l.usualOrder(m, g, top)
	}
	if l.order < 0 || l.order > top {
		return false
	}
	fit := page << uint(l.order) / l.stride
	if l.objects < 0 {
		l.objects = int(min(fit, objectsMax))
	}
	return l.objects > 0 && l.objects <= objectsMax && uint64(l.objects) <= fit
}

// usualOrder is calculate_order, -1 when there is no order. A debug cache goes by the
// rules of its checks, the others by the later ones. A slab is at most an eighth of the
// arena where that is possible.
func (l *layout) usualOrder(m *machine.Machine, g *debugcheck.Layout, top int) int {
	rules := debugcheck.SLUB612
	if g.Flags.Debugs() {
		rules = g.Rules
	}
	order, _, err := debugcheck.Order(l.stride, rules, debugcheck.Bounds{
		PageSize: uint64(m.PageSize), CPUs: m.CPUs, TopOrder: top,
		MaxOrder: max(0, min(debugcheck.UsualOrder, top-3))})
	if err != nil {
		return -1
	}
	return order
}

// minPartial is how many slabs a node keeps before it gives empty ones back.
func (l *layout) minPartial(spec *impls.CacheSpec) uint64 {
	if spec.MinPartial >= 0 {
		return uint64(spec.MinPartial)
	}
	return uint64(debugcheck.MinPartial(l.stride))
}

// cpuPartial is how many slabs a CPU's store holds.
func (l *layout) cpuPartial(m *machine.Machine, spec *impls.CacheSpec) uint64 {
	if spec.CPUPartial >= 0 {
		return uint64(spec.CPUPartial)
	}
	return uint64(debugcheck.CPUPartial(0, l.stride, uint64(m.PageSize), l.objects))
}
