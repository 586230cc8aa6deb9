package edit

import (
	"slices"

	"allocfuzz/corpus/prog"
)

// Lines lists the lines of a program, of all levels, in file order.
func Lines(p *prog.Program) []*prog.Line {
	var out []*prog.Line
	p.Walk(func(l *prog.Line, _ []int) { out = append(out, l) })
	return out
}

// Without leaves lines out.
func Without(lines ...*prog.Line) Cut {
	k := Cut{Drop: make(map[*prog.Line]bool, len(lines))}
	for _, l := range lines {
		k.Drop[l] = true
	}
	return k
}

// Parts leaves out halves of the lines, quarters and so on down to single lines.
func Parts(p *prog.Program) []Cut {
	var out []Cut
	lines := Lines(p)
	for size := (len(lines) + 1) / 2; size > 0; size /= 2 {
		for from := 0; from < len(lines); from += size {
			out = append(out, Without(lines[from:min(from+size, len(lines))]...))
		}
	}
	return out
}

// Contexts leaves out one context, or has CPU 0 do its work.
func Contexts(p *prog.Program) []Cut {
	by := map[prog.Ctx][]*prog.Line{}
	var order []prog.Ctx
	for _, l := range Lines(p) {
		if l.Verb == prog.Check {
			continue
		}
		if by[l.Ctx] == nil {
			order = append(order, l.Ctx)
		}
		by[l.Ctx] = append(by[l.Ctx], l)
	}
	var out []Cut
	first := prog.Ctx{Kind: prog.CPUCtx}
	for _, x := range order {
		out = append(out, Without(by[x]...))
		if x == first {
			continue
		}
		out = append(out, Cut{Change: func(l *prog.Line) {
			if l.Ctx == x && l.Verb != prog.Check {
				l.Ctx = first
			}
		}})
	}
	return out
}

// CPUs has each CPU of a context, a task or a departure be one of a lower number that nothing
// uses, so that the machine may have fewer.
func CPUs(p *prog.Program) []Cut {
	used := map[int]bool{}
	for _, l := range Lines(p) {
		if l.Ctx.Kind == prog.CPUCtx || l.Ctx.Kind == prog.IRQCtx {
			used[l.Ctx.CPU] = true
		}
	}
	for i := range p.Tasks {
		used[p.Tasks[i].CPU] = true
	}
	n := p.Machine.Resolve().CPUs
	var out []Cut
	for to := range n {
		for from := n - 1; from > to && !used[to]; from-- {
			if used[from] {
				out = append(out, renumbered(from, to))
			}
		}
	}
	return out
}

// renumbered has one CPU be another.
func renumbered(from, to int) Cut {
	change := func(cpu *int) {
		if *cpu == from {
			*cpu = to
		}
	}
	return Cut{
		Change: func(l *prog.Line) { change(&l.Ctx.CPU) },
		Whole: func(p *prog.Program) {
			for i := range p.Tasks {
				change(&p.Tasks[i].CPU)
			}
		},
		Depart: func(_ int, d *prog.Departure) bool {
			for i := range d.Actions {
				change(&d.Actions[i].CPU)
			}
			return true
		},
	}
}

// Departures leaves out all departures of the first schedule block, and each by itself.
func Departures(p *prog.Program) []Cut {
	if len(p.Scheds) == 0 {
		return nil
	}
	out := []Cut{{Depart: func(int, *prog.Departure) bool { return false }}}
	for i := range p.Scheds[0].Departures {
		out = append(out, Cut{Depart: func(n int, _ *prog.Departure) bool { return n != i }})
	}
	return out
}

// Declarations leaves out tasks and caches and makes caches simpler.
func Declarations(p *prog.Program) []Cut {
	var out []Cut
	for i := range p.Tasks {
		out = append(out, Cut{Whole: func(p *prog.Program) {
			p.Tasks = slices.Delete(p.Tasks, i, i+1)
		}})
	}
	for i := range p.Caches {
		out = append(out, Cut{Whole: func(p *prog.Program) {
			p.Caches = slices.Delete(p.Caches, i, i+1)
		}})
		for _, change := range simplerSpecs(&p.Caches[i].Spec) {
			out = append(out, Cut{Whole: func(p *prog.Program) { change(&p.Caches[i].Spec) }})
		}
	}
	return out
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
	for i := range c.Flags {
		if len(c.Flags) > 1 {
			out = append(out, func(c *prog.CacheSpec) {
				c.Flags = slices.Delete(slices.Clone(c.Flags), i, i+1)
			})
		}
	}
	return out
}

// Options makes single lines simpler: opens repeats, leaves out options and all but the first
// objects of a bulk operation, and goes towards a plain cache.
func Options(p *prog.Program) []Cut {
	var out []Cut
	for _, l := range Lines(p) {
		if l.Verb == prog.Repeat {
			out = append(out, Cut{Open: l})
		}
		for i := range l.KV {
			out = append(out, Cut{Line: l, Change: func(l *prog.Line) {
				l.KV = slices.Delete(l.KV, i, i+1)
			}})
		}
		out = append(out, fewer(l)...)
		if l.Spec == nil {
			continue
		}
		for _, change := range simplerSpecs(l.Spec) {
			out = append(out, Cut{Line: l, Change: func(l *prog.Line) { change(l.Spec) }})
		}
	}
	return out
}

// fewer takes each name off a line that binds or uses several.
func fewer(l *prog.Line) []Cut {
	var out []Cut
	for i := range l.Results {
		if len(l.Results) > 1 {
			out = append(out, Cut{Line: l, Change: func(l *prog.Line) {
				l.Results = slices.Delete(l.Results, i, i+1)
			}})
		}
	}
	for i := range l.Slots {
		if len(l.Slots) > 1 {
			out = append(out, Cut{Line: l, Change: func(l *prog.Line) {
				l.Slots = slices.Delete(l.Slots, i, i+1)
			}})
		}
	}
	return out
}

// Plain leaves out what is stated of lines and what is written beside them: outcomes, and notes.
// Labels go too, since anchors are spelled anew.
func Plain(p *prog.Program) []Cut {
	out := []Cut{{Change: func(l *prog.Line) { l.Expect, l.Note, l.Label = nil, "", "" }}}
	for _, l := range Lines(p) {
		if len(l.Expect) == 0 && l.Note == "" && l.Label == "" {
			continue
		}
		out = append(out,
			Cut{Line: l, Change: func(l *prog.Line) { l.Expect, l.Note, l.Label = nil, "", "" }},
			Cut{Line: l, Change: func(l *prog.Line) { l.Note, l.Label = "", "" }})
	}
	return out
}
