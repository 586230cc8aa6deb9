package fuzz_test

import (
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/fuzz"
)

func FuzzSequential(f *testing.F) {
	for _, data := range fuzz.Seeds(false) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzz.FuzzSequential.Run(t, data) })
}

func FuzzInterrupts(f *testing.F) {
	for _, data := range fuzz.Seeds(false) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzz.FuzzInterrupts.Run(t, data) })
}

func FuzzSMP(f *testing.F) {
	for _, data := range fuzz.SeedsSMP() {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzz.FuzzSMP.Run(t, data) })
}

func FuzzDebug(f *testing.F) {
	for _, data := range fuzz.Seeds(true) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzz.FuzzDebug.Run(t, data) })
}

func FuzzPairs(f *testing.F) {
	for _, data := range fuzz.Seeds(true) {
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) { fuzz.FuzzPairs.Run(t, data) })
}

// FuzzProg: any text is parsed or refused with a place; what parses prints to a
// text that parses to the same, and prints the same again.
func FuzzProg(f *testing.F) {
	for file := range corpus.All() {
		if len(file.Text) < 16<<10 {
			f.Add(file.Text)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte) { fuzz.FuzzProg(t, text) })
}
