package oracle_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// inBlock is the program of the reverted fast path with a schedule block.
func inBlock(block string) string {
	return `allocfuzz 1
cache c objects=8 size=64

cpu0 w = alloc c
cpu0 a = alloc c
cpu0 b = alloc c
irq0 x = alloc c
irq0 y = alloc c
irq0 free c x

` + block
}

// TestStrictErrors: what a block demands and cannot have is an error with file, line
// and column, and the subject is not to blame.
func TestStrictErrors(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-cmpxchg")
	for _, row := range []struct{ name, block, want string }{
		{"point never occurs", "sched subject=slub-2008-cmpxchg\n" +
			"at alloc(a) cmpxchg cpu_slab.freelist 9: irq0\n", "t.prog:12:1"},
		{"no such field", "sched subject=slub-2008-cmpxchg\nat alloc(a) cmpxchg no.field 1: irq0\n",
			"t.prog:12:1"},
		{"second of two", "sched subject=slub-2008-cmpxchg\n" +
			"at alloc(w) end - 1: irq0\nat alloc(b) lock no.lock 1: cpu0\n", "t.prog:13:1"},
		{"in a delivery that is not made", "sched subject=slub-2008-cmpxchg\n" +
			"at irq0#2/alloc(x) end - 1: cpu0\n", "t.prog:12:1"},
		{"not allowed: to itself", "sched subject=slub-2008-cmpxchg\nat alloc(a) end - 1: cpu0\n",
			"t.prog:12:1"},
		{"not allowed: no page is asked for", "sched subject=slub-2008-cmpxchg\n" +
			"at alloc(a) cmpxchg cpu_slab.freelist 1: fail\n", "t.prog:12:1"},
		{"not allowed: pinned", "sched subject=slub-2008-cmpxchg\nat alloc(a) end - 1: move cpu0\n",
			"t.prog:12:1"},
		{"not allowed: the second action", "sched subject=slub-2008-cmpxchg\n" +
			"at alloc(a) cmpxchg cpu_slab.freelist 1: irq0, cpu0\n", "t.prog:12:1"},
	} {
		t.Run(row.name, func(t *testing.T) {
			out, err := r.Judge(named(t, inBlock(row.block)), v, oracle.Options{})
			var at *prog.Error
			if !errors.As(err, &at) || !strings.HasPrefix(err.Error(), row.want+":") {
				t.Fatalf("error %v, want one at %s", err, row.want)
			}
			if !strings.Contains(err.Error(), v.Name) {
				t.Errorf("the error does not name the subject: %v", err)
			}
			if out != nil && out.Finding != nil {
				t.Errorf("found %v", out.Finding)
			}
		})
	}
}

// named compiles text as file t.prog.
func named(tb testing.TB, text string) *oracle.Compiled {
	tb.Helper()
	p, err := prog.Parse("t.prog", strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// TestAnchorErrors: departures built in memory that name what the program has not.
func TestAnchorErrors(t *testing.T) {
	p := named(t, inBlock(""))
	at := prog.Where{Ref: prog.LineRef{Verb: prog.Alloc, Name: "a"}}
	inIRQ := prog.Where{Ref: prog.LineRef{Verb: prog.Alloc, Name: "x"}, IRQ: "irq1", Delivery: 1}
	deliver := prog.Action{Kind: prog.Interrupt, CPU: 0}
	for _, row := range []struct {
		name string
		d    prog.Departure
		want string
	}{
		{"unknown handler of the place", departure(inIRQ, deliver), "no handler irq1"},
		{"unknown handler", departure(at, prog.Action{Kind: prog.Interrupt, CPU: 3}), "no context"},
		{"unknown task", departure(at, prog.Action{Kind: prog.ToTask, Name: "t"}), "no context"},
		{"unknown CPU", departure(at, prog.Action{Kind: prog.Move, CPU: 7}), "no context"},
		{"unknown line", departure(prog.Where{Ref: prog.LineRef{Verb: prog.Free, Name: "q"}},
			deliver),
			"free(q)"},
		{"line of another program", departure(prog.Where{Line: &prog.Line{}}, deliver), "line"},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := p.Anchors(&prog.Sched{Departures: []prog.Departure{row.d}})
			if err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("error %v, want … %s", err, row.want)
			}
		})
	}
	right := prog.Sched{Departures: []prog.Departure{departure(at, deliver)}}
	if as, err := p.Anchors(&right); err != nil || len(as) != 1 || as[0].Pos != 1 ||
		as[0].Acts[0].Ctx != 1 {
		t.Errorf("a right one: %+v, %v", as, err)
	}
}

func departure(w prog.Where, a prog.Action) prog.Departure {
	return prog.Departure{Pos: prog.Pos{Line: 5, Col: 1}, Where: w, Kind: prog.KEnd, Field: "-",
		N: 1, Actions: []prog.Action{a}}
}

// TestRepair: on a subject without a block of its own the first block is repaired,
// with the number of departures that did not apply; one that applies works.
func TestRepair(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	text := inBlock("sched subject=slab-locked\n" +
		"at alloc(a) cmpxchg cpu_slab.freelist 1: irq0\nat alloc(w) lock no.lock 1: irq0\n" +
		"at alloc(b) end - 1: cpu0\n")
	out, err := r.Judge(named(t, text), subject(t, "slub-2008-cmpxchg"), oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if out.Repaired != 2 || out.Runs != 2 || out.Finding == nil || out.Expected != "" ||
		out.Sched == nil {
		t.Errorf("repaired %d, runs %d, finding %v, want 2 left out, 2 runs and the bug",
			out.Repaired,
			out.Runs, out.Finding)
	}
	if out.Known() || out.Missing() {
		t.Error("a bug that no block expects is known or missing")
	}
}

// TestModes: what each mode makes of departures that fit and do not.
func TestModes(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-cmpxchg")
	p := named(t, inBlock("sched subject=slub-2008-cmpxchg\n"+
		"at alloc(a) lock no.lock 1: irq0\nat alloc(w) cmpxchg no.field 1: cpu0\n"))
	anchors, err := p.Anchors(&p.Prog.Scheds[0])
	if err != nil {
		t.Fatal(err)
	}
	opt := oracle.Options{}
	order := place(r.Run(p, v, opt), "alloc(x)")
	for _, row := range []struct {
		mode   sched.Mode
		unused int
		moved  bool
	}{{sched.Strict, 2, false}, {sched.Repair, 2, false}, {sched.Lenient, 1, true}} {
		replay := sched.NewReplay(row.mode, anchors)
		opt.Chooser = replay
		for range 2 { // a replay can be used again
			got := place(r.Run(p, v, opt), "alloc(x)")
			if (got != order) != row.moved || len(replay.Unused()) != row.unused {
				t.Errorf("mode %d: the handler at %d, in line order at %d, %d unused", row.mode,
					got, order,
					len(replay.Unused()))
			}
		}
	}
}

// place is where in the transcript a line is.
func place(res *oracle.Result, ref string) int {
	for i := range res.Events {
		l := res.Program.Lines[res.Events[i].Op].Src
		if l.Verb.String()+"("+l.Key()+")" == ref {
			return i
		}
	}
	return -1
}

// TestScheduleText: what a run recorded is the text that made it, for lines in
// repeats and handlers, several actions at one point, moves, failures and handlers
// that are left out.
func TestScheduleText(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-seq")
	const block = `sched subject=slub-2008-seq
at alloc(a)[2][1] end - 1: irq0
at irq0/alloc(x) end - 1: irq0.late
at free(a)[2][2] end - 1: move cpu1, t2
at alloc(p) pagealloc zone.pages 1: fail
at free(q) end - 1: none
`
	p := named(t, `allocfuzz 1
machine cpus=2 preempt=full
cache c objects=2 size=64
cache d objects=2 size=64
task t1 cpu=0
task t2 cpu=0

t1 repeat 2 {
	t1 repeat 2 {
		t1 a = alloc c
		t1 free c a
	}
}
t2 p = alloc d
t2 q = alloc d
t2 free d q
irq0 x = alloc c
irq0.late y = alloc c
irq1 z = alloc c

`+block)
	anchors, err := p.Anchors(&p.Prog.Scheds[0])
	if err != nil {
		t.Fatal(err)
	}
	replay := sched.NewReplay(sched.Strict, anchors)
	res := r.Run(p, v, oracle.Options{Chooser: replay, Record: true})
	if n := len(replay.Unused()); n > 0 || len(res.Faults) > 0 {
		t.Fatalf("%d unused, first %+v, faults %v", n, *replay.Unused()[0], res.Faults)
	}
	q := *p.Prog
	q.Scheds = []prog.Sched{p.Schedule(v.Name, r.Recorded())}
	text := string(prog.Format(&q))
	got := strings.Split(strings.TrimSpace(text[strings.Index(text, "sched"):]), "\n")
	want := strings.Split(strings.TrimSpace(block), "\n")
	for _, line := range want {
		found := false
		for _, g := range got {
			found = found || g == line
		}
		if !found {
			t.Errorf("%s\nis not in what was recorded:\n%s", line, strings.Join(got, "\n"))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d lines, want %d", len(got), len(want))
	}
}

// TestPoints: the points of a run, under a block and without.
func TestPoints(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := named(t, inBlock("sched subject=slub-2008-cmpxchg\n"+
		"at alloc(a) cmpxchg cpu_slab.freelist 1: irq0\n"))
	v := subject(t, "slub-2008-cmpxchg")
	var nested [2]int
	for i, block := range []*prog.Sched{nil, &p.Prog.Scheds[0]} {
		res, err := r.Points(p, v, block, oracle.Options{})
		if err != nil {
			t.Fatal(err)
		}
		seen := map[string]bool{}
		for _, e := range res.Trace {
			seen[fmt.Sprintf("%s %s", e.Kind, e.Field.Name())] = true
			if e.Depth > 0 && e.Where.Task == "irq0" {
				nested[i]++
			}
		}
		if !seen["cmpxchg cpu_slab.freelist"] || !seen["end -"] {
			t.Errorf("points %v", seen)
		}
	}
	if nested[1] == 0 {
		t.Errorf("points inside the handler: %d in line order, %d under the block", nested[0],
			nested[1])
	}
	bad := prog.Sched{Departures: []prog.Departure{departure(prog.Where{Ref: prog.LineRef{
		Label: "nowhere"}}, prog.Action{Kind: prog.None})}}
	if _, err := r.Points(p, v, &bad, oracle.Options{}); err == nil {
		t.Error("a departure at no line: no error")
	}
}
