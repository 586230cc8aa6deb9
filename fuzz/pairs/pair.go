package pairs

import (
	"fmt"
	"slices"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A Pair is two subjects that are the same to whoever sees of them what its view shows.
// It keeps storage between runs; one goroutine uses it at a time.
type Pair struct {
	Row    *Row
	of     [2]*impls.Variant
	seen   [2]witness
	replay *sched.Replay
}

// New makes the pair of a row, with the subjects that it names.
func New(row *Row, a, b *impls.Variant) *Pair {
	p := &Pair{Row: row, replay: sched.NewReplay(sched.Strict, nil)}
	p.of[0] = p.seen[0].watch(a, row.View)
	p.of[1] = p.seen[1].watch(b, row.View)
	return p
}

// A Run is what a pair showed in one program.
type Run struct {
	Left   string       // why the program does not apply, "" when it was run
	Fault  *fault.Fault // what differs; nil when nothing does
	Counts [2]oracle.Counts
	Points [2]uint64
}

// opsMax bounds the programs that are watched.
const opsMax = 1 << 14

// Applies says whether the pair can be compared on a program, and if not why.
func (p *Pair) Applies(c *oracle.Compiled) (ok bool, why string) {
	switch {
	case c.Operations() > opsMax:
		return false, "too many operations to write down"
	case p.Row.View != Whole && misuses(c):
		return false, "what a misuse hits is each side's own"
	case p.Row.View == Outcomes && !c.Sequential():
		return false, "several contexts come in between at other places"
	}
	for i, v := range p.of {
		on := p.on(i, c)
		if on == nil {
			return false, v.Name + " is made for other machines"
		}
		if ok, why := oracle.Applies(on, v); !ok {
			return false, v.Name + ": " + why
		}
	}
	return true, ""
}

func misuses(c *oracle.Compiled) bool {
	for i := range c.Lines {
		if c.Lines[i].Op.Code.Misuses() {
			return true
		}
	}
	return false
}

// on is the program for a side: on another machine when that side is not made for this
// one and a machine is nothing that the view shows; nil when the side cannot run it.
func (p *Pair) on(side int, c *oracle.Compiled) *oracle.Compiled {
	v := p.of[side]
	if v.For(c.Config.Preempt) {
		return c
	}
	if p.Row.View != Outcomes || len(v.Machines) == 0 {
		return nil
	}
	other := *c
	other.Config.Preempt = v.Machines[0]
	return &other
}

// shared are the kinds of points that departures of a pair may be anchored at.
var shared = []machine.Kind{machine.KCall, machine.KLock, machine.KUnlock, machine.KIRQSave,
	machine.KIRQRestore, machine.KEnd, machine.KWait}

// Shared says whether departures of a pair may be anchored at points of a kind.
func Shared(k machine.Kind) bool { return slices.Contains(shared, k) }

// Run runs a program on both sides under the same departures, nil for none, and compares
// what they showed. Strictly, and in repair, departures that are possible on one side only
// leave the program out.
func (p *Pair) Run(r *oracle.Runner, c *oracle.Compiled, mode sched.Mode,
	anchors []sched.Anchor) (*Run, error) {
	out := &Run{}
	if ok, why := p.Applies(c); !ok {
		out.Left = why
		return out, nil
	}
	if len(anchors) > 0 && p.Row.View == Outcomes {
		out.Left = "departures, whose places are each side's own"
		return out, nil
	}
	for i := range anchors {
		if !Shared(anchors[i].Kind) {
			out.Left = "a departure at " + anchors[i].Kind.String() + " " + anchors[i].Field
			return out, nil
		}
	}
	var unused [2][]*sched.Anchor
	for i, v := range p.of {
		opt := oracle.Options{}
		if len(anchors) > 0 {
			p.replay.Set(mode, anchors)
			opt.Chooser = p.replay
		}
		res := r.Run(p.on(i, c), v, opt)
		if res.Err != nil {
			return nil, res.Err
		}
		p.seen[i].result(res)
		out.Counts[i], out.Points[i] = res.Counts, res.Steps
		if len(anchors) > 0 {
			unused[i] = p.replay.Unused()
		}
	}
	if mode != sched.Lenient && !slices.Equal(unused[0], unused[1]) {
		out.Left = "a departure is possible on one side only"
		return out, nil
	}
	out.Fault = p.compare()
	return out, nil
}

// compare holds what the two showed last against each other: outcomes first, since they
// have their operation.
func (p *Pair) compare() *fault.Fault {
	a, b := &p.seen[0], &p.seen[1]
	where := fault.Where{Line: -1, CPU: -1}
	n, x, y, ok := differs(a.events, b.events)
	if ok {
		for _, ops := range [...][]int32{a.ops, b.ops} {
			if n < len(ops) {
				where.Line = int(ops[n])
			}
		}
	} else if n, x, y, ok = differs(a.seen, b.seen); !ok {
		return nil
	}
	return &fault.Fault{Title: fault.PairDiffers, Where: where, Detail: fmt.Sprintf(
		"%q, on %s %q", y, p.Row.A, x)}
}

// Explain runs the second side again, under a schedule block or in line order when that is
// nil, and reports what differs as its finding. The order of reuse that it may promise is
// no part of that: it is another finding.
func (p *Pair) Explain(r *oracle.Runner, c *oracle.Compiled, block *prog.Sched,
	f *fault.Fault) (*oracle.Report, error) {
	return r.Explain(p.on(1, c), p.of[1], block, oracle.Options{Extra: f})
}

// Recorded runs the second side again under departures, and returns those that were really
// taken as a schedule block.
func (p *Pair) Recorded(r *oracle.Runner, c *oracle.Compiled, mode sched.Mode,
	anchors []sched.Anchor) *prog.Sched {
	if len(anchors) == 0 {
		return nil
	}
	p.replay.Set(mode, anchors)
	r.Run(p.on(1, c), p.of[1], oracle.Options{Chooser: p.replay, Record: true})
	block := c.Schedule(p.Row.B, r.Recorded())
	return &block
}

// Departures makes departures ones of the pair: what is anchored at other points, or at
// fields that not both sides have, is taken at the end of its line. has says which points
// each side has.
func Departures(anchors []sched.Anchor, has [2]sched.Points) []sched.Anchor {
	out := slices.Clone(anchors)
	for i := range out {
		a := &out[i]
		at := sched.PointName{Kind: a.Kind, Field: a.Field}
		if !Shared(a.Kind) || !has[0][at] || !has[1][at] {
			a.Kind, a.Field, a.N = machine.KEnd, "-", 1
		}
	}
	return out
}

// Block is the first schedule of a program that departs from line order, nil when none
// does.
func Block(p *prog.Program) *prog.Sched {
	for i := range p.Scheds {
		if len(p.Scheds[i].Departures) > 0 {
			return &p.Scheds[i]
		}
	}
	return nil
}
