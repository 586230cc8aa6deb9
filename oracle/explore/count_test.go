package explore_test

import (
	"testing"

	"allocfuzz/oracle/explore"
)

// This file counts schedules by their preemptions. On a grid the task of the first line begins,
// and every other one begins its line with a step of its own; so with k stores a task has k
// more places than blocks at which it can be left.

// choose is n over k.
func choose(n, k int) int {
	out := 1
	for i := range k {
		out = out * (n - i) / (i + 1)
	}
	return out
}

// twoTasks is the number of schedules of two tasks of k stores each with exactly c preemptions:
// c+2 blocks in turn, where every block but the last of each task ends by a preemption.
func twoTasks(k, c int) int {
	first := (c + 3) / 2
	return choose(k, first-1) * choose(k, c+2-first-1)
}

// A ways counts schedules of tasks with so many steps left, by number of preemptions.
type ways struct {
	left  [4]int
	cur   int
	fresh bool // the one that runs made a step, or it is the beginning
}

// exactly is the number of schedules with exactly c preemptions more.
func (w ways) exactly(c int) int {
	if w.left == [4]int{} {
		if c == 0 {
			return 1
		}
		return 0
	}
	n := 0
	if w.left[w.cur] > 0 {
		v := w
		v.left[w.cur]--
		v.fresh = true
		n += v.exactly(c)
		c-- // to leave it
	}
	for i := range w.left {
		if w.fresh && i != w.cur && w.left[i] > 0 && c >= 0 {
			v := w
			v.cur, v.fresh = i, false
			n += v.exactly(c)
		}
	}
	return n
}

// grids are tasks of k stores, the first of which has begun.
func grids(tasks, k int) (w ways) {
	for i := range tasks {
		w.left[i] = k + 1
	}
	w.left[0] = k
	w.fresh = true
	return w
}

// TestCounts: as many schedules with exactly c preemptions as there are.
func TestCounts(t *testing.T) {
	for _, k := range []int{1, 2, 4, 8} {
		if testing.Short() && k > 4 {
			continue
		}
		y := grid(2, k)
		got := tryAll(y, brute{}, runsMax)
		for c, n := range got.exact {
			if want := twoTasks(k, c); n != want || n != grids(2, k).exactly(c) {
				t.Errorf("%s: %d schedules with %d preemptions, want %d", y.name, n, c, want)
			}
		}
		if got.runs != choose(2*k+1, k) {
			t.Errorf("%s: %d schedules, want %d", y.name, got.runs, choose(2*k+1, k))
		}
		for c := range min(5, len(got.exact)) {
			if n := exactly(t, y, c); n != twoTasks(k, c) {
				t.Errorf("%s: the bounded search makes %d runs with %d preemptions, want %d",
					y.name, n, c, twoTasks(k, c))
			}
		}
		y.close()
	}
}

// TestCountsThree: the same of three tasks. There an end can be passed in two ways that are one
// schedule, by way of a task that has ended, so different orders of events are counted.
func TestCountsThree(t *testing.T) {
	y := grid(3, 2)
	defer y.close()
	x := brute{}
	seen := map[uint64]bool{}
	got := make([]int, 9)
	if _, done, err := x.all(y, runsMax, func(explore.Run) {
		if !seen[y.tracer.seq] {
			seen[y.tracer.seq] = true
			got[x.preempts]++
		}
	}); err != nil || !done {
		t.Fatal(err)
	}
	for c, n := range got {
		if want := grids(3, 2).exactly(c); n != want {
			t.Errorf("%d schedules with %d preemptions, want %d", n, c, want)
		}
	}
}

// TestBoundedCounts: the bounded search makes each schedule of three and four tasks once.
func TestBoundedCounts(t *testing.T) {
	for _, g := range []struct{ tasks, k, most int }{{3, 1, 4}, {3, 2, 6}, {3, 4, 3}, {4, 1, 5},
		{4, 2, 3}} {
		y := grid(g.tasks, g.k)
		for c := range g.most + 1 {
			want := grids(g.tasks, g.k).exactly(c)
			if n := exactly(t, y, c); n != want {
				t.Errorf("%s: %d runs with %d preemptions, want %d", y.name, n, c, want)
			}
		}
		y.close()
	}
}

// exactly is the number of runs that the bounded search makes with exactly c preemptions.
func exactly(t *testing.T, y *toy, c int) int {
	t.Helper()
	s := explore.Bounded{Bounds: explore.Bounds{Preemptions: c}}
	n := 0
	_, err := s.Explore(y, explore.Unit{Left: s.Bounds}, c,
		func(*explore.Run, []explore.Departure) bool {
			n++
			return true
		})
	if err != nil {
		t.Errorf("%s: %v", y.name, err)
	}
	return n
}
