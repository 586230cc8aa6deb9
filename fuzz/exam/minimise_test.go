package exam_test

import (
	"testing"

	"allocfuzz/fuzz/minimise/padded"
)

// TestMinimised runs in a binary that TestMutants built: the killer, padded with what it does not
// need, is minimised back.
func TestMinimised(t *testing.T) {
	c := mutant(t)
	trial, err := padded.Back(t.Context(), c.Killer.Prog, c.Mutant,
		padded.Size{Lines: 40, Departures: 8})
	if err != nil {
		t.Fatal(err)
	}
	res := trial.Result
	t.Logf("%s; %d tries, %d cached, %v", res.Removed(), res.Tries, res.Cached, res.Took)
	for _, what := range trial.Wrong {
		t.Errorf("%s\n%s", what, res.Program)
	}
}
