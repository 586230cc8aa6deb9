// Package oracle runs programs on subjects and judges what they do.
//
// It is the only place where programs and allocators meet. Compile turns a
// program into operations on slots; a Runner carries them out on one subject,
// context by context, on the simulated machine; a judge holds every event
// against an obviously right model; Structure holds snapshots against the rules
// of slabs and lists; Compare holds the outcomes of several subjects against the
// model and each other. What is wrong becomes a Finding: a value with a title
// from the table of package fault, never an error and never a panic. A panic
// that starts with "allocfuzz:" is a fault of this project.
//
// Slots (the names of a program) are claimed and bound between points: an
// operation claims its operands before its first point and binds its result
// after its last, so every order of two contexts around a slot is reached by
// switching at the end of a line.
//
// A line is one event, but for bulk operations: they are one call of the allocator and an
// event an object, an allocation or a free like any other. Their frees are judged when they
// begin and their allocations when they end, all at once.
//
// A program runs in one of three ways, with the same events and the same judge: on
// the simulated machine, natively (one task), or on a remote subject. Stream runs
// one that is still being read, in the memory of what is live. A remote subject that
// dies is a finding; one that cannot be reached or does not keep to the protocol is
// an error, which says nothing of the allocator.
//
// What a run costs beside its points is the set-up of the subject and, with the check
// of structure, the end: everything freed, destroyed and drained, and every page
// taken once. A search over schedules leaves the end out (Options.NoEnd, about twice
// as many runs) or the whole check (as many again) where it looks for consequences
// only; Singles does what its options say.
package oracle
