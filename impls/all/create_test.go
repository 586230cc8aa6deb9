package all_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/machine"
)

// A request is a spec, and what the families that have slabs answer to it on a machine of
// 16 pages: refused by SLAB, by SLUB.
type request struct {
	size, align    uint64
	objects, order int
	flags          []string
	slab, slub     bool
}

// requests are at the bounds of what a spec may ask for. SLAB, as long as slabs describe
// themselves, takes a slab of any order
// that a page layer can have, SLUB none above the machine's.
var requests = []request{
	{1, 0, -1, -1, nil, false, false},
	{7, 1, -1, -1, nil, false, false},
	{64, 4096, -1, -1, nil, false, false},
	{64, 8192, -1, -1, nil, true, true},
	{64, 3, -1, -1, nil, true, true},
	{100, 24, -1, -1, nil, true, true},
	{4096, 0, -1, -1, nil, false, false},
	{4097, 0, -1, 0, nil, true, true},
	{4096, 0, -1, 0, nil, true, false}, // the description has no room beside it
	{16 * 4096, 0, -1, -1, nil, false, false},
	{16*4096 + 1, 0, -1, -1, nil, false, true},
	{4 << 20, 0, -1, -1, nil, true, true},
	{4<<20 + 1, 0, -1, -1, nil, true, true},
	{1 << 30, 0, -1, -1, nil, true, true},
	{0, 0, -1, -1, nil, true, true},
	{64, 0, 0, -1, nil, true, true},
	{64, 0, 60, 0, nil, false, false},
	{64, 0, 64, 0, nil, true, false},
	{64, 0, 65, 0, nil, true, true},
	{8, 0, 1, 11, nil, true, true},
	{8, 0, 1, 10, nil, false, true},
	{8, 0, 1, 4, nil, false, false},
	{8, 0, 32768, -1, nil, false, true},
	{8, 0, -1, -1, []string{"mystery"}, true, true},
	{8, 0, -1, -1, []string{"poison", "rcu"}, false, false},
	{64, 64, -1, -1, []string{"poison", "redzone", "sanity", "user"}, false, false},
	{64, 0, 64, 0, []string{"redzone"}, true, true},
	{24, 0, -1, -1, []string{"nomerge", "panic", "reclaim"}, false, false},
}

// TestCreate asks every subject that makes caches for every spec. What is accepted works
// and gives every page back, what is refused has changed nothing.
func TestCreate(t *testing.T) {
	for _, v := range all.Variants() {
		if !v.Caps.Has(impls.CapObjects) {
			continue
		}
		m := machine.New(machine.DefaultConfig())
		t.Cleanup(m.Close)
		for i := range requests {
			r := &requests[i]
			m.Reset()
			in := v.New(m)
			t.Run(fmt.Sprintf("%s/%d", v.Name, i), func(t *testing.T) { r.ask(t, v, in, m) })
			in.Close()
		}
	}
}

func (r *request) ask(t *testing.T, v *impls.Variant, in impls.Instance, m *machine.Machine) {
	spec := impls.NewSpec("c", r.size)
	spec.Align, spec.Objects, spec.Order, spec.Flags = r.align, r.objects, r.order, r.flags
	panics := spec.Panics()
	m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		c.BeginLine(0, [2]int32{})
		var before, after impls.Snapshot
		shows := in.Snapshot(&before)
		s, err := in.Objects().NewCache(c, spec)
		if want, family := r.refused(v); family && errors.Is(err, impls.ErrInvalid) != want {
			t.Errorf("%+v: %v, want refused: %v", spec, err, want)
		}
		if err == nil {
			accepted(t, v, in, s, c)
			c.EndLine(machine.After)
			return
		}
		if in.Snapshot(&after); shows {
			if diff := cmp.Diff(before, after); diff != "" {
				t.Errorf("%+v refused has changed (-before +after):\n%s", spec, diff)
			}
		}
		if c.Refused() > 0 || panics && !errors.Is(err, impls.ErrUnsupported) {
			t.Errorf("%+v: %v, pages were asked for, or it did not stop", spec, err)
		}
		c.EndLine(machine.After)
	})
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
	if len(m.Faults()) > 0 || m.Halted() {
		t.Error(m.Faults(), m.Halted())
	}
}

// refused is what a family with slabs must answer.
func (r *request) refused(v *impls.Variant) (refused, family bool) {
	switch {
	case slices.ContainsFunc(v.Axes, func(a impls.Axis) bool { return a.Name == "management" }):
		return false, false // what is described elsewhere fits where its description does not
	case v.Rules.SLAB():
		return r.slab, true
	case v.Caps.Has(impls.CapDebug) && v.Caps.Has(impls.CapShrink) && v.Caps.Has(impls.CapPages):
		return r.slub, true
	}
	return false, false
}

// accepted uses a cache that was made: objects lie as was asked for and apart, and all
// pages come back.
func accepted(t *testing.T, v *impls.Variant, in impls.Instance, s impls.Cache, c *machine.Ctx) {
	var out []impls.Addr
	mem, size, align := in.Memory(), s.Size(), s.Align()
	if !v.Caps.Has(impls.CapAlign) {
		align = min(align, v.Profile.MinAlign)
	}
	for i := range 5 {
		a := s.Alloc(c, 0)
		if a == 0 {
			break
		}
		if a%align != 0 || !mem.Contains(a, size) {
			t.Errorf("%#x, %d bytes to a multiple of %d", a, size, align)
		}
		mem.Fill(a, size, impls.Pattern(i+1))
		out = append(out, a)
	}
	for i, a := range out {
		if at := mem.Verify(a, size, impls.Pattern(i+1)); at >= 0 {
			t.Errorf("%#x lost byte %d", a, at)
		}
		s.Free(c, a)
	}
	if err := s.Destroy(c); err != nil && v.Caps.Has(impls.CapDestroy) {
		t.Errorf("destroy: %v", err)
	}
	if in.Pages() != nil {
		in.Pages().Drain(c)
	}
	var snap impls.Snapshot
	if !in.Snapshot(&snap) {
		return
	}
	slabs, own := 0, 0 // of caches that are the allocator's own, which it may keep
	for i := range snap.Slabs {
		if b := &snap.Slabs[i]; snap.Caches[b.Cache].Internal {
			own += 1 << b.Order
		} else {
			slabs++
		}
	}
	if slabs > 0 || snap.PagesFree+own != snap.PagesTotal {
		t.Errorf("%d slabs and %d of %d pages left", slabs, snap.PagesFree, snap.PagesTotal)
	}
}

// TestVital: who asks for a cache with the flag panic and cannot have it has no answer:
// the kernel stops, and says for want of what. Before anything runs it is an answer.
func TestVital(t *testing.T) {
	for _, v := range all.Variants() {
		if !v.Caps.Has(impls.CapObjects|impls.CapDebug) || v.Rules.String() == "guard" {
			continue
		}
		m := machine.New(machine.DefaultConfig())
		t.Cleanup(m.Close)
		in := v.New(m)
		spec := impls.NewSpec("vital", 64)
		spec.Align, spec.Flags = 8192, []string{"panic", "rcu"}
		if _, err := in.Objects().NewCache(nil, spec); !errors.Is(err, impls.ErrInvalid) {
			t.Errorf("%s: at boot: %v", v.Name, err)
		}
		if at := spec.AtBoot(); at.Panics() || !at.RCU() || !spec.Panics() {
			t.Errorf("at boot the flags are %q, and %q", at.Flags, spec.Flags)
		}
		m.AddTask("cpu0", 0, 3, true, func(c *machine.Ctx) {
			c.BeginLine(3, [2]int32{})
			_, err := in.Objects().NewCache(c, spec)
			t.Errorf("%s: %v", v.Name, err)
		})
		if err := m.Sim().Run(nil); err != nil {
			t.Fatal(err)
		}
		p := impls.Panicked(m.LastWords())
		if !m.Halted() || p == nil || p.Cache != "vital" || p.Line != 3 ||
			!errors.Is(p.Err, impls.ErrInvalid) {
			t.Errorf("%s: halted %v with %+v", v.Name, m.Halted(), p)
		}
	}
}
