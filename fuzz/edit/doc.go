// Package edit makes smaller programs out of programs. A Cut is one simplification: lines left
// out, a repeat opened, a number made smaller, the machine nearer to the default. Applied, it gives
// a whole new program that prog.Validate accepts, or none. What hangs on a line goes with it: the
// lines that use what only it bound, and the departures anchored to it.
//
// The functions of this package list the cuts of a program, each sort in the order in which they
// are worth trying. A shrinker (fuzz/property) tries them one after the other, the minimiser
// (fuzz/minimise) repeats each sort until nothing is left to take away.
package edit
