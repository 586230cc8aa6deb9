package fuzz

import "allocfuzz/corpus/prog"

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
