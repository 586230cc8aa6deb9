package trace

import "math/bits"

// The page size and the limits of the machine that a program is imported for. A size up to smallMax
// is counted as an object of a size class, a larger one as a block of pages; both are rounded up to
// a power of two, as allocators of both kinds do.
const (
	pageSize  = 4096
	smallMin  = 8
	smallMax  = 8192
	pagesMin  = 16
	pagesMax  = 1 << 20
	slabPages = 8 // what an allocator may hold of a class beyond the objects: slabs begun
)

// A footprint counts what is live, and from its peaks how many pages an allocator needs for it.
type footprint struct {
	objects, objectsPeak int
	bytes, bytesPeak     uint64
	live, peak           [64]uint64 // objects by class; class i has 1<<i bytes
	caches, cpus         int        // each cache has slabs of its own, on each CPU
}

// classOf returns the class of a size of at most sizeMax bytes.
func classOf(size uint64) int {
	return bits.Len64(max(size, smallMin) - 1)
}

func (f *footprint) add(size uint64) {
	f.objects++
	f.objectsPeak = max(f.objectsPeak, f.objects)
	f.bytes += size
	f.bytesPeak = max(f.bytesPeak, f.bytes)
	c := classOf(size)
	f.live[c]++
	f.peak[c] = max(f.peak[c], f.live[c])
}

func (f *footprint) remove(size uint64) {
	f.objects--
	f.bytes -= size
	f.live[classOf(size)]--
}

// pages returns the machine's pages: a power of two, twice what the peaks of all classes add up to,
// because the classes do not give each other their empty slabs and free memory lies scattered.
// enough is false when no machine is large enough; then it returns the largest one.
func (f *footprint) pages() (n int, enough bool) {
	const limit = uint64(pagesMax)
	begun := slabPages * uint64(max(f.cpus, 1))
	sum := uint64(f.caches) * begun
	for c, peak := range f.peak {
		if peak == 0 {
			continue
		}
		if c >= 33 || peak > limit*pageSize>>c {
			return pagesMax, false
		}
		sum += (peak<<c + pageSize - 1) / pageSize
		if 1<<c <= smallMax {
			sum += begun
		}
		if sum > limit {
			return pagesMax, false
		}
	}
	if sum*2 > limit {
		return pagesMax, false
	}
	n = pagesMin
	for uint64(n) < sum*2 {
		n *= 2
	}
	return n, true
}
