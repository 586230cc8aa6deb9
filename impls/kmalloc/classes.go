package kmalloc

import (
	"math/bits"

	"allocfuzz/impls/machine"
)

// A class is a size that kmalloc keeps a cache of.
type class struct {
	size  uint64
	align uint64 // largest power of two that divides size
	name  string
}

// classes are all sizes in rising order. A machine uses those of up to two pages.
var classes = [...]class{
	{8, 8, "kmalloc-8"}, {16, 16, "kmalloc-16"}, {32, 32, "kmalloc-32"}, {64, 64, "kmalloc-64"},
	{96, 32, "kmalloc-96"}, {128, 128, "kmalloc-128"}, {192, 64, "kmalloc-192"},
	{256, 256, "kmalloc-256"}, {512, 512, "kmalloc-512"}, {1024, 1024, "kmalloc-1k"},
	{2048, 2048, "kmalloc-2k"}, {4096, 4096, "kmalloc-4k"}, {8192, 8192, "kmalloc-8k"},
}

// steps finds the class of a size up to 192 in steps of 8 bytes.
var steps = [...]uint8{0, 0, 1, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 6, 6, 6, 6, 6, 6, 6, 6}

const (
	stepsMost = 192 // sizes that steps knows
	afterStep = 7   // class of the first power of two above them
)

// classOf is the index of the smallest class that holds size; len(classes) or
// more when none does. size is above 0.
func classOf(size uint64) int {
	if size <= stepsMost {
		return int(steps[(size+7)/8])
	}
	return afterStep - 8 + bits.Len64(size-1)
}

// classesOf is the number of classes that a machine uses.
func classesOf(m *machine.Machine) int {
	n := 0
	for n < len(classes) && classes[n].size <= 2*uint64(m.PageSize) {
		n++
	}
	return n
}
