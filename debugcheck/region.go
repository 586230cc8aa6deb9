package debugcheck

// A Region is a part of an object's slot or of a slab, or a stored field, that can
// be damaged and looked at. The order is that of the program language.
type Region uint8

// The regions. Those up to Padding lie in the slot of an object, SlabPad behind
// the last slot; the rest are fields of a slab's descriptor or of the cache.
const (
	LeftRed      Region = iota // in front of the object; SLAB: the first magic word
	Object                     // the object's own bytes
	RightRed                   // behind it, to Inuse; SLAB: the second word
	FreePtr                    // the link of a free object
	AllocTrack                 // who allocated; SLAB: the last user
	FreeTrack                  // who freed
	OrigSize                   // the size that kmalloc was asked for
	Padding                    // from the end of all that to the end of the slot
	SlabPad                    // behind the last slot
	SlabInuse                  // the slab's count of objects in use
	SlabObjects                // the slab's number of objects
	SlabFrozen                 // the slab's frozen bit
	SlabFreelist               // the head of the slab's freelist
	SlabCache                  // the cache that the slab says it belongs to
	NrPartial                  // the cache's count of partial slabs
	NrSlabs                    // the cache's count of slabs
	nRegions
)

// Regions is the number of regions.
const Regions = int(nRegions)

var regionNames = [nRegions]string{"leftred", "object", "rightred", "freeptr", "alloctrack",
	"freetrack", "origsize", "padding", "slabpad", "slab.inuse", "slab.objects", "slab.frozen",
	"slab.freelist", "slab.cache", "cache.nr_partial", "cache.nr_slabs"}

// String gives the spelling of programs.
func (r Region) String() string {
	if r < nRegions {
		return regionNames[r]
	}
	return "?"
}

// ParseRegion finds a region by its spelling.
func ParseRegion(s string) (r Region, ok bool) {
	for i, n := range regionNames {
		if n == s {
			return Region(i), true
		}
	}
	return 0, false
}

// InSlot says whether the region lies in the slot of an object.
func (r Region) InSlot() bool { return r <= Padding }

// OfSlab says whether the region is a field of a slab's descriptor.
func (r Region) OfSlab() bool { return r >= SlabInuse && r <= SlabCache }

// OfCache says whether the region is a counter of the cache.
func (r Region) OfCache() bool { return r == NrPartial || r == NrSlabs }
