package fuzz_test

import (
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
)

// other is a subject under the name of another.
func other(t *testing.T, name, of string) *impls.Variant {
	t.Helper()
	v, okV := all.Lookup(name)
	as, okAs := all.Lookup(of)
	if !okV || !okAs {
		t.Fatalf("no %s or no %s", name, of)
	}
	copied := *as
	copied.New = v.New
	return &copied
}

// TestPaired: a session holds the pairs among its subjects against each other, in programs
// of one task and of several; what differs is a failure with its schedule, of the second
// against the first, and comes again.
func TestPaired(t *testing.T) {
	const text = "allocfuzz 1\ncache c objects=2 size=64\n\ncpu0 a = alloc c\n" +
		"cpu0 b = alloc c\ncpu0 d = alloc c\ncpu0 free c d\ncpu0 free c a\ncpu0 free c b\n" +
		"irq0 e = alloc c\n"
	// The second is none for pairs and comes at the end of its line, the third never occurs.
	const sched = "\nsched\nat free(b) load cpu_slab.freelist 1: irq0\n" +
		"at free(a) lock cache.lock 7: irq0\n"
	const first, second = "slab-2001-threelists", "slab-2001-threelists-opt"
	for _, tt := range []struct {
		name, text string
		differs    bool
	}{
		{second, text, false}, {second, text + sched, false},
		{"slab-2001-onelist", text, true}, {"slab-2001-onelist", text + sched, true},
	} {
		p, err := prog.ParseString(tt.text)
		if err != nil {
			t.Fatal(err)
		}
		s := fuzz.NewSession([]*impls.Variant{other(t, first, first), other(t, tt.name, second)})
		f, err := s.Paired(p)
		if err != nil || (f != nil) != tt.differs {
			t.Fatalf("%s: %+v, %v", tt.name, f, err)
		}
		for i, n := range s.Stats.Programs {
			if n != 1 || s.Stats.Counts[i].Operations < 7 || s.Stats.Points == 0 {
				t.Errorf("%s: counts %+v", tt.name, s.Stats)
			}
		}
		if f != nil {
			failed(t, f, tt.text)
		}
		s.Close()
	}
}

// failed looks at a failure of a pair.
func failed(t *testing.T, f *fuzz.Failure, text string) {
	t.Helper()
	file, err := f.Save(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	rep := f.Report
	if rep.Finding.Title != fault.PairDiffers || f.Reference.Name == f.Variant.Name ||
		!strings.Contains(rep.Command, f.Reference.Name+","+f.Variant.Name) ||
		!strings.Contains(file, "pair-differs") {
		t.Errorf("%s, command %q, file %s", rep.Finding.Identity(), rep.Command, file)
	}
	if departs := strings.Contains(text, "sched"); departs != (len(rep.Program.Scheds) == 1) ||
		departs && len(rep.Program.Scheds[0].Departures) == 0 {
		t.Errorf("schedules %+v", rep.Program.Scheds)
	}
}

// TestPairsTarget: the target runs the pairs of the subjects that were asked for, and finds
// nothing between them; each pair was compared.
func TestPairsTarget(t *testing.T) {
	var subjects []*impls.Variant
	for _, v := range all.Variants() {
		if strings.HasPrefix(v.Name, "sl") {
			subjects = append(subjects, v)
		}
	}
	s := fuzz.NewSession(subjects)
	defer s.Close()
	for _, data := range fuzz.Seeds(true) {
		if f, err := s.Pairs(data); f != nil || err != nil {
			t.Fatal(f, err)
		}
	}
	for _, name := range []string{"slab-2001-threelists", "slab-2001-onelist-lifo-posted",
		"slab-colour-racy", "slub-2022-debug-locked"} {
		for i, v := range subjects {
			if v.Name == name && s.Stats.Programs[i] < 100 {
				t.Errorf("%s: %d programs", name, s.Stats.Programs[i])
			}
		}
	}
	if s.Stats.Compared < 1000 {
		t.Errorf("%d operations compared", s.Stats.Compared)
	}
}
