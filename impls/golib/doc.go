// Package golib puts allocators written in Go by others under test, and is the way
// in for a user's own: see Wrap.
//
// These subjects have a heap of their own and leave the simulated machine alone.
// They have no points: in simulation each call is one step (caches of objects add
// that of their count). None of them knows CPUs or may be called in an interrupt,
// and natively only one thread may use one.
//
// An address is what the allocator itself calls one: a pointer's number where it
// hands out pointers or slices, an offset where it has a byte heap. Numbers of
// pointers differ from run to run, so nobody may compare them.
//
// Refusals: outside allocators have no page layer whose refusals could be counted.
// Each has a limit instead. A refusal is noted as legitimate (Ctx.NoteRefusal) when
// the request cannot be met below the limit; any other is left for the oracle to
// call refused without reason.
//
// Instances are pooled, since a fuzzer makes thousands a second. Close gives all
// that is live back and makes the heap as new; after a panic inside the allocator
// it is thrown away.
package golib
