package oracle

import (
	"fmt"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// A Comparison holds the outcomes of one sequential program on several subjects
// against each other (check 5). Add the subjects one by one; the first is the
// reference.
//
// Two subjects are in step until one does what the other need not do: it has no
// memory (page use differs by design), does not support an operation that binds or
// frees, turns a cache down, or answers realloc to nothing in its own way. While
// they are in step every outcome must be the same, a skipped operation too. Then
// they are apart, and only what both did is compared.
type Comparison struct {
	subjects []*impls.Variant
	apart    []bool // from the start: a declared cache could not be made
	outcomes [][]outcome
	Compared int // operations that were compared
	LeftOut  int // unsupported, skipped, or refused on one side
}

type outcome struct {
	op    int32
	out   impls.Outcome
	parts bool // the other side need not do this, and then they are apart
	ways  bool // what it leads to is each side's own, whatever the outcome
}

// outcomeOf takes from an event what is compared.
func outcomeOf(ev *impls.Event) outcome {
	o := outcome{op: ev.Op, out: ev.Outcome}
	switch ev.Code {
	case impls.OpUsable, impls.OpShrink, impls.OpDrain: // bind and free nothing
	case impls.OpCreate:
		o.parts = ev.Outcome != impls.OK
	case impls.OpRealloc:
		o.ways = ev.Size == 0
		fallthrough
	default:
		o.parts = ev.Outcome == impls.NoMem || ev.Outcome == impls.Unsupported
	}
	return o
}

// Reset forgets the subjects and keeps the storage.
func (c *Comparison) Reset() {
	c.subjects, c.apart = c.subjects[:0], c.apart[:0]
	c.Compared, c.LeftOut = 0, 0
}

// Add takes the outcomes of one run. A run that was cut short is compared as far
// as it went. apart says that the subject could not make every declared cache.
func (c *Comparison) Add(v *impls.Variant, events []impls.Event, apart bool) {
	n := len(c.subjects)
	c.subjects, c.apart = append(c.subjects, v), append(c.apart, apart)
	if n == len(c.outcomes) {
		c.outcomes = append(c.outcomes, nil)
	}
	c.outcomes[n] = c.outcomes[n][:0]
	for i := range events {
		c.outcomes[n] = append(c.outcomes[n], outcomeOf(&events[i]))
	}
}

// Reference is the subject that the others are compared with; nil before Add.
func (c *Comparison) Reference() *impls.Variant {
	if len(c.subjects) == 0 {
		return nil
	}
	return c.subjects[0]
}

// A Difference is the first operation whose outcome differs between a subject and
// the reference.
type Difference struct {
	Subject *impls.Variant
	Fault   fault.Fault
}

// Differences compares every subject with the reference.
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
	apart := c.apart[0] || c.apart[n]
	for i := range min(len(ref), len(got)) {
		a, b := ref[i], got[i]
		if a.op != b.op {
			return c.difference(n, b.op, "ran line %d where %s ran line %d", b.op,
				c.subjects[0].Name,
				a.op), true
		}
		differ := a.out != b.out
		apart = apart || a.ways || differ && (a.parts || b.parts)
		if out := leftOut(a.out) || leftOut(b.out); out && (apart || unsupported(a, b)) {
			c.LeftOut++
			continue
		}
		c.Compared++
		if differ {
			return c.difference(n, b.op, "%s, on %s %s", b.out, c.subjects[0].Name, a.out), true
		}
	}
	return Difference{}, false
}

func (c *Comparison) difference(n int, op int32, format string, args ...any) Difference {
	return Difference{Subject: c.subjects[n], Fault: fault.Fault{Title: fault.OutcomesDiffer,
		Detail: fmt.Sprintf(format, args...), Where: fault.Where{Line: int(op), CPU: -1}}}
}

func unsupported(a, b outcome) bool {
	return a.out == impls.Unsupported || b.out == impls.Unsupported
}

func leftOut(o impls.Outcome) bool {
	return o == impls.Unsupported || o == impls.Skipped || o == impls.NoMem || o == impls.Refused
}
