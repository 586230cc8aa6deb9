package oracle

import (
	"fmt"

	"allocfuzz/debugcheck"
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
// they are apart, and only what both did is compared. A misuse that one side skips, and
// any debug report, parts them, too: what follows is the business of each side's rules,
// but a report on both sides at once must be about the same.
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
	parts bool               // the other side need not do this, and then they are apart
	ways  bool               // what it leads to is each side's own, whatever the outcome
	said  *debugcheck.Report // the first report, nil for none
	again bool               // a free of what is not there, or not in that cache
	bulk  bool               // one of several objects, whose order is each side's own
}

// A sense is what a debug report is about, in the words of all allocators.
type sense uint8

// The senses that the rules of all allocators agree on.
const (
	twice   sense = iota + 1 // an object was freed that is free
	foreign                  // an object was freed to a cache that it is not from
)

// senses tells what titles are about. The red zones of SLAB 2.4 do not tell a second
// free from damage beside the object: its title is not among them.
var senses = map[string]sense{
	debugcheck.TitleAlreadyFree: twice, debugcheck.TitleSlabDouble: twice,
	debugcheck.TitleSlabOnChain: twice, debugcheck.TitleWrongCache: foreign,
}

// sameLayout says whether two reports are about objects of SLUB that lie alike, and so are
// found alike: the older designs keep the link at the first word.
func sameLayout(a, b *debugcheck.Layout) bool {
	return a != nil && b != nil && !a.Rules.SLAB() && a.Rules != debugcheck.Guard &&
		a.Link == b.Link && a.Stride == b.Stride
}

// clash says whether two reports of one operation cannot both be right: under the same
// rules of SLUB, which find the same objects, they have the same title, and whatever
// the rules a free that must not be is called what it is.
func clash(a, b *outcome) bool {
	switch {
	case a.said == nil || b.said == nil || a.bulk:
		return false
	case a.said.Rules == b.said.Rules && sameLayout(a.said.Layout, b.said.Layout):
		return a.said.Title != b.said.Title
	case !a.again:
		return false
	}
	x, y := senses[a.said.Title], senses[b.said.Title]
	return x != 0 && y != 0 && x != y
}

// outcomeOf takes from an event what is compared.
func outcomeOf(ev *impls.Event) outcome {
	o := outcome{op: ev.Op, out: ev.Outcome, bulk: ev.Part > 0}
	if len(ev.Reports) > 0 {
		o.said = ev.Reports[0]
	}
	if ev.Code.Misuses() {
		o.parts = ev.Outcome != impls.OK // what each side's rules leave open is skipped
		o.again = ev.Code == impls.OpFreeAgain || ev.Code == impls.OpFreeWrong
		o.ways = ev.Size == 0 && o.said == nil // a free, or damage to a field
		return o
	}
	switch ev.Code {
	case impls.OpUsable, impls.OpShrink, impls.OpDrain, impls.OpFlush, impls.OpOffline,
		impls.OpReap: // bind and free nothing
	case impls.OpValidate: // refused without debug flags, which a guard has unasked
		if o.out == impls.Refused {
			o.out = impls.Unsupported
		}
	case impls.OpCreate:
		o.parts = ev.Outcome != impls.OK
	case impls.OpRealloc:
		o.ways = ev.Size == 0
		fallthrough
	default:
		o.parts = ev.Outcome == impls.NoMem || ev.Outcome == impls.Unsupported ||
			o.bulk && ev.Outcome == impls.Skipped // on the side where misuse did harm
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
		if !apart && clash(&a, &b) {
			return c.difference(n, b.op, "report %q, on %s %q", b.said.Title,
				c.subjects[0].Name, a.said.Title), true
		}
		apart = apart || a.said != nil || b.said != nil
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
