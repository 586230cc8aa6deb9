// Package minimise makes a program that shows a bug small, and keeps the bug: what is left shows a
// finding of the same identity (subject, title and kind of operation), strictly replayed, and it
// does not without any one of its lines or departures.
//
// It takes away, in this order and again until nothing more goes: the operations behind the one
// that fails, those that have nothing to do with its names or caches, runs of lines and then single
// ones (delta debugging), whole contexts, repeats and bodies of handlers, departures, what the
// machine and the caches have beside their defaults, and sizes. At last names become short ones.
// The cuts are those of package fuzz/edit: what hangs on a line goes with it.
//
// Each candidate is run with its schedule in repair, and what was really decided is taken over as
// its schedule: a departure that no longer applies falls away. A line whose loss only shifted the
// schedule is found out at the end, by a small search for another schedule without that line.
//
// The same program and bug give the same result; only a context that ends early makes it another,
// which then says so.
package minimise
