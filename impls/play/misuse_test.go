package play

import (
	"bytes"
	"fmt"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Where the slab of the debugged caches lies: colour, three slots, padding.
const (
	pageAt  = 0x4000
	pageLen = 256
	slotAt  = pageAt + 16
	stride  = 48
	objAt   = slotAt + 8 // the first object
	objSize = 20
	slotMax = 3
)

// ward is a debugged cache of one slab: what the allocator does with its objects is
// written down, nothing is checked.
type ward struct {
	*toyCache
	layout  *debugcheck.Layout
	base    impls.Addr // of the slab
	gone    bool       // it went back
	objects int        // that it says it has
	next    int
	freed   []impls.Addr
	damaged []impls.Event
	field   bool // it has the fields that are damaged
	note    []any
	err     error
}

func newWard(t *toy, base impls.Addr) *ward {
	l, err := debugcheck.NewLayout(debugcheck.Spec{Name: "c", Size: objSize, Word: 8, End: 1,
		Flags: debugcheck.Sanity | debugcheck.RedZone | debugcheck.Poison})
	if err != nil || l.Pad != objAt-slotAt || l.Stride != stride || l.Link != 24 {
		panic(fmt.Sprint(l, err))
	}
	return &ward{toyCache: &toyCache{t, objSize}, base: base, field: true, objects: slotMax,
		layout: &l}
}

func (k *ward) Alloc(c *machine.Ctx, _ impls.AllocFlags) impls.Addr {
	k.t.inside()
	k.say(c)
	k.next++
	return k.object(k.next - 1)
}

// object is the address of object i.
func (k *ward) object(i int) impls.Addr { return k.base + objAt - pageAt + uint64(i)*stride }

func (k *ward) Free(c *machine.Ctx, a impls.Addr) {
	k.t.inside()
	k.say(c)
	k.freed = append(k.freed, a)
}

func (k *ward) say(c *machine.Ctx) {
	for _, n := range k.note {
		c.Note(n)
	}
}

func (k *ward) Layout() *debugcheck.Layout { return k.layout }

func (k *ward) Validate(c *machine.Ctx) (int, error) {
	k.t.inside()
	k.say(c)
	return 5, k.err
}

func (k *ward) Slab(a impls.Addr) (debugcheck.Slab, bool) {
	return debugcheck.Slab{Page: 4, Addr: k.base, Bytes: pageLen, First: k.base + slotAt - pageAt,
		Max: slotMax, Objects: k.objects}, !k.gone && a >= k.base && a < k.base+pageLen
}

func (k *ward) Damage(_ *machine.Ctx, r debugcheck.Region, a impls.Addr, mask uint64) bool {
	k.damaged = append(k.damaged, impls.Event{Region: r, Addr: a, Mask: mask})
	return k.field
}

// warded is a toy whose caches and sizes are wards: c0 and c1, and one by size.
type warded struct {
	*toy
	caches [2]*ward
	made   int
	class  *ward
}

func (w *warded) Objects() impls.Objects { return w }
func (w *warded) Sizes() impls.Allocator { return w }

func (w *warded) NewCache(*machine.Ctx, impls.CacheSpec) (impls.Cache, error) {
	w.made++
	return w.caches[w.made-1], nil
}

func (w *warded) Malloc(c *machine.Ctx, _ uint64, f impls.AllocFlags) impls.Addr {
	return w.class.Alloc(c, f)
}
func (w *warded) Free(c *machine.Ctx, p impls.Addr) { w.class.Free(c, p) }
func (w *warded) Realloc(c *machine.Ctx, p impls.Addr, size uint64,
	_ impls.AllocFlags) impls.Addr {
	w.Free(c, p)
	return w.Malloc(c, size, 0)
}
func (w *warded) CacheOf(a impls.Addr) impls.Cache {
	if _, ok := w.class.Slab(a); ok {
		return w.class
	}
	return nil
}

// A guard is a bench over a warded toy. Slots 0 and 1 hold the first two objects of
// c0, 2 the first of c1, 3 ten bytes by size, 4 pages; 5 is the third of c0, given
// back.
type guard struct {
	*bench
	w *warded
}

func newGuard(t *testing.T, setup func(*Setup)) *guard {
	b := newBench(t)
	w := &warded{toy: b.toy, caches: [2]*ward{newWard(b.toy, pageAt), newWard(b.toy, 2*pageAt)},
		class: newWard(b.toy, 3*pageAt)}
	s := Setup{Instance: w, Caps: toyCaps | impls.CapDebug, Slots: 8, Caches: 3}
	if setup != nil {
		setup(&s)
	}
	b.e = New(s)
	spec := impls.NewSpec("c", objSize)
	for i := range 2 {
		b.e.Open(b.c, i, &spec)
	}
	b.alloc(0, 0)
	b.alloc(0, 1)
	b.alloc(1, 2)
	b.malloc(3, 10)
	pages := op(impls.OpPages)
	pages.Result = 4
	b.do(pages)
	b.alloc(0, 5)
	free := op(impls.OpFree)
	free.Cache, free.Slot = 0, 5
	b.do(free)
	for _, k := range []*ward{w.caches[0], w.caches[1], w.class} {
		k.freed = nil
	}
	return &guard{b, w}
}

// misuse is an operation on a slot, with a size.
func misuse(code impls.Code, cache, slot int32, size uint64) impls.Op {
	o := op(code)
	o.Cache, o.Slot, o.Size = cache, slot, size
	return o
}

func flip(r debugcheck.Region, slot int32, byteAt, mask uint64) impls.Op {
	o := misuse(impls.OpFlip, -1, slot, byteAt)
	o.Region, o.Arg = r, mask
	return o
}

// The bytes of the slots, by the layout above.
const (
	first  = objAt            // slot 0
	second = objAt + stride   // slot 1
	third  = objAt + 2*stride // slot 5
	ofSize = 2*pageAt + first // slot 3
	padAt  = slotAt + slotMax*stride
	padLen = pageAt + pageLen - padAt
	gap    = stride - objSize // bytes from one object to the next
)

// TestDamage demands of each way to damage bytes that exactly the bits that are meant
// are inverted, and that the event says which.
func TestDamage(t *testing.T) {
	ff := func(n int) []byte { return bytes.Repeat([]byte{0xff}, n) }
	for _, c := range []struct {
		name string
		op   impls.Op
		at   impls.Addr
		bits []byte // inverted from there on
		old  impls.Addr
		from int32
		mask uint64
	}{
		{"overrun", misuse(impls.OpOverrun, -1, 0, 4), first + objSize, ff(4), first, 0, 0},
		{"overrun to the next object", misuse(impls.OpOverrun, -1, 0, gap), first + objSize,
			ff(gap), first, 0, 0},
		{"overrun by size", misuse(impls.OpOverrun, -1, 3, 1), ofSize + 10, ff(1), ofSize, -1, 0},
		{"underrun", misuse(impls.OpUnderrun, -1, 1, 8), second - 8, ff(8), second, 0, 0},
		{"underrun to the first slot", misuse(impls.OpUnderrun, -1, 0, 8), first - 8, ff(8), first,
			0, 0},
		{"writefreed", misuse(impls.OpWriteFreed, -1, 5, 0), third, ff(objSize), third, 0, 0},
		{"left zone", flip(debugcheck.LeftRed, 0, 7, 0x80), first - 1, []byte{0x80}, first, 0,
			0x80},
		{"right zone", flip(debugcheck.RightRed, 1, 1, 0x0102), second + 21, []byte{2, 1}, second,
			0, 0x0102},
		{"zeros in front", flip(debugcheck.RightRed, 1, 0, 0x01000000), second + 23, []byte{1},
			second, 0, 1},
		{"a hole", flip(debugcheck.RightRed, 1, 0, 0x40000001), second + 20,
			[]byte{1, 0, 0, 0x40}, second, 0, 0x40000001},
		{"free pointer of a freed", flip(debugcheck.FreePtr, 5, 0, 1<<64-1), third + 24, ff(8),
			third, 0, 1<<64 - 1},
		{"body of a freed", flip(debugcheck.Object, 5, 19, 1), third + 19, []byte{1}, third, 0, 1},
		{"body behind what was asked for", flip(debugcheck.Object, 3, 10, 3), ofSize + 10,
			[]byte{3}, ofSize, -1, 3},
		{"slab padding", flip(debugcheck.SlabPad, 0, padLen-1, 5), padAt + padLen - 1, []byte{5},
			first, 0, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuard(t, nil)
			calls := g.toy.calls
			was := bytes.Clone(g.toy.mem)
			ev := g.do(c.op)
			want := impls.Event{Op: 5, Code: c.op.Code, Ctx: 6, Seq: 7, Cache: c.from,
				Slot: c.op.Slot, Bad: -1, Addr: c.at, Old: c.old, Size: uint64(len(c.bits)),
				Region: c.op.Region, Mask: c.mask}
			if !same(&ev, &want) {
				t.Errorf("event %+v, want %+v", ev, want)
			}
			for i, m := range c.bits {
				was[c.at+uint64(i)] ^= m
			}
			if !bytes.Equal(was, g.toy.mem) {
				t.Error("the wrong bits are inverted")
			}
			if g.toy.calls != calls {
				t.Error("the allocator was called")
			}
		})
	}
}

// same compares events that have no reports.
func same(a, b *impls.Event) bool {
	x, y := *a, *b
	x.Reports, y.Reports = nil, nil
	return x.Op == y.Op && x.Code == y.Code && x.Outcome == y.Outcome && x.Ctx == y.Ctx &&
		x.Seq == y.Seq && x.Cache == y.Cache && x.Slot == y.Slot && x.Bad == y.Bad &&
		x.Addr == y.Addr && x.Old == y.Old && x.Size == y.Size && x.Usable == y.Usable &&
		x.Region == y.Region && x.Mask == y.Mask && len(a.Reports) == len(b.Reports)
}

// TestNoDamage demands that what does not hit what it is meant to is skipped, changes
// nothing and names no victim.
func TestNoDamage(t *testing.T) {
	over := uint64(1<<64 - 1)
	for _, c := range []struct {
		name string
		op   impls.Op
	}{
		{"overrun into a live object", misuse(impls.OpOverrun, -1, 0, gap+1)},
		{"overrun of the slab", misuse(impls.OpOverrun, -1, 1, 220)},
		{"overrun of all", misuse(impls.OpOverrun, -1, 1, over)},
		{"overrun of nothing", misuse(impls.OpOverrun, -1, 0, 0)},
		{"overrun of pages", misuse(impls.OpOverrun, -1, 4, 1)},
		{"overrun of a freed", misuse(impls.OpOverrun, -1, 5, 1)},
		{"overrun of a slot that nothing bound", misuse(impls.OpOverrun, -1, 7, 1)},
		{"overrun of no slot", misuse(impls.OpOverrun, -1, -1, 1)},
		{"overrun of a slot beyond", misuse(impls.OpOverrun, -1, 99, 1)},
		{"underrun into a live object", misuse(impls.OpUnderrun, -1, 1, gap+1)},
		{"underrun out of the slots", misuse(impls.OpUnderrun, -1, 0, 9)},
		{"underrun of address 0", misuse(impls.OpUnderrun, -1, 0, over)},
		{"writefreed of a live", misuse(impls.OpWriteFreed, -1, 0, 0)},
		{"writefreed of pages", misuse(impls.OpWriteFreed, -1, 4, 0)},
		{"flip of live bytes", flip(debugcheck.Object, 0, 0, 1)},
		{"flip of live bytes by size", flip(debugcheck.Object, 3, 9, 1)},
		{"flip beyond the region", flip(debugcheck.RightRed, 0, 4, 1)},
		{"flip across its end", flip(debugcheck.RightRed, 0, 3, 0x101)},
		{"flip far away", flip(debugcheck.RightRed, 0, over, 1<<63)},
		{"flip beyond all", flip(debugcheck.FreePtr, 5, over, 1<<63)},
		{"flip of no bits", flip(debugcheck.RightRed, 0, 0, 0)},
		{"flip of a region that is not there", flip(debugcheck.OrigSize, 0, 0, 1)},
		{"flip beyond the padding", flip(debugcheck.SlabPad, 0, padLen, 1)},
		{"flip of a field of no slot", flip(debugcheck.SlabInuse, -1, 0, 1)},
		{"flip of a field, beyond it", flip(debugcheck.SlabInuse, 0, 8, 1)},
		{"flip of a field, bits beyond it", flip(debugcheck.SlabInuse, 0, 7, 0x100)},
		{"flip of a field, no bits", flip(debugcheck.SlabInuse, 0, 0, 0)},
		{"flip of a counter of no cache", flip(debugcheck.NrSlabs, -1, 0, 1)},
		{"freeagain of a live", misuse(impls.OpFreeAgain, 0, 0, 0)},
		{"freeagain to another cache", misuse(impls.OpFreeAgain, 1, 5, 0)},
		{"freeagain by size", misuse(impls.OpFreeAgain, -1, 5, 0)},
		{"freeinside at an object", misuse(impls.OpFreeInside, 0, 0, stride)},
		{"freeinside at its own", misuse(impls.OpFreeInside, 0, 0, 0)},
		{"freeinside beyond the slab", misuse(impls.OpFreeInside, 0, 0, pageLen-24)},
		{"freeinside beyond all", misuse(impls.OpFreeInside, 0, 0, over)},
		{"freeinside to another cache", misuse(impls.OpFreeInside, 1, 0, 4)},
		{"freeinside of a freed", misuse(impls.OpFreeInside, 0, 5, 4)},
		{"freeforeign of an object", misuse(impls.OpFreeForeign, 0, 0, 0)},
		{"freeforeign of a size", misuse(impls.OpFreeForeign, -1, 3, 0)},
		{"freewrong to its own cache", misuse(impls.OpFreeWrong, 0, 0, 0)},
		{"freewrong to no cache", misuse(impls.OpFreeWrong, 2, 0, 0)},
		{"freewrong of a freed", misuse(impls.OpFreeWrong, 1, 5, 0)},
		{"freewrong of pages", misuse(impls.OpFreeWrong, 1, 4, 0)},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuard(t, nil)
			g.skipped(c.op)
		})
	}
}

// skipped demands that an operation is skipped, and that nothing comes of it.
func (g *guard) skipped(o impls.Op) {
	g.Helper()
	was, calls := bytes.Clone(g.toy.mem), g.toy.calls
	ev := g.do(o)
	want := impls.Event{Op: 5, Code: o.Code, Outcome: impls.Skipped, Ctx: 6, Seq: 7, Bad: -1,
		Cache: o.Cache, Slot: o.Slot}
	if !same(&ev, &want) {
		g.Errorf("event %+v, want %+v", ev, want)
	}
	for _, k := range []*ward{g.w.caches[0], g.w.caches[1], g.w.class} {
		if len(k.freed)+len(k.damaged) > 0 {
			g.Errorf("freed %x, damaged %+v", k.freed, k.damaged)
		}
	}
	if !bytes.Equal(was, g.toy.mem) || g.toy.calls != calls {
		g.Error("something was done")
	}
	for i := range g.e.caches {
		if g.e.caches[i].users != 0 {
			g.Errorf("cache %d is in use", i)
		}
	}
}

// TestWrongFrees demands that the right address reaches the right allocator, and that
// the slots are as they were.
func TestWrongFrees(t *testing.T) {
	for _, c := range []struct {
		name  string
		op    impls.Op
		addr  impls.Addr
		old   impls.Addr
		cache int32 // of the event
		to    int   // ward that is called
	}{
		{"freeagain", misuse(impls.OpFreeAgain, 0, 5, 0), third, third, 0, 0},
		{"freeinside", misuse(impls.OpFreeInside, 0, 0, 4), first + 4, first, 0, 0},
		{"freeinside, far", misuse(impls.OpFreeInside, 0, 0, stride+1), second + 1, first, 0, 0},
		{"freeinside by size", misuse(impls.OpFreeInside, -1, 3, 9), ofSize + 9, ofSize, -1, 2},
		{"freewrong", misuse(impls.OpFreeWrong, 1, 0, 0), first, first, 0, 1},
		{"freewrong by size", misuse(impls.OpFreeWrong, 1, 3, 0), ofSize, ofSize, -1, 1},
		{"freeforeign", misuse(impls.OpFreeForeign, 1, 4, 0), 0, 0, 1, 1},
		{"freeforeign by size", misuse(impls.OpFreeForeign, -1, 4, 0), 0, 0, -1, 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := newGuard(t, nil)
			if c.op.Code == impls.OpFreeForeign {
				c.addr = g.e.Slot(4).Addr
				c.old = c.addr
			}
			was := g.e.Slot(int(c.op.Slot))
			ev := g.do(c.op)
			want := impls.Event{Op: 5, Code: c.op.Code, Ctx: 6, Seq: 7, Cache: c.cache,
				Slot: c.op.Slot, Bad: -1, Addr: c.addr, Old: c.old}
			if !same(&ev, &want) {
				t.Errorf("event %+v, want %+v", ev, want)
			}
			for i, k := range []*ward{g.w.caches[0], g.w.caches[1], g.w.class} {
				if i == c.to && (len(k.freed) != 1 || k.freed[0] != c.addr) ||
					i != c.to && len(k.freed) > 0 {
					t.Errorf("ward %d was given %x", i, k.freed)
				}
			}
			if got := g.e.Slot(int(c.op.Slot)); got != was {
				t.Errorf("the slot is %+v, want %+v", got, was)
			}
			if g.e.caches[0].users+g.e.caches[1].users != 0 {
				t.Error("a cache is in use")
			}
		})
	}
}

// TestFields demands that damage to fields goes through the cache.
func TestFields(t *testing.T) {
	g := newGuard(t, nil)
	counter := flip(debugcheck.NrPartial, -1, 0, 6)
	counter.Cache = 1
	for _, c := range []struct {
		op   impls.Op
		w    *ward
		addr impls.Addr
		mask uint64
		from int32
	}{
		{flip(debugcheck.SlabInuse, 0, 0, 3), g.w.caches[0], first, 3, 0},
		{flip(debugcheck.SlabFreelist, 5, 2, 1), g.w.caches[0], third, 1 << 16, 0},
		{flip(debugcheck.SlabCache, 3, 0, 1), g.w.class, ofSize, 1, -1},
		{counter, g.w.caches[1], 0, 6, 1},
	} {
		c.w.damaged = nil
		ev := g.do(c.op)
		want := impls.Event{Op: 5, Code: impls.OpFlip, Ctx: 6, Seq: 7, Cache: c.from,
			Slot: c.op.Slot, Bad: -1, Old: c.addr, Region: c.op.Region, Mask: c.mask}
		if !same(&ev, &want) {
			t.Errorf("%s: event %+v, want %+v", c.op.Region, ev, want)
		}
		if len(c.w.damaged) != 1 || c.w.damaged[0].Region != c.op.Region ||
			c.w.damaged[0].Addr != c.addr || c.w.damaged[0].Mask != c.mask {
			t.Errorf("%s: damage %+v", c.op.Region, c.w.damaged)
		}
		c.w.damaged, c.w.field = nil, false
		ev = g.do(c.op)
		g.want("without the field", ev, impls.Skipped)
		c.w.field = true
	}
	if g.e.caches[1].users != 0 {
		t.Error("a cache is in use")
	}
}

// TestGivenBack demands that what was given back stays a victim for as long as its
// slab is the cache's, and not while it is live under another name.
func TestGivenBack(t *testing.T) {
	write, again := misuse(impls.OpWriteFreed, -1, 5, 0), misuse(impls.OpFreeAgain, 0, 5, 0)
	t.Run("slab gone", func(t *testing.T) {
		g := newGuard(t, nil)
		g.w.caches[0].gone = true
		g.skipped(write)
		g.skipped(again)
	})
	t.Run("live again", func(t *testing.T) {
		g := newGuard(t, nil)
		g.w.caches[0].next = 2
		g.alloc(0, 6)
		g.skipped(write)
		g.skipped(again)
	})
	t.Run("live and without a name", func(t *testing.T) {
		g := newGuard(t, nil)
		g.w.caches[0].next = 2
		g.alloc(0, 6)
		g.malloc(6, 1)
		g.skipped(write)
		g.skipped(again)
	})
	t.Run("cache made anew", func(t *testing.T) {
		g := newGuard(t, nil)
		spec := impls.NewSpec("c", objSize)
		create := op(impls.OpCreate)
		create.Result, create.Spec = 0, &spec
		g.w.made = 0
		g.do(create)
		g.skipped(write)
		g.skipped(again)
	})
	t.Run("without flags", func(t *testing.T) {
		g := newGuard(t, nil)
		g.w.caches[0].layout = nil
		g.skipped(write)
		g.skipped(again)
	})
	t.Run("by size", func(t *testing.T) {
		g := newGuard(t, nil)
		g.free(3)
		g.w.class.freed = nil
		g.want("writefreed", g.do(misuse(impls.OpWriteFreed, -1, 3, 0)), impls.OK)
		g.want("freeagain", g.do(misuse(impls.OpFreeAgain, -1, 3, 0)), impls.OK)
		other := newWard(g.toy, 3*pageAt) // the page is another class's
		g.w.class = other
		g.skipped(misuse(impls.OpWriteFreed, -1, 3, 0))
		g.skipped(misuse(impls.OpFreeAgain, -1, 3, 0))
	})
	t.Run("with its size", func(t *testing.T) {
		g := newGuard(t, nil)
		free := misuse(impls.OpFreeSized, -1, 3, 10)
		g.want("freesized", g.do(free), impls.OK)
		g.want("writefreed", g.do(misuse(impls.OpWriteFreed, -1, 3, 0)), impls.OK)
	})
	t.Run("pages", func(t *testing.T) {
		g := newGuard(t, nil)
		g.want("pagesfree", g.do(misuse(impls.OpPagesFree, -1, 4, 0)), impls.OK)
		g.skipped(misuse(impls.OpFreeForeign, 0, 4, 0))
	})
	t.Run("moved by realloc", func(t *testing.T) {
		g := newGuard(t, nil)
		re := op(impls.OpRealloc)
		re.Slot, re.Result, re.Size = 3, 6, 12
		g.want("realloc", g.do(re), impls.OK)
		g.w.class.freed = nil
		g.want("writefreed", g.do(misuse(impls.OpWriteFreed, -1, 3, 0)), impls.OK)
	})
	t.Run("refused", func(t *testing.T) {
		g := newGuard(t, nil)
		g.skipped(misuse(impls.OpWriteFreed, -1, 6, 0)) // nothing was ever bound to it
		bad := op(impls.OpAlloc)
		bad.Cache, bad.Result = 2, 6
		g.want("alloc of no cache", g.do(bad), impls.Skipped)
		g.skipped(misuse(impls.OpWriteFreed, -1, 6, 0))
	})
}

// TestOddVictims demands that nothing is done to what no debugged cache can have handed
// out, and nothing where there is no memory.
func TestOddVictims(t *testing.T) {
	g := newGuard(t, nil)
	g.e.Adopt(6, Slot{State: Live, Addr: ofSize + 2*stride + 4, Size: 2,
		from: fromSizes})
	g.skipped(misuse(impls.OpOverrun, -1, 6, 1)) // begins no object
	g.e.Adopt(6, Slot{State: Live, Addr: ofSize + stride, Size: 1<<64 - stride + 12,
		from: fromSizes})
	g.skipped(misuse(impls.OpOverrun, -1, 6, 1)) // its end is in front of it
	g.e.Adopt(6, Slot{State: Live, Addr: first, Size: 1, from: 99})
	g.skipped(misuse(impls.OpOverrun, -1, 6, 1)) // of no cache
	g.w.caches[0].objects = 0
	g.want("of a slab whose count is damaged", g.do(misuse(impls.OpOverrun, -1, 0, 1)), impls.OK)
	g = newGuard(t, nil)
	c1 := g.w.caches[1]
	c1.base, c1.next = uint64(len(g.toy.mem))-pageLen/2, 0 // half of the slab is no memory
	g.alloc(1, 6)
	g.skipped(flip(debugcheck.SlabPad, 6, 0, 1))
	g.want("overrun of it", g.do(misuse(impls.OpOverrun, -1, 6, 1)), impls.OK)
}

// TestForget demands that a slot whose object went by a misuse is given back.
func TestForget(t *testing.T) {
	g := newGuard(t, nil)
	g.want("freewrong", g.do(misuse(impls.OpFreeWrong, 1, 0, 0)), impls.OK)
	g.state(0, Live)
	g.e.Forget(0)
	g.state(0, Void)
	if s := g.e.Slot(0); !s.Given() || s.Addr != first {
		t.Errorf("slot %+v, want what was given back at %#x", s, first)
	}
	free := op(impls.OpFree)
	free.Cache, free.Slot = 0, 0
	g.want("free", g.do(free), impls.Skipped)
	g.want("writefreed", g.do(misuse(impls.OpWriteFreed, -1, 0, 0)), impls.OK)
	g.e.Forget(-1)
	g.e.Forget(99)
	g.e.Forget(7)
	if s := g.e.Slot(7); s.Given() {
		t.Error("a slot that never held anything was given back")
	}
}

// TestBusy demands that what an operation holds is live to a misuse meanwhile, and
// that a free is not over before it returned.
func TestBusy(t *testing.T) {
	g := newGuard(t, nil)
	var inner impls.Event
	usable := op(impls.OpUsable)
	usable.Slot = 3
	flipIt := flip(debugcheck.Object, 3, 0, 1)
	g.toy.during = func() { inner = g.do(flipIt) }
	g.do(usable)
	g.want("flip of what usable holds", inner, impls.Skipped)
	free := op(impls.OpFree)
	free.Cache, free.Slot = 0, 0
	g.toy.during = func() { inner = g.do(misuse(impls.OpWriteFreed, -1, 0, 0)) }
	g.do(free)
	g.want("writefreed inside of the free", inner, impls.Skipped)
	g.want("writefreed after it", g.do(misuse(impls.OpWriteFreed, -1, 0, 0)), impls.OK)

	wrong := misuse(impls.OpFreeWrong, 1, 1, 0)
	free.Slot = 1
	g.toy.during = func() { inner = g.do(free) }
	g.want("freewrong", g.do(wrong), impls.OK)
	g.want("free inside of it", inner, impls.Skipped)
	g.state(1, Live)
	g.malloc(6, 10)
	usable.Slot = 6
	g.toy.during = func() { inner = g.do(misuse(impls.OpOverrun, -1, 3, stride-10+1)) }
	g.do(usable)
	g.want("overrun into what usable holds", inner, impls.Skipped)
	g.toy.during = func() { inner = g.do(misuse(impls.OpOverrun, -1, 3, stride-10)) }
	g.do(usable)
	g.want("overrun up to it", inner, impls.OK)
	over := misuse(impls.OpOverrun, -1, 1, 1)
	g.toy.during = func() { inner = g.do(over) }
	usable.Slot = 3
	g.do(usable)
	g.want("overrun of another object meanwhile", inner, impls.OK)
}

// TestMay demands that a model is asked last, with the victim, and is obeyed.
func TestMay(t *testing.T) {
	var asked []impls.Event
	yes := true
	g := newGuard(t, func(s *Setup) {
		s.May = func(c *machine.Ctx, op *impls.Op, ev *impls.Event) bool {
			if c == nil || op.Code != ev.Code {
				t.Errorf("asked about %v with %+v", op, ev)
			}
			asked = append(asked, *ev)
			return yes
		}
	})
	g.do(misuse(impls.OpOverrun, -1, 0, gap+1))
	g.do(op(impls.OpValidate))
	if len(asked) > 0 {
		t.Fatalf("asked about %+v", asked)
	}
	for _, o := range []impls.Op{
		misuse(impls.OpOverrun, -1, 0, 4), misuse(impls.OpFreeAgain, 0, 5, 0),
		misuse(impls.OpFreeWrong, 1, 0, 0), flip(debugcheck.SlabInuse, 0, 0, 1),
	} {
		yes, asked = false, nil
		g.skipped(o)
		if len(asked) != 1 || asked[0].Old == 0 || asked[0].Outcome != impls.OK {
			t.Fatalf("%s: asked %+v, want once with the victim", o.Code, asked)
		}
		g.state(0, Live)
		yes = true
		ev := g.do(o)
		g.want(o.Code.String(), ev, impls.OK)
		if ev.Addr != asked[0].Addr || ev.Old != asked[0].Old || ev.Mask != asked[0].Mask {
			t.Errorf("asked about %+v and did %+v", asked[0], ev)
		}
		g.w.caches[0].freed, g.w.caches[1].freed, g.w.caches[0].damaged = nil, nil, nil
	}
}

// TestMisuseUnsupported demands that nothing happens on a subject without debugging,
// and natively.
func TestMisuseUnsupported(t *testing.T) {
	for name, set := range map[string]func(*Setup){
		"no debugging": func(s *Setup) { s.Caps = toyCaps },
		"native":       func(s *Setup) { s.Native = true },
	} {
		g := newGuard(t, set)
		calls := g.toy.calls
		for code := impls.OpOverrun; code <= impls.LastCode; code++ {
			g.want(name+" "+code.String(), g.do(misuse(code, 0, 0, 1)), impls.Unsupported)
		}
		if g.toy.calls != calls {
			t.Errorf("%s: the allocator was called", name)
		}
	}
	g := newGuard(t, func(s *Setup) { s.Caps = toyCaps })
	g.want("validate", g.do(misuse(impls.OpValidate, 0, -1, 0)), impls.Unsupported)
	b := newBench(t) // caches that cannot be debugged
	b.setup(toyCaps | impls.CapDebug)
	b.want("validate", b.do(misuse(impls.OpValidate, 0, -1, 0)), impls.Unsupported)
	b.alloc(0, 0)
	b.want("overrun", b.do(misuse(impls.OpOverrun, -1, 0, 1)), impls.Skipped)
	b.malloc(1, 8)
	b.want("overrun by size", b.do(misuse(impls.OpOverrun, -1, 1, 1)), impls.Skipped)
	b.want("freeinside by size", b.do(misuse(impls.OpFreeInside, -1, 1, 1)), impls.Skipped)
}

func TestValidate(t *testing.T) {
	g := newGuard(t, nil)
	validate := misuse(impls.OpValidate, 0, -1, 0)
	if ev := g.do(validate); ev.Outcome != impls.OK || ev.Usable != 5 || ev.Cache != 0 {
		t.Errorf("validate: %+v, want 5 slabs", ev)
	}
	destroy := op(impls.OpDestroy)
	destroy.Cache = 0
	var inner impls.Event
	g.toy.during = func() { inner = g.do(destroy) }
	g.do(validate)
	g.want("destroy inside of it", inner, impls.Skipped)
	g.w.caches[0].err = impls.ErrInvalid
	if ev := g.do(validate); ev.Outcome != impls.Refused || ev.Usable != 0 {
		t.Errorf("validate without flags: %+v, want refused", ev)
	}
	g.w.caches[0].err = impls.ErrNoMemory
	if ev := g.do(validate); ev.Outcome != impls.NoMem || ev.Legit {
		t.Errorf("validate without memory: %+v, want enomem without a reason", ev)
	}
	g.want("of no cache", g.do(misuse(impls.OpValidate, 2, -1, 0)), impls.Skipped)
	if g.e.caches[0].users != 0 {
		t.Error("the cache is in use")
	}
}

// TestReports demands what was noted during an operation in its event, in order, and
// nothing else.
func TestReports(t *testing.T) {
	g := newGuard(t, nil)
	one, two := &debugcheck.Report{Title: "one"}, &debugcheck.Report{Title: "two"}
	g.c.Note(&debugcheck.Report{Title: "before"})
	free := op(impls.OpFree)
	free.Cache, free.Slot = 0, 0
	for _, o := range []impls.Op{
		free, misuse(impls.OpValidate, 0, -1, 0), misuse(impls.OpFreeAgain, 0, 5, 0),
	} {
		g.w.caches[0].note = []any{one, "no report", two}
		ev := g.do(o)
		if len(ev.Reports) != 2 || ev.Reports[0] != one || ev.Reports[1] != two {
			t.Errorf("%s: reports %v, want one and two", o.Code, ev.Reports)
		}
		g.w.caches[0].note = nil
		if ev := g.do(misuse(impls.OpValidate, 0, -1, 0)); ev.Reports != nil {
			t.Errorf("after %s: reports %v", o.Code, ev.Reports)
		}
	}
	// A run that ends inside of the call never reaches End.
	var s Step
	var ev impls.Event
	validate := misuse(impls.OpValidate, 0, -1, 0)
	g.w.caches[0].note = []any{two}
	g.e.Begin(g.c, &validate, &ev, &s)
	g.e.Call(g.c, &s)
	s.Collect(g.c)
	s.Collect(g.c)
	if len(ev.Reports) != 1 || ev.Reports[0] != two {
		t.Errorf("collected %v, want two", ev.Reports)
	}
}
