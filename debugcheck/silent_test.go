package debugcheck

import (
	"fmt"
	"testing"
)

// A dice is a row of numbers that always comes the same.
type dice uint64

// roll gives a number below n.
func (d *dice) roll(n int) int {
	*d = *d*6364136223846793005 + 1442695040888963407
	return int(uint64(*d) >> 33 % uint64(n))
}

// specs are caches of every kind: rules, flags, words, sizes, constructor, RCU, kmalloc.
func specs(yield func(Spec) bool) {
	for _, rules := range []Rules{SLUB61, SLUB612} {
		for flags := range Flags(1 << len(Letters)) {
			for _, word := range []uint64{8, 4, 2} {
				for _, size := range []uint64{1, 2, 3, 7, 8, 9, 24, 31, 64, 100} {
					for kind := range 8 {
						s := Spec{Size: size, Flags: flags, Word: word, Rules: rules,
							Kmalloc: kind&1 != 0, Ctor: kind&2 != 0, RCU: kind&4 != 0,
							First: size%3 == 0}
						if kind == 1 && size&(size-1) == 0 {
							s.Align = size
						}
						if !yield(s) {
							return
						}
					}
				}
			}
		}
	}
}

// A program that does nothing wrong is never reported, whatever the cache.
func TestSilent(t *testing.T) {
	d := dice(1)
	for s := range specs {
		b := newBank(t, s, 4)
		live := []uint64{}
		for range 24 {
			switch n := d.roll(5); {
			case n < 2 && len(live) < 4:
				a := b.alloc(1 + uint64(d.roll(int(b.l.Size))))
				if !s.Kmalloc || s.Rules == SLUB61 {
					b.flip(a, b.l.Size) // all of the object is the program's
				}
				live = append(live, a)
			case n < 4 && len(live) > 0:
				i := d.roll(len(live))
				if !b.release(live[i]) {
					t.Errorf("%+v: a free was refused", s)
				}
				live = append(live[:i], live[i+1:]...)
			case n == 4:
				b.k.Validate(&b.slab)
			}
		}
		for _, a := range live {
			b.release(a)
		}
		b.k.Validate(&b.slab)
		b.k.Discard(&b.slab)
		if b.slab.Inuse != 0 || len(b.found) != 0 {
			t.Fatalf("%+v: %d in use, %q", s, b.slab.Inuse, b.said())
		}
	}
}

// Nothing is allocated while nothing is found.
func TestNoGarbage(t *testing.T) {
	b := newBank(t, Spec{Size: 64, Flags: Default}, 25)
	list := []uint64{0}
	work := func() {
		a := b.take()
		b.k.AllocOK(&b.slab, a)
		b.k.Activate(a, 64)
		b.k.Validate(&b.slab)
		list[0] = a
		b.k.FreeOK(&b.slab, list, 1)
		b.k.Deactivate(a)
		b.SetLink(a, b.slab.Freelist)
		b.slab.Freelist, b.slab.Inuse = a, b.slab.Inuse-1
		b.k.Discard(&b.slab)
	}
	work()
	if n := testing.AllocsPerRun(20, work); n != 0 {
		t.Errorf("%v allocations", n)
	}
	b.expect()
}

// Whatever is damaged, the checks end, read nothing that is not there, and give every
// report a title of the table.
func TestAnyDamage(t *testing.T) {
	d, n := dice(7), 0
	for s := range specs {
		if n++; n%3 != 0 {
			continue
		}
		b := newBank(t, s, 3)
		a := b.alloc(1)
		for range 1 + d.roll(6) {
			b.mem[d.roll(len(b.mem))] ^= byte(1 << d.roll(8))
		}
		wild := []uint64{0, 1, a, a + 1, b.base - 1, b.base + uint64(len(b.mem)), 1 << 63,
			1<<64 - 1}
		switch d.roll(6) {
		case 0:
			b.slab.Objects = []int{-1, 0, 1, 2, 4, 32767, -1 << 63, 1<<63 - 1}[d.roll(8)]
		case 1:
			b.slab.Inuse = []int{-1, 0, 2, 3, 65535, -1 << 63, 1<<63 - 1}[d.roll(7)]
		case 2:
			b.slab.Freelist = wild[d.roll(len(wild))]
		case 3:
			b.SetLink(b.object(1), b.object(1+d.roll(2))) // a ring
		case 4:
			b.missing = true
		}
		for _, w := range wild {
			b.k.AllocOK(copyOf(b.slab), w)
			b.k.FreeOK(copyOf(b.slab), []uint64{w, a}, 1+d.roll(2))
			b.k.Deactivated(&b.slab, a, w)
			b.k.NotSlab(w)
			b.k.WrongCache("other", w)
		}
		b.k.Validate(&b.slab)
		b.k.Discard(&b.slab)
		for _, r := range b.found {
			if _, ok := LookupTitle(r.Title); !ok {
				t.Fatalf("%+v: title %q is not in the table", s, r.Title)
			}
		}
	}
}

// Without anybody to tell, the checks do the same.
func TestDeaf(t *testing.T) {
	b := newBank(t, Spec{Size: 8, Flags: Default}, 2)
	a := b.alloc(8)
	b.k.Out = nil
	b.flip(a+8, 1)
	if b.release(a) || !b.release(a) {
		t.Error("the first free should be refused, the second not")
	}
}

// Bytes are found by words: every length, every place, both ends.
func TestFirstAndLastByte(t *testing.T) {
	for n := uint64(1); n < 90; n++ {
		for i := range n {
			b := newBank(t, Spec{Size: n + 1, Flags: Sanity | Poison}, 1)
			a := b.object(0)
			b.flip(a+i, 1)
			if i%3 == 0 {
				b.flip(a+n-1, 1)
			}
			last := a + i
			if i%3 == 0 {
				last = a + n - 1
			}
			if i == n-1 && i%3 == 0 {
				continue // inverted twice
			}
			b.k.Discard(&b.slab)
			want := fmt.Sprintf("0x%x-0x%x", a+i, last)
			if len(b.found) != 1 || b.found[0].From != a+i || b.found[0].To != last+1 {
				t.Fatalf("%d bytes, %d: %+v, expected %s", n, i, b.found, want)
			}
			b.said()
			b.k.Discard(&b.slab)
			b.expect()
		}
	}
}

// copyOf gives a slab that may be changed.
func copyOf(s Slab) *Slab { return &s }
