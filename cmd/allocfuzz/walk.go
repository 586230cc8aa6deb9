package main

import (
	"context"
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// walks are the runs of a program on a subject whose points -v shows: as they are
// judged, under the subject's own block, or in line order and then under the first
// block.
func walks(p *prog.Program, v *impls.Variant) []*prog.Sched {
	for i := range p.Scheds {
		if s := &p.Scheds[i]; s.Subject != "" && (s.Subject == v.Name || s.Subject == v.Alias) {
			return []*prog.Sched{s}
		}
	}
	if len(p.Scheds) > 0 {
		return []*prog.Sched{nil, &p.Scheds[0]}
	}
	return []*prog.Sched{nil}
}

// A walked run is a program on a subject under a schedule; nil is line order.
type walked struct {
	program *oracle.Compiled
	subject *impls.Variant
	sched   *prog.Sched
}

// A walk is what -v tells of one run: its points, spelled so that they can be copied into a
// schedule, and the operations that came to anything but ok.
type walk struct {
	points []point
	unmet  []unmet
}

// walk makes that run.
func (w *walked) walk(ctx context.Context, r *engine.Replayer) (walk, error) {
	var got walk
	var err error
	opt := r.Options
	if !r.Until(ctx, func(run *oracle.Runner) { got, err = w.on(run, opt) }) {
		return walk{}, ctx.Err()
	}
	return got, err
}

func (w *walked) on(run *oracle.Runner, opt oracle.Options) (walk, error) {
	c := w.program
	res, err := run.Points(c, w.subject, w.sched, opt)
	if err == nil {
		err = res.Err
	}
	if err != nil {
		return walk{}, err
	}
	index := prog.NewIndex(c.Prog)
	out := make([]point, 0, len(res.Trace))
	for i := range res.Trace {
		t := &res.Trace[i]
		p := point{Task: t.Where.Task, CPU: t.Where.CPU, Kind: t.Kind.String(), N: t.N}
		if t.Field != nil {
			p.Field = t.Field.Name()
		}
		if n := t.Where.Line; n >= 0 && n < len(c.Lines) {
			src := c.Lines[n].Src
			p.Line = spell(index, src, &t.Line, len(c.Lines[n].Path)-1)
		}
		out = append(out, p)
	}
	return walk{out, w.unmet(res)}, nil
}

// unmet lists the operations of a run that came to anything but ok, each line of a repeat once.
func (w *walked) unmet(res *oracle.Result) []unmet {
	out := []unmet{}
	met := map[unmet]bool{}
	for i := range res.Events {
		ev := &res.Events[i]
		if ev.Outcome == impls.OK || ev.Op < 0 {
			continue
		}
		n := int(ev.Op)
		u := unmet{w.program.Named(n), fileLine(w.program, n), ev.Outcome.String()}
		if !met[u] {
			met[u] = true
			out = append(out, u)
		}
	}
	return out
}

// spell names one execution of a line as an anchor does, in the rounds of the
// repeats around it and the delivery of its handler; a line that has no such name
// yet, because it needs a label, by its whole text.
func spell(index *prog.Index, l *prog.Line, at *machine.Line, repeats int) string {
	ref, ok := index.Ref(l)
	if !ok {
		return string(prog.AppendLine(nil, l))
	}
	name := ref.String()
	if at.Iter != [2]int32{} && at.Iter != [2]int32{1} && at.Iter != [2]int32{1, 1} {
		for i := range min(repeats, len(at.Iter)) {
			name += fmt.Sprintf("[%d]", at.Iter[i])
		}
	}
	switch {
	case !l.Ctx.IsIRQ():
		return name
	case at.Delivery > 1:
		return fmt.Sprintf("%s#%d/%s", l.Ctx, at.Delivery, name)
	}
	return l.Ctx.String() + "/" + name
}

// printWalk prints points in columns, and below them what was not done.
func (a *app) printWalk(v *impls.Variant, s *prog.Sched, w *walk) {
	how := "in line order"
	if s != nil {
		how = fmt.Sprintf("under the schedule of line %d", s.Pos.Line)
	}
	fmt.Fprintf(a.out, "\n%s, %s: %d points\n", v.Name, how, len(w.points))
	for i := range w.points {
		p := &w.points[i]
		fmt.Fprintf(a.out, "  %6d  cpu%d  %-10s  %s %s %s %d\n", i+1, p.CPU, p.Task, p.Line, p.Kind,
			p.Field, p.N)
	}
	for _, u := range w.unmet {
		fmt.Fprintf(a.out, "  %s: %s\n", u.Outcome, u.Operation)
	}
}
