package debugcheck

import "encoding/binary"

// A Slab describes a slab to a Checker, which changes what it repairs: the
// allocator writes Objects, Inuse, Frozen and Freelist back.
type Slab struct {
	Page     int    // number of its first page, for reports
	Addr     uint64 // first byte
	Bytes    uint64
	First    uint64 // first slot: Addr, but for colour and management in front
	Max      int    // objects that fit its pages
	Objects  int    // as stored
	Inuse    int    // as stored
	Frozen   bool   // as stored; in a debug cache: retired
	Freelist uint64 // as stored: the first free object, Layout.End for none
	Foreign  bool   // its descriptor says that it is no slab
}

// State is what an object is.
type State uint8

// The states.
const (
	Inactive State = iota // free
	Active                // allocated
)

// Memory is how a Checker reaches the memory of slabs. The allocator behind it
// decides what one access is; a Checker asks once for each region.
type Memory interface {
	// Bytes returns the n bytes of region r at a, to read and to repair; nil where
	// there is no memory. The Checker does not keep them.
	Bytes(r Region, a, n uint64) []byte
	// Link reads the free pointer of the object at a.
	Link(a uint64) uint64
	// SetLink writes it.
	SetLink(a, link uint64)
}

// bytes returns the n bytes of region r at a.
func (k *Checker) bytes(r Region, a, n uint64) []byte {
	if at := a - k.ViewAt; at < uint64(len(k.View)) && n <= uint64(len(k.View))-at {
		return k.View[at : at+n : at+n]
	}
	return k.Mem.Bytes(r, a, n)
}

// viewedWord is a word that a View holds links in.
const viewedWord = 8

// viewed says whether links are read from View.
func (k *Checker) viewed() bool {
	return len(k.View) >= viewedWord && k.Layout.Word == viewedWord && !k.Layout.Rules.SLAB() &&
		k.Layout.Rules.linked()
}

// link reads the free pointer of the object at a.
func (k *Checker) link(a uint64) uint64 {
	at := a + k.Layout.Link - k.ViewAt
	if k.viewed() && at <= uint64(len(k.View)-viewedWord) {
		return binary.NativeEndian.Uint64(k.View[at:])
	}
	return k.Mem.Link(a)
}
