package oracle_test

import (
	"fmt"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// steady is a program of about ops operations that keeps live objects of 64 bytes
// and replaces them in order.
func steady(tb testing.TB, live, ops int) *oracle.Compiled {
	tb.Helper()
	var b strings.Builder
	pages := 16
	for pages*4096 < live*64*2+64<<10 {
		pages *= 2
	}
	fmt.Fprintf(&b, "allocfuzz 1\nmachine pages=%d\ncache c size=64\n", pages)
	for i := range live {
		fmt.Fprintf(&b, "cpu0 x%d = alloc c\n", i)
	}
	fmt.Fprintf(&b, "cpu0 repeat %d {\n", max(ops/(2*live), 1))
	for i := range live {
		fmt.Fprintf(&b, "\tcpu0 free c x%d\n\tcpu0 x%d = alloc c\n", i, i)
	}
	b.WriteString("}\n")
	return compile(tb, b.String())
}

func compile(tb testing.TB, text string) *oracle.Compiled {
	tb.Helper()
	p, err := prog.ParseString(text)
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

// sequentialChecks are checks 1, 2 and 5.
const sequentialChecks = oracle.Checks(1<<fault.Ownership | 1<<fault.Contents | 1<<fault.Difference)

// BenchmarkSequential: operations a second of a sequential program through runner
// and checks 1, 2 and 5, for every subject, by length and by live objects.
func BenchmarkSequential(b *testing.B) {
	for _, v := range all.Variants() {
		if !v.Sound {
			continue
		}
		for _, size := range []struct{ live, ops int }{{10, 1000}, {10, 1000000}, {1000, 100000},
			{100000, 1000000}} {
			name := fmt.Sprintf("%s/live=%d/ops=%d", v.Name, size.live, size.ops)
			b.Run(name, func(b *testing.B) {
				p := steady(b, size.live, size.ops)
				r := oracle.NewRunner()
				defer r.Close()
				opt := oracle.Options{Checks: sequentialChecks, Native: v.Row != "", Discard: true}
				r.Run(p, v, opt)
				b.ReportAllocs()
				b.ResetTimer()
				done := 0
				for b.Loop() {
					res := r.Run(p, v, opt)
					if len(res.Faults) > 0 {
						b.Fatal(res.Faults)
					}
					done += res.Counts.Operations
				}
				b.ReportMetric(float64(done)/b.Elapsed().Seconds()/1e6, "Mops/s")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}
