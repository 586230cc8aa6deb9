package debugcheck

import (
	"fmt"
	"slices"
	"testing"
)

// fzpu is a cache with all checks, under each rule set.
func fzpu(t *testing.T, objects int, f func(t *testing.T, b *bank)) {
	for _, rules := range []Rules{SLUB61, SLUB612} {
		t.Run(rules.String(), func(t *testing.T) {
			f(t, newBank(t, Spec{Size: 20, Flags: Default, Rules: rules}, objects))
		})
	}
}

// line fails unless the n-th report (from 1) has this detail and these fixes.
func (b *bank) line(n int, detail string, fixes ...string) {
	b.t.Helper()
	if len(b.found) < n {
		b.t.Fatalf("%d reports, expected %d", len(b.found), n)
	}
	r := b.found[n-1]
	if r.Detail != detail || !slices.Equal(r.Fixes, fixes) {
		b.t.Errorf("%s: detail %q, fixes %q; expected %q, %q", r.Title, r.Detail, r.Fixes, detail,
			fixes)
	}
}

// is fails unless the slab's counts and head are these.
func (b *bank) is(objects, inuse int, frozen bool, freelist uint64) {
	b.t.Helper()
	s := &b.slab
	if s.Objects != objects || s.Inuse != inuse || s.Frozen != frozen || s.Freelist != freelist {
		b.t.Errorf("slab %+v, expected %d objects, %d in use, frozen %v, freelist %#x", *s, objects,
			inuse, frozen, freelist)
	}
}

// again fails unless these of the reports stand under the heading of one before.
func (b *bank) again(want ...bool) {
	b.t.Helper()
	got := []bool{}
	for _, r := range b.found {
		got = append(got, r.Again)
	}
	if !slices.Equal(got, want) {
		b.t.Errorf("under an earlier heading: %v, expected %v", got, want)
	}
}

// The slab of 4 objects of 20 bytes: slots of 8+24+8+64+8 = 112 bytes, so that the first
// object is at 0x4008, the next at 0x4078, 0x40e8, 0x4158, and the end at 0x41c0.

func TestSlabChecks(t *testing.T) {
	const disabled = "Slab disabled since SLUB metadata consistency check failed"
	for _, c := range []struct {
		break_ func(s *Slab)
		title  string
		detail string
	}{
		{func(s *Slab) { s.Foreign, s.Objects, s.Inuse, s.Frozen = true, 9, 10, true },
			"Not a valid slab page", ""},
		{func(s *Slab) { s.Objects, s.Inuse, s.Frozen = 9, 10, true },
			"objects exceeds max", "objects 9 > max 4"},
		{func(s *Slab) { s.Objects, s.Inuse, s.Frozen = 2, 3, true },
			"inuse exceeds max", "inuse 3 > max 2"},
		{func(s *Slab) { s.Frozen = true }, disabled, ""},
	} {
		fzpu(t, 4, func(t *testing.T, b *bank) {
			a := b.alloc(20)
			b.flip(a-1, 1) // the object is not looked at, nor is the padding
			b.flip(b.base+4*b.l.Stride, 1)
			c.break_(&b.slab)
			s := b.slab
			b.k.Validate(&b.slab)
			b.line(1, c.detail)
			if b.found[0].Stored != s {
				t.Errorf("the report says the slab was %+v", b.found[0].Stored)
			}
			b.expect(c.title)
			if b.k.FreeOK(&b.slab, []uint64{a}, 1) {
				t.Error("the free was not refused")
			}
			b.line(1, c.detail, "Object at 0x4008 not freed")
			b.expect(c.title)
			if b.slab != s {
				t.Errorf("the slab was changed: %+v, %+v", b.slab, s)
			}
			if b.k.AllocOK(&b.slab, b.object(1)) {
				t.Error("the allocation was not refused")
			}
			b.line(1, c.detail, "Marking all objects used")
			b.expect(c.title)
			b.is(s.Objects, s.Objects, true, bankEnd)
			if r := b.found; r != nil {
				t.Error("reports stay")
			}
		})
	}
}

func TestSlabPadding(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		const fix = "Restoring slab padding 0x41c2-0x41c6=0x5a"
		looks := []func(){func() { b.k.Validate(&b.slab) }, func() {
			if a := b.take(); !b.k.AllocOK(&b.slab, a) {
				t.Error("padding retired a slab")
			}
			b.k.Activate(b.object(0), 20)
		}, func() {
			if !b.release(b.object(0)) {
				t.Error("padding refused a free")
			}
		}, func() { b.k.Discard(&b.slab) }}
		for _, look := range looks {
			b.flip(0x41c2, 1)
			b.flip(0x41c6, 1)
			look()
			b.line(1, "0x41c2-0x41c6 @offset=450", fix)
			r := b.found[0]
			if r.Region != SlabPad || r.Object != 0 || r.Slot != nil || r.Slab != 0x4000 {
				t.Errorf("%+v", r)
			}
			b.expect("Padding overwritten")
			if got := runs(b.mem[4*b.l.Stride:]); got != "24*5a" {
				t.Errorf("not restored: %s", got)
			}
		}
	})
	b := newBank(t, Spec{Size: 20, Flags: Sanity | RedZone | StoreUser}, 4)
	b.flip(b.base+4*b.l.Stride, 24)
	b.k.Validate(&b.slab)
	b.k.Discard(&b.slab)
	b.expect()
}

// All regions of an object are wrong at once: 6.12 says all, in order, and 6.1 the
// first, at each look the next one.
func TestOrderOfChecks(t *testing.T) {
	damage := func(b *bank, a uint64) {
		for _, off := range []uint64{^uint64(0), 20, 32 + 64, 19, 3} {
			b.flip(a+off, 1)
		}
		b.SetLink(a, a+1)
	}
	live := []string{saysLeft, saysRight, saysPad, saysLink}
	free := []string{saysLeft, saysRight, saysPoison, saysLast, saysPad, saysLink}
	b := newBank(t, Spec{Size: 20, Flags: Default, Rules: SLUB612}, 2)
	a := b.alloc(20)
	damage(b, a)
	b.release(a)
	b.line(4, "", "Object at 0x4008 not freed")
	b.again(false, true, true, true)
	b.expect(live...)
	b.release(a)
	b.expect()
	damage(b, a)
	b.k.Discard(&b.slab)
	b.again(false, true, true, true, true, true)
	b.expect(free...)

	b = newBank(t, Spec{Size: 20, Flags: Default}, 2)
	a = b.alloc(20)
	damage(b, a)
	for _, title := range []string{saysLeft, saysRight} {
		b.release(a)
		b.expect(title)
	}
	b.release(a)
	b.again(false, false)
	b.expect(saysPad, saysLink) // the padding alone would not refuse it
	if !b.release(a) {
		t.Error("all is repaired, and the free is refused")
	}
	damage(b, a)
	for _, title := range []string{saysLeft, saysRight, saysPoison, saysLast} {
		b.k.Discard(&b.slab)
		b.expect(title)
	}
	b.k.Discard(&b.slab)
	b.expect(saysPad, saysLink)
	b.k.Discard(&b.slab)
	b.expect()
}

// From the first wrong byte to the last, right ones between them too.
func TestRange(t *testing.T) {
	fzpu(t, 2, func(t *testing.T, b *bank) {
		a := b.alloc(20)
		b.flip(a-7, 1)
		b.flip(a-2, 1)
		b.k.Validate(&b.slab)
		b.line(1, "0x4001-0x4006 @offset=1. First byte 0x33 instead of 0xcc",
			"Restoring Left Redzone 0x4001-0x4006=0xcc")
		b.expect(saysLeft)
		if got := runs(b.mem[:8]); got != "8*cc" {
			t.Errorf("restored: %s", got)
		}
	})
}

// A slab that failed once is of no use any more, even though its bytes were repaired.
func TestRetire(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		b.flip(b.object(0)+5, 1)
		if b.alloc(20) != 0 {
			t.Error("the object was handed out")
		}
		b.line(1, "0x400d-0x400d @offset=13. First byte 0x94 instead of 0x6b",
			"Restoring Poison 0x400d-0x400d=0x6b", "Marking all objects used")
		b.expect(saysPoison)
		b.is(4, 4, true, bankEnd)
	})
	b := newBank(t, Spec{Size: 20, Flags: RedZone | Poison | StoreUser}, 4)
	b.flip(b.object(0)-8, 40)
	if b.alloc(20) == 0 {
		t.Error("without F nothing is checked")
	}
	b.expect()
}

func TestFreelistPointer(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		for _, bad := range []uint64{0, 0x4009, 0x4000, 0x41c8, 1 << 63} {
			b.slab.Freelist = bad
			a := b.take()
			if b.k.AllocOK(&b.slab, a) {
				t.Errorf("%#x was handed out", bad)
			}
			if r := b.found[0]; r.Slot != nil || r.Object != bad {
				t.Errorf("%#x: %+v", bad, r)
			}
			b.line(1, "", "Marking all objects used")
			b.expect("Freelist Pointer check fails")
			b.is(4, 4, true, bankEnd)
			b.slab.Frozen, b.slab.Inuse = false, 0
		}
	})
}

func TestFreePointers(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		a := b.alloc(20)
		for _, bad := range []uint64{0, 1, a + 1, a - 8, a + 8, b.object(3) + b.l.Stride,
			a - b.l.Stride, 1<<64 - 1} {
			if b.release(bad) {
				t.Errorf("%#x was freed", bad)
			}
			if r := b.found[0]; r.Slot != nil || r.Object != bad {
				t.Errorf("%#x: %+v", bad, r)
			}
			b.line(1, fmt.Sprintf("0x%x", bad), fmt.Sprintf("Object at 0x%x not freed", bad))
			b.expect("Invalid object pointer")
		}
		b.is(4, 1, false, b.object(1))
		c := b.alloc(20)
		b.alloc(20)
		b.release(a)
		b.release(a)
		b.line(1, "", "Object at 0x4008 not freed")
		r := b.found[0]
		if r.Slot == nil || r.Object != a || r.Alloc.Line != 3 || r.Free.Line != 4 {
			t.Errorf("%+v", r)
		}
		b.expect("Object already free")
		b.release(c)
		b.release(a) // it is the second of the list now
		b.expect("Object already free")
	})
}

// Without F a free looks at the count alone.
func TestFreeWithoutSanity(t *testing.T) {
	b := newBank(t, Spec{Size: 20, Flags: RedZone | Poison | StoreUser}, 4)
	a := b.alloc(20)
	b.alloc(20)
	b.slab.Frozen, b.slab.Objects = true, 9
	b.flip(a-8, 8)
	if !b.release(a) || !b.release(a) {
		t.Error("a free was refused")
	}
	b.expect()
	if b.release(a) {
		t.Error("the count was not looked at")
	}
	b.line(1, "Slab has 0 allocated objects but 1 are to be freed", "Object at 0x4008 not freed")
	b.expect("Slab has fewer allocated objects than are to be freed")
}
