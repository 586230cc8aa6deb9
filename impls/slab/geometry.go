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
	orderEnough  = 1 // from this order on waste is accepted
	wasteShare   = 8 // up to the 8th part of a slab may be wasted
	managerWords = 5 // room of the slab's own description, in words
	linesPerPage = 64
	narrowMost   = 1<<16 - 2 // objects that 16 bits can number beside the end
)

// A geometry is how the objects of a cache lie in its slabs. It never changes.
//
//	slab start -> [colour * colourOff] [description] [index array] [padding]
//	[objects * stride] [what is left, at least (colours - colour) * colourOff]
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
	chain     uint64 // offset of the index array behind the colour
	first     uint64 // offset of the first object behind the colour
	colourOff uint64
	colours   uint64 // legal colours are below it, 0 counts as 1
	wordBytes uint64
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
	g := geometry{size: spec.Size, align: spec.Align, wordBytes: uint64(m.WordBytes())}
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
	g.stride = alignUp(g.size, g.align)
	around, err := g.around(debugcheck.Spec{Name: spec.Name, Flags: flags, Ctor: spec.Ctor,
		RCU: spec.RCU(), Rules: sys.boot.Rules}, uint64(m.PageSize), small)
	if err != nil || !g.choose(m, spec) {
		return g, nil, impls.ErrInvalid
	}
	left := uint64(m.PageSize)<<g.order - (g.first - g.pad) - g.objects*g.stride
	g.colourOff = max(g.align, uint64(m.PageSize)/linesPerPage)
	g.colours = left / g.colourOff
	return g, around, nil
}

// choose finds order and number of objects: as the spec says, else the lowest
// order that wastes little. It says whether there are any.
func (g *geometry) choose(m *machine.Machine, spec *impls.CacheSpec) bool {
	from, to := 0, page.MaxOrder
	if spec.Order >= 0 {
		from, to = spec.Order, spec.Order
	}
	for g.order = from; g.order <= to; g.order++ {
		bytes := uint64(m.PageSize) << g.order
		n := g.fit(bytes)
		if spec.Objects > 0 {
			if n >= uint64(spec.Objects) {
				g.place(uint64(spec.Objects))
				return true
			}
			continue
		}
		if n == 0 {
			continue
		}
		g.place(n)
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
	n := bytes / (g.stride + 2)
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

// managed is the number of bytes that describe a slab of n objects.
func (g *geometry) managed(n uint64) uint64 {
	return managerWords*g.wordBytes + alignUp(n*uint64(indexBits(n)/8), g.wordBytes)
}

func (g *geometry) place(n uint64) {
	g.objects, g.indexBits = n, indexBits(n)
	g.perShift = uint(bits.Len64(g.wordBytes*8/uint64(g.indexBits))) - 1
	g.chain = managerWords * g.wordBytes
	g.first = g.firstOf(n)
}

// indexBits is the width of the numbers of n objects and of the end.
func indexBits(n uint64) uint {
	if n <= narrowMost {
		return 16
	}
	return 32
}

// alignUp rounds n up to a multiple of a power of two.
func alignUp(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }
