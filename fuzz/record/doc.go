// Package record records the allocations of a program that it runs: on Linux, of one that is
// dynamically linked, by a small C program (c/shim.c) that is put in front of its C library.
//
// The C program is compiled here, with the compiler that the machine has, and kept in a folder of
// the user's cache, under a hash of its text and of what compiled it. It writes into a file that is
// mapped and shared, whose form is the format "record" of corpus/trace.
package record
