package debugcheck

import (
	"testing"
	"time"
)

// benchBank is a slab of 25 FZPU objects of 64 bytes (as many as a page holds), half of
// them allocated.
func benchBank(b *testing.B) *bank {
	k := newBank(b, Spec{Size: 64, Flags: Default}, 25)
	for range 12 {
		k.alloc(64)
	}
	return k
}

// byteByByte looks for a byte that is not v, the plain way.
func byteByByte(b []byte, v byte) int {
	for i, c := range b {
		if c != v {
			return i
		}
	}
	return -1
}

// BenchmarkValidate measures a whole validation by the bytes of the slab. Target: 500
// MB/s. The metric bytewise is how many times longer a plain loop over every byte of the
// slab takes.
func BenchmarkValidate(b *testing.B) {
	k := benchBank(b)
	b.SetBytes(int64(len(k.mem)))
	b.ReportAllocs()
	for b.Loop() {
		k.k.Validate(&k.slab)
	}
	spent := float64(b.Elapsed().Nanoseconds()) / float64(b.N)
	b.StopTimer()
	plain := make([]byte, len(k.mem))
	const rounds = 2000
	sum, start := 0, time.Now()
	for range rounds {
		sum += byteByByte(plain, 0)
	}
	loop := float64(time.Since(start).Nanoseconds()) / rounds
	if sum != -rounds || len(k.found) != 0 {
		b.Fatal("something was found")
	}
	b.ReportMetric(float64(len(k.mem))*1000/spent, "MB/s-slab")
	b.ReportMetric(loop/spent, "bytewise")
}

// BenchmarkFirstNot measures the comparison by words alone, and how many times longer the
// plain loop takes.
func BenchmarkFirstNot(b *testing.B) {
	page := make([]byte, 4096)
	b.SetBytes(4096)
	sum, n := 0, 0
	for b.Loop() {
		sum += firstNot(page, 0)
		n++
	}
	spent := float64(b.Elapsed().Nanoseconds()) / float64(n)
	b.StopTimer()
	start := time.Now()
	for range 2000 {
		sum += byteByByte(page, 0)
	}
	if sum != -n-2000 {
		b.Fatal("something was found")
	}
	b.ReportMetric(float64(time.Since(start).Nanoseconds())/2000/spent, "bytewise")
}

// BenchmarkAllocFree measures all that debugging adds to an allocation and a free: the
// checks, the tracks and the fills. Target: 400 ns. The free looks through the freelist:
// of half a slab, and of a slab that is all free.
func BenchmarkAllocFree(b *testing.B) {
	for _, c := range []struct {
		name string
		live int
	}{{"half", 12}, {"empty", 0}} {
		b.Run(c.name, func(b *testing.B) {
			k := newBank(b, Spec{Size: 64, Flags: Default}, 25)
			for range c.live {
				k.alloc(64)
			}
			k.k.View, k.k.ViewAt = k.mem, k.base
			list := []uint64{0}
			b.ReportAllocs()
			for b.Loop() {
				a := k.take()
				k.k.AllocOK(&k.slab, a)
				k.k.Activate(a, 64)
				k.k.SetTrack(AllocTrack, a, Track{Line: 1, Set: true})
				list[0] = a
				k.k.FreeOK(&k.slab, list, 1)
				k.k.SetTrack(FreeTrack, a, Track{Line: 2, Set: true})
				k.k.Deactivate(a)
				k.SetLink(a, k.slab.Freelist)
				k.slab.Freelist, k.slab.Inuse = a, k.slab.Inuse-1
			}
			if len(k.found) != 0 {
				b.Fatal(k.said())
			}
		})
	}
}
