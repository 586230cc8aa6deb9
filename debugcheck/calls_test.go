package debugcheck

import "testing"

func TestCounted(t *testing.T) {
	fzpu(t, 1, func(t *testing.T, b *bank) {
		b.k.Counted(NrPartial, 2, 2)
		b.k.Counted(NrSlabs, 0, 0)
		b.expect()
		b.k.Counted(NrPartial, 2, 3)
		b.k.Counted(NrSlabs, 5, 4)
		b.line(1, "2 partial slabs counted but counter=3")
		b.line(2, "5 slabs counted but counter=4")
		if b.found[0].Region != NrPartial || b.found[1].Region != NrSlabs {
			t.Error("the counter is not named")
		}
		b.expect("partial slabs counted but counter differs", "slabs counted but counter differs")
	})
}

func TestDeactivated(t *testing.T) {
	fzpu(t, 3, func(t *testing.T, b *bank) {
		a := b.object(0)
		if !b.k.Deactivated(&b.slab, a, b.object(2)) || !b.k.Deactivated(&b.slab, a, bankEnd) {
			t.Error("a link that is right was cut")
		}
		b.expect()
		if b.k.Deactivated(&b.slab, a, a+8) {
			t.Error("a link into an object was not cut")
		}
		b.line(1, "", "Isolate corrupted freechain")
		if b.found[0].Object != a || b.found[0].Slot == nil {
			t.Errorf("%+v", b.found[0])
		}
		b.expect("Freechain corrupt")
	})
	b := newBank(t, Spec{Size: 20, Flags: RedZone}, 3)
	if !b.k.Deactivated(&b.slab, b.object(0), 0x1234) {
		t.Error("without F links are not looked at")
	}
	b.expect()
}

// Calls that go to the wrong place are warnings, but to 2.4, which stops, and to a guard,
// to which an address in no slab is like any other that begins no object.
func TestWrongCalls(t *testing.T) {
	for _, c := range []struct {
		rules   Rules
		kind    Kind
		notSlab string
		other   Kind
	}{
		{SLUB61, Warn, "Object is not a Slab page", Warn},
		{SLUB612, Warn, "Object is not a Slab page", Warn},
		{SLAB26, Warn, "Object is not a Slab page", Warn},
		{SLAB24, Fatal, "Object is not a Slab page", Fatal},
		{Guard, Bug, "Invalid object pointer", Warn},
	} {
		l, err := NewLayout(Spec{Name: "mine", Size: 8, Word: 8, Flags: Default, Rules: c.rules})
		if err != nil {
			t.Fatal(err)
		}
		var got []*Report
		k := Checker{Layout: &l, Out: func(r *Report) { got = append(got, r) }}
		k.NotSlab(0x77)
		k.WrongCache("yours", 0x78)
		if len(got) != 2 {
			t.Fatalf("%v: %d reports", c.rules, len(got))
		}
		if r := got[0]; r.Title != c.notSlab || r.Kind != c.kind || r.Object != 0x77 ||
			r.Detail != "0x77" || r.Slot != nil {
			t.Errorf("%v: %+v", c.rules, r)
		}
		if r := got[1]; r.Title != "Wrong slab cache" || r.Kind != c.other || r.Cache != "mine" ||
			r.Object != 0x78 || r.Detail != "yours but object is from mine" {
			t.Errorf("%v: %+v", c.rules, r)
		}
	}
}

// The slab of a guard is one object: its head says whether that is free.
func TestGuard(t *testing.T) {
	b := newBank(t, Spec{Size: 20, Flags: Default, Rules: Guard}, 1)
	b.slab.Bytes = b.l.Stride
	a := b.object(0)
	b.k.Activate(a, 20)
	b.slab.Inuse, b.slab.Freelist = 1, bankEnd
	b.SetLink(a, 0x1234) // there is no chain, and nothing looks at it
	b.k.Validate(&b.slab)
	b.slab.Inuse = 0 // nor is anything counted
	b.k.Validate(&b.slab)
	b.expect()
	b.slab.Inuse = 1
	b.flip(a+20, 1)
	if b.k.FreeOK(&b.slab, []uint64{a}, 1) || !b.k.FreeOK(&b.slab, []uint64{a}, 1) {
		t.Error("the first free should be refused, the second not")
	}
	b.expect(saysRight)
	b.k.FreeOK(&b.slab, []uint64{a + 1}, 1)
	b.expect("Invalid object pointer")
	b.k.Deactivate(a)
	b.slab.Inuse, b.slab.Freelist = 0, a
	b.k.Validate(&b.slab)
	b.expect()
	if b.k.FreeOK(&b.slab, []uint64{a}, 1) {
		t.Error("freed twice")
	}
	b.line(1, "", "Object at 0x4008 not freed")
	b.expect("Object already free")
	b.flip(a, 1)
	b.k.Validate(&b.slab)
	b.expect(saysPoison)
	b.flip(a+19, 1)
	b.k.Discard(&b.slab)
	b.expect(saysLast)
}

// A dump asks for every byte of the slot once, and what is no memory gives no dump.
func TestDump(t *testing.T) {
	for _, flags := range []Flags{Default, Sanity | RedZone, Sanity | StoreUser} {
		b := newBank(t, Spec{Size: 20, Flags: flags}, 3)
		a := b.object(1)
		b.asked = 0
		b.k.Deactivated(&b.slab, a, 0x1234)
		if r := b.found[0]; b.asked != b.l.Stride || uint64(len(r.Slot)) != b.l.Stride {
			t.Errorf("%v: %d bytes were asked for, the slot has %d", flags, b.asked, b.l.Stride)
		}
		b.missing = true
		b.k.Deactivated(&b.slab, a, 0x1234)
		if r := b.found[1]; r.Slot != nil || r.Object != a || r.Alloc.Set {
			t.Errorf("%v: %+v", flags, r)
		}
	}
}
