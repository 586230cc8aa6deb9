package fuzz

import (
	"allocfuzz/corpus"
	"allocfuzz/fuzz/input"
)

// Seeds returns the inputs that a fuzz target starts from: every committed seed
// and regression that fits into bytes, each with its first schedule and once
// without. Traces are far too long for an input and are replayed as programs.
func Seeds() [][]byte {
	var out [][]byte
	for f := range corpus.All() {
		if len(f.Text) > seedMax {
			continue
		}
		p, err := f.Program()
		if err != nil {
			panic("allocfuzz: committed program: " + err.Error())
		}
		data, err := input.Encode(p)
		if err != nil {
			continue
		}
		out = append(out, data)
		if len(p.Scheds) > 0 {
			p.Scheds = nil
			if data, err = input.Encode(p); err == nil {
				out = append(out, data)
			}
		}
	}
	return out
}

// seedMax bounds the text of a program that could fit into an input.
const seedMax = 64 << 10
