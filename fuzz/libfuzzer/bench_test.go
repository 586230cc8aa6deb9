package libfuzzer

import (
	"testing"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
)

// BenchmarkEngines fuzzes a target for the same time under go test -fuzz and under libFuzzer, with
// two processes each. An input of libFuzzer's may be several times as long as one of Go's, which is
// why points are compared too.
func BenchmarkEngines(b *testing.B) {
	const each = 15 * time.Second
	clang, err := Clang()
	if err == nil {
		err = Links(b.Context(), clang, b.TempDir())
	}
	if err != nil {
		b.Skip(err)
	}
	native, _, err := (&engine.Build{Root: "../..", Dir: b.TempDir(),
		Log: func(string, ...any) {}}).Run(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	for _, target := range []string{"FuzzInterrupts", "FuzzSMP", fuzz.Prog} {
		b.Run(target, func(b *testing.B) {
			build := &Build{Root: "../..", Dir: b.TempDir(), Clang: clang}
			if err := build.Project(b.Context(), target); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				job := &engine.Job{Binary: native, Parallel: 2, Work: b.TempDir(),
					Cache: b.TempDir(), Out: b.TempDir(), Log: func(string, ...any) {},
					Progress: func(engine.Progress) {}}
				s, err := job.Slice(b.Context(), engine.Slice{Target: target, For: each, At: 1,
					Of: 1, Subjects: fuzz.Names(fuzz.Sound())})
				if err != nil {
					b.Fatal(err)
				}
				r, err := build.Run(b.Context(), target, &RunOptions{For: each, Fork: 2})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(s.Execs)/s.Seconds, "native-execs/s")
				b.ReportMetric(r.Speed, "libfuzzer-execs/s")
				b.ReportMetric(r.Speed*s.Seconds/float64(s.Execs), "execs-ratio")
				if s.Points > 0 {
					b.ReportMetric(r.Points*s.Seconds/float64(s.Points), "points-ratio")
				}
				b.ReportMetric(float64(r.Corpus)/float64(max(s.Corpus, 1)), "corpus-ratio")
			}
		})
	}
}
