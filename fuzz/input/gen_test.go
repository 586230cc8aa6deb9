package input

import (
	"bytes"
	"testing"

	"allocfuzz/corpus/prog"
)

// TestGenerate demands that a generator's state decides, and that its programs differ.
func TestGenerate(t *testing.T) {
	a, b := newRand(), newRand()
	texts := map[string]bool{}
	for range 200 {
		p := Generate(a, GenerateOptions{Lines: 20})
		if err := prog.Validate(p); err != nil {
			t.Fatal(err)
		}
		text := p.String()
		if other := Generate(b, GenerateOptions{Lines: 20}).String(); other != text {
			t.Fatalf("the same state gives\n%s\nand\n%s", text, other)
		}
		texts[text] = true
	}
	if len(texts) < 199 {
		t.Errorf("%d different programs of 200", len(texts))
	}
}

// TestGenerateOptions demands that options are kept.
func TestGenerateOptions(t *testing.T) {
	rng := newRand()
	for range 200 {
		opt := DecodeOptions{Sequential: true}
		checkOptions(t, Generate(rng, GenerateOptions{Decode: opt, Lines: 30}), opt)
	}
}

// TestMutate demands that a mutation leaves its input alone, mostly changes the program, and keeps
// the departure of a seed more often than not.
func TestMutate(t *testing.T) {
	rng := newRand()
	p := parse(t, abaText)
	data, err := Encode(p)
	if err != nil {
		t.Fatal(err)
	}
	was := bytes.Clone(data)
	kept, changed, repeats := 0, 0, 0
	for range 1000 {
		got := Mutate(rng, data)
		if !bytes.Equal(was, data) {
			t.Fatal("the input was changed")
		}
		q := Decode(got, DecodeOptions{})
		if err := prog.Validate(q); err != nil {
			t.Fatal(err)
		}
		text := q.String()
		if text != canonText(p) {
			changed++
		}
		if bytes.Contains([]byte(text), []byte("cmpxchg cpu_slab.freelist 1: irq0\n")) {
			kept++
		}
		q.Walk(func(l *prog.Line, _ []int) {
			if l.Verb == prog.Repeat && l.Ctx.IsIRQ() {
				repeats++
			}
		})
	}
	if changed < 800 || kept < 600 || repeats < 50 {
		t.Errorf("of 1000 mutants %d changed, %d kept the departure, %d repeats in handlers; "+
			"want 800, 600, 50", changed, kept, repeats)
	}
	for _, short := range [][]byte{nil, {1}, make([]byte, HeadSize+1)} {
		if err := prog.Validate(Decode(Mutate(rng, short), Everything)); err != nil {
			t.Error(err)
		}
	}
}
