package edit_test

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/edit"
)

// text is a program in which lines hang on each other.
const text = `allocfuzz 1
machine cpus=3 preempt=full
cache c objects=2 size=64
cache e size=64
task t cpu=2

cpu0 a,b = allocbulk c
cpu0 repeat 3 {
	cpu0 x = alloc c
	cpu0 free c x
}
cpu0 free c a
irq0.h y = alloc e
cpu2 fill b
t z = alloc e
t free e z
check

sched subject=slub-2008-seq => bug "slab lost"
at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2
at irq0.h/alloc(y) end - 1: t
at alloc(z) end - 1: move cpu1
`

func parsed(t *testing.T) *prog.Program {
	t.Helper()
	p, err := prog.ParseString(text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// line finds a line by its text.
func line(t *testing.T, p *prog.Program, text string) *prog.Line {
	t.Helper()
	for _, l := range edit.Lines(p) {
		if string(prog.AppendLine(nil, l)) == text || l.Verb == prog.Repeat && text == "repeat" {
			return l
		}
	}
	t.Fatalf("no line %q", text)
	return nil
}

// TestApply: what hangs on a thing goes with it, and nothing else.
func TestApply(t *testing.T) {
	tests := []struct {
		name   string
		cut    func(t *testing.T, p *prog.Program) edit.Cut
		gone   []string // lines of the text that must go, all others stay
		become []string // lines that must come
	}{
		{"nothing", func(*testing.T, *prog.Program) edit.Cut { return edit.Cut{} }, nil, nil},
		{"a line with its users", func(t *testing.T, p *prog.Program) edit.Cut {
			return edit.Without(line(t, p, "cpu0 a,b = allocbulk c"))
		}, []string{"cpu0 a,b = allocbulk c", "cpu0 free c a", "cpu2 fill b",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"},
			[]string{"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h"}},
		{"a handler with its departures", func(t *testing.T, p *prog.Program) edit.Cut {
			return edit.Without(line(t, p, "irq0.h y = alloc e"))
		}, []string{"irq0.h y = alloc e", "at irq0.h/alloc(y) end - 1: t",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"},
			[]string{"at alloc(x)[2] load cpu_slab.freelist 1: cpu2"}},
		{"a repeat with its body", func(t *testing.T, p *prog.Program) edit.Cut {
			return edit.Without(line(t, p, "repeat"))
		}, []string{"cpu0 repeat 3 {", "\tcpu0 x = alloc c", "\tcpu0 free c x", "}",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"}, nil},
		{"a repeat opened", func(t *testing.T, p *prog.Program) edit.Cut {
			return edit.Cut{Open: line(t, p, "repeat")}
		}, []string{"cpu0 repeat 3 {", "\tcpu0 x = alloc c", "\tcpu0 free c x", "}",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"},
			[]string{"cpu0 x = alloc c", "cpu0 free c x",
				"at alloc(x) load cpu_slab.freelist 1: irq0.h, cpu2"}},
		{"the only line of a body", func(t *testing.T, p *prog.Program) edit.Cut {
			return edit.Without(line(t, p, "cpu0 x = alloc c"))
		}, []string{"cpu0 repeat 3 {", "\tcpu0 x = alloc c", "\tcpu0 free c x", "}",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"}, nil},
		{"an object of several", func(t *testing.T, p *prog.Program) edit.Cut {
			l := line(t, p, "cpu0 a,b = allocbulk c")
			return edit.Cut{Line: l, Change: func(l *prog.Line) { l.Results = l.Results[:1] }}
		}, []string{"cpu0 a,b = allocbulk c", "cpu2 fill b",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"},
			[]string{"cpu0 a = allocbulk c",
				"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h"}},
		{"a cache", func(*testing.T, *prog.Program) edit.Cut {
			return edit.Cut{Whole: func(p *prog.Program) { p.Caches = p.Caches[:1] }}
		}, []string{"cache e size=64", "irq0.h y = alloc e", "t z = alloc e", "t free e z",
			"at irq0.h/alloc(y) end - 1: t", "at alloc(z) end - 1: move cpu1",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"},
			[]string{"at alloc(x)[2] load cpu_slab.freelist 1: cpu2"}},
		{"a departure", func(*testing.T, *prog.Program) edit.Cut {
			return edit.Cut{Depart: func(n int, _ *prog.Departure) bool { return n != 1 }}
		}, []string{"at irq0.h/alloc(y) end - 1: t"}, nil},
		{"a CPU of another number", func(_ *testing.T, p *prog.Program) edit.Cut {
			return edit.CPUs(p)[0]
		}, []string{"task t cpu=2", "cpu2 fill b",
			"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu2"},
			[]string{"task t cpu=1", "cpu1 fill b",
				"at alloc(x)[2] load cpu_slab.freelist 1: irq0.h, cpu1"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := parsed(t)
			k := tt.cut(t, p)
			q := k.Apply(p)
			if q == nil {
				t.Fatal("no program")
			}
			if p.String() != text {
				t.Errorf("the program itself was changed:\n%s", p)
			}
			var want []string
			for l := range strings.Lines(text) {
				if l = strings.TrimSuffix(l, "\n"); !slices.Contains(tt.gone, l) {
					want = append(want, l)
				}
			}
			got := strings.Split(q.String(), "\n")
			want = append(want, tt.become...)
			slices.Sort(want)
			slices.Sort(got)
			blank := func(l string) bool { return l == "" }
			if !slices.Equal(slices.DeleteFunc(got, blank), slices.DeleteFunc(want, blank)) {
				t.Errorf("got\n%s", q)
			}
		})
	}
}

// TestInvalid: what would be no program is none.
func TestInvalid(t *testing.T) {
	for name, k := range map[string]func(p *prog.Program) edit.Cut{
		"a task that is not declared": func(*prog.Program) edit.Cut {
			return edit.Cut{Whole: func(p *prog.Program) { p.Tasks = nil }}
		},
		"fewer CPUs than are used": func(*prog.Program) edit.Cut {
			return edit.Cut{Whole: func(p *prog.Program) { p.Machine.CPUs = 1 }}
		},
	} {
		p := parsed(t)
		cut := k(p)
		if q := cut.Apply(p); q != nil {
			t.Errorf("%s: got\n%s", name, q)
		}
	}
}

// TestComesRound: a line may use what a later line of the same repeat binds, as the parser says.
func TestComesRound(t *testing.T) {
	p, err := prog.ParseString("allocfuzz 1\ncache c size=64\n" +
		"cpu0 repeat 2 {\n\tcpu0 free c a\n\tcpu0 a = alloc c\n}\ncpu0 drain\n")
	if err != nil {
		t.Fatal(err)
	}
	k := edit.Without(&p.Lines[1])
	if q := k.Apply(p); q == nil || len(edit.Lines(q)) != 3 {
		t.Errorf("got\n%s", q)
	}
}

// TestSmaller: no cut of any list makes more of a program, each gives a valid one or none, and
// again and again they come to an end.
func TestSmaller(t *testing.T) {
	lists := map[string]func(*prog.Program) []edit.Cut{"parts": edit.Parts,
		"contexts": edit.Contexts, "departures": edit.Departures, "options": edit.Options,
		"declarations": edit.Declarations, "machine": edit.Machine, "plain": edit.Plain,
		"cpus": edit.CPUs}
	//tidy:maporder each list is tried by itself
	for name, list := range lists {
		made := 0
		for f := range corpus.Seeds() {
			p, err := f.Program()
			if err != nil {
				t.Fatal(err)
			}
			for _, k := range list(p) {
				q := k.Apply(p)
				if q == nil {
					continue
				}
				made++
				if err := prog.Validate(q); err != nil {
					t.Fatalf("%s: %s: %v", f.Name, name, err)
				}
				if len(edit.Lines(q)) > len(edit.Lines(p)) {
					t.Errorf("%s: %s: more lines:\n%s", f.Name, name, q)
				}
			}
		}
		if made == 0 && name != "departures" {
			t.Errorf("%s: no cut of the seeds", name)
		}
	}
}
