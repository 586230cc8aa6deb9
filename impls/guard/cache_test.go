package guard

import (
	"errors"
	"strings"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// newCache makes a cache of 40 bytes with words for its debug options.
func (r *rig) newCache(name string, words ...string) impls.Debugger {
	r.Helper()
	spec := impls.NewSpec(name, 40)
	spec.Flags = words
	k, err := caches{r.g}.NewCache(r.c, spec)
	if err != nil {
		r.Fatal(err)
	}
	return k.(impls.Debugger)
}

// TestCacheFlags: words take the place of the options, the boot parameter that of both
// in the kernel's order, and no option at all is an allocator without a guard.
func TestCacheFlags(t *testing.T) {
	for _, s := range []struct {
		opt   debugcheck.Flags
		boot  string
		words string
		want  string // "" is no layout
		sizes string
	}{
		{0, "", "", "FZPU", "FZPU"},
		{debugcheck.Poison, "", "", "P", "P"},
		{debugcheck.Poison, "", "redzone user", "ZU", "P"},
		{0, "-", "", "", ""},
		{0, "-", "poison", "P", ""},
		{0, "FZ", "poison", "FZP", "FZ"},
		{0, "F;Z,a*", "", "Z", "F"},
		{0, "U,malloc", "", "", "U"},
		{0, "-", "failslab", "", ""},
	} {
		r := newRig(t, Options{})
		m := &machine.Machine{Config: machine.Config{Debug: s.boot}}
		r.g = newAllocator(r.toy, r.toy, Options{Flags: s.opt}, m)
		k := r.newCache("abc", strings.Fields(s.words)...)
		p, q := k.Alloc(r.c, 0), r.malloc(40)
		wantFlags(t, k, s.want)
		wantFlags(t, r.g.CacheOf(p), s.want)
		wantFlags(t, r.g.CacheOf(q), s.sizes)
		all := 0
		for _, f := range []string{s.want, s.sizes} {
			all += min(len(f), 1)
		}
		if n := r.g.Validate(r.c); n != all {
			t.Errorf("%+v: %d objects validated, want %d", s, n, all)
		}
		if s.sizes == "" {
			if r.toy.sizes[q] != 40 {
				t.Errorf("%+v: by size a block of %d bytes", s, r.toy.sizes[q])
			}
			r.g.Free(r.c, q)
			r.freed("no quarantine", q)
		}
		n, err := k.Validate(r.c)
		if (s.want == "") != errors.Is(err, impls.ErrInvalid) || s.want != "" && n != 1 {
			t.Errorf("%+v: validation of %d, %v", s, n, err)
		}
	}
}

// wantFlags demands the debug options of a cache, "" for no layout.
func wantFlags(t *testing.T, k impls.Cache, want string) {
	t.Helper()
	l := k.(impls.Debugger).Layout()
	if l == nil && want != "" || l != nil && l.Flags.String() != want {
		t.Errorf("layout %+v, want options %q", l, want)
	}
}

// TestCacheRefusals: what a cache cannot be.
func TestCacheRefusals(t *testing.T) {
	r := newRig(t, Options{})
	for _, s := range []struct {
		set  func(*impls.CacheSpec)
		want error
	}{
		{func(s *impls.CacheSpec) { s.Ctor, s.Kmalloc = true, true }, impls.ErrInvalid},
		{func(s *impls.CacheSpec) { s.Flags = []string{"poison", "red"} }, impls.ErrInvalid},
		{func(s *impls.CacheSpec) { s.Size = 0 }, impls.ErrInvalid},
		{func(s *impls.CacheSpec) { s.Size = 1<<64 - 1 }, impls.ErrInvalid},
		{func(s *impls.CacheSpec) { s.Align = 24 }, impls.ErrInvalid},
	} {
		spec := impls.NewSpec("c", 40)
		s.set(&spec)
		if k, err := (caches{r.g}).NewCache(r.c, spec); k != nil || !errors.Is(err, s.want) {
			t.Errorf("%+v: %v, %v, want %v", spec, k, err, s.want)
		}
	}
	if l := r.newCache("c", "rcu", "poison").Layout(); !l.RCU || l.Body {
		t.Errorf("objects that may be read after their free are poisoned: %+v", l)
	}
}

// TestCacheOrder: objects of a cache are validated, described, freed and destroyed as
// its own.
func TestCacheOrder(t *testing.T) {
	r := newRig(t, Options{})
	a, b := r.newCache("a"), r.newCache("b", "redzone")
	p, q := a.Alloc(r.c, impls.FlagZero), b.Alloc(r.c, 0)
	if r.toy.Verify(p, 40, 0) >= 0 {
		t.Error("not zeroed")
	}
	for _, x := range []struct {
		k  impls.Debugger
		at impls.Addr
		ok bool
	}{{a, p, true}, {a, p - pad, true}, {a, p - pad - 1, false}, {a, q, false}, {b, q, true},
		{a, p + a.Layout().Stride - pad - 1, true}, {a, p + a.Layout().Stride - pad, false},
		{a, 0, false}} {
		s, ok := x.k.Slab(x.at)
		if ok != x.ok || ok && (s.Objects != 1 || s.Inuse != 1 || x.at < s.Addr ||
			x.at-s.Addr >= s.Bytes || s.Bytes != x.k.Layout().Stride) {
			t.Errorf("slab at %#x: %+v %v", x.at, s, ok)
		}
	}
	if a.Damage(r.c, debugcheck.SlabInuse, p, 1) || a.Size() != 40 || a.Align() != 8 {
		t.Error("damage, size or alignment")
	}
	r.toy.View(p+40, 1)[0]++
	r.toy.View(q+40, 1)[0]++
	if n, err := b.Validate(r.c); n != 1 || err != nil {
		t.Error(n, err)
	}
	if got := r.want("validation of b", "Right Redzone overwritten"); got.Cache != "b" {
		t.Errorf("of %s", got.Cache)
	}
	a.Free(r.c, p)
	r.want("free of a damaged object", "Right Redzone overwritten")
	if err := a.Destroy(r.c); !errors.Is(err, impls.ErrBusy) {
		t.Errorf("destroy: %v", err)
	}
	a.Free(r.c, p)
	if s, ok := a.Slab(p); !ok || s.Inuse != 0 || s.Freelist != p {
		t.Errorf("slab in quarantine: %+v %v", s, ok)
	}
	r.toy.View(p, 1)[0]++
	r.want("second free")
	r.freed("still in quarantine")
	if err := a.Destroy(r.c); err != nil {
		t.Errorf("destroy: %v", err)
	}
	r.want("destroy", "Poison overwritten")
	r.freed("destroy", p-pad)
	r.g.Free(r.c, r.malloc(8))
	b.Free(r.c, q)
	if n := b.Shrink(r.c); n != 1 {
		t.Errorf("shrink: %d", n)
	}
	r.freed("shrink", q-pad)
}

// TestWrongCache: an object freed to another cache goes back to its own, with a warning
// when the other is checked.
func TestWrongCache(t *testing.T) {
	r := newRig(t, Options{})
	a, b, plain := r.newCache("a"), r.newCache("b"), r.newCache("c", "redzone")
	p, q := a.Alloc(r.c, 0), a.Alloc(r.c, 0)
	b.Free(r.c, p)
	if got := r.want("to b", "Wrong slab cache"); got.Kind != debugcheck.Warn ||
		!strings.Contains(got.String(), "b") {
		t.Errorf("%s", got)
	}
	a.Free(r.c, p)
	r.want("it was freed", "Object already free")
	plain.Free(r.c, q)
	r.want("to c")
	if err := a.Destroy(r.c); err != nil {
		t.Error(err)
	}
	a.Free(r.c, 0x10)
	if got := r.want("no object", "Invalid object pointer"); got.Cache != "a" {
		t.Errorf("in cache %s", got.Cache)
	}
}

// TestSizesTable: the table of sizes has a bound, and what is live does not mind.
func TestSizesTable(t *testing.T) {
	r := newRig(t, Options{})
	p := r.malloc(1)
	r.toy.room = 0
	for size := range uint64(3 * sizesMax) {
		r.g.Malloc(r.c, size, 0)
	}
	if n := len(r.g.sizes); n > sizesMax {
		t.Errorf("%d sizes", n)
	}
	r.g.Free(r.c, p)
	r.want("free")
}
