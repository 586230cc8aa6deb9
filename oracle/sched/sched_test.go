package sched_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

var (
	left  = machine.Atomic("sched", "left")
	right = machine.Atomic("sched", "right")
)

// A rig is a machine with two tasks of two lines and a handler, whose steps are
// written down in the order in which they happen.
type rig struct {
	m       *machine.Machine
	word    machine.Word
	log     []string
	binding sched.Binding
	handler machine.Handler
	first   bool // the handler's place is before everything
	decided []machine.Decision
}

func newRig(t *testing.T, cpus int, preempt machine.Preempt) *rig {
	t.Helper()
	cfg := machine.DefaultConfig()
	cfg.CPUs, cfg.Preempt = cpus, preempt
	r := &rig{m: machine.New(cfg)}
	t.Cleanup(r.m.Close)
	return r
}

// line is one line of context who: a load, a store, a load.
func (r *rig) line(c *machine.Ctx, who string, pos, next int) {
	c.BeginLine(pos, [2]int32{})
	for i, f := range []*machine.Field{left, right, left} {
		r.word.Init(f, -1, 0)
		r.word.Load(c)
		r.log = append(r.log, fmt.Sprintf("%s%d.%d", who, pos, i))
	}
	c.EndLine(next)
}

// run runs tasks a (lines 0, 2) and b (lines 1, 3) and handler h (line 4).
func (r *rig) run(t *testing.T, ch machine.Chooser) string {
	t.Helper()
	r.m.Reset()
	r.log = r.log[:0]
	task := func(who string, first int) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			r.line(c, who, first, first+2)
			r.line(c, who, first+2, machine.After)
		}
	}
	other := min(1, r.m.CPUs-1)
	r.handler = machine.Handler{CPU: 0, Name: "h", Pos: 4, Body: func(c *machine.Ctx) {
		r.line(c, "h", 4, machine.After)
	}}
	if r.first {
		r.handler.Pos = 0
	}
	r.m.AddHandler(&r.handler)
	r.binding = sched.Binding{Machine: r.m, Tasks: []*machine.Ctx{
		r.m.AddTask("a", 0, 0, false, task("a", 0)), r.m.AddTask("b", other, 1, true, task("b", 1)),
		nil},
		Handlers: []*machine.Handler{nil, nil, &r.handler}}
	if b, ok := ch.(sched.Binder); ok {
		b.Bind(&r.binding)
	}
	r.m.Sim().Record()
	if err := r.m.Sim().Run(ch); err != nil {
		t.Fatal(err)
	}
	r.decided = r.m.Sim().Decisions()
	if len(r.m.Faults()) > 0 {
		t.Fatal(r.m.Faults())
	}
	return strings.Join(r.log, " ")
}

const inOrder = "a0.0 a0.1 a0.2 b1.0 b1.1 b1.2 a2.0 a2.1 a2.2 b3.0 b3.1 b3.2 h4.0 h4.1 h4.2"

// at is an anchor in a task.
func at(pos int, f *machine.Field, n int, acts ...sched.Act) sched.Anchor {
	a := sched.Anchor{Pos: pos, Handler: -1, Kind: machine.KLoad, Field: f.Name(), N: n, Acts: acts}
	return a
}

func interrupt() sched.Act   { return sched.Act{Kind: machine.Interrupt, Ctx: 2} }
func to(ctx int) sched.Act   { return sched.Act{Kind: machine.SwitchTo, Ctx: ctx} }
func move(cpu int) sched.Act { return sched.Act{Kind: machine.Move, Ctx: -1, CPU: cpu} }

// TestReplayTakes: each kind of act at exactly its place.
func TestReplayTakes(t *testing.T) {
	inHandler := sched.Anchor{Pos: 4, Handler: 2, Delivery: 1, Kind: machine.KLoad,
		Field: right.Name(), N: 1, Acts: []sched.Act{to(1)}}
	for _, row := range []struct {
		name    string
		cpus    int
		anchors []sched.Anchor
		want    string
		unused  int
	}{
		{"nothing", 1, nil, inOrder, 0},
		{"interrupt", 1, []sched.Anchor{at(0, right, 1, interrupt())},
			"a0.0 h4.0 h4.1 h4.2 a0.1 a0.2 b1.0 b1.1 b1.2 a2.0 a2.1 a2.2 b3.0 b3.1 b3.2", 0},
		{"second attempt", 1, []sched.Anchor{at(0, left, 2, interrupt())},
			"a0.0 a0.1 h4.0 h4.1 h4.2 a0.2 b1.0 b1.1 b1.2 a2.0 a2.1 a2.2 b3.0 b3.1 b3.2", 0},
		{"two at one point", 2, []sched.Anchor{at(1, left, 1, interrupt(), to(0))},
			"a0.0 a0.1 a0.2 h4.0 h4.1 h4.2 a2.0 a2.1 a2.2 b1.0 b1.1 b1.2 b3.0 b3.1 b3.2", 0},
		{"in the handler", 2, []sched.Anchor{at(0, right, 1, interrupt()), inHandler},
			"a0.0 h4.0 b1.0 b1.1 b1.2 b3.0 b3.1 b3.2 h4.1 h4.2 a0.1 a0.2 a2.0 a2.1 a2.2", 0},
		{"suppress", 1, []sched.Anchor{at(0, right, 1, sched.Act{Kind: machine.Suppress, Ctx: -1})},
			strings.TrimSuffix(inOrder, " h4.0 h4.1 h4.2"), 0},
		{"no such attempt", 1, []sched.Anchor{at(0, left, 3, interrupt())}, inOrder, 1},
		{"no such line", 1, []sched.Anchor{at(7, left, 1, interrupt())}, inOrder, 1},
		{"line in a handler that is not", 1, []sched.Anchor{{Pos: 0, Handler: 2, Delivery: 1,
			Kind: machine.KLoad, Field: left.Name(), N: 1, Acts: []sched.Act{interrupt()}}},
			inOrder, 1},
		{"line of no handler", 1, []sched.Anchor{{Pos: 0, Handler: 2, Kind: machine.KLoad,
			Field: left.Name(), N: 1, Acts: []sched.Act{interrupt()}}}, inOrder, 1},
		{"another iteration", 1, []sched.Anchor{{Pos: 0, Iter: [2]int32{2}, Handler: -1,
			Kind: machine.KLoad, Field: left.Name(), N: 1, Acts: []sched.Act{interrupt()}}},
			inOrder, 1},
		{"another kind", 1, []sched.Anchor{{Pos: 0, Handler: -1, Kind: machine.KStore,
			Field: left.Name(), N: 1, Acts: []sched.Act{interrupt()}}}, inOrder, 1},
		{"to itself", 1, []sched.Anchor{at(0, left, 1, to(0))}, inOrder, 1},
		{"to a handler as a task", 1, []sched.Anchor{at(0, left, 1, to(2))}, inOrder, 1},
		{"to nobody", 1, []sched.Anchor{at(0, left, 1, to(9))}, inOrder, 1},
		{"a task as an interrupt", 1, []sched.Anchor{at(0, left, 1, sched.Act{
			Kind: machine.Interrupt, Ctx: 1})}, inOrder, 1},
		{"page failure without a request", 1, []sched.Anchor{at(0, left, 1, sched.Act{
			Kind: machine.FailPages, Ctx: -1})}, inOrder, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := newRig(t, row.cpus, machine.PreemptNone)
			replay := sched.NewReplay(sched.Strict, row.anchors)
			for range 2 {
				if got := r.run(t, replay); got != row.want {
					t.Error(cmp.Diff(row.want, got))
				}
				if got := len(replay.Unused()); got != row.unused {
					t.Errorf("%d unused, want %d", got, row.unused)
				}
			}
			if row.unused > 0 {
				return
			}
			if diff := cmp.Diff(row.anchors, sched.FromDecisions(&r.binding,
				r.decided)); diff != "" {
				t.Errorf("written down again: %s", diff)
			}
		})
	}
}

// TestReplayModes: what is not possible ends an anchor strictly; otherwise its other
// acts are taken, and it counts as not taken in full.
func TestReplayModes(t *testing.T) {
	anchors := []sched.Anchor{at(0, right, 1, to(0), interrupt()), at(2, right, 9, interrupt())}
	early := "a0.0 h4.0 h4.1 h4.2 a0.1 a0.2 b1.0 b1.1 b1.2 a2.0 a2.1 a2.2 b3.0 b3.1 b3.2"
	r := newRig(t, 1, machine.PreemptNone)
	replay := sched.NewReplay(sched.Strict, nil)
	for _, row := range []struct {
		mode sched.Mode
		want string
	}{{sched.Strict, inOrder}, {sched.Repair, early}, {sched.Lenient, early}} {
		replay.Set(row.mode, anchors)
		if row.mode == sched.Lenient {
			replay.Set(row.mode, anchors[:1])
		}
		if got := r.run(t, replay); got != row.want {
			t.Errorf("mode %d: %s", row.mode, cmp.Diff(row.want, got))
		}
		want := 2
		if row.mode == sched.Lenient {
			want = 1
		}
		if got := len(replay.Unused()); got != want {
			t.Errorf("mode %d: %d unused, want %d", row.mode, got, want)
		}
	}
	replay.Set(sched.Lenient, []sched.Anchor{at(2, right, 9, interrupt())})
	end := "a0.0 a0.1 a0.2 b1.0 b1.1 b1.2 a2.0 a2.1 a2.2 h4.0 h4.1 h4.2 b3.0 b3.1 b3.2"
	if got := r.run(t, replay); got != end || len(replay.Unused()) != 0 {
		t.Errorf("leniently at the end of the line: %s", cmp.Diff(end, got))
	}
}

// TestReplaySet: other anchors leave nothing of the ones before.
func TestReplaySet(t *testing.T) {
	r := newRig(t, 1, machine.PreemptNone)
	replay := sched.NewReplay(sched.Lenient, []sched.Anchor{at(0, right, 1, interrupt()),
		at(3, right, 1, interrupt())})
	replay.Loosen(sched.Points{})
	r.run(t, replay)
	replay.Set(sched.Lenient, []sched.Anchor{at(1, right, 1, interrupt())})
	want := "a0.0 a0.1 a0.2 b1.0 h4.0 h4.1 h4.2 b1.1 b1.2 a2.0 a2.1 a2.2 b3.0 b3.1 b3.2"
	if got := r.run(t, replay); got != want {
		t.Error(cmp.Diff(want, got))
	}
}

// TestReplayMove: a task that is moved goes on upon the other CPU.
func TestReplayMove(t *testing.T) {
	r := newRig(t, 2, machine.PreemptFull)
	replay := sched.NewReplay(sched.Strict, []sched.Anchor{at(0, right, 1, move(1))})
	r.run(t, replay)
	if n := len(replay.Unused()); n != 0 || r.binding.Tasks[0].CPUID() != 1 {
		t.Errorf("%d unused, task on CPU %d", n, r.binding.Tasks[0].CPUID())
	}
	pinned := sched.NewReplay(sched.Strict, []sched.Anchor{at(1, right, 1, move(0))})
	r.run(t, pinned)
	if n := len(pinned.Unused()); n != 1 {
		t.Errorf("a pinned task was moved: %d unused", n)
	}
}

// TestSurvey: the departures that are possible at each point, and Single takes each
// of them, once, and nothing else.
func TestSurvey(t *testing.T) {
	for _, row := range []struct {
		cpus    int
		preempt machine.Preempt
		total   int
	}{
		// The handler at the 16 points before its place, and at two ends the task goes on
		// though the line of the other one comes first.
		{1, machine.PreemptNone, 16 + 2},
		// … and a switch inside three lines.
		{1, machine.PreemptFull, 16 + 2 + 9},
		// … and the task that is not pinned moves at the end of its first line.
		{2, machine.PreemptNone, 16 + 2 + 9 + 1},
		// … at all points of two lines.
		{2, machine.PreemptFull, 16 + 2 + 9 + 7},
	} {
		t.Run(fmt.Sprintf("%d %s", row.cpus, row.preempt), func(t *testing.T) {
			r := newRig(t, row.cpus, row.preempt)
			survey := &sched.Survey{}
			if got := r.run(t, survey); got != inOrder || len(r.decided) != 0 {
				t.Fatalf("a survey departs: %s", got)
			}
			if n := len(survey.Allowed); n != 20 {
				t.Errorf("%d points, want 5 lines of 3 loads and an end", n)
			}
			single := &sched.Single{}
			seen := map[string]bool{}
			total := 0
			for point, n := range survey.Allowed {
				for which := range n {
					single.Point, single.Which = point, which
					log := r.run(t, single)
					if len(r.decided) != 1 {
						t.Fatalf("point %d, departure %d: %d decisions", point, which,
							len(r.decided))
					}
					a := fmt.Sprintf("%+v", sched.FromDecisions(&r.binding, r.decided))
					if seen[a] {
						t.Errorf("%s twice", a)
					}
					seen[a] = true
					total++
					if strings.Count(log, " ") != strings.Count(inOrder, " ") {
						t.Errorf("not every line ran: %s", log)
					}
				}
				single.Point, single.Which = point, n
				if r.run(t, single); len(r.decided) != 0 {
					t.Errorf("point %d: a departure more than the survey says", point)
				}
			}
			if total != row.total {
				t.Errorf("%d departures, want %d", total, row.total)
			}
		})
	}
}

// TestSurveyDelivered: a handler that was delivered is not offered again.
func TestSurveyDelivered(t *testing.T) {
	r := newRig(t, 1, machine.PreemptNone)
	r.first = true
	survey := &sched.Survey{}
	r.run(t, survey)
	total := 0
	for _, n := range survey.Allowed {
		total += n
	}
	if total != 3 || len(survey.Allowed) != 20 {
		t.Errorf("%d departures at %d points, want the other task behind the handler, and a "+
			"task that goes on at two ends", total,
			len(survey.Allowed))
	}
}

// TestRandom: a seed is a schedule, two seeds are two, and what was taken can be
// replayed.
func TestRandom(t *testing.T) {
	r := newRig(t, 2, machine.PreemptFull)
	logs := map[string]bool{}
	for seed := uint64(1); seed <= 200; seed++ {
		random := &sched.Random{Seed: seed, Every: 4}
		log := r.run(t, random)
		hash := r.m.Sim().Hash()
		anchors := sched.FromDecisions(&r.binding, r.decided)
		if again := r.run(t, random); again != log || r.m.Sim().Hash() != hash {
			t.Fatalf("seed %d: %s", seed, cmp.Diff(log, again))
		}
		replay := sched.NewReplay(sched.Strict, anchors)
		if again := r.run(t, replay); again != log || r.m.Sim().Hash() != hash ||
			len(replay.Unused()) > 0 {
			t.Fatalf("seed %d replayed, %d unused: %s", seed, len(replay.Unused()),
				cmp.Diff(log, again))
		}
		logs[log] = true
	}
	if len(logs) < 50 {
		t.Errorf("%d different runs of 200 seeds", len(logs))
	}
}
