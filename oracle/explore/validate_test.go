package explore_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
)

// This file compares what explorers find with what brute force finds.

// An explorer makes runs of a program and calls each with those that it went through to their
// end. It returns how many those were, and how many runs it began in vain.
type explorer interface {
	explore(y *toy, each func(explore.Run)) (complete, redundant int, err error)
}

// A kind says what an explorer promises.
type kind int

const (
	everyTrace kind = iota // at least once
	onceEach               // exactly once
	optimal                // and nothing is begun in vain
)

// validate says what is wrong with what an explorer does on a program. want is from brute force;
// with a program that is too large for it, nil, and y.want is the number of traces.
func validate(y *toy, x explorer, k kind, want *result) (wrong []string) {
	complain := func(format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf(format, args...))
	}
	got := newResult()
	complete, redundant, err := x.explore(y, got.add)
	if err == nil {
		err = got.err
	}
	if err != nil {
		complain("error: %v", err)
		return wrong
	}
	n := y.want
	if want != nil {
		n = len(want.traces)
		compare(got, want, complain)
	}
	if len(got.traces) != n {
		complain("%d traces, want %d", len(got.traces), n)
	}
	if k >= onceEach && (complete != n || got.twice > 0) {
		complain("%d complete runs of %d traces, %d came twice", complete, n, got.twice)
	}
	if k == optimal && redundant > 0 {
		complain("%d runs were begun in vain", redundant)
	}
	if y.found && len(got.bad) == 0 {
		complain("nothing found")
	}
	if want == nil && !y.found && len(got.bad) > 0 {
		complain("%d traces were found bad", len(got.bad))
	}
	return wrong
}

// compare complains about traces that only one of two results has, and about other final states.
func compare(got, want *result, complain func(format string, args ...any)) {
	missed, extra, states, bad := 0, 0, 0, 0
	for h, s := range want.traces {
		g, ok := got.traces[h]
		switch {
		case !ok:
			missed++
		case g != s:
			states++
		}
		if ok && got.bad[h] != want.bad[h] {
			bad++
		}
	}
	for h := range got.traces {
		if _, ok := want.traces[h]; !ok {
			extra++
		}
	}
	if missed > 0 || extra > 0 || states > 0 || bad > 0 {
		complain("%d traces missed, %d that cannot be, %d with another final state, %d with "+
			"another verdict", missed, extra, states, bad)
	}
}

// mustBeRight fails the test when an explorer is wrong about a program.
func mustBeRight(t *testing.T, y *toy, x explorer, k kind, want *result) {
	t.Helper()
	if wrong := validate(y, x, k, want); len(wrong) > 0 {
		t.Errorf("%s: %T%+v: %s\n%s", y.name, x, x, strings.Join(wrong, "; "), y.text)
	}
}

// explore makes brute force an explorer, whose runs are as many as it makes.
func (x *brute) explore(y *toy, each func(explore.Run)) (complete, redundant int, err error) {
	runs, done, err := x.all(y, runsMax, each)
	if err == nil && !done {
		err = fmt.Errorf("not done after %d runs", runs)
	}
	return runs, 0, err
}

// runsMax is the number of runs from which on a program is too large for brute force.
const runsMax = 200_000

// A lame explorer is one that is wrong in one of several ways.
type lame struct {
	skip  int  // every so many runs one is left out
	twice bool // the first trace comes again
	vain  bool // a run is begun in vain
	state bool // the final state of one run is another
}

func (x lame) explore(y *toy, each func(explore.Run)) (complete, redundant int, err error) {
	seen := map[uint64]bool{}
	n := 0
	var again explore.Run
	_, _, err = (&brute{}).explore(y, func(r explore.Run) {
		if seen[r.Hash] {
			return
		}
		seen[r.Hash] = true
		n++
		if x.skip > 0 && n%x.skip == 0 {
			return
		}
		if x.state && n == 2 {
			r.State++
		}
		complete++
		each(r)
		again = r
	})
	if x.twice {
		complete++
		each(again)
	}
	if x.vain {
		redundant = 1
	}
	return complete, redundant, err
}

// orders is the search of all orders, with up to so many migrations in a run.
type orders struct {
	reduction explore.Reduction
	moves     int
}

func (x orders) explore(y *toy, each func(explore.Run)) (complete, redundant int, err error) {
	d := explore.Orders{Reduction: x.reduction, Moves: x.moves, Max: 50_000}
	sum, err := d.Explore(y, func(r *explore.Run, whole bool) bool {
		if whole {
			each(*r)
		}
		return true
	})
	switch {
	case err != nil:
	case !sum.Done:
		err = fmt.Errorf("not done after %d runs", sum.Runs)
	case sum.Unrunnable > 0:
		err = fmt.Errorf("%d sequences could not be run", sum.Unrunnable)
	}
	return sum.Complete, sum.Redundant, err
}

// layers is the bounded search, for one number of departures after the other.
type layers struct{ bounds explore.Bounds }

func (x layers) explore(y *toy, each func(explore.Run)) (complete, redundant int, err error) {
	guard := &limited{Body: y, left: 50_000}
	for total := 0; ; total++ {
		runs := 0
		s := explore.Bounded{Bounds: x.bounds}
		_, err := s.Explore(guard, explore.Unit{Left: x.bounds}, total,
			func(r *explore.Run, _ []explore.Departure) bool {
				runs++
				each(*r)
				return true
			})
		complete += runs
		if err != nil || runs == 0 {
			return complete, 0, err
		}
	}
}

// A limited body has only so many runs.
type limited struct {
	explore.Body
	left int
}

func (l *limited) Run(ch machine.Chooser) explore.Run {
	if l.left--; l.left < 0 {
		return explore.Run{Err: errors.New("too many runs")}
	}
	return l.Body.Run(ch)
}

// bounded is the search with at most n preemptions.
func bounded(n int) layers {
	return layers{explore.Bounds{Preemptions: n, Interrupts: 9}}
}

// TestValidateSees: an explorer that is wrong in any way does not pass, and brute force does.
func TestValidateSees(t *testing.T) {
	for _, y := range []*toy{grid(2, 3), aba(listForms[1], 1, 1), nested(2, 0)} {
		want := tryAll(y, brute{}, runsMax)
		mustBeRight(t, y, &brute{}, everyTrace, want)
		mustBeRight(t, y, lame{}, optimal, want)
		for _, x := range []lame{{skip: 3}, {twice: true}, {vain: true}, {state: true}} {
			if wrong := validate(y, x, optimal, want); len(wrong) == 0 {
				t.Errorf("%s: %+v passes", y.name, x)
			}
		}
		y.close()
	}
}

// unsettled are programs of which a search of all orders does not go through each trace once: a
// handler comes to an idle CPU where another one ends.
var unsettled = map[string]bool{"nested 2 none": true, "nested 2 full": true}

// TestSmall: what is known of small programs, by brute force, and by all explorers.
func TestSmall(t *testing.T) {
	for _, y := range small() {
		t.Run(y.name, func(t *testing.T) {
			defer y.close()
			limit := runsMax
			if testing.Short() {
				limit = 1000
			}
			want := tryAll(y, brute{}, limit)
			if testing.Short() && !want.done {
				t.SkipNow()
			}
			if want.err != nil || !want.done {
				t.Fatalf("brute force: %v after %d runs", want.err, want.runs)
			}
			if y.want != 0 && len(want.traces) != y.want {
				t.Errorf("%d traces, want %d", len(want.traces), y.want)
			}
			if y.found != (len(want.bad) > 0) {
				t.Errorf("%d traces are bad, some should: %v", len(want.bad), y.found)
			}
			t.Logf("%d traces, %d bad, %d runs", len(want.traces), len(want.bad), want.runs)
			if !unsettled[y.name] {
				// With a CPU that is idle sleep sets repeat what is around a handler's end there.
				if y.cpus == 1 || len(y.handlers) == 0 {
					mustBeRight(t, y, orders{reduction: explore.SleepSets}, onceEach, want)
				}
				mustBeRight(t, y, orders{reduction: explore.Optimal}, optimal, want)
			}
			if want.runs < 1000 {
				mustBeRight(t, y, orders{reduction: explore.Naive}, everyTrace, want)
			}
			y.found = false // perhaps with more preemptions
			for n := range 3 {
				mustBeRight(t, y, bounded(n), everyTrace, want.within(n))
			}
		})
	}
}

// TestSpin: a context that spins for a lock does nothing that it does not do when it waits in
// front of it.
func TestSpin(t *testing.T) {
	ys := []*toy{locks(2, 3), twostage(), lazy(), account(), stack(), philosophers(2), carter()}
	for _, y := range ys {
		want := tryAll(y, brute{}, runsMax)
		mustBeRight(t, y, &brute{spin: true}, everyTrace, want)
		y.close()
	}
}

// TestLarge: programs that only a search without repetitions can do.
func TestLarge(t *testing.T) {
	for _, y := range large() {
		if testing.Short() && y.want > 300 {
			continue
		}
		t.Run(y.name, func(t *testing.T) {
			defer y.close()
			mustBeRight(t, y, orders{reduction: explore.Optimal}, optimal, nil)
		})
	}
}

// TestABA: the list with interrupts on both CPUs, which has as many traces as its halves make.
func TestABA(t *testing.T) {
	for _, f := range listForms {
		if testing.Short() {
			continue
		}
		looks, other, y := aba(f, 2, 1), half(f), aba(f, 2, 2)
		a, b := tryAll(looks, brute{}, runsMax), tryAll(other, brute{}, runsMax)
		if !a.done || !b.done {
			t.Errorf("%s: %d and %d runs are not enough", y.name, a.runs, b.runs)
		}
		y.want = len(a.traces) * len(b.traces)
		t.Logf("%s: %d · %d = %d traces", y.name, len(a.traces), len(b.traces), y.want)
		mustBeRight(t, y, orders{reduction: explore.Optimal}, optimal, nil)
		looks.close()
		other.close()
		y.close()
	}
}

// TestGenerated: programs by chance.
func TestGenerated(t *testing.T) { generated(t, 300, 3000, false) }

// TestGeneratedMoves: the same with a migration.
func TestGeneratedMoves(t *testing.T) { generated(t, 300, 1500, true) }

// generated compares explorers with brute force on so many programs that it can do in so many
// runs, all or those with migrations only.
func generated(t *testing.T, programs, limit int, moving bool) {
	if testing.Short() {
		programs = 20
	}
	var all []mix
	runs, traces, large, again := 0, 0, 0, 0
	for seed := uint64(1); len(all) < programs; seed++ {
		y, moves, m := generate(seed)
		if moving && moves == 0 {
			continue
		}
		want := tryAll(y, brute{moves: moves}, limit)
		if want.err != nil {
			t.Errorf("%s: brute force: %v\n%s", y.name, want.err, y.text)
		}
		if !want.done {
			large++
			y.close()
			continue
		}
		all = append(all, m)
		runs, traces = runs+want.runs, traces+len(want.traces)
		x := orders{reduction: explore.Optimal, moves: moves}
		if !m.nest {
			mustBeRight(t, y, x, optimal, want)
		} else if len(validate(y, x, optimal, want)) > 0 {
			again++
		}
		if moves == 0 && want.runs < 100 {
			mustBeRight(t, y, bounded(1), everyTrace, want.within(1))
			mustBeRight(t, y, bounded(2), everyTrace, want.within(2))
		}
		y.close()
	}
	logMix(t, all)
	t.Logf("%d runs, %d traces; %d programs were too large; in %d with handlers that may nest a "+
		"search of all orders does not make each trace once", runs, traces, large, again)
}

// logMix says what programs there were.
func logMix(t *testing.T, all []mix) {
	t.Helper()
	count := func(what string, has func(m mix) bool) {
		n := 0
		for _, m := range all {
			if has(m) {
				n++
			}
		}
		t.Logf("%d of %d programs with %s", n, len(all), what)
		if n == 0 && !testing.Short() {
			t.Errorf("no program with %s", what)
		}
	}
	count("preemption", func(m mix) bool { return m.full })
	count("tasks that share a CPU", func(m mix) bool { return m.shared })
	count("3 tasks", func(m mix) bool { return m.tasks == 3 })
	count("tasks of several lines", func(m mix) bool { return m.lines > m.tasks+m.handlers })
	count("interrupts", func(m mix) bool { return m.handlers > 0 })
	count("handlers that may nest", func(m mix) bool { return m.nest })
	count("locks", func(m mix) bool { return m.locks })
	count("migration", func(m mix) bool { return m.moves > 0 })
	count("migration and interrupts", func(m mix) bool { return m.moves > 0 && m.handlers > 0 })
	cpus := slices.MaxFunc(all, func(a, b mix) int { return a.cpus - b.cpus }).cpus
	t.Logf("up to %d CPUs", cpus)
}
