// Covtrace says which code of the allocators inputs of a fuzz target run. It is built with
// coverage counters and started by allocfuzz corpus thin; see package fuzz/thin for what it reads
// and writes.
//
//	go build -cover -covermode=atomic -coverpkg=…,allocfuzz/cmd/covtrace ./cmd/covtrace
//	covtrace FuzzInterrupts < inputs > features
package main

import (
	"fmt"
	"os"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/thin"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "covtrace: expected the name of a fuzz target")
		os.Exit(3)
	}
	entry := fuzz.Entry(os.Args[1])
	if entry == nil {
		fmt.Fprintf(os.Stderr, "covtrace: no fuzz target %s whose coverage it can trace\n",
			os.Args[1])
		os.Exit(3)
	}
	run := func(data []byte) { entry(quiet{}, data) }
	fuzz.Warm(run)
	if err := thin.Serve(run, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "covtrace:", err)
		os.Exit(3)
	}
}

// quiet is a test that does not mind what is found: inputs that show a bug cover something too.
type quiet struct{}

func (quiet) Helper() {}

func (quiet) Fatalf(string, ...any) {}
