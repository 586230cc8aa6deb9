package search_test

import (
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/search"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// TestChanceCorpus: strategies by chance get through every small committed program: none switches
// to and fro for ever between a context and one that is at the end of its line.
func TestChanceCorpus(t *testing.T) {
	subjects, err := fuzz.Select("slab-2001-threelists,slub-2021-tid-partial")
	if err != nil {
		t.Fatal(err)
	}
	opt := search.Options{Parallel: 1, Shards: 1, Depth: 3, Seed: 1, Max: 40,
		Bounds: explore.Bounds{Preemptions: 2, Interrupts: 1, Deliveries: 1}}
	ran := 0
	for f := range corpus.Seeds() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		p.Scheds = nil
		c, err := oracle.Compile(p)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Text) > 4096 || c.Sequential() {
			continue
		}
		ran++
		for _, v := range subjects {
			for _, opt.Strategy = range []search.Strategy{search.PCT, search.Random} {
				if _, err := search.Run(t.Context(), c, v, opt); err != nil {
					t.Errorf("%s on %s by %s: %v", f.Name, v.Name, opt.Strategy, err)
				}
			}
		}
	}
	if ran < 50 {
		t.Errorf("%d programs", ran)
	}
}
