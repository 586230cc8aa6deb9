// Package slab is the SLAB family: objects in slabs whose free ones are chained
// by number in an array at the slab's start, so that nothing is written into a
// free object, with each slab's objects shifted by a colour.
//
// A cache keeps its slabs on lists by fullness. Which lists, and when a slab
// moves, is the axis lists; a variant is a struct literal in variants.go.
//
// Locking: one lock per cache, with interrupts off, over its lists, its slabs and
// its colour. Pages are asked for and given back with the lock free. Order:
// cache_chain.lock, then cache.lock (never both today), then the zone's lock.
//
// Invariants, with the lock free:
//
//	SLAB1: slab.inuse is the number of objects that are not on the slab's chain.
//	SLAB2: a slab is on exactly one list, and its fullness is the list's.
//	SLAB3: cache.slabs is the number of slabs on the lists.
//	SLAB4: a slab's colour is below the cache's colours, or 0.
package slab
