package prog

import "strconv"

// Walk calls fn for every line in file order, a repeat before its body. The path holds the index
// of the line at each level, outermost first; it is valid during the call only. The line may be
// changed in place.
func (p *Program) Walk(fn func(l *Line, path []int)) { walk(p.Lines, nil, fn) }

func walk(lines []Line, path []int, fn func(*Line, []int)) {
	n := len(path)
	path = append(path, 0)
	for i := range lines {
		path[n] = i
		fn(&lines[i], path)
		if len(lines[i].Body) > 0 {
			walk(lines[i].Body, path, fn)
		}
	}
}

// Index finds lines by their spelling and spells lines, in constant time. It is valid until the
// program's lines change.
type Index struct {
	byRef map[LineRef]*Line // nil value: ambiguous
	paths map[*Line][]int
	fresh int // number of the label made last
}

// NewIndex returns the index of the program's lines.
func NewIndex(p *Program) *Index {
	x := &Index{byRef: map[LineRef]*Line{}, paths: map[*Line][]int{}}
	p.Walk(func(l *Line, path []int) {
		x.paths[l] = append([]int(nil), path...)
		if l.Label != "" {
			x.add(LineRef{Label: l.Label}, l)
		}
		if k := l.Key(); k != "" {
			x.add(LineRef{Verb: l.Verb, Name: k}, l)
		}
	})
	return x
}

func (x *Index) add(ref LineRef, l *Line) {
	if _, ok := x.byRef[ref]; ok {
		x.byRef[ref] = nil
		return
	}
	x.byRef[ref] = l
}

// Find returns the line that ref names and its path as in Walk. Ambiguous and unknown references
// are errors without a position.
func (x *Index) Find(ref LineRef) (*Line, []int, error) {
	l, e := x.find(ref)
	if e != nil {
		return nil, nil, e
	}
	return l, x.paths[l], nil
}

func (x *Index) find(ref LineRef) (*Line, *Error) {
	l, ok := x.byRef[ref]
	switch {
	case !ok:
		return nil, fault("anchor %s: no such line", ref).want("a label or verb(name) of a line")
	case l == nil && ref.Label != "":
		return nil, fault("anchor %s: label given to several lines", ref).want("one line a label")
	case l == nil:
		return nil, fault("anchor %s: several such lines", ref).want("one such line").
			hint("label the line you mean: @here cpu0 …, and write at here")
	case l.Verb == Repeat || l.Verb == Check:
		return nil, fault("anchor %s: a %s has no points", ref, l.Verb).want("an operation")
	}
	return l, nil
}

// Ref returns the spelling of a line: its label, or verb(name) where that is unique. ok is false
// when the line needs a label to be named.
func (x *Index) Ref(l *Line) (ref LineRef, ok bool) {
	if l.Label != "" {
		return LineRef{Label: l.Label}, true
	}
	ref = LineRef{Verb: l.Verb, Name: l.Key()}
	return ref, ref.Name != "" && x.byRef[ref] == l
}

// label returns a canonical label (l1, l2, …) that no line has, and gives it to l in the index.
func (x *Index) label(l *Line) string {
	for {
		x.fresh++
		ref := LineRef{Label: "l" + strconv.Itoa(x.fresh)}
		if _, taken := x.byRef[ref]; !taken {
			x.byRef[ref] = l
			return ref.Label
		}
	}
}

// FindRef returns the line that ref names and its path as in Walk. For many look-ups make an
// Index.
func (p *Program) FindRef(ref LineRef) (*Line, []int, error) { return NewIndex(p).Find(ref) }

// RefFor returns the spelling of a line of the program. A line that cannot be told from another
// by verb and name is given a fresh label.
func (p *Program) RefFor(l *Line) LineRef {
	x := NewIndex(p)
	ref, ok := x.Ref(l)
	if ok {
		return ref
	}
	l.Label = x.label(l)
	return LineRef{Label: l.Label}
}

// String returns the spelling used in a departure.
func (r LineRef) String() string {
	if r.Label != "" {
		return r.Label
	}
	return r.Verb.String() + "(" + r.Name + ")"
}

// Target returns the line that a place names, and its path as in Walk: Line when that is set,
// else the line that Ref spells.
func (x *Index) Target(w *Where) (*Line, []int, error) {
	l, e := x.target(w)
	if e != nil {
		return nil, nil, e
	}
	return l, x.paths[l], nil
}

func (x *Index) target(w *Where) (*Line, *Error) {
	if w.Line == nil {
		return x.find(w.Ref)
	}
	if _, ok := x.paths[w.Line]; !ok {
		return nil, fault("anchor: its line is not one of this program").
			want("a pointer into the program's lines")
	}
	if w.Line.Verb == Repeat || w.Line.Verb == Check {
		return nil, fault("anchor: a %s has no points", w.Line.Verb).want("an operation")
	}
	return w.Line, nil
}

// settleRef gives an anchor its one canonical spelling.
func (x *Index) settleRef(w *Where) {
	l, e := x.target(w)
	if e != nil {
		return
	}
	if ref, ok := x.Ref(l); ok {
		w.Ref = ref
	}
}

// checkWhere demands an anchor that names one execution of one line.
func (x *Index) checkWhere(w *Where) *Error {
	l, e := x.target(w)
	if e != nil {
		return e
	}
	irq := ""
	if l.Ctx.Kind == IRQCtx {
		irq = l.Ctx.String()
	}
	if w.IRQ != irq {
		return irqFault(w, irq)
	}
	if irq == "" && w.Delivery != 0 || w.Delivery < 0 || w.Delivery > MaxN {
		return fault("anchor %s: delivery %d", w.Ref, w.Delivery).
			want("1 or more in a handler, 0 in a task")
	}
	if depth := len(x.paths[l]) - 1; w.Iter != nil && len(w.Iter) != depth {
		return fault("anchor %s: %d iterations", w.Ref, len(w.Iter)).
			want("%d, one for each repeat around the line", depth)
	}
	for _, i := range w.Iter {
		if i < 1 || i > MaxN {
			return fault("anchor %s: iteration %d", w.Ref, i).want("1 to %d", MaxN)
		}
	}
	return nil
}

func irqFault(w *Where, irq string) *Error {
	e := fault("anchor %s: handler %q", w.Ref, w.IRQ)
	if irq == "" {
		return e.want("no handler: the line belongs to a task").hint("write: at %s", w.Ref)
	}
	return e.want("%s, which runs the line", irq).hint("write: at %s/%s", irq, w.Ref)
}
