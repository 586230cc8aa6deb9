// Package sched decides what happens at the points of a run: it holds the
// choosers of the simulated machine. It knows points, tasks and handlers, and no
// program and no subject.
//
//   - Replay follows a written schedule: departures from line order, each anchored
//     to a line, a kind of point, a field and an attempt.
//   - Survey and Single try one departure at every point, one at a time (bound 1).
//   - Random departs by a seeded generator; it feeds the round-trip tests.
//
// What could be chosen at a point is Binding.Departures: the searches of oracle/explore
// stand on it.
//
// A schedule is written down from the decisions of a run with FromDecisions.
package sched

import "allocfuzz/impls/machine"

// A Binding tells a chooser the tasks and handlers of the run that is about to
// start, by number of context. For each number one of the two is nil.
type Binding struct {
	Machine  *machine.Machine
	Tasks    []*machine.Ctx
	Handlers []*machine.Handler
	// Deliveries is how often a departure may deliver a handler, 0 for once.
	Deliveries int
}

// Context finds the number of a task or handler; -1 when it has none.
func (b *Binding) Context(t *machine.Ctx, h *machine.Handler) int {
	for i := range b.Tasks {
		if t != nil && b.Tasks[i] == t || h != nil && b.Handlers[i] == h {
			return i
		}
	}
	return -1
}

// A Binder is a chooser that wants the binding of each run.
type Binder interface{ Bind(b *Binding) }

// An Act is one action of an anchor, by numbers of contexts.
type Act struct {
	Kind machine.ActionKind
	Ctx  int // SwitchTo, Interrupt: the context; -1 otherwise
	CPU  int // Move, Drain
}

// An Anchor is one departure: where, and what happens there, in order.
type Anchor struct {
	Pos      int      // order of the line
	Iter     [2]int32 // iterations of the repeats around it, 0 outside
	Handler  int      // context of the handler whose line it is, -1 in a task
	Delivery int      // which delivery of the handler, from 1; 0 in a task
	Kind     machine.Kind
	Field    string
	N        int
	Acts     []Act
}

// action turns an act into an action of the machine; ok is false when the act's
// context is not of the right kind.
func (b *Binding) action(a Act) (out machine.Action, ok bool) {
	out = machine.Action{Kind: a.Kind, CPU: a.CPU}
	switch a.Kind {
	case machine.SwitchTo:
		if a.Ctx < 0 || a.Ctx >= len(b.Tasks) {
			return out, false
		}
		out.Task = b.Tasks[a.Ctx]
		return out, out.Task != nil
	case machine.Interrupt:
		if a.Ctx < 0 || a.Ctx >= len(b.Handlers) {
			return out, false
		}
		out.Handler = b.Handlers[a.Ctx]
		return out, out.Handler != nil
	case machine.Suppress:
		for _, h := range b.Handlers {
			if h == nil || !h.Due() {
				continue
			}
			if out.Handler == nil || h.Pos < out.Handler.Pos {
				out.Handler = h
			}
		}
		return out, out.Handler != nil
	}
	return out, true
}

// FromDecisions writes decisions down as anchors. Decisions at one point become
// one anchor with several acts.
func FromDecisions(b *Binding, ds []machine.Decision) []Anchor {
	var out []Anchor
	for i := range ds {
		d := &ds[i]
		a := Anchor{Pos: d.Pos, Iter: d.Iter, Handler: -1, Delivery: d.Delivery,
			Kind: d.Point.Kind, Field: d.Point.Field.Name(), N: d.Point.N}
		if d.Handler != nil {
			a.Handler = b.Context(nil, d.Handler)
		}
		act := Act{Kind: d.Action.Kind, Ctx: -1, CPU: d.Action.CPU}
		switch d.Action.Kind {
		case machine.SwitchTo:
			act.Ctx = b.Context(d.Action.Task, nil)
		case machine.Interrupt:
			act.Ctx = b.Context(nil, d.Action.Handler)
		}
		if j := find(out, &a); j >= 0 {
			out[j].Acts = append(out[j].Acts, act)
			continue
		}
		a.Acts = append(a.Acts, act)
		out = append(out, a)
	}
	return out
}

// find returns the anchor at the same point, -1 when there is none.
func find(as []Anchor, a *Anchor) int {
	for i := range as {
		if as[i].same(a) {
			return i
		}
	}
	return -1
}

func (a *Anchor) same(b *Anchor) bool {
	return a.Pos == b.Pos && a.Iter == b.Iter && a.Handler == b.Handler &&
		a.Delivery == b.Delivery && a.Kind == b.Kind && a.Field == b.Field && a.N == b.N
}
