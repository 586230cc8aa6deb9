package property_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/leanovate/gopter"
	"github.com/leanovate/gopter/commands"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/property"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// The job of the benchmarks: allocations and frees of 64-byte objects on the reference, up to 24
// live, the contents of each written when it is handed out and verified when it is freed, places
// and overlaps checked.
//
//   - BenchmarkGopterCommands has it in gopter's commands, 100 a sequence, on a native machine.
//   - BenchmarkRunnerGenerated has the runner make, compile and run a program of 100 lines each
//     time, on a simulated machine, with all checks; that of the structure, which the commands do
//     not have, once, at the end.
//   - BenchmarkRunner runs one program again and again, as a trace or a long repeat does.
//
// Each reports ops/s; the runner's also report how many times those of gopter they are, from the
// same run.
const jobLength = 100

// job is the reference with objects only, so that commands are allocations and frees.
func job(tb testing.TB) *impls.Variant {
	v := *lookup(tb, "slab-locked")
	v.Caps &^= impls.CapSizes | impls.CapZero
	return &v
}

// gopterRate is ops/s of gopter's commands in this run, 0 before they were measured.
var gopterRate float64

// measureGopter runs n sequences and sets the rate.
func measureGopter(tb testing.TB, n int) {
	p := gopter.DefaultTestParametersWithSeed(*seedFlag)
	p.MinSuccessfulTests, p.MinSize, p.MaxSize = n, jobLength, jobLength
	start := time.Now()
	res := commands.Prop(property.Commands(job(tb), 64)).Check(p)
	took := time.Since(start)
	if !res.Passed() {
		tb.Fatal(failure(res))
	}
	gopterRate = float64(n*jobLength) / took.Seconds()
}

func BenchmarkGopterCommands(b *testing.B) {
	measureGopter(b, (b.N+jobLength-1)/jobLength)
	b.ReportMetric(gopterRate, "ops/s")
}

// report reports the rate of ops operations and its ratio to gopter's.
func report(b *testing.B, ops int) {
	rate := float64(ops) / b.Elapsed().Seconds()
	b.StopTimer()
	if gopterRate == 0 {
		measureGopter(b, 200)
	}
	b.ReportMetric(rate, "ops/s")
	b.ReportMetric(rate/gopterRate, "x-gopter")
}

func BenchmarkRunner(b *testing.B) {
	const objects = 24
	text := &strings.Builder{}
	rounds := max(1, b.N/(2*objects))
	fmt.Fprintf(text, "allocfuzz 1\nmachine pages=64\ncache c size=64\ncpu0 repeat %d {\n",
		min(rounds, prog.MaxRepeat))
	for i := range objects {
		fmt.Fprintf(text, "\tcpu0 x%d = alloc c\n", i)
	}
	for i := range objects {
		fmt.Fprintf(text, "\tcpu0 free c x%d\n", i)
	}
	text.WriteString("}\n")
	p, err := prog.ParseString(text.String())
	if err != nil {
		b.Fatal(err)
	}
	c := compile(b, p)
	r := oracle.NewRunner()
	defer r.Close()
	v := job(b)
	r.Run(c, v, oracle.Options{})
	b.ResetTimer()
	ran(b, r.Run(c, v, oracle.Options{}))
	report(b, c.Operations())
}

func BenchmarkRunnerGenerated(b *testing.B) {
	r := oracle.NewRunner()
	defer r.Close()
	v := job(b)
	rng := rand.New(rand.NewPCG(uint64(*seedFlag), 3))
	b.ResetTimer()
	for n := 0; n < b.N; n += jobLength {
		ran(b, r.Run(compile(b, jobProgram(rng)), v, oracle.Options{Shallow: true}))
	}
	report(b, (b.N+jobLength-1)/jobLength*jobLength)
}

// jobProgram is the job as one program.
func jobProgram(rng *rand.Rand) *prog.Program {
	m := prog.DefaultMachine()
	m.Pages = 64
	p := &prog.Program{Machine: m.Resolve(),
		Caches: []prog.Cache{{Name: "c", Spec: prog.NewCacheSpec(64)}},
		Lines:  make([]prog.Line, jobLength)}
	var names, live []string
	for i := range p.Lines {
		l := &p.Lines[i]
		l.Ctx, l.Cache = prog.Ctx{Kind: prog.CPUCtx}, "c"
		if len(live) == 0 || len(live) < 24 && rng.IntN(2) == 0 {
			names = append(names, fmt.Sprint("x", len(names)))
			l.Verb, l.Results = prog.Alloc, names[len(names)-1:]
			live = append(live, l.Results[0])
			continue
		}
		k := rng.IntN(len(live))
		l.Verb, l.Slots = prog.Free, []string{live[k]}
		live[k] = live[len(live)-1]
		live = live[:len(live)-1]
	}
	return p
}

// ran demands that a run did the job.
func ran(b *testing.B, res *oracle.Result) {
	if f := res.Finding(); f != nil {
		b.Fatal(f.Identity())
	}
	if c := &res.Counts; c.Operations == 0 || c.Unsupported+c.Skipped+c.Refused > 0 {
		b.Fatalf("the job was not done: %+v", *c)
	}
}
