package explore_test

import (
	"fmt"
	"testing"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
)

// This file has toys whose tasks may be moved, once in a run.

// moving lets the tasks of a toy be moved, between lines or at every point.
func moving(t *toy, p machine.Preempt) *toy {
	t.name = fmt.Sprint(t.name, " moving ", p)
	t.preempt = p
	for i := range t.tasks {
		t.tasks[i].movable = true
	}
	t.want = 0
	return t
}

// inLines makes every task of a toy do what it does so many times, each in a line of its own.
func inLines(t *toy, n int) *toy {
	for i := range t.tasks {
		for range n - 1 {
			t.tasks[i].lines = append(t.tasks[i].lines, t.tasks[i].lines[0])
		}
	}
	t.name = fmt.Sprint(n, " lines of ", t.name)
	return t
}

// bystander has a task more, of so many lines, which stores a word of its own and runs where the
// first one does.
func bystander(t *toy, lines int) *toy {
	p := process{cpu: 0}
	for range lines {
		p.lines = append(p.lines, func(h *th) { h.store(9, 1) })
	}
	t.tasks = append(t.tasks, p)
	t.name = fmt.Sprint(t.name, " and a bystander of ", lines)
	return t
}

// pairs is two tasks that take two locks in one order.
func pairs() *toy {
	return threads("pairs", 0, each(2, func(h *th, _ int) {
		h.lock(0)
		h.lock(1)
		h.unlock(1)
		h.unlock(0)
	})...)
}

// busy is two tasks of one CPU, one of which may be moved to where another task is in the middle
// of its line, and begin its next line in its place.
func busy() *toy {
	store := func(h *th) { h.store(0, uint64(h.me+1)) }
	return &toy{name: "busy", cpus: 2, tasks: []process{{cpu: 0, lines: []func(*th){store, store}},
		{cpu: 0, lines: []func(*th){store}}, {cpu: 1, lines: []func(*th){store}}}}
}

// parity is a task that may be moved at a point only when the other one, which runs on its CPU,
// was there before it: whoever gives the move up must still find that order.
func parity(p machine.Preempt) *toy {
	t := &toy{name: "parity", cpus: 2, tasks: []process{
		{cpu: 0, lines: []func(*th){func(h *th) {
			if h.load(0) == 0 {
				flags := h.IRQSave()
				h.store(1, 1)
				h.IRQRestore(flags)
			}
		}, func(h *th) { h.store(2, 1) }}},
		{cpu: 0, lines: []func(*th){func(h *th) { h.store(0, 1) }}},
	}}
	return moving(t, p)
}

// TestMoves: what a search of all orders finds of programs with one migration is what there is.
func TestMoves(t *testing.T) {
	none, full := machine.PreemptNone, machine.PreemptFull
	for _, y := range []*toy{moving(grid(2, 2), none), moving(grid(2, 2), full),
		moving(inLines(grid(2, 1), 2), none), moving(inLines(grid(2, 1), 2), full),
		moving(readers(2), none), moving(readers(2), full), moving(locks(2, 1), full),
		moving(philosophers(2), none), moving(philosophers(2), full),
		moving(bystander(philosophers(2), 1), none), moving(bystander(philosophers(2), 1), full),
		moving(bystander(pairs(), 2), full), moving(busy(), none), moving(busy(), full),
		moving(inLines(locks(2, 1), 2), none), moving(carter(), full), moving(stack(), none),
		moving(aba(listForms[1], 2, 1), none), moving(half(listForms[1]), full), parity(none),
		parity(full)} {
		t.Run(y.name, func(t *testing.T) {
			defer y.close()
			limit := runsMax
			if testing.Short() {
				limit = 1000
			}
			want := tryAll(y, brute{moves: 1}, limit)
			if testing.Short() && !want.done {
				t.SkipNow()
			}
			if want.err != nil || !want.done {
				t.Fatalf("brute force: %v after %d runs", want.err, want.runs)
			}
			still := tryAll(y, brute{}, limit)
			t.Logf("%d traces, %d with a migration, %d bad, %d runs", len(want.traces),
				len(want.traces)-len(still.traces), len(want.bad), want.runs)
			mustBeRight(t, y, orders{explore.Optimal, 1}, optimal, want)
			mustBeRight(t, y, orders{explore.SleepSets, 1}, onceEach, want)
			if want.runs < 1000 {
				mustBeRight(t, y, orders{explore.Naive, 1}, everyTrace, want)
			}
		})
	}
}
