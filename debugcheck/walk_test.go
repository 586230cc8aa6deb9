package debugcheck

import "testing"

// chainCase is a slab of 4 objects of which object 0 is live, and what is wrong with its
// chain 1, 2, 3 or its counts.
type chainCase struct {
	name   string
	spoil  func(b *bank)
	titles []string // at a validation
	detail string   // of the last of them
	fixes  []string
	// The slab then.
	objects, inuse int
	head           int // object, -1 none
}

var chainCases = []chainCase{
	{"head", func(b *bank) { b.slab.Freelist++ }, []string{saysLink}, "",
		[]string{"Freelist cleared"}, 4, 4, -1},
	{"head 0", func(b *bank) { b.slab.Freelist = 0 }, []string{saysLink}, "",
		[]string{"Freelist cleared"}, 4, 4, -1},
	{"last link", func(b *bank) { b.SetLink(b.object(3), 0) },
		[]string{"Freechain corrupt"}, "", nil, 4, 1, 1},
	{"second link", func(b *bank) { b.SetLink(b.object(2), b.base) },
		[]string{"Freechain corrupt", "Wrong object count", saysLeft},
		"0x4150-0x4157 @offset=336. First byte 0xbb instead of 0xcc",
		[]string{"Restoring Left Redzone 0x4150-0x4157=0xcc"}, 4, 2, 1},
	{"too few in use", func(b *bank) { b.slab.Inuse = 0 }, []string{"Wrong object count"},
		"Counter is 0 but counted were 1", []string{"Object count adjusted"}, 4, 1, 1},
	{"too many in use", func(b *bank) { b.slab.Inuse = 3 }, []string{"Wrong object count"},
		"Counter is 3 but counted were 1", []string{"Object count adjusted"}, 4, 1, 1},
	{"an object lost", func(b *bank) { b.slab.Freelist = b.object(2) },
		[]string{"Wrong object count", saysLeft},
		"0x4070-0x4077 @offset=112. First byte 0xbb instead of 0xcc",
		[]string{"Restoring Left Redzone 0x4070-0x4077=0xcc"}, 4, 2, 2},
	{"a ring", func(b *bank) { b.SetLink(b.object(3), b.object(1)) },
		[]string{"Wrong object count"}, "Counter is 1 but counted were -1",
		[]string{"Object count adjusted"}, 4, 0xffff, 1},
}

func TestChain(t *testing.T) {
	for _, c := range chainCases {
		fzpu(t, 4, func(t *testing.T, b *bank) {
			b.alloc(20)
			c.spoil(b)
			b.k.Validate(&b.slab)
			if b.l.Rules == SLUB612 && c.titles[len(c.titles)-1] == saysLeft {
				// 6.12 also reports the other red zone, which is that of a free object.
				if n := len(b.found); n != len(c.titles)+1 || b.found[n-1].Title != saysRight {
					t.Fatalf("%s: %q", c.name, b.said())
				}
				b.found = b.found[:len(c.titles)]
			}
			b.line(len(b.found), c.detail, c.fixes...)
			b.expect(c.titles...)
			head := uint64(bankEnd)
			if c.head >= 0 {
				head = b.object(c.head)
			}
			b.is(c.objects, c.inuse, false, head)
		})
	}
}

// A corrupt head is a report about no object; a link one about the object before it,
// whose link ends the chain then.
func TestChainObjects(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		a := b.object(1)
		b.SetLink(a, 0x1234)
		b.k.Validate(&b.slab)
		if r := b.found[0]; r.Object != a || r.Slot == nil || b.Link(a) != bankEnd {
			t.Errorf("%+v, link %#x", r, b.Link(a))
		}
		b.said()
		b.slab.Freelist = 0x1234
		b.k.Validate(&b.slab)
		if r := b.found[0]; r.Object != 0 || r.Slot != nil {
			t.Errorf("%+v", r)
		}
	})
}

// A number of objects that is too small is known only after the walk; what lies beyond
// it is no object until then.
func TestObjectsTooFew(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		a := b.alloc(20)
		for range 3 {
			b.alloc(20)
		}
		b.release(a)
		b.slab.Objects = 3
		b.k.Validate(&b.slab)
		b.line(1, "Found 3 but should be 4", "Number of objects adjusted")
		b.expect("Wrong number of objects")
		b.is(4, 3, false, a)
		b.slab.Objects = 3
		if b.release(b.object(3)) {
			t.Error("the fourth of three objects was freed")
		}
		b.expect("Invalid object pointer")
		if !b.release(b.object(2)) {
			t.Error("the counts are repaired on the way, and the free goes on")
		}
		b.line(1, "Found 3 but should be 4", "Number of objects adjusted")
		b.expect("Wrong number of objects")
		b.is(4, 2, false, b.object(2))
	})
}

// A free repairs the chain of its slab and goes on.
func TestFreeRepairs(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		a := b.alloc(20)
		b.slab.Freelist = b.base
		if !b.release(a) {
			t.Error("the free was refused")
		}
		b.line(1, "", "Freelist cleared")
		b.expect(saysLink)
		b.is(4, 3, false, a)
		if b.Link(a) != bankEnd {
			t.Errorf("link %#x", b.Link(a))
		}
	})
}

// Without F the walk and the checks of objects are left to validation.
func TestValidateWithoutSanity(t *testing.T) {
	b := newBank(t, Spec{Size: 20, Flags: RedZone}, 3)
	a := b.alloc(20)
	b.flip(a+20, 1)
	b.flip(b.object(2)-1, 1)
	b.slab.Inuse = 2
	b.k.Validate(&b.slab)
	b.expect("Wrong object count", saysRight) // and stops at that object
	b.k.Validate(&b.slab)
	b.expect(saysLeft)
	b.slab.Inuse = 3
	b.k.Validate(&b.slab)
	b.expect("Wrong object count")
	b.release(a)
	b.flip(a-8, 60)
	b.k.Discard(&b.slab)
	b.expect()
}

func TestDiscardStopsNowhere(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		b.flip(b.base+4*b.l.Stride, 1)
		for i := range 4 {
			b.flip(b.object(i), 1)
		}
		b.k.Discard(&b.slab)
		b.again(false, false, false, false, false) // each object has its own heading
		b.expect("Padding overwritten", saysPoison, saysPoison, saysPoison, saysPoison)
		b.k.Discard(&b.slab)
		b.expect()
	})
}

func TestBulk(t *testing.T) {
	fzpu(t, 4, func(t *testing.T, b *bank) {
		a, c, d := b.alloc(20), b.alloc(20), b.alloc(20)
		if !b.k.FreeOK(&b.slab, []uint64{a, c, d}, 3) {
			t.Error("a list of three was refused")
		}
		b.expect()
		if b.k.FreeOK(&b.slab, []uint64{d}, 4) {
			t.Error("four of three were freed")
		}
		b.line(1, "Slab has 3 allocated objects but 4 are to be freed",
			"Object at 0x40e8 not freed")
		b.expect("Slab has fewer allocated objects than are to be freed")
		for _, x := range []uint64{a, c, d} {
			b.k.Activate(x, 20)
		}
		if b.k.FreeOK(&b.slab, []uint64{a, c, d}, 2) {
			t.Error("three were freed where two were announced")
		}
		b.line(1, "Bulk free expected 2 objects but found 3", "Object at 0x40e8 not freed")
		b.expect("Bulk free found another number of objects")
		if got := runs(b.mem[:8]) + runs(b.mem[2*b.l.Stride:][:8]); got != "8*bb8*cc" {
			t.Errorf("red zones %s: the first is marked, the last is not", got)
		}
		b.k.Activate(a, 20)
		b.k.Activate(c, 20)
		if !b.k.FreeOK(&b.slab, []uint64{a, c}, 3) {
			t.Error("a list that is too short was refused")
		}
		b.line(1, "Bulk free expected 3 objects but found 2")
		b.expect("Bulk free found another number of objects")
		b.k.Activate(a, 20)
		if b.k.FreeOK(&b.slab, []uint64{a, a}, 2) {
			t.Error("one object was freed twice")
		}
		b.found = b.found[:1]
		b.expect(saysLeft)
		if !b.k.FreeOK(&b.slab, nil, 0) {
			t.Error("nothing was refused")
		}
	})
}
