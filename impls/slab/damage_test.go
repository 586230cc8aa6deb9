package slab_test

import (
	"fmt"
	"sync"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// TestDamage writes over a slab's management: runs end with findings, snapshots
// come to an end, and nothing panics.
func TestDamage(t *testing.T) {
	for _, fill := range []byte{0xff, 0x00, 0x05, 0x7f} {
		t.Run(fmt.Sprintf("%#x", fill), func(t *testing.T) {
			r := newRig(t, nil)
			s := r.cache(small(64, 3))
			r.run(func(c *machine.Ctx) {
				a := s.Alloc(c, 0)
				page := r.m.MemBytes(r.m.PageOf(a).Addr(), 48)
				for i := range page {
					page[i] = fill
				}
				for range 20 {
					r.op(c, func() {
						if b := s.Alloc(c, 0); b != 0 && !r.m.Contains(b, 64) {
							t.Errorf("object at %#x", b)
						}
					})
				}
				s.Free(c, a)
			})
			if !r.inst.Snapshot(&r.snap) {
				t.Error("no snapshot")
			}
			for _, f := range r.m.Faults() {
				if f.Title != fault.WildAddress {
					t.Errorf("%v", f)
				}
			}
		})
	}
}

// TestWrittenDescriptor writes over the descriptor of a slab in use: the run ends
// with a finding, and nothing panics.
func TestWrittenDescriptor(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(small(64, 3))
	r.run(func(c *machine.Ctx) {
		a := s.Alloc(c, 0)
		r.m.PageOf(a).Scribble(1 << 40)
		s.Free(c, a)
		s.Alloc(c, 0)
		t.Error("the run went on")
	})
	if !r.inst.Snapshot(&r.snap) {
		t.Error("no snapshot")
	}
	if len(r.m.Faults()) == 0 {
		t.Error("no finding")
	}
}

// TestWrittenLinks leads a list of slabs out of the arena.
func TestWrittenLinks(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(small(64, 1))
	r.run(func(c *machine.Ctx) {
		a, b := s.Alloc(c, 0), s.Alloc(c, 0)
		s.Free(c, a)
		s.Free(c, b)
		r.m.PageOf(b).Scribble(1 << 40)
		s.Shrink(c)
		t.Error("the run went on")
	})
	r.titles(fault.WildAddress)
	if !r.inst.Snapshot(&r.snap) {
		t.Error("no snapshot")
	}
}

// TestNative has goroutines allocate, free each other's objects and shrink.
func TestNative(t *testing.T) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs, cfg.Pages = true, 2, 256
	m := machine.New(cfg)
	inst := variant(t).New(m)
	s, err := inst.Objects().NewCache(nil, small(64, 5))
	if err != nil {
		t.Fatal(err)
	}
	sent := [2]chan impls.Addr{make(chan impls.Addr, 64), make(chan impls.Addr, 64)}
	var wg sync.WaitGroup
	for i := range cfg.CPUs {
		wg.Go(func() {
			c := m.NativeCtx(i, "stress")
			defer c.Release()
			native(t, c, s, inst.Memory(), sent[i], sent[1-i])
			close(sent[i])
			for a := range sent[1-i] {
				s.Free(c, a)
			}
		})
	}
	wg.Wait()
	c := m.NativeCtx(0, "end")
	if err := s.Destroy(c); err != nil {
		t.Error(err)
	}
	r := &rig{t: t, m: m, inst: inst}
	r.allBack()
	r.titles()
}

func native(t *testing.T, c *machine.Ctx, s impls.Cache, mem impls.Memory,
	out, in chan impls.Addr) {
	for n := range 3000 {
		a := s.Alloc(c, impls.FlagZero)
		if a == 0 {
			t.Error("no memory")
			return
		}
		if mem.Verify(a, s.Size(), 0) >= 0 {
			t.Error("not zeroed")
		}
		mem.Fill(a, s.Size(), impls.Pattern(n+1))
		select {
		case out <- a:
		default:
			s.Free(c, a)
		}
		select {
		case b, ok := <-in:
			if ok {
				s.Free(c, b)
			}
		default:
		}
		if n%500 == 0 {
			s.Shrink(c)
		}
	}
}
