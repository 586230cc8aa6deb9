package kmalloc_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slab"
)

func TestCaches(t *testing.T) {
	m, inst := system(t, nil)
	mem := inst.Memory()
	o := kmalloc.Caches(inst.Sizes(), mem)
	for _, bad := range []struct {
		want error
		spec impls.CacheSpec
	}{
		{impls.ErrInvalid, impls.NewSpec("c", 0)},
		{impls.ErrInvalid, impls.CacheSpec{Size: 8, Align: 24}},
		{impls.ErrUnsupported, impls.CacheSpec{Size: 8, Flags: []string{"P"}}},
	} {
		if _, err := o.NewCache(nil, bad.spec); !errors.Is(err, bad.want) {
			t.Errorf("%v: %v, want %v", bad.spec, err, bad.want)
		}
	}
	for _, align := range []uint64{0, 2, 8, 64, 4096} {
		spec := impls.NewSpec("c", 40)
		spec.Align = align
		s, err := o.NewCache(nil, spec)
		if err != nil {
			t.Fatal(err)
		}
		t.Run(fmt.Sprint(align), func(t *testing.T) { objects(t, m, mem, s, align) })
		m.Reset()
		inst = slab.Variants()[0].New(m)
		o = kmalloc.Caches(inst.Sizes(), mem)
	}
}

func objects(t *testing.T, m *machine.Machine, mem impls.Memory, s impls.Cache, align uint64) {
	if s.Size() != 40 || s.Align() < max(align, 8) {
		t.Errorf("size %d, align %d", s.Size(), s.Align())
	}
	run(t, m, func(c *machine.Ctx) {
		a, b := s.Alloc(c, 0), s.Alloc(c, 0)
		if a == 0 || a == b || a%s.Align() != 0 || b%s.Align() != 0 {
			t.Errorf("%#x and %#x", a, b)
		}
		mem.Fill(a, 40, 7)
		if err := s.Destroy(c); !errors.Is(err, impls.ErrBusy) {
			t.Errorf("destroy with two live: %v", err)
		}
		s.Free(c, a)
		if got := s.Alloc(c, impls.FlagZero); got != a || mem.Verify(a, 40, 0) >= 0 {
			t.Errorf("%#x, want %#x zeroed", got, a)
		}
		if n := s.Shrink(c); n != 0 {
			t.Errorf("shrink: %d", n)
		}
		s.Free(c, a)
		if err := s.Destroy(c); !errors.Is(err, impls.ErrBusy) {
			t.Errorf("destroy with one live: %v", err)
		}
		s.Free(c, b)
		if err := s.Destroy(c); err != nil {
			t.Error(err)
		}
	})
}

// TestCachesConstruct: an allocator knows no constructor, so that it is called for whatever it
// hands out, aligned or not.
func TestCachesConstruct(t *testing.T) {
	m, inst := system(t, nil)
	o, mem := kmalloc.Caches(inst.Sizes(), inst.Memory()), inst.Memory()
	run(t, m, func(c *machine.Ctx) {
		for _, align := range []uint64{0, 256} {
			spec := impls.NewSpec("c", 40)
			spec.Align, spec.Ctor = align, true
			s, err := o.NewCache(c, spec)
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				a := s.Alloc(c, 0)
				if bad := mem.Verify(a, 40, impls.CtorPattern); bad >= 0 {
					t.Errorf("align %d: differs at %d", align, bad)
				}
				mem.Fill(a, 48, 3)
				s.Free(c, a)
			}
		}
	})
}

// sparse has one piece of aligned memory or none, which it does not zero, and says
// how it aligns.
type sparse struct {
	impls.Allocator
	at      impls.Addr
	aligned []uint64
}

func (a *sparse) MinAlign() uint64 { return 16 }

func (a *sparse) Malloc(*machine.Ctx, uint64, impls.AllocFlags) impls.Addr { return 0 }

func (a *sparse) Memalign(_ *machine.Ctx, align, _ uint64, _ impls.AllocFlags) impls.Addr {
	a.aligned = append(a.aligned, align)
	return a.at
}

// TestCachesAsk: Memalign is for what the allocator does not promise anyway, and
// what was refused is not live.
func TestCachesAsk(t *testing.T) {
	m, inst := system(t, nil)
	a := &sparse{}
	o := kmalloc.Caches(a, inst.Memory())
	run(t, m, func(c *machine.Ctx) {
		for _, align := range []uint64{0, 8, 16, 32, 64} {
			spec := impls.NewSpec("c", 8)
			spec.Align = align
			s, err := o.NewCache(c, spec)
			if err != nil || s.Alloc(c, impls.FlagZero) != 0 || s.Destroy(c) != nil {
				t.Errorf("align %d: %v", align, err)
			}
		}
	})
	a.at = m.Base
	inst.Memory().Fill(m.Base, 24, 9)
	run(t, m, func(c *machine.Ctx) {
		spec := impls.NewSpec("c", 16)
		spec.Align = 128
		s, _ := o.NewCache(c, spec)
		if p := s.Alloc(c, 0); inst.Memory().Verify(p, 24, 9) >= 0 {
			t.Error("written though nobody asked")
		}
		if p := s.Alloc(c, impls.FlagZero); inst.Memory().Verify(p, 16, 0) >= 0 {
			t.Error("not zeroed")
		}
	})
	if diff := cmp.Diff([]uint64{32, 64, 128, 128}, a.aligned); diff != "" {
		t.Error(diff)
	}
}
