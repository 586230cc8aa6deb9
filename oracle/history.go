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
	fault int // index of the fault that is about it, -1
	more  int
	part  int // rows of the part
}

// history sets events beside the faults that were raised at them. What repeats is
// folded, and of a long history what is far from every fault is left out.
func (o *Report) history(p *Compiled, res *Result) {
	assigned := o.assign(res)
	rows := fold(res.Events, assigned)
	keep := o.near(rows)
	for i := 0; i < len(rows); i++ {
		if keep[i] {
			o.History = append(o.History, o.step(p, res, &rows[i]))
			continue
		}
		from := i
		for i+1 < len(rows) && !keep[i+1] {
			i++
		}
		o.History = append(o.History, Step{Line: fmt.Sprintf("… %d lines left out", i+1-from)})
	}
	o.rest(res, assigned)
}

// rest adds the faults that belong to no event: of an operation that never ended, of
// a check, of the end.
func (o *Report) rest(res *Result, assigned []int) {
	told := map[int]bool{}
	for _, k := range assigned {
		told[k] = true
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

// assign finds for every event the fault that was raised at it, -1 for none.
func (o *Report) assign(res *Result) []int {
	out := make([]int, len(res.Events))
	byLine := map[int][]int{}
	for k := range o.Finding.Faults {
		n := o.Finding.Faults[k].Where.Line
		byLine[n] = append(byLine[n], k)
	}
	for i := range res.Events {
		ev := &res.Events[i]
		out[i] = -1
		list := byLine[int(ev.Op)]
		for n, k := range list {
			if f := &o.Finding.Faults[k]; ev.Addr == 0 || about(f, ev) {
				out[i] = k
				byLine[int(ev.Op)] = append(append([]int{}, list[:n]...), list[n+1:]...)
				break
			}
		}
	}
	return out
}

// about says whether a fault raised at an event's line is about that event: its
// evidence names the address, or it names none.
func about(f *fault.Fault, ev *impls.Event) bool {
	return !strings.Contains(f.Detail, "0x") ||
		strings.Contains(f.Detail, fmt.Sprintf("%#x", ev.Addr))
}

// fold turns events into rows. A part that comes again and again, with the same
// outcomes and addresses and no fault in it, is there once.
func fold(events []impls.Event, faults []int) []row {
	var rows []row
	for i := 0; i < len(events); {
		part, times := repeated(events, faults, i)
		for k := range part {
			rows = append(rows, row{event: i + k, fault: faults[i+k]})
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
func repeated(events []impls.Event, faults []int, i int) (part, times int) {
	for part = 1; part <= periodMax && i+2*part <= len(events); part++ {
		n := 0
		for i+part+n < len(events) && faults[i+n] < 0 && faults[i+part+n] < 0 &&
			alike(&events[i+n], &events[i+part+n]) {
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
func (o *Report) near(rows []row) []bool {
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
		if rows[i].more == 0 && rows[i].fault >= 0 {
			take(i-rowsBefore, i+rowsAfter+1)
		}
	}
	take(len(rows)-rowsHead, len(rows))
	return keep
}

// step writes a row down.
func (o *Report) step(p *Compiled, res *Result, w *row) Step {
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
	if w.fault >= 0 {
		st.Model = o.Finding.Faults[w.fault].String()
	}
	return st
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
	for i := range s.Slabs {
		r.slabState(&s, &s.Slabs[i])
	}
	for _, k := range s.Counts {
		if k.Stored != k.Counted {
			o.State = append(o.State, fmt.Sprintf("%s stored %d, counted %d", k.Name, k.Stored, k.Counted))
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
	o.State = append(o.State, fmt.Sprintf("slab of %s at page %d: objects=%d inuse=%d frozen=%v, %s",
		k.Name, b.Page, b.Objects, b.Inuse, b.Frozen, where))
	for i := 0; i < b.Objects; {
		at := b.First + uint64(i)*k.Stride
		first := r.object(b, at)
		n, last := 1, first
		for i+n < b.Objects {
			next := r.object(b, at+uint64(n)*k.Stride)
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
	return fmt.Sprintf("%s list, place %d", [...]string{"partial", "full", "free", "one"}[p.List], p.At)
}

// objectState is what model and freelists say of one object.
type objectState struct {
	live  bool
	names string
	slab  int // number on the slab's own freelist, from 1; 0 not there
	cpu   int // number on the freelist of a CPU
	lists int // entries of freelists that are this object
}

func (r *Runner) object(b *impls.SlabState, a impls.Addr) objectState {
	o := objectState{live: r.judge.live.has(a)}
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
	return o.live == first.live && o.names == first.names && o.lists == first.lists &&
		behind(first.slab, o.slab) && behind(first.cpu, o.cpu)
}

// text says what o is; last is the last object of the same state.
func (o *objectState) text(last *objectState) string {
	var parts []string
	if o.live {
		parts = append(parts, "live"+o.names)
	}
	number := func(from, to int, whose string) {
		switch {
		case from > 0 && from == to:
			parts = append(parts, fmt.Sprintf("free, number %d of the %s list", from, whose))
		case from > 0:
			parts = append(parts, fmt.Sprintf("free, numbers %d to %d of the %s list", from, to, whose))
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
