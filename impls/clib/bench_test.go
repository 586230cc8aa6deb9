package clib_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/clib"
)

// BenchmarkPair is malloc and free of 64 bytes through a child, contents and all, and beside it
// the same batch on a plain Go allocator behind no process: what is left is the way.
func BenchmarkPair(b *testing.B) {
	v, _, err := clib.Lookup("c-glibc")
	if err != nil {
		b.Skip(err)
	}
	const pairs = 1 << 16
	batch := &impls.Batch{Slots: 1}
	for range pairs {
		batch.Ops = append(batch.Ops,
			impls.Op{Code: impls.OpMalloc, Size: 64, Cache: -1, Slot: -1, Pattern: 7},
			impls.Op{Code: impls.OpFree, Cache: -1, Result: -1})
	}
	p, err := v.Dial()
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	for b.Loop() {
		t, err := p.Play(batch)
		if err != nil || len(t.Events) != 2*pairs {
			b.Fatalf("%d events, %v", len(t.Events), err)
		}
	}
	b.ReportMetric(float64(b.N)*2*pairs/b.Elapsed().Seconds()/1e6, "Mops/s")
}
