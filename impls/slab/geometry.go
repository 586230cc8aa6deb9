package slab

import (
	"math/bits"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// The search for the order of a cache's slabs, as in 2.4.
const (
	orderEnough  = 1         // from this order on waste is accepted
	wasteShare   = 8         // up to the 8th part of a slab may be wasted
	managerWords = 5         // room of the slab's own description, in words
	narrowMost   = 1<<16 - 2 // objects that 16 bits can number beside the end
	objectsMost  = 1<<32 - 2 // objects that 32 bits can
)

// A geometry is how the objects of a cache lie in its slabs. It never changes.
//
//	slab start -> [colour * colourOff] [description] [index array] [padding]
//	[objects * stride] [what is left, at least (colours - colour) * colourOff]
//
// Description and index array are in one piece. Where the management is kept off the
// slab they are in an object of another cache, and the objects have its place.
//
// Each stride begins with pad bytes of debugging, then the object.
type geometry struct {
	size      uint64 // bytes asked for
	align     uint64
	stride    uint64
	pad       uint64
	order     int
	objects   uint64
	indexBits uint   // bits of an index: 16 or 32
	perShift  uint   // a word holds 1<<perShift of them
	chain     uint64 // offset of the index array in what describes the slab
	first     uint64 // offset of the first object behind the colour
	colourOff uint64
	colours   uint64 // legal colours are below it, 0 counts as 1
	wordBytes uint64
	manage    management
	offSlab   bool // the slab is described elsewhere
}

// end is the index that ends a chain.
func (g *geometry) end() uint64 { return 1<<g.indexBits - 1 }

// layout finds the geometry of a cache, and what debugging puts around an object, nil
// without debug options; impls.ErrInvalid when there is none.
func (sys *system) layout(spec *impls.CacheSpec) (geometry, *debugcheck.Layout, error) {
	flags, small, err := sys.boot.Flags(spec)
	if err != nil {
		return geometry{}, nil, err
	}
	m := sys.m
	g := geometry{size: spec.Size, align: spec.Align, wordBytes: uint64(m.WordBytes()),
		manage: sys.management}
	if g.align == 0 {
		g.align = g.wordBytes
	}
	limit := uint64(m.PageSize) << page.MaxOrder
	if g.align&(g.align-1) != 0 || g.align > uint64(m.PageSize) || g.size == 0 || g.size > limit {
		return g, nil, impls.ErrInvalid
	}
	if spec.Objects == 0 || spec.Order > page.MaxOrder {
		return g, nil, impls.ErrInvalid
	}
	g.align = max(g.align, g.wordBytes)
	if !flags.Has(debugcheck.RedZone) {
		g.align = max(g.align, spec.Alignment(uint64(m.PageSize)))
	}
	g.stride = alignUp(g.size, g.align)
	around, err := g.around(debugcheck.Spec{Name: spec.Name, Flags: flags, Ctor: spec.Ctor,
		RCU: spec.RCU(), Rules: sys.boot.Rules}, uint64(m.PageSize), small)
	if err != nil || !sys.arrange(&g, spec, around != nil) {
		return g, nil, impls.ErrInvalid
	}
	left := uint64(m.PageSize)<<g.order - (g.first - g.pad) - g.objects*g.stride
	g.colourOff = max(g.align, uint64(m.PageSize)/impls.LinesPerPage)
	g.colours = left / g.colourOff
	return g, around, nil
}

// arrange finds order, number of objects and place of the management. It says whether
// there is any way.
func (sys *system) arrange(g *geometry, spec *impls.CacheSpec, debugged bool) bool {
	bytes := alignUp(g.size, g.wordBytes)
	if debugged {
		bytes = g.stride
	}
	if g.manage.off(bytes, uint64(sys.m.PageSize)) {
		g.offSlab = true
		if g.choose(sys.m, spec, sys.offLimit()) {
			g.bringBack(uint64(sys.m.PageSize) << g.order)
			return true
		}
		g.offSlab = false
	}
	return g.choose(sys.m, spec, objectsMost)
}

// bringBack keeps the management on the slab, of so many bytes, after all when what is
// left over suffices for it.
func (g *geometry) bringBack(bytes uint64) {
	on := *g
	on.offSlab = false
	on.place(g.objects)
	if on.first-on.pad+on.objects*on.stride <= bytes {
		*g = on
	}
}

// choose finds order and number of objects: as the spec says, else the lowest
// order that wastes little, with at most limit objects. It says whether there are any.
func (g *geometry) choose(m *machine.Machine, spec *impls.CacheSpec, limit uint64) bool {
	found := false
	from, to := 0, page.MaxOrder
	if spec.Order >= 0 {
		from, to = spec.Order, spec.Order
	}
	for g.order = from; g.order <= to; g.order++ {
		bytes := uint64(m.PageSize) << g.order
		n := g.fit(bytes)
		switch objects := uint64(max(spec.Objects, 0)); {
		case n == 0 || n < objects:
			continue
		case objects > 0:
			g.place(objects)
			return objects <= limit
		case n > limit:
			g.order-- // fewer pages have fewer objects
			return found
		}
		g.place(n)
		found = true
		waste := bytes - g.managed(n) - n*g.stride
		most := min(to, orderEnough, bits.Len(uint(m.Pages))-1)
		if g.order >= most || waste*wasteShare <= bytes {
			return true
		}
	}
	return false
}

// fit is the number of objects in a slab of so many bytes.
func (g *geometry) fit(bytes uint64) uint64 {
	n := bytes / g.stride
	for n > 0 && g.firstOf(n)-g.pad+n*g.stride > bytes {
		n--
	}
	if g.wordBytes == 2 {
		n = min(n, narrowMost)
	}
	return n
}

// firstOf is the offset of the first of n objects behind the colour.
func (g *geometry) firstOf(n uint64) uint64 { return alignUp(g.managed(n)+g.pad, g.align) }

// managed is the number of bytes in front of n objects that describe their slab.
func (g *geometry) managed(n uint64) uint64 {
	if g.offSlab {
		return 0
	}
	return g.described(n)
}

// described is the number of bytes that describe a slab of n objects, wherever they are.
func (g *geometry) described(n uint64) uint64 {
	return managerWords*g.wordBytes +
		alignUp(n*uint64(g.manage.element(n, g.wordBytes)/8), g.wordBytes)
}

func (g *geometry) place(n uint64) {
	g.objects, g.indexBits = n, g.manage.element(n, g.wordBytes)
	g.perShift = uint(bits.Len64(g.wordBytes*8/uint64(g.indexBits))) - 1
	g.chain = managerWords * g.wordBytes
	g.first = g.firstOf(n)
}

// alignUp rounds n up to a multiple of a power of two.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
