package all_test

import (
	"errors"
	"slices"
	"sync"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/machine"
)

// families are the subjects that have slabs, and so caches that can be one.
func families() (list []*impls.Variant) {
	for _, v := range all.Variants() {
		if v.Caps.Has(impls.CapObjects | impls.CapShrink | impls.CapPages) {
			list = append(list, v)
		}
	}
	return list
}

// TestMerge: with merge=on the objects of two caches that are alike come from the same
// slab, zeroed as far as the larger of the two reaches, and the cache goes with the last
// of its names. Without it nothing is shared.
func TestMerge(t *testing.T) {
	for _, v := range families() {
		for _, merge := range []bool{true, false} {
			cfg := machine.DefaultConfig()
			cfg.Merge = merge
			m := machine.New(cfg)
			t.Cleanup(m.Close)
			in := v.New(m)
			m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
				c.BeginLine(0, [2]int32{})
				merged(t, v.Name, in, c, merge)
				c.EndLine(machine.After)
			})
			if err := m.Sim().Run(nil); err != nil {
				t.Fatal(err)
			}
			if len(m.Faults()) > 0 {
				t.Error(v.Name, m.Faults())
			}
		}
	}
}

func merged(t *testing.T, name string, in impls.Instance, c *machine.Ctx, merge bool) {
	m, mem := c.Machine(), in.Memory()
	x, errX := in.Objects().NewCache(c, impls.NewSpec("x", 57))
	y, errY := in.Objects().NewCache(c, impls.NewSpec("y", 64))
	if errX != nil || errY != nil {
		t.Fatal(name, errX, errY)
	}
	a := x.Alloc(c, 0)
	mem.Fill(a, 64, 7)
	x.Free(c, a)
	b, d := y.Alloc(c, impls.FlagZero), x.Alloc(c, 0)
	if same := m.PageOf(b) == m.PageOf(d); same != merge || merge && b != a {
		t.Errorf("%s: %#x and %#x after %#x, merge %v", name, b, d, a, merge)
	}
	if at := mem.Verify(b, y.Size(), 0); at >= 0 || y.Size() != 64 {
		t.Errorf("%s: byte %d of %d not zeroed", name, at, y.Size())
	}
	var snap impls.Snapshot
	if in.Snapshot(&snap); (len(snap.Caches) == 1) != merge {
		t.Errorf("%s: %d caches, merge %v", name, len(snap.Caches), merge)
	}
	if err := y.Destroy(c); errors.Is(err, impls.ErrBusy) == merge {
		t.Errorf("%s: destroy of one name: %v", name, err)
	}
	if err := x.Destroy(c); !errors.Is(err, impls.ErrBusy) {
		t.Errorf("%s: destroy of the last name: %v", name, err)
	}
	y.Free(c, b)
	x.Free(c, d)
	if err := x.Destroy(c); err != nil {
		t.Errorf("%s: destroy: %v", name, err)
	}
	if in.Snapshot(&snap); merge && (len(snap.Slabs) > 0 || !snap.Caches[0].Dead) {
		t.Errorf("%s: %d slabs left, dead %v", name, len(snap.Slabs), snap.Caches[0].Dead)
	}
	z, err := in.Objects().NewCache(c, impls.NewSpec("z", 64))
	if in.Snapshot(&snap); err != nil || merge && len(snap.Caches) != 2 {
		t.Errorf("%s: %v, %d caches: the dead one was joined", name, err, len(snap.Caches))
	}
	z.Free(c, z.Alloc(c, 0))
	if err := z.Destroy(c); err != nil {
		t.Errorf("%s: destroy: %v", name, err)
	}
}

// TestMergeNative has threads make, use and destroy caches that are one.
func TestMergeNative(t *testing.T) {
	for _, v := range families() {
		cfg := machine.DefaultConfig()
		cfg.Merge, cfg.Native, cfg.CPUs, cfg.Pages = true, true, 2, 256
		m := machine.New(cfg)
		t.Cleanup(m.Close)
		in := v.New(m)
		o := in.Objects()
		keep, err := o.NewCache(nil, impls.NewSpec("keep", 64))
		if err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		for cpu := range 2 {
			wg.Go(func() {
				c := m.NativeCtx(cpu, "stress")
				defer c.Release()
				for n := range uint64(200) {
					k, err := o.NewCache(c, impls.NewSpec("k", 57+(n+uint64(cpu))%8))
					if err != nil {
						t.Error(v.Name, err)
						return
					}
					a := k.Alloc(c, impls.FlagZero)
					if a == 0 {
						t.Error(v.Name, "no memory")
						return
					}
					keep.Free(c, a)
					if err := k.Destroy(c); err != nil {
						t.Error(v.Name, err)
					}
				}
			})
		}
		wg.Wait()
		c := m.NativeCtx(0, "end")
		if err := keep.Destroy(c); err != nil {
			t.Error(v.Name, err)
		}
		c.Release()
		var s impls.Snapshot
		in.Snapshot(&s)
		s.Caches = slices.DeleteFunc(s.Caches,
			func(k impls.CacheState) bool { return k.Internal })
		if len(s.Caches) != 1 || len(s.Slabs) > 0 || len(m.Faults()) > 0 {
			t.Errorf("%s: %d caches, %d slabs, %v", v.Name, len(s.Caches), len(s.Slabs), m.Faults())
		}
	}
}
