package impls

import (
	"slices"

	"allocfuzz/impls/machine"
)

// This file is the merging of caches: who asks for a cache that is as good as one that is
// there gets that one, under a name more. SLUB did so from its first year, since half of
// the caches of a kernel were alike and each had partial slabs of its own; SLAB followed
// in 2014. The effect is fewer slabs, objects of several owners side by side, and a
// destroy that only takes a name away while there are others. Here it is the boot
// parameter merge=on, for both families alike, SLAB of 2001 included.

// A Kin is what a cache is to those that might be one with it. Its family keeps it beside
// the cache; what guards the family's list of caches guards it.
type Kin struct {
	merges bool // it may be one with others
	names  int  // that mean the cache; 0 while it is being destroyed
	places Places
	word   uint64
	cares  bool // its pages are counted as such that can be reclaimed
	asked  [6]int
	size   machine.Word
}

// Places say where the objects of a cache lie.
type Places struct {
	Stride uint64 // bytes from one to the next
	Align  uint64 // what they have to be multiples of
	Lies   uint64 // what they are multiples of
}

var objectSize = machine.Atomic("cache", "object_size")

// Init describes a cache that was just made as spec says. One with debug options is by
// itself, as are size classes, caches with a constructor or whose pages outlast read
// sections, and whoever says nomerge.
func (k *Kin) Init(m *machine.Machine, spec *CacheSpec, at Places, debugs bool) {
	k.size.Init(objectSize, -1, spec.Size)
	k.names = 1
	k.merges = m.Merge && !debugs && !spec.Ctor && !spec.Kmalloc && !spec.RCU() &&
		!slices.Contains(spec.Flags, "nomerge")
	if !k.merges {
		return
	}
	k.places, k.word = at, uint64(m.WordBytes())
	k.cares = slices.Contains(spec.Flags, "reclaim")
	k.asked = [...]int{spec.Objects, spec.Order, spec.MinPartial, spec.CPUPartial, spec.Limit,
		spec.Batch}
}

// Size is the number of bytes of an object that may be used: what the greediest of its
// names asked for.
func (k *Kin) Size() uint64 { return k.size.Peek() }

// Takes says whether the cache of k can stand for that of o as well: the objects of o
// lie as they must in the places of k, less than a word too large, both are of the same
// kind of memory, and who asked for anything about slabs asked for the same.
func (k *Kin) Takes(o *Kin) bool {
	a, b := &k.places, &o.places
	return k.merges && o.merges && k.names > 0 && b.Stride <= a.Stride &&
		a.Stride-b.Stride < k.word && b.Align <= a.Lies &&
		k.cares == o.cares && k.asked == o.asked
}

// Join gives the cache of k one name more, for whoever asked for that of o.
func (k *Kin) Join(o *Kin) {
	k.names++
	k.size.Poke(max(k.Size(), o.Size()))
}

// Leave takes a name away and says whether it was the last: then the cache is to be
// destroyed, and nobody joins it any more unless it turns out that it has to stay.
func (k *Kin) Leave() (last bool) {
	k.names--
	return k.names == 0
}

// Stay gives the last name back: objects are live.
func (k *Kin) Stay() { k.names = 1 }
