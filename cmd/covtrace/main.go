// Covtrace says which code of the allocators inputs of a fuzz target run. It is built with
// coverage counters and started by allocfuzz corpus thin; see package fuzz/thin for what it reads
// and writes.
//
//	go build -cover -covermode=atomic -coverpkg=…,allocfuzz/cmd/covtrace ./cmd/covtrace
//	covtrace FuzzInterrupts < inputs > features
package main

import (
	"bytes"
	"fmt"
	"os"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/thin"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "covtrace: expected the name of a fuzz target")
		os.Exit(3)
	}
	run := runner(os.Args[1])
	if run == nil {
		fmt.Fprintf(os.Stderr, "covtrace: no fuzz target %s whose coverage it can trace\n",
			os.Args[1])
		os.Exit(3)
	}
	warm(run)
	if err := thin.Serve(run, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "covtrace:", err)
		os.Exit(3)
	}
}

// runner is what runs inputs of a target; nil when there is none of that name.
func runner(name string) func([]byte) {
	if name == "FuzzProg" {
		return func(data []byte) {
			if p, err := prog.Parse("input", bytes.NewReader(data)); err == nil {
				prog.Format(p)
			}
		}
	}
	if t := fuzz.TargetNamed(name); t != nil {
		return func(data []byte) { t.Run(quiet{}, data) }
	}
	return nil
}

// warm runs a few inputs, so that what is made once a process is no coverage of the first input.
func warm(run func([]byte)) {
	const most = 20
	seeds := fuzz.Seeds(true)
	for _, data := range seeds[:min(most, len(seeds))] {
		run(data)
	}
}

// quiet is a test that does not mind what is found: inputs that show a bug cover something too.
type quiet struct{}

func (quiet) Helper() {}

func (quiet) Fatalf(string, ...any) {}
