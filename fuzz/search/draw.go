package search

import (
	"fmt"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A Row is what one CPU did before another one did something, or a context came or went.
type Row struct {
	Step  uint64 // number of the first point
	CPU   int
	Depth int    // of handlers
	Who   string // task or handler
	Line  string // operation
	Did   string // its points
	Cut   string // the point at which it was left, "" when its line ended
	Ended string // the outcome when it did
	Fault string // title of what was seen wrong here first, "" for nothing
	line  int
}

// Draw runs a program under a schedule and tells what each CPU did, row by row.
func Draw(p *oracle.Compiled, v *impls.Variant, opt oracle.Options, anchors []sched.Anchor) (
	[]Row, error) {
	b := newBody(p, v, opt)
	b.opt.Trace = true
	defer b.close()
	var rows []Row
	err := guarded(func() error {
		r := b.Run(sched.NewReplay(sched.Repair, anchors))
		d := &drawing{p: p, res: b.res, left: map[string]string{}, events: map[int32]int{}}
		for i := range b.res.Trace {
			d.point(&b.res.Trace[i])
		}
		d.flush()
		rows = d.rows
		blame(rows, b.res)
		return r.Err
	})
	return rows, err
}

// blame marks the row in which the first fault was seen.
func blame(rows []Row, res *oracle.Result) {
	if len(res.Faults) == 0 || len(rows) == 0 {
		return
	}
	f := &res.Faults[0]
	at := 0
	for i := range rows {
		if rows[i].Step <= f.Where.Step {
			at = i
		}
	}
	// A row begins with a step that was asked about before it: what that did is the row's.
	if at+1 < len(rows) && rows[at].line != f.Where.Line && rows[at+1].line == f.Where.Line {
		at++
	}
	rows[at].Fault = string(f.Title)
}

type drawing struct {
	p      *oracle.Compiled
	res    *oracle.Result
	rows   []Row
	key    string            // of the row in hand: context, line and round
	who    string            // the same without the CPU
	points []string          // of the row in hand
	left   map[string]string // the point at which a context was left
	events map[int32]int     // events of each operation that were told
	row    Row
	line   int
	last   machine.Kind
}

// point adds a point of the trace.
func (d *drawing) point(t *machine.TraceEntry) {
	who := fmt.Sprintf("%s %d %v %d %d", t.Where.Task, t.Line.Pos, t.Line.Iter, t.Line.Delivery,
		t.Depth)
	key := fmt.Sprintf("%s on %d", who, t.Where.CPU)
	name := t.Kind.String()
	if n := t.Field.Name(); n != "-" {
		name += " " + n
	}
	if key != d.key {
		d.flush()
		d.key, d.who, d.line = key, who, t.Where.Line
		d.row = Row{Step: t.Where.Step, CPU: t.Where.CPU, Depth: t.Depth, Who: t.Where.Task,
			Line: d.text(t.Where.Line), line: t.Where.Line}
		if at, ok := d.left[who]; ok {
			d.points = append(d.points, at)
			delete(d.left, who)
		}
	}
	d.points, d.last = append(d.points, name), t.Kind
}

// text is the operation of a line, without its context.
func (d *drawing) text(n int) string {
	if n < 0 || n >= len(d.p.Lines) {
		return ""
	}
	text := string(prog.AppendLine(nil, d.p.Lines[n].Src))
	if label, rest, ok := strings.Cut(text, " "); ok && strings.HasPrefix(label, "@") {
		text = rest
	}
	_, text, _ = strings.Cut(text, " ")
	return text
}

// flush ends the row in hand.
func (d *drawing) flush() {
	if d.key == "" {
		return
	}
	n := len(d.points)
	if d.last == machine.KEnd {
		d.row.Ended = d.outcome(int32(d.line))
		n--
	} else {
		d.row.Cut = d.points[n-1]
		d.left[d.who] = d.points[n-1]
		n--
	}
	d.row.Did = brief(d.points[:n])
	d.rows = append(d.rows, d.row)
	d.points, d.key = d.points[:0], ""
}

// pointsMax is the number of points of a row that are told one by one.
const pointsMax = 4

// brief tells points, of many the first and the last.
func brief(points []string) string {
	if len(points) <= pointsMax {
		return strings.Join(points, ", ")
	}
	return fmt.Sprintf("%s, … %d more …, %s", points[0], len(points)-2, points[len(points)-1])
}

// outcome is what the next event of an operation says.
func (d *drawing) outcome(op int32) string {
	skip := d.events[op]
	for i := range d.res.Events {
		ev := &d.res.Events[i]
		if ev.Op != op {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		d.events[op]++
		if ev.Outcome == impls.OK && ev.Addr != 0 {
			return fmt.Sprintf("ok %#x", ev.Addr)
		}
		return ev.Outcome.String()
	}
	return "-"
}
