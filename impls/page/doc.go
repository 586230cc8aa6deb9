// Package page hands out the pages of a machine: Buddy is its page allocator and
// Actor is somebody else who uses pages, as the page cache does.
//
// Buddy keeps blocks of 1<<order pages, aligned to their size from the start of
// the arena, on one list per order. A block that is too large is split, its
// upper halves going back to the lists; a freed block joins its buddy as long as
// that is free too.
//
// Locking: one zone lock with interrupts off, taken last of all (RankZone), so
// pages may be asked for and given back with any other lock held.
//
// Invariants, with the zone lock free:
//
//	PAGE1: every page belongs to exactly one block, free or given out.
//	PAGE2: zone.free is the number of pages of the free blocks.
//	PAGE3: no two free blocks are buddies.
package page
