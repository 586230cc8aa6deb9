package oracle_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// searchChecks are the checks of a search over schedules: those that cost little a
// run and see every consequence.
const searchChecks = oracle.Checks(1<<fault.Step | 1<<fault.Ownership | 1<<fault.Contents)

// aba is the program of one CPU and one handler that the schedules are counted on.
const aba = `allocfuzz 1
cache c objects=8 size=64

cpu0 w = alloc c
cpu0 a = alloc c
cpu0 b = alloc c
irq0 x = alloc c
irq0 y = alloc c
irq0 free c x
`

// twoCPUs has four operations on two CPUs that share a cache.
const twoCPUs = `allocfuzz 1
machine cpus=2
cache c objects=4 size=64

cpu0 a = alloc c
cpu1 b = alloc c
cpu0 free c a
cpu1 free c b
`

// BenchmarkSchedulesFull: the same search with every check on: the structure looked at
// after every operation, and the end, at which all pages must come back; without the
// history; without the end; and with the structure looked at in the end only.
func BenchmarkSchedulesFull(b *testing.B) {
	for _, row := range []struct {
		name string
		opt  oracle.Options
	}{{"all", oracle.Options{}},
		{"no history", oracle.Options{Checks: oracle.AllChecks.Without(fault.History)}},
		{"no end", oracle.Options{NoEnd: true}}, {"shallow", oracle.Options{Shallow: true}},
		{"shallow, no end", oracle.Options{Shallow: true, NoEnd: true}}} {
		b.Run(row.name, func(b *testing.B) {
			searches(b, compile(b, aba), subject(b, "slub-2008-seq"), row.opt)
		})
	}
}

// BenchmarkSchedules: whole runs a second of a search at bound 1, and the points
// in them. An interrupt at every point of one CPU, or a switch at every point of
// two.
func BenchmarkSchedules(b *testing.B) {
	for _, job := range []struct{ name, text string }{{"irq", aba}, {"smp", twoCPUs}} {
		for _, v := range []string{"slub-2008-irqsave", "slub-2008-seq",
			"slub-2021-partial-irqsave",
			"slab-locked"} {
			b.Run(job.name+"/"+v, func(b *testing.B) {
				opt := oracle.Options{Shallow: true, Checks: searchChecks, Discard: true}
				searches(b, compile(b, job.text), subject(b, v), opt)
			})
		}
	}
}

// searches runs one search after the other and counts what they run.
func searches(b *testing.B, p *oracle.Compiled, v *impls.Variant, opt oracle.Options) {
	r := oracle.NewRunner()
	defer r.Close()
	r.Singles(p, v, opt)
	b.ReportAllocs()
	b.ResetTimer()
	schedules, points := 0, uint64(0)
	for b.Loop() {
		x := r.Singles(p, v, opt)
		if x.Finding != nil {
			b.Fatal(x.Finding.Fault)
		}
		schedules += x.Schedules
		points += x.Points
	}
	seconds := b.Elapsed().Seconds()
	b.ReportMetric(float64(schedules)/seconds/1e3, "kschedules/s")
	b.ReportMetric(float64(points)/seconds/1e6, "Mpoints/s")
	b.ReportMetric(float64(schedules)/float64(b.N), "schedules/op")
}
