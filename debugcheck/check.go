package debugcheck

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// A Checker checks the slabs of one cache and repairs them. One context uses it at
// a time.
type Checker struct {
	Layout *Layout
	Mem    Memory
	Out    func(*Report) // is told of everything that is found, when it was repaired

	// View is the memory at ViewAt where one access more or less counts for nothing:
	// what lies in it is reached there and not through Mem, but for links that are
	// written. Whoever sets it does so for each slab, before that is looked at. With
	// links it is for words of 8 bytes only, in the order of the processor.
	View   []byte
	ViewAt uint64

	last *Report  // found, and not yet told
	free []uint64 // Validate: a bit for each object, set when it is free
	one  [1]uint64
}

// AllocOK is what an allocation checks (option F) after it took the object at a from
// the freelist of s: s.Freelist and s.Inuse are as they are without it. False: the
// slab is retired, s says so, and the object must not be handed out.
func (k *Checker) AllocOK(s *Slab, a uint64) bool {
	l := k.Layout
	if l.Rules.SLAB() {
		return k.slabAllocOK(s, a)
	}
	if !l.Flags.Has(Sanity) {
		return true
	}
	ok := k.takeOK(s, a)
	if !ok {
		s.Inuse, s.Freelist, s.Frozen = s.Objects, l.End, true
		k.fixed("Marking all objects used")
	}
	k.flush()
	return ok
}

// takeOK checks an object that was taken from a freelist, and its slab.
func (k *Checker) takeOK(s *Slab, a uint64) bool {
	if !k.slabOK(s) {
		return false
	}
	if !k.isObject(s, a) {
		k.found(s, TitleFreelistHead, "", a)
		return false
	}
	return k.objectOK(s, a, Inactive)
}

// FreeOK is what a free checks before it changes anything: announced objects of s are
// to be freed, those at list. What needs option F is left out without it. False: the
// free is refused, and s may have been repaired.
//
// Of several objects each is marked free before the next is looked at, as the kernel
// does it: one that comes twice is found, and those in front of one that is refused
// stay marked. A list that is shorter than announced is reported and not refused.
func (k *Checker) FreeOK(s *Slab, list []uint64, announced int) bool {
	if k.Layout.Rules.SLAB() {
		return k.slabFreeOK(s, list, announced)
	}
	at, ok := k.freeOK(s, list, announced)
	if !ok && k.last != nil {
		k.fixed("Object at 0x%x not freed", at)
	}
	k.flush()
	return ok
}

// FreeOne is FreeOK of the one object at a.
func (k *Checker) FreeOne(s *Slab, a uint64) bool {
	k.one[0] = a
	return k.FreeOK(s, k.one[:], 1)
}

// freeOK also returns the object at which the free was refused.
func (k *Checker) freeOK(s *Slab, list []uint64, announced int) (at uint64, ok bool) {
	if len(list) == 0 {
		return 0, true
	}
	sane := k.Layout.Flags.Has(Sanity)
	if sane && !k.slabOK(s) {
		return list[0], false
	}
	if s.Inuse < announced && k.Layout.Rules.counted() {
		k.found(s, TitleTooFew, fmt.Sprintf("Slab has %d allocated objects but %d are to be freed",
			s.Inuse, announced), 0)
		return list[0], false
	}
	for i, a := range list {
		if i >= announced {
			k.miscounted(s, announced, i+1)
			return a, false
		}
		if i > 0 {
			k.Deactivate(list[i-1])
		}
		if sane && !k.giveOK(s, a) {
			return a, false
		}
	}
	if len(list) < announced {
		k.miscounted(s, announced, len(list))
	}
	return 0, true
}

// miscounted reports a list of another length than was announced.
func (k *Checker) miscounted(s *Slab, announced, found int) {
	k.found(s, TitleBulkCount, fmt.Sprintf("Bulk free expected %d objects but found %d",
		announced, found), 0)
}

// giveOK checks one object that is to be freed.
func (k *Checker) giveOK(s *Slab, a uint64) bool {
	if !k.isObject(s, a) {
		k.found(s, TitleInvalidPointer, fmt.Sprintf("0x%x", a), a)
		return false
	}
	if free, _ := k.walk(s, a); free {
		k.found(s, TitleAlreadyFree, "", a)
		return false
	}
	return k.objectOK(s, a, Active)
}

// Discard is what is checked (option F) before the pages of s, all of whose objects
// are free, go back.
func (k *Checker) Discard(s *Slab) {
	l := k.Layout
	if l.Rules.SLAB() {
		k.slabDiscard(s)
		return
	}
	if !l.Flags.Has(Sanity) {
		return
	}
	k.checkPadding(s)
	a := s.First + l.Pad
	for range k.objects(s) {
		k.objectOK(s, a, Inactive)
		a += l.Stride
	}
	k.flush()
}

// Validate checks one slab as an explicit validation does, with or without option F.
// It stops at the first object that fails.
func (k *Checker) Validate(s *Slab) {
	if k.Layout.Rules.SLAB() {
		k.slabValidate(s)
		return
	}
	if k.slabOK(s) {
		if _, intact := k.walk(s, k.Layout.End); intact {
			k.checkObjects(s)
		}
	}
	k.flush()
}

// checkObjects checks the objects of s: what its freelist holds is free.
func (k *Checker) checkObjects(s *Slab) {
	k.mark(s)
	a := s.First + k.Layout.Pad
	for i := range k.objects(s) {
		st := Active
		if k.free[i/64]>>(i%64)&1 != 0 {
			st = Inactive
		}
		if !k.objectOK(s, a, st) {
			return
		}
		a += k.Layout.Stride
	}
}

// mark notes which objects of s are on its freelist. The links were checked; a ring of
// them ends when it has gone round.
func (k *Checker) mark(s *Slab) {
	n := k.objects(s)/64 + 1
	if cap(k.free) < n {
		k.free = make([]uint64, n)
	}
	k.free = k.free[:n]
	clear(k.free)
	for a := s.Freelist; a != k.Layout.End; a = k.next(a) {
		i, ok := k.Layout.Index(s, a)
		if !ok || i >= k.objects(s) || k.free[i/64]>>(i%64)&1 != 0 {
			return
		}
		k.free[i/64] |= 1 << (i % 64)
	}
}

// next is the object after a on a freelist.
func (k *Checker) next(a uint64) uint64 {
	if !k.Layout.Rules.linked() {
		return k.Layout.End
	}
	return k.link(a)
}

// slabOK checks what the descriptor of s says, and its padding, which is repaired and
// does not count against the slab.
func (k *Checker) slabOK(s *Slab) bool {
	switch {
	case s.Foreign:
		k.found(s, TitleNotSlabPage, "", 0)
	case s.Objects < 0 || s.Objects > s.Max:
		k.found(s, TitleObjectsMax, fmt.Sprintf("objects %d > max %d", s.Objects, s.Max), 0)
	case s.Inuse < 0 || s.Inuse > s.Objects:
		k.found(s, TitleInuseMax, fmt.Sprintf("inuse %d > max %d", s.Inuse, s.Objects), 0)
	case s.Frozen:
		k.found(s, TitleSlabDisabled, "", 0)
	default:
		k.checkPadding(s)
		return true
	}
	return false
}

// checkPadding checks what lies behind the last slot.
func (k *Checker) checkPadding(s *Slab) {
	if !k.Layout.Flags.Has(Poison) {
		return
	}
	lead := s.First - s.Addr
	over, slots := bits.Mul64(uint64(s.Max), k.Layout.Stride)
	if lead > s.Bytes || over != 0 || slots > s.Bytes-lead {
		return
	}
	used := lead + slots
	k.holds(s, 0, &slabPadding, span{s.Addr + used, s.Bytes - used, poisonInuse})
}

// walk follows the freelist of s to its end or to the object sought, which is the end
// mark when none is: met says whether it is there. What is no object is cut off; then
// the counts are held against what was met and corrected. Not intact: the head was wrong,
// and the slab is all in use now.
//
// A ring is not known as one: the walk ends after one step more than there are objects,
// and the count that comes of it, -1, is kept in 16 bits.
func (k *Checker) walk(s *Slab, sought uint64) (met, intact bool) {
	prev, a, n := k.ahead(s, sought)
	for ; a != k.Layout.End && n <= s.Objects; n++ {
		if a == sought {
			return true, true
		}
		if !k.isObject(s, a) {
			if n == 0 {
				k.found(s, TitleFreepointer, "", 0)
				s.Freelist, s.Inuse = k.Layout.End, s.Objects
				k.fixed("Freelist cleared")
				return false, false
			}
			k.found(s, TitleFreechain, "", prev)
			k.Mem.SetLink(prev, k.Layout.End)
			break
		}
		prev, a = a, k.next(a)
	}
	if k.Layout.Rules.counted() {
		k.checkCounts(s, n)
	}
	return false, true
}

// ahead walks over the objects of a freelist that lies in View as long as there is
// nothing to say about them: n of them, prev the last, up to the one at a.
func (k *Checker) ahead(s *Slab, sought uint64) (prev, a uint64, n int) {
	a = s.Freelist
	if !k.viewed() {
		return 0, a, 0
	}
	l, view := k.Layout, k.View
	first, link, last := s.First+l.Pad, l.Link-k.ViewAt, uint64(len(view)-viewedWord)
	objects := uint64(max(k.objects(s), 0))
	for a != sought && n <= s.Objects && a+link <= last {
		if i, ok := l.Slots(a - first); !ok || i >= objects {
			break
		}
		prev, a = a, binary.NativeEndian.Uint64(view[a+link:])
		n++
	}
	return prev, a, n
}

// checkCounts holds the counts of s against the length of its freelist.
func (k *Checker) checkCounts(s *Slab, free int) {
	if s.Objects != s.Max {
		k.found(s, TitleObjectsWrong,
			fmt.Sprintf("Found %d but should be %d", s.Objects, s.Max), 0)
		s.Objects = s.Max
		k.fixed("Number of objects adjusted")
	}
	if used := s.Objects - free; s.Inuse != used {
		k.found(s, TitleCountWrong,
			fmt.Sprintf("Counter is %d but counted were %d", s.Inuse, used), 0)
		s.Inuse = used & 0xffff
		k.fixed("Object count adjusted")
	}
}

// Counted holds a counter of the cache, NrPartial or NrSlabs, against a count.
func (k *Checker) Counted(r Region, counted, stored int) {
	if counted == stored {
		return
	}
	l := k.Layout
	rep := &Report{Rules: l.Rules, Kind: Warn, Cache: l.Name, Region: r}
	rep.Title = TitleNrSlabs
	rep.Detail = fmt.Sprintf("%d slabs counted but counter=%d", counted, stored)
	if r == NrPartial {
		rep.Title = TitleNrPartial
		rep.Detail = fmt.Sprintf("%d partial slabs counted but counter=%d", counted, stored)
	}
	k.tell(rep)
}

// Deactivated is what a CPU checks (option F) as it lets slab s go, at each link of
// its list: false when next is no object of s; the rest of the list is given up.
// It is for allocators whose debug caches give slabs to CPUs, as kernels before 6.1 do.
func (k *Checker) Deactivated(s *Slab, a, next uint64) bool {
	if !k.Layout.Flags.Has(Sanity) || k.linkTo(s, next) {
		return true
	}
	k.found(s, TitleFreechain, "", a)
	k.fixed("Isolate corrupted freechain")
	k.flush()
	return false
}

// WrongCache reports that the object at a, of this cache, was freed to another. SLUB
// tells its tracks too, where View has them: nothing need be held for this.
func (k *Checker) WrongCache(other string, a uint64) {
	r := k.refusal(TitleWrongCache,
		fmt.Sprintf("%s but object is from %s", other, k.Layout.Name), a)
	if !r.Rules.SLAB() {
		r.Alloc, r.Free = k.viewedTrack(AllocTrack, a), k.viewedTrack(FreeTrack, a)
	}
	k.tell(r)
}

// NotSlab reports that the address a, which was freed to this cache, is in no slab.
func (k *Checker) NotSlab(a uint64) {
	if !k.Layout.Rules.located() {
		k.tell(&Report{Rules: k.Layout.Rules, Cache: k.Layout.Name, Title: TitleInvalidPointer,
			Detail: fmt.Sprintf("0x%x", a), Object: a})
		return
	}
	k.tell(k.refusal(TitleNotSlab, fmt.Sprintf("0x%x", a), a))
}

// Remaining reports that a cache is not destroyed because live objects are out: those
// of slab s or, by the rules of 2.4, which says it once, those of all slabs, s being
// nil. 2.6 and a guard have no such report.
func (k *Checker) Remaining(s *Slab, live int) {
	l := k.Layout
	switch {
	case l.Rules == SLAB24:
		k.tell(&Report{Rules: l.Rules, Kind: Warn, Cache: l.Name, Title: TitleSlabRemaining,
			Detail: fmt.Sprintf("%d are in use", live)})
	case bySLUB.Has(l.Rules):
		r := k.found(s, TitleRemaining, fmt.Sprintf("%d of %d are in use", live, s.Objects), 0)
		r.Remaining = k.leftovers(s)
		k.flush()
	}
}

// leftovers lists the objects of s that are not on its freelist.
func (k *Checker) leftovers(s *Slab) (out []Leftover) {
	k.mark(s)
	for i := range k.objects(s) {
		if k.free[i/64]>>(i%64)&1 != 0 {
			continue
		}
		a := k.Layout.objectAt(s, i)
		out = append(out, Leftover{Object: a, Alloc: k.Track(AllocTrack, a),
			Free: k.Track(FreeTrack, a)})
	}
	return out
}

// refusal is the report of a call about an address that may be none of this cache's: 2.4
// stops there.
func (k *Checker) refusal(title, detail string, a uint64) *Report {
	r := &Report{Rules: k.Layout.Rules, Kind: Warn, Cache: k.Layout.Name, Title: title,
		Detail: detail, Object: a}
	if r.Rules == SLAB24 {
		r.Kind = Fatal
	}
	return r
}
