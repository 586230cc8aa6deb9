package slub_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// all are the debug flags that a test turns on when it does not care.
var all = []string{"poison", "redzone", "sanity", "user"}

// A rig is one debugged cache on a machine with one task. Most tests use the variant
// that the flags are made for.
type rig struct {
	t  *testing.T
	c  *machine.Ctx
	m  *machine.Machine
	in impls.Instance
	impls.Debugger
}

const locked = "slub-2022-debug-locked"

// debugSpec is a cache of n objects of 64 bytes a slab that keeps no empty slab.
func debugSpec(n int, flags ...string) impls.CacheSpec {
	spec := impls.NewSpec("c", 64)
	spec.Objects, spec.MinPartial, spec.Flags = n, 0, flags
	return spec
}

// debugged runs f with a cache.
func debugged(t *testing.T, cfg machine.Config, spec impls.CacheSpec, f func(r *rig)) {
	t.Helper()
	one(t, locked, cfg, func(c *machine.Ctx, in impls.Instance) {
		r := &rig{t: t, c: c, m: c.Machine(), in: in}
		r.Debugger = r.cache(spec)
		f(r)
	})
}

func (r *rig) cache(spec impls.CacheSpec) impls.Debugger {
	r.t.Helper()
	k, err := r.in.Objects().NewCache(r.c, spec)
	if err != nil {
		r.t.Fatal(err)
	}
	return k.(impls.Debugger)
}

// says begins an operation, makes it, and wants its reports to have these titles. It
// returns the first report.
func (r *rig) says(what string, f func(), want ...string) *debugcheck.Report {
	r.t.Helper()
	r.c.BeginLine(0, [2]int32{})
	f()
	var got []string
	for _, n := range r.c.Notes() {
		got = append(got, n.(*debugcheck.Report).Title)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.t.Errorf("%s: reports (-want +got):\n%s", what, diff)
	}
	if len(got) == 0 {
		return nil
	}
	return r.c.Notes()[0].(*debugcheck.Report)
}

// alloc takes n objects without a report.
func (r *rig) alloc(n int) []impls.Addr {
	r.t.Helper()
	var got []impls.Addr
	for range n {
		r.says("alloc", func() { got = append(got, r.Alloc(r.c, 0)) })
	}
	if slices.Contains(got, 0) {
		r.t.Fatalf("no memory: %#x", got)
	}
	return got
}

// free gives an object back and wants these reports.
func (r *rig) free(a impls.Addr, want ...string) {
	r.t.Helper()
	r.says("free", func() { r.Free(r.c, a) }, want...)
}

// validate wants so many slabs checked and these reports.
func (r *rig) validate(slabs int, want ...string) {
	r.t.Helper()
	r.says("validate", func() {
		if n, err := r.Validate(r.c); n != slabs || err != nil {
			r.t.Errorf("validate: %d slabs, want %d: %v", n, slabs, err)
		}
	}, want...)
}

// flip inverts the byte at offset off of the object at a.
func (r *rig) flip(a impls.Addr, off int64) {
	r.in.Memory().Flip(a+uint64(off), 0xff)
}

// bytes is n bytes at a.
func (r *rig) bytes(a impls.Addr, n int) []byte {
	b := make([]byte, n)
	r.in.Memory().Read(a, b)
	return b
}

// slab is the state of the slab of a.
func (r *rig) slab(a impls.Addr) *impls.SlabState {
	r.t.Helper()
	b := snap(r.t, r.in).SlabOf(uint64(r.m.PageSize), a)
	if b == nil {
		r.t.Fatalf("%#x is in no slab", a)
	}
	return b
}

// where says which list the slab of a is on and how many of its objects are in use.
func (r *rig) where(a impls.Addr) string {
	r.t.Helper()
	b := r.slab(a)
	s := fmt.Sprintf("%d/%d", b.Inuse, b.Objects)
	for _, p := range b.On {
		if p.Kind != impls.OnList {
			r.t.Errorf("a slab of a debug cache belongs to a CPU: %+v", p)
		}
		s += fmt.Sprintf(" %s %d", map[impls.ListKind]string{
			impls.ListPartial: "partial", impls.ListFull: "full"}[p.List], p.At)
	}
	if b.Retired {
		s += " retired"
	}
	return s
}

// at wants the slab of a to be somewhere.
func (r *rig) at(a impls.Addr, want string) {
	r.t.Helper()
	if got := r.where(a); got != want {
		r.t.Errorf("slab of %#x: %s, want %s", a, got, want)
	}
}

// counts wants the stored counters.
func (r *rig) counts(partial, slabs int) {
	r.t.Helper()
	for _, n := range snap(r.t, r.in).Counts {
		want := map[string]int{"node.nr_partial": partial, "node.nr_slabs": slabs}
		if v, ok := want[n.Name]; ok && n.Stored != v {
			r.t.Errorf("%s is %d, want %d", n.Name, n.Stored, v)
		}
	}
}

// run is a byte repeated.
func run(v byte, n int) []byte { return slices.Repeat([]byte{v}, n) }

// TestDebugBytes looks at what lies around an object of 64 bytes with all flags: the
// worked example of 160 bytes, 8 of them in front.
func TestDebugBytes(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(3, all...), func(r *rig) {
		a := r.alloc(2)
		base := r.m.Base
		if diff := cmp.Diff([]impls.Addr{base + 8, base + 168}, a); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
		if b := r.slab(a[0]); b.First != base+8 {
			t.Errorf("first object %#x", b.First)
		}
		body := append(run(0x6b, 63), 0xa5)
		for _, tt := range []struct {
			what string
			at   impls.Addr
			want []byte
		}{
			{"left red zone", a[0] - 8, run(0xcc, 8)}, {"body", a[0], body},
			{"right red zone", a[0] + 64, run(0xcc, 8)}, {"padding", a[0] + 144, run(0x5a, 8)},
			{"free left", base + 320, run(0xbb, 8)}, {"free body", base + 328, body},
			{"free right", base + 328 + 64, run(0xbb, 8)},
			{"free end mark", base + 328 + 72, []byte{1, 0, 0, 0, 0, 0, 0, 0}},
			{"slab padding", base + 480, run(0x5a, 4096-480)},
		} {
			if diff := cmp.Diff(tt.want, r.bytes(tt.at, len(tt.want))); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tt.what, diff)
			}
		}
		r.free(a[0])
		if got := r.bytes(a[0]-8, 8); !slices.Equal(got, run(0xbb, 8)) {
			t.Errorf("left red zone of a free object: %x", got)
		}
		r.says("zeroed", func() {
			if z := r.Alloc(r.c, impls.FlagZero); z != a[0] {
				t.Errorf("%#x, want what was freed last, %#x", z, a[0])
			}
		})
		if got := r.bytes(a[0]-8, 80); !slices.Equal(got, slices.Concat(run(0xcc, 8), run(0, 64),
			run(0xcc, 8))) {
			t.Errorf("zeroed object: %x", got)
		}
	})
}

// TestDebugTracks: a report names who allocated and who freed.
func TestDebugTracks(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(3, all...), func(r *rig) {
		a := r.alloc(2)[0]
		r.c.BeginLine(7, [2]int32{})
		r.Free(r.c, a)
		r.flip(a, 5)
		rep := r.says("validate", func() { r.Validate(r.c) }, debugcheck.TitlePoison)
		if rep == nil {
			return
		}
		if !rep.Alloc.Set || rep.Alloc.Line != 0 || !rep.Free.Set || rep.Free.Line != 7 {
			t.Errorf("allocated by %+v, freed by %+v", rep.Alloc, rep.Free)
		}
		if rep.Free.Step <= rep.Alloc.Step || rep.Where.Step <= rep.Free.Step ||
			rep.Alloc.CPU != 0 || rep.Where.Task != "cpu0" {
			t.Errorf("allocated %+v, freed %+v, found %+v", rep.Alloc, rep.Free, rep.Where)
		}
		if rep.Object != a || rep.From != a+5 || rep.To != a+6 || rep.Cache != "c" {
			t.Errorf("report %+v", rep)
		}
	})
}

// TestDebugLists: where a slab is as it fills and empties, with a list of full slabs
// and without.
func TestDebugLists(t *testing.T) {
	for _, flags := range [][]string{all, {"sanity"}, {"redzone"}, {"poison"}, {"user"},
		{"trace"}} {
		full := map[bool]string{true: "2/2 full ", false: "2/2"}
		user := slices.Contains(flags, "user")
		place := func(n int) string {
			if !user {
				return full[false]
			}
			return full[true] + fmt.Sprint(n)
		}
		debugged(t, machineOf(1, 16), debugSpec(2, flags...), func(r *rig) {
			a := r.alloc(1)
			r.at(a[0], "1/2 partial 0")
			r.counts(1, 1)
			a = append(a, r.alloc(4)...) // two slabs are full, one has one in use
			r.at(a[0], place(0))
			r.at(a[2], place(1))
			r.at(a[4], "1/2 partial 0")
			r.counts(1, 3)
			r.free(a[3]) // was full: to the end
			r.free(a[0])
			r.at(a[4], "1/2 partial 0")
			r.at(a[2], "1/2 partial 1")
			r.at(a[0], "1/2 partial 2")
			if b := r.alloc(1)[0]; b/4096 != a[4]/4096 {
				t.Errorf("%v: %#x is not from the first slab", flags, b)
			}
			r.counts(2, 3)
			if n := map[bool]int{true: 3, false: 2}[user]; true {
				r.validate(n)
			}
			r.free(a[2]) // empty, and one more than none is kept
			if s := snap(t, r.in); len(s.Slabs) != 2 || s.PagesFree != 14 {
				t.Errorf("%v: %d slabs, %d pages free", flags, len(s.Slabs), s.PagesFree)
			}
			r.counts(1, 2)
		})
	}
}

// TestDebugKeeps: empty slabs stay while the node has fewer than it wants, until shrink.
func TestDebugKeeps(t *testing.T) {
	for keep, want := range []int{0, 1, 2, 3, 3} {
		spec := debugSpec(1, all...)
		spec.MinPartial = keep
		debugged(t, machineOf(1, 16), spec, func(r *rig) {
			for _, a := range r.alloc(3) {
				r.free(a)
			}
			r.counts(want, want)
			r.validate(want)
			if n := r.Shrink(r.c); n != 0 || r.Destroy(r.c) != nil {
				t.Errorf("keep %d: shrink %d", keep, n)
			}
			if s := snap(t, r.in); s.PagesFree != 16 {
				t.Errorf("keep %d: %d pages free", keep, s.PagesFree)
			}
		})
	}
}

// TestDebugRefused: a free that finds damage is refused once; the repair lets the next
// one pass. What was refused keeps its cache alive.
func TestDebugRefused(t *testing.T) {
	tests := []struct {
		off  int64
		want string
	}{
		{64, debugcheck.TitleRightRedzone}, {71, debugcheck.TitleRightRedzone},
		{-1, debugcheck.TitleLeftRedzone}, {-8, debugcheck.TitleLeftRedzone},
	}
	for _, tt := range tests {
		debugged(t, machineOf(1, 16), debugSpec(2, all...), func(r *rig) {
			a := r.alloc(1)[0]
			r.flip(a, tt.off)
			r.free(a, tt.want)
			r.at(a, "1/2 partial 0")
			r.validate(1)
			if err := r.Destroy(r.c); err != impls.ErrBusy {
				t.Errorf("destroy: %v", err)
			}
			r.free(a)
			if err := r.Destroy(r.c); err != nil {
				t.Errorf("destroy: %v", err)
			}
		})
	}
	debugged(t, machineOf(1, 16), debugSpec(3, "sanity"), func(r *rig) {
		a := r.alloc(2)
		r.free(a[0])
		r.free(a[0], debugcheck.TitleAlreadyFree)
		r.free(a[1]+8, debugcheck.TitleInvalidPointer)
		r.free(a[0]+3*64, debugcheck.TitleInvalidPointer)
		r.at(a[0], "1/3 partial 0")
		r.validate(1)
	})
}

// TestDebugUnchecked: without consistency checks a free looks at nothing, and damage to
// red zones is gone with it.
func TestDebugUnchecked(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(3, "redzone"), func(r *rig) {
		a := r.alloc(2)
		r.flip(a[0], 64)
		r.free(a[0])
		r.validate(1)
		r.flip(a[1], 64)
		r.validate(1, debugcheck.TitleRightRedzone)
		r.flip(a[0], 64)
		if b := r.alloc(1)[0]; b != a[0] {
			t.Errorf("%#x, want %#x", b, a[0])
		}
	})
}

// TestRetired: a slab whose next object fails its check is given up, and the
// allocation goes on as if nothing were.
func TestRetired(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(3, all...), func(r *rig) {
		a := r.alloc(2)
		r.free(a[1])
		r.flip(a[1], 0)
		var b impls.Addr
		r.says("alloc", func() { b = r.Alloc(r.c, 0) }, debugcheck.TitlePoison)
		if b == 0 || b/4096 == a[0]/4096 {
			t.Errorf("%#x comes from the slab of %#x", b, a[0])
		}
		r.at(a[0], "3/3 retired")
		if s := r.slab(a[0]); len(s.Free) != 0 || !s.Frozen {
			t.Errorf("retired slab %+v", s)
		}
		r.counts(1, 2)
		// Counted, and on no list: validation misses it, as the kernel's does.
		r.validate(1, debugcheck.TitleNrSlabs)
		r.free(a[0], debugcheck.TitleSlabDisabled)
		r.free(b)
		r.counts(0, 1)
		if err := r.Destroy(r.c); err != impls.ErrBusy {
			t.Errorf("destroy: %v", err)
		}
		c := r.alloc(1)[0]
		r.at(c, "1/3 partial 0")
	})
}

// TestRetiredInARow: one allocation goes through all bad slabs.
func TestRetiredInARow(t *testing.T) {
	spec := debugSpec(2, "sanity", "poison")
	spec.MinPartial = 3
	debugged(t, machineOf(1, 16), spec, func(r *rig) {
		a := r.alloc(6)
		for i := 0; i < 6; i += 2 {
			r.free(a[i])
			if i < 4 {
				r.flip(a[i], 63)
			}
		}
		var b impls.Addr
		r.says("alloc", func() { b = r.Alloc(r.c, 0) }, debugcheck.TitleEndPoison,
			debugcheck.TitleEndPoison)
		if b != a[4] {
			t.Errorf("%#x, want %#x", b, a[4])
		}
		r.counts(0, 3)
	})
}

// TestWrongCache: an object of another cache goes home, whether that one is debugged
// or not; what is in no slab, or nowhere, goes nowhere.
func TestWrongCache(t *testing.T) {
	for _, flags := range [][]string{all, nil} {
		debugged(t, machineOf(1, 16), debugSpec(3, all...), func(r *rig) {
			spec := debugSpec(3, flags...)
			spec.Name = "other"
			other := r.cache(spec)
			a := other.Alloc(r.c, 0)
			rep := r.says("free", func() { r.Free(r.c, a) }, debugcheck.TitleWrongCache)
			if rep == nil || rep.Cache != "other" || rep.Object != a ||
				rep.Alloc.Set != (flags != nil) || rep.Free.Set {
				t.Errorf("report %+v", rep)
			}
			if b := other.Alloc(r.c, 0); b != a {
				t.Errorf("%#x, want %#x, which was freed", b, a)
			}
			p := r.in.Pages().AllocPages(r.c, 0, 0)
			r.free(p, debugcheck.TitleNotSlab)
			r.free(8, debugcheck.TitleNotSlab)
			r.in.Pages().FreePages(r.c, p)
		})
	}
}

// TestDiscardChecks: the objects of a slab are looked at before its pages go.
func TestDiscardChecks(t *testing.T) {
	for _, want := range [][]string{{debugcheck.TitleRightRedzone}, nil} {
		flags := all
		if want == nil {
			flags = []string{"poison", "redzone", "user"}
		}
		debugged(t, machineOf(1, 16), debugSpec(3, flags...), func(r *rig) {
			a := r.alloc(2)
			r.free(a[0])
			r.flip(a[0], 64)
			r.free(a[1], want...)
			if s := snap(t, r.in); s.PagesFree != 16 {
				t.Errorf("%d pages free", s.PagesFree)
			}
		})
	}
}

// TestDamage: what each stored field does to the next operation, and that nothing
// hangs or ends the run, with checks and without.
func TestDamage(t *testing.T) {
	free := func(r *rig, a []impls.Addr) { r.Free(r.c, a[0]) }
	alloc := func(r *rig, _ []impls.Addr) { r.Alloc(r.c, 0) }
	validate := func(r *rig, _ []impls.Addr) { r.Validate(r.c) }
	tests := []struct {
		region debugcheck.Region
		mask   uint64
		next   func(r *rig, a []impls.Addr)
		want   string
	}{
		{debugcheck.SlabInuse, 0x8000, free, debugcheck.TitleInuseMax},
		{debugcheck.SlabInuse, 0x8000, alloc, debugcheck.TitleInuseMax},
		{debugcheck.SlabInuse, 3, free, debugcheck.TitleCountWrong},
		{debugcheck.SlabInuse, 3, validate, debugcheck.TitleCountWrong},
		{debugcheck.SlabObjects, 8, free, debugcheck.TitleObjectsMax},
		{debugcheck.SlabObjects, 8, alloc, debugcheck.TitleObjectsMax},
		{debugcheck.SlabFrozen, 1, free, debugcheck.TitleSlabDisabled},
		{debugcheck.SlabFrozen, 1, alloc, debugcheck.TitleSlabDisabled},
		{debugcheck.SlabFrozen, 1, validate, debugcheck.TitleSlabDisabled},
		{debugcheck.SlabFreelist, 4, alloc, debugcheck.TitleFreelistHead},
		{debugcheck.SlabFreelist, 1 << 63, alloc, debugcheck.TitleFreelistHead},
		{debugcheck.SlabFreelist, 4, free, debugcheck.TitleFreepointer},
		{debugcheck.SlabFreelist, 4, validate, debugcheck.TitleFreepointer},
		{debugcheck.NrPartial, 1, validate, debugcheck.TitleNrPartial},
		{debugcheck.NrSlabs, 1 << 63, validate, debugcheck.TitleNrSlabs},
	}
	for _, tt := range tests {
		debugged(t, machineOf(1, 16), debugSpec(4, all...), func(r *rig) {
			a := r.alloc(2)
			before, _ := r.Slab(a[0])
			r.says("damage", func() {
				if !r.Damage(r.c, tt.region, a[0], tt.mask) {
					t.Errorf("%s: not damaged", tt.region)
				}
			})
			if after, _ := r.Slab(a[0]); tt.region.OfSlab() == (before == after) {
				t.Errorf("%s: %+v, before %+v", tt.region, after, before)
			}
			r.c.BeginLine(0, [2]int32{})
			tt.next(r, a)
			var got []string
			for _, n := range r.c.Notes() {
				got = append(got, n.(*debugcheck.Report).Title)
			}
			if !slices.Contains(got, tt.want) {
				t.Errorf("%s ^ %#x: reports %q, want %q", tt.region, tt.mask, got, tt.want)
			}
		})
		debugged(t, machineOf(1, 16), debugSpec(4, "user"), func(r *rig) {
			a := r.alloc(2)
			r.Damage(r.c, tt.region, a[0], tt.mask)
			for range 20 {
				r.c.BeginLine(0, [2]int32{})
				b := r.Alloc(r.c, 0)
				s, _ := r.Slab(b)
				s.Objects = 4
				if _, ok := r.Layout().Index(&s, b); !ok && tt.region == debugcheck.SlabFreelist {
					t.Errorf("%#x, which is no object, handed out", b)
				}
			}
			tt.next(r, a)
			r.Free(r.c, a[1])
			r.Validate(r.c)
			r.Shrink(r.c)
			r.Destroy(r.c)
		})
	}
}

// TestNoField: what is no stored field, or of no slab, is not damaged.
func TestNoField(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(4, "sanity"), func(r *rig) {
		a := r.alloc(1)[0]
		for _, tt := range []struct {
			region debugcheck.Region
			a      impls.Addr
			mask   uint64
		}{
			{debugcheck.SlabCache, a, 1}, {debugcheck.Object, a, 1},
			{debugcheck.SlabInuse, a + 4096, 1}, {debugcheck.SlabInuse, 0, 1},
			{debugcheck.SlabInuse, a, 0}, {debugcheck.SlabInuse, a, 1 << 16},
			{debugcheck.SlabObjects, a, 1 << 15}, {debugcheck.SlabFrozen, a, 2},
			{debugcheck.NrPartial, 0, 0},
		} {
			if r.Damage(r.c, tt.region, tt.a, tt.mask) {
				t.Errorf("%s of %#x damaged by %#x", tt.region, tt.a, tt.mask)
			}
		}
		if !r.Damage(r.c, debugcheck.NrPartial, 0, 1) {
			t.Error("a counter needs no slab")
		}
		if _, ok := r.Slab(a + 4096); ok {
			t.Error("a slab where none is")
		}
		plain := r.cache(impls.NewSpec("plain", 64))
		b := plain.Alloc(r.c, 0)
		if _, err := plain.Validate(r.c); err != impls.ErrInvalid || plain.Layout() != nil ||
			plain.Damage(r.c, debugcheck.SlabInuse, b, 1) ||
			plain.Damage(r.c, debugcheck.NrSlabs, b, 1) {
			t.Errorf("a cache without flags is debugged: %v", err)
		}
		if _, ok := plain.Slab(b); ok {
			t.Error("a cache without flags describes its slab")
		}
	})
}

// TestCutList: a validation that cuts a damaged freelist leaves a slab on the partial
// list that has nothing to give. Allocations pass it by, and its objects come back.
func TestCutList(t *testing.T) {
	for _, flags := range [][]string{all, {"redzone", "poison"}} {
		debugged(t, machineOf(1, 16), debugSpec(3, flags...), func(r *rig) {
			a := r.alloc(2)
			r.Damage(r.c, debugcheck.SlabFreelist, a[0], 2)
			r.validate(1, debugcheck.TitleFreepointer)
			r.at(a[0], "3/3 partial 0")
			b := r.alloc(1)[0]
			if b/4096 == a[0]/4096 {
				t.Errorf("%#x comes from a slab without free objects", b)
			}
			r.free(a[0])
			r.at(a[0], "2/3 partial 1")
			if c := r.alloc(3)[2]; c != a[0] {
				t.Errorf("%#x, want %#x", c, a[0])
			}
		})
	}
}

// TestObjectsRepaired: a free stores the number of objects that it repaired, when it is
// all that was wrong.
func TestObjectsRepaired(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(3, all...), func(r *rig) {
		a := r.alloc(3)
		r.free(a[0])
		r.Damage(r.c, debugcheck.SlabObjects, a[0], 1) // 2, and the last object is beyond
		r.free(a[1], debugcheck.TitleObjectsWrong)
		r.at(a[0], "1/3 partial 0")
		r.free(a[2])
	})
}

// TestDamageShows: a damaged head, also one that other caches take for an end, and a
// damaged counter, which keeps the cache from being destroyed.
func TestDamageShows(t *testing.T) {
	debugged(t, machineOf(1, 16), debugSpec(3, all...), func(r *rig) {
		a := r.alloc(2)[0]
		r.Damage(r.c, debugcheck.SlabInuse, a, 3)
		r.free(a+r.Layout().Stride, debugcheck.TitleCountWrong) // repaired first, then done
		r.at(a, "1/3 partial 0")
		r.Damage(r.c, debugcheck.SlabFreelist, a, 3)
		if b := r.slab(a); b.FreeEnd != impls.EndLeaves || len(b.Free) != 1 {
			t.Errorf("%#x, end %d", b.Free, b.FreeEnd)
		}
		r.Damage(r.c, debugcheck.SlabFreelist, a, 3)
		r.free(a)
		for _, region := range []debugcheck.Region{debugcheck.NrPartial, debugcheck.NrSlabs} {
			r.Damage(r.c, region, 0, 2)
			if err := r.Destroy(r.c); err != impls.ErrBusy {
				t.Errorf("destroy with damaged %s: %v", region, err)
			}
			r.Damage(r.c, region, 0, 2)
		}
		if err := r.Destroy(r.c); err != nil {
			t.Error(err)
		}
	})
}

// TestBrokenLink: the link of a free object leads nowhere. It is never followed.
func TestBrokenLink(t *testing.T) {
	for _, flags := range [][]string{all, {"poison"}, {"user"}} {
		debugged(t, machineOf(1, 16), debugSpec(4, flags...), func(r *rig) {
			a := r.alloc(1)[0]
			r.flip(a+r.Layout().Stride, int64(r.Layout().Link)+3) // of the next to go out
			r.c.BeginLine(0, [2]int32{})
			if slices.Contains(flags, "sanity") {
				r.says("alloc", func() { r.Alloc(r.c, 0) }, debugcheck.TitleFreepointer)
			} else {
				r.alloc(1)
			}
			if s, _ := r.Slab(a); s.Freelist != 1 {
				t.Errorf("%q: the freelist goes on at %#x", flags, s.Freelist)
			}
			for range 12 {
				if b := r.Alloc(r.c, 0); !r.in.Memory().Contains(b, 64) {
					t.Fatalf("%#x handed out", b)
				}
			}
			r.Validate(r.c)
		})
	}
}
