package play

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// State says what a slot holds.
type State uint8

// The states of a slot.
const (
	Unbound State = iota // nothing was ever bound to it
	Void                 // given back, or bound by an operation that was refused or skipped
	Live                 // something that is live
)

// What a slot's memory came from, where it is no slot of a cache.
const (
	fromSizes int32 = -1
	fromPages int32 = -2
)

// A Slot is one object of a program as its operations see it. What was given back is
// Void and keeps the rest, so that it can be misused.
type Slot struct {
	State   State
	given   bool // Void: the allocator has it back
	held    bool // Void: an operation uses it and may put it back
	zeroed  bool // every call that sized it asked for zeroed memory, see Allocator.Realloc
	Addr    impls.Addr
	Size    uint64 // bytes asked for: they carry Pattern
	Pattern impls.Pattern
	from    int32  // slot of its cache, fromSizes or fromPages
	nth     uint32 // which cache of that slot
	gen     uint32 // counts bindings
}

// Owner is the slot of the cache that the memory came from; -1 when it was
// allocated by size, -2 when by pages.
func (s *Slot) Owner() int32 { return s.from }

// Given says whether the memory of a Void slot was given back to the allocator.
func (s *Slot) Given() bool { return s.given }

var (
	slotLock  = machine.Atomic("program", "slot")
	cacheLock = machine.Atomic("program", "cache")
)

// objectSlot is an entry of the table. The word is used natively only, as a lock
// around a few loads and stores: in simulation one context runs at a time and
// there is no point in between, and the word says who comes behind whom.
type objectSlot struct {
	Slot
	word  machine.Word
	class impls.Cache // that it was given back to, when that was by size
}

// cacheSlot is a cache with its spec, and how many operations are inside it.
type cacheSlot struct {
	state State
	cache impls.Cache
	size  uint64
	align uint64
	nth   uint32
	users int
	ctor  bool // objects have a constructor
	// stable says that the memory of freed objects is kept for readers.
	stable bool
	lacks  bool // no cache, since the subject does not support it
	word   machine.Word
}

func (e *Exec) lock(c *machine.Ctx, w *machine.Word) {
	if !e.native {
		w.Meet(c)
		return
	}
	for !w.Cmpxchg(c, 0, 1) {
		continue
	}
}

func (e *Exec) unlock(c *machine.Ctx, w *machine.Word) {
	if e.native {
		w.Store(c, 0)
	}
}

// claim makes the slot void and copies what it held; false when that was not live
// or came from elsewhere. What it keeps may be put back by restore.
func (e *Exec) claim(c *machine.Ctx, i, from int32, held *Slot, keeps bool) bool {
	if i == impls.NilSlot && from == fromSizes {
		*held = nothing
		return true
	}
	if i < 0 || int(i) >= len(e.slots) {
		return false
	}
	s := &e.slots[i]
	e.lock(c, &s.word)
	ok := s.State == Live && (from == anywhere || s.from == from)
	if ok {
		*held = s.Slot
		s.State, s.held = Void, keeps
	}
	e.unlock(c, &s.word)
	return ok
}

// nothing is what NilSlot holds. All of its no bytes are zero.
var nothing = Slot{State: Live, from: fromSizes, zeroed: true}

// anywhere lets claim take memory from whatever it came from.
const anywhere int32 = -3

// restore gives back what claim took, unless the slot was bound meanwhile.
func (e *Exec) restore(c *machine.Ctx, i int32, held *Slot) {
	if i == impls.NilSlot {
		return
	}
	s := &e.slots[i]
	e.lock(c, &s.word)
	if s.State == Void && s.gen == held.gen {
		s.Slot = *held
	} else {
		e.lose(*held) // the name means something else by now
	}
	e.unlock(c, &s.word)
}

// gaveBack notes that the allocator has back what st claimed from its slot.
func (e *Exec) gaveBack(c *machine.Ctx, st *Step) {
	if st.op.Slot != impls.NilSlot {
		e.returned(c, st.op.Slot, &st.held, st.class)
	}
}

// returned notes that the allocator has back what was claimed as held from slot i; class
// is the cache that it went to by size.
func (e *Exec) returned(c *machine.Ctx, i int32, held *Slot, class impls.Cache) {
	s := &e.slots[i]
	e.lock(c, &s.word)
	if s.State == Void && s.gen == held.gen {
		s.given, s.held, s.class = true, false, class
	}
	e.unlock(c, &s.word)
}

// lose tells that s is live and that no slot holds it any more.
func (e *Exec) lose(s Slot) {
	if e.lost != nil {
		e.lost(s)
	}
	if e.caps.Has(impls.CapDebug) && !e.native {
		e.strays = append(e.strays, s)
	}
}

// bind is the latest binding of slot i; what it held before is the program's leak.
func (e *Exec) bind(c *machine.Ctx, i int32, held *Slot) {
	if i < 0 || int(i) >= len(e.slots) {
		return
	}
	s := &e.slots[i]
	e.lock(c, &s.word)
	if s.State == Live {
		e.lose(s.Slot)
	}
	gen := s.gen + 1
	s.Slot = *held
	s.gen = gen
	e.unlock(c, &s.word)
}

// bindVoid makes slot i void: the operation that binds it was refused or skipped.
func (e *Exec) bindVoid(c *machine.Ctx, i int32) {
	if i >= 0 {
		e.bind(c, i, &Slot{State: Void})
	}
}

// enter takes the cache of slot i for one operation; nil when there is none. Each
// enter needs a leave.
func (e *Exec) enter(c *machine.Ctx, i int32) *cacheSlot {
	if i < 0 || int(i) >= len(e.caches) {
		return nil
	}
	k := &e.caches[i]
	if !e.counts {
		if k.state != Live {
			return nil
		}
		return k
	}
	e.lock(c, &k.word)
	live := k.state == Live
	if live {
		k.users++
	}
	e.unlock(c, &k.word)
	if !live {
		return nil
	}
	return k
}

func (e *Exec) leave(c *machine.Ctx, k *cacheSlot) {
	if !e.counts {
		return
	}
	e.lock(c, &k.word)
	k.users--
	e.unlock(c, &k.word)
}

// claimCache makes the slot of a cache void; nil when it holds none or somebody is
// inside: then the race was the program's.
func (e *Exec) claimCache(c *machine.Ctx, i int32) *cacheSlot {
	if i < 0 || int(i) >= len(e.caches) {
		return nil
	}
	k := &e.caches[i]
	e.lock(c, &k.word)
	ok := k.state == Live && k.users == 0
	if ok {
		k.state = Void
	}
	e.unlock(c, &k.word)
	if !ok {
		return nil
	}
	return k
}

// restoreCache gives back a cache that could not be destroyed.
func (e *Exec) restoreCache(c *machine.Ctx, k *cacheSlot, nth uint32) {
	e.lock(c, &k.word)
	if k.state == Void && k.nth == nth {
		k.state = Live
	}
	e.unlock(c, &k.word)
}

// bindNoCache makes a cache's slot void because no cache could be made. Where the
// subject does not support it, nor does it what would be done with the cache.
func (e *Exec) bindNoCache(c *machine.Ctx, i int32, why impls.Outcome) {
	if e.bindCache(c, i, nil, nil) {
		e.caches[i].lacks = why == impls.Unsupported
	}
}

// without is the outcome of an operation on a slot that holds no cache.
func (e *Exec) without(i int32) impls.Outcome {
	if i >= 0 && int(i) < len(e.caches) && e.caches[i].lacks {
		return impls.Unsupported
	}
	return impls.Skipped
}

// bindCache is the latest binding of a cache's slot, nil for a refused one. While
// operations are inside the cache before it, the new one is not bound: false.
func (e *Exec) bindCache(c *machine.Ctx, i int32, made impls.Cache, spec *impls.CacheSpec) bool {
	if i < 0 || int(i) >= len(e.caches) {
		return false
	}
	k := &e.caches[i]
	e.lock(c, &k.word)
	ok := k.users == 0
	if ok {
		k.nth++
		k.state, k.cache, k.lacks = Void, made, false
		if made != nil {
			k.state, k.size, k.ctor = Live, spec.Size, spec.Ctor
			k.align = e.asked(made, spec)
			k.stable = spec.RCU()
		}
	}
	e.unlock(c, &k.word)
	return ok
}

// asked is the alignment that a spec asks of the objects of the cache that was made. Where
// it is debugged the alignment of cache lines is no promise.
func (e *Exec) asked(made impls.Cache, spec *impls.CacheSpec) uint64 {
	if _, layout := debugged(made); layout != nil {
		return spec.Align
	}
	return spec.Alignment(e.pageSize)
}
