// Package slub holds the allocators of the unqueued design: a cache gives each
// CPU one slab to allocate from, slabs with free objects wait on one list of the
// node, and full slabs are on no list at all, but in a cache that is debugged with
// option U: its full slabs are on a second list of the node.
//
// A slab is a block of pages. Its bookkeeping is in the words of its page
// descriptor and in its free objects, each of which holds the address of the
// next one. While a slab belongs to a CPU it is frozen: its free objects are on
// the CPU's own freelist, and only what other CPUs free comes to the slab's.
//
// The axes, one file each, with their alternatives side by side:
//
//	fastpath.go  how a CPU takes from and gives to its own freelist
//	slowstart.go what a slow path makes of what the CPU has
//	exclusion.go how slow paths keep others away from what belongs to a CPU
//	partial.go   whether a CPU keeps slabs in store, and how it protects them
//	debuglock.go which locks a debug cache holds while it takes an object back
//
// Two more are axes of both families: the page layer (package page) and the size classes
// (package kmalloc). slowpath.go is what all of them fall back to, bulk.go the same for
// several objects at once, slab.go what they do to slabs, cache.go the cache itself. A
// variant is one literal of alternatives in variants.go, a design (heap.go).
//
// A cache with debug flags goes ways of its own below the fast paths, which know
// nothing of debugging: debug.go, with what is checked and written in package
// debugcheck, to which checker.go is the way; validate.go is what can be asked of
// the cache. No CPU ever has a slab of it.
//
// # Constructors and readers
//
// The objects of a cache with a constructor are constructed when their slab is made, and
// then never again; those of a cache for readers (the flag rcu) may be looked at after
// their free. Both keep the link of a free object behind the object. An object of a
// reader's cache is reused at once, but the pages of an empty slab, which is counted no
// more and on no list, wait for the read sections that were open (impls.Limbo). To
// destroy such a cache is to wait for them as well, except for a caller that has a
// section open itself or may not sleep, as later kernels never wait there.
//
// # Locking order
//
//	cpu_slab.lock > node.list_lock > slab.lock > zone.lock
//
// The first is a local lock: on a real-time kernel one that sleeps, elsewhere interrupts
// off, and designs before it have interrupts off and nothing else. Whoever has it holds
// the CPU, as it says at the functions that demand it, and has what belongs to that. The
// others are spin locks, taken with interrupts off: by who holds the CPU, and else between
// the exclusion's spins and spun. On a real-time kernel they are taken with interrupts on,
// which no handler there minds; debug caches turn them off everywhere, since their
// checkers belong to a CPU that is not held.
//
// The list lock guards the node's two lists and the length of the partial one; of a debug
// cache also nr_slabs, and what lies around and in the free objects: red zones, poison,
// links, sizes and the tracks of frees. The slab lock guards the slab's freelist and
// counts. A slab that turns from full to partial, or from partial to empty, does so under
// both locks, so that a slab is on the node's lists exactly when it ought to be; all other
// frees need the slab lock alone, but in a debug cache, where every one takes both. Pages
// are asked for with no lock held, and given back with no spin lock held.
//
// # Invariants
//
// They hold wherever no operation is in flight, and each is also said at the
// field that it is about.
//
//	SLUB1: the CPU's freelist holds free objects of the CPU's slab only.
//	SLUB2: the CPU's slab is frozen and on no list.
//	SLUB3: the word of a sequence fast path changes its sequence number with every
//	       change of the list or of base, except in an interrupt that found it at
//	       all ones.
//	SLUB4: a slab's freelist holds free objects of that slab only, none of which
//	       is on a CPU's freelist.
//	SLUB5: inuse is the number of objects that are not on the slab's freelist; of
//	       a CPU's slab it counts those on the CPU's freelist, too.
//	SLUB6: a slab on the partial list has a free object and is not frozen, where
//	       nothing was damaged: a repair may cut the freelist of a slab that stays.
//	SLUB7: nr_partial is the length of the partial list.
//	SLUB8: nr_slabs is the number of slabs that exist. In a debug cache it changes under
//	       the list lock, together with the lists.
//	SLUB9: the head of a CPU's partial list says how long the list is, and how
//	       many free objects its slabs had when they came; all on it are frozen.
//	SLUB10: whoever holds the list lock of a debug cache sees every object either in
//	       use or marked free and on its slab's freelist. A retired slab is on no list.
//	SLUB11: a transaction id is one CPU's and comes only once. Every change of the CPU's
//	        list or slab changes it, as the last of its words.
//
// With merge=on caches that are alike are one (impls.Kin). Size classes never are: they are
// made when they are first needed, and who comes first must not matter.
package slub
