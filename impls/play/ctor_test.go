package play

import (
	"testing"

	"allocfuzz/impls"
)

// withCaches is a bench with a cache of constructed objects in slot 1 and one whose objects may
// be read after their free in slot 2.
func withCaches(t *testing.T, caps impls.Caps) *bench {
	b := newBench(t)
	b.setup(caps)
	built, stable := impls.NewSpec("built", 24), impls.NewSpec("stable", 24)
	built.Ctor, stable.Flags = true, []string{"rcu"}
	for i, spec := range []*impls.CacheSpec{&built, &stable} {
		if got := b.e.Open(b.c, i+1, spec); got != impls.OK {
			t.Fatalf("%s: %s", spec.Name, got)
		}
	}
	return b
}

// TestConstructed: an object is looked at for the constructor's state when it comes, gets
// contents of its own, which are looked at when it goes, and goes in the constructor's state.
// The toy calls no constructor: that is the first object's fault, and what comes again is right.
func TestConstructed(t *testing.T) {
	b := withCaches(t, toyCaps|impls.CapCtor|impls.CapRCU)
	first := b.alloc(1, 0)
	if !first.Ctor || first.Bad != 0 {
		t.Errorf("an object that is not constructed: %+v", first)
	}
	b.toy.mem[first.Addr+7] ^= 4
	gone := op(impls.OpFree)
	gone.Cache, gone.Slot = 1, 0
	if ev := b.do(gone); ev.Bad != 7 || ev.Want != first.Fresh {
		t.Errorf("contents changed at 7: %+v", ev)
	}
	if bad := b.toy.Verify(first.Addr, 24, impls.CtorPattern); bad >= 0 {
		t.Errorf("it went back differing from the constructor's state at %d", bad)
	}
	b.toy.next = first.Addr
	if again := b.alloc(1, 0); again.Addr != first.Addr || !again.Ctor || again.Bad >= 0 {
		t.Errorf("the same object again: %+v", again)
	}
	if plain := b.alloc(0, 3); plain.Ctor || plain.Bad >= 0 {
		t.Errorf("an object without a constructor: %+v", plain)
	}
	zero := op(impls.OpAlloc)
	zero.Cache, zero.Result, zero.Flags = 1, 4, impls.FlagZero
	calls := b.toy.calls
	b.want("zeroed", b.do(zero), impls.Skipped)
	if b.state(4, Void); b.toy.calls != calls {
		t.Error("the allocator was asked")
	}
	destroy := op(impls.OpDestroy)
	destroy.Cache = 1
	b.want("destroy", b.do(destroy), impls.OK) // nobody is inside: the skipped one has left
}

// TestReadSections: they nest, an unlock too many is skipped, and a subject that does not know
// them need not honour any.
func TestReadSections(t *testing.T) {
	b := withCaches(t, toyCaps|impls.CapCtor|impls.CapRCU)
	lock, unlock := op(impls.OpRCULock), op(impls.OpRCUUnlock)
	b.want("unlock", b.do(unlock), impls.Skipped)
	b.want("lock", b.do(lock), impls.OK)
	b.want("lock", b.do(lock), impls.OK)
	b.want("unlock", b.do(unlock), impls.OK)
	if !b.c.Reading() {
		t.Error("the outer section is over")
	}
	b.want("unlock", b.do(unlock), impls.OK)
	b.want("unlock", b.do(unlock), impls.Skipped)
	_, plain := b.e.Stable(0)
	nth, stable := b.e.Stable(2)
	create := op(impls.OpCreate)
	create.Result, create.Spec = 2, &impls.CacheSpec{Name: "d", Size: 8, Flags: []string{"rcu"}}
	b.do(create)
	if later, ok := b.e.Stable(2); plain || !stable || !ok || later == nth {
		t.Errorf("caches for readers: %v, %v; number %d and then %d", plain, stable, nth, later)
	}
	b.setup(toyCaps)
	b.want("lock", b.do(lock), impls.Unsupported)
	b.want("unlock", b.do(unlock), impls.Unsupported)
	if spec := (impls.CacheSpec{Size: 8, Flags: []string{"rcu"}}); toyCaps.Takes(&spec, 8) {
		t.Error("a cache for readers without read sections")
	}
}
