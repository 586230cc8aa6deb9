package slub

import (
	"testing"
	"time"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// undebugged is Alloc and Free of a cache that cannot be debugged: nothing in them
// knows of debugging, and neither do the slow paths.
type undebugged struct{ *Cache }

func (k undebugged) alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	a := k.fast.alloc(c, k.Cache)
	if a == 0 {
		c.Die(fault.NoProgress, "the slow path")
	}
	if a != 0 && f&impls.FlagZero != 0 {
		clear(k.heap.m.MemBytes(a, int(k.size)))
	}
	return a
}

func (k undebugged) free(c *machine.Ctx, a impls.Addr) {
	p := k.heap.m.PageOf(a)
	if p == nil {
		c.Die(fault.WildAddress, "cache %s: free of %#x", k.name, a)
	}
	if !k.fast.free(c, k.Cache, p, a) {
		c.Die(fault.NoProgress, "the slow path")
	}
}

// rounds is how many pairs are timed at a time. The fastest such round counts: it is
// the one that nobody else disturbed.
const rounds = 200

func benchCache(b *testing.B, flags ...string) (*machine.Ctx, *Cache) {
	cfg := machine.DefaultConfig()
	cfg.Native = true
	m := machine.New(cfg)
	b.Cleanup(m.Close)
	in := design{fast: locked{}, partial: lockedPartial{}, locking: lockedDebug{},
		middle: true}.new(m)
	spec := impls.NewSpec("c", 64)
	spec.Flags = flags
	k, err := in.Objects().NewCache(nil, spec)
	if err != nil {
		b.Fatal(err)
	}
	return m.NativeCtx(0, "bench"), k.(*Cache)
}

// BenchmarkDebugOff compares the fast path of a cache that has no debug flags with one
// that has never heard of them, in turns.
func BenchmarkDebugOff(b *testing.B) {
	c, k := benchCache(b)
	defer c.Release()
	k.Free(c, k.Alloc(c, 0))
	var best [2]time.Duration
	with := func() {
		for range rounds {
			k.Free(c, k.Alloc(c, 0))
		}
	}
	u := undebugged{k}
	without := func() {
		for range rounds {
			u.free(c, u.alloc(c, 0))
		}
	}
	for b.Loop() {
		for i, f := range [...]func(){with, without} {
			start := time.Now()
			f()
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	b.ReportMetric(float64(best[0])/float64(best[1]), "off/never")
	b.ReportMetric(float64(best[0])/rounds, "ns/pair")
}

// BenchmarkDebugPair is an allocation and its free with all flags: at most 400 ns. The
// slab is half full: a free looks for its object among all that are free.
func BenchmarkDebugPair(b *testing.B) {
	c, k := benchCache(b, "sanity", "redzone", "poison", "user")
	defer c.Release()
	keep := make([]impls.Addr, k.objects/2)
	for i := range keep {
		keep[i] = k.Alloc(c, 0)
	}
	b.ReportAllocs()
	best := time.Duration(0)
	for b.Loop() {
		start := time.Now()
		for range rounds {
			k.Free(c, k.Alloc(c, 0))
		}
		if d := time.Since(start); best == 0 || d < best {
			best = d
		}
	}
	b.ReportMetric(float64(best)/rounds, "ns/pair")
	for _, a := range keep {
		k.Free(c, a)
	}
	if len(c.Notes()) > 0 {
		b.Errorf("%d reports", len(c.Notes()))
	}
}

// BenchmarkDebugValidate is a validation of a cache of 200 objects, half of them live.
func BenchmarkDebugValidate(b *testing.B) {
	c, k := benchCache(b, "sanity", "redzone", "poison", "user")
	defer c.Release()
	var live []impls.Addr
	for range 200 {
		live = append(live, k.Alloc(c, 0))
	}
	for i := 0; i < len(live); i += 2 {
		k.Free(c, live[i])
	}
	slabs := 0
	for b.Loop() {
		slabs, _ = k.Validate(c)
	}
	bytes := float64(slabs * k.heap.m.PageSize << k.order)
	b.ReportMetric(bytes*float64(b.N)/b.Elapsed().Seconds()/1e6, "MB/s")
}
