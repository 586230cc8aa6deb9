package fuzz_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/oracle"
)

// inputs makes inputs of the default size: seeds, mutated, and random ones.
func inputs(n int) [][]byte {
	rng := rand.New(rand.NewPCG(3, 4))
	seeds := fuzz.Seeds()
	var out [][]byte
	for len(out) < n {
		if len(out)%4 == 0 {
			out = append(out, input.GenerateBytes(rng, input.GenerateOptions{}))
			continue
		}
		out = append(out, input.Mutate(rng, seeds[rng.IntN(len(seeds))]))
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
