// Package pairs holds subjects against each other that are the same by design: different
// code for what nobody who looks with the locks free can tell apart.
//
// There is one table of them (Rows), which says of each what is left out of the
// comparison. A witness watches each side: the outcomes of all operations, the pages that
// go and come, in their order, and every list with all that is on it, at every quiet
// point. What differs first is the finding: "pair differs", of the second of the two.
//
// A pair is compared on programs of one task, and on those of several under departures
// that both sides know: at the ends of operations, where they wait, call other CPUs,
// take and give locks, and turn interrupts off and on.
//
// The package is part of every fuzz binary and imports little.
package pairs
