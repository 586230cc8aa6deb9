package slab_test

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"allocfuzz/debugcheck"
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
	for _, letters := range []string{"", "FZPU"} {
		each(t, func(t *testing.T, v *impls.Variant) { stress(t, v, letters) })
	}
}

func stress(t *testing.T, v *impls.Variant, letters string) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs, cfg.Pages = true, 2, 256
	m := machine.New(cfg)
	inst := v.New(m)
	s, err := inst.Objects().NewCache(nil, flagged(64, 5, letters))
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
			for open := true; open; c.Poll() {
				var a impls.Addr
				select {
				case a, open = <-sent[1-i]:
					if open {
						s.Free(c, a)
					}
				default:
					runtime.Gosched()
				}
			}
		})
	}
	wg.Wait()
	c := m.NativeCtx(0, "end")
	if err := s.Destroy(c); err != nil {
		t.Error(err)
	}
	r := &rig{t: t, v: v, m: m, inst: inst}
	r.allBack()
	r.titles()
}

func native(t *testing.T, c *machine.Ctx, s impls.Cache, mem impls.Memory,
	out, in chan impls.Addr) {
	for n := range 3000 {
		c.Poll()
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
		if n%700 == 0 {
			if err := s.(impls.Tuner).Tune(c, n/700%3*4, 3); err != nil {
				t.Error(err)
			}
		}
	}
}

// TestDamagedWords damages the words of slabs at random amid allocations and frees:
// whatever is debugged, each run comes to an end, with a report or a finding or
// none, and can be looked at.
func TestDamagedWords(t *testing.T) {
	for _, letters := range []string{"F", "Z", "FZPU", "U"} {
		each(t, func(t *testing.T, v *impls.Variant) {
			r := newRigOf(t, v, nil)
			halts := 0
			for seed := range uint32(300) {
				r.reset()
				s := r.cache(flagged(64, 2, letters))
				r.run(func(c *machine.Ctx) { r.ruin(c, debugger(s), seed) })
				if r.m.Halted() {
					halts++
				}
				n := len(r.told)
				if r.m.Halted() != (n > 0 && r.told[n-1].Kind == debugcheck.Fatal) {
					t.Fatalf("seed %d: halted %v after %v", seed, r.m.Halted(), r.reports())
				}
				if !r.inst.Snapshot(&r.snap) {
					t.Fatal("no snapshot")
				}
			}
			if halts == 0 {
				t.Error("no run was stopped by a check")
			}
		})
	}
}

// ruin makes operations of every kind, a sixth of them damage.
func (r *rig) ruin(c *machine.Ctx, s impls.Debugger, rnd uint32) {
	var objs []impls.Addr
	for range 60 {
		rnd = rnd*1664525 + 1013904223
		n := int(rnd >> 8)
		at := func() int { return n / 16 % len(objs) }
		r.op(c, func() {
			switch what := n % 6; {
			case what < 3 || len(objs) == 0:
				if a := s.Alloc(c, 0); a != 0 {
					objs = append(objs, a)
				}
			case what == 3:
				s.Damage(c, debugcheck.SlabInuse, objs[at()], 1<<(n/512%3))
			case what == 4 && n%5 == 0:
				s.Damage(c, debugcheck.SlabFreelist, objs[at()], uint64(n/512))
			case what == 4 && n%5 == 1:
				if _, err := s.Validate(c); err != nil {
					r.t.Error(err)
				}
				s.Shrink(c)
			default:
				s.Free(c, objs[at()])
				objs = append(objs[:at()], objs[at()+1:]...)
			}
		})
	}
}
