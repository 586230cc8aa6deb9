package slab_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// flagged is small with debug flags, by their letters.
func flagged(size uint64, n int, letters string) impls.CacheSpec {
	spec := small(size, n)
	for _, l := range letters {
		f := debugcheck.Flags(1 << strings.IndexRune(debugcheck.Letters, l))
		spec.Flags = append(spec.Flags, f.Words()...)
	}
	return spec
}

// rules sets the rules of a machine.
func rules(name string) func(*machine.Config) {
	return func(c *machine.Config) { c.Rules = name }
}

func debugger(s impls.Cache) impls.Debugger { return s.(impls.Debugger) }

// reports is what the debug checks said, each with its kind.
func (r *rig) reports() []string {
	var out []string
	for _, n := range r.told {
		out = append(out, n.Kind.String()+" "+n.Title)
		if n.Cache != "c" || n.Where.Line < 0 || n.Where.Line > r.line {
			r.t.Errorf("%q is of cache %q at %+v", n.Title, n.Cache, n.Where)
		}
	}
	return out
}

// TestDebugFlags: which flags a cache has, by its own words and the boot parameter.
func TestDebugFlags(t *testing.T) {
	tests := []struct {
		name, boot, rules string
		words             []string
		size              uint64
		want              string // flags, "" for no debugging
		wantRules         debugcheck.Rules
		err               error
	}{
		{name: "none", want: ""},
		{name: "words", words: []string{"redzone", "user"}, want: "ZU",
			wantRules: debugcheck.SLAB24},
		{name: "words that are no options", words: []string{"nomerge", "panic", "reclaim", "rcu"}},
		{name: "failslab alone", words: []string{"failslab"}},
		{name: "trace alone", words: []string{"trace"}, want: "T", wantRules: debugcheck.SLAB24},
		{name: "cache lines", words: []string{"hwalign", "redzone"}, want: "Z",
			wantRules: debugcheck.SLAB24},
		{name: "no word", words: []string{"purple"}, err: impls.ErrInvalid},
		{name: "boot", boot: "FZPU", want: "FZPU", wantRules: debugcheck.SLAB24},
		{name: "boot and words", boot: "Z", words: []string{"poison"}, want: "ZP",
			wantRules: debugcheck.SLAB24},
		{name: "boot of another", boot: "Z,d", want: ""},
		{name: "boot but this one", boot: "Z;-,c", want: ""},
		{name: "2.6", boot: "Z", rules: "2.6", want: "Z", wantRules: debugcheck.SLAB26},
		{name: "2.4", boot: "Z", rules: "2.4", want: "Z", wantRules: debugcheck.SLAB24},
		{name: "rules of the other family", boot: "Z", rules: "6.12", want: "Z",
			wantRules: debugcheck.SLAB24},
		{name: "a page", boot: "Z", size: 4096, want: "Z", wantRules: debugcheck.SLAB24},
		{name: "a page that must not grow", boot: "ZO", size: 4096, want: ""},
		{name: "a page that must not grow, checks stay", boot: "FZO", size: 4096, want: "F",
			wantRules: debugcheck.SLAB24},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *machine.Config) { c.Debug, c.Rules = tt.boot, tt.rules })
			spec := impls.NewSpec("c", max(tt.size, 64))
			if tt.size == 0 {
				spec.Size = 64
			}
			spec.Flags = tt.words
			s, err := r.inst.Objects().NewCache(nil, spec)
			if !errors.Is(err, tt.err) || (s == nil) != (tt.err != nil) {
				t.Fatalf("cache %v, error %v, want %v", s, err, tt.err)
			}
			if s == nil {
				return
			}
			l := debugger(s).Layout()
			if l == nil {
				if tt.want != "" {
					t.Errorf("no debugging, want %s", tt.want)
				}
				return
			}
			if l.Flags.String() != tt.want || l.Rules != tt.wantRules {
				t.Errorf("flags %s by %s, want %q by %s", l.Flags, l.Rules, tt.want, tt.wantRules)
			}
		})
	}
}

// TestDebugParameter: an option string that is none should not have come so far.
func TestDebugParameter(t *testing.T) {
	defer func() {
		if p := fmt.Sprint(recover()); !strings.HasPrefix(p, "allocfuzz: ") {
			t.Errorf("panic %q", p)
		}
	}()
	newRig(t, func(c *machine.Config) { c.Debug = "Q" })
	t.Error("a machine with an unknown letter")
}

// TestDebugGeometry: red words and last user beside objects, which stay aligned.
func TestDebugGeometry(t *testing.T) {
	narrow := func(c *machine.Config) {
		c.Word, c.PageSize, c.SeqBits, c.Base = 16, 128, 8, 4096
	}
	type shape struct {
		first, stride uint64
		objects       int
	}
	tests := []struct {
		name  string
		m     func(*machine.Config)
		spec  impls.CacheSpec
		align uint64
		want  shape
	}{
		{"nothing beside", nil, flagged(64, 2, "FP"), 0, shape{48, 64, 2}},
		{"red words", nil, flagged(64, 2, "Z"), 0, shape{48 + 8, 64 + 16, 2}},
		{"last user", nil, flagged(64, 2, "U"), 0, shape{48, 64 + 8, 2}},
		{"all", nil, flagged(64, 2, "FZPU"), 0, shape{48 + 8, 64 + 24, 2}},
		{"all, 2.6", rules("2.6"), flagged(64, 2, "FZPU"), 0, shape{48 + 8, 64 + 24, 2}},
		{"rounded up", nil, flagged(60, 2, "Z"), 0, shape{48 + 8, 64 + 16, 2}},
		// 45 indexes and 5 words are 136 bytes: 45*88 and they just fill the page.
		{"as many as fit", nil, flagged(64, -1, "FZPU"), 0, shape{136 + 8, 88, 45}},
		{"aligned", nil, flagged(64, 2, "Z"), 64, shape{128, 192, 2}},
		{"aligned to a page", nil, flagged(64, 1, "Z"), 4096, shape{8192, 8192, 1}},
		{"16-bit words", narrow, flagged(16, 2, "Z"), 0, shape{10 + 4 + 2, 20, 2}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.m)
			tt.spec.Align = tt.align
			s := r.cache(tt.spec)
			r.run(func(c *machine.Ctx) {
				a := r.alloc(c, s, 0)
				r.free(c, s, a)
				if b := r.alloc(c, s, 0); a != b {
					t.Errorf("%#x, then %#x", a, b)
				}
			})
			b := r.check().Slabs[0]
			got := shape{b.First - b.Addr, r.snap.Caches[0].Stride, b.Objects}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(shape{})); diff != "" {
				t.Error(diff)
			}
			if tt.align != 0 && s.Align() != tt.align {
				t.Errorf("aligned to %d", s.Align())
			}
			if len(r.told) > 0 {
				t.Error(r.reports())
			}
			r.titles()
		})
	}
}

// TestDebugWords looks at what is beside an object while it is live and when it is
// free.
func TestDebugWords(t *testing.T) {
	type state struct {
		left, right uint64
		body        string
	}
	poison := func(b byte) string { return strings.Repeat(string(rune(b)), 15) + "\xa5" }
	tests := []struct {
		rules      string
		live, free state
	}{
		{"2.4", state{0x170fc2a5, 0x170fc2a5, poison(0x5a)},
			state{0x5a2cf071, 0x5a2cf071, poison(0x5a)}},
		{"2.6", state{0xd84156c5635688c0, 0xd84156c5635688c0, poison(0x5a)},
			state{0x09f911029d74e35b, 0x09f911029d74e35b, poison(0x6b)}},
	}
	for _, tt := range tests {
		t.Run(tt.rules, func(t *testing.T) {
			r := newRig(t, rules(tt.rules))
			s := r.cache(flagged(16, 2, "ZPU"))
			look := func(a impls.Addr) state {
				b := r.m.MemView(a-8, 32)
				return state{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[24:]),
					string(b[8:24])}
			}
			var users [3]string
			r.run(func(c *machine.Ctx) {
				r.line = 5
				a := r.alloc(c, s, 0)
				users[0] = string(r.m.MemView(a+24, 8))
				if diff := cmp.Diff(tt.live, look(a), cmp.AllowUnexported(state{})); diff != "" {
					t.Errorf("live: %s", diff)
				}
				if diff := cmp.Diff(tt.free, look(a+40), cmp.AllowUnexported(state{})); diff != "" {
					t.Errorf("never used: %s", diff)
				}
				users[1] = string(r.m.MemView(a+40+24, 8))
				r.line = 7
				r.free(c, s, a)
				users[2] = string(r.m.MemView(a+24, 8))
				if diff := cmp.Diff(tt.free, look(a), cmp.AllowUnexported(state{})); diff != "" {
					t.Errorf("free: %s", diff)
				}
				b := r.alloc(c, s, impls.FlagZero)
				if at := r.inst.Memory().Verify(b, 16, 0); at >= 0 {
					t.Errorf("byte %d is not zero", at)
				}
			})
			if none := strings.Repeat("\x00", 8); users[1] != none || users[0] == none ||
				users[2] == none || users[0] == users[2] {
				t.Errorf("last users: after alloc %x, never used %x, after free %x", users[0],
					users[1], users[2])
			}
			if len(r.told) > 0 {
				t.Error(r.reports())
			}
		})
	}
}

// TestDebugSilent plays everything with all flags under every rule set: no report.
func TestDebugSilent(t *testing.T) {
	for _, name := range []string{"2.4", "2.6"} {
		for _, letters := range []string{"F", "Z", "P", "U", "FZPU", "ZU"} {
			each(t, func(t *testing.T, v *impls.Variant) {
				r := newRigOf(t, v, rules(name))
				s := r.cache(flagged(24, 3, letters))
				r.run(func(c *machine.Ctx) { r.everything(c, debugger(s)) })
				r.allBack()
				if len(r.told) > 0 || r.m.Halted() {
					t.Errorf("%s by %s: %v, halted %v", letters, name, r.reports(), r.m.Halted())
				}
				r.titles()
			})
		}
	}
}

// everything allocates and frees, validates, and gives everything back.
func (r *rig) everything(c *machine.Ctx, s impls.Debugger) {
	r.reuse(c, s, forgets(r.v))
	want := len(r.check().Slabs)
	r.op(c, func() {
		if n, err := s.Validate(c); err != nil || n != want {
			r.t.Errorf("validate: %d slabs of %d, %v", n, want, err)
		}
	})
	for a := range r.live {
		r.free(c, s, a)
	}
	r.op(c, func() {
		if err := s.Destroy(c); err != nil {
			r.t.Error(err)
		}
	})
}

// TestDebugSlab describes a slab from outside, and damages its words.
func TestDebugSlab(t *testing.T) {
	r := newRig(t, nil)
	s, bare := debugger(r.cache(flagged(64, 3, "FZ"))), debugger(r.cache(small(64, 3)))
	other := debugger(r.cache(flagged(64, 3, "FZ")))
	r.run(func(c *machine.Ctx) {
		a, o := r.alloc(c, s, 0), r.alloc(c, bare, 0)
		want := debugcheck.Slab{Page: 0, Addr: r.m.Base, Bytes: 4096, First: a - 8, Max: 3,
			Objects: 3, Inuse: 1, Freelist: a + 80}
		got, ok := s.Slab(a + 100)
		if diff := cmp.Diff(want, got); !ok || diff != "" {
			t.Errorf("found %v: %s", ok, diff)
		}
		for _, no := range []impls.Addr{0, o, a + 8192, r.m.Base - 1} {
			if _, ok := s.Slab(no); ok {
				t.Errorf("a slab at %#x", no)
			}
		}
		if _, ok := bare.Slab(o); ok || bare.Layout() != nil {
			t.Error("a cache without flags is debugged")
		}
		if _, err := bare.Validate(c); !errors.Is(err, impls.ErrInvalid) {
			t.Errorf("validate without flags: %v", err)
		}
		r.op(c, func() { r.damageRefused(c, s, bare, other, a, o) })
		r.op(c, func() {
			ok := s.Damage(c, debugcheck.SlabInuse, a, 6) &&
				s.Damage(c, debugcheck.SlabFreelist, a+4000, 3|1<<40)
			if got, _ := s.Slab(a); !ok || got.Inuse != 7 || got.Freelist != a+160 {
				t.Errorf("damaged: %v %+v", ok, got)
			}
			s.Damage(c, debugcheck.SlabFreelist, a, 2^0xffff)
			if got, _ := s.Slab(a); got.Freelist != s.Layout().End {
				t.Errorf("at the end: %+v", got)
			}
		})
	})
	r.titles()
}

// damageRefused asks for damage to what is no field.
func (r *rig) damageRefused(c *machine.Ctx, s, bare, other impls.Debugger, a, o impls.Addr) {
	was, _ := s.Slab(a)
	for region := debugcheck.LeftRed; int(region) < debugcheck.Regions; region++ {
		field := region == debugcheck.SlabInuse || region == debugcheck.SlabFreelist
		if !field && s.Damage(c, region, a, 1) {
			r.t.Errorf("%s can be damaged", region)
		}
	}
	if s.Damage(c, debugcheck.SlabInuse, a, 0) || s.Damage(c, debugcheck.SlabInuse, a, 1<<32) ||
		bare.Damage(c, debugcheck.SlabInuse, o, 1) || other.Damage(c, debugcheck.SlabInuse, a, 1) {
		r.t.Error("damage where there is nothing")
	}
	if got, _ := s.Slab(a); got != was {
		r.t.Errorf("%+v, was %+v", got, was)
	}
}
