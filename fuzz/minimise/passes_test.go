package minimise

import (
	"context"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/edit"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// needing is a probe that finds something in a program with all of some texts, at the last line
// that has the first of them.
func needing(texts ...string) func(context.Context, *prog.Program) (*oracle.Finding, error) {
	return func(_ context.Context, p *prog.Program) (*oracle.Finding, error) {
		text := p.String()
		if slices.ContainsFunc(texts, func(s string) bool { return !strings.Contains(text, s) }) {
			return nil, nil
		}
		at := -1
		for i, l := range edit.Lines(p) {
			if strings.Contains(string(prog.AppendLine(nil, l)), texts[0]) {
				at = i
			}
		}
		return &oracle.Finding{Subject: "toy", Title: fault.FreeLost, Verb: "alloc",
			Fault: fault.Fault{Title: fault.FreeLost, Where: fault.Where{Line: at}}}, nil
	}
}

// TestPasses: what each pass makes of a program by itself.
func TestPasses(t *testing.T) {
	const head = "allocfuzz 1\n"
	for _, tt := range []struct {
		pass, text string
		needs      []string
		want       string
	}{
		{"plain", "cpu0 a = malloc 8 => ok ; addr=0x40\n@here cpu0 free a => ok\n",
			[]string{"free a => ok"}, "cpu0 a = malloc 8\ncpu0 free a => ok\n"},
		{"tail", "cpu0 a = malloc 8\ncpu0 free a\ncpu0 b = malloc 9\ncpu1 d = malloc 9\ncheck\n",
			[]string{"free a"}, "cpu0 a = malloc 8\ncpu0 free a\n"},
		{"tail", "cpu0 a = malloc 8\ncpu0 free a\ncpu0 b = malloc 9\ncpu1 d = malloc 9\ncheck\n",
			[]string{"free a", "check"}, "cpu0 a = malloc 8\ncpu0 free a\ncheck\n"},
		{"closure", "cpu0 a = malloc 8\ncpu0 b = malloc 9\ncpu0 free b\ncpu0 free a\n",
			[]string{"free a"}, "cpu0 a = malloc 8\ncpu0 free a\n"},
		{"closure", "cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncpu0 d = malloc 9\n" +
			"cpu0 free c a\n", []string{"free c a", "b = alloc c"},
			"cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncpu0 free c a\n"},
		{"caches", "cache c size=64\ncache e size=64\ncpu0 a = alloc c\ncpu0 b = alloc e\n" +
			"cpu0 d = malloc 9\n", []string{"a = alloc c"},
			"cache c size=64\ncache e size=64\ncpu0 a = alloc c\n"},
		{"caches", "cache c size=64\ncache e size=64\ncpu0 a = alloc c\ncpu0 b = alloc e\n" +
			"cpu0 d = malloc 9\n", []string{"a = alloc c", "malloc"},
			"cache c size=64\ncache e size=64\ncpu0 a = alloc c\ncpu0 d = malloc 9\n"},
		{"lines", "cpu0 a = malloc 8\ncpu0 b = malloc 9\ncpu0 repeat 2 {\n\tcpu0 d = malloc 7\n" +
			"\tcpu0 e = malloc 6\n}\ncpu0 free a\ncpu0 free b\n",
			[]string{"free b", "e = malloc 6"},
			"cpu0 b = malloc 9\ncpu0 repeat 2 {\n\tcpu0 e = malloc 6\n}\ncpu0 free b\n"},
		{"contexts", "cpu0 a = malloc 8\ncpu1 b = malloc 9\nirq0 d = malloc 7\nirq0 free d\n" +
			"irq1 e = malloc 8\n", []string{"b = malloc 9", "irq1 e"},
			"cpu0 b = malloc 9\nirq1 e = malloc 8\n"},
		{"options", "cache c size=64\ncpu0 a,b,d = allocbulk c fail=1\ncpu0 repeat 4 {\n" +
			"\tcpu0 e = create align=16 ctor=on size=9\n}\n",
			[]string{"b,d = allocbulk c", "ctor=on"},
			"cache c size=64\ncpu0 b,d = allocbulk c\ncpu0 e = create ctor=on size=9\n"},
		{"departures", "cpu0 a = malloc 8\ncpu1 b = malloc 9\nirq0 free a\n\nsched subject=toy\n" +
			"at malloc(a) load cpu_slab.freelist 3: irq0, cpu1\nat malloc(a) end - 1: cpu1\n" +
			"at malloc(b) end - 1: cpu0\n", []string{": irq0", "(b) end"},
			"cpu0 a = malloc 8\ncpu1 b = malloc 9\nirq0 free a\n\nsched subject=toy\n" +
				"at malloc(a) load cpu_slab.freelist 1: irq0\nat malloc(b) end - 1: cpu0\n"},
		{"departures", "cpu0 a = malloc 8\ncpu1 b = malloc 9\n\nsched subject=toy\n" +
			"at malloc(a) end - 1: cpu1\n", []string{"a"},
			"cpu0 a = malloc 8\ncpu1 b = malloc 9\n"},
		{"machine", "machine cpus=4 pages=8 preempt=full seqbits=2\ntask t cpu=3\n" +
			"cpu2 a = malloc 8\nt b = malloc 8\n", []string{"seqbits=2"},
			"machine cpus=2 seqbits=2\ntask t cpu=0\ncpu1 a = malloc 8\nt b = malloc 8\n"},
		{"declarations", "cache c align=16 flags=poison,redzone objects=3 size=64\n" +
			"cache e size=8\ncpu0 a = alloc c\n", []string{"redzone", "alloc c"},
			"cache c flags=redzone size=64\ncpu0 a = alloc c\n"},
		{"numbers", "cache c size=8\ncpu0 repeat 100 {\n\tcpu0 a = calloc 4 100\n}\n" +
			"cpu0 d = alloc c\ncpu0 tune c batch=3 limit=8\n", []string{" 4 ", "batch=3"},
			"cache c size=64\ncpu0 repeat 1 {\n\tcpu0 a = calloc 4 1\n}\ncpu0 d = alloc c\n" +
				"cpu0 tune c batch=3 limit=1\n"},
	} {
		t.Log(tt.pass)
		m := begun(t, head+machineOf(tt.text)+tt.text, tt.needs)
		i := slices.IndexFunc(passes, func(p pass) bool { return p.name == tt.pass })
		passes[i].do(m)
		want := parse(t, head+machineOf(tt.want)+tt.want)
		if got := m.best.prog.String(); got != want.String() {
			t.Errorf("%s: got\n%swant\n%s", tt.pass, got, want)
		}
	}
}

// machineOf is a machine with two CPUs for a program that names none and uses them.
func machineOf(text string) string {
	if strings.Contains(text, "machine") {
		return ""
	}
	return "machine cpus=2\n"
}

func parse(t *testing.T, text string) *prog.Program {
	t.Helper()
	p, err := prog.ParseString(text)
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return p
}

// begun is a minimiser that has found what a program shows.
func begun(t *testing.T, text string, needs []string) *minimiser {
	t.Helper()
	m := &minimiser{ctx: t.Context(), bug: Bug{Subject: &impls.Variant{Name: "toy"}},
		opt: Options{Probe: needing(needs...)}, seen: map[key]bool{}}
	m.judge = m.newJudge()
	if err := m.begin(parse(t, text)); err != nil {
		t.Fatal(err)
	}
	return m
}

// TestNames: short names in the order of a reader, of which none is given twice.
func TestNames(t *testing.T) {
	m := begun(t, "allocfuzz 1\nmachine preempt=full\ncache kiste size=64\ntask lang cpu=0\n"+
		"task kurz cpu=0\nlang z1 = create size=8\nlang c = alloc kiste\nlang a = alloc z1\n"+
		"kurz free kiste c\n\nsched subject=toy\nat alloc(c) end - 1: kurz\n", []string{"free"})
	m.renamed()
	const want = "allocfuzz 1\nmachine preempt=full\ncache c size=64\ntask t cpu=0\n" +
		"task u cpu=0\nt d = create size=8\nt a = alloc c\nt b = alloc d\nu free c a\n\n" +
		"sched subject=toy\nat alloc(a) end - 1: u\n"
	if got := m.best.prog.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	names, taken := map[string]string{}, map[string]bool{"b": true}
	for i := range 60 {
		give(names, strings.Repeat("x", i+1), 'a', taken)
	}
	seen := map[string]bool{}
	for _, name := range names {
		seen[name] = true
	}
	if len(seen) != 60 || seen["b"] || !seen["a2"] {
		t.Errorf("names %v", names)
	}
}

// TestIdentity: the kind of operation is part of what stays: another one with the same title is
// another bug.
func TestIdentity(t *testing.T) {
	p := parse(t, "allocfuzz 1\ncpu0 a = malloc 10 => skipped\ncpu0 b = malloc 10\n"+
		"cpu0 free b => skipped\n")
	v := sound(t)
	res, err := Program(t.Context(), p, Bug{Subject: v}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := "allocfuzz 1\n\ncpu0 a = malloc 1 => skipped\n\nsched subject=" + v.Name +
		" => bug \"outcomes differ\"\n"
	if got := res.Program.String(); got != want {
		t.Errorf("got\n%s", got)
	}
	for _, identity := range []string{v.Name + ": outcomes differ in free", "x: hung"} {
		_, err := Program(t.Context(), p, Bug{Subject: v, Identity: identity}, Options{})
		if err == nil || !strings.Contains(err.Error(), identity) {
			t.Errorf("error %v", err)
		}
	}
}

// TestFaulty: a fault of this project is no finding: the candidate is refused, and counted.
func TestFaulty(t *testing.T) {
	needs := needing("b = malloc")
	probe := func(ctx context.Context, p *prog.Program) (*oracle.Finding, error) {
		if !strings.Contains(p.String(), "a = malloc") {
			panic("allocfuzz: on purpose")
		}
		return needs(ctx, p)
	}
	res, err := Program(t.Context(), parse(t, "allocfuzz 1\ncpu0 a = malloc 1\n"+
		"cpu0 b = malloc 1\ncpu0 d = malloc 1\n"), Bug{Subject: &impls.Variant{Name: "toy"}},
		Options{Probe: probe})
	if err != nil {
		t.Fatal(err)
	}
	if res.After.Lines != 2 || res.Faulty == 0 || res.Fault != "allocfuzz: on purpose" {
		t.Errorf("%d faulty, %q, got\n%s", res.Faulty, res.Fault, res.Program)
	}
}
