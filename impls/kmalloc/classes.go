package kmalloc

import (
	"math/bits"

	"allocfuzz/impls"
)

// A class is a size that kmalloc keeps a cache of.
type class struct {
	size uint64
	name string
}

// A Table is the size classes of one kernel: one alternative of the axis.
//
// Kernels leave 96 out where no address may be closer to another than 64 bytes, and 192
// where that is 128. The machines here demand a word at most, so whoever has the two
// classes always uses them.
type Table struct {
	// Name says which sizes there are, for listings.
	Name string

	// classes are in the order of their indexes, which need not be that of their sizes.
	classes []class
	steps   [stepsMost/8 + 1]uint8 // index of a size up to stepsMost, in steps of 8 bytes
	after   int                    // index of the first power of two above stepsMost
	// least and most are the smallest and the largest class on a machine with pages of so
	// many bytes.
	least, most func(page uint64) uint64
	// align is what an object of a class is a multiple of, on such a machine.
	align func(size, page uint64) uint64
	// pages says that what is larger than every class comes from the page layer. Else
	// there is no memory for it.
	pages bool
}

const (
	stepsMost   = 192 // sizes that steps knows
	classesMost = 17  // classes of the longest table
)

// General24 is the table of SLAB in 2001. There are powers of two only, so that a size
// just above one takes nearly twice its bytes, and the largest class ends what can be had:
// a larger size is refused, whatever pages there are. The smallest class is a waste where
// pages are not of 4 KiB, and is missing there. An object begins at a cache line, or where
// it is small at a fraction of one. Every class is an ordinary cache: one whose slabs the
// arena cannot hold has no memory.
var General24 = table(Table{
	Name:    "size-32 to size-131072",
	classes: powers("size-", 32, 131072),
	least:   only4K,
	most:    func(uint64) uint64 { return 131072 },
	align:   impls.CacheLine,
})

// General26 is the table of SLAB from 2.6 on. Most of what kernels ask for by size is
// small, and much of it just above 64 and 128 bytes: two classes in between save a third
// of that.
var General26 = table(Table{
	Name:    "size-32 to size-131072 with 96 and 192",
	classes: twixt("size-", powers("size-", 32, 131072)),
	least:   only4K,
	most:    func(uint64) uint64 { return 131072 },
	align:   impls.CacheLine,
})

// Page2008 is the table of SLUB in 2008. Classes go down to 8 bytes, since nothing lies
// beside an object there, and end with a page: what is larger than that comes straight
// from the page layer, which needs no slab for one object and ends only with the arena.
// Nothing is promised about alignment but that of the longest number.
var Page2008 = table(Table{
	Name:    "kmalloc-8 to a page with 96 and 192",
	classes: twixt("kmalloc-", powers("kmalloc-", 8, 65536)),
	least:   func(uint64) uint64 { return 8 },
	most:    func(page uint64) uint64 { return page },
	align:   func(uint64, uint64) uint64 { return 8 },
	pages:   true,
})

// TwoPages is the table of SLUB later on. Two pages in one piece cost the page layer much
// more than an object costs a cache, and are asked for often (the figures of 2008 gain
// nothing there): they are a class too. Names are short, and an object lies at a multiple
// of the largest power of two that divides its size, with debug options as well, after
// users had come to rely on what used to hold by accident.
var TwoPages = table(Table{
	Name:    "kmalloc-8 to two pages with 96 and 192",
	classes: twixt("kmalloc-", shortened(powers("kmalloc-", 8, 131072))),
	least:   func(uint64) uint64 { return 8 },
	most:    func(page uint64) uint64 { return 2 * page },
	align:   func(size, page uint64) uint64 { return min(size&-size, page) },
	pages:   true,
})

// Tables are all of them, the oldest first.
func Tables() []*Table { return []*Table{General24, General26, Page2008, TwoPages} }

// Names are the names of the caches of t on a machine with pages of so many bytes, the
// smallest first.
func (t *Table) Names(page uint64) []string {
	var names []string
	least, most := t.least(page), t.largest(page)
	for size := least; size <= most; {
		c := &t.classes[t.index(size)]
		names = append(names, c.name)
		size = c.size + 1
	}
	return names
}

// largest is the largest class on a machine with pages of so many bytes: beyond those of 64 KiB
// it is the last that there is.
func (t *Table) largest(page uint64) uint64 {
	return min(t.most(page), t.classes[len(t.classes)-1].size)
}

// only4K leaves the class 32 out where pages are not of 4 KiB.
func only4K(page uint64) uint64 {
	if page == 4096 {
		return 32
	}
	return 64
}

// powers are the classes of the powers of two from least to most.
func powers(prefix string, least, most uint64) []class {
	var list []class
	for size := least; size <= most; size *= 2 {
		list = append(list, class{size, prefix + decimal(size)})
	}
	return list
}

// twixt puts the classes 96 and 192 in front of a list: they came last, and the indexes
// behind them are logarithms.
func twixt(prefix string, list []class) []class {
	return append([]class{{96, prefix + "96"}, {192, prefix + "192"}}, list...)
}

// shortened writes the names of sizes from 1024 on in units of 1024.
func shortened(list []class) []class {
	for i := range list {
		if c := &list[i]; c.size >= 1024 {
			c.name = c.name[:len(c.name)-len(decimal(c.size))] + decimal(c.size/1024) + "k"
		}
	}
	return list
}

// decimal spells a number.
func decimal(n uint64) string {
	if n < 10 {
		return string(rune('0' + n))
	}
	return decimal(n/10) + decimal(n%10)
}

// table fills in how the class of a size is found.
func table(t Table) *Table {
	if len(t.classes) > classesMost {
		panic("allocfuzz: " + t.Name + ": more classes than classesMost")
	}
	for i := range t.steps {
		t.steps[i] = uint8(t.smallest(uint64(i) * 8))
	}
	t.after = t.smallest(stepsMost + 1)
	return &t
}

// smallest searches for the smallest class that holds size.
func (t *Table) smallest(size uint64) int {
	best := -1
	for i := range t.classes {
		if c := &t.classes[i]; c.size >= size && (best < 0 || c.size < t.classes[best].size) {
			best = i
		}
	}
	return best
}

// index is the index of the smallest class that holds size, which is above 0 and not
// above the largest class.
func (t *Table) index(size uint64) int {
	if size <= stepsMost {
		return int(t.steps[(size+7)/8])
	}
	return t.after - 8 + bits.Len64(size-1)
}
