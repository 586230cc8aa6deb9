package slab_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slab"
)

// A rig is a variant on a machine, with the objects that are live.
type rig struct {
	t    *testing.T
	v    *impls.Variant
	m    *machine.Machine
	inst impls.Instance
	snap impls.Snapshot
	live map[impls.Addr]bool
	line int
	told []*debugcheck.Report // by the debug checks
	// letters are the debug flags of the caches of everywhere.
	letters string
}

// variant finds a variant of the family by the end of its name, behind the year if it
// is of 2001.
func variant(name string) *impls.Variant {
	for _, v := range slab.Variants() {
		if v.Name == "slab-2001-"+name || v.Name == "slab-"+name {
			return v
		}
	}
	panic("no variant " + name)
}

// onOneList says whether v keeps all slabs of a cache on one list.
func onOneList(v *impls.Variant) bool { return strings.HasPrefix(v.Name, "slab-2001-onelist") }

// forgets says whether v puts every slab that was emptied at the tail of its list.
func forgets(v *impls.Variant) bool { return onOneList(v) && v.Name != "slab-2001-onelist-lifo" }

// each runs body for every variant.
func each(t *testing.T, body func(t *testing.T, v *impls.Variant)) {
	for _, v := range slab.Variants() {
		t.Run(v.Name, func(t *testing.T) { body(t, v) })
	}
}

func newRig(t *testing.T, change func(*machine.Config)) *rig {
	t.Helper()
	return newRigOf(t, variant("threelists"), change)
}

func newRigOf(t *testing.T, v *impls.Variant, change func(*machine.Config)) *rig {
	t.Helper()
	cfg := machine.DefaultConfig()
	if change != nil {
		change(&cfg)
	}
	m := machine.New(cfg)
	t.Cleanup(m.Close)
	return &rig{t: t, v: v, m: m, inst: v.New(m), live: map[impls.Addr]bool{}}
}

// reset starts over on the same machine.
func (r *rig) reset() {
	r.m.Reset()
	r.inst = r.v.New(r.m)
	clear(r.live)
	r.line, r.told = 0, nil
}

// cache makes a cache before anything runs.
func (r *rig) cache(spec impls.CacheSpec) impls.Cache {
	r.t.Helper()
	s, err := r.inst.Objects().NewCache(nil, spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// run runs body on CPU 0 alone.
func (r *rig) run(body func(c *machine.Ctx)) {
	r.t.Helper()
	r.m.AddTask("cpu0", 0, 0, true, body)
	r.finish(nil)
}

func (r *rig) finish(ch machine.Chooser) {
	r.t.Helper()
	if err := r.m.Sim().Run(ch); err != nil {
		r.t.Fatalf("%v\n%s", err, err.(*machine.Panic).Stack)
	}
}

// op is one operation: a line of its own, after which all must be in order.
func (r *rig) op(c *machine.Ctx, f func()) {
	c.BeginLine(r.line, [2]int32{})
	func() {
		defer r.listen(c)
		f()
	}()
	r.line++
	c.EndLine(r.line)
}

// listen takes down the reports of the operation, which may have ended the run.
func (r *rig) listen(c *machine.Ctx) {
	for _, n := range c.Notes() {
		r.told = append(r.told, n.(*debugcheck.Report))
	}
}

// alloc is an allocation as an operation.
func (r *rig) alloc(c *machine.Ctx, s impls.Cache, f impls.AllocFlags) (a impls.Addr) {
	r.op(c, func() { a = r.got(c, s, s.Alloc(c, f)) })
	return a
}

// got notes that a is live.
func (r *rig) got(c *machine.Ctx, s impls.Cache, a impls.Addr) impls.Addr {
	switch {
	case a == 0:
		if c.Refused() == 0 {
			r.t.Error("no memory though no page was refused")
		}
		return 0
	case r.live[a]:
		r.t.Errorf("%#x handed out twice", a)
	case a%s.Align() != 0:
		r.t.Errorf("%#x is not aligned to %d", a, s.Align())
	}
	r.live[a] = true
	return a
}

// free is a free as an operation.
func (r *rig) free(c *machine.Ctx, s impls.Cache, a impls.Addr) {
	delete(r.live, a)
	r.op(c, func() { s.Free(c, a) })
}

// check holds the snapshot against the invariants and the live objects.
func (r *rig) check() *impls.Snapshot {
	r.t.Helper()
	s := &r.snap
	if !r.inst.Snapshot(s) {
		r.t.Fatal("no snapshot")
	}
	owned := 0
	for i := range s.Slabs {
		owned += r.checkSlab(&s.Slabs[i])
	}
	for i := range s.Caches {
		r.checkOrder(i)
	}
	if owned != len(r.live) {
		r.t.Errorf("%d live objects in slabs, want %d", owned, len(r.live))
	}
	for _, n := range s.Counts {
		if n.Stored != n.Counted {
			r.t.Errorf("%s is %d, counted %d", n.Name, n.Stored, n.Counted)
		}
	}
	return s
}

func (r *rig) checkSlab(b *impls.SlabState) (live int) {
	r.t.Helper()
	k := r.snap.Caches[b.Cache]
	free := make(map[impls.Addr]bool, len(b.Free))
	for _, a := range b.Free {
		free[a] = true
	}
	for _, a := range b.CPUFree {
		if free[a] {
			r.t.Errorf("%#x: in an array, and free twice", a)
		}
		free[a] = true
	}
	for i := range b.Objects {
		a := b.First + uint64(i)*k.Stride
		if r.live[a] == free[a] {
			r.t.Errorf("%#x: live %v and free %v", a, r.live[a], free[a])
		}
		if r.live[a] {
			live++
		}
	}
	if b.FreeEnd != impls.EndOK || len(b.Free)+b.Inuse != b.Objects {
		r.t.Errorf("page %d: inuse %d and %d free of %d, end %d", b.Page, b.Inuse, len(b.Free),
			b.Objects, b.FreeEnd)
	}
	if b.Colour >= max(b.Colours, 1) {
		r.t.Errorf("page %d: colour %d of %d", b.Page, b.Colour, b.Colours)
	}
	end := b.First + uint64(b.Objects-1)*k.Stride + k.Size
	if limit := b.Addr + uint64(r.m.PageSize)<<b.Order; end > limit {
		r.t.Errorf("page %d: objects end at %#x, the slab at %#x", b.Page, end, limit)
	}
	want := impls.ListPartial
	switch b.Inuse {
	case 0:
		want = impls.ListFree
	case b.Objects:
		want = impls.ListFull
	}
	if k.Ordered {
		want = impls.ListAny
	}
	if len(b.On) != 1 || b.On[0].List != want {
		r.t.Errorf("page %d with %d of %d is on %v, want list %d", b.Page, b.Inuse, b.Objects, b.On,
			want)
	}
	return live
}

// checkOrder walks the one list of a cache that has one: full slabs, partial ones,
// free ones, and the first that is not full is the one that is stored.
func (r *rig) checkOrder(cache int) {
	r.t.Helper()
	k := r.snap.Caches[cache]
	if k.Ordered != onOneList(r.v) {
		r.t.Errorf("%s: ordered is %v", r.v.Name, k.Ordered)
	}
	if !k.Ordered {
		return
	}
	slabs := make([]*impls.SlabState, len(r.snap.Slabs))
	n := 0
	for i := range r.snap.Slabs {
		if b := &r.snap.Slabs[i]; b.Cache == cache && len(b.On) == 1 {
			slabs[b.On[0].At] = b
			n++
		}
	}
	slabs = slabs[:n]
	i := 0
	for i < n && slabs[i].Inuse == slabs[i].Objects {
		i++
	}
	if first := append(slabs[i:], nil)[0]; first == nil && k.FirstNotFull != -1 ||
		first != nil && k.FirstNotFull != first.Page {
		r.t.Errorf("first not full is page %d, slab %d of the list is %v", k.FirstNotFull, i, first)
	}
	for i < n && slabs[i].Inuse != 0 && slabs[i].Inuse != slabs[i].Objects {
		i++
	}
	for i < n && slabs[i].Inuse == 0 {
		i++
	}
	if i < n {
		r.t.Errorf("page %d with %d of %d is out of order", slabs[i].Page, slabs[i].Inuse,
			slabs[i].Objects)
	}
}

// order is the slabs of a list, by page, in order.
func order(s *impls.Snapshot, list impls.ListKind) []int {
	type place struct{ at, page int }
	var places []place
	for _, b := range s.Slabs {
		for _, on := range b.On {
			if on.List == list {
				places = append(places, place{on.At, b.Page})
			}
		}
	}
	slices.SortFunc(places, func(a, b place) int { return a.at - b.at })
	var pages []int
	for _, p := range places {
		pages = append(pages, p.page)
	}
	return pages
}

// titles compares what the machine found.
func (r *rig) titles(want ...fault.Title) {
	r.t.Helper()
	var got []fault.Title
	for _, f := range r.m.Faults() {
		got = append(got, f.Title)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("faults (-want +got):\n%s%v", diff, r.m.Faults())
	}
}

// allBack checks that every page is free.
func (r *rig) allBack() {
	r.t.Helper()
	if s := r.check(); s.PagesFree != s.PagesTotal || len(s.Slabs) != 0 {
		r.t.Errorf("%d of %d pages free, %d slabs", s.PagesFree, s.PagesTotal, len(s.Slabs))
	}
}

// small is a spec with n objects a slab.
func small(size uint64, n int) impls.CacheSpec {
	spec := impls.NewSpec("c", size)
	spec.Objects = n
	return spec
}
