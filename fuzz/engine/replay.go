package engine

import (
	"context"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/pairs"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A Replayer runs programs on subjects and judges them. It keeps machines between
// programs. Close it.
type Replayer struct {
	Options oracle.Options
	Flags   string // of the command that repeats a finding, before the file: " --checks=…"
	runner  *oracle.Runner
}

// NewReplayer makes a replayer.
func NewReplayer(opt oracle.Options) *Replayer {
	return &Replayer{Options: opt, runner: oracle.NewRunner()}
}

// Close ends the replayer's machines.
func (r *Replayer) Close() { r.runner.Close() }

// Runner is what runs the programs, for runs beside the judged ones.
func (r *Replayer) Runner() *oracle.Runner { return r.runner }

// A Replay is what one program showed on one subject.
type Replay struct {
	Verdict  *oracle.Verdict
	Err      error          // a place in the program that this subject does not have
	Findings []Finding      // what was found, and before it that an expected bug is missing
	Report   *oracle.Report // of what was found; nil when nothing was
	Against  *impls.Variant // the subject that a difference shows against, nil without one
}

// Counts are those of the subject's runs: one program, unless it was left out.
func (p *Replay) Counts() Counts {
	if p.Err != nil || p.Verdict.Left != "" {
		return Counts{}
	}
	return CountsOf(1, &p.Verdict.Counts)
}

// Subjects are those that show it together: the one that a difference shows against, if one
// does, and the subject.
func (p *Replay) Subjects() []*impls.Variant {
	if p.Against == nil {
		return []*impls.Variant{p.Verdict.Subject}
	}
	return []*impls.Variant{p.Against, p.Verdict.Subject}
}

// Until calls f with the replayer's runner and waits until it returns or ctx ends.
// When ctx ends first, f is left behind with that runner, the replayer takes a new
// one, and Until is false. A panic of f is passed on with its stack.
func (r *Replayer) Until(ctx context.Context, f func(*oracle.Runner)) bool {
	type panicked struct{ message string }
	done, run := make(chan *panicked, 1), r.runner
	go func() {
		var bad *panicked
		defer func() {
			if v := recover(); v != nil {
				bad = &panicked{fmt.Sprintf("%v\n\n%s", v, debug.Stack())}
			}
			done <- bad
		}()
		f(run)
	}()
	select {
	case bad := <-done:
		if bad != nil {
			panic(bad.message)
		}
		return true
	case <-ctx.Done():
		r.runner = oracle.NewRunner()
		return false
	}
}

// Program runs a parsed program on subjects: each on its own against the model,
// those of a program with one task against the first of them, and those that are equal
// by design against each other. An error is a
// fault of the program, with its place, or that ctx ended: then what the subjects
// before showed is returned as well, without reports.
func (r *Replayer) Program(ctx context.Context, p *prog.Program, subjects []*impls.Variant) (
	[]Replay, error) {
	if err := knowsSubjects(p); err != nil {
		return nil, err
	}
	c, err := oracle.Compile(p)
	if err != nil {
		return nil, err
	}
	out := make([]Replay, 0, len(subjects))
	for _, v := range subjects {
		one, opt := new(Replay), r.Options
		if ctx.Err() != nil || !r.Until(ctx, func(run *oracle.Runner) {
			one.Verdict, one.Err = run.Judge(c, v, opt)
		}) {
			for i := range out {
				r.name(c, &out[i])
			}
			return out, ctx.Err()
		}
		out = append(out, *one)
	}
	if r.Options.Checks == 0 || r.Options.Checks.On(fault.Difference) {
		if c.Sequential() && !departs(p) {
			r.compare(c, out)
		}
		if err := r.paired(c, out); err != nil {
			return nil, err
		}
	}
	for i := range out {
		r.tell(c, &out[i])
	}
	return out, nil
}

// departs says whether a program's schedules depart from line order: others only say what is
// expected of a subject.
func departs(p *prog.Program) bool {
	return slices.ContainsFunc(p.Scheds, func(s prog.Sched) bool { return len(s.Departures) > 0 })
}

// compare holds the outcomes of the subjects that found nothing against those of
// the first.
func (r *Replayer) compare(c *oracle.Compiled, list []Replay) {
	var cmp oracle.Comparison
	for i := range list {
		v := list[i].Verdict
		if list[i].Err == nil && v.Left == "" && v.Finding == nil {
			cmp.Add(v.Subject, v.Events, v.Apart)
		}
	}
	for _, d := range cmp.Differences() {
		opt := r.Options
		opt.Extra = &d.Fault
		for i := range list {
			if list[i].Verdict.Subject == d.Subject {
				list[i].Verdict.Finding = r.runner.Run(c, d.Subject, opt).Finding()
				list[i].Against = cmp.Reference()
			}
		}
	}
	for i := range list {
		list[i].Verdict.Events = nil
	}
}

// paired holds the subjects that are equal by design, and that found nothing, against each
// other, in line order or under the first schedule that departs from it.
func (r *Replayer) paired(c *oracle.Compiled, list []Replay) error {
	silent, at := []*impls.Variant{}, map[string]*Replay{}
	for i := range list {
		p := &list[i]
		missing := p.Verdict.Missing() && p.Verdict.Expected != string(fault.PairDiffers)
		if p.Err == nil && p.Verdict.Finding == nil && !missing {
			silent = append(silent, p.Verdict.Subject)
			at[p.Verdict.Subject.Name] = p
		}
	}
	block := pairs.Block(c.Prog)
	for _, pair := range pairs.Of(silent) {
		var anchors []sched.Anchor
		if block != nil {
			var err error
			if anchors, err = c.Anchors(block); err != nil {
				return err
			}
		}
		out, err := pair.Run(r.runner, c, sched.Strict, anchors)
		if err != nil {
			return err
		}
		if out.Fault == nil {
			continue
		}
		p := at[pair.Row.B]
		if p.Report, err = pair.Explain(r.runner, c, block, out.Fault); err != nil {
			return err
		}
		p.Verdict.Left, p.Verdict.Sched, p.Verdict.Finding = "", block, p.Report.Finding
		p.Against = at[pair.Row.A].Verdict.Subject
	}
	return nil
}

// tell completes a replay with its finding and the report of it.
func (r *Replayer) tell(c *oracle.Compiled, p *Replay) {
	r.name(c, p)
	if p.Err != nil || p.Verdict.Left != "" || p.Verdict.Finding == nil {
		return
	}
	if p.Report == nil {
		p.Report = r.report(c, p.Verdict)
	}
	p.Report.Command = r.command(c, p)
}

// name completes a replay with its finding.
func (r *Replayer) name(c *oracle.Compiled, p *Replay) {
	v := p.Verdict
	if p.Err != nil || v.Left != "" {
		return
	}
	file, command := c.Prog.File, r.command(c, p)
	if v.Missing() {
		p.Findings = append(p.Findings, newMissing(v.Subject.Name, v.Expected, file, command))
	}
	if v.Finding == nil {
		return
	}
	f := NewFinding(v.Finding, file, command)
	f.Known = v.Known()
	p.Findings = append(p.Findings, f)
}

// command repeats what a subject showed.
func (r *Replayer) command(c *oracle.Compiled, p *Replay) string {
	return "allocfuzz replay --subject " + strings.Join(fuzz.Names(p.Subjects()), ",") + r.Flags +
		" " + fuzz.Argument(c.Prog.File)
}

// report explains a finding. One that comes of holding outcomes against what is
// stated or against other subjects is not found again by running alone: it is
// handed in.
func (r *Replayer) report(c *oracle.Compiled, v *oracle.Verdict) *oracle.Report {
	opt := r.Options
	opt.First = v.Finding
	for i := range v.Finding.Faults {
		if f := &v.Finding.Faults[i]; f.Title == fault.OutcomesDiffer && opt.Extra == nil {
			opt.Extra = f
		}
	}
	rep, err := r.runner.Explain(c, v.Subject, v.Sched, opt)
	if err != nil {
		panic(fmt.Sprintf("allocfuzz: %v", err))
	}
	rep.Finding = v.Finding
	return rep
}

// knowsSubjects finds names in a program that are no subject.
func knowsSubjects(p *prog.Program) error {
	for i := range p.Scheds {
		if err := knows(p, p.Scheds[i].Subject, p.Scheds[i].Pos); err != nil {
			return err
		}
	}
	return expectsKnown(p, p.Lines)
}

func expectsKnown(p *prog.Program, list []prog.Line) error {
	for i := range list {
		l := &list[i]
		for k := range l.Expect {
			if name := l.Expect[k].Subject; family(name) {
				continue
			} else if err := knows(p, name, l.Pos); err != nil {
				return err
			}
		}
		if err := expectsKnown(p, l.Body); err != nil {
			return err
		}
	}
	return nil
}

// family says whether the names of some subjects begin with a word.
func family(word string) bool {
	for _, name := range all.Names() {
		if strings.HasPrefix(name, word+"-") {
			return true
		}
	}
	return false
}

// knows looks a subject up. A patched one goes by its name, "+" and the patch, and
// is of another build.
func knows(p *prog.Program, name string, at prog.Pos) error {
	base, _, _ := strings.Cut(name, "+")
	if name == "" || all.Known(name) || all.Known(base) {
		return nil
	}
	return &prog.Error{File: p.File, Pos: at, Msg: fmt.Sprintf("no subject %q; expected one of %s",
		name, strings.Join(all.Names(), ", ")), Hint: "see allocfuzz subjects"}
}

// Owners are the subjects that the blocks of a program name, in their order.
func Owners(p *prog.Program) []*impls.Variant {
	var out []*impls.Variant
	for i := range p.Scheds {
		if v, ok := all.Lookup(p.Scheds[i].Subject); ok {
			out = append(out, v)
		}
	}
	return out
}
