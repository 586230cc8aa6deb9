package shadow

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// A Setup is what a Shadow is told at the start of a run.
type Setup struct {
	Memory   impls.Memory
	PageSize uint64
	Base     impls.Addr // first address of the arena
	// Alone says that one task does everything: every report is predicted. Otherwise
	// what can be demanded is in loose.go.
	Alone bool
	// Blind says that the subject shows no state, but its rules can be followed without.
	Blind bool
	// Snapshot looks at the subject between two operations; false when it shows
	// nothing.
	Snapshot func(*impls.Snapshot) bool
	// Cache is the cache in a slot of the program, nil when it holds none.
	Cache func(slot int32) impls.Cache
	// Owner is the cache that memory allocated by size came from, nil for none.
	Owner func(a impls.Addr) impls.Cache
	// Pinned says that every context stays on its CPU.
	Pinned bool
	// Quarantine gives the limits of a guard's quarantine, in objects and in bytes with all
	// that is around them; nil for whoever has none or does not tell.
	Quarantine func() (objects int, bytes uint64)
	// Raise notes that a rule was broken.
	Raise func(t fault.Title, format string, args ...any)
}

// A Shadow is the model's picture of the debugged caches of one run.
type Shadow struct {
	Setup
	caches     map[impls.Cache]*cache
	known      []*cache // the debugged ones among them, in the order in which they were met
	objects    map[impls.Addr]*object
	retired    map[int]bool   // slabs that are never used again, by page
	blurred    bool           // from the next operation on nothing is judged
	lost       bool           // predicted and reported differed: from there on nothing is judged
	odd        map[int]bool   // slabs with a damaged link or field, by page
	shaky      map[int]*cache // slabs whose count misuse made wrong, by page
	ops        []pending      // with several contexts: the last operation of each
	clock      uint64         // with several contexts: begins and ends of operations so far
	users      map[impls.Addr]users
	departed   []impls.Addr // what left the quarantine during the operation in hand
	by         trail        // what the operation that just ended writes into tracks
	before     impls.Snapshot
	after      impls.Snapshot
	shown      bool                  // before is the state of now
	stored     []debugcheck.Slab     // of the slabs of before
	births     uint64                // allocations so far
	quarantine []quarantined         // of a guard, in its order
	went, due  []bool                // those of it that left, and that had to
	links      map[impls.Addr]uint64 // damaged free pointers, by object, as they were last
	want       []want
	groups     []group
	mended     []*view // slabs whose fields the operation must have repaired
	reports    int     // operations that were judged
	misused    bool    // something was: until then every report is a false one
	begun      bool    // an operation is being carried out
	target     *cache  // of the free in hand
	doomed     *cache  // that a destroy is to end
	freed      bool    // the rules let the free in hand go ahead
	inside     bool    // what is freed begins no object, and passes the red words of one
	untried    bool    // the allocation in hand was refused before it was tried
	kept       bool    // what was given back by the operation that just ended was refused
	gone       bool    // the misuse in hand really gave something back

	storedAfter []debugcheck.Slab
	stretches   []stretch     // of the object in hand
	views       map[int]*view // of a bulk operation: slabs as they change, by number
	peeked      []peeked      // damaged bytes as they were before a bulk operation
	goAhead     []bool        // of a bulk free: whether the rules let each go ahead
	window      [4096]byte    // of memory that is looked at
}

// A cache is one debugged cache.
type cache struct {
	impls.Debugger
	l    *debugcheck.Layout
	hurt damage
	// maybe are, with several contexts, the bytes damaged while an operation was in flight:
	// it may have written over them, before that or behind it.
	maybe map[impls.Addr]bool
	stuck bool // with several contexts: a slab was retired
	// untold: a bulk allocation that failed took objects and gave them back. Which ones is
	// its own business, and they have its tracks.
	untold bool
	over   counts // by how much misuse made its counters too large
}

// counts are the counters of a cache: nr_partial and nr_slabs.
type counts struct{ partial, slabs uint64 }

// An object is one that the allocator has handed out and not taken back.
type object struct {
	cache *cache
	asked uint64 // bytes that were asked for, as the allocator knows it
	size  uint64 // bytes that are the program's; 0 when it has given the object back
	born  uint64 // its place in the order of allocations
	kept  bool   // the program gave it back and was refused, or the slab lost it
}

// Reset makes s ready for a run.
func (s *Shadow) Reset(u Setup) {
	s.Setup = u
	if s.caches == nil {
		s.links, s.users = map[impls.Addr]uint64{}, map[impls.Addr]users{}
		s.caches, s.objects = map[impls.Cache]*cache{}, map[impls.Addr]*object{}
		s.retired, s.shaky, s.odd = map[int]bool{}, map[int]*cache{}, map[int]bool{}
	}
	clear(s.caches)
	clear(s.objects)
	clear(s.users)
	clear(s.retired)
	clear(s.links)
	clear(s.shaky)
	clear(s.odd)
	s.known = s.known[:0]
	s.lost, s.blurred, s.shown, s.misused, s.reports = false, false, false, false, 0
	s.births, s.clock, s.quarantine = 0, 0, s.quarantine[:0]
	s.departed = s.departed[:0]
	s.ops, s.want, s.groups = s.ops[:0], s.want[:0], s.groups[:0]
	s.begun, s.freed, s.gone, s.untried = false, true, false, false
}

// Misused says whether something was misused so far.
func (s *Shadow) Misused() bool { return s.misused }

// Judged is the number of operations whose reports were held against the rules.
func (s *Shadow) Judged() int { return s.reports }

// cacheOf finds or makes the picture of a debugged cache; nil for one without debug
// flags.
func (s *Shadow) cacheOf(c impls.Cache) *cache {
	if c == nil {
		return nil
	}
	if k, ok := s.caches[c]; ok {
		return k
	}
	d, ok := c.(impls.Debugger)
	if !ok || d.Layout() == nil {
		s.caches[c] = nil
		return nil
	}
	k := &cache{Debugger: d, l: d.Layout(), hurt: damage{}, maybe: map[impls.Addr]bool{}}
	s.caches[c] = k
	s.known = append(s.known, k)
	s.laidOut(k)
	return k
}

// of is the debugged cache that an operation is about: that of its slot, or by size
// the owner of an address.
func (s *Shadow) of(slot int32, a impls.Addr) *cache {
	if slot >= 0 {
		return s.cacheOf(s.Cache(slot))
	}
	if a == 0 || s.Owner == nil {
		return nil
	}
	return s.cacheOf(s.Owner(a))
}

// A family is what the reports of one kind of allocator are predicted by. Each
// method adds to want.
type family interface {
	// alloc is an allocation from k.
	alloc(s *Shadow, k *cache)
	// free is a free of the object at a; it says whether the object is taken back.
	free(s *Shadow, k *cache, a impls.Addr) bool
	// validate is an explicit validation.
	validate(s *Shadow, k *cache)
	// discard is what is checked before the pages of an empty slab go back.
	discard(s *Shadow, v *view)
	// remains is an attempt to destroy k that left something behind; the state of s is the
	// one after it.
	remains(s *Shadow, k *cache)
	// stray is the title of a free of what is in no slab.
	stray() string
	// mayFree says whether a free of a, which is no live object, has an effect that the
	// rules define.
	mayFree(s *Shadow, k *cache, a impls.Addr) bool
	// mayHarm says the same of damage.
	mayHarm(s *Shadow, k *cache, h *harm) bool
}

func familyOf(r debugcheck.Rules) family {
	switch r {
	case debugcheck.SLAB24, debugcheck.SLAB26:
		return slabFamily{}
	case debugcheck.Guard:
		return guardFamily{}
	}
	return slubFamily{}
}

// track notes what an operation made live or not.
func (s *Shadow) track(ev *impls.Event) {
	s.by = s.trailOf(ev)
	for _, a := range s.departed {
		delete(s.users, a)
	}
	s.departed = s.departed[:0]
	switch ev.Code {
	case impls.OpAlloc, impls.OpMalloc, impls.OpCalloc, impls.OpMemalign:
		if ev.Outcome == impls.OK && ev.Addr != 0 {
			s.handedOut(ev)
		}
	case impls.OpRealloc:
		if ev.Outcome == impls.OK {
			s.moved(ev)
		}
	case impls.OpUsable:
		if ev.Outcome == impls.OK {
			s.measured(ev.Addr)
		}
	case impls.OpFree, impls.OpFreeSized, impls.OpFreeAgain, impls.OpFreeWrong:
		if ev.Outcome == impls.OK {
			s.returned(ev, ev.Addr)
		}
	}
	if len(s.users) > 0 {
		s.swept(ev)
	}
}

// measured notes that somebody asks how large the object at a is, as a realloc does whatever
// comes of it: all of it may be used from then on.
func (s *Shadow) measured(a impls.Addr) {
	if o := s.objects[a]; o != nil {
		o.asked = o.cache.l.Size
	}
}

// handedOut notes a new live object; what was done to it before is written over.
func (s *Shadow) handedOut(ev *impls.Event) {
	k := s.of(ev.Cache, ev.Addr)
	if k == nil {
		return
	}
	s.activate(k, ev.Addr)
	s.allocated(k, ev.Addr)
	s.births++
	s.objects[ev.Addr] = &object{cache: k, asked: k.askedBy(ev), size: ev.Size, born: s.births}
}

// moved notes a realloc, in place or not.
func (s *Shadow) moved(ev *impls.Event) {
	if o := s.objects[ev.Old]; o != nil && ev.Old == ev.Addr {
		o.asked, o.size = o.cache.l.Size, ev.Size
		return
	}
	s.returned(ev, ev.Old)
	if ev.Addr != 0 {
		s.handedOut(ev)
	}
}

// returned notes that an operation gave the object at a back. Where contexts overlap another
// may have it by now.
func (s *Shadow) returned(ev *impls.Event, a impls.Addr) {
	o := s.objects[a]
	if !s.Alone {
		if g := s.pending(ev).gave(a); g == nil || o != g.victim {
			s.blur(a)
			return
		}
	}
	if o != nil {
		s.giveBack(a, o, ev.Code.Misuses())
	}
}

// giveBack takes an object back, or notes that the free was refused. The program has
// lost what it properly gave back either way.
func (s *Shadow) giveBack(a impls.Addr, o *object, misuse bool) {
	if s.freed || s.lost {
		s.release(a, o)
		s.gone = misuse
	} else if !misuse {
		o.kept, o.size, s.kept = true, 0, true
		if !s.Alone {
			s.blur(a) // only its reports say that it was refused
		}
	}
}

func (s *Shadow) release(a impls.Addr, o *object) {
	delete(s.objects, a)
	s.deactivate(o.cache, a)
	s.freedBy(o.cache, a)
}

// Gone says whether the misuse that just ended really gave something back, so that
// the program has it no more.
func (s *Shadow) Gone() bool { return s.gone }

// Kept says whether the operation that just ended gave back an object and was refused.
func (s *Shadow) Kept() bool { return s.kept }

// Refused says whether the object at a was given back and refused.
func (s *Shadow) Refused(a impls.Addr) bool {
	o := s.objects[a]
	return o != nil && o.kept
}

// Holds says whether the allocator may count the object at a, of the slab at page, as
// handed out though the program has it no more: a refused free, a chain that was
// cut, a retired slab.
func (s *Shadow) Holds(a impls.Addr, page int) bool { return s.retired[page] || s.Refused(a) }

// Stuck says whether a cache holds on to something for good, so that it can never be
// destroyed. It is asked right before each attempt to destroy one, when that still has its
// slot, and notes which.
func (s *Shadow) Stuck(c impls.Cache) bool {
	k := s.cacheOf(c)
	s.doomed = k
	if k == nil {
		return false
	}
	stuck := k.stuck || k.over != counts{}
	//tidy:maporder whether any is, in any order
	for _, o := range s.objects {
		stuck = stuck || o.kept && o.cache == k
	}
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		// A slab that says some object is in use does not go, whether one is or not.
		bad := s.retired[b.Page] || s.odd[b.Page] && s.stored[i].Inuse > 0
		stuck = stuck || bad && s.before.Caches[b.Cache].Handle == c
	}
	return stuck
}

// activate is what an allocation writes over.
func (s *Shadow) activate(k *cache, a impls.Addr) {
	s.heal(k, a, debugcheck.Object)
	if k.l.Flags.Has(debugcheck.RedZone) {
		s.heal(k, a, debugcheck.LeftRed)
		s.heal(k, a, debugcheck.RightRed)
	}
}

// deactivate is what a free writes over.
func (s *Shadow) deactivate(k *cache, a impls.Addr) {
	s.heal(k, a, debugcheck.FreePtr)
	s.heal(k, a, debugcheck.Object)
	if k.l.Flags.Has(debugcheck.RedZone) {
		s.heal(k, a, debugcheck.LeftRed)
		s.heal(k, a, debugcheck.RightRed)
	}
}

// heal forgets what was done to a region. With an operation in flight somebody may have
// seen it before it was written over, and not have said so yet.
func (s *Shadow) heal(k *cache, a impls.Addr, r debugcheck.Region) {
	from, to := k.l.At(r)
	x, y := span(a, from, to)
	if len(k.hurt) > 0 && s.inFlight() {
		for p := x; p != y; p++ {
			if k.hurt[p] != 0 {
				k.maybe[p] = true
			}
		}
	}
	k.hurt.heal(x, y)
}
