package minimise_test

import (
	"math/rand/v2"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/fuzz/minimise/padded"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// TestFuzzed minimises what mutated seeds show on the unsound subjects, as fuzzing finds it.
func TestFuzzed(t *testing.T) {
	inputs, want := 1000, 50
	if testing.Short() {
		inputs, want = 200, 8
	}
	found := 0
	for _, v := range all.Variants() {
		if v.Sound {
			continue
		}
		found += fuzzed(t, v, inputs)
	}
	t.Logf("%d findings", found)
	if found < want {
		t.Errorf("%d findings, want %d or more", found, want)
	}
}

// fuzzedBack minimises a program and holds the result against what is asked of it.
func fuzzedBack(t *testing.T, p *prog.Program, v *impls.Variant, identity string) {
	t.Helper()
	res, err := minimise.Program(t.Context(), p, minimise.Bug{Subject: v, Identity: identity},
		minimise.Options{})
	if err != nil {
		t.Errorf("%s: %v in\n%s", identity, err, p)
		return
	}
	if !res.Minimal || res.Faulty > 0 || res.After.Lines > res.Before.Lines {
		t.Errorf("%s: minimal %v, %d faulty: %s; %s", identity, res.Minimal, res.Faulty,
			res.Fault, res.Removed())
	}
	r := oracle.NewRunner()
	defer r.Close()
	got, err := padded.Strictly(r, res.Program, v)
	if err != nil || got.Identity() != identity {
		t.Errorf("%s: %v, %v", identity, got, err)
	}
	d := padded.New(r, v, res.Report.Finding)
	for _, l := range d.Needless(res.Program) {
		t.Errorf("%s: needless: %s in\n%s", identity, l, res.Program)
	}
}

// fuzzed takes inputs that are mutated some times each to the targets by turns, minimises what a
// subject shows, and counts it. The program of a failure is the session's until the next input.
func fuzzed(t *testing.T, v *impls.Variant, inputs int) (found int) {
	t.Helper()
	s := fuzz.NewSession([]*impls.Variant{v})
	defer s.Close()
	rng := rand.New(rand.NewPCG(7, 9))
	pool := fuzz.Seeds(false)
	targets := []func([]byte) (*fuzz.Failure, error){s.Interrupts, s.Debugged, s.SMP}
	for i := range inputs {
		data := pool[rng.IntN(len(pool))]
		for range 1 + rng.IntN(12) {
			data = input.Mutate(rng, data, input.DecodeOptions{SMP: true})
		}
		f, err := targets[i%len(targets)](data)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			found++
			fuzzedBack(t, f.Report.Program, v, f.Report.Finding.Identity())
		}
	}
	return found
}
