package minimise_test

import (
	"math/rand/v2"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/fuzz/minimise/padded"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// inputsMax bounds the inputs until a subject is found to be wrong.
const inputsMax = 4000

// TestFuzzed minimises what fuzzing finds on the unsound subjects, as it finds it.
func TestFuzzed(t *testing.T) {
	found := 0
	for _, v := range all.Variants() {
		if v.Sound {
			continue
		}
		f := fuzzed(t, v, inputsMax)
		if f == nil {
			continue
		}
		found++
		p, identity := f.Report.Program, f.Report.Finding.Identity()
		res, err := minimise.Program(t.Context(), p,
			minimise.Bug{Subject: v, Identity: identity}, minimise.Options{})
		if err != nil {
			t.Errorf("%s: %v in\n%s", identity, err, p)
			continue
		}
		t.Logf("%s: %s; %d tries, %v", identity, res.Removed(), res.Tries, res.Took)
		r := oracle.NewRunner()
		d := padded.New(r, v, res.Report.Finding)
		if got, err := padded.Strictly(r, res.Program, v); err != nil || got.Identity() != identity {
			t.Errorf("%s: %v, %v", identity, got, err)
		}
		for _, l := range d.Needless(res.Program) {
			t.Errorf("%s: needless: %s in\n%s", identity, l, res.Program)
		}
		r.Close()
	}
	if found < 5 {
		t.Errorf("%d subjects were found to be wrong", found)
	}
}

// fuzzed is the first failure that mutated seeds show on a subject.
func fuzzed(t *testing.T, v *impls.Variant, most int) *fuzz.Failure {
	s := fuzz.NewSession([]*impls.Variant{v})
	defer s.Close()
	rng := rand.New(rand.NewPCG(3, 4))
	pool := fuzz.Seeds(false)
	for range most {
		data := input.Mutate(rng, pool[rng.IntN(len(pool))], input.DecodeOptions{SMP: true})
		f, err := s.SMP(data)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			return f
		}
	}
	return nil
}
