// Package slab is the SLAB family: objects in slabs whose free ones are chained
// by number in an array at the slab's start or elsewhere, so that nothing is written
// into a free object, with each slab's objects shifted by a colour.
//
// The axes, one file each, with their alternatives side by side:
//
//	lists.go   which lists a cache keeps its slabs on, and when a slab moves
//	arrays.go  whether each CPU has an array of free objects in front of them, and what a
//	           full one gives back; array.go is what all arrays have in common
//	colour.go  how a slab comes by its colour
//	manager.go where a slab's description and index array are: at its start, or for large
//	           objects in an object of a general cache (general.go)
//
// Two more are axes of both families: the page layer (package page) and the size classes
// (package kmalloc). slab.go is what is done to one slab, cache.go the cache itself, reap.go
// what happens when memory is short. A variant is one literal of alternatives in variants.go,
// a design (system.go).
//
// A cache with debug flags has words of its own around each object and poison in the
// free ones (debug.go). It asks a debugcheck.Checker at each allocation and free,
// and before pages go back; where the kernel stops at what was found, the run ends.
// Its chains are never followed to what is no object. validate.go holds what is
// looked at on demand, and the walk over the one list.
//
// Objects with a constructor (ctor.go) are constructed when their slab is made, or where
// 2.6 poisons them at every allocation. The pages of a cache whose objects may be read
// after their free wait for read sections that were open (impls.Limbo) when its slabs go;
// to destroy it is to wait for them, except for a caller that reads itself or may not
// sleep. What describes a slab off it goes at once: readers do not look at that.
//
// Locking: one lock per cache, with interrupts off, over its lists, its slabs, the
// debugging of its objects, and where the axis says so its next colour. What is written
// into a new slab, and what is looked at in one that goes back, is done under it too,
// where the kernel holds no lock: nobody else knows the slab then. Pages are asked for
// and given back with the lock free, and so are objects for descriptions: no two caches'
// locks are ever held together. Order: cache_chain.lock, then cache.lock (both by a reap,
// reap.go, and by nobody else), then the zone's lock. An array is its CPU's: interrupts off
// there, and no lock; others call that CPU.
//
// Invariants, with the lock free:
//
//	SLAB1: slab.inuse is the number of objects that are not on the slab's chain.
//	SLAB2: a slab is on exactly one list, and its fullness is the list's.
//	SLAB3: cache.slabs is the number of slabs on the lists.
//	SLAB4: a slab's colour is below the cache's colours, or 0.
//	SLAB5: the one list has full slabs, then partial ones, then free ones, and
//	       cache.firstnotfull is the first that is not full.
//	SLAB6: a slab that is described off itself has at most the limit of objects, and its
//	       description is an object in use of a cache that describes its slabs on them.
//	SLAB7: an object in an array is on no chain, and in use for its slab; cpu_array.avail
//	       is at most the limit.
//
// With merge=on caches that are alike are one (impls.Kin, under cache_chain.lock): SLAB of
// 2001 did not do that, its successor of 2014 did.
package slab
