package sched

import "allocfuzz/impls/machine"

// Mode says what Replay does with a departure that does not fit.
type Mode uint8

// The modes of Replay.
const (
	// Strict takes every departure at exactly its point. Unused says which were
	// never reached or not allowed there.
	Strict Mode = iota
	// Repair is strict about points and leaves out what does not fit.
	Repair
	// Lenient gives every departure a meaning, so that an input does something on
	// all subjects: where the subject has no points of that kind and field (see
	// Loosen) the attempt counts the points of the line, whatever they are; and a
	// point that does not occur is the end of its line. Only a store can be held
	// back: there the attempt is all that counts of the point.
	Lenient
)

// A Replay is a Chooser that follows anchors. Use it for any number of runs.
type Replay struct {
	Mode    Mode
	binding Binding
	anchors []Anchor
	next    []int  // next act of each anchor
	refused []bool // anchors of which an act was not possible
	loose   []bool // anchors whose attempt counts all points of the line
	byLine  []int  // first anchor of a line by order, -1 none
	more    []int  // next anchor of the same line
}

// NewReplay makes a chooser of anchors.
func NewReplay(mode Mode, anchors []Anchor) *Replay {
	r := &Replay{}
	r.Set(mode, anchors)
	return r
}

// Set gives r other anchors and keeps its storage.
func (r *Replay) Set(mode Mode, anchors []Anchor) {
	r.Mode, r.anchors, r.loose = mode, anchors, r.loose[:0]
	last := -1
	for i := range anchors {
		last = max(last, anchors[i].Pos)
	}
	r.byLine = r.byLine[:0]
	for range last + 1 {
		r.byLine = append(r.byLine, -1)
	}
	r.more = append(r.more[:0], make([]int, len(anchors))...)
	for i := len(anchors) - 1; i >= 0; i-- {
		pos := anchors[i].Pos
		if pos < 0 {
			r.more[i] = -1
			continue
		}
		r.more[i] = r.byLine[pos]
		r.byLine[pos] = i
	}
}

// Points is the set of kinds and fields that a subject has points of.
type Points map[PointName]bool

// A PointName is the stable name of a point.
type PointName struct {
	Kind  machine.Kind
	Field string
}

// Loosen says what points the subject of the next runs has. Lenient needs it.
func (r *Replay) Loosen(has Points) {
	r.loose = r.loose[:0]
	for i := range r.anchors {
		r.loose = append(r.loose, !has[PointName{r.anchors[i].Kind, r.anchors[i].Field}])
	}
}

// Bind starts a run.
func (r *Replay) Bind(b *Binding) {
	r.binding = *b
	r.next = append(r.next[:0], make([]int, len(r.anchors))...)
	r.refused = append(r.refused[:0], make([]bool, len(r.anchors))...)
}

// Wants says whether a departure is written for the line that c begins.
func (r *Replay) Wants(c *machine.Ctx) bool {
	pos := c.Line().Pos
	return pos >= 0 && pos < len(r.byLine) && r.byLine[pos] >= 0
}

// Choose takes the next act written for this point.
func (r *Replay) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	line := c.Line()
	if line.Pos < 0 || line.Pos >= len(r.byLine) {
		return machine.Action{}
	}
	for i := r.byLine[line.Pos]; i >= 0; i = r.more[i] {
		if r.next[i] == len(r.anchors[i].Acts) || !r.here(i, &line, p) {
			continue
		}
		if a, ok := r.take(i, c, p); ok {
			return a
		}
	}
	return machine.Action{}
}

// take is the next act of anchor i that is possible here. Strictly the first that is
// not ends the anchor.
func (r *Replay) take(i int, c *machine.Ctx, p machine.Point) (a machine.Action, ok bool) {
	for r.next[i] < len(r.anchors[i].Acts) && !(r.refused[i] && r.Mode == Strict) {
		if a, ok = r.binding.action(r.anchors[i].Acts[r.next[i]]); ok && c.Allowed(p, a) {
			r.next[i]++
			return a, true
		}
		r.refused[i] = true
		if r.Mode != Strict {
			r.next[i]++
		}
	}
	return machine.Action{}, false
}

// here says whether anchor i is at this point of this execution of its line.
func (r *Replay) here(i int, line *machine.Line, p machine.Point) bool {
	a := &r.anchors[i]
	h := -1
	if line.Handler != nil {
		h = r.binding.Context(nil, line.Handler)
	}
	if a.Handler != h || a.Delivery != line.Delivery || a.Iter != line.Iter {
		return false
	}
	if r.Mode == Lenient && a.Acts[r.next[i]].Kind == machine.Hold {
		store := p.Kind == machine.KStore || p.Kind == machine.KMemStore
		return store && p.N == a.N || p.Kind == machine.KEnd
	}
	if r.Mode == Lenient && i < len(r.loose) && r.loose[i] {
		return line.Points == a.N || p.Kind == machine.KEnd
	}
	if a.Kind == p.Kind && a.N == p.N && a.Field == p.Field.Name() {
		return true
	}
	return r.Mode == Lenient && p.Kind == machine.KEnd
}

// Unused returns the anchors of the last run that were not taken in full: their
// point was never reached, or the action was not allowed there.
func (r *Replay) Unused() []*Anchor {
	var out []*Anchor
	for i := range r.anchors {
		if r.next[i] < len(r.anchors[i].Acts) || r.refused[i] {
			out = append(out, &r.anchors[i])
		}
	}
	return out
}
