package minimise_test

import (
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/fuzz/minimise/padded"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// BenchmarkProgram minimises findings of 200 operations and 30 switches to what each line and
// departure of is needed. The target is 2 s for each.
func BenchmarkProgram(b *testing.B) {
	for _, name := range []string{"slub-2008-seq-slowpath-migrate",
		"slab-colour-unclamped-three-cpus", "slub-2021-partial-cmpxchg-irqson-rt",
		"slub-2021-partial-cmpxchg-reused"} {
		b.Run(name, func(b *testing.B) {
			large, v, identity := large(b, name, padded.Size{Lines: 200, Departures: 30})
			size := minimise.SizeOf(large)
			var res *minimise.Result
			for b.Loop() {
				var err error
				res, err = minimise.Program(b.Context(), large,
					minimise.Bug{Subject: v, Identity: identity}, minimise.Options{})
				if err != nil || !res.Minimal {
					b.Fatal(err, res)
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()/float64(b.N), "s/program")
			b.ReportMetric(float64(res.Tries), "tries")
			b.ReportMetric(float64(size.Lines), "lines-before")
			b.ReportMetric(float64(size.Departures), "departures-before")
			b.ReportMetric(float64(res.After.Lines), "lines")
			b.ReportMetric(float64(res.After.Departures), "departures")
		})
	}
}

// large is a committed bug, padded to so many lines and departures.
func large(tb testing.TB, name string, to padded.Size) (*prog.Program, *impls.Variant, string) {
	tb.Helper()
	p, v := committed(tb, name)
	r := oracle.NewRunner()
	defer r.Close()
	f, err := padded.Strictly(r, p, v)
	if err != nil {
		tb.Fatal(err)
	}
	size := minimise.SizeOf(p)
	d := padded.New(r, v, f)
	q := d.Program(p, to.Lines-size.Lines, to.Departures-size.Departures)
	if got := minimise.SizeOf(q); got.Lines < to.Lines || got.Departures < to.Departures {
		tb.Errorf("%s: padded to %d lines and %d departures", name, got.Lines, got.Departures)
	}
	return q, v, f.Identity()
}

// committed is a program of corpus/regress with the subject of its first block.
func committed(tb testing.TB, name string) (*prog.Program, *impls.Variant) {
	tb.Helper()
	for f := range corpus.Regress() {
		if f.Name != "corpus/regress/"+name+".prog" {
			continue
		}
		p, err := f.Program()
		if err != nil {
			tb.Fatal(err)
		}
		v, ok := all.Lookup(p.Scheds[0].Subject)
		if !ok {
			tb.Fatalf("no subject %s", p.Scheds[0].Subject)
		}
		return p, v
	}
	tb.Fatalf("no program %s", name)
	return nil, nil
}
