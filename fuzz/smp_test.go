package fuzz_test

import (
	"flag"
	"math/rand/v2"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls"
)

var huntSeed = flag.Uint64("hunt", 1, "seed of the random hunts")

// TestSMPFinds: mutations of the committed seeds, without their schedules and without the
// regressions, find the unsound subjects that need several CPUs, pages that run short or debug
// flags, within a number of inputs.
func TestSMPFinds(t *testing.T) {
	if testing.Short() {
		t.Skip("hunts")
	}
	const most = 300000
	for _, name := range []string{"slub-2021-partial-cmpxchg", "slub-2008-cmpxchg",
		"slub-2022-debug-racy", "page-2001-percpu-preempt"} {
		t.Run(name, func(t *testing.T) {
			subjects, err := fuzz.Select(name)
			if err != nil {
				t.Fatal(err)
			}
			pool := bareSeeds(t, strings.Contains(name, "debug"))
			if f, n := huntSMP(t, subjects, pool, most); f != nil {
				t.Logf("%d inputs: %s", n, f.Report.Finding.Identity())
				return
			}
			t.Errorf("nothing in %d inputs", most)
		})
	}
}

// huntSMP mutates inputs until one fails: half of the time a seed, else whatever had a number
// of points not seen before, as a fuzzer keeps what covers something new.
func huntSMP(t *testing.T, subjects []*impls.Variant, pool [][]byte, most int) (*fuzz.Failure,
	int) {
	t.Helper()
	s := fuzz.NewSession(subjects)
	defer s.Close()
	rng := rand.New(rand.NewPCG(*huntSeed, 7))
	given, seen := len(pool), map[uint64]bool{}
	for n := 1; n <= most; n++ {
		from := pool
		if rng.IntN(2) == 0 {
			from = pool[:given]
		}
		data := input.Mutate(rng, from[rng.IntN(len(from))], input.DecodeOptions{SMP: true})
		before := s.Stats.Points
		f, err := s.SMP(data)
		if err != nil {
			t.Fatal(err)
		}
		if f != nil {
			return f, n
		}
		if points := s.Stats.Points - before; !seen[points] && points < 500 {
			seen[points] = true
			pool = append(pool, data)
		}
	}
	return nil, most
}

// bareSeeds are the inputs of FuzzSMP that mean a seed without its schedule: those with debug
// flags or those without.
func bareSeeds(t *testing.T, debug bool) [][]byte {
	t.Helper()
	known := map[string]byte{}
	for _, data := range fuzz.SeedsSMP() {
		known[string(data[1:])] = data[0]
	}
	var out [][]byte
	for f := range corpus.Seeds() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		p.Scheds = nil
		data, err := input.Encode(p)
		if err != nil {
			continue // some have no room in bytes
		}
		first, ok := known[string(data[1:])]
		if !ok {
			t.Errorf("%s is no seed of FuzzSMP", f.Name)
		}
		if data[0] = first; debug == (first >= 0x80) {
			out = append(out, data)
		}
	}
	return out
}
