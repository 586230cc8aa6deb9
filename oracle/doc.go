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
package oracle
