package play

import (
	"slices"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// bulkToy is a toy whose caches take several objects at once.
type bulkToy struct {
	*toy
	freed   []impls.Addr // of the last bulk free
	reports []*debugcheck.Report
}

func (b *bulkToy) Objects() impls.Objects { return b }

func (b *bulkToy) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	k, err := b.toy.NewCache(c, spec)
	return &bulkCache{k, b}, err
}

type bulkCache struct {
	impls.Cache
	b *bulkToy
}

func (k *bulkCache) AllocBulk(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) bool {
	return impls.AllocEach(c, k, f, into)
}

func (k *bulkCache) FreeBulk(c *machine.Ctx, objects []impls.Addr) {
	k.b.freed = slices.Clone(objects)
	for _, r := range k.b.reports {
		c.Note(r)
	}
	impls.FreeEach(c, k, objects)
	slices.Reverse(objects) // the array is the allocator's
}

func newBulkBench(t *testing.T, caps impls.Caps) (*bench, *bulkToy) {
	b := newBench(t)
	toy := &bulkToy{toy: b.toy}
	b.e = New(Setup{Instance: toy, Caps: toyCaps | caps, Slots: 8, Caches: 3})
	for i, size := range []uint64{48, 16} {
		spec := impls.NewSpec("c", size)
		b.e.Open(b.c, i, &spec)
	}
	return b, toy
}

// bulk carries a bulk operation of cache 0 out.
func (b *bench) bulk(code impls.Code, change func(*impls.Op), slots ...int32) []impls.Event {
	b.Helper()
	o := op(code)
	o.Cache, o.Slots, o.Pattern = 0, slots, 40
	if change != nil {
		change(&o)
	}
	var step BulkStep
	b.c.BeginLine(0, [2]int32{})
	b.e.DoBulk(b.c, &o, &impls.Event{Op: 5, Ctx: 6, Seq: 7}, &step)
	if len(step.Events) != len(slots) {
		b.Fatalf("%s: %d events of %d slots", code, len(step.Events), len(slots))
	}
	for i, ev := range step.Events {
		if ev.Op != 5 || ev.Ctx != 6 || ev.Seq != 7 || ev.Code != code.Each() ||
			int(ev.Part) != i+1 || ev.Slot != slots[i] || ev.Cache != 0 {
			b.Errorf("%s: event %d is %+v", code, i, ev)
		}
	}
	return step.Events
}

// TestBulk: an event an object, in order, each with contents of its own; what is void or
// another cache's is left out of a free, and so is a name the second time.
func TestBulk(t *testing.T) {
	b, toy := newBulkBench(t, impls.CapBulk)
	for i, ev := range b.bulk(impls.OpAllocBulk, nil, 0, 1, 2) {
		b.want("alloc", ev, impls.OK)
		if ev.Fresh != impls.Pattern(40+i) || ev.Size != 48 || ev.Bad >= 0 ||
			b.toy.Verify(ev.Addr, 48, ev.Fresh) >= 0 {
			t.Errorf("object %d: %+v", i, ev)
		}
		b.state(i, Live)
	}
	b.alloc(1, 3)
	first, second, last := b.e.Slot(0), b.e.Slot(1), b.e.Slot(2)
	b.toy.mem[second.Addr+5]++
	events := b.bulk(impls.OpFreeBulk, nil, 2, 3, 0, 7, 1, 0)
	for i, want := range []impls.Outcome{impls.OK, impls.Skipped, impls.OK, impls.Skipped,
		impls.OK, impls.Skipped} {
		b.want("free", events[i], want)
	}
	if want := []impls.Addr{last.Addr, first.Addr, second.Addr}; !slices.Equal(toy.freed, want) {
		t.Errorf("freed %#x, want %#x", toy.freed, want)
	}
	if events[4].Bad != 5 || events[0].Bad >= 0 || events[2].Want != first.Pattern ||
		events[2].Addr != first.Addr {
		t.Errorf("events %+v", events)
	}
	b.state(0, Void)
	b.state(3, Live)
	calls := b.toy.calls
	for _, ev := range b.bulk(impls.OpFreeBulk, nil, 0, 1) {
		b.want("free again", ev, impls.Skipped)
	}
	if b.toy.calls != calls {
		t.Error("called for nothing")
	}
}

// TestBulkRefused: without memory every name is void and nothing is live.
func TestBulkRefused(t *testing.T) {
	b, _ := newBulkBench(t, impls.CapBulk)
	b.toy.next, b.toy.noted = 1<<16-100, true
	for _, ev := range b.bulk(impls.OpAllocBulk, nil, 0, 1, 2) {
		b.want("alloc", ev, impls.NoMem)
		if !ev.Legit || ev.Addr != 0 {
			t.Errorf("%+v", ev)
		}
		b.state(int(ev.Slot), Void)
	}
	if len(b.toy.sizes) != 0 {
		t.Errorf("%d objects are live", len(b.toy.sizes))
	}
}

// TestBulkUnable: what the subject cannot do is unsupported for every object, and a cache
// that is not there skips.
func TestBulkUnable(t *testing.T) {
	fails := func(o *impls.Op) { o.FailObject = 2 }
	zero := func(o *impls.Op) { o.Flags = impls.FlagZero }
	for _, test := range []struct {
		name   string
		lacks  impls.Caps
		change func(*impls.Op)
		want   impls.Outcome
	}{
		{"no bulk", impls.CapBulk, nil, impls.Unsupported},
		{"no failslab", impls.CapFailSlab, fails, impls.Unsupported},
		{"no zero", impls.CapZero, zero, impls.Unsupported},
		{"all", 0, fails, impls.OK},
	} {
		b, _ := newBulkBench(t, impls.CapBulk|impls.CapFailSlab)
		b.e.caps &^= test.lacks
		for _, ev := range b.bulk(impls.OpAllocBulk, test.change, 0, 1) {
			b.want(test.name, ev, test.want)
		}
	}
	b, _ := newBulkBench(t, impls.CapBulk)
	o := op(impls.OpDestroy)
	o.Cache = 0
	b.want("destroy", b.do(o), impls.OK)
	for _, ev := range b.bulk(impls.OpAllocBulk, nil, 0, 1) {
		b.want("no cache", ev, impls.Skipped)
	}
}

// TestBulkConstructed: zeroed objects of a cache with a constructor are not asked for, and the
// cache is left again.
func TestBulkConstructed(t *testing.T) {
	b, _ := newBulkBench(t, impls.CapBulk|impls.CapCtor)
	b.e = New(Setup{Instance: b.toy, Caps: toyCaps | impls.CapBulk | impls.CapCtor, Slots: 8,
		Caches: 3})
	spec := impls.NewSpec("built", 24)
	spec.Ctor = true
	b.e.Open(b.c, 0, &spec)
	calls := b.toy.calls
	zero := func(o *impls.Op) { o.Flags = impls.FlagZero }
	for _, ev := range b.bulk(impls.OpAllocBulk, zero, 0, 1) {
		b.want("zeroed", ev, impls.Skipped)
	}
	if b.toy.calls != calls {
		t.Error("the allocator was asked")
	}
	o := op(impls.OpDestroy)
	o.Cache = 0
	b.want("destroy", b.do(o), impls.OK)
}

// TestBulkReports: a report goes to the event of its object, any other to the first.
func TestBulkReports(t *testing.T) {
	b, toy := newBulkBench(t, impls.CapBulk)
	b.bulk(impls.OpAllocBulk, nil, 0, 1, 2)
	toy.reports = []*debugcheck.Report{{Title: "second", Object: b.e.Slot(1).Addr},
		{Title: "slab"}, {Title: "again", Object: b.e.Slot(1).Addr}}
	var got []string
	for _, ev := range b.bulk(impls.OpFreeBulk, nil, 0, 1, 2) {
		for _, r := range ev.Reports {
			got = append(got, r.Title)
		}
		got = append(got, "|")
	}
	if want := []string{"slab", "|", "second", "again", "|", "|"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
