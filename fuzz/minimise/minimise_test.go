package minimise_test

import (
	"bytes"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/fuzz/minimise/padded"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// TestRegress pads every committed bug with what it does not need, on each of its subjects, and
// demands it back: no larger than a person wrote it, of the same identity, strictly replayed, and
// without a line or departure that could go.
func TestRegress(t *testing.T) {
	for f := range corpus.Regress() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Scheds {
			v, ok := all.Lookup(p.Scheds[i].Subject)
			if ok && p.Scheds[i].Bug != "" {
				t.Run(f.Name+" on "+v.Name, func(t *testing.T) { back(t, p, v, p.Scheds[i].Bug) })
			}
		}
	}
}

// back pads a program and minimises it.
func back(t *testing.T, p *prog.Program, v *impls.Variant, expect string) {
	r := oracle.NewRunner()
	defer r.Close()
	identity := shows(t, r, p, v, expect)
	d := padded.New(r, v, identity)
	lines, departures := 40, 8
	if testing.Short() {
		lines, departures = 15, 3
	}
	large := d.Program(p, lines, departures)
	before := minimise.SizeOf(large)
	res, err := minimise.Program(t.Context(), large, minimise.Bug{Subject: v, Identity: identity},
		minimise.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, large)
	}
	t.Logf("%d lines, %d departures: %s; %d tries, %d cached, %v", before.Lines,
		before.Departures, res.Removed(), res.Tries, res.Cached, res.Took)
	if before.Lines < minimise.SizeOf(p).Lines+lines/2 {
		t.Errorf("padded to %d lines only", before.Lines)
	}
	if !res.Minimal || res.Faulty > 0 {
		t.Errorf("minimal %v, faulty %d: %s", res.Minimal, res.Faulty, res.Fault)
	}
	if got := shows(t, r, res.Program, v, res.Program.Scheds[0].Bug); got != identity {
		t.Errorf("identity %q, want %q", got, identity)
	}
	if res.Report.Finding.Identity() != identity {
		t.Errorf("the report is of %q", res.Report.Finding.Identity())
	}
	if res.After.Lines > minimise.SizeOf(p).Lines {
		t.Errorf("larger than the file that a person wrote:\n%s\nnow\n%s", p, res.Program)
	}
	for _, l := range d.Needless(res.Program) {
		t.Errorf("needless: %s\nin\n%s", l, res.Program)
	}
}

// shows replays a program as a reader of its text would, strictly, and returns the identity of
// what it shows.
func shows(t *testing.T, r *oracle.Runner, p *prog.Program, v *impls.Variant,
	expect string) string {
	t.Helper()
	q, err := prog.Parse("x.prog", bytes.NewReader(prog.Format(p)))
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(q)
	if err != nil {
		t.Fatal(err)
	}
	got, err := r.Judge(c, v, oracle.Options{})
	if err != nil {
		t.Fatalf("%v\n%s", err, q)
	}
	if got.Finding == nil || !got.Finding.Matches(expect) {
		t.Fatalf("found %v, want %q\n%s", got.Finding, expect, q)
	}
	return got.Finding.Identity()
}
