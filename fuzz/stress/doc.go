// Package stress runs allocators on real threads: goroutines that own the CPUs of a native
// machine. What the simulated machine finds by choosing every step, this finds by chance and
// speed, and with the race detector: the same sources, compiled down to plain and atomic
// operations.
//
// A round is a fresh subject, some threads that carry out a few hundred operations each, and
// then a quiet point at which all have ended. See [Workload] for what threads do. Patterns of
// the owner are in every object, verified by whoever frees it.
//
// Of two rounds out of three the history is written down: stamps from a counter, before each
// call and after each return, which package oracle/history checks per address, and porcupine
// (oracle/history/linear) again where the round is small. A search that runs out of time is
// counted as unknown. A stamp also orders the threads, so that the race detector no longer
// sees what is unordered without it; so each third round has none.
//
// At the quiet point the lists of the subject are walked; then everything is freed, every
// cache destroyed, and each page must be back.
//
// A subject that declares no capability smp has one lock around it: threads take turns, and
// what is left to find is what one allocator does when many owners free each other's memory.
//
// A round in which no thread gets on is given up: its pending operations and all stacks are
// the finding "hung", its goroutines are left behind, and the next subject has its turn.
package stress
