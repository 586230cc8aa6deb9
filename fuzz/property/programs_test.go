package property_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/leanovate/gopter"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/property"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// silent holds generated programs on every sound subject.
func silent(t *testing.T, opt input.GenerateOptions, n int) {
	if testing.Short() {
		n /= 5
	}
	s := fuzz.NewSession(fuzz.Sound())
	defer s.Close()
	res := property.Silent(s, property.Programs(opt)).Check(parameters(t, n))
	if !res.Passed() {
		t.Fatal(failure(res))
	}
	for i, v := range s.Subjects {
		if s.Stats.Programs[i] == 0 {
			t.Errorf("%s ran no program", v.Name)
		}
	}
}

// failure is the text of a property that does not hold: the smallest input and what was found.
func failure(res *gopter.TestResult) string {
	b := &strings.Builder{}
	b.WriteString(res.Status.String())
	for _, a := range res.Args {
		b.WriteString("\n" + a.ArgFormatted)
	}
	for _, l := range res.Labels {
		b.WriteString("\n" + l)
	}
	if res.Error != nil {
		b.WriteString("\n" + res.Error.Error())
	}
	b.Write(res.ErrorStack)
	return b.String()
}

func TestSilentSequential(t *testing.T) {
	silent(t, input.GenerateOptions{Decode: input.DecodeOptions{Sequential: true,
		Budget: 512}}, 400)
}

func TestSilentInterrupts(t *testing.T) {
	silent(t, input.GenerateOptions{Decode: input.DecodeOptions{Budget: 512}}, 400)
}

// TestShrinkCandidates: every candidate is a program, none is the one that it came from, and the
// program is left as it was.
func TestShrinkCandidates(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed(t)), 1))
	for range 60 {
		p := input.Generate(rng, input.GenerateOptions{Lines: 1 + rng.IntN(20)})
		was := p.String()
		n := 0
		for next := property.Shrink(p); ; n++ {
			v, ok := next()
			if !ok {
				break
			}
			q := v.(*prog.Program)
			if err := prog.Validate(q); err != nil {
				t.Fatalf("%v\n%s\nfrom\n%s", err, q, was)
			}
			if text := q.String(); text == was {
				t.Fatalf("a candidate is the program itself:\n%s", text)
			}
		}
		if p.String() != was {
			t.Fatalf("the program was changed:\n%s", property.Diff(was, p.String()))
		}
		if n == 0 && len(p.Lines) > 1 {
			t.Errorf("nothing to try for\n%s", was)
		}
	}
}

// TestShrinkEnds: whatever it starts from, a property that never holds ends at one line on the
// default machine, or one with a CPU more that the line takes out of use.
func TestShrinkEnds(t *testing.T) {
	rng := rand.New(rand.NewPCG(uint64(seed(t)), 2))
	for range 20 {
		p := input.Generate(rng, input.GenerateOptions{Lines: 20})
		small, steps := shrinkWhile(p, func(*prog.Program) bool { return true })
		if small.Lines[0].Verb == prog.Offline && small.Machine.CPUs == 2 {
			small.Machine.CPUs = 1
		}
		if steps > 1000 || small.Machine != prog.DefaultMachine() || len(small.Lines) != 1 ||
			len(small.Scheds) > 0 || len(small.Caches)+len(small.Tasks) > 1 {
			t.Fatalf("after %d steps\n%s\nfrom\n%s", steps, small, p)
		}
	}
}

// shrinkWhile takes the first candidate that fails until there is none.
func shrinkWhile(p *prog.Program, fails func(*prog.Program) bool) (*prog.Program, int) {
	for steps := 0; ; steps++ {
		next := property.Shrink(p)
		for {
			v, ok := next()
			if !ok {
				return p, steps
			}
			if q := v.(*prog.Program); fails(q) {
				p = q
				break
			}
		}
	}
}

// TestFindsBrokenByProgram: the broken allocator is found by generated programs, and the program
// shrinks to the few lines that it takes: frees, an object that stays live, and one that is not
// new.
func TestFindsBrokenByProgram(t *testing.T) {
	const frees = 2
	s := fuzz.NewSession([]*impls.Variant{twice(lookup(t, "slab-locked"), frees)})
	defer s.Close()
	opt := input.GenerateOptions{Lines: 40, Decode: input.DecodeOptions{Sequential: true}}
	res := property.Silent(s, property.Programs(opt)).Check(parameters(t, 2000))
	if res.Passed() {
		t.Fatal("objects handed out twice were not found")
	}
	p := res.Args[0].Arg.(*prog.Program)
	t.Logf("found after %d programs, %d shrinks:\n%s", res.Succeeded, res.Args[0].Shrinks, p)
	if title := string(fault.TwiceOut); len(res.Labels) == 0 ||
		!strings.Contains(res.Labels[0], title) {
		t.Errorf("not found as %q: %s", title, res.Labels)
	}
	n := 0
	p.Walk(func(*prog.Line, []int) { n++ })
	if n > 2*frees+2 {
		t.Errorf("%d lines are left, want at most %d:\n%s", n, 2*frees+2, p)
	}
}
