package debugcheck

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// wordBank is a slab of SLAB: memory, an index chain outside it, and a checker.
type wordBank struct {
	Checker
	s     Slab
	base  uint64
	b     []byte
	chain map[uint64]uint64
	got   []*Report
}

const wordBase = 0x4000

// newWordBank sets up a slab of n objects that lie behind a head of 32 bytes, as SLAB's
// management does; all are free, the chain is in the order of addresses.
func newWordBank(t *testing.T, spec Spec, n int) *wordBank {
	t.Helper()
	return newWordBankAt(t, spec, n, wordBase)
}

// newWordBankAt begins the slab at base; at 0 it ends where addresses do.
func newWordBankAt(t *testing.T, spec Spec, n int, base uint64) *wordBank {
	t.Helper()
	spec.Name, spec.End = "words", 1
	l, err := NewLayout(spec)
	if err != nil {
		t.Fatal(err)
	}
	k := &wordBank{base: base, chain: map[uint64]uint64{}}
	k.b = make([]byte, 32+uint64(n)*l.Stride)
	if base == 0 {
		k.base = -uint64(len(k.b))
	}
	k.Checker = Checker{Layout: &l, Mem: k, Out: func(r *Report) { k.got = append(k.got, r) }}
	k.s = Slab{Addr: k.base, Bytes: uint64(len(k.b)), First: k.base + 32, Max: n, Objects: n,
		Freelist: 1}
	k.SetUp(&k.s)
	for i := n - 1; i >= 0; i-- {
		k.link(k.at(i))
	}
	return k
}

func (k *wordBank) at(i int) uint64 { return k.Layout.objectAt(&k.s, i) }

func (k *wordBank) link(a uint64) { k.chain[a], k.s.Freelist = k.s.Freelist, a }

func (k *wordBank) Bytes(_ Region, a, n uint64) []byte {
	if a < k.base || n > uint64(len(k.b)) || a-k.base > uint64(len(k.b))-n {
		return nil
	}
	return k.b[a-k.base:][:n]
}
func (k *wordBank) Link(a uint64) uint64     { return k.chain[a] }
func (k *wordBank) SetLink(a, next uint64)   { k.chain[a] = next }
func (k *wordBank) flip(a uint64, mask byte) { k.b[a-k.base] ^= mask }
func (k *wordBank) slot(i int) []byte {
	return k.b[32+uint64(i)*k.Layout.Stride:][:k.Layout.Stride]
}

// alloc takes the head of the chain as a cache does.
func (k *wordBank) alloc() (a uint64, ok bool) {
	a = k.s.Freelist
	k.s.Freelist = k.chain[a]
	k.s.Inuse++
	if !k.AllocOK(&k.s, a) {
		return a, false
	}
	k.Activate(a, k.Layout.Size)
	return a, true
}

// free gives an object back as a cache does.
func (k *wordBank) release(a uint64) bool {
	if !k.FreeOK(&k.s, []uint64{a}, 1) {
		return false
	}
	k.Deactivate(a)
	k.link(a)
	k.s.Inuse--
	return true
}

// said is what was reported since it was last asked, kind and title each.
func (k *wordBank) said() string {
	var out []string
	for _, r := range k.got {
		out = append(out, r.Kind.String()+" "+r.Title)
		if r.Rules != k.Layout.Rules || r.Cache != "words" || len(r.Fixes) != 0 || r.Again {
			out = append(out, fmt.Sprintf("odd %+v", r))
		}
		if e, ok := LookupTitle(r.Title); !ok || !e.Rules.Has(r.Rules) || e.Unreachable != "" {
			out = append(out, "a title that is not of these rules")
		}
	}
	k.got = nil
	return strings.Join(out, "; ")
}

// TestSlabFills holds slots byte by byte against ones made by hand: after set up, handed
// out, given back.
func TestSlabFills(t *testing.T) {
	for _, c := range []struct {
		name              string
		spec              Spec
		free, live, again string
	}{
		{"2.4, 32 bits", Spec{Size: 6, Word: 4, Rules: SLAB24, Flags: RedZone | Poison},
			"71f02c5a 5a5a5a5a5a5a5aa5 71f02c5a", "a5c20f17 5a5a5a5a5a5a5aa5 a5c20f17", ""},
		{"2.4, 64 bits", Spec{Size: 8, Word: 8, Rules: SLAB24, Flags: RedZone},
			"71f02c5a00000000 0000000000000000 71f02c5a00000000",
			"a5c20f1700000000 0000000000000000 a5c20f1700000000", ""},
		{"2.4, 16 bits", Spec{Size: 4, Word: 2, Rules: SLAB24, Flags: RedZone | Poison},
			"71f0 5a5a5aa5 71f0", "a5c2 5a5a5aa5 a5c2", ""},
		{"2.6, 64 bits", Spec{Size: 6, Word: 8, Rules: SLAB26, Flags: RedZone | Poison},
			"5be3749d0211f909 6b6b6b6b6ba50000 5be3749d0211f909",
			"c0885663c55641d8 5a5a5a5a5aa50000 c0885663c55641d8", ""},
		{"2.6, 32 bits", Spec{Size: 4, Word: 4, Rules: SLAB26, Flags: RedZone | Poison},
			"5be3749d 6b6b6ba5 5be3749d", "c0885663 5a5a5aa5 c0885663", ""},
		{"2.6, 16 bits", Spec{Size: 1, Word: 2, Rules: SLAB26, Flags: RedZone | Poison},
			"5be3 a500 5be3", "c088 a500 c088", ""},
		{"2.4, constructed", Spec{Size: 4, Word: 4, Rules: SLAB24, Flags: Default &^ StoreUser,
			Ctor: true}, "71f02c5a 00000000 71f02c5a", "a5c20f17 00000000 a5c20f17", ""},
		{"2.6, constructed", Spec{Size: 4, Word: 4, Rules: SLAB26, Flags: Default &^ StoreUser,
			Ctor: true}, "5be3749d 6b6b6ba5 5be3749d", "c0885663 5a5a5aa5 c0885663", ""},
		{"2.6, read after its free", Spec{Size: 4, Word: 4, Rules: SLAB26,
			Flags: Default &^ StoreUser, RCU: true},
			"5be3749d 00000000 5be3749d", "c0885663 00000000 c0885663", ""},
		{"2.6, no red words", Spec{Size: 4, Word: 4, Rules: SLAB26, Flags: Poison},
			"6b6b6ba5", "5a5a5aa5", ""},
		{"2.4, aligned", Spec{Size: 4, Word: 4, Align: 8, Rules: SLAB24, Flags: RedZone | Poison},
			"00000000 71f02c5a 5a5a5aa5 71f02c5a", "00000000 a5c20f17 5a5a5aa5 a5c20f17", ""},
		{"2.6, last user", Spec{Size: 4, Word: 4, Rules: SLAB26, Flags: RedZone | StoreUser},
			"5be3749d 00000000 5be3749d 00000000", "c0885663 00000000 c0885663 04000102",
			"5be3749d 00000000 5be3749d 05000102"},
	} {
		k := newWordBank(t, c.spec, 2)
		check := func(when, want string) {
			t.Helper()
			for i := range 2 {
				if i == 1 {
					want = c.free // the other object stays as it is
				}
				if got := fmt.Sprintf("%x", k.slot(i)); got != strings.ReplaceAll(want, " ", "") {
					t.Errorf("%s: object %d %s is %s, want %s", c.name, i, when, got, want)
				}
			}
		}
		check("at first", c.free)
		a, _ := k.alloc()
		k.SetTrack(AllocTrack, a, Track{Line: 2, Task: 1, CPU: 2, Set: true})
		check("live", c.live)
		k.release(a)
		k.SetTrack(FreeTrack, a, Track{Line: 3, Task: 1, CPU: 2, Set: true})
		if c.again == "" {
			c.again = c.free
		}
		check("given back", c.again)
		if got := k.said(); got != "" {
			t.Errorf("%s: reported %s", c.name, got)
		}
		if head := k.b[:32]; !bytes.Equal(head, make([]byte, 32)) {
			t.Errorf("%s: the management in front was written: % x", c.name, head)
		}
	}
}

// everyWordSpec goes through rules, words, flags and sizes.
func everyWordSpec(visit func(name string, spec Spec)) {
	for _, rules := range []Rules{SLAB24, SLAB26} {
		for _, word := range []uint64{2, 4, 8} {
			for f := range Flags(16) {
				for _, size := range []uint64{1, 7, 16} {
					visit(fmt.Sprintf("%v, word %d, %v, size %d", rules, word, f, size),
						Spec{Size: size, Word: word, Flags: f, Rules: rules})
				}
			}
		}
	}
}

// TestSlabSilent uses slabs as a program may: nothing is reported, whatever the
// contents and the order.
func TestSlabSilent(t *testing.T) {
	everyWordSpec(func(name string, spec Spec) {
		k := newWordBank(t, spec, 5)
		var live []uint64
		for i := range 60 {
			if len(live) < 5 && (i*7%11 < 6 || len(live) == 0) {
				a, ok := k.alloc()
				if !ok {
					t.Fatalf("%s: an allocation was refused", name)
				}
				for n := range k.Layout.Size {
					k.b[a-k.base+n] = byte(i + int(n))
				}
				live = append(live, a)
			} else {
				n := i * 5 % len(live)
				if !k.release(live[n]) {
					t.Fatalf("%s: a free was refused", name)
				}
				live = slices.Delete(live, n, n+1)
			}
			k.Validate(&k.s)
		}
		for _, a := range live {
			k.release(a)
		}
		k.Discard(&k.s)
		if got := k.said(); got != "" {
			t.Errorf("%s: reported %s", name, got)
		}
	})
}

// A hurt is one damaged byte of a slot and what must be said about it, by what is done
// next: to a free object, allocation, discard or validation, to a live one free or
// validation.
type hurt struct {
	left, body, right bool
	seen              bool // the body: the rules see this damage
}

// wordsSaid is the prediction.
func (h hurt) wordsSaid(rules Rules, do string) string {
	fatal, either := "fatal ", "double free, or memory outside object was overwritten"
	if rules == SLAB26 || do == "validate free" || do == "validate live" {
		fatal = "bug "
	}
	switch {
	case h.body && h.seen && (do == "alloc" || do == "discard" || do == "validate free"):
		return fatal + "Slab corruption"
	case h.body:
		return ""
	case do == "alloc":
		return fatal + either
	case do == "free" || do == "validate live":
		if rules == SLAB24 {
			return fatal + either
		}
		return fatal + "memory outside object was overwritten"
	case h.left:
		return fatal + "start of a freed object was overwritten"
	}
	return fatal + "end of a freed object was overwritten"
}

// TestSlabDamage inverts bits of every byte of a slot in turn.
func TestSlabDamage(t *testing.T) {
	everyWordSpec(func(name string, spec Spec) {
		spec.Size = max(spec.Size, 2)
		for off := range newWordBank(t, spec, 3).Layout.Stride {
			for _, mask := range []byte{1, 0x80, 0xff} {
				for _, do := range [...]string{"alloc", "free", "discard", "validate free",
					"validate live"} {
					damageOne(t, name, spec, off, mask, do)
				}
			}
		}
	})
}

// damageOne damages byte off of the slot of the first object, and does something.
func damageOne(t *testing.T, name string, spec Spec, off uint64, mask byte, do string) {
	t.Helper()
	k := newWordBank(t, spec, 3)
	l := k.Layout
	a := k.at(0)
	if do == "free" || do == "validate live" {
		k.alloc()
	}
	at := k.s.First + off
	was := k.b[at-k.base]
	k.flip(at, mask)
	rel := int64(off) - int64(l.Pad)
	in := func(r Region) bool { from, to := l.At(r); return rel >= from && rel < to }
	h := hurt{left: in(LeftRed), right: in(RightRed) && l.Flags.Has(RedZone), body: in(Object)}
	last := off == l.Pad+l.Size-1
	h.seen = l.Flags.Has(Poison) && (spec.Rules == SLAB26 || last || was^mask == 0xa5)
	want := ""
	if h.left || h.right || h.body {
		want = h.wordsSaid(spec.Rules, do)
	}
	ok := true
	switch do {
	case "alloc":
		_, ok = k.alloc()
	case "free":
		ok = k.release(a)
	case "discard":
		k.Discard(&k.s)
	default:
		k.Validate(&k.s)
	}
	what := fmt.Sprintf("%s: byte %d with %#x, %s", name, off, mask, do)
	if len(k.got) == 1 {
		r := k.got[0]
		if r.From != at || r.To != at+1 || r.Got != was^mask || r.Want != was || r.Object != a ||
			r.Slab != k.s.Addr || len(r.Slot) != int(l.Stride) {
			t.Errorf("%s: report is %+v, want byte %#x, %#x instead of %#x", what, r, at,
				was^mask, was)
		}
	}
	if got := k.said(); got != want {
		t.Errorf("%s: reported %q, want %q", what, got, want)
	}
	if stops := strings.HasPrefix(want, "fatal"); (do == "alloc" || do == "free") && ok == stops {
		t.Errorf("%s: goes on: %v", what, ok)
	}
}

// TestSlabSequences are cases of several reports, and of calls that are wrong.
func TestSlabSequences(t *testing.T) {
	all := RedZone | Poison | Sanity
	twice := func(k *wordBank) {
		a, _ := k.alloc()
		k.release(a)
		k.release(a)
	}
	inside := func(k *wordBank) {
		a, _ := k.alloc()
		k.release(a + 1)
	}
	either := "double free, or memory outside object was overwritten"
	for _, c := range []struct {
		name     string
		flags    Flags
		do       func(k *wordBank)
		s24, s26 string
	}{
		{"free twice", all, twice, "fatal " + either,
			"bug double free detected; fatal slab: double free detected in cache"},
		{"free twice, F", Sanity, twice, "fatal slab: double free detected in cache",
			"fatal slab: double free detected in cache"},
		{"free twice, Z", RedZone, twice, "fatal " + either, "bug double free detected"},
		{"free twice, P", Poison, twice, "", ""},
		{"free twice at once", RedZone, func(k *wordBank) {
			a, _ := k.alloc()
			k.FreeOK(&k.s, []uint64{a, a}, 2)
		}, "fatal " + either, "bug double free detected"},
		{"free inside", all, inside, "fatal " + either,
			"bug memory outside object was overwritten; fatal Invalid object pointer"},
		{"free inside, F", Sanity, inside, "fatal Invalid object pointer",
			"fatal Invalid object pointer"},
		{"free inside, U", StoreUser, inside, "", ""},
		{"free below", Sanity, func(k *wordBank) { k.release(wordBase - 8) },
			"fatal Invalid object pointer", "fatal Invalid object pointer"},
		{"free beyond, Z", RedZone, func(k *wordBank) { k.FreeOK(&k.s, []uint64{1<<64 - 1}, 1) },
			"fatal " + either, "bug memory outside object was overwritten"},
		{"free 0", all, func(k *wordBank) { k.FreeOK(&k.s, []uint64{0}, 1) },
			"fatal " + either,
			"bug memory outside object was overwritten; fatal Invalid object pointer"},
		{"free nothing", all, func(k *wordBank) { k.FreeOK(&k.s, nil, 3) }, "", ""},
		{"both red words and poison, alloc", all, func(k *wordBank) {
			for i := range k.slot(0) {
				k.slot(0)[i] ^= 0xff
			}
			k.alloc()
		}, "fatal Slab corruption", "bug Slab corruption; bug " + either},
		{"both red words and poison, discard", all, func(k *wordBank) {
			for i := range k.slot(1) {
				k.slot(1)[i] ^= 0xff
			}
			k.Discard(&k.s)
		}, "fatal start of a freed object was overwritten",
			"bug Slab corruption; bug start of a freed object was overwritten; " +
				"bug end of a freed object was overwritten"},
		{"two objects, discard", Poison, func(k *wordBank) {
			k.flip(k.at(0)+k.Layout.Size-1, 1)
			k.flip(k.at(2)+k.Layout.Size-1, 1)
			k.Discard(&k.s)
		}, "fatal Slab corruption", "bug Slab corruption; bug Slab corruption"},
		{"red word in front of a free object", RedZone, func(k *wordBank) {
			a, _ := k.alloc()
			from, _ := k.Layout.At(LeftRed)
			copy(k.Bytes(LeftRed, a+uint64(from), uint64(-from)), k.slot(1))
			k.release(a)
		}, "fatal " + either, "bug memory outside object was overwritten"},
		{"two objects, validate", all, func(k *wordBank) {
			k.alloc()
			k.flip(k.at(0)-1, 1)
			k.flip(k.at(2)+k.Layout.Inuse-1, 1)
			k.flip(k.at(2)+k.Layout.Size-1, 1)
			k.Validate(&k.s)
		}, "bug " + either + "; bug end of a freed object was overwritten; bug Slab corruption",
			"bug memory outside object was overwritten; bug Slab corruption; " +
				"bug end of a freed object was overwritten"},
		{"count, validate", Sanity, func(k *wordBank) {
			k.s.Inuse ^= 1
			k.Validate(&k.s)
		}, "bug Internal list corruption detected", "bug Internal list corruption detected"},
		{"count too low, validate", Sanity, func(k *wordBank) {
			k.alloc()
			k.s.Inuse ^= 1
			k.Validate(&k.s)
		}, "bug Internal list corruption detected", "bug Internal list corruption detected"},
		{"ring, validate", all, func(k *wordBank) {
			k.chain[k.at(2)] = k.at(1)
			k.Validate(&k.s)
		}, "bug Internal list corruption detected", "bug Internal list corruption detected"},
		{"ring, free", Sanity, func(k *wordBank) {
			a, _ := k.alloc()
			k.chain[k.at(2)] = k.at(1)
			k.release(a)
		}, "fatal Internal list corruption detected", "fatal Internal list corruption detected"},
		{"chain leaves, validate", Poison, func(k *wordBank) {
			k.chain[k.at(1)] = k.at(3)
			k.Validate(&k.s)
		}, "bug Internal list corruption detected", "bug Internal list corruption detected"},
		{"chain leaves, alloc", StoreUser, func(k *wordBank) {
			k.s.Freelist = k.at(3)
			if _, ok := k.alloc(); ok {
				k.got = nil
			}
		}, "fatal Internal list corruption detected", "fatal Internal list corruption detected"},
		{"chain leaves, free", Sanity, func(k *wordBank) {
			a, _ := k.alloc()
			k.s.Freelist = 7
			k.release(a)
		}, "fatal Internal list corruption detected", "fatal Internal list corruption detected"},
		{"head is live, alloc", all, func(k *wordBank) {
			a, _ := k.alloc()
			k.s.Freelist = a
			k.alloc()
		}, "fatal " + either, "bug Slab corruption; bug " + either},
		{"last object of three", all, func(k *wordBank) {
			for range 3 {
				k.alloc()
			}
			if k.s.Freelist != 1 || !k.release(k.at(2)) {
				k.got = nil
			}
			k.Validate(&k.s)
		}, "", ""},
	} {
		for _, word := range []uint64{2, 4, 8} {
			for rules, want := range map[Rules]string{SLAB24: c.s24, SLAB26: c.s26} {
				k := newWordBank(t, Spec{Size: 8, Word: word, Flags: c.flags, Rules: rules}, 3)
				c.do(k)
				if got := k.said(); got != want {
					t.Errorf("%s, %v, word %d: reported\n%q, want\n%q", c.name, rules, word,
						got, want)
				}
			}
		}
	}
}

// TestSlabDetail looks at the evidence of reports.
func TestSlabDetail(t *testing.T) {
	k := newWordBank(t, Spec{Size: 8, Word: 8, Flags: Default, Rules: SLAB26}, 2)
	a, _ := k.alloc()
	by := Track{Line: 5, Task: 1, CPU: 1, Step: 8, Set: true}
	k.SetTrack(AllocTrack, a, by)
	k.flip(a+9, 0x10)
	k.flip(a+11, 0x01)
	k.release(a)
	k.flip(a+2, 0x04)
	k.alloc()
	k.release(a)
	k.flip(a+2, 0x04)
	k.flip(a+7, 0x04)
	k.alloc()
	if len(k.got) != 3 {
		t.Fatalf("reported %s", k.said())
	}
	red, bit, more := k.got[0], k.got[1], k.got[2]
	if red.Region != RightRed || red.From != a+9 || red.To != a+12 || red.Got != 0x98 ||
		red.Want != 0x88 || red.Alloc != by || red.Free.Set ||
		red.Detail != "redzone 1:0xd84156c5635688c0, redzone 2:0xd84156c5625698c0" {
		t.Errorf("red word: %+v", red)
	}
	if want := fmt.Sprintf("start=0x%x, len=8. First byte 0x6f instead of 0x6b. "+
		"Single bit error detected", a); bit.Detail != want || bit.From != a+2 || bit.To != a+3 {
		t.Errorf("one bit: %+v, want %q", bit, want)
	}
	want := fmt.Sprintf("start=0x%x, len=8. First byte 0x6f instead of 0x6b", a)
	if more.Detail != want ||
		more.From != a+2 || more.To != a+8 {
		t.Errorf("two bytes: %+v, want %q", more, want)
	}
}

// TestSlabNoMemory: where nothing can be read nothing is wrong, and nothing dies.
func TestSlabNoMemory(t *testing.T) {
	for _, rules := range []Rules{SLAB24, SLAB26} {
		k := newWordBank(t, Spec{Size: 8, Word: 8, Flags: Default, Rules: rules}, 3)
		k.b = nil
		a, ok := k.alloc()
		if !ok || !k.release(a) {
			t.Errorf("%v: refused", rules)
		}
		k.SetUp(&k.s)
		k.Validate(&k.s)
		k.Discard(&k.s)
		for _, a := range []uint64{0, 1, 1<<64 - 1, 1 << 63} {
			k.Activate(a, 1<<64-1)
			k.Deactivate(a)
			k.Widen(a)
		}
		if got := k.said(); got != "" {
			t.Errorf("%v: reported %s", rules, got)
		}
		k.s = Slab{Objects: -1, Max: 1 << 30, Inuse: -5, Freelist: 77}
		k.Validate(&k.s)
		k.AllocOK(&k.s, 77)
		k.FreeOK(&k.s, []uint64{77}, -1)
		k.Discard(&k.s)
	}
}

// TestSlabTop uses a slab that ends where addresses do, in memory that was used before.
func TestSlabTop(t *testing.T) {
	for _, rules := range []Rules{SLAB24, SLAB26} {
		k := newWordBankAt(t, Spec{Size: 8, Word: 8, Flags: RedZone, Rules: rules}, 3, 0)
		for range 3 {
			k.alloc()
		}
		if !k.release(k.at(2)) || !k.release(k.at(0)) {
			t.Errorf("%v: refused", rules)
		}
		k.Validate(&k.s)
		if got := k.said(); got != "" {
			t.Errorf("%v: reported %s", rules, got)
		}
		k = newWordBank(t, Spec{Size: 8, Word: 8, Flags: Default, Rules: rules}, 2)
		for i := range k.b {
			k.b[i] = 0xee
		}
		k.SetUp(&k.s)
		if by := k.Track(AllocTrack, k.at(1)); by.Set {
			t.Errorf("%v: a new slab has a last user: %v", rules, by)
		}
	}
}
