package slab

import (
	"strconv"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// This file is the general caches, in whose objects slabs are described that are not
// described on themselves.

// Sizes of the general caches, each twice the one before. 2.4 leaves the smallest out
// where pages are not of 4 KiB; machines here may have small ones.
const (
	generalLeast = 32
	generalMost  = 131072
)

// A generalSize is one general cache, which is made when it is needed first.
type generalSize struct {
	spec   impls.CacheSpec
	g      geometry
	around *debugcheck.Layout
	cache  *Cache
}

// generals are the general caches of a system. They are there for descriptions only.
type generals struct {
	sizes []generalSize
	limit uint64 // of objects of a slab that is described off it
	known bool
}

// offLimit is the limit for slabs described off them. Each general cache that describes
// its own on them raises it; later ones are made with what the earlier ones gave.
func (sys *system) offLimit() uint64 {
	k := &sys.generals
	if k.known {
		return k.limit
	}
	k.known = true
	word := uint64(sys.m.WordBytes())
	for size := uint64(generalLeast); size <= generalMost; size *= 2 {
		spec := impls.NewSpec("size-"+strconv.FormatUint(size, 10), size)
		g, around, err := sys.layout(&spec)
		if err != nil {
			continue
		}
		k.sizes = append(k.sizes, generalSize{spec: spec, g: g, around: around})
		if !g.offSlab {
			k.limit = sys.management.limit(size, managerWords*word,
				uint64(sys.management.element(0, word)/8))
		}
	}
	return k.limit
}

// makeGenerals makes the general caches where any cache may need them: threads of a native
// machine, which make caches and reap them at the same time, find them there.
func (sys *system) makeGenerals() {
	if !sys.management.off(generalMost, uint64(sys.m.PageSize)) {
		return
	}
	sys.offLimit()
	for i := range sys.generals.sizes {
		sys.general(i)
	}
}

// keeperFor is what keeps the descriptions of a cache of geometry g: the smallest general
// cache that they fit and that asks nobody, as there is one for whoever heeds the right limit.
// Where debug words make the small ones large and what is left over brings a larger one back
// onto its slabs, that is not simply the smallest. Whatever the limit, there is some general
// cache that they fit: it allows at most twice what fits one of them.
func (sys *system) keeperFor(g *geometry) keeper {
	if !g.offSlab {
		return ownSlab{}
	}
	best := -1
	for i := range sys.generals.sizes {
		k := &sys.generals.sizes[i]
		switch {
		case k.spec.Size < g.described(g.objects):
		case !k.g.offSlab:
			return general{sys.general(i)}
		case best < 0:
			best = i
		}
	}
	if best < 0 {
		panic("allocfuzz: a description of slabs that fits no general cache")
	}
	return general{sys.general(best)}
}

// general is general cache number i. In simulation it is made when it is needed first, as
// if it had been there from the start. Its own descriptions may be its own objects, where
// the limit is wrong.
func (sys *system) general(i int) *Cache {
	k := &sys.generals.sizes[i]
	if k.cache == nil {
		k.cache = &Cache{geometry: k.g}
		k.cache.init(sys, &k.spec, k.around)
	}
	return k.cache
}
