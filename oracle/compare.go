package oracle

import (
	"fmt"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// A Comparison holds the outcomes of one sequential program on several subjects
// against each other (check 5). Add the subjects one by one; the first is the
// reference.
type Comparison struct {
	subjects []*impls.Variant
	outcomes [][]outcome
	Compared int // operations that were compared
	LeftOut  int // unsupported, skipped, or refused on one side
}

type outcome struct {
	op  int32
	out impls.Outcome
}

// Reset forgets the subjects and keeps the storage.
func (c *Comparison) Reset() {
	c.subjects = c.subjects[:0]
	c.Compared, c.LeftOut = 0, 0
}

// Add takes the outcomes of one run. A run that was cut short is compared as far
// as it went.
func (c *Comparison) Add(v *impls.Variant, events []impls.Event) {
	n := len(c.subjects)
	c.subjects = append(c.subjects, v)
	if n == len(c.outcomes) {
		c.outcomes = append(c.outcomes, nil)
	}
	c.outcomes[n] = c.outcomes[n][:0]
	for i := range events {
		c.outcomes[n] = append(c.outcomes[n], outcome{events[i].Op, events[i].Outcome})
	}
}

// A Difference is the first operation whose outcome differs between a subject and
// the reference.
type Difference struct {
	Subject *impls.Variant
	Fault   fault.Fault
}

// Differences compares every subject with the reference. An operation is left out
// when either side does not support it, skipped it, or refused it: page use
// differs by design, and what a refusal leads to differs with it.
func (c *Comparison) Differences() []Difference {
	var out []Difference
	for n := 1; n < len(c.subjects); n++ {
		if d, ok := c.differs(n); ok {
			out = append(out, d)
		}
	}
	return out
}

func (c *Comparison) differs(n int) (Difference, bool) {
	ref, got := c.outcomes[0], c.outcomes[n]
	for i := range min(len(ref), len(got)) {
		a, b := ref[i], got[i]
		if a.op != b.op {
			return c.difference(n, b.op, "ran line %d where %s ran line %d", b.op, c.subjects[0].Name,
				a.op), true
		}
		if leftOut(a.out) || leftOut(b.out) {
			c.LeftOut++
			continue
		}
		c.Compared++
		if a.out != b.out {
			return c.difference(n, b.op, "%s, on %s %s", b.out, c.subjects[0].Name, a.out), true
		}
	}
	return Difference{}, false
}

func (c *Comparison) difference(n int, op int32, format string, args ...any) Difference {
	return Difference{Subject: c.subjects[n], Fault: fault.Fault{Title: fault.OutcomesDiffer,
		Detail: fmt.Sprintf(format, args...), Where: fault.Where{Line: int(op), CPU: -1}}}
}

func leftOut(o impls.Outcome) bool {
	return o == impls.Unsupported || o == impls.Skipped || o == impls.NoMem || o == impls.Refused
}
