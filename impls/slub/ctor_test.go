package slub_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// TestConstructor: every object of a new slab is constructed, once: what its owner leaves in
// it is what the next one gets. The link of a free object lies behind it, debugged or not, and
// nothing is poisoned.
func TestConstructor(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		for _, flags := range [][]string{nil, {"poison"}, all} {
			one(t, name, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
				spec := debugSpec(3, flags...)
				spec.Ctor, spec.MinPartial = true, 2
				k, err := in.Objects().NewCache(c, spec)
				if err != nil {
					t.Fatal(err)
				}
				mem, a := in.Memory(), k.Alloc(c, 0)
				s := snap(t, in)
				if at := s.Caches[0].LinkOffset; at < 64 {
					t.Errorf("%q: the link is at %d, inside the object", flags, at)
				}
				for i := range uint64(3) {
					at := s.Slabs[0].First + i*s.Caches[0].Stride
					if bad := mem.Verify(at, 64, impls.CtorPattern); bad >= 0 {
						t.Errorf("%q: object %d of the new slab differs at %d", flags, i, bad)
					}
				}
				mem.Fill(a, 64, 3)
				k.Free(c, a)
				if b := k.Alloc(c, 0); b != a || mem.Verify(b, 64, 3) >= 0 {
					t.Errorf("%q: %#x, then %#x, not as it was freed", flags, a, b)
				}
				k.Free(c, a)
			})
		}
	})
}
