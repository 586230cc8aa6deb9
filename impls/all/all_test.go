package all_test

import (
	"errors"
	"regexp"
	"strings"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

func TestNames(t *testing.T) {
	named := map[string]bool{}
	for _, v := range all.Variants() {
		for _, name := range []string{v.Name, v.Alias} {
			if name == "" && v.Name != "" {
				continue
			}
			if named[name] {
				t.Errorf("%s is the name of two variants", name)
			}
			named[name] = true
			if got, ok := all.Lookup(name); !ok || got != v {
				t.Errorf("lookup of %s found %v", name, got)
			}
		}
		if !regexp.MustCompile(`^[a-z]+(-[a-z0-9]+)+$`).MatchString(v.Name) {
			t.Errorf("%q is no name", v.Name)
		}
	}
	for _, none := range []string{"", "slab", "SLAB-2001-threelists"} {
		if v, ok := all.Lookup(none); ok || v != nil {
			t.Errorf("lookup of %q found %v", none, v)
		}
	}
	names := all.Names()
	if len(names) != len(all.Variants()) || len(names) < 7 || names[0] != "slab-2001-threelists" {
		t.Errorf("%d names: %v", len(names), names)
	}
	if v, _ := all.Lookup("slab-locked"); v == nil || v.Name != names[0] {
		t.Errorf("slab-locked is %v", v)
	}
}

// TestRows: the required subjects are here with the rows of the seed table.
func TestRows(t *testing.T) {
	rows := map[string]string{
		"slab-2001-threelists":             "S1c",
		"slub-2008-irqsave":                "S2a",
		"slub-2008-cmpxchg":                "S2b",
		"slub-2008-seq":                    "S2c",
		"slub-2008-seq-slowpath":           "S2g",
		"slub-2011-tid":                    "S2c",
		"slub-2021-partial-irqsave-pools":  "S4b, S1h",
		"slub-2021-tid-partial":            "S4b, S2c",
		"slub-2021-partial-cmpxchg":        "S4a",
		"slub-2021-partial-cmpxchg-irqson": "S4a′",
		"slub-2021-partial-irqsave":        "S4b",
		"slub-2022-debug-racy":             "S5a",
		"slub-2022-debug-locked":           "S5b, S5c",
		"slab-2001-threelists-percpu":      "S1h",
		"page-buddy":                       "S1h",
		"page-2001-percpu":                 "S1h",
		"page-2001-percpu-preempt":         "S1h",
		"page-2001-percpu-irqfirst":        "S1h",
		"go-modernc-memory":                "",
		"go-wasm2go-sbrk":                  "",
		"go-wasm2go-tlsf":                  "",
		"go-wasm2go-bump":                  "",
		"go-gopkg-mcache":                  "",
		"go-modernc-memory-guarded":        "",
		"go-wasm2go-tlsf-guarded":          "",
		"slab-2001-onelist":                "S1a",
		"slab-2001-onelist-lifo":           "S1b",
		"slab-2001-onelist-lifo-posted":    "S1b′",
		"slab-2001-threelists-opt":         "S1d",
		"slab-2001-offslab":                "S1g",
		"slab-2001-offslab-half":           "S1g",
		"slab-colour-locked":               "S3a",
		"slab-colour-racy":                 "S3b",
		"slab-colour-unclamped":            "S3c",
		"slab-percpu":                      "S1f",
		"slab-percpu-oldest":               "S1f",
	}
	for name, row := range rows {
		v, ok := all.Lookup(name)
		if !ok {
			t.Errorf("no %s", name)
		} else if !strings.HasPrefix(v.Row, row) || (row == "") != (v.Row == "") {
			t.Errorf("%s is row %q, want %q", name, v.Row, row)
		}
	}
}

func TestVariants(t *testing.T) {
	row := regexp.MustCompile(`^S[1-5][a-i]`)
	for _, v := range all.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			if v.About == "" || strings.HasSuffix(v.About, ".") || v.Year < 1991 {
				t.Errorf("about %q of %d: want a phrase and a year", v.About, v.Year)
			}
			family := strings.HasPrefix(v.Name, "slab-") || strings.HasPrefix(v.Name, "slub-") ||
				strings.HasPrefix(v.Name, "page-")
			if family != row.MatchString(v.Row) {
				t.Errorf("row %q", v.Row)
			}
			if v.Sound == (v.Finds != impls.Finds{}) || !v.Sound && v.Finds.Consequence == "" {
				t.Errorf("sound %v and finds %+v", v.Sound, v.Finds)
			}
			for _, title := range []string{v.Finds.Step, v.Finds.Consequence} {
				if _, ok := fault.Lookup(fault.Title(title)); title != "" && !ok {
					t.Errorf("%q is no title", title)
				}
			}
			for _, f := range v.Racy {
				if f.Class != machine.ClassRacy || f.Reason == "" {
					t.Errorf("%s is listed: class %s, reason %q", f.Name(), f.Class, f.Reason)
				}
			}
			if v.Profile.Source == "" || v.Profile.MinAlign == 0 {
				t.Errorf("profile %+v", v.Profile)
			}
			if len(v.Machines) == 0 || (v.New == nil) == (v.Dial == nil) {
				t.Error("made for no machine, or by no constructor or two")
			}
			for _, a := range v.Axes {
				if a.Name == "" || a.Value == "" {
					t.Errorf("axis %+v", a)
				}
			}
		})
	}
}

// TestRacyFields: every racy field has its reason.
func TestRacyFields(t *testing.T) {
	for _, f := range machine.Fields() {
		if f.Class == machine.ClassRacy && f.Reason == "" {
			t.Errorf("%s has no reason", f.Name())
		}
	}
}

// each runs body on a fresh machine of every kind that every variant is made for.
func each(t *testing.T, body func(*testing.T, *impls.Variant, impls.Instance, *machine.Ctx)) {
	for _, v := range all.Variants() {
		for _, p := range v.Machines {
			t.Run(v.Name+"/"+p.String(), func(t *testing.T) {
				cfg := machine.DefaultConfig()
				cfg.Preempt = p
				m := machine.New(cfg)
				t.Cleanup(m.Close)
				i := v.New(m)
				defer i.Close()
				m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
					c.BeginLine(0, [2]int32{})
					body(t, v, i, c)
					c.EndLine(machine.After)
				})
				if err := m.Sim().Run(nil); err != nil {
					t.Fatal(err)
				}
				if len(m.Faults()) > 0 {
					t.Error(m.Faults())
				}
			})
		}
	}
}

// TestParts: an instance has exactly the parts that the capabilities name.
func TestParts(t *testing.T) {
	each(t, func(t *testing.T, v *impls.Variant, i impls.Instance, _ *machine.Ctx) {
		for _, part := range []struct {
			caps impls.Caps
			has  bool
		}{
			{impls.CapObjects, i.Objects() != nil},
			{impls.CapSizes, i.Sizes() != nil},
			{impls.CapPages, i.Pages() != nil},
		} {
			if v.Caps.Has(part.caps) != part.has {
				t.Errorf("%v declared %v, there %v", part.caps.Names(), v.Caps.Has(part.caps),
					part.has)
			}
		}
		if i.Memory() == nil {
			t.Error("no memory")
		}
	})
}

// TestCapabilities uses each capability that is declared once.
func TestCapabilities(t *testing.T) {
	each(t, func(t *testing.T, v *impls.Variant, i impls.Instance, c *machine.Ctx) {
		if v.Caps.Has(impls.CapObjects) {
			useObjects(t, v, i, c)
		}
		if v.Caps.Has(impls.CapSizes) {
			useSizes(t, v, i, c)
		}
		useHeld(t, v, i, c)
		if v.Caps.Has(impls.CapPages) {
			p := i.Pages().AllocPages(c, 1, 0)
			if p == 0 {
				t.Error("no pages")
			}
			i.Pages().FreePages(c, p)
			i.Pages().Drain(c)
		}
	})
}

func useObjects(t *testing.T, v *impls.Variant, i impls.Instance, c *machine.Ctx) {
	spec := impls.NewSpec("c", 48)
	if v.Caps.Has(impls.CapAlign) {
		spec.Align = 64
	}
	s, err := i.Objects().NewCache(c, spec)
	if err != nil {
		t.Fatal(err)
	}
	if s.Size() < 48 || spec.Align != 0 && s.Align()%spec.Align != 0 {
		t.Errorf("objects of %d bytes at multiples of %d", s.Size(), s.Align())
	}
	a, b := s.Alloc(c, 0), s.Alloc(c, impls.FlagAtomic)
	if a == 0 || b == 0 || a == b || a%s.Align() != 0 {
		t.Fatalf("objects at %#x and %#x", a, b)
	}
	i.Memory().Fill(a, 48, 9)
	if err := s.Destroy(c); v.Caps.Has(impls.CapDestroy) && !errors.Is(err, impls.ErrBusy) {
		t.Errorf("destroy with live objects: %v", err)
	}
	s.Free(c, a)
	if v.Caps.Has(impls.CapZero) {
		z := s.Alloc(c, impls.FlagZero)
		if v.Caps.Has(impls.CapReuseLIFO) && z != a {
			t.Errorf("%#x, want %#x, which was freed last", z, a)
		}
		if i.Memory().Verify(z, 48, 0) >= 0 {
			t.Error("not zeroed")
		}
		s.Free(c, z)
	}
	s.Free(c, b)
	if v.Caps.Has(impls.CapBulk) {
		useBulk(t, v, i, c, s)
	}
	s.Shrink(c)
	if err := s.Destroy(c); v.Caps.Has(impls.CapDestroy) && err != nil {
		t.Errorf("destroy: %v", err)
	}
}

// useBulk takes several objects at once, all or none.
func useBulk(t *testing.T, v *impls.Variant, i impls.Instance, c *machine.Ctx, s impls.Cache) {
	k, ok := s.(impls.BulkCache)
	if !ok {
		t.Fatalf("%T takes no objects in bulk", s)
	}
	flags := impls.AllocFlags(0)
	if v.Caps.Has(impls.CapZero) {
		flags = impls.FlagZero
	}
	into, seen := make([]impls.Addr, 150), map[impls.Addr]bool{}
	if !k.AllocBulk(c, flags, nil) || !k.AllocBulk(c, flags, into) {
		t.Fatal("no memory")
	}
	for _, a := range into {
		if a == 0 || seen[a] || flags != 0 && i.Memory().Verify(a, 48, 0) >= 0 {
			t.Fatalf("object at %#x: there before: %v", a, seen[a])
		}
		seen[a] = true
		i.Memory().Fill(a, 48, 9)
	}
	k.FreeBulk(c, nil)
	k.FreeBulk(c, into)
	if v.Caps.Has(impls.CapFailSlab) {
		c.BeginLine(0, [2]int32{})
		c.FailObject(140)
		if k.AllocBulk(c, flags, into) || c.Injected() != 1 {
			t.Errorf("object 140 was not refused: %d", c.Injected())
		}
		c.FailObject(0)
	}
}

// useHeld empties what is held for CPUs, in every way that is declared. The machine has one
// CPU, which cannot take itself out of use.
func useHeld(t *testing.T, v *impls.Variant, i impls.Instance, c *machine.Ctx) {
	if v.Caps.Has(impls.CapFlush) {
		s, err := i.Objects().NewCache(c, impls.NewSpec("f", 48))
		if err != nil {
			t.Fatal(err)
		}
		s.Free(c, s.Alloc(c, 0))
		s.(impls.Flusher).Flush(c)
	}
	if v.Caps.Has(impls.CapTune) {
		s, err := i.Objects().NewCache(c, impls.NewSpec("t", 48))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.(impls.Tuner).Tune(c, 4, 5); !errors.Is(err, impls.ErrInvalid) {
			t.Errorf("tune: %v", err)
		}
		if err := s.(impls.Tuner).Tune(c, 4, 2); err != nil {
			t.Errorf("tune: %v", err)
		}
	}
	if v.Caps.Has(impls.CapOffline) {
		if err := i.(impls.Hotplugger).Offline(c, c.CPUID()); !errors.Is(err, impls.ErrInvalid) {
			t.Errorf("offline: %v", err)
		}
	}
	if v.Caps.Has(impls.CapReap) {
		i.(impls.Reaper).Reap(c)
	}
}

func useSizes(t *testing.T, v *impls.Variant, i impls.Instance, c *machine.Ctx) {
	k, mem := i.Sizes(), i.Memory()
	p := k.Malloc(c, 100, 0)
	if p == 0 || p%v.Profile.MinAlign != 0 {
		t.Fatalf("malloc: %#x", p)
	}
	mem.Fill(p, 100, 4)
	if v.Caps.Has(impls.CapUsable) && k.Usable(c, p) < 100 {
		t.Errorf("usable: %d", k.Usable(c, p))
	}
	if v.Caps.Has(impls.CapRealloc) {
		p = k.Realloc(c, p, 3000, 0)
		if p == 0 || mem.Verify(p, 100, 4) >= 0 {
			t.Errorf("realloc: %#x lost bytes", p)
		}
	}
	k.Free(c, p)
	if v.Caps.Has(impls.CapAlign) {
		zero := impls.AllocFlags(0)
		if v.Caps.Has(impls.CapZeroAlign) {
			zero = impls.FlagZero
		}
		q := k.Memalign(c, 256, 30, zero)
		if q == 0 || q%256 != 0 {
			t.Errorf("memalign: %#x", q)
		}
		if zero != 0 && mem.Verify(q, 30, 0) >= 0 {
			t.Error("memalign: not zeroed")
		}
		k.Free(c, q)
	}
	if q := k.Malloc(c, 0, 0); v.Profile.MallocZero == impls.Always && q == 0 {
		t.Error("malloc(0) has no address")
	} else {
		k.Free(c, q)
	}
	k.Free(c, 0)
	if n := k.Usable(c, 0); n != 0 {
		t.Errorf("%d bytes of nothing usable", n)
	}
	if v.Caps.Has(impls.CapRealloc) {
		if p = k.Realloc(c, 0, 100, 0); p == 0 || p%v.Profile.MinAlign != 0 {
			t.Errorf("realloc of nothing: %#x", p)
		}
		mem.Fill(p, 100, 6)
		k.Free(c, p)
	}
}

// TestSnapshot: who shows its state shows all pages as free before anything runs.
func TestSnapshot(t *testing.T) {
	for _, v := range all.Variants() {
		m := machine.New(machine.DefaultConfig())
		i := v.New(m)
		var s impls.Snapshot
		if i.Snapshot(&s) && (s.PagesTotal != 16 || s.PagesFree != 16 || len(s.Slabs) > 0) {
			t.Errorf("%s: %d of %d pages free, %d slabs", v.Name, s.PagesFree, s.PagesTotal,
				len(s.Slabs))
		}
		i.Close()
		m.Close()
	}
}
