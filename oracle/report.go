package oracle

import (
	"fmt"
	"io"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/sched"
)

func lineText(l *prog.Line) string { return string(prog.AppendLine(nil, l)) }

// A Report is a finding with everything needed to understand and repeat it. Its
// text form is the source; other forms are views of it.
type Report struct {
	Finding *Finding
	Program *prog.Program // with the schedule that shows it, as its only block
	Hash    uint64
	History []Step
	State   []string // the subject when the fault was raised, one line each
	Command string   // that repeats it
}

// A Step is one operation of a history beside what the model says of it.
type Step struct {
	Line    string // the operation in text
	Task    string
	Outcome string // with address or size after ";"
	Model   string // "ok", or what is wrong
}

// Explain repeats a finding's run and writes down its history and state. sched
// is the schedule that shows it, nil for line order.
func (r *Runner) Explain(p *Compiled, v *impls.Variant, s *prog.Sched, opt Options) (*Report, error) {
	out := &Report{}
	if s != nil && len(s.Departures) > 0 {
		anchors, err := p.Anchors(s)
		if err != nil {
			return nil, err
		}
		opt.Chooser = sched.NewReplay(sched.Repair, anchors)
	}
	r.explain = out
	res := r.Run(p, v, opt)
	r.explain = nil
	out.Finding = res.Finding()
	if out.Finding == nil {
		return nil, fmt.Errorf("%s: the finding did not repeat on %s", p.Prog.File, v.Name)
	}
	out.Hash = res.Hash
	copied := *p.Prog
	copied.File = ""
	copied.Scheds = nil
	if s != nil {
		block := *s
		block.Subject, block.Bug = v.Name, string(out.Finding.Title)
		copied.Scheds = []prog.Sched{block}
	}
	out.Program = &copied
	out.history(p, res)
	return out, nil
}

// history sets every event beside the faults that were raised at its line.
func (o *Report) history(p *Compiled, res *Result) {
	said := map[int]bool{}
	const most = 200
	from := max(0, len(res.Events)-most)
	for i := range res.Events[from:] {
		ev := &res.Events[from+i]
		st := Step{Task: p.Ctxs[ev.Ctx].Name, Outcome: outcomeText(ev), Model: "ok"}
		if ev.Op >= 0 {
			st.Line = lineText(p.Lines[ev.Op].Src)
		}
		for k := range o.Finding.Faults {
			f := &o.Finding.Faults[k]
			if f.Where.Line == int(ev.Op) && !said[k] && (ev.Addr == 0 || about(f, ev)) {
				said[k] = true
				st.Model = f.String()
				break
			}
		}
		o.History = append(o.History, st)
	}
}

// about says whether a fault raised at an event's line is about that event: its
// evidence names the address, or it names none.
func about(f *fault.Fault, ev *impls.Event) bool {
	return !strings.Contains(f.Detail, "0x") || strings.Contains(f.Detail, fmt.Sprintf("%#x", ev.Addr))
}

func outcomeText(ev *impls.Event) string {
	s := ev.Outcome.String()
	switch {
	case ev.Outcome != impls.OK:
	case ev.Code == impls.OpUsable:
		s += fmt.Sprintf(" ; usable=%d", ev.Usable)
	case ev.Addr != 0:
		s += fmt.Sprintf(" ; addr=%#x size=%d", ev.Addr, ev.Size)
	}
	return s
}

// Text writes the report for a person.
func (o *Report) Text(w io.Writer) error {
	f := o.Finding
	b := &strings.Builder{}
	fmt.Fprintf(b, "TITLE: %s: %s\n", f.Subject, f.Title)
	fmt.Fprintf(b, "CLASS: %s\n", f.Class)
	if len(f.Also) > 0 {
		fmt.Fprintf(b, "ALSO: %s\n", titlesOf(f.Also))
	}
	fmt.Fprintf(b, "IDENTITY: %s\n", f.Identity())
	if e, ok := fault.Lookup(f.Title); ok {
		fmt.Fprintf(b, "MEANS: %s\n", e.Means)
	}
	fmt.Fprintf(b, "FOUND: %s%s\n", f.Fault.String(), foundAt(f))
	if o.Command != "" {
		fmt.Fprintf(b, "REPLAY: %s\n", o.Command)
	}
	fmt.Fprintf(b, "TRACE: %016x\n\nPROGRAM\n", o.Hash)
	b.Write(prog.Format(o.Program))
	o.table(b)
	if len(o.State) > 0 {
		b.WriteString("\nSTATE when the first fault was raised\n")
		for _, l := range o.State {
			b.WriteString("  " + l + "\n")
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func foundAt(f *Finding) string {
	s := ""
	if f.Line != "" {
		s += ", at " + f.Line
	}
	if f.Fault.Where.Step > 0 {
		s += fmt.Sprintf(", point %d", f.Fault.Where.Step)
	}
	if f.Fault.Where.CPU >= 0 {
		s += fmt.Sprintf(", CPU %d", f.Fault.Where.CPU)
	}
	return s
}

// table writes the history in columns.
func (o *Report) table(b *strings.Builder) {
	b.WriteString("\nHISTORY\n")
	wl, wo := len("operation"), len("outcome")
	for _, s := range o.History {
		wl, wo = max(wl, len(s.Line)), max(wo, len(s.Outcome))
	}
	wl, wo = min(wl, 60), min(wo, 48)
	fmt.Fprintf(b, "  %-*s  %-*s  model\n", wl, "operation", wo, "outcome")
	for _, s := range o.History {
		fmt.Fprintf(b, "  %-*s  %-*s  %s\n", wl, s.Line, wo, s.Outcome, firstLine(s.Model))
	}
}

func firstLine(s string) string {
	head, _, _ := strings.Cut(s, "\n")
	return head
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
	const most = 32
	for i := range min(b.Objects, most) {
		a := b.First + uint64(i)*k.Stride
		o.State = append(o.State, fmt.Sprintf("  %#x  %s", a, r.objectState(b, a)))
	}
	if b.Objects > most {
		o.State = append(o.State, fmt.Sprintf("  … %d more", b.Objects-most))
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

func (r *Runner) objectState(b *impls.SlabState, a impls.Addr) string {
	var parts []string
	if r.judge.live.has(a) {
		parts = append(parts, "live"+r.names(a))
	}
	for i, f := range b.Free {
		if f == a {
			parts = append(parts, fmt.Sprintf("free, number %d of the slab's list", i+1))
		}
	}
	for i, f := range b.CPUFree {
		if f == a {
			parts = append(parts, fmt.Sprintf("free, number %d of the CPU's list", i+1))
		}
	}
	if len(parts) == 0 {
		return "on no list and not live (allocated or freed by an operation in progress, or lost)"
	}
	s := strings.Join(parts, ", and ")
	if len(parts) > 1 {
		s += "   <-- both"
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
