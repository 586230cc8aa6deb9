package oracle_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// twoSlabs has two slabs of a cache, and one of the cache whose objects describe them.
const twoSlabs = "cache c size=64\ncache m size=128\ncpu0 a = alloc c\ncpu0 b = alloc c\n" +
	"cpu0 d = alloc c\ncpu0 e = alloc c\ncpu0 f = alloc c\ncpu0 z = alloc m\ncheck\n"

// described bends a snapshot in which the slabs of the first cache are described in objects
// of the second, as is right, but for what f changes.
func described(f func(s *impls.Snapshot, slabs []*impls.SlabState, m *impls.SlabState)) toyBug {
	return toyBug{show: func(t *toy, s *impls.Snapshot) {
		var of []*impls.SlabState
		var in *impls.SlabState
		for i := range s.Slabs {
			if b := &s.Slabs[i]; b.Cache == 0 {
				of = append(of, b)
			} else {
				in = b
			}
		}
		if len(of) < 2 || in == nil {
			return
		}
		c, m := &s.Caches[0], &s.Caches[1]
		c.OffSlab, c.Manager, c.Limit = true, m.Handle, toyObjects
		for _, b := range of {
			last := len(in.Free) - 1
			b.Manager, b.Managed = in.Free[last], 128
			in.Free = in.Free[:last]
		}
		resettle(in)
		f(s, of, in)
	}}
}

var managerRules = []rule{
	{title: fault.OffSlabLimit, text: twoSlabs, bug: described(
		func(s *impls.Snapshot, _ []*impls.SlabState, _ *impls.SlabState) {
			s.Caches[0].Limit = toyObjects - 1
		})},
	{title: fault.OffSlabLimit, how: "too many bytes", text: twoSlabs, bug: described(
		func(_ *impls.Snapshot, of []*impls.SlabState, _ *impls.SlabState) {
			of[1].Managed = 129
		})},
	{title: fault.OffSlabLimit, how: "from a cache of that kind", text: twoSlabs, bug: described(
		func(s *impls.Snapshot, of []*impls.SlabState, in *impls.SlabState) {
			s.Caches[1].OffSlab, s.Caches[1].Limit = true, toyObjects
			s.Caches[1].Manager = s.Caches[0].Handle
		})},
	{title: fault.OffSlabLimit, how: "from itself, which has no slab", bug: toyBug{
		show: func(_ *toy, s *impls.Snapshot) {
			s.Caches[0].OffSlab, s.Caches[0].Manager = true, s.Caches[0].Handle
		}}, text: "cache c size=64\ncpu0 z = malloc 8\ncheck\n"},
	{title: fault.OffSlabLimit, how: "from nowhere", bug: toyBug{
		show: func(_ *toy, s *impls.Snapshot) { s.Caches[0].OffSlab = true }},
		text: "cache c size=64\ncpu0 z = malloc 8\ncheck\n"},
	{title: fault.OutsideSlab, how: "of a description", text: twoSlabs, bug: described(
		func(_ *impls.Snapshot, of []*impls.SlabState, _ *impls.SlabState) {
			of[0].Manager += 8
		})},
	{title: fault.OutsideSlab, how: "of a description, in another cache", text: twoSlabs,
		bug: described(func(_ *impls.Snapshot, of []*impls.SlabState, in *impls.SlabState) {
			in.Free = append(in.Free, of[0].Manager)
			resettle(in)
			of[0].Manager = of[1].Free[0]
			of[1].Free = of[1].Free[1:]
			resettle(of[1])
		})},
	{title: fault.TwiceOut, how: "a description", text: twoSlabs, bug: described(
		func(_ *impls.Snapshot, of []*impls.SlabState, in *impls.SlabState) {
			in.Free = append(in.Free, of[0].Manager)
			resettle(in)
			of[0].Manager = of[1].Manager
		})},
	{title: fault.Overlap, how: "a description", text: twoSlabs, bug: described(
		func(_ *impls.Snapshot, of []*impls.SlabState, in *impls.SlabState) {
			in.Free = append(in.Free, of[0].Manager)
			resettle(in)
			of[0].Manager = in.First
		})},
	{title: fault.LiveOnFreelist, how: "a description", text: twoSlabs, bug: described(
		func(_ *impls.Snapshot, of []*impls.SlabState, in *impls.SlabState) {
			in.Free = append(in.Free, of[0].Manager)
			resettle(in)
		})},
	{title: fault.FreeLost, how: "a description", text: twoSlabs, bug: described(
		func(s *impls.Snapshot, of []*impls.SlabState, _ *impls.SlabState) {
			s.Caches[0].OffSlab = false
		})},
	{title: fault.FreeLost, how: "a description, at the end", bug: toyBug{show: leftBehind,
		setUp: withPages(1, 1)}, text: twoObjects + "cpu0 m = create size=128\n"},
}

// leftBehind shows, once the caches are destroyed, a slab of the allocator's own one, of
// which an object is in use that describes nothing.
func leftBehind(t *toy, s *impls.Snapshot) {
	if !t.caches[0].dead {
		return
	}
	s.Caches[1].Internal, s.Caches[1].Dead = true, false
	b := s.AddSlab()
	b.Cache, b.Page, b.Addr, b.First, b.Objects = 1, 20, 20*toyPage, 20*toyPage, toyObjects
	for i := uint64(1); i < toyObjects; i++ {
		b.Free = append(b.Free, b.First+i*s.Caches[1].Stride)
	}
	resettle(b)
}

// TestDescribed: what describes slabs as it should is no finding: neither live nor lost.
func TestDescribed(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	seen := 0
	bug := described(func(*impls.Snapshot, []*impls.SlabState, *impls.SlabState) { seen++ })
	res := r.Run(compile(t, "allocfuzz 1\n"+twoSlabs), toySubject(bug), oracle.Options{})
	if len(res.Faults) > 0 || seen == 0 {
		t.Errorf("%d snapshots, %q", seen, res.Faults)
	}
}
