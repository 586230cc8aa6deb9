package slub_test

import (
	"errors"
	"strings"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
)

// booted is a machine with debug options.
func booted(debug, rules string) machine.Config {
	cfg := machineOf(1, 64)
	cfg.Debug, cfg.Rules = debug, rules
	return cfg
}

// TestParameter: which flags and rules a cache gets from the machine and from its spec.
func TestParameter(t *testing.T) {
	tests := []struct {
		debug, rules, name string
		flags              []string
		want               string // "" for a cache that is not debugged
		wantRules          debugcheck.Rules
	}{
		{"", "", "c", nil, "", 0},
		{"", "", "c", []string{"poison", "nomerge", "panic", "reclaim"}, "P", debugcheck.SLUB61},
		{"", "6.12", "c", all, "FZPU", debugcheck.SLUB612},
		{"", "2.6", "c", all, "FZPU", debugcheck.SLUB61},
		{"", "", "c", []string{"failslab"}, "", 0},
		{"", "", "c", []string{"trace"}, "T", debugcheck.SLUB61},
		{"FZ", "6.1", "c", nil, "FZ", debugcheck.SLUB61},
		{"FZ", "", "c", []string{"user"}, "FZU", debugcheck.SLUB61},
		{"FZ;-,c", "", "c", nil, "", 0},
		{"FZ;-,c", "", "c", []string{"user"}, "U", debugcheck.SLUB61},
		{"FZ;-,c", "", "cc", nil, "FZ", debugcheck.SLUB61},
		{",c*", "", "cc", nil, "FZPU", debugcheck.SLUB61},
		{",c*", "", "d", nil, "", 0},
	}
	for _, tt := range tests {
		one(t, locked, booted(tt.debug, tt.rules), func(c *machine.Ctx, in impls.Instance) {
			spec := impls.NewSpec(tt.name, 64)
			spec.Flags = tt.flags
			k, err := in.Objects().NewCache(c, spec)
			if err != nil {
				t.Fatal(err)
			}
			got, rules := "", debugcheck.Rules(0)
			if l := k.(impls.Debugger).Layout(); l != nil {
				got, rules = l.Flags.String(), l.Rules
			}
			if got != tt.want || rules != tt.wantRules {
				t.Errorf("%q rules %q, cache %s %q: flags %q of %s, want %q of %s", tt.debug,
					tt.rules, tt.name, tt.flags, got, rules, tt.want, tt.wantRules)
			}
		})
	}
}

// TestDropGrowing: with O a cache whose slabs would need more pages for one object is
// laid out as if nothing were asked for, and still checked.
func TestDropGrowing(t *testing.T) {
	for _, tt := range []struct {
		size   uint64
		flags  string
		stride uint64
	}{{4096, "F", 4096}, {64, "FZPU", 160}} {
		one(t, locked, booted("FZPUO", ""), func(c *machine.Ctx, in impls.Instance) {
			k, err := in.Objects().NewCache(c, impls.NewSpec("c", tt.size))
			if err != nil {
				t.Fatal(err)
			}
			l := k.(impls.Debugger).Layout()
			if l.Flags.String() != tt.flags || l.Stride != tt.stride {
				t.Errorf("%d bytes: %s, %d apart", tt.size, l.Flags, l.Stride)
			}
		})
	}
}

// TestWrongParameter: options that nobody could have accepted are a harness fault.
func TestWrongParameter(t *testing.T) {
	for _, cfg := range []machine.Config{booted("FX", ""), booted("", "7.0")} {
		func() {
			defer func() {
				if s, ok := recover().(string); !ok || !strings.HasPrefix(s, "allocfuzz: ") {
					t.Errorf("%q %q: %v", cfg.Debug, cfg.Rules, s)
				}
			}()
			m := machine.New(cfg)
			defer m.Close()
			variant(t, locked).New(m)
		}()
	}
}

// TestRCU: objects that may be read after they were freed keep their link behind them,
// debugged or not, and no poison in them.
func TestRCU(t *testing.T) {
	for _, flags := range [][]string{{"rcu"}, {"poison", "rcu"}} {
		one(t, locked, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
			spec := debugSpec(3, flags...)
			k, err := in.Objects().NewCache(c, spec)
			if err != nil {
				t.Fatal(err)
			}
			keep, a := k.Alloc(c, 0), k.Alloc(c, 0)
			in.Memory().Fill(a, 64, 5)
			k.Free(c, a)
			if s := snap(t, in).Caches[0]; s.LinkOffset != 64 || s.Stride != 72 {
				t.Errorf("%q: link at %d of %d", flags, s.LinkOffset, s.Stride)
			}
			if in.Memory().Verify(a, 64, 5) >= 0 {
				t.Errorf("%q: contents are gone with the free", flags)
			}
			k.Free(c, keep)
		})
	}
}

// TestOddSizes: debugged objects of every size and alignment lie where they should, on
// every width of word, and can be given back.
func TestOddSizes(t *testing.T) {
	for _, word := range []int{64, 32, 16} {
		cfg := machineOf(1, 16)
		cfg.Word, cfg.SeqBits = word, 4
		if cfg.Base = 1 << 12; word == 16 {
			cfg.PageSize, cfg.Base = 512, 512
		}
		for _, flags := range [][]string{all, {"redzone"}, {"poison"}, {"sanity", "user"}} {
			one(t, locked, cfg, func(c *machine.Ctx, in impls.Instance) {
				for size := uint64(1); size < 140; size += 1 + size/20 {
					for _, align := range []uint64{0, 2, 16, 128} {
						oddSize(t, c, in, size, align, flags)
					}
				}
			})
		}
	}
}

func oddSize(t *testing.T, c *machine.Ctx, in impls.Instance, size, align uint64, flags []string) {
	spec := impls.NewSpec("c", size)
	spec.Align, spec.Flags = align, flags
	k, err := in.Objects().NewCache(c, spec)
	if err != nil {
		t.Fatalf("%d bytes at %d: %v", size, align, err)
	}
	c.BeginLine(0, [2]int32{})
	a, b := k.Alloc(c, 0), k.Alloc(c, 0)
	if a == b || a == 0 || b%max(align, 1) != 0 || a%max(align, 1) != 0 {
		t.Errorf("%d bytes at %d: %#x, %#x", size, align, a, b)
	}
	for _, x := range []impls.Addr{a, b} {
		in.Memory().Fill(x, size, 7)
	}
	if in.Memory().Verify(a, size, 7) >= 0 {
		t.Errorf("%d bytes at %d: %#x and %#x overlap", size, align, a, b)
	}
	k.(impls.Debugger).Validate(c)
	k.Free(c, a)
	k.Free(c, b)
	if err := k.Destroy(c); err != nil || len(c.Notes()) > 0 {
		t.Errorf("%d bytes at %d %q: %v, %d reports", size, align, flags, err, len(c.Notes()))
	}
}

// TestHugeDebug: what cannot be laid out is refused.
func TestHugeDebug(t *testing.T) {
	one(t, locked, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
		for _, size := range []uint64{1 << 16, 1<<63 - 1, 1<<64 - 1, 0} {
			spec := impls.NewSpec("c", size)
			spec.Flags = all
			if _, err := in.Objects().NewCache(c, spec); !errors.Is(err, impls.ErrInvalid) {
				t.Errorf("%d bytes: %v", size, err)
			}
		}
	})
}

// TestKmallocSizes: under the rules of 6.12 what kmalloc was not asked for is red zone,
// until somebody asks how much there is.
func TestKmallocSizes(t *testing.T) {
	tests := []struct {
		rules string
		widen func(c *machine.Ctx, k impls.Allocator, a impls.Addr)
		want  []string
	}{
		{"6.12", func(*machine.Ctx, impls.Allocator, impls.Addr) {},
			[]string{debugcheck.TitleKmallocRedzone}},
		{"6.12", func(c *machine.Ctx, k impls.Allocator, a impls.Addr) {
			if n := k.Usable(c, a); n != 64 {
				t.Errorf("%d bytes usable", n)
			}
		}, nil},
		{"6.12", func(c *machine.Ctx, k impls.Allocator, a impls.Addr) {
			if b := k.Realloc(c, a, 50, 0); b != a {
				t.Errorf("moved to %#x", b)
			}
		}, nil},
		{"6.1", func(*machine.Ctx, impls.Allocator, impls.Addr) {}, nil},
	}
	for _, tt := range tests {
		one(t, locked, booted("FZPU", tt.rules), func(c *machine.Ctx, in impls.Instance) {
			r := &rig{t: t, c: c, m: c.Machine(), in: in}
			k := in.Sizes().(*kmalloc.Kmalloc)
			a := k.Malloc(c, 40, impls.FlagZero)
			if a%64 != 0 || in.Memory().Verify(a, 40, 0) >= 0 {
				t.Errorf("%#x", a)
			}
			tt.widen(c, k, a)
			r.flip(a, 41)
			r.says("kfree", func() { k.Free(c, a) }, tt.want...)
			if d, ok := k.CacheOf(a).(impls.Debugger); !ok || d.Layout().Name != "kmalloc-64" {
				t.Errorf("%#x is of %v", a, k.CacheOf(a))
			}
		})
	}
}

// TestSizeAskedFor: a size beyond the object counts as the object's.
func TestSizeAskedFor(t *testing.T) {
	one(t, locked, booted("FZPU", "6.12"), func(c *machine.Ctx, in impls.Instance) {
		k := in.Sizes().(*kmalloc.Kmalloc)
		s := k.CacheOf(k.Malloc(c, 64, 0)).(impls.SizedCache)
		for _, size := range []uint64{64, 65, 1 << 63, 1<<64 - 1} {
			a := s.AllocSize(c, impls.FlagZero, size)
			if in.Memory().Verify(a, 64, 0) >= 0 {
				t.Errorf("%d bytes: not zeroed", size)
			}
			s.Free(c, a)
		}
		if len(c.Notes()) > 0 {
			t.Errorf("%d reports", len(c.Notes()))
		}
	})
}

// TestCacheOf: large blocks and what nobody handed out are of no cache.
func TestCacheOf(t *testing.T) {
	one(t, locked, booted("", ""), func(c *machine.Ctx, in impls.Instance) {
		k := in.Sizes().(*kmalloc.Kmalloc)
		small, large := k.Malloc(c, 8, 0), k.Malloc(c, 20000, 0)
		for _, a := range []impls.Addr{0, 16, large, small + 60*4096, 1<<64 - 1} {
			if got := k.CacheOf(a); got != nil {
				t.Errorf("%#x is of %v", a, got)
			}
		}
		if got := k.CacheOf(small); got == nil || got.Size() != 8 {
			t.Errorf("%#x is of %v", small, got)
		}
	})
}
