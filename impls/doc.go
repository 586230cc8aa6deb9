// Package impls is the contract between allocators and the oracle: what a
// subject offers, how a run of it is written down, and what a snapshot of it
// shows. It knows no program and no allocator.
//
// A subject is anything under test. Two kinds stand behind one Variant:
//
//   - in process: Variant.New builds an Instance, whose calls take the running
//     context of the simulated machine;
//   - remote (a child process, a kernel guest): Variant.Dial gives a Player,
//     which takes a Batch and answers with a transcript.
//
// The in-process runner produces the same transcript, so the oracle judges
// both alike. Addresses are numbers, never pointers; contents are reached only
// through Memory, so that a remote side can do the same.
package impls
