package slab_test

import (
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// ctorSpec is a cache with a constructor, four objects a slab.
func ctorSpec(flags ...string) impls.CacheSpec {
	spec := impls.NewSpec("c", 40)
	spec.Ctor, spec.Objects, spec.Flags = true, 4, flags
	return spec
}

// TestConstructor: the objects of a new slab are constructed, all of them and once. What is
// done to a free one since stays, but in 2.6 where the poison goes: there it is made anew at
// every allocation.
func TestConstructor(t *testing.T) {
	for _, tt := range []struct {
		rules string
		flags []string
		taken bool // made anew at each allocation
	}{
		{"", nil, false}, {"", []string{"poison", "redzone"}, false},
		{"2.6", []string{"redzone"}, false}, {"2.6", []string{"poison", "redzone"}, true},
		{"2.6", []string{"poison", "rcu"}, false},
	} {
		each(t, func(t *testing.T, v *impls.Variant) {
			r := newRigOf(t, v, func(c *machine.Config) { c.Rules = tt.rules })
			mem := r.inst.Memory()
			s := r.cache(ctorSpec(tt.flags...))
			r.run(func(c *machine.Ctx) {
				a := r.alloc(c, s, 0)
				r.inst.Snapshot(&r.snap)
				first, stride := r.snap.Slabs[0].First, r.snap.Caches[0].Stride
				for i := range uint64(4) {
					at := first + i*stride
					built := mem.Verify(at, 40, impls.CtorPattern) < 0
					if built != (!tt.taken || at == a) {
						t.Errorf("%+v: object %d of the new slab is constructed: %v", tt, i, built)
					}
				}
				mem.Fill(a, 40, 3)
				r.op(c, func() { s.Free(c, a) })
				delete(r.live, a)
				again := r.alloc(c, s, 0)
				built := mem.Verify(again, 40, impls.CtorPattern) < 0
				kept := mem.Verify(again, 40, 3) < 0
				if again != a || built != tt.taken || kept == tt.taken {
					t.Errorf("%+v: %#x again, constructed %v, as it was freed %v", tt, again, built,
						kept)
				}
			})
			if len(r.told) > 0 {
				t.Errorf("%+v: reported %s", tt, r.told[0].Title)
			}
		})
	}
}

// TestConstructorPoison: 2.4 has no poison beside a constructor, whatever was asked for.
func TestConstructorPoison(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(ctorSpec("poison", "redzone")).(impls.Debugger)
	if l := s.Layout(); l.Body || !l.Ctor || !l.Flags.Has(debugcheck.RedZone) {
		t.Errorf("%+v", l)
	}
}
