package fuzz_test

import (
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls/machine"
)

// TestFields: an input can spell every point of every subject. A field that is
// missing from the table costs its schedules their place in the corpus of bytes.
func TestFields(t *testing.T) {
	for _, f := range machine.Fields() {
		if f.Class != machine.ClassGuarded && !input.HasField(f.Name()) {
			t.Errorf("%s is not in the table of fields: append it", f.Name())
		}
	}
}

// TestSeedsFit: no seed and no regression is left out of the inputs in silence, but those
// with debug options for caches by name, for which bytes have no room.
func TestSeedsFit(t *testing.T) {
	for _, list := range []func(func(corpus.File) bool){corpus.Seeds(), corpus.Regress()} {
		for f := range list {
			p, err := f.Program()
			if err == nil {
				_, err = input.Encode(p)
			}
			if err != nil && !strings.Contains(err.Error(), "the debug options") {
				t.Errorf("%s: %v", f.Name, err)
			}
		}
	}
}
