package property

import (
	"slices"

	"allocfuzz/corpus/prog"
)

// apply makes the simpler program; nil when that is no program.
func (k *cut) apply(p *prog.Program) *prog.Program {
	b := &builder{k: k, from: p, gone: map[*prog.Line]bool{}, to: map[*prog.Line]*prog.Line{}}
	q := &prog.Program{Machine: p.Machine, Caches: slices.Clone(p.Caches),
		Tasks: slices.Clone(p.Tasks)}
	if k.whole != nil {
		k.whole(q)
	}
	b.settle(q)
	q.Lines = b.copy(p.Lines)
	if len(q.Lines) == 0 {
		return nil
	}
	b.place(q.Lines)
	b.schedule(q)
	if prog.Validate(q) != nil {
		return nil
	}
	return q
}

// builder copies a program without what a cut leaves out and what hangs on it.
type builder struct {
	k    *cut
	from *prog.Program
	gone map[*prog.Line]bool
	to   map[*prog.Line]*prog.Line // where a line of the old program went
	at   []*prog.Line              // the old lines in the order of their copies
	ctxs map[prog.Ctx]bool         // with lines in the new program
}

// settle finds the lines that go: those of the cut, what is in a repeat that goes, and, until
// there is no more, those that use a name which nothing binds any longer.
func (b *builder) settle(q *prog.Program) {
	var lines []*prog.Line
	b.from.Walk(func(l *prog.Line, _ []int) { lines = append(lines, l) })
	for l, is := range b.k.drop {
		if is {
			b.forget(l)
		}
	}
	declared := map[string]bool{}
	for i := range q.Caches {
		declared[q.Caches[i].Name] = true
	}
	for again := true; again; {
		again = false
		bound := b.binders(lines)
		for i, l := range lines {
			if !b.gone[l] && !b.usable(l, i, bound, declared) {
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
	ctx prog.Ctx
	at  int
}

func (b *builder) binders(lines []*prog.Line) map[string][]binder {
	out := map[string][]binder{}
	for i, l := range lines {
		if b.gone[l] {
			continue
		}
		for _, name := range l.Results {
			out[name] = append(out[name], binder{b.ctx(l), i})
		}
	}
	return out
}

// ctx is the context that a line will have.
func (b *builder) ctx(l *prog.Line) prog.Ctx {
	if b.k.change == nil || b.k.line != nil {
		return l.Ctx
	}
	copied := *l
	b.k.change(&copied)
	return copied.Ctx
}

// usable says whether every name that a line uses is bound above it or by another context.
func (b *builder) usable(l *prog.Line, at int, bound map[string][]binder,
	declared map[string]bool) bool {
	has := func(name string) bool {
		return name == prog.Nil || slices.ContainsFunc(bound[name], func(k binder) bool {
			return k.at < at || k.ctx != b.ctx(l)
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
		if l == b.k.unwrap {
			out = append(out, b.copy(l.Body)...)
			continue
		}
		mark := len(b.at)
		b.at = append(b.at, l)
		c := cloned(l)
		if len(l.Body) > 0 {
			if c.Body = b.copy(l.Body); len(c.Body) == 0 {
				b.at = b.at[:mark]
				continue
			}
		}
		if b.k.change != nil && (b.k.line == nil || b.k.line == l) {
			b.k.change(&c)
		}
		out = append(out, c)
	}
	return out
}

// cloned is a copy of a line that shares nothing that a cut changes.
func cloned(l *prog.Line) prog.Line {
	c := *l
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
	if len(b.from.Scheds) == 0 || b.k.departure < 0 {
		return
	}
	index := prog.NewIndex(b.from)
	old := &b.from.Scheds[0]
	s := prog.Sched{Subject: old.Subject, Bug: old.Bug}
	for i := range old.Departures {
		d := old.Departures[i]
		l, _, err := index.Target(&d.Where)
		if err != nil || b.to[l] == nil || i+1 == b.k.departure {
			continue
		}
		d.Where.Line, d.Where.Ref = b.to[l], prog.LineRef{}
		if d.Where.IRQ != "" && !b.to[l].Ctx.IsIRQ() {
			d.Where.IRQ, d.Where.Delivery = "", 0
		}
		if d.Actions = b.actions(q, d.Actions); len(d.Actions) > 0 {
			s.Departures = append(s.Departures, d)
		}
	}
	if len(s.Departures) > 0 {
		q.Scheds = []prog.Sched{s}
	}
}

// actions are those of a departure that are still possible in q.
func (b *builder) actions(q *prog.Program, list []prog.Action) []prog.Action {
	var out []prog.Action
	for _, a := range list {
		if (a.Kind == prog.HoldStore || a.Kind == prog.DrainStore) && !q.Machine.TSO {
			continue
		}
		if x, ok := a.Ctx(); !ok || b.ctxs[x] {
			out = append(out, a)
		}
	}
	return out
}
