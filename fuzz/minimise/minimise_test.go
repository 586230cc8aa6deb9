package minimise_test

import (
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/fuzz/minimise/padded"
	"allocfuzz/impls/all"
)

// TestRegress pads every committed bug with what it does not need, on each of its subjects, and
// demands it back.
func TestRegress(t *testing.T) {
	pad := padded.Size{Lines: 40, Departures: 8}
	if testing.Short() {
		pad = padded.Size{Lines: 15, Departures: 3}
	}
	for f := range corpus.Regress() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Scheds {
			v, ok := all.Lookup(p.Scheds[i].Subject)
			if !ok || p.Scheds[i].Bug == "" {
				continue
			}
			trial, err := padded.Back(t.Context(), p, v, pad)
			if err != nil {
				t.Errorf("%s on %s: %v", f.Name, v.Name, err)
				continue
			}
			res := trial.Result
			t.Logf("%s on %s: %s; %d tries, %d cached, %v", f.Name, v.Name, res.Removed(),
				res.Tries, res.Cached, res.Took)
			for _, what := range trial.Wrong {
				t.Errorf("%s on %s: %s\n%s", f.Name, v.Name, what, res.Program)
			}
		}
	}
}
