// Package guard puts SLUB's debugging around any allocator: red zones and padding
// around each object, poison in what is free, who allocated and who freed, and a
// quarantine in which freed objects wait, so that writes to them are seen.
//
// Of makes a guarded subject of any subject that allocates by size; New guards one
// allocator. Layout, fills, checks, titles and reports are debugcheck's, under its
// rules Guard: those of 6.1, with one block of the allocator behind as a slab of one
// object. Nothing of the guard's own lies in front of a block or behind it.
//
//	slot = block -> [red zone] object -> [red zone] [link's place] [tracks] [padding]
//
// What is checked when:
//
//   - At a free: red zones and padding of the object. When a red zone was written to,
//     it is put right and the free is refused, as SLUB refuses it: the object stays
//     allocated, and freeing it again succeeds. Padding is only put right. An address
//     that is no live object is refused too, whatever the flags, because there is
//     nothing that could be freed: "Object already free" with both tracks while it is
//     in quarantine, "Invalid object pointer" otherwise.
//   - When an object leaves the quarantine, and only then goes back to the allocator
//     behind: everything, poison included. It leaves when the quarantine is over its
//     limits, when its cache is destroyed, and when memory is short: before a refusal
//     with a reason (Ctx.NoteRefusal) is passed on the quarantine is emptied and the
//     request made again. One without a reason is passed on at once.
//   - At a validation: every object that is live or in quarantine.
//
// Options sanity (F) switches these checks on, except that of an address that is no
// object and validation. The other options say what there is to check.
//
// The guard zeroes, resizes and answers usable sizes itself: Realloc always moves, so
// that the old place goes to the quarantine, and the usable size is the size asked
// for. Calloc, realloc and the like of the allocator behind are not called.
//
// Simulated, the guard has no points: what it does between two calls of the allocator
// behind is one step. Natively a lock keeps threads apart, which is not held during
// those calls.
//
// What it costs (BenchmarkGuard, one thread): an allocation and a free of 64 bytes take
// 390 ns with FZPU and 260 ns with FZ, over an allocator that takes 20 ns, and 2 µs with
// Go stacks. In memory 64 bytes take 160, or 176 at multiples of 16, and the quarantine
// up to 1 MiB.
package guard
