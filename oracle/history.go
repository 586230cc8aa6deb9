package oracle

import (
	"fmt"
	"strings"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/play"
)

// Limits of the history of a report.
const (
	rowsMax    = 200 // rows
	rowsBefore = 24  // kept before a row with a fault
	rowsAfter  = 8   // and after
	rowsHead   = 16  // of the beginning
	periodMax  = 16  // rows of a repeated part that is folded
)

// A row is one event of a history, or, with more, the part of the last rows that
// comes so many times again.
type row struct {
	event int
	more  int
	part  int // rows of the part
}

// history sets events beside the faults that were raised at them. What repeats is
// folded, and of a long history what is far from every fault is left out.
func (o *Report) history(p *Compiled, res *Result, j *judge) {
	at := o.assign(res, j)
	rows := fold(res.Events, at)
	keep := near(rows, at)
	for i := 0; i < len(rows); i++ {
		if keep[i] {
			o.History = append(o.History, o.step(p, res, &rows[i], at))
			continue
		}
		from := i
		for i+1 < len(rows) && !keep[i+1] {
			i++
		}
		o.History = append(o.History, Step{Line: fmt.Sprintf("… %d lines left out", i+1-from)})
	}
	o.rest(res, at)
}

// raised is the faults by number of the event that they were raised at.
type raised map[int][]int

// assign finds the event of each fault. Those of the judge know how far the run was:
// in the middle of an event that was noted next, or, looking at the structure,
// behind one. Those of the machine know the line only.
func (o *Report) assign(res *Result, j *judge) raised {
	at := raised{}
	own := len(o.Finding.Faults) - len(j.faults)
	if res.extra {
		own--
	}
	for k := range o.Finding.Faults {
		f := &o.Finding.Faults[k]
		n := -1
		if own <= k && k < own+len(j.at) {
			if n = j.at[k-own]; n > 0 && structural(f) {
				n--
			}
		}
		if n < 0 || n >= len(res.Events) || int(res.Events[n].Op) != f.Where.Line {
			n = eventOf(res, f)
		}
		if n >= 0 {
			at[n] = append(at[n], k)
		}
	}
	return at
}

func structural(f *fault.Fault) bool {
	e, _ := fault.Lookup(f.Title)
	return e.Rule == fault.Structure || f.Title == fault.OutsideSlab
}

// eventOf is the last event of a fault's line, -1 when there is none.
func eventOf(res *Result, f *fault.Fault) int {
	for i := len(res.Events) - 1; i >= 0; i-- {
		if int(res.Events[i].Op) == f.Where.Line {
			return i
		}
	}
	return -1
}

// fold turns events into rows. A part that comes again and again, with the same
// outcomes and addresses and no fault in it, is there once.
func fold(events []impls.Event, at raised) []row {
	var rows []row
	for i := 0; i < len(events); {
		part, times := repeated(events, at, i)
		for k := range part {
			rows = append(rows, row{event: i + k})
		}
		if times > 1 {
			rows = append(rows, row{more: times - 1, part: part})
		}
		i += part * times
	}
	return rows
}

// repeated finds the shortest part at event i that is repeated so often that it is
// worth folding, and how often it is there; a single event once when there is none.
func repeated(events []impls.Event, at raised, i int) (part, times int) {
	for part = 1; part <= periodMax && i+2*part <= len(events); part++ {
		n := 0
		for i+part+n < len(events) && alike(&events[i+n], &events[i+part+n]) &&
			at[i+n] == nil && at[i+part+n] == nil {
			n++
		}
		if times = 1 + n/part; (times-1)*part >= 3 {
			return part, times
		}
	}
	return 1, 1
}

// alike says whether two events would be the same line of a history.
func alike(a, b *impls.Event) bool {
	return a.Op == b.Op && a.Ctx == b.Ctx && a.Outcome == b.Outcome && a.Addr == b.Addr &&
		a.Size == b.Size && a.Usable == b.Usable
}

// near marks the rows to be kept: all of a short history, else its beginning, what
// is around the faults, the first ones first, and its end.
func near(rows []row, at raised) []bool {
	keep := make([]bool, len(rows))
	left := rowsMax
	take := func(from, to int) {
		for i := max(from, 0); i < min(to, len(rows)) && left > 0; i++ {
			if !keep[i] {
				keep[i] = true
				left--
			}
		}
	}
	if len(rows) <= rowsMax {
		take(0, len(rows))
		return keep
	}
	take(0, rowsHead)
	for i := range rows {
		if rows[i].more == 0 && at[rows[i].event] != nil {
			take(i-rowsBefore, i+rowsAfter+1)
		}
	}
	take(len(rows)-rowsHead, len(rows))
	return keep
}

// step writes a row down.
func (o *Report) step(p *Compiled, res *Result, w *row, at raised) Step {
	switch {
	case w.more > 0 && w.part == 1:
		return Step{Line: fmt.Sprintf("… %d more like it", w.more)}
	case w.more > 0:
		return Step{Line: fmt.Sprintf("… %d more like the last %d lines", w.more, w.part)}
	}
	ev := &res.Events[w.event]
	st := Step{Task: p.Ctxs[ev.Ctx].Name, Outcome: outcomeText(ev), Model: "ok"}
	if ev.Op >= 0 {
		st.Line = lineText(p.Lines[ev.Op].Src)
	}
	if ev.Part > 0 && int(ev.Slot) < len(p.Slots) {
		st.Outcome = p.Slots[ev.Slot] + ": " + st.Outcome
	}
	if list := at[w.event]; list != nil {
		st.Model = o.wrong(list)
	}
	return st
}

// wrong tells the faults of one event: the first in full, of others the titles.
func (o *Report) wrong(list []int) string {
	text := firstLine(o.Finding.Faults[list[0]].String())
	seen := map[fault.Title]bool{o.Finding.Faults[list[0]].Title: true}
	for _, k := range list[1:] {
		if t := o.Finding.Faults[k].Title; !seen[t] {
			seen[t] = true
			text += "; also " + string(t)
		}
	}
	return text
}

// rest adds the faults that belong to no event: of an operation that never ended, of
// a check, of the end.
func (o *Report) rest(res *Result, at raised) {
	told := map[int]bool{}
	//tidy:maporder a set has no order
	for _, list := range at {
		for _, k := range list {
			told[k] = true
		}
	}
	titles := map[fault.Title]bool{}
	for k := range o.Finding.Faults {
		f := &o.Finding.Faults[k]
		if told[k] || titles[f.Title] {
			continue
		}
		titles[f.Title] = true
		st := Step{Line: "(between lines)", Task: f.Where.Task, Outcome: "-", Model: f.String()}
		if src := res.line(f.Where.Line); src != nil {
			st.Line = lineText(src)
		} else if f.Where.Line >= len(res.Program.Lines) {
			st.Line = "(end of the program)"
		}
		o.History = append(o.History, st)
	}
}

// state writes the snapshot of the subject down, once, when its first fault is
// raised.
func (r *Runner) state() {
	o := r.explain
	if o == nil || o.State != nil || r.in == nil {
		return
	}
	var s impls.Snapshot
	if !r.in.Snapshot(&s) {
		return
	}
	o.State = []string{fmt.Sprintf("pages: %d, free %d", s.PagesTotal, s.PagesFree)}
	for _, p := range s.Pools {
		if len(p.Pages) > 0 {
			o.State = append(o.State, fmt.Sprintf("pool of CPU %d: pages %v", p.CPU, p.Pages))
		}
	}
	for i := range s.Slabs {
		r.slabState(&s, &s.Slabs[i])
	}
	for _, k := range s.Counts {
		if k.Stored != k.Counted {
			o.State = append(o.State, fmt.Sprintf("%s stored %d, counted %d", k.Name, k.Stored,
				k.Counted))
		}
	}
}

func (r *Runner) slabState(s *impls.Snapshot, b *impls.SlabState) {
	k := &s.Caches[b.Cache]
	where := "nowhere"
	for i, p := range b.On {
		at := placeText(p)
		if i > 0 {
			at = where + " and " + at
		}
		where = at
	}
	o := r.explain
	o.State = append(o.State,
		fmt.Sprintf("slab of %s at page %d: objects=%d inuse=%d frozen=%v, %s",
			k.Name, b.Page, b.Objects, b.Inuse, b.Frozen, where))
	for i := 0; i < b.Objects; {
		at := b.First + uint64(i)*k.Stride
		first := r.object(s, b, at)
		n, last := 1, first
		for i+n < b.Objects {
			next := r.object(s, b, at+uint64(n)*k.Stride)
			if !next.follows(&first, n) {
				break
			}
			n, last = n+1, next
		}
		line := fmt.Sprintf("  %#x  %s", at, first.text(&first))
		if n > 1 {
			line = fmt.Sprintf("  %#x … %#x  %d objects %s", at, at+uint64(n-1)*k.Stride, n,
				first.text(&last))
		}
		o.State = append(o.State, line)
		i += n
	}
}

func placeText(p impls.Place) string {
	switch p.Kind {
	case impls.OnCPU:
		return fmt.Sprintf("slab of CPU %d", p.CPU)
	case impls.OnCPUPartial:
		return fmt.Sprintf("partial list of CPU %d, place %d", p.CPU, p.At)
	}
	return fmt.Sprintf("%s list, place %d", [...]string{"partial", "full", "free", "one"}[p.List],
		p.At)
}

// objectState is what model and freelists say of one object.
type objectState struct {
	live  bool
	own   bool // describes a slab
	names string
	slab  int // number on the slab's own freelist, from 1; 0 not there
	cpu   int // number on the freelist of a CPU
	lists int // entries of freelists that are this object
}

func (r *Runner) object(s *impls.Snapshot, b *impls.SlabState, a impls.Addr) objectState {
	o := objectState{live: r.judge.live.Has(a)}
	for i := range s.Slabs {
		o.own = o.own || s.Slabs[i].Manager == a
	}
	if o.live {
		o.names = r.names(a)
	}
	for i, f := range b.Free {
		if f == a {
			o.slab = i + 1
			o.lists++
		}
	}
	for i, f := range b.CPUFree {
		if f == a {
			o.cpu = i + 1
			o.lists++
		}
	}
	return o
}

// follows says whether o, n objects behind first, is in the same state: on the
// same freelist so many entries later.
func (o *objectState) follows(first *objectState, n int) bool {
	behind := func(first, o int) bool { return first == 0 && o == 0 || first > 0 && o == first+n }
	return o.live == first.live && o.own == first.own && o.names == first.names &&
		o.lists == first.lists && behind(first.slab, o.slab) && behind(first.cpu, o.cpu)
}

// text says what o is; last is the last object of the same state.
func (o *objectState) text(last *objectState) string {
	var parts []string
	if o.live {
		parts = append(parts, "live"+o.names)
	}
	if o.own {
		parts = append(parts, "describes a slab")
	}
	number := func(from, to int, whose string) {
		switch {
		case from > 0 && from == to:
			parts = append(parts, fmt.Sprintf("free, number %d of the %s list", from, whose))
		case from > 0:
			parts = append(parts, fmt.Sprintf("free, numbers %d to %d of the %s list", from, to,
				whose))
		}
	}
	number(o.slab, last.slab, "slab's")
	number(o.cpu, last.cpu, "CPU's")
	if len(parts) == 0 {
		return "on no list and not live (allocated or freed by an operation in progress, or lost)"
	}
	s := strings.Join(parts, ", and ")
	switch {
	case len(parts) > 1:
		s += "   <-- both"
	case o.lists > 1:
		s += "   <-- twice"
	}
	return s
}

// names lists the slots that hold the object at a.
func (r *Runner) names(a impls.Addr) string {
	s := ""
	for i := range r.exec.Slots() {
		if k := r.exec.Slot(i); k.Addr == a && k.State == play.Live {
			s += " " + r.p.Slots[i]
		}
	}
	return s
}
