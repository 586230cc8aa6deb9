// Package history is what threads did to an allocator in real time, and the check that it
// can be explained: that there is an order of the operations in which a simple allocator
// would have answered the same, and in which an operation that had returned before another
// one was called comes before it. Such a history is linearizable.
//
// The simple allocator is a set of live ranges of bytes. An allocation adds a range that
// overlaps none of them, a free takes one out, a realloc does both in one step. A refusal
// changes nothing and is always allowed.
//
// # The condition
//
// Whoever holds a range may rely on it from the moment the allocation has returned to the
// moment its free is called: whatever the order, it is live in between. So
//
//	two overlapping ranges that are relied on at the same moment are wrong,
//
// and for allocations and frees this is all. If nothing is relied on twice, each
// allocation can be thought of at its return and each free at its call, and in this order
// the simple allocator does the same. In other words: an allocation may return memory only
// if who held it last called free before the allocation returned.
//
// A realloc is one step somewhere between its call and its return, which ends the life of
// the old range and begins that of the new one. Its moment is bounded from below by the
// frees of what overlaps the new range, and from above by the allocations that got what
// overlaps the old one. The order of two lives that overlap is known (what is relied on
// first lived first), so these bounds are edges of a graph: from the operation that ended
// the life before to the one that began the life behind. The history is linearizable if
// each operation can be given a moment that is not before its call nor before those of its
// predecessors, and not behind its return, and if there is no cycle. For each byte only the
// life just before counts, the others follow; so the edges are few, and the check takes
// O(n log n).
//
// Two operations one of which ends at the stamp at which the other begins are concurrent.
//
// # Pending operations
//
// An operation that never returned may have happened or not. A pending allocation took
// something that nobody knows, so it says nothing. A pending free may have given its range
// back at any time since its call, and a pending realloc its old one.
//
// # What it sees that others do not
//
// The runner's model holds an allocation against what is live when it returns, and takes a
// free as done when it is called. That is the same condition, arrived at otherwise, with
// three differences. A realloc that is refused keeps its memory all the while: who got it in
// between, and gave it back before the refusal, got what was not free; the model looks at
// the moment of the refusal only. The same is true of the bytes that a realloc in place has
// before and after. And it needs no moment at which nothing else runs, so that it can be
// asked about real threads.
package history
