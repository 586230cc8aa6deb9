package pairs_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/pairs"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

func lookup(t *testing.T, name string) *impls.Variant {
	t.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		t.Fatalf("no %s", name)
	}
	return v
}

// pairOf makes a pair that is in no table.
func pairOf(t *testing.T, a, b string, view pairs.View) *pairs.Pair {
	t.Helper()
	return pairs.New(&pairs.Row{A: a, B: b, View: view}, lookup(t, a), lookup(t, b))
}

func compiled(t *testing.T, p *prog.Program) *oracle.Compiled {
	t.Helper()
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatalf("%v\n%s", err, prog.Format(p))
	}
	return c
}

// committed finds a seed by its name.
func committed(t *testing.T, name string) *oracle.Compiled {
	t.Helper()
	for f := range corpus.Seeds() {
		if f.Name == "corpus/seeds/"+name+".prog" {
			p, err := f.Program()
			if err != nil {
				t.Fatal(err)
			}
			return compiled(t, p)
		}
	}
	t.Fatalf("no seed %s", name)
	return nil
}

// TestRows: every row says what it leaves out, and has both subjects.
func TestRows(t *testing.T) {
	absent := 0
	for _, row := range pairs.Rows() {
		if row.Row == "" || row.LeftOut == "" || row.A == row.B {
			t.Errorf("%+v", row)
		}
		_, okA := all.Lookup(row.A)
		_, okB := all.Lookup(row.B)
		if !okA || !okB {
			absent++
			if row.Row != "S4b≡S4c" {
				t.Errorf("%s: no %s or no %s", row.Row, row.A, row.B)
			}
		}
	}
	if got := len(pairs.All()); got != len(pairs.Rows())-absent {
		t.Errorf("%d pairs of %d rows, %d without subjects", got, len(pairs.Rows()), absent)
	}
}

// TestSubjects: a pair is wanted when one of its subjects is, all are when none is.
func TestSubjects(t *testing.T) {
	names := func(given ...string) string {
		var in []*impls.Variant
		for _, n := range given {
			in = append(in, lookup(t, n))
		}
		var out []string
		for _, v := range pairs.Subjects(in) {
			out = append(out, v.Name)
		}
		return strings.Join(out, " ")
	}
	if got := names("slab-2001-onelist-lifo-posted", "slub-2008-seq"); got !=
		"slab-2001-onelist slab-2001-onelist-lifo-posted" {
		t.Error(got)
	}
	if got, every := names("slub-2008-seq"), names(all.Names()...); got != every ||
		!strings.Contains(got, "slab-colour-racy") {
		t.Error(got)
	}
	if n := len(pairs.Of([]*impls.Variant{lookup(t, "slab-colour-racy")})); n != 0 {
		t.Errorf("%d pairs of one subject", n)
	}
}

// A check runs programs on one pair, and counts what applied.
type check struct {
	t      *testing.T
	r      *oracle.Runner
	pair   *pairs.Pair
	runs   int
	ops    int
	left   int
	phased int // with departures
}

// run fails the test when something differs.
func (k *check) run(c *oracle.Compiled, anchors []sched.Anchor) {
	k.t.Helper()
	out, err := k.pair.Run(k.r, c, sched.Strict, anchors)
	switch {
	case err != nil:
		k.t.Fatal(err)
	case out.Left != "":
		k.left++
	case out.Fault != nil:
		k.t.Fatalf("%s: %s\n%s", c.Prog.File, out.Fault, prog.Format(c.Prog))
	default:
		k.runs++
		k.ops += out.Counts[1].Operations
		if len(anchors) > 0 {
			k.phased++
		}
	}
}

// programs is n, or less in short runs.
func programs(n int) int {
	if testing.Short() {
		return n / 5
	}
	return n
}

// each runs body for every pair of the table.
func each(t *testing.T, body func(t *testing.T, k *check)) {
	for _, p := range pairs.All() {
		t.Run(p.Row.Row, func(t *testing.T) {
			r := oracle.NewRunner()
			defer r.Close()
			body(t, &check{t: t, r: r, pair: p})
		})
	}
}

// TestPairs: what is stated to be equal is, on every seed that applies, in line order and
// under its schedules, and on generated programs of one task, debugged ones and ones with
// misuse among them.
func TestPairs(t *testing.T) {
	each(t, func(t *testing.T, k *check) {
		for f := range corpus.Seeds() {
			p, err := f.Program()
			if err != nil {
				t.Fatal(err)
			}
			c := compiled(t, p)
			k.run(c, nil)
			if block := pairs.Block(p); block != nil {
				anchors, err := c.Anchors(block)
				if err != nil {
					t.Fatal(err)
				}
				k.run(c, anchors)
			}
		}
		if k.runs < 50 {
			t.Errorf("%d seeds, %d left out", k.runs, k.left)
		}
		k.generated(programs(2000))
	})
}

// generated runs n programs of one task, half of them with debug flags, and misuse if that
// applies.
func (k *check) generated(n int) {
	rng := rand.New(rand.NewPCG(2001, 9))
	before, ops := k.runs, k.ops
	for i := range n {
		odd := i%2 == 1
		p := input.Generate(rng, input.GenerateOptions{Lines: 60, Decode: input.DecodeOptions{
			Sequential: true, Debug: odd, Misuse: odd && k.pair.Row.View == pairs.Whole}})
		k.run(compiled(k.t, p), nil)
	}
	if k.runs-before < n*9/10 || k.ops-ops < 40*(k.runs-before) {
		k.t.Errorf("%d programs of %d, %d operations", k.runs-before, n, k.ops-ops)
	}
}

// atShared departs at random, only at points that pairs may depart at.
type atShared struct{ sched.Random }

func (a *atShared) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if !pairs.Shared(p.Kind) {
		return machine.Action{}
	}
	return a.Random.Choose(c, p)
}

// TestPairsTogether: several tasks and handlers come in between at ends of operations, locks
// and interrupt operations, the same on both sides: what the first was led into the second
// can follow.
func TestPairsTogether(t *testing.T) {
	each(t, func(t *testing.T, k *check) {
		if k.pair.Row.View == pairs.Outcomes {
			t.Skip("for one task only")
		}
		rng := rand.New(rand.NewPCG(2016, 3))
		a := lookup(t, k.pair.Row.A)
		n := programs(3000)
		for range n {
			p := input.Generate(rng, input.GenerateOptions{Lines: 6 + rng.IntN(30),
				Decode: input.DecodeOptions{Budget: 256}})
			p.Scheds = nil
			c := compiled(t, p)
			if ok, _ := k.pair.Applies(c); !ok || c.Sequential() {
				continue
			}
			k.r.Run(c, a, oracle.Options{Record: true, Chooser: &atShared{
				sched.Random{Seed: rng.Uint64(), Every: 2 << rng.IntN(5)}}})
			k.run(c, k.r.Recorded())
		}
		if k.phased < n/10 || k.left*20 > k.runs {
			t.Errorf("%d programs with departures of %d, %d left out", k.phased, k.runs, k.left)
		}
	})
}

// TestEmptiedSlab: the program of the emptied slab tells the old list from its repair.
// Where the order is kept the last allocation gets the object freed last, the sixth one,
// else the one freed last of the other slab, the fourth. As mailed the repair keeps
// nothing.
func TestEmptiedSlab(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	c := committed(t, "slab-emptied-at-tail")
	for name, want := range map[string]int{
		"slab-2001-onelist":             3,
		"slab-2001-onelist-lifo":        5,
		"slab-2001-onelist-lifo-posted": 3,
		"slab-2001-threelists":          5,
		"slab-2001-threelists-opt":      5,
	} {
		v := lookup(t, name)
		var freed []impls.Addr
		last := impls.Addr(0)
		for _, ev := range r.Run(c, v, oracle.Options{}).Events {
			switch ev.Code {
			case impls.OpFree:
				freed = append(freed, ev.Addr)
			case impls.OpAlloc:
				last = ev.Addr
			}
		}
		if len(freed) < 6 || freed[want] != last {
			t.Errorf("%s: %#x freed, then %#x allocated, want number %d", name, freed, last, want)
		}
	}
}

// TestDiffers: what is not equal is seen, at its operation where an outcome shows it, and by
// no view that leaves it out.
func TestDiffers(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	const three, one, lifo = "slab-2001-threelists", "slab-2001-onelist", "slab-2001-onelist-lifo"
	const locked, racy = "slab-colour-locked", "slab-colour-racy"
	for _, tt := range []struct {
		seed, a, b string
		view       pairs.View
		want       string // in the evidence, "" for nothing
	}{
		{"slab-emptied-at-tail", one, lifo, pairs.Whole, "alloc ok"},
		{"slab-emptied-at-tail", one, lifo, pairs.Uncoloured, "first=1"},
		{"slab-emptied-at-tail", one, lifo, pairs.Outcomes, ""},
		{"two-caches", three, one, pairs.Uncoloured, "first=-1"},
		{"colour-rotation", locked, racy, pairs.Whole, "alloc ok"},
		{"colour-rotation", locked, racy, pairs.Uncoloured, ""},
		{"colour-rotation", three, locked, pairs.Whole, ""},
		{"one-object-slabs", locked, "slub-2008-irqsave", pairs.Outcomes, ""},
		{"one-object-slabs", locked, "slub-2008-irqsave", pairs.Uncoloured, "on kind=1"},
		{"memalign-beyond-a-page", locked, "slub-2008-irqsave", pairs.Outcomes, "realloc enomem"},
	} {
		p := pairOf(t, tt.a, tt.b, tt.view)
		c := committed(t, tt.seed)
		out, err := p.Run(r, c, sched.Strict, nil)
		if err != nil || out.Left != "" {
			t.Fatal(out, err)
		}
		switch {
		case tt.want == "" && out.Fault != nil:
			t.Errorf("%s, %s and %s: %s", tt.seed, tt.a, tt.b, out.Fault)
		case tt.want != "" && (out.Fault == nil || !strings.Contains(out.Fault.Detail, tt.want) ||
			out.Fault.Title != fault.PairDiffers):
			t.Errorf("%s, %s and %s: %v, want %q", tt.seed, tt.a, tt.b, out.Fault, tt.want)
		case strings.Contains(tt.want, "alloc") && out.Fault.Where.Line < 0:
			t.Errorf("%s: at no operation: %s", tt.seed, out.Fault)
		}
		if out.Fault == nil {
			continue
		}
		rep, err := p.Explain(r, c, nil, out.Fault)
		if err != nil || rep.Finding.Title != fault.PairDiffers || rep.Finding.Subject != tt.b {
			t.Errorf("%s: report %+v, %v", tt.seed, rep, err)
		}
	}
}

// TestApplies: what a pair cannot be compared on is left out, with the reason.
func TestApplies(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	const locked, racy = "slab-colour-locked", "slab-colour-racy"
	parse := func(text string) *oracle.Compiled {
		p, err := prog.ParseString("allocfuzz 1\n" + text)
		if err != nil {
			t.Fatal(err)
		}
		return compiled(t, p)
	}
	misuse := parse("cache c flags=redzone size=64\ncpu0 a = alloc c\ncpu0 overrun a 1\n")
	two := parse("machine cpus=2\ncache c size=64\ncpu0 a = alloc c\ncpu1 b = alloc c\n\n" +
		"sched subject=slab-colour-racy\nat alloc(a) store cache.colour_next 1: cpu1\n\n" +
		"sched\nat alloc(a) lock cache.lock 9: cpu1\n")
	rt := parse("machine preempt=rt\ncache c size=64\ncpu0 a = alloc c\ncpu0 free c a\n")
	long := parse("cache c size=64\ncpu0 repeat 10000 {\n\tcpu0 a = alloc c\n\tcpu0 free c a\n}\n")
	const before, sharp = "slub-2021-partial-irqsave", "slub-2022-debug-locked"
	for _, tt := range []struct {
		p       *pairs.Pair
		c       *oracle.Compiled
		anchors []sched.Anchor
		want    string
	}{
		{pairOf(t, locked, racy, pairs.Uncoloured), misuse, nil, "misuse"},
		{pairOf(t, locked, racy, pairs.Outcomes), misuse, nil, "misuse"},
		{pairOf(t, locked, locked, pairs.Whole), misuse, nil, ""},
		{pairOf(t, locked, locked, pairs.Whole), long, nil, "too many"},
		{pairOf(t, locked, racy, pairs.Uncoloured), two, anchors(t, two, 0), "departure at store"},
		{pairOf(t, locked, racy, pairs.Uncoloured), two, anchors(t, two, 1), ""},
		{pairOf(t, locked, before, pairs.Whole), two, []sched.Anchor{{Handler: -1,
			Kind: machine.KLock, Field: "cache.lock", N: 1,
			Acts: []sched.Act{{Kind: machine.SwitchTo, Ctx: 1}}}}, "one side only"},
		{pairOf(t, locked, before, pairs.Outcomes), two, nil, "several contexts"},
		{pairOf(t, before, sharp, pairs.Whole), rt, nil, "other machines"},
		{pairOf(t, before, sharp, pairs.Outcomes), rt, nil, ""},
		{pairOf(t, locked, before, pairs.Outcomes), rt, nil, ""},
		{pairOf(t, before, locked, pairs.Outcomes), rt, nil, ""},
		{pairOf(t, before, locked, pairs.Outcomes), rt, []sched.Anchor{{Handler: -1,
			Kind: machine.KEnd, Field: "-", N: 1}}, "departures"},
	} {
		out, err := tt.p.Run(r, tt.c, sched.Strict, tt.anchors)
		if err != nil || out.Fault != nil || (out.Left == "") != (tt.want == "") ||
			!strings.Contains(out.Left, tt.want) {
			t.Errorf("%s and %s: %+v, %v, want %q", tt.p.Row.A, tt.p.Row.B, out, err, tt.want)
		}
	}
}

// anchors are those of a program's schedule of a number.
func anchors(t *testing.T, c *oracle.Compiled, n int) []sched.Anchor {
	t.Helper()
	out, err := c.Anchors(&c.Prog.Scheds[n])
	if err != nil {
		t.Fatal(err)
	}
	return out
}
