package slub_test

import (
	"sync"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slub"
)

func nativeConfig(cpus, pages int) machine.Config {
	cfg := machineOf(cpus, pages)
	cfg.Native = true
	return cfg
}

// relay runs a thread for each CPU, which all use the cache and give objects to the
// next one to free, and then frees what is still under way and destroys the cache.
func relay(t *testing.T, m *machine.Machine, cache impls.Cache, cpus, rounds int) {
	t.Helper()
	mail := make([]chan impls.Addr, cpus)
	for i := range mail {
		mail[i] = make(chan impls.Addr, 16)
	}
	var done sync.WaitGroup
	for i := range cpus {
		done.Go(func() { stress(t, m, cache, mail[i], mail[(i+1)%cpus], i, rounds) })
	}
	done.Wait()
	c := m.NativeCtx(0, "end")
	for i := range mail {
		close(mail[i])
		for a := range mail[i] {
			cache.Free(c, a)
		}
	}
	if err := cache.Destroy(c); err != nil {
		t.Errorf("destroy: %v", err)
	}
	c.Release()
}

// TestNative lets real threads allocate, give objects to one another to free, and
// shrink; afterwards every page is back.
func TestNative(t *testing.T) {
	const cpus, rounds = 3, 3000
	for _, v := range slub.Variants() {
		if v.Finds.Consequence == string(fault.FreeLost) {
			continue // it needs no interrupt: the end of a list is enough, and a remote free
		}
		t.Run(v.Name, func(t *testing.T) {
			m := machine.New(nativeConfig(cpus, 64))
			in := v.New(m)
			spec := impls.NewSpec("c", 64)
			spec.Objects, spec.MinPartial, spec.CPUPartial = 4, 1, 2
			cache, err := in.Objects().NewCache(nil, spec)
			if err != nil {
				t.Fatal(err)
			}
			relay(t, m, cache, cpus, rounds)
			if s := snap(t, in); len(s.Slabs) != 0 || s.PagesFree != 64 {
				t.Errorf("%d slabs, %d pages free", len(s.Slabs), s.PagesFree)
			}
			if len(m.Faults()) > 0 {
				t.Errorf("faults: %v", m.Faults())
			}
		})
	}
}

func stress(t *testing.T, m *machine.Machine, cache impls.Cache, in, out chan impls.Addr,
	cpu, rounds int) {
	c := m.NativeCtx(cpu, "cpu")
	defer c.Release()
	mem := impls.Arena{M: m}
	mine := impls.Pattern(cpu + 1)
	var held []impls.Addr
	for n := range rounds {
		c.Poll()
		if a := cache.Alloc(c, 0); a != 0 {
			mem.Fill(a, 64, mine)
			held = append(held, a)
		}
		if len(held) > 6 {
			a := held[n%len(held)]
			held[n%len(held)] = held[len(held)-1]
			held = held[:len(held)-1]
			if mem.Verify(a, 64, mine) >= 0 {
				t.Errorf("contents of %#x changed", a)
			}
			select {
			case out <- a:
			default:
				cache.Free(c, a)
			}
		}
		select {
		case a := <-in:
			cache.Free(c, a)
		default:
		}
		if n%500 == 499 {
			cache.Shrink(c)
		}
		if n%7 == 6 {
			var few [5]impls.Addr
			k, ok := cache.(impls.BulkCache)
			if ok && k.AllocBulk(c, impls.FlagZero, few[:]) {
				k.FreeBulk(c, few[:])
			}
		}
	}
	for _, a := range held {
		cache.Free(c, a)
	}
}

func benchmarkPair(b *testing.B, name string, cfg machine.Config) {
	m := machine.New(cfg)
	defer m.Close()
	cache, err := variant(b, name).New(m).Objects().NewCache(nil, impls.NewSpec("c", 64))
	if err != nil {
		b.Fatal(err)
	}
	loop := func(c *machine.Ctx) {
		cache.Free(c, cache.Alloc(c, 0))
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			if i%256 == 0 {
				c.BeginLine(0, [2]int32{})
			}
			cache.Free(c, cache.Alloc(c, 0))
		}
	}
	if cfg.Native {
		c := m.NativeCtx(0, "cpu0")
		defer c.Release()
		loop(c)
		return
	}
	m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		c.BeginLine(0, [2]int32{})
		loop(c)
		c.EndLine(machine.After)
	})
	if err := m.Sim().Run(nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPair is an allocation and its free on the fast path.
func BenchmarkPair(b *testing.B) {
	for _, v := range slub.Variants() {
		b.Run("native/"+v.Name, func(b *testing.B) {
			benchmarkPair(b, v.Name, nativeConfig(1, 16))
		})
		b.Run("simulated/"+v.Name, func(b *testing.B) {
			benchmarkPair(b, v.Name, machineOf(1, 16))
		})
	}
}

// BenchmarkSetUp is a whole run of nothing: reset, variant, one cache, one object.
func BenchmarkSetUp(b *testing.B) {
	for _, v := range slub.Variants() {
		b.Run(v.Name, func(b *testing.B) {
			m := machine.New(machineOf(1, 16))
			defer m.Close()
			spec := specOf(3)
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				cache, err := v.New(m).Objects().NewCache(nil, spec)
				if err != nil {
					b.Fatal(err)
				}
				m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
					c.BeginLine(0, [2]int32{})
					cache.Free(c, cache.Alloc(c, 0))
					c.EndLine(machine.After)
				})
				if err := m.Sim().Run(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkSizes is making the caches of kmalloc.
func BenchmarkSizes(b *testing.B) {
	m := machine.New(machineOf(1, 16))
	defer m.Close()
	b.ReportAllocs()
	for b.Loop() {
		m.Reset()
		variant(b, "slub-2008-seq").New(m).Sizes()
	}
}
