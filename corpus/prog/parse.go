package prog

import (
	"io"
	"strings"
)

// Parse reads a whole program, strictly: the first thing that is wrong is the *Error returned.
// Other errors are those of the input. The file name is used in errors only.
func Parse(file string, in io.Reader) (*Program, error) {
	r, err := newReader(file, in, &Reader{})
	if err != nil {
		return nil, err
	}
	r.binds = newBinder(r.p.Caches)
	p, err := r.readAll()
	if err != nil {
		return nil, err
	}
	problems := append(r.binds.finish(), globals(p, true)...)
	if len(problems) > 0 {
		return nil, earliest(problems, file)
	}
	return p, nil
}

// ParseString is Parse for a text in memory, whose errors name no file.
func ParseString(text string) (*Program, error) { return Parse("", strings.NewReader(text)) }

// readAll reads the lines in pieces, so that a long trace is copied once.
func (r *Reader) readAll() (*Program, error) {
	const piece = 4096
	var full [][]Line
	var lines []Line
	for {
		if len(lines) == piece {
			full, lines = append(full, lines), make([]Line, 0, piece)
		}
		lines = append(lines, Line{})
		err := r.nextLine(&lines[len(lines)-1])
		if err == nil {
			continue
		}
		if err != io.EOF {
			return nil, err
		}
		lines = lines[:len(lines)-1]
		break
	}
	if len(full) > 0 {
		all := make([]Line, 0, len(full)*piece+len(lines))
		for _, f := range full {
			all = append(all, f...)
		}
		lines = append(all, lines...)
	}
	r.p.Lines = lines
	return r.p, nil
}

// problem is an error with the part of the program that is at fault.
type problem struct {
	err   *Error
	line  *Line // nil: a departure or a sched block
	sched int
	dep   int // -1: the whole block
}

func earliest(list []problem, file string) *Error {
	first := list[0].err
	for _, p := range list[1:] {
		if before(p.err.Pos, first.Pos) {
			first = p.err
		}
	}
	first.File = file
	return first
}

func before(a, b Pos) bool { return a.Line < b.Line || a.Line == b.Line && a.Col < b.Col }

// globals checks what concerns several lines: labels, tasks and anchors. With settle it gives every
// anchor its canonical spelling.
func globals(p *Program, settle bool) []problem {
	out := append(checkLabels(p), checkTasks(p)...)
	var x *Index
	for i := range p.Scheds {
		for j := range p.Scheds[i].Departures {
			if x == nil {
				x = NewIndex(p)
			}
			w := &p.Scheds[i].Departures[j].Where
			e := x.checkWhere(w)
			if e == nil && settle {
				x.settleRef(w)
			}
			if e == nil {
				continue
			}
			out = append(out, problem{err: e.at(w.Pos), sched: i, dep: j})
		}
	}
	return out
}

// checkTasks demands no more tasks than a machine runs. A handler is one on a real-time machine.
func checkTasks(p *Program) []problem {
	var out []problem
	var last Ctx
	var seen map[Ctx]bool
	for i := range p.Lines {
		l := &p.Lines[i]
		if l.Ctx == last || l.Verb == Check || l.Ctx.IsIRQ() && p.Machine.Preempt != PreemptRT {
			continue
		}
		if !seen[l.Ctx] && len(seen) == MaxTasks {
			e := fault("%s: one task too many", l.Ctx).want("lines of at most %d tasks", MaxTasks)
			if p.Machine.Preempt == PreemptRT {
				e.hint("with preempt=rt every handler is a task too")
			}
			out = append(out, problem{err: e.at(l.Pos), line: l})
			continue
		}
		if seen == nil {
			seen = map[Ctx]bool{}
		}
		last, seen[l.Ctx] = l.Ctx, true
	}
	return out
}

func checkLabels(p *Program) []problem {
	var out []problem
	var seen map[string]Pos
	p.Walk(func(l *Line, _ []int) {
		if l.Label == "" {
			return
		}
		if first, ok := seen[l.Label]; ok {
			e := fault("label %s: given twice", l.Label).want("one line a label").at(l.Pos)
			if first.Line > 0 {
				e.hint("the first is on line %d", first.Line)
			}
			out = append(out, problem{err: e, line: l})
			return
		}
		if seen == nil {
			seen = map[string]Pos{}
		}
		seen[l.Label] = l.Pos
	})
	return out
}

// Dropped is something that ParseRepair could not accept.
type Dropped struct {
	Text string // the line as it was
	Err  *Error // why
}

// ParseRepair reads a program and leaves out what it cannot accept: unknown operations, options
// and caches, names bound nowhere, anchors without a line. It is for corpora written before the
// grammar changed; files that people write deserve Parse. What was left out is returned, in the
// order in which it was met. The error is that of a file that is no program at all, or of the
// input.
func ParseRepair(file string, in io.Reader) (*Program, []Dropped, error) {
	r, err := newReader(file, in, &Reader{repair: true})
	if err != nil {
		return nil, nil, err
	}
	p, err := r.readAll()
	if err != nil {
		return nil, nil, err
	}
	dropped := r.dropped
	for round := 1; ; round++ {
		problems := append(names(p, round > patience), handlers(p)...)
		problems = append(problems, globals(p, true)...)
		if len(problems) == 0 {
			return p, dropped, nil
		}
		for i := range problems {
			problems[i].err.File = file
			dropped = append(dropped, Dropped{Text: p.text(&problems[i]), Err: problems[i].err})
		}
		p.prune(problems)
	}
}

// patience is the number of rounds in which ParseRepair waits for bindings of other contexts.
// After that a name must be bound above its use, so that a chain of lines, each of which needs the
// one before, costs one more round and not one for each line.
const patience = 8

// names checks what names exist in a program in memory.
func names(p *Program, eager bool) []problem {
	b := newBinder(p.Caches)
	b.eager = eager
	out := b.lines(p.Lines, nil)
	return append(out, b.finish()...)
}

func (b *binder) lines(lines []Line, out []problem) []problem {
	for i := range lines {
		l := &lines[i]
		switch l.Verb {
		case Check:
		case Repeat:
			b.enter()
			out = b.lines(l.Body, out)
			b.leave()
		default:
			if e := b.line(l, &cols{line: l.Pos}); e != nil {
				out = append(out, problem{err: e, line: l})
			}
		}
	}
	return out
}

// handlers demands that every handler that a schedule delivers has a line.
func handlers(p *Program) []problem {
	if len(p.Scheds) == 0 {
		return nil
	}
	known := p.contexts()
	var out []problem
	for i := range p.Scheds {
		for j := range p.Scheds[i].Departures {
			d := &p.Scheds[i].Departures[j]
			if e := checkActions(d, &p.Machine, known); e != nil {
				out = append(out, problem{err: e.at(d.Pos), sched: i, dep: j})
			}
		}
	}
	return out
}

// checkActions returns what is wrong with the first bad action of a departure.
func checkActions(d *Departure, m *Machine, known map[Ctx]bool) *Error {
	for _, a := range d.Actions {
		if e := checkAction(a, m, known); e != nil {
			return e
		}
	}
	return nil
}

// contexts returns the declared tasks and the handlers that have lines.
func (p *Program) contexts() map[Ctx]bool {
	known := map[Ctx]bool{}
	for i := range p.Tasks {
		known[Ctx{Kind: TaskCtx, Name: p.Tasks[i].Name}] = true
	}
	p.Walk(func(l *Line, _ []int) {
		if l.Ctx.Kind == IRQCtx {
			known[l.Ctx] = true
		}
	})
	return known
}

// text prints what a problem drops.
func (p *Program) text(at *problem) string {
	if at.line != nil {
		return string(AppendLine(nil, at.line))
	}
	return string(AppendDeparture(nil, &p.Scheds[at.sched].Departures[at.dep]))
}

// prune removes everything at fault.
func (p *Program) prune(problems []problem) {
	lines := map[*Line]bool{}
	deps := map[*Departure]bool{}
	for i := range problems {
		if l := problems[i].line; l != nil {
			lines[l] = true
		} else {
			deps[&p.Scheds[problems[i].sched].Departures[problems[i].dep]] = true
		}
	}
	p.Lines = pruneLines(p.Lines, lines)
	for i := range p.Scheds {
		s := &p.Scheds[i]
		keep := make([]Departure, 0, len(s.Departures))
		for j := range s.Departures {
			if !deps[&s.Departures[j]] {
				keep = append(keep, s.Departures[j])
			}
		}
		s.Departures = keep
	}
}

func pruneLines(lines []Line, out map[*Line]bool) []Line {
	keep := make([]Line, 0, len(lines))
	for i := range lines {
		l := &lines[i]
		if out[l] {
			continue
		}
		if l.Verb == Repeat {
			l.Body = pruneLines(l.Body, out)
			if len(l.Body) == 0 {
				continue
			}
		}
		keep = append(keep, *l)
	}
	return keep
}
