package play

import (
	"testing"

	"allocfuzz/impls"
)

// TestLost: what loses its name is told, so that the end of a run can free it: a
// live slot that is bound again, and memory that an operation held while its slot
// was bound to something else.
func TestLost(t *testing.T) {
	b := newBench(t)
	var lost []Slot
	b.e.lost = func(s Slot) { lost = append(lost, s) }
	malloc := op(impls.OpMalloc)
	malloc.Result, malloc.Size = 0, 40
	first := b.do(malloc)
	second := b.do(malloc)
	if len(lost) != 1 || lost[0].Addr != first.Addr || lost[0].Size != 40 {
		t.Fatalf("bound again: lost %+v, want the object at %#x", lost, first.Addr)
	}
	usable := op(impls.OpUsable)
	usable.Slot = 0
	var step Step
	var ev impls.Event
	if !b.e.Begin(b.c, &usable, &ev, &step) {
		t.Fatal("usable is over before its call")
	}
	third := b.do(malloc) // a handler binds the name meanwhile
	b.e.Call(b.c, &step)
	b.e.End(b.c, &step)
	if len(lost) != 2 || lost[1].Addr != second.Addr {
		t.Fatalf("held meanwhile: lost %+v, want the object at %#x too", lost, second.Addr)
	}
	if got := b.e.Slot(0); got.Addr != third.Addr || got.State != Live {
		t.Fatalf("the name means %+v, want the object at %#x", got, third.Addr)
	}
	b.e.Adopt(0, lost[0])
	free := op(impls.OpFree)
	free.Slot = 0
	if ev := b.do(free); ev.Outcome != impls.OK || ev.Addr != first.Addr || ev.Bad >= 0 {
		t.Fatalf("free of what was adopted: %+v", ev)
	}
}

// TestLacks: what is done with a cache that the subject does not support is
// unsupported too, not skipped, until the name means another cache.
func TestLacks(t *testing.T) {
	b := newBench(t)
	b.setup(toyCaps &^ impls.CapCtor)
	spec := impls.NewSpec("d", 32)
	spec.Ctor = true
	if got := b.e.Open(b.c, 1, &spec); got != impls.Unsupported {
		t.Fatalf("a constructor: %s", got)
	}
	alloc, shrink, create := op(impls.OpAlloc), op(impls.OpShrink), op(impls.OpCreate)
	alloc.Cache, alloc.Result, shrink.Cache = 1, 0, 1
	for _, o := range []impls.Op{alloc, shrink} {
		if ev := b.do(o); ev.Outcome != impls.Unsupported {
			t.Errorf("%s: %s, want unsupported", o.Code, ev.Outcome)
		}
	}
	plain := impls.NewSpec("d", 32)
	create.Result, create.Spec = 1, &plain
	b.do(create)
	if ev := b.do(alloc); ev.Outcome != impls.OK {
		t.Errorf("alloc of the new cache: %s", ev.Outcome)
	}
	destroy := op(impls.OpDestroy)
	destroy.Cache = 1
	b.do(destroy)
	if ev := b.do(alloc); ev.Outcome != impls.Skipped {
		t.Errorf("alloc of a destroyed cache: %s, want skipped", ev.Outcome)
	}
}
