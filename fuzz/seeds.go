package fuzz

import (
	"iter"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
)

// Seeds returns the inputs that a fuzz target starts from: every committed seed
// and regression that fits into bytes, each with its first schedule and once
// without. Programs with debug flags or misuse come with debug only: to other targets
// they would mean something else. Traces are far too long for an input and are replayed
// as programs.
func Seeds(debug bool) [][]byte {
	var out [][]byte
	for p := range programs() {
		if debug || !debugs(p) {
			out = append(out, encodings(p)...)
		}
	}
	return out
}

// SeedsSMP returns the inputs that FuzzSMP starts from: all that others start from, those with
// debug flags marked so that they keep them.
func SeedsSMP() [][]byte {
	var out [][]byte
	for p := range programs() {
		mark := byte(0)
		if debugs(p) {
			mark = smpDebug
		}
		for _, data := range encodings(p) {
			data[0] |= mark
			out = append(out, data)
		}
	}
	return out
}

// programs are the committed ones that may fit into an input.
func programs() iter.Seq[*prog.Program] {
	return func(yield func(*prog.Program) bool) {
		for f := range corpus.All() {
			if len(f.Text) > seedMax {
				continue
			}
			p, err := f.Program()
			if err != nil {
				continue // the tests of the corpus and corpus verify name it
			}
			if !yield(p) {
				return
			}
		}
	}
}

// encodings are the inputs that mean p, with its first schedule and without; none when
// it does not fit.
func encodings(p *prog.Program) [][]byte {
	data, err := input.Encode(p)
	if err != nil {
		return nil
	}
	out := [][]byte{data}
	if len(p.Scheds) > 0 {
		p.Scheds = nil
		if data, err = input.Encode(p); err == nil {
			out = append(out, data)
		}
	}
	return out
}

// debugs says whether a program has debug flags or misuse.
func debugs(p *prog.Program) bool {
	found := p.Machine.Debug != ""
	for i := range p.Caches {
		found = found || len(p.Caches[i].Spec.Flags) > 0
	}
	p.Walk(func(l *prog.Line, _ []int) {
		found = found || l.Spec != nil && len(l.Spec.Flags) > 0 ||
			l.Verb.Op().Class == prog.ClassMisuse
	})
	return found
}

// seedMax bounds the text of a program that could fit into an input.
const seedMax = 64 << 10
