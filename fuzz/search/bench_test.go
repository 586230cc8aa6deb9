package search_test

import (
	"context"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/search"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// abaTwoCPUs is the ABA program on two CPUs: the other one frees into the slab.
const abaTwoCPUs = `allocfuzz 1
machine cpus=2
cache c objects=4 size=64

cpu0 w = alloc c
cpu0 a = alloc c
cpu1 free c w
cpu0 b = alloc c
irq0 x = alloc c
irq0 free c x
`

func compile(tb testing.TB, text string) *oracle.Compiled {
	tb.Helper()
	p, err := prog.Parse("test.prog", strings.NewReader(text))
	if err != nil {
		tb.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

func subject(tb testing.TB, name string) *impls.Variant {
	tb.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		tb.Fatalf("no subject %s", name)
	}
	return v
}

// lightChecks cost little a run and see every consequence.
const lightChecks = oracle.Checks(1<<fault.Step | 1<<fault.Ownership | 1<<fault.Contents)

// BenchmarkSearch is whole searches, by strategy, in one worker and in two, with light checks and
// with all.
func BenchmarkSearch(b *testing.B) {
	c, v := compile(b, abaTwoCPUs), subject(b, "slub-2008-seq")
	light := oracle.Options{Checks: lightChecks, Shallow: true, NoEnd: true}
	for _, row := range []struct {
		name string
		opt  search.Options
	}{
		{"bound", search.Options{Strategy: search.Bound, Bounds: explore.Bounds{Preemptions: 2,
			Interrupts: 1}, Run: light}},
		{"bound, two cores", search.Options{Strategy: search.Bound, Parallel: 2,
			Bounds: explore.Bounds{Preemptions: 2, Interrupts: 1}, Run: light}},
		{"bound, all checks", search.Options{Strategy: search.Bound, Bounds: explore.Bounds{
			Preemptions: 2, Interrupts: 1}}},
		{"random", search.Options{Strategy: search.Random, Max: 20000,
			Bounds: explore.Bounds{Preemptions: 2, Interrupts: 1}, Run: light}},
		{"pct", search.Options{Strategy: search.PCT, Depth: 3, Max: 20000,
			Bounds: explore.Bounds{Preemptions: 2, Interrupts: 1}, Run: light}},
		{"dpor", search.Options{Strategy: search.DPOR, Run: light}},
	} {
		b.Run(row.name, func(b *testing.B) {
			opt := row.opt
			opt.Parallel, opt.Shards = max(1, opt.Parallel), 1
			schedules, points := 0, uint64(0)
			for b.Loop() {
				r, err := search.Run(context.Background(), c, v, opt)
				if err != nil || r.Finding != nil {
					b.Fatal(err, r.Finding)
				}
				schedules += r.Schedules
				points += r.Points
			}
			s := b.Elapsed().Seconds()
			b.ReportMetric(float64(schedules)/s/1e3, "kschedules/s")
			b.ReportMetric(float64(points)/s/1e6, "Mpoints/s")
			b.ReportMetric(float64(schedules)/float64(b.N), "schedules/op")
		})
	}
}
