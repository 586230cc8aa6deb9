package fuzz

import (
	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
)

// Prog is the name of the target whose inputs are texts of programs, not bytes that mean one. It
// has no subjects.
const Prog = "FuzzProg"

// FuzzProg holds the parser against the printer: a text is refused or parsed, and what parses
// prints to a text that parses and prints the same again.
func FuzzProg(tb TB, text []byte) {
	tb.Helper()
	p, err := prog.ParseString(string(text))
	if err != nil {
		return
	}
	once := prog.Format(p)
	q, err := prog.ParseString(string(once))
	if err != nil {
		tb.Fatalf("what was printed does not parse: %v\n%s", err, once)
		return
	}
	if twice := prog.Format(q); string(twice) != string(once) {
		tb.Fatalf("printed once\n%s\nand twice\n%s", once, twice)
	}
}

// Entry is what runs an input of a target for a fuzzing engine of whatever kind; nil when there is
// no target of the name.
func Entry(name string) func(tb TB, data []byte) {
	if name == Prog {
		return FuzzProg
	}
	if t := TargetNamed(name); t != nil {
		return t.Run
	}
	return nil
}

// progSeedMost bounds the seeds of Prog: the traces are longer.
const progSeedMost = 16 << 10

// SeedsOf are the inputs that fuzzing a target starts from, made of the committed programs, for an
// engine of whatever kind; none for a name that is no target's.
func SeedsOf(target string) (seeds [][]byte) {
	switch target {
	case FuzzSequential.Name, FuzzInterrupts.Name:
		return Seeds(false)
	case FuzzSMP.Name:
		return SeedsSMP()
	case FuzzDebug.Name, FuzzPairs.Name:
		return Seeds(true)
	case Prog:
		for file := range corpus.All() {
			if len(file.Text) < progSeedMost {
				seeds = append(seeds, file.Text)
			}
		}
	}
	return seeds
}

// Warm runs a few inputs, so that what is made once a process is no coverage of the first that one
// wants to know about.
func Warm(run func(data []byte)) {
	const most = 20
	seeds := Seeds(true)
	for _, data := range seeds[:min(most, len(seeds))] {
		run(data)
	}
}

// Entries are the names of all targets.
func Entries() []string {
	var names []string
	for _, t := range Targets() {
		names = append(names, t.Name)
	}
	return append(names, Prog)
}
