package fuzz_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// inputs makes inputs of the default size: seeds, mutated, and random ones.
func inputs(n int) [][]byte {
	rng := rand.New(rand.NewPCG(3, 4))
	seeds := fuzz.Seeds(false)
	var out [][]byte
	for len(out) < n {
		if len(out)%4 == 0 {
			out = append(out, input.GenerateBytes(rng, input.GenerateOptions{}))
			continue
		}
		out = append(out, input.Mutate(rng, seeds[rng.IntN(len(seeds))], input.DecodeOptions{}))
	}
	return out
}

// debugInputs makes inputs for FuzzDebug: three of four have one task, as there.
func debugInputs(n int) [][]byte {
	rng := rand.New(rand.NewPCG(5, 6))
	var out [][]byte
	for len(out) < n {
		out = append(out, input.GenerateBytes(rng, input.GenerateOptions{
			Decode: input.DecodeOptions{Debug: true, Misuse: true, Sequential: len(out)%4 != 0},
			Lines:  8 + rng.IntN(30)}))
	}
	return out
}

// fuzzerFloor is what the engine itself takes for one input, whatever the target
// does: measured with a target that does nothing.
const fuzzerFloor = 15 * time.Microsecond

// BenchmarkExec: one input through FuzzInterrupts' session on all sound subjects,
// what share of it is decoding and compiling, and what share of a fuzz worker's
// time that leaves for the runs.
func BenchmarkExec(b *testing.B) {
	ins := inputs(512)
	s := fuzz.NewSession(fuzz.Sound())
	defer s.Close()
	var d input.Decoder
	var front time.Duration
	b.ResetTimer()
	n := 0
	for b.Loop() {
		data := ins[n%len(ins)]
		n++
		if f, err := s.Interrupts(data); f != nil || err != nil {
			b.Fatal(f, err)
		}
	}
	whole := b.Elapsed() / time.Duration(n)
	b.StopTimer()
	start := time.Now()
	for i := range n {
		p := d.Decode(ins[i%len(ins)], input.DecodeOptions{Budget: 1024})
		if _, err := oracle.Compile(p); err != nil {
			b.Fatal(err)
		}
	}
	front = time.Since(start) / time.Duration(n)
	programs := 0
	for _, k := range s.Stats.Programs {
		programs += k
	}
	b.ReportMetric(float64(whole.Nanoseconds())/1e3, "µs/exec")
	b.ReportMetric(float64(front.Nanoseconds())/1e3, "µs-front/exec")
	b.ReportMetric(100*float64(whole-front)/float64(whole+fuzzerFloor), "%simulator")
	b.ReportMetric(float64(programs)/float64(s.Stats.Inputs), "subjects/exec")
	b.ReportMetric(float64(s.Stats.Points)/b.Elapsed().Seconds()/1e6, "Mpoints/s")
	b.ReportMetric(0, "ns/op")
}

// BenchmarkDebugExec: one input through FuzzDebug's session on all sound subjects that
// can be debugged.
func BenchmarkDebugExec(b *testing.B) {
	ins := debugInputs(512)
	var subjects []*impls.Variant
	for _, v := range fuzz.Sound() {
		if v.Caps.Has(impls.CapDebug) {
			subjects = append(subjects, v)
		}
	}
	s := fuzz.NewSession(subjects)
	defer s.Close()
	b.ReportAllocs()
	n := 0
	for b.Loop() {
		data := ins[n%len(ins)]
		n++
		f, err := s.Debugged(data)
		if f != nil {
			b.Fatal(f.Report.Finding.Identity())
		}
		if err != nil {
			b.Fatal(err)
		}
	}
	programs, ops := 0, 0
	for i, k := range s.Stats.Programs {
		programs += k
		ops += s.Stats.Counts[i].Operations
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n)/1e3, "µs/exec")
	b.ReportMetric(float64(programs)/float64(s.Stats.Inputs), "subjects/exec")
	b.ReportMetric(float64(ops)/float64(programs), "operations/run")
	b.ReportMetric(float64(programs)/b.Elapsed().Seconds(), "runs/s")
}
