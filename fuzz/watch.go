package fuzz

import (
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"allocfuzz/impls/fault"
)

// EnvLimit is how long one input or program may take, as time.ParseDuration reads
// it. It must be below the ten seconds after which the Go fuzz engine kills a
// worker without a word.
const EnvLimit = "ALLOCFUZZ_LIMIT"

const limitDefault = 8 * time.Second

func limit() time.Duration {
	if d, err := time.ParseDuration(os.Getenv(EnvLimit)); err == nil && d > 0 {
		return d
	}
	return limitDefault
}

// Watch ends the process when done is not called in time: an allocator that never
// returns cannot be stopped, and without a word nobody would know which program
// hung it. program gives the text of what runs; the stacks of all goroutines
// follow it. Simulated allocators have a limit of steps, and never get here.
func Watch(program func() []byte) (done func()) {
	d := limit()
	t := time.AfterFunc(d, func() {
		fmt.Fprintf(os.Stderr, "\nTITLE: %s\nFOUND: the allocator has not returned in %s\n\n"+
			"PROGRAM\n%s\n", fault.Hung, d, program())
		debug.SetTraceback("all")
		panic("hung: see PROGRAM above, and the goroutine that is running below")
	})
	return func() { t.Stop() }
}
