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

// TestGeneratePages demands that some programs are mostly about pages, with more free blocks given
// back than would be by chance, and that the others are not.
func TestGeneratePages(t *testing.T) {
	rng := newRand()
	about, programs := 0, 1200
	for range programs {
		pages, all := 0, 0
		Generate(rng, GenerateOptions{Lines: 30}).Walk(func(l *prog.Line, _ []int) {
			all++
			if l.Verb == prog.Pages || l.Verb == prog.PagesFree || l.Verb == prog.Drain {
				pages++
			}
		})
		if 2*pages > all {
			about++
		}
	}
	if about < programs/12 || about > programs/4 {
		t.Errorf("%d of %d programs are about pages", about, programs)
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

// TestGenerateSMP demands schedules that are full of departures of every kind, in programs of
// several tasks and handlers, and that the edits of an input without a schedule give it one.
func TestGenerateSMP(t *testing.T) {
	rng := newRand()
	opt := DecodeOptions{SMP: true}
	actions := map[prog.ActionKind]int{}
	contexts, full, programs := 0, 0, 400
	for range programs {
		p := Generate(rng, GenerateOptions{Decode: opt, Lines: 20})
		checkOptions(t, p, opt)
		seen := map[prog.Ctx]bool{}
		p.Walk(func(l *prog.Line, _ []int) { seen[l.Ctx] = true })
		contexts += len(seen)
		for i := range p.Scheds {
			n := len(p.Scheds[i].Departures)
			if n == departuresSMP {
				full++
			}
			for _, d := range p.Scheds[i].Departures {
				for _, a := range d.Actions {
					actions[a.Kind]++
				}
			}
		}
	}
	if contexts < 3*programs || full < programs/3 {
		t.Errorf("%d contexts and %d full schedules in %d programs", contexts, full, programs)
	}
	for _, k := range []prog.ActionKind{prog.Interrupt, prog.ToCPU, prog.ToTask, prog.Move,
		prog.Fail} {
		if actions[k] < programs/4 {
			t.Errorf("action %v %d times in %d programs", k, actions[k], programs)
		}
	}
	edited := 0
	for range programs {
		data := make([]byte, HeadSize+10*RecordSize)
		data[headEdits], data[headEdits+1] = byte(rng.Uint32()), 1+byte(rng.IntN(255))
		edited += len(Decode(data, opt).Scheds)
	}
	if edited < programs/2 {
		t.Errorf("%d of %d edits are departures", edited, programs)
	}
}

// TestGenerateDebug demands programs that are worth debugging: most caches have flags, one
// operation of six to ten is misuse of a victim that makes sense, and there is a validation now
// and then.
func TestGenerateDebug(t *testing.T) {
	rng := newRand()
	opt := GenerateOptions{Decode: DecodeOptions{Misuse: true, Debug: true, Sequential: true}}
	n := map[string]int{}
	for range 3000 {
		p := Generate(rng, opt)
		n["programs"]++
		if p.Machine.Debug != "" {
			n["boot"]++
		}
		for i := range p.Caches {
			n["caches"]++
			if flagsOf(p.Caches[i].Spec.Flags...)&checkedFlags != 0 {
				n["debugged"]++
			}
		}
		countMisuse(n, p)
	}
	for _, c := range []struct {
		part, of    string
		least, most int // per cent
	}{
		{"debugged", "caches", 75, 95}, {"boot", "programs", 15, 35},
		{"misuse", "operations", 10, 17}, {"validate", "operations", 2, 8},
		{"pages", "foreign", 100, 100}, {"given back", "freed", 60, 100},
		{"checked", "victims", 76, 100},
	} {
		if got := 100 * n[c.part] / max(1, n[c.of]); got < c.least || got > c.most {
			t.Errorf("%s: %d of %d %s, want %d to %d %%", c.part, n[c.part], n[c.of], c.of,
				c.least, c.most)
		}
	}
}

// countMisuse counts the operations of a sequential program and what misuse is done to.
func countMisuse(n map[string]int, p *prog.Program) {
	bound, live := map[string]*prog.Line{}, map[string]bool{}
	debugged := map[string]bool{}
	for i := range p.Caches {
		debugged[p.Caches[i].Name] = len(p.Caches[i].Spec.Flags) > 0
	}
	p.Walk(func(l *prog.Line, _ []int) {
		n["operations"]++
		switch class := l.Verb.Op().Class; {
		case l.Verb == prog.ValidateCache:
			n["validate"]++
		case class == prog.ClassFree:
			for _, s := range l.Slots {
				live[s] = false
			}
		case class == prog.ClassMisuse:
			n["misuse"]++
			if len(l.Slots) == 0 {
				return
			}
			from := bound[l.Slots[0]]
			switch l.Verb {
			case prog.FreeForeign:
				n["foreign"]++
				if from.Verb == prog.Pages {
					n["pages"]++
				}
				return
			case prog.WriteFreed, prog.FreeAgain:
				n["freed"]++
				if !live[l.Slots[0]] {
					n["given back"]++
				}
			}
			n["victims"]++
			if p.Machine.Debug != "" || debugged[from.Cache] {
				n["checked"]++
			}
		}
		for _, s := range l.Results {
			bound[s], live[s] = l, true
		}
	})
}

// TestMutateDamage demands that mutants come to misuse a program without, and to validate.
func TestMutateDamage(t *testing.T) {
	rng := newRand()
	data, err := Encode(parse(t, abaText))
	if err != nil {
		t.Fatal(err)
	}
	misuse, both := 0, 0
	for range 1000 {
		m, v := false, false
		Decode(Mutate(rng, data, Everything), Everything).Walk(func(l *prog.Line, _ []int) {
			m = m || l.Verb.Op().Class == prog.ClassMisuse
			v = v || l.Verb == prog.ValidateCache
		})
		if m {
			misuse++
		}
		if m && v {
			both++
		}
	}
	if misuse < 100 || both < 40 {
		t.Errorf("%d of 1000 mutants misuse, %d validate too, want 100 and 40", misuse, both)
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
		got := Mutate(rng, data, DecodeOptions{})
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
		if err := prog.Validate(Decode(Mutate(rng, short, Everything), Everything)); err != nil {
			t.Error(err)
		}
	}
}
