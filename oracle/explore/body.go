// Package explore searches the schedules of a program: it runs the same thing again and again
// under choosers that decide differently each time, and knows when nothing is left.
package explore

import (
	"errors"

	"allocfuzz/impls/machine"
)

// ErrNotDeterministic says that the same decisions gave another run.
var ErrNotDeterministic = errors.New("the subject is not deterministic: the same decisions gave " +
	"another run")

// A Body is what is run again and again: a program on a subject, or a test's own tasks. A run
// is a pure function of the decisions.
type Body interface {
	// Run makes one run from the first state, under ch, which it binds when ch is a sched.Binder.
	Run(ch machine.Chooser) Run
}

// A Run is what one run gave.
type Run struct {
	Bad    bool   // something was found
	State  uint64 // a hash of the final state
	Hash   uint64 // of the trace
	Points uint64
	Err    error // of the harness: the search cannot go on
}
