package debugcheck

import (
	"fmt"
	"strings"
	"testing"
)

// runs spells bytes as runs: "8*bb 11*6b a5".
func runs(b []byte) string {
	out := []string{}
	for i := 0; i < len(b); {
		n := 1
		for i+n < len(b) && b[i+n] == b[i] {
			n++
		}
		if n == 1 {
			out = append(out, fmt.Sprintf("%02x", b[i]))
		} else {
			out = append(out, fmt.Sprintf("%d*%02x", n, b[i]))
		}
		i += n
	}
	return strings.Join(out, " ")
}

// A filling says how the only slot of a slab looks: as a new slab has it, when 5 bytes
// were asked for, and when it was freed again. The link is 0 all the time, the program
// writes nothing.
type filling struct {
	name                 string
	spec                 Spec
	fresh, active, freed string
}

// The slot of a 12-byte object: with Z 8 bytes of red zone, the object, 4 bytes of red
// zone; without Z the object and 4 bytes of padding. ".." is what was there before.
var fillings = []filling{
	{"Z", Spec{Size: 12, Flags: RedZone},
		"8*bb .12 4*bb .8", "8*cc .12 4*cc .8", "8*bb .12 4*bb .8"},
	{"P", Spec{Size: 12, Flags: Poison},
		"11*6b a5 4*5a 8*00", "11*6b a5 4*5a 8*00", "11*6b a5 4*5a 8*00"},
	{"ZP", Spec{Size: 12, Flags: RedZone | Poison},
		"8*bb 11*6b a5 4*bb 8*00 8*5a", "8*cc 11*6b a5 4*cc 8*00 8*5a",
		"8*bb 11*6b a5 4*bb 8*00 8*5a"},
	{"ZP with a whole word of red zone", Spec{Size: 16, Flags: RedZone | Poison},
		"8*bb 15*6b a5 8*bb 8*00 8*5a", "8*cc 15*6b a5 8*cc 8*00 8*5a",
		"8*bb 15*6b a5 8*bb 8*00 8*5a"},
	{"ZP with a constructor", Spec{Size: 12, Flags: RedZone | Poison, Ctor: true},
		"8*bb 12*5a 4*bb 8*00 8*5a", "8*cc 12*5a 4*cc 8*00 8*5a",
		"8*bb 12*5a 4*bb 8*00 8*5a"},
	{"P under RCU", Spec{Size: 12, Flags: Poison, RCU: true},
		"16*5a 8*00", "16*5a 8*00", "16*5a 8*00"},
	{"U", Spec{Size: 12, Flags: StoreUser}, ".16 64*00", ".16 64*00", ".16 64*00"},
	{"F", Spec{Size: 12, Flags: Sanity}, ".16", ".16", ".16"},
	{"one byte, ZP", Spec{Size: 1, Flags: RedZone | Poison},
		"8*bb a5 7*bb 8*00 8*5a", "8*cc a5 7*cc 8*00 8*5a", "8*bb a5 7*bb 8*00 8*5a"},
	{"kmalloc ZPU, 6.12", Spec{Size: 12, Flags: RedZone | Poison | StoreUser, Kmalloc: true,
		Rules: SLUB612},
		"8*bb 11*6b a5 4*bb 72*00 16*5a", "8*cc 4*6b a5 11*cc 72*00 05 7*00 8*5a",
		"8*bb 11*6b a5 4*bb 72*00 05 7*00 8*5a"},
	{"kmalloc ZU, 6.12", Spec{Size: 12, Flags: RedZone | StoreUser, Kmalloc: true,
		Rules: SLUB612},
		"8*bb .12 4*bb 72*00 .16", "8*cc .5 11*cc 72*00 05 7*00 .8",
		"8*bb .5 7*cc 4*bb 72*00 05 7*00 .8"},
	{"kmalloc PU, 6.12", Spec{Size: 12, Flags: Poison | StoreUser, Kmalloc: true,
		Rules: SLUB612},
		"11*6b a5 4*5a 72*00 8*5a", "11*6b a5 4*5a 72*00 05 7*00",
		"11*6b a5 4*5a 72*00 05 7*00"},
	{"kmalloc ZPU, 6.1", Spec{Size: 12, Flags: RedZone | Poison | StoreUser, Kmalloc: true},
		"8*bb 11*6b a5 4*bb 72*00 16*5a", "8*cc 11*6b a5 4*cc 72*00 05 3*00 12*5a",
		"8*bb 11*6b a5 4*bb 72*00 05 3*00 12*5a"},
}

// remains is what a bank's memory holds before, as newBank writes it.
func remains(i int) byte { return byte(i*7 + 3) }

// unroll makes bytes of a filling: ".12" are 12 bytes of what was there.
func unroll(t *testing.T, s string) []byte {
	out := []byte{}
	for _, f := range strings.Fields(s) {
		var n, v int
		switch {
		case f[0] == '.':
			fmt.Sscanf(f, ".%d", &n)
			for range n {
				out = append(out, remains(len(out)))
			}
			continue
		case strings.Contains(f, "*"):
			fmt.Sscanf(f, "%d*%x", &n, &v)
		default:
			n = 1
			fmt.Sscanf(f, "%x", &v)
		}
		out = append(out, []byte(strings.Repeat(string([]byte{byte(v)}), n))...)
	}
	return out
}

func TestFills(t *testing.T) {
	for _, f := range fillings {
		b := newBank(t, f.spec, 1)
		a := b.object(0)
		see := func(when, want string) {
			t.Helper()
			w := unroll(t, want)
			if b.l.Outside {
				b.SetLink(a, 0)
			} else {
				for i := range b.l.Word { // what newBank linked
					at := b.l.Pad + b.l.Link + i
					b.mem[at] = w[at]
				}
			}
			if len(w) != int(b.l.Stride) {
				t.Errorf("%s %s: the table has %d bytes, the slot %d", f.name, when, len(w),
					b.l.Stride)
			} else if got := runs(b.mem[:len(w)]); got != runs(w) {
				t.Errorf("%s %s: %s, expected %s", f.name, when, got, runs(w))
			}
		}
		see("fresh", f.fresh)
		b.k.Activate(a, 5)
		see("active", f.active)
		b.k.Deactivate(a)
		see("freed", f.freed)
		pad := b.mem[b.l.Stride:]
		if f.spec.Flags.Has(Poison) && runs(pad) != "24*5a" {
			t.Errorf("%s: behind the last slot: %s", f.name, runs(pad))
		}
		if last := len(b.mem) - 1; !f.spec.Flags.Has(Poison) && b.mem[last] != remains(last) {
			t.Errorf("%s: the end of the slab was written without P", f.name)
		}
		b.expect()
	}
}

func TestSizeAskedFor(t *testing.T) {
	spec := Spec{Size: 32, Flags: Sanity | RedZone | Poison | StoreUser, Kmalloc: true,
		Rules: SLUB612}
	for _, c := range []struct {
		size uint64
		want string
	}{
		{0, "40*cc"}, {1, "a5 39*cc"}, {31, "30*6b a5 9*cc"}, {32, "31*6b a5 8*cc"},
		{33, "31*6b a5 8*cc"}, {1<<64 - 1, "31*6b a5 8*cc"},
	} {
		b := newBank(t, spec, 1)
		a := b.take()
		b.k.Activate(a, c.size)
		if got := runs(b.Bytes(Object, a, 40)); got != c.want {
			t.Errorf("%d bytes: %s, expected %s", c.size, got, c.want)
		}
		b.k.Validate(&b.slab)
		b.expect()
	}
}

// After ksize the whole object may be written.
func TestWiden(t *testing.T) {
	spec := Spec{Size: 32, Flags: Sanity | RedZone | StoreUser, Kmalloc: true, Rules: SLUB612}
	b := newBank(t, spec, 2)
	a := b.alloc(20)
	b.k.Widen(a)
	b.flip(a+20, 12)
	b.k.Validate(&b.slab)
	b.release(a)
	b.expect()
	plain := newBank(t, Spec{Size: 32, Flags: RedZone}, 1)
	before := runs(plain.mem)
	plain.k.Widen(plain.object(0))
	if runs(plain.mem) != before {
		t.Error("Widen wrote where no size is kept")
	}
}
