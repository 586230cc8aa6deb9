package explore_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// This file tests the searches that draw schedules, by numbers that are the same in every test.

// A noter is a chooser that asks another one and notes what it answers.
type noter struct {
	machine.Chooser
	b    *sched.Binding
	acts []int // at each question: the context that is to run, -1 to go on
	paid int   // departures where who ran could go on
}

func (n *noter) Bind(b *sched.Binding) {
	n.b, n.acts, n.paid = b, n.acts[:0], 0
	if inner, ok := n.Chooser.(sched.Binder); ok {
		inner.Bind(b)
	}
}

func (n *noter) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	a := n.Chooser.Choose(c, p)
	who := -1
	if a.Kind != machine.Go && !c.Stuck(p) {
		n.paid++
	}
	if a.Kind != machine.Go {
		who = n.b.Context(a.Task, a.Handler)
	}
	n.acts = append(n.acts, who)
	return a
}

// departures is how often the run did not go on.
func (n *noter) departures() int {
	return len(n.acts) - len(slices.DeleteFunc(slices.Clone(n.acts), func(who int) bool {
		return who >= 0
	}))
}

// mustRun makes a run of a toy.
func mustRun(t *testing.T, y *toy, ch machine.Chooser) explore.Run {
	t.Helper()
	r := y.Run(ch)
	if r.Err != nil {
		t.Fatalf("%s: %v", y.name, r.Err)
	}
	return r
}

// mustRepeat: a sampler's run is the same for the same number, and there are several.
func mustRepeat(t *testing.T, y *toy, s explore.Sampler, least int) {
	t.Helper()
	seen := map[uint64]bool{}
	for n := range uint64(50) {
		s.Seed(n)
		mustRun(t, y, s)
		first := y.tracer.seq
		s.Seed(n + 1)
		mustRun(t, y, s)
		s.Seed(n)
		if mustRun(t, y, s); y.tracer.seq != first {
			t.Errorf("%s: two runs of number %d", y.name, n)
		}
		seen[first] = true
	}
	if len(seen) < least {
		t.Errorf("%s: only %d runs of 50 numbers", y.name, len(seen))
	}
}

func TestWalkRepeats(t *testing.T) {
	y := aba(listForms[1], 2, 1)
	defer y.close()
	mustRepeat(t, y, &explore.Walk{Bounds: explore.Bounds{Interrupts: 1}}, 10)
}

// TestWalkUniform: each context that could take the first step does so as often as the others.
func TestWalkUniform(t *testing.T) {
	const runs, bins = 4000, 4
	y := grid(bins, 2)
	defer y.close()
	w := &explore.Walk{}
	var got [bins]int
	for n := range uint64(runs) {
		w.Seed(n)
		note := &noter{Chooser: w}
		mustRun(t, y, note)
		got[max(note.acts[0], 0)]++ // task 0 stands at its first store
	}
	x, want := 0.0, float64(runs)/bins
	for _, n := range got {
		x += (float64(n) - want) * (float64(n) - want) / want
	}
	// The 99.9 % quantile of chi-squared with 3 degrees of freedom.
	if x > 16.27 {
		t.Errorf("first steps %v: chi-squared is %.1f", got, x)
	}
}

// TestWalkBounds: interrupts are drawn as often as the bounds permit, at the most.
func TestWalkBounds(t *testing.T) {
	y := nested(2, machine.PreemptNone)
	defer y.close()
	for n := range uint64(300) {
		for most := range 3 {
			w := &explore.Walk{Bounds: explore.Bounds{Interrupts: most}}
			w.Seed(n)
			note := &noter{Chooser: w}
			mustRun(t, y, note)
			if note.departures() > most {
				t.Errorf("number %d: %v with %d interrupts", n, note.acts, most)
			}
		}
	}
}

// pctHits is how many of so many runs of PCT show the bug of a toy.
func pctHits(t *testing.T, y *toy, depth, steps, runs int) (hits int) {
	t.Helper()
	s := &explore.PCT{Depth: depth}
	s.Length(steps)
	for n := range uint64(runs) {
		s.Seed(n)
		if mustRun(t, y, s).Bad {
			hits++
		}
	}
	return hits
}

// TestPCT: a bug that needs two steps in order is found at least as often as promised, and never
// when nobody ever falls behind.
func TestPCT(t *testing.T) {
	const runs = 4000
	for _, k := range []int{1, 3, 10} {
		y := reorder(k)
		n, steps := k+1, 2*(k+1)
		hits := pctHits(t, y, 2, steps, runs)
		if hits*n*steps < runs {
			t.Errorf("%s: %d of %d runs hit, fewer than 1 of %d·%d", y.name, hits, runs, n, steps)
		}
		if hits := pctHits(t, y, 1, steps, runs); hits > 0 {
			t.Errorf("%s: %d runs hit without a change", y.name, hits)
		}
		y.close()
	}
}

// TestPCTInterrupts: the same of the ABA bug, for which a handler comes in the middle of a line.
func TestPCTInterrupts(t *testing.T) {
	y := aba(listForms[1], 1, 1)
	defer y.close()
	s := &explore.PCT{Depth: 2, Bounds: explore.Bounds{Interrupts: 1}}
	steps := int(mustRun(t, y, nil).Points)
	s.Length(steps)
	mustRepeat(t, y, s, 4)
	hits, runs := 0, 4000
	for n := range uint64(runs) {
		s.Seed(n)
		if mustRun(t, y, s).Bad {
			hits++
		}
	}
	// There is one step to fall behind at, so as many hits as promised are expected: 4 standard
	// deviations fewer are too few.
	if want := float64(runs) / float64(2*steps); float64(hits) < want-4*math.Sqrt(want) {
		t.Errorf("%d of %d runs hit, want %.0f", hits, runs, want)
	}
}

// TestBytes: every string is a schedule, the same one each time, with no more departures than it
// has pairs; without a pair it is that of the lines.
func TestBytes(t *testing.T) {
	wide := explore.Bounds{Preemptions: 99, Interrupts: 99}
	r := rand.New(rand.NewPCG(1, 2))
	for _, y := range []*toy{aba(listForms[1], 2, 1), moving(grid(2, 2), machine.PreemptFull)} {
		mustRun(t, y, nil)
		plain, taken, seen := y.tracer.seq, 0, map[uint64]bool{}
		for range 500 {
			data := make([]byte, r.IntN(20))
			for i := range data {
				data[i] = byte(r.IntN(256)) % 8
			}
			s := &explore.Bytes{Bounds: wide}
			s.Set(data)
			note := &noter{Chooser: s}
			mustRun(t, y, note)
			seq, n := y.tracer.seq, note.departures()
			if n > len(data)/2 {
				t.Errorf("%s: %d departures of %d bytes", y.name, n, len(data))
			}
			if len(data) < 2 && seq != plain {
				t.Errorf("%s: %v departs", y.name, data)
			}
			if mustRun(t, y, s); y.tracer.seq != seq {
				t.Errorf("%s: two runs of %v", y.name, data)
			}
			taken += n
			seen[seq] = true
		}
		if taken < 50 || len(seen) < 20 {
			t.Errorf("%s: %d departures, %d runs", y.name, taken, len(seen))
		}
		y.close()
	}
}

// TestBytesBounds: departures that the bounds do not permit are not taken.
func TestBytesBounds(t *testing.T) {
	y := grid(3, 3)
	defer y.close()
	for most := range 4 {
		s := &explore.Bytes{Bounds: explore.Bounds{Preemptions: most}}
		s.Set([]byte{0, 0, 1, 0, 1, 0, 1, 0, 1, 0})
		note := &noter{Chooser: s}
		if mustRun(t, y, note); note.paid != most {
			t.Errorf("%v with %d preemptions", note.acts, most)
		}
	}
}

// TestGuided: it finds the ABA bug soon, whatever number it starts from, and the same way each
// time.
func TestGuided(t *testing.T) {
	const most = 1500
	y := aba(listForms[1], 2, 1)
	defer y.close()
	found := func(seed uint64) int {
		g := explore.NewGuided(seed, explore.Bounds{Preemptions: 2, Interrupts: 1})
		for n := 1; n <= most; n++ {
			g.Next()
			if mustRun(t, y, g).Bad {
				return n
			}
		}
		return most + 1
	}
	var all []int
	for seed := range uint64(20) {
		n := found(seed)
		if all = append(all, n); n != found(seed) {
			t.Errorf("seed %d: not the same the second time", seed)
		}
	}
	t.Log(fmt.Sprint("found after ", all, " runs"))
	if slices.Min(all) == slices.Max(all) {
		t.Errorf("every seed finds it after %d runs", all[0])
	}
	if slices.Max(all) > most {
		t.Errorf("not found in %d runs: %v", most, all)
	}
}
