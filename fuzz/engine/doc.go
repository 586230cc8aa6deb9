// Package engine drives the programs and the fuzz targets from outside: it replays
// files on subjects, builds the fuzz binaries of a checkout, and runs their targets
// in processes of their own.
//
// A target is never judged by the exit status of its process alone: some releases
// of Go report "context deadline exceeded" at the end of a clean run. What counts
// is what was left behind: a finding's file, an input that made a target fail, or
// a message of this project.
//
// Every child runs in a process group of its own, so that an interrupt reaches
// allocfuzz alone, which then ends the children in good order.
package engine
