package edit

import (
	"slices"

	"allocfuzz/corpus/prog"
)

// A Cut is one simplification of a program. The zero Cut copies it.
type Cut struct {
	Drop   map[*prog.Line]bool   // lines that go; a repeat goes with its body
	Open   *prog.Line            // a repeat that becomes its body, which is run once
	Line   *prog.Line            // the line that Change changes, nil for all
	Change func(l *prog.Line)    // gets a copy
	Whole  func(p *prog.Program) // changes machine and declarations; the lines are not there yet
	// Depart says whether departure number n of the first block stays, counted from 0, and may
	// change the copy that it gets. Nil keeps all.
	Depart func(n int, d *prog.Departure) bool
}

// Apply makes the simpler program, with the first schedule block if some of its departures are
// left; nil when that is no program. One without lines is one: its caches are made and ended. p is
// not changed and shares nothing with the result that a Cut may change.
func (k *Cut) Apply(p *prog.Program) *prog.Program {
	b := &builder{k: k, from: p, gone: map[*prog.Line]bool{}, to: map[*prog.Line]*prog.Line{},
		now: map[*prog.Line]*prog.Line{}}
	q := &prog.Program{Doc: p.Doc, Head: p.Head, Machine: p.Machine, DebugAt: p.DebugAt,
		Caches: slices.Clone(p.Caches), Tasks: slices.Clone(p.Tasks), Tail: p.Tail, File: p.File}
	if k.Whole != nil {
		k.Whole(q)
	}
	b.settle(q)
	q.Lines = b.copy(p.Lines)
	b.place(q.Lines)
	b.schedule(q)
	if prog.Validate(q) != nil {
		return nil
	}
	return q
}

// builder copies a program without what a cut leaves out and what hangs on it.
type builder struct {
	k    *Cut
	from *prog.Program
	gone map[*prog.Line]bool
	now  map[*prog.Line]*prog.Line // each line as it will be, but for its body
	to   map[*prog.Line]*prog.Line // where a line of the old program went
	at   []*prog.Line              // the old lines in the order of their copies
	ctxs map[prog.Ctx]bool         // with lines in the new program
}

// settle finds the lines that go: those of the cut, what is in a repeat that goes, and, until
// there is no more, those that use a name which nothing binds any longer.
func (b *builder) settle(q *prog.Program) {
	var lines []*prog.Line
	var round []int
	b.from.Walk(func(l *prog.Line, path []int) {
		lines, round = append(lines, l), append(round, -1)
		if len(path) > 1 && b.from.Lines[path[0]].Body != nil {
			round[len(round)-1] = path[0]
		}
		c := cloned(l)
		if b.k.Change != nil && (b.k.Line == nil || b.k.Line == l) {
			b.k.Change(&c)
		}
		b.now[l] = &c
	})
	for _, l := range lines {
		if b.k.Drop[l] {
			b.forget(l)
		}
	}
	declared := map[string]bool{}
	for i := range q.Caches {
		declared[q.Caches[i].Name] = true
	}
	for again := true; again; {
		again = false
		bound := b.binders(lines, round)
		for i, l := range lines {
			at := binder{b.now[l].Ctx, i, round[i]}
			if !b.gone[l] && !usable(b.now[l], at, bound, declared) {
				b.forget(l)
				again = true
			}
		}
	}
}

// forget leaves out a line with its body.
func (b *builder) forget(l *prog.Line) {
	b.gone[l] = true
	for i := range l.Body {
		b.forget(&l.Body[i])
	}
}

// A binder is a line that binds a name.
type binder struct {
	ctx   prog.Ctx
	at    int
	round int // the outermost repeat around it, -1 for none
}

func (b *builder) binders(lines []*prog.Line, round []int) map[string][]binder {
	out := map[string][]binder{}
	for i, l := range lines {
		if b.gone[l] {
			continue
		}
		for _, name := range b.now[l].Results {
			out[name] = append(out[name], binder{b.now[l].Ctx, i, round[i]})
		}
	}
	return out
}

// usable says whether every name that a line uses is bound above it, by another context, or when
// the repeat around it comes round again.
func usable(l *prog.Line, at binder, bound map[string][]binder, declared map[string]bool) bool {
	has := func(name string) bool {
		return name == prog.Nil || slices.ContainsFunc(bound[name], func(k binder) bool {
			return k.at < at.at || k.ctx != at.ctx || k.round >= 0 && k.round == at.round
		})
	}
	if l.Cache != "" && !declared[l.Cache] && !has(l.Cache) {
		return false
	}
	return !slices.ContainsFunc(l.Slots, func(name string) bool { return !has(name) })
}

// copy copies the lines that stay. The order of b.at is that of a walk over the copies.
func (b *builder) copy(lines []prog.Line) []prog.Line {
	var out []prog.Line
	for i := range lines {
		l := &lines[i]
		if b.gone[l] {
			continue
		}
		if l == b.k.Open {
			out = append(out, b.copy(l.Body)...)
			continue
		}
		mark := len(b.at)
		b.at = append(b.at, l)
		c := *b.now[l]
		if len(l.Body) > 0 {
			if c.Body = b.copy(l.Body); len(c.Body) == 0 {
				b.at = b.at[:mark]
				continue
			}
		}
		out = append(out, c)
	}
	return out
}

// cloned is a copy of a line that shares nothing that a cut changes.
func cloned(l *prog.Line) prog.Line {
	c := *l
	c.Results, c.Slots = slices.Clone(l.Results), slices.Clone(l.Slots)
	c.Nums, c.KV = slices.Clone(l.Nums), slices.Clone(l.KV)
	if l.Spec != nil {
		s := *l.Spec
		c.Spec = &s
	}
	return c
}

// place notes where each old line went, once the copies stay where they are.
func (b *builder) place(lines []prog.Line) {
	b.ctxs = map[prog.Ctx]bool{}
	n := 0
	(&prog.Program{Lines: lines}).Walk(func(l *prog.Line, _ []int) {
		b.to[b.at[n]] = l
		n++
		if l.Verb != prog.Check {
			b.ctxs[l.Ctx] = true
		}
	})
}

// schedule copies the departures whose line and contexts are still there.
func (b *builder) schedule(q *prog.Program) {
	if len(b.from.Scheds) == 0 {
		return
	}
	index := prog.NewIndex(b.from)
	s := b.from.Scheds[0]
	s.Departures = nil
	for i, d := range b.from.Scheds[0].Departures {
		l, path, err := index.Target(&d.Where)
		if err != nil || b.to[l] == nil {
			continue
		}
		d.Actions = slices.Clone(d.Actions)
		if b.k.Depart != nil && !b.k.Depart(i, &d) {
			continue
		}
		b.moved(&d.Where, l, path)
		if d.Actions = b.actions(q, d.Actions); len(d.Actions) > 0 {
			s.Departures = append(s.Departures, d)
		}
	}
	if len(s.Departures) > 0 {
		q.Scheds = []prog.Sched{s}
	}
}

// moved has a place name the copy of its line.
func (b *builder) moved(w *prog.Where, l *prog.Line, path []int) {
	to := b.to[l]
	w.Line, w.Ref = to, prog.LineRef{}
	switch {
	case to.Ctx.IsIRQ():
		w.IRQ = to.Ctx.String()
	case w.IRQ != "":
		w.IRQ, w.Delivery = "", 0
	}
	list := b.from.Lines
	for depth := range w.Iter {
		around := &list[path[depth]]
		if around == b.k.Open {
			w.Iter = slices.Delete(slices.Clone(w.Iter), depth, depth+1)
			return
		}
		list = around.Body
	}
}

// actions are those of a departure that are still possible in q.
func (b *builder) actions(q *prog.Program, list []prog.Action) []prog.Action {
	var out []prog.Action
	for _, a := range list {
		store := a.Kind == prog.HoldStore || a.Kind == prog.DrainStore
		cpu := a.Kind == prog.Move || a.Kind == prog.DrainStore
		if store && !q.Machine.TSO || cpu && a.CPU >= q.Machine.Resolve().CPUs {
			continue
		}
		if x, ok := a.Ctx(); !ok || b.ctxs[x] {
			out = append(out, a)
		}
	}
	return out
}
