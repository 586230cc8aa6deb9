package fuzz_test

import (
	"os"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/impls/clib"
)

func TestMain(m *testing.M) {
	clib.TakeOver()
	os.Exit(m.Run())
}

// fuzzed is the body of a fuzz test of a target.
func fuzzed(f *testing.F, target string) {
	for _, data := range fuzz.SeedsOf(target) {
		f.Add(data)
	}
	run := fuzz.Entry(target)
	f.Fuzz(func(t *testing.T, data []byte) { run(t, data) })
}

func FuzzSequential(f *testing.F) { fuzzed(f, "FuzzSequential") }

func FuzzInterrupts(f *testing.F) { fuzzed(f, "FuzzInterrupts") }

func FuzzSMP(f *testing.F) { fuzzed(f, "FuzzSMP") }

func FuzzDebug(f *testing.F) { fuzzed(f, "FuzzDebug") }

func FuzzPairs(f *testing.F) { fuzzed(f, "FuzzPairs") }

func FuzzProg(f *testing.F) { fuzzed(f, fuzz.Prog) }
