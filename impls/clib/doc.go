// Package clib puts libraries of malloc under test: any shared object that has malloc and
// free, under their own names or with a prefix that a family of libraries uses.
//
// A library is loaded by a child process, never by the process that judges: it may end its
// process, hang, or break its memory. The child is the same program started again, so every
// main, and every TestMain of a test that wants such a subject, begins with TakeOver. The
// child says what it found in the library and then serves package remote: batches come by a
// socket, what happens is written to a journal in shared memory, so that after a death the
// operation is known in which it came. What the library prints is kept, its end becomes part
// of the finding. Whoever plays a batch watches time and resident memory.
//
// A child has its address space laid out without randomisation where the system allows, so
// that a program finds the same addresses again.
//
// The operations memalign and realloc stand for several functions of C each: which one is
// called depends on the request alone (see heap.Memalign), so that a program means the same
// wherever it stands.
//
// Sources: ISO C17 7.22.3, C23 7.24.3, POSIX.1-2024, the manuals of the libraries.
package clib
