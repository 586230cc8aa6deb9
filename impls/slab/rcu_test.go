package slab_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// accounted demands so many slabs, blocks that wait, and free pages.
func (r *rig) accounted(when string, slabs, waiting, used int) {
	r.t.Helper()
	s := r.check()
	if len(s.Slabs) != slabs || len(s.Waiting) != waiting || s.PagesTotal-s.PagesFree != used {
		r.t.Errorf("%s: %d slabs, %d blocks wait, %d pages are not free; want %d, %d, %d", when,
			len(s.Slabs), len(s.Waiting), s.PagesTotal-s.PagesFree, slabs, waiting, used)
	}
}

// TestReadersKeepPages: a slab that is given back while somebody reads is no slab any more, and
// its pages are not free until the section ends. Whoever reads itself destroys the cache without
// waiting.
func TestReadersKeepPages(t *testing.T) {
	for _, flags := range [][]string{{"rcu"}, {"poison", "rcu", "redzone", "sanity"}} {
		each(t, func(t *testing.T, v *impls.Variant) {
			r := newRigOf(t, v, nil)
			spec := small(64, 2)
			spec.Flags = flags
			s := r.cache(spec)
			r.run(func(c *machine.Ctx) {
				a := r.alloc(c, s, 0)
				r.inst.Memory().Fill(a, 64, 7)
				r.op(c, c.RCUReadLock)
				r.free(c, s, a)
				r.op(c, func() {
					if n := s.Shrink(c); n != 1 {
						t.Errorf("shrink: %d pages", n)
					}
				})
				r.accounted("shrunk", 0, 1, 1)
				if bad := r.inst.Memory().Verify(a, 64, 7); bad >= 0 {
					t.Errorf("contents gone at %d", bad)
				}
				b := r.alloc(c, s, 0)
				r.free(c, s, b)
				r.op(c, func() {
					if err := s.Destroy(c); err != nil {
						t.Errorf("destroy: %v", err)
					}
				})
				if !r.check().Caches[0].Dead {
					t.Error("not destroyed")
				}
				r.accounted("destroyed", 0, 2, 2)
				r.op(c, c.RCUReadUnlock)
				r.op(c, func() { r.inst.Pages().Drain(c) })
				r.accounted("ended", 0, 0, 0)
			})
			if len(r.told) > 0 {
				t.Errorf("reported %s", r.told[0].Title)
			}
		})
	}
}
