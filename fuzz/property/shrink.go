package property

import (
	"slices"

	"github.com/leanovate/gopter"

	"allocfuzz/corpus/prog"
)

// Shrink is the gopter.Shrinker of a *prog.Program. In this order it tries to leave out halves,
// quarters and so on down to single lines, contexts, departures and declarations, to have CPU 0 run
// the lines of a context, to open repeats, and to make counts, sizes, options, caches and the
// machine simpler. With a line go the lines that use what it bound and the departures anchored to
// it, so that every candidate is a program that prog.Validate accepts. Candidates are made when
// they are asked for; v is not changed.
func Shrink(v any) gopter.Shrink {
	p := v.(*prog.Program)
	cuts := newShrinker(p).cuts()
	return func() (any, bool) {
		for len(cuts) > 0 {
			k := cuts[0]
			cuts = cuts[1:]
			if q := k.apply(p); q != nil {
				return q, true
			}
		}
		return nil, false
	}
}

// A cut is one simplification of a program.
type cut struct {
	drop      map[*prog.Line]bool
	unwrap    *prog.Line // a repeat that becomes its body
	line      *prog.Line // that change changes, nil for all
	change    func(l *prog.Line)
	whole     func(p *prog.Program) // changes declarations; the lines are not there yet
	departure int                   // number of one to leave out, from 1; 0 none, -1 all
}

// shrinker gathers the cuts of one program.
type shrinker struct {
	p     *prog.Program
	lines []*prog.Line // of all levels
	list  []cut
}

func newShrinker(p *prog.Program) *shrinker {
	s := &shrinker{p: p}
	p.Walk(func(l *prog.Line, _ []int) { s.lines = append(s.lines, l) })
	return s
}

// cuts lists what could be simpler, the largest steps first.
func (s *shrinker) cuts() []cut {
	for size := (len(s.lines) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(s.lines); from += size {
			s.without(s.lines[from:min(from+size, len(s.lines))])
		}
	}
	s.contexts()
	s.departures()
	s.declarations()
	for _, l := range s.lines {
		s.line(l)
	}
	s.machine()
	return s.list
}

func (s *shrinker) add(k cut) { s.list = append(s.list, k) }

func (s *shrinker) without(lines []*prog.Line) {
	k := cut{drop: make(map[*prog.Line]bool, len(lines))}
	for _, l := range lines {
		k.drop[l] = true
	}
	s.add(k)
}

// contexts leaves out one context, or has CPU 0 do its work.
func (s *shrinker) contexts() {
	by := map[prog.Ctx][]*prog.Line{}
	var order []prog.Ctx
	for _, l := range s.lines {
		if l.Verb == prog.Check {
			continue
		}
		if by[l.Ctx] == nil {
			order = append(order, l.Ctx)
		}
		by[l.Ctx] = append(by[l.Ctx], l)
	}
	first := prog.Ctx{Kind: prog.CPUCtx}
	for _, x := range order {
		s.without(by[x])
		if x == first {
			continue
		}
		s.add(cut{change: func(l *prog.Line) {
			if l.Ctx == x && l.Verb != prog.Check {
				l.Ctx = first
			}
		}})
	}
}

func (s *shrinker) departures() {
	if len(s.p.Scheds) == 0 {
		return
	}
	s.add(cut{departure: -1})
	for i := range s.p.Scheds[0].Departures {
		s.add(cut{departure: i + 1})
	}
}

// declarations leaves out tasks and caches and makes caches simpler.
func (s *shrinker) declarations() {
	for i := range s.p.Tasks {
		s.add(cut{whole: func(p *prog.Program) { p.Tasks = slices.Delete(p.Tasks, i, i+1) }})
	}
	for i := range s.p.Caches {
		s.add(cut{whole: func(p *prog.Program) { p.Caches = slices.Delete(p.Caches, i, i+1) }})
		for _, change := range simplerSpecs(&s.p.Caches[i].Spec) {
			s.add(cut{whole: func(p *prog.Program) { change(&p.Caches[i].Spec) }})
		}
	}
}

// simplerSpecs lists changes towards a cache of which only the size is given.
func simplerSpecs(c *prog.CacheSpec) []func(*prog.CacheSpec) {
	plain := prog.NewCacheSpec(c.Size)
	all := []struct {
		is bool
		do func(*prog.CacheSpec)
	}{
		{c.Align != plain.Align, func(c *prog.CacheSpec) { c.Align = plain.Align }},
		{len(c.Flags) > 0, func(c *prog.CacheSpec) { c.Flags = nil }},
		{c.Ctor, func(c *prog.CacheSpec) { c.Ctor = false }},
		{c.Objects != plain.Objects, func(c *prog.CacheSpec) { c.Objects = plain.Objects }},
		{c.Order != plain.Order, func(c *prog.CacheSpec) { c.Order = plain.Order }},
		{c.MinPartial != plain.MinPartial,
			func(c *prog.CacheSpec) { c.MinPartial = plain.MinPartial }},
		{c.CPUPartial != plain.CPUPartial,
			func(c *prog.CacheSpec) { c.CPUPartial = plain.CPUPartial }},
		{c.Limit != plain.Limit, func(c *prog.CacheSpec) { c.Limit = plain.Limit }},
		{c.Batch != plain.Batch, func(c *prog.CacheSpec) { c.Batch = plain.Batch }},
	}
	var out []func(*prog.CacheSpec)
	for _, a := range all {
		if a.is {
			out = append(out, a.do)
		}
	}
	for _, n := range smaller(uint64(c.Size)) {
		out = append(out, func(c *prog.CacheSpec) { c.Size = int(n) })
	}
	return out
}

// line makes one line simpler.
func (s *shrinker) line(l *prog.Line) {
	if l.Verb == prog.Repeat {
		s.add(cut{unwrap: l})
		for _, n := range smaller(uint64(l.Count)) {
			s.add(cut{line: l, change: func(l *prog.Line) { l.Count = int(n) }})
		}
	}
	for i := range l.Nums {
		for _, n := range smaller(l.Nums[i]) {
			s.add(cut{line: l, change: func(l *prog.Line) { l.Nums[i] = n }})
		}
	}
	for i := range l.KV {
		s.add(cut{line: l, change: func(l *prog.Line) { l.KV = slices.Delete(l.KV, i, i+1) }})
	}
	if l.Spec == nil {
		return
	}
	for _, change := range simplerSpecs(l.Spec) {
		s.add(cut{line: l, change: func(l *prog.Line) { change(l.Spec) }})
	}
}

// smaller lists numbers to try instead of n: 1, a half of it, one less.
func smaller(n uint64) []uint64 {
	switch {
	case n <= 1:
		return nil
	case n == 2:
		return []uint64{1}
	case n <= 4:
		return []uint64{1, n - 1}
	}
	return []uint64{1, n / 2, n - 1}
}

// machine goes towards the default machine, at once or by one parameter.
func (s *shrinker) machine() {
	plain := prog.DefaultMachine()
	m := s.p.Machine.Resolve()
	if m == plain.Resolve() {
		return
	}
	set := func(is bool, do func(m *prog.Machine)) {
		if is {
			s.add(cut{whole: func(p *prog.Program) {
				do(&p.Machine)
				p.Machine = p.Machine.Resolve()
			}})
		}
	}
	set(true, func(m *prog.Machine) { *m = plain })
	for _, n := range smaller(uint64(m.CPUs)) {
		set(true, func(m *prog.Machine) { m.CPUs = int(n) })
	}
	set(m.Preempt != plain.Preempt, func(m *prog.Machine) { m.Preempt = plain.Preempt })
	set(m.TSO, func(m *prog.Machine) { m.TSO = false })
	set(m.Merge, func(m *prog.Machine) { m.Merge = false })
	set(m.Debug != "", func(m *prog.Machine) { m.Debug = "" })
	set(m.Rules != plain.Rules, func(m *prog.Machine) { m.Rules = plain.Rules })
	set(m.Seq0 != 0, func(m *prog.Machine) { m.Seq0 = 0 })
	set(m.Pages != plain.Pages, func(m *prog.Machine) { m.Pages = plain.Pages })
	word := prog.Machine{Word: m.Word}.Resolve()
	set(m.SeqBits != word.SeqBits, func(m *prog.Machine) { m.SeqBits = 0 })
	set(m.PageSize != word.PageSize, func(m *prog.Machine) { m.PageSize = 0 })
	at := m
	at.Base = 0
	set(m.Base != at.Resolve().Base, func(m *prog.Machine) { m.Base = 0 })
	set(m.Word != plain.Word, func(m *prog.Machine) {
		m.Word, m.Base, m.SeqBits, m.PageSize = plain.Word, 0, 0, 0
	})
}
