package explore_test

import (
	"errors"
	"testing"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
)

// This file tests how searches end before they are done.

// TestOrdersRefuse: what a search of all orders does not know it does not search.
func TestOrdersRefuse(t *testing.T) {
	call := grid(2, 1)
	call.tasks[0].lines = []func(*th){func(h *th) { h.CallOn(1, func(*machine.Ctx) {}) }}
	section := grid(2, 1)
	section.tasks[1].lines = []func(*th){func(h *th) {
		h.RCUReadLock()
		h.RCUReadUnlock()
	}}
	real := grid(2, 1)
	real.preempt = machine.PreemptRT
	for _, k := range []struct {
		y    *toy
		want error
	}{{call, explore.ErrCalls}, {section, explore.ErrSections}, {real, explore.ErrRealTime},
		{grid(2, 1), nil}} {
		for _, r := range []explore.Reduction{explore.Naive, explore.SleepSets, explore.Optimal} {
			d := explore.Orders{Reduction: r}
			sum, err := d.Explore(k.y, func(*explore.Run, bool) bool { return true })
			if !errors.Is(err, k.want) || sum.Done != (k.want == nil) {
				t.Errorf("%s: %v, done: %v, want %v", r, err, sum.Done, k.want)
			}
		}
		k.y.close()
	}
}

// A fickle body is another one from its second run on.
type fickle struct {
	first, then *toy
	runs        int
}

func (f *fickle) Run(ch machine.Chooser) explore.Run {
	if f.runs++; f.runs == 1 {
		return f.first.Run(ch)
	}
	return f.then.Run(ch)
}

// halts is a number of stores for tasks that end the run.
const halts = -1

// newFickle has tasks of 3 stores, then of n.
func newFickle(t *testing.T, n int) *fickle {
	f := &fickle{first: grid(2, 3), then: grid(2, n)}
	if n == halts {
		f.then.tasks[0].lines = []func(*th){func(h *th) { h.Halt() }}
	}
	t.Cleanup(f.first.close)
	t.Cleanup(f.then.close)
	return f
}

// TestNotDeterministic: searches see that the same decisions gave another run.
func TestNotDeterministic(t *testing.T) {
	each := func(*explore.Run, []explore.Departure) bool { return true }
	s := explore.Bounded{Check: 1}
	_, err := s.Explore(newFickle(t, 1), explore.Unit{}, 0, each)
	if !errors.Is(err, explore.ErrNotDeterministic) {
		t.Errorf("a bounded search that checks: %v", err)
	}
	// A departure that is not possible any more is seen without a check.
	s = explore.Bounded{Bounds: explore.Bounds{Preemptions: 1}}
	_, err = s.Explore(newFickle(t, 1), explore.Unit{Left: s.Bounds}, 1, each)
	if !errors.Is(err, explore.ErrNotDeterministic) {
		t.Errorf("a bounded search: %v", err)
	}
	for n := range 3 {
		d := explore.Orders{Reduction: explore.Reduction(n)}
		for stores := halts; stores < 2; stores++ {
			_, err := d.Explore(newFickle(t, stores),
				func(*explore.Run, bool) bool { return true })
			if !errors.Is(err, explore.ErrNotDeterministic) {
				t.Errorf("orders, %s, %d stores: %v", d.Reduction, stores, err)
			}
		}
	}
}

// TestOrdersStop: a search ends at its maximum and when it is told to, and is not done then.
func TestOrdersStop(t *testing.T) {
	y := grid(2, 3)
	defer y.close()
	for _, k := range []struct {
		most, stop int // stop is the run from which on each says false, 0 for none
		runs       int
		done       bool
	}{{0, 0, 20, true}, {7, 0, 7, false}, {20, 0, 20, true}, {0, 5, 5, false}, {4, 6, 4, false},
		{21, 0, 20, true}} {
		d := explore.Orders{Reduction: explore.Optimal, Max: k.most}
		calls := 0
		sum, err := d.Explore(y, func(*explore.Run, bool) bool {
			calls++
			return calls != k.stop
		})
		if err != nil || sum.Runs != k.runs || calls != k.runs || sum.Done != k.done {
			t.Errorf("%+v: %d calls, %+v, %v", k, calls, sum, err)
		}
	}
}

// TestMovesStop: the same of a search with migrations, which is many searches.
func TestMovesStop(t *testing.T) {
	y := moving(grid(2, 1), machine.PreemptFull)
	defer y.close()
	all := explore.Orders{Reduction: explore.Optimal, Moves: 1}
	sum, err := all.Explore(y, func(*explore.Run, bool) bool { return true })
	if err != nil || !sum.Done || sum.Runs < 8 || sum.Complete+sum.Idle+sum.Redundant != sum.Runs {
		t.Fatalf("%+v, %v", sum, err)
	}
	for most := 1; most < sum.Runs; most++ {
		d := explore.Orders{Reduction: explore.Optimal, Moves: 1, Max: most}
		got, err := d.Explore(y, func(*explore.Run, bool) bool { return true })
		if err != nil || got.Done || got.Runs != most {
			t.Errorf("at most %d runs of %d: %+v, %v", most, sum.Runs, got, err)
		}
		calls := 0
		d.Max = 0
		got, err = d.Explore(y, func(*explore.Run, bool) bool { calls++; return calls < most })
		if err != nil || got.Done || got.Runs != most {
			t.Errorf("stopped at %d runs of %d: %+v, %v", most, sum.Runs, got, err)
		}
	}
}

// TestBoundedStop: a bounded search ends when it is told to.
func TestBoundedStop(t *testing.T) {
	y := grid(2, 3)
	defer y.close()
	for stop := 1; stop < twoTasks(3, 2); stop++ {
		s := explore.Bounded{Bounds: explore.Bounds{Preemptions: 2}}
		calls := 0
		more, err := s.Explore(y, explore.Unit{Left: s.Bounds}, 2,
			func(*explore.Run, []explore.Departure) bool {
				calls++
				return calls < stop
			})
		if err != nil || more || calls != stop {
			t.Errorf("told to stop at %d: %d calls, more: %v, %v", stop, calls, more, err)
		}
	}
}
