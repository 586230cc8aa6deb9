package oracle

import (
	"fmt"
	"io"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
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
	named   func(line int) string // an operation of the program
	State   []string              // the subject when the fault was raised, one line each
	Debug   []*debugcheck.Report  // of the run, in order, the first few
	Command string                // that repeats it
	Promise string                // what it broke, of a subject that has promises, "" for none
}

// A Step is one operation of a history beside what the model says of it, or a
// remark in Line alone: steps that were folded or left out.
type Step struct {
	Line    string // the operation in text
	Task    string
	Outcome string // with address or size after ";"
	Model   string // "ok", or what is wrong
}

// Explain repeats a finding's run and writes down its history and state. sched
// is the schedule that shows it, nil for line order.
func (r *Runner) Explain(p *Compiled, v *impls.Variant, s *prog.Sched, opt Options) (
	*Report, error) {
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
	if res.Err != nil {
		return nil, res.Err
	}
	out.Finding = res.Finding()
	repeats := out.Finding != nil
	if !repeats {
		if opt.First == nil {
			return nil, fmt.Errorf("%s: the finding did not repeat on %s", p.Prog.File, v.Name)
		}
		f := *opt.First
		f.Also = append(append([]fault.Title(nil), f.Also...), fault.NonDeterministic)
		out.Finding = &f
	}
	out.Hash = res.Hash
	out.Promise = promised(res, v, out.Finding)
	copied := *p.Prog
	copied.File = ""
	copied.Scheds = nil
	if s != nil {
		block := *s
		block.Subject, block.Bug = v.Name, string(out.Finding.Title)
		copied.Scheds = []prog.Sched{block}
	}
	out.Program = &copied
	if repeats {
		out.history(p, res, &r.judge)
		out.debug(p, res)
	}
	return out, nil
}

func outcomeText(ev *impls.Event) string {
	s := answer(ev)
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
	if o.Promise != "" {
		fmt.Fprintf(b, "PROMISE: %s\n", o.Promise)
	}
	found, stack, _ := strings.Cut(f.Fault.String(), "\n")
	fmt.Fprintf(b, "FOUND: %s%s\n", found, foundAt(f))
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
	for _, d := range o.Debug {
		b.WriteString("\n")
		if err := d.Print(b, o.named); err != nil {
			return err
		}
	}
	if stack != "" {
		b.WriteString("\nSTACK\n" + stack)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// debugMax is the number of debug reports that a finding shows.
const debugMax = 6

// debug keeps the first debug reports of a run.
func (o *Report) debug(p *Compiled, res *Result) {
	o.Debug = append(o.Debug, res.Reports[:min(debugMax, len(res.Reports))]...)
	o.named = p.Named
}

// Named is the operation of order n in text, without what is stated of it.
func (p *Compiled) Named(n int) string {
	if n < 0 || n >= len(p.Lines) || p.Lines[n].Src == nil {
		return "the end of the program"
	}
	l := *p.Lines[n].Src
	l.Expect, l.Note = nil, ""
	return lineText(&l)
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
		if s.Outcome == "" {
			b.WriteString("  " + s.Line + "\n")
			continue
		}
		fmt.Fprintf(b, "  %-*s  %-*s  %s\n", wl, s.Line, wo, s.Outcome, firstLine(s.Model))
	}
}

func firstLine(s string) string {
	head, _, _ := strings.Cut(s, "\n")
	return head
}

// promised is who promised that a finding does not happen.
func promised(res *Result, v *impls.Variant, f *Finding) string {
	if v.Promise == nil {
		return ""
	}
	code := impls.OpVerify // whatever is wrong at no operation
	for i := range res.Events {
		if ev := &res.Events[i]; f.Fault.Where.Line >= 0 && int(ev.Op) == f.Fault.Where.Line {
			code = ev.Code
		}
	}
	return v.Promise(code, f.Title)
}
