package oracle_test

import (
	"fmt"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// committed parses a committed program and takes its schedules away.
func committed(tb testing.TB, name string) *oracle.Compiled {
	tb.Helper()
	for f := range corpus.All() {
		if f.Name != "corpus/"+name {
			continue
		}
		p, err := f.Program()
		if err != nil {
			tb.Fatal(err)
		}
		p.Scheds = nil
		c, err := oracle.Compile(p)
		if err != nil {
			tb.Fatal(err)
		}
		return c
	}
	tb.Fatalf("no program %s", name)
	return nil
}

// bound1 are the programs in which the two forms of the bug of the plain cmpxchg are
// one interrupt away, with what is found by the checks of steps and structure alone
// and by those of consequences alone.
var bound1 = []struct {
	file        string
	step        fault.Title
	consequence fault.Title
}{
	{"regress/slub-2008-cmpxchg-aba.prog", fault.LiveOnFreelist, fault.TwiceOut},
	{"regress/slub-2008-cmpxchg-empty-list.prog", fault.FreelistLeaves, ""},
	{"seeds/aba-interrupt.prog", fault.LiveOnFreelist, fault.TwiceOut},
	{"seeds/free-onto-empty-list.prog", fault.FreelistLeaves, ""},
}

// TestSinglesFind: one departure at every point finds both forms; the schedule that
// it gives is printed, parsed and replayed strictly, and shows the same with the
// same trace.
func TestSinglesFind(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-cmpxchg")
	all, consequences := oracle.AllChecks, oracle.AllChecks.Without(fault.Step).
		Without(fault.Structure)
	steps := oracle.Checks(1<<fault.Step | 1<<fault.Structure)
	for _, row := range bound1 {
		for _, set := range []struct {
			name   string
			checks oracle.Checks
			want   fault.Title
		}{{"all", all, row.step}, {"steps and structure", steps, row.step},
			{"consequences", consequences, row.consequence}} {
			t.Run(row.file+"/"+set.name, func(t *testing.T) {
				if set.want == "" {
					t.Skip("the consequence needs more than this program does")
				}
				p := committed(t, row.file)
				opt := oracle.Options{Checks: set.checks}
				x := r.Singles(p, v, opt)
				if x.Finding == nil || !x.Finding.Matches(string(set.want)) {
					t.Fatalf("found %+v in %d schedules, want %s", x.Finding, x.Schedules, set.want)
				}
				if x.Schedules < 5 || x.Found < 1 || x.Found == x.Schedules {
					t.Errorf("%d of %d schedules found something", x.Found, x.Schedules)
				}
				for _, f := range x.Finding.Faults {
					if e, _ := fault.Lookup(f.Title); !set.checks.On(e.Rule) {
						t.Errorf("%s, though its check is off", f)
					}
				}
				replayed(t, r, p, x, opt)
			})
		}
	}
}

// replayed writes the schedule of x into its program, prints and parses that, and
// replays it strictly.
func replayed(t *testing.T, r *oracle.Runner, p *oracle.Compiled, x *oracle.Exploration,
	opt oracle.Options) {
	t.Helper()
	anchors, err := p.Anchors(x.Sched)
	if err != nil {
		t.Fatal(err)
	}
	opt.Chooser = sched.NewReplay(sched.Strict, anchors)
	res := r.Run(p, x.Subject, opt)
	hash, steps := res.Hash, res.Steps
	q := *p.Prog
	q.Scheds = []prog.Sched{*x.Sched}
	again, err := oracle.Compile(program(t, string(prog.Format(&q))))
	if err != nil {
		t.Fatal(err)
	}
	opt.Chooser = nil
	out, err := r.Judge(again, x.Subject, opt)
	if err != nil {
		t.Fatal(err)
	}
	if !out.Known() || out.Missing() || out.Finding.Identity() != x.Finding.Identity() {
		t.Errorf("replayed: %+v, want %s", out.Finding, x.Finding.Identity())
	}
	if out.Hash != hash || out.Steps != steps || out.Hash != x.Hash {
		t.Errorf("trace %016x of %d points, want %016x of %d, found with %016x", out.Hash,
			out.Steps,
			hash, steps, x.Hash)
	}
}

// TestSinglesSilent: the sound designs show nothing under any single departure of the
// same programs and of every seed that is small.
func TestSinglesSilent(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	var files []string
	for _, row := range bound1 {
		files = append(files, row.file)
	}
	if !testing.Short() {
		for f := range corpus.Seeds() {
			files = append(files, strings.TrimPrefix(f.Name, "corpus/"))
		}
	}
	for _, name := range []string{"slub-2008-irqsave", "slub-2008-seq", "slab-locked",
		"slub-2021-partial-irqsave", "slub-2011-tid", "slub-2021-partial-irqsave-pools"} {
		v := subject(t, name)
		schedules := 0
		for _, file := range files {
			p := committed(t, file)
			if ok, _ := oracle.Applies(p, v); !ok || p.Operations() > 64 {
				continue
			}
			x := r.Singles(p, v, oracle.Options{})
			schedules += x.Schedules
			if x.Finding != nil {
				t.Errorf("%s on %s: %s under\n%s", file, name, x.Finding.Fault, schedText(p,
					x.Sched))
			}
		}
		if schedules < 30 {
			t.Errorf("%s: %d schedules", name, schedules)
		}
		t.Logf("%s: %d schedules", name, schedules)
	}
}

func schedText(p *oracle.Compiled, s *prog.Sched) string {
	q := *p.Prog
	q.Scheds = []prog.Sched{*s}
	return string(prog.Format(&q))
}

// TestSinglesCount: as many schedules as there are departures, and one: here a
// handler at every point of its CPU up to the place where it is due, and a switch
// wherever another task may run.
func TestSinglesCount(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := toySubject(toyBug{})
	for _, row := range []struct {
		text string
		want int
	}{
		{"allocfuzz 1\ncpu0 a = malloc 8\ncpu0 free a\n", 1},
		// The end of each of the lines before it; behind it the handler is delivered.
		{"allocfuzz 1\ncpu0 a = malloc 8\ncpu0 b = malloc 8\nirq0 d = malloc 8\n", 3},
		// At the end of cpu0's line cpu1's comes anyway; behind two lines cpu0 may go on.
		{"allocfuzz 1\nmachine cpus=2\ncpu0 a = malloc 8\ncpu1 b = malloc 8\n", 1},
		{"allocfuzz 1\nmachine cpus=2\ncpu0 a = malloc 8\ncpu1 b = malloc 8\n" +
			"cpu0 d = malloc 8\n", 2},
	} {
		if x := r.Singles(compile(t, row.text), v, oracle.Options{}); x.Schedules != row.want ||
			x.Finding != nil {
			t.Errorf("%d schedules, want %d, finding %v, of\n%s", x.Schedules, row.want, x.Finding,
				row.text)
		}
	}
}

// TestSinglesInLineOrder: what line order shows needs no departure.
func TestSinglesInLineOrder(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	x := r.Singles(compile(t, "allocfuzz 1\n"+twoObjects), toySubject(ownershipRules[1].bug),
		oracle.Options{})
	if x.Finding == nil || len(x.Sched.Departures) != 0 || x.Found != x.Schedules {
		t.Errorf("finding %v, schedule %+v, %d of %d", x.Finding, x.Sched, x.Found, x.Schedules)
	}
	if got, want := x.Sched.Bug, string(fault.TwiceOut); got != want {
		t.Errorf("bug %q, want %q", got, want)
	}
}

// ExampleRunner_Singles finds the bug of the plain cmpxchg.
func ExampleRunner_Singles() {
	tb := &testing.T{}
	r := oracle.NewRunner()
	defer r.Close()
	p := committed(tb, "seeds/aba-interrupt.prog")
	x := r.Singles(p, subject(tb, "slub-2008-cmpxchg"), oracle.Options{})
	fmt.Println(x.Finding.Title)
	for i := range x.Sched.Departures {
		d := x.Sched.Departures[i]
		fmt.Println(d.Kind, d.Field, d.N)
	}
	// Output:
	// object handed out twice
	// cmpxchg cpu_slab.freelist 1
}
