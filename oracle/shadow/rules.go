package shadow

import "allocfuzz/debugcheck"

// The bytes that the rules put around and into objects.
const (
	redFree   = 0xbb
	redLive   = 0xcc
	bodyFree  = 0x6b
	bodyEnd   = 0xa5
	neverUsed = 0x5a
)

// A part is the part of a region that a rule is about.
type part uint8

const (
	whole    part = iota
	allBut        // all but the last byte
	lastByte      // the last byte
	unasked       // of the object: what is behind the size asked for
)

// unseen stands for the byte of a state in which nobody looks.
const unseen = -1

// A rule is one comparison that the check of an object makes.
type rule struct {
	title   string
	region  debugcheck.Region
	part    part
	needs   debugcheck.Flags
	without debugcheck.Flags
	body    bool // only where the body of a free object is poisoned
	asked   bool // only where the size asked for is kept, and since 6.2
	free    int  // the byte that a free object has there, or unseen
	live    int  // that of an allocated one
	soft    bool // 6.1 repairs it and lets the object pass
}

// slubObject is the check of one object, in its order. Behind it comes the free
// pointer, see slub.go.
var slubObject = []rule{
	{title: "Left Redzone overwritten", region: debugcheck.LeftRed, needs: debugcheck.RedZone,
		free: redFree, live: redLive},
	{title: "Right Redzone overwritten", region: debugcheck.RightRed, needs: debugcheck.RedZone,
		free: redFree, live: redLive},
	{title: "kmalloc Redzone overwritten", region: debugcheck.Object, part: unasked,
		needs: debugcheck.RedZone, asked: true, free: unseen, live: redLive},
	{title: "Alignment padding overwritten", region: debugcheck.RightRed,
		needs: debugcheck.Poison, without: debugcheck.RedZone,
		free: neverUsed, live: neverUsed, soft: true},
	{title: "Poison overwritten", region: debugcheck.Object, part: allBut,
		needs: debugcheck.Poison, body: true, free: bodyFree, live: unseen},
	{title: "End Poison overwritten", region: debugcheck.Object, part: lastByte,
		needs: debugcheck.Poison, body: true, free: bodyEnd, live: unseen},
	{title: "Object padding overwritten", region: debugcheck.Padding,
		needs: debugcheck.Poison, free: neverUsed, live: neverUsed, soft: true},
}

// Titles of what is no comparison of bytes.
const (
	freePointer  = "Freepointer corrupt"
	freeChain    = "Freechain corrupt"
	wrongObjects = "Wrong number of objects"
	wrongCount   = "Wrong object count"
	tooMany      = "objects exceeds max"
	tooManyInuse = "inuse exceeds max"
	disabled     = "Slab disabled since SLUB metadata consistency check failed"
	slabPadding  = "Padding overwritten"
	badHead      = "Freelist Pointer check fails"
	tooFewInuse  = "Slab has fewer allocated objects than are to be freed"
	badPointer   = "Invalid object pointer"
	alreadyFree  = "Object already free"
	partialCount = "partial slabs counted but counter differs"
	slabsCount   = "slabs counted but counter differs"
	wrongCache   = "Wrong slab cache"
	notSlab      = "Object is not a Slab page"
	remaining    = "Objects remaining on __kmem_cache_shutdown()"
)

// applies says whether a layout has the rule at all.
func (r *rule) applies(l *debugcheck.Layout) bool {
	switch {
	case !l.Flags.Has(r.needs) || r.without != 0 && l.Flags.Has(r.without):
		return false
	case r.body && !l.Body:
		return false
	}
	return !r.asked || l.Orig != 0 && l.Rules == debugcheck.SLUB612
}

// at is where the rule looks in an object of which size bytes were asked for,
// from and to relative to the object.
func (r *rule) at(l *debugcheck.Layout, size uint64) (from, to int64) {
	from, to = l.At(r.region)
	switch r.part {
	case allBut:
		to--
	case lastByte:
		from = to - 1
	case unasked:
		from = min(int64(size), to)
	}
	return from, to
}
