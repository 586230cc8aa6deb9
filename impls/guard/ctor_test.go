package guard

import (
	"testing"

	"allocfuzz/impls"
)

// TestConstructor: an object is constructed each time it is handed out, and nothing around it.
func TestConstructor(t *testing.T) {
	r := newRig(t, Options{})
	for _, flags := range [][]string{nil, {"poison"}, {"redzone"}} {
		spec := impls.NewSpec("c", 40)
		spec.Ctor, spec.Flags = true, flags
		k, err := caches{r.g}.NewCache(r.c, spec)
		if err != nil {
			t.Fatal(err)
		}
		a := k.Alloc(r.c, 0)
		if bad := r.toy.Verify(a, 40, impls.CtorPattern); bad >= 0 {
			t.Errorf("%q: the object that was handed out is not constructed at %d", flags, bad)
		}
		k.Free(r.c, a)
		r.want("constructed")
	}
}
