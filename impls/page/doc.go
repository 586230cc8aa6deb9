// Package page hands out the pages of a machine: Buddy is its page allocator, Pool puts
// a pool of single pages for each CPU in front of one, and Actor is somebody else who
// uses pages, as the page cache does. Both allocators are under test by themselves, too:
// see Variants.
//
// Buddy keeps blocks of 1<<order pages, aligned to their size from the start of
// the arena, on one list per order. A block that is too large is split, its
// upper halves going back to the lists; a freed block joins its buddy as long as
// that is free too.
//
// A pool is a list of free pages, of which the one given back last is the first to go.
// For the zone they are given out: they are not in its count, they join nobody, and no
// other CPU can have them until a drain.
//
// Locking: one zone lock with interrupts off, taken last of all (RankZone), so
// pages may be asked for and given back with any other lock held. A pool is changed
// with interrupts off on its CPU and by nobody else.
//
// Invariants, with the zone lock free:
//
//	PAGE1: every page belongs to exactly one block, free or given out.
//	PAGE2: zone.free is the number of pages of the free blocks.
//	PAGE3: no two free blocks are buddies.
//
// And with interrupts on:
//
//	POOL1: cpu_pages.count is the length of the pool's list, and at most Pool.max.
package page
