package padded

import (
	"bytes"
	"context"
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// A Trial is a program that shows a bug, made larger and then minimised.
type Trial struct {
	Large  *prog.Program
	Result *minimise.Result
	Wrong  []string // what is wrong with the result, in words
}

// Size is how many lines and departures are added.
type Size struct{ Lines, Departures int }

// Back pads a program with what its bug does not need and minimises it. The result must be no
// longer than the program, show a finding of the same identity when its text is read and strictly
// replayed, and need each of its lines and departures.
func Back(ctx context.Context, p *prog.Program, v *impls.Variant, pad Size) (*Trial, error) {
	r := oracle.NewRunner()
	defer r.Close()
	f, err := Strictly(r, p, v)
	if err != nil {
		return nil, err
	}
	d := New(r, v, f)
	t := &Trial{Large: d.Program(p, pad.Lines, pad.Departures)}
	lines := minimise.SizeOf(p).Lines
	if n := minimise.SizeOf(t.Large).Lines; n < lines+pad.Lines/2 {
		t.wrong("%d lines were padded to %d only", lines, n)
	}
	bug := minimise.Bug{Subject: v, Identity: f.Identity()}
	if t.Result, err = minimise.Program(ctx, t.Large, bug, minimise.Options{}); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, t.Large)
	}
	t.check(d, lines)
	return t, nil
}

func (t *Trial) wrong(format string, args ...any) {
	t.Wrong = append(t.Wrong, fmt.Sprintf(format, args...))
}

// check holds a result against what is asked of it.
func (t *Trial) check(d *Padder, lines int) {
	res := t.Result
	if !res.Minimal || res.Flaky || res.Faulty > 0 {
		t.wrong("minimal %v, flaky %v, faulty %d: %s", res.Minimal, res.Flaky, res.Faulty,
			res.Fault)
	}
	f, err := Strictly(d.Runner, res.Program, d.Subject)
	switch {
	case err != nil:
		t.wrong("%v", err)
	case f.Identity() != d.Identity:
		t.wrong("it shows %q, want %q", f.Identity(), d.Identity)
	case !f.Matches(res.Program.Scheds[0].Bug):
		t.wrong("it expects %q and shows %q", res.Program.Scheds[0].Bug, f.Title)
	}
	if got := res.Report.Finding.Identity(); got != d.Identity {
		t.wrong("the report is of %q, want %q", got, d.Identity)
	}
	if res.After.Lines > lines {
		t.wrong("%d lines are left, and %d were there before the padding", res.After.Lines, lines)
	}
	for _, l := range d.Needless(res.Program) {
		t.wrong("needless: %s", l)
	}
}

// Strictly replays a program as a reader of its text does.
func Strictly(r *oracle.Runner, p *prog.Program, v *impls.Variant) (*oracle.Finding, error) {
	q, err := prog.Parse(p.File, bytes.NewReader(prog.Format(p)))
	if err != nil {
		return nil, err
	}
	c, err := oracle.Compile(q)
	if err != nil {
		return nil, err
	}
	got, err := r.Judge(c, v, oracle.Options{})
	if err == nil && got.Finding == nil {
		err = fmt.Errorf("nothing is found on %s in\n%s", v.Name, q)
	}
	return got.Finding, err
}
