package shadow

import (
	"fmt"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// This file follows who allocated and who freed each object of a cache that keeps that
// (option U), and holds the tracks that reports show against it. Of a track the line is
// compared, and the CPU where contexts stay on theirs; a point of the run is no rule's.

// A trail is what one track must say.
type trail struct {
	set  bool // somebody wrote it since the slab was made
	line int  // the operation, below 0 when it is none of the program's
	cpu  int
	// With several contexts: when the operation that wrote it began and was over. vague
	// says that it is open which operation that was.
	from, to uint64
	vague    bool
}

// users are the two tracks of an object. SLAB has one, of whoever came last: alloc.
type users struct {
	cache       *cache
	alloc, free trail
}

// trailOf is what the operation that just ended writes into tracks.
func (s *Shadow) trailOf(ev *impls.Event) trail {
	t := trail{set: true, line: int(ev.Op), cpu: int(ev.CPU), to: s.clock}
	if !s.Alone {
		t.from = s.pending(ev).from
	}
	return t
}

// allocated notes that the operation in hand handed out the object at a.
func (s *Shadow) allocated(k *cache, a impls.Addr) {
	if !k.l.Flags.Has(debugcheck.StoreUser) {
		return
	}
	u := s.users[a]
	if u.cache != k {
		u = users{cache: k}
	}
	u.alloc = s.by
	s.users[a] = u
	s.heal(k, a, debugcheck.AllocTrack)
}

// freedBy notes that the operation in hand gave back the object at a.
func (s *Shadow) freedBy(k *cache, a impls.Addr) {
	u := s.users[a]
	switch {
	case !k.l.Flags.Has(debugcheck.StoreUser) || u.cache != k:
	case k.l.Rules.SLAB():
		u.alloc = s.by
		s.users[a] = u
		s.heal(k, a, debugcheck.AllocTrack)
	case !u.free.set || u.free.from <= s.by.from: // else one that began later was faster
		u.free = s.by
		s.users[a] = u
		s.heal(k, a, debugcheck.FreeTrack)
	}
}

// blur notes that it is open who freed the object at a last.
func (s *Shadow) blur(a impls.Addr) {
	if u, ok := s.users[a]; ok {
		u.free.vague = true
		s.users[a] = u
	}
}

// givenBack is the address that an operation gives back; 0 and false for one that gives
// back none.
func givenBack(ev *impls.Event) (a impls.Addr, ok bool) {
	switch ev.Code {
	case impls.OpRealloc:
		return ev.Old, true
	case impls.OpFree, impls.OpFreeSized, impls.OpFreeAgain, impls.OpFreeWrong:
		return ev.Addr, true
	}
	return 0, false
}

// swept forgets the tracks in slabs that an operation may have given back.
func (s *Shadow) swept(ev *impls.Event) {
	a, ok := givenBack(ev)
	if !ok && ev.Code != impls.OpShrink && ev.Code != impls.OpDestroy &&
		ev.Code != impls.OpReap {
		return
	}
	if u := s.users[a]; a != 0 && (u.cache == nil || u.there(a)) {
		return
	}
	//tidy:maporder each is kept or deleted by itself
	for at, u := range s.users {
		if !u.there(at) {
			delete(s.users, at)
		}
	}
}

// there says whether the object at a is in a slab of its cache.
func (u *users) there(a impls.Addr) bool {
	_, ok := u.cache.Slab(a)
	return ok
}

// A shown is what a report shows of the tracks of one object.
type shown struct {
	debugcheck.Leftover
	blots blots
}

// blots say which of the tracks of an object misuse has damaged: alloc and free.
type blots [2]bool

// blotted looks at the tracks of the object at a.
func blotted(k *cache, a impls.Addr) (b blots) {
	for i, r := range [...]debugcheck.Region{debugcheck.AllocTrack, debugcheck.FreeTrack} {
		from, to := k.l.At(r)
		for x, y := span(a, from, to); x != y; x++ {
			b[i] = b[i] || k.wrong(x)
		}
	}
	return b
}

// tracked holds the tracks that a report about k shows against the right ones, and raises
// the first difference. With several contexts it is asked where settled says so. blots are
// those of its object.
func (s *Shadow) tracked(k *cache, r *debugcheck.Report, b blots,
	settled func(impls.Addr) bool) {
	for i := range r.Remaining {
		o := shown{r.Remaining[i], blotted(k, r.Remaining[i].Object)}
		if settled(o.Object) && !s.holdTracks(k, r, &o) {
			return
		}
	}
	// Around what is no object there are no tracks, and a free to the wrong cache shows
	// them where they can be had.
	if r.Layout == nil && !(r.Title == wrongCache && r.Alloc.Set) || !settled(r.Object) {
		return
	}
	s.holdTracks(k, r, &shown{debugcheck.Leftover{Object: r.Object, Alloc: r.Alloc,
		Free: r.Free}, b})
}

// holdTracks is tracked for the tracks of one object.
func (s *Shadow) holdTracks(k *cache, r *debugcheck.Report, o *shown) bool {
	u := s.users[o.Object]
	if u.cache != k {
		u = users{}
	}
	for i, t := range [...]struct {
		did   string
		says  debugcheck.Track
		right trail
	}{{"allocated", o.Alloc, u.alloc}, {"freed", o.Free, u.free}} {
		if !o.blots[i] && !s.names(k, t.says, t.right) {
			s.raise(fault.WrongReport, r.Title, "%s: object %#x %s by %s; the rules say: by %s",
				brief(r), o.Object, t.did, who(t.says.Set, t.says.Line, t.says.CPU),
				who(t.right.set, t.right.line, t.right.cpu))
			return false
		}
	}
	return true
}

// names says whether a track that was shown may be the right one.
func (s *Shadow) names(k *cache, shown debugcheck.Track, right trail) bool {
	switch {
	case right.vague, k.untold, !s.Alone && !shown.Set: // the slab may have been made anew
		return true
	case shown.Set != right.set:
		return false
	case !shown.Set:
		return true
	}
	most, cpu := numbers(k.l.Tracks)
	if right.line >= 0 && shown.Line != min(right.line, most) {
		return false
	}
	return !cpu || !s.Pinned || shown.CPU == right.cpu
}

// numbers are the greatest line that a track of n bytes can hold, and whether it holds the
// CPU, too. Two numbers stand for no line.
func numbers(n uint64) (line int, cpu bool) {
	const reserved = 2
	switch n {
	case 2, 4, 10:
		return 1<<16 - 1 - reserved, n > 2
	case 8:
		return 1<<24 - 1 - reserved, true
	case 20:
		return 1<<32 - 1 - reserved, true
	}
	return 1<<62 - 1, true
}

// who says who wrote a track.
func who(set bool, line, cpu int) string {
	switch {
	case !set:
		return "nobody"
	case line < 0:
		return fmt.Sprintf("no operation, CPU %d", cpu)
	}
	return fmt.Sprintf("operation %d, CPU %d", line, cpu)
}

// settled says whether the tracks of the object at a, which report r shows, were the same all
// through the operation of several contexts that just ended: it was allocated before, and
// nobody has begun to give it back, but for that operation when nothing overlaps it, and then
// r is not from behind that.
func (s *Shadow) settled(ev *impls.Event, r *debugcheck.Report, a impls.Addr) bool {
	o, u, own := s.objects[a], s.users[a], s.pending(ev)
	if o == nil || o.kept || u.alloc.to > own.from || own.gave(a) != nil && ofGoing(r) {
		return false
	}
	for i := range s.ops {
		if p := &s.ops[i]; p.gave(a) != nil && (p.busy || p.overlap && i == int(ev.Ctx)) {
			return false
		}
	}
	return true
}
