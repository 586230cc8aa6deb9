package oracle

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// shape is the check of structure (check 4): what one run has looked at and said.
type shape struct {
	checks int
	told   map[fault.Title]bool
	seen   []uint64 // bit per object of the slab in hand
}

func (s *shape) reset() {
	s.checks = 0
	if s.told == nil {
		s.told = map[fault.Title]bool{}
	}
	clear(s.told)
}

// between looks at the structure after an operation of a small program: after each
// while there are few objects, the more seldom the more there are.
func (r *Runner) between(c *machine.Ctx) {
	if r.rest > 0 {
		r.rest--
		return
	}
	if r.native || !r.m.Sim().Quiet(c) {
		return
	}
	r.structure(c)
	objects := 0
	for i := range r.snap.Slabs {
		objects += r.snap.Slabs[i].Objects
	}
	r.rest = objects / 64
}

// structure looks at the subject at a quiet point and holds what it finds against
// the rules. Each title is raised once a run: what is broken stays broken.
func (r *Runner) structure(c *machine.Ctx) {
	r.snap.Reset()
	if !r.in.Snapshot(&r.snap) {
		return
	}
	r.shape.checks++
	r.judge.ctx = c
	for i := range r.snap.Slabs {
		r.slab(&r.snap.Slabs[i])
	}
	for i := range r.snap.Counts {
		k := &r.snap.Counts[i]
		if k.Stored != k.Counted {
			r.broken(fault.CountWrong, "%s is stored as %d and counts %d", k.Name, k.Stored, k.Counted)
		}
	}
	r.placed()
}

func (r *Runner) broken(t fault.Title, format string, args ...any) {
	if !r.shape.told[t] {
		r.shape.told[t] = true
		r.judge.fault(t, format, args...)
	}
}

// slab checks one slab: where it is, what its freelists hold, what it has lost.
func (r *Runner) slab(b *impls.SlabState) {
	k := &r.snap.Caches[b.Cache]
	r.shape.seen = append(r.shape.seen[:0], make([]uint64, (b.Objects+63)/64)...)
	whole := r.freelist(b, k, b.Free, b.FreeEnd, "its freelist")
	whole = r.freelist(b, k, b.CPUFree, b.CPUEnd, "a CPU's freelist") && whole
	free := len(b.Free) + len(b.CPUFree)
	if whole {
		r.lost(b, k)
		if b.Inuse != b.Objects-len(b.Free) {
			r.broken(fault.InuseWrong, "%s: inuse %d, %d objects and %d free", name(b, k), b.Inuse,
				b.Objects, len(b.Free))
		}
	}
	if len(b.On) > 1 {
		r.broken(fault.SlabTwice, "%s is in %d places", name(b, k), len(b.On))
	}
	if len(b.On) == 0 && (free > 0 || k.FullLists) {
		r.broken(fault.SlabLost, "%s has %d free objects and is nowhere", name(b, k), free)
	}
	for _, p := range b.On {
		r.fullness(b, k, p)
	}
	if b.Colour >= max(b.Colours, 1) {
		r.broken(fault.ColourRange, "%s: colour %d of %d", name(b, k), b.Colour, b.Colours)
	}
}

func name(b *impls.SlabState, k *impls.CacheState) string {
	return "slab of " + k.Name + " at page " + itoa(b.Page)
}

// fullness checks that a slab is on the list for what it holds.
func (r *Runner) fullness(b *impls.SlabState, k *impls.CacheState, p impls.Place) {
	if p.Kind != impls.OnList {
		return
	}
	free := len(b.Free)
	wrong := false
	switch p.List {
	case impls.ListPartial:
		wrong = free == 0 || k.FullLists && free == b.Objects
	case impls.ListFull:
		wrong = free > 0
	case impls.ListFree:
		wrong = free < b.Objects
	}
	if wrong {
		r.broken(fault.ListOrder, "%s has %d of %d objects free and is on list %d", name(b, k), free,
			b.Objects, p.List)
	}
}

// freelist checks the entries of one freelist and marks them as seen; false when
// the list cannot be trusted to its end.
func (r *Runner) freelist(b *impls.SlabState, k *impls.CacheState, list []impls.Addr,
	end impls.FreeEnd, what string) bool {
	whole := end == impls.EndOK
	switch end {
	case impls.EndCycle:
		r.broken(fault.FreelistCycle, "%s of the %s", what, name(b, k))
	case impls.EndLeaves:
		r.broken(fault.FreelistLeaves, "%s of the %s", what, name(b, k))
	}
	for _, a := range list {
		if !b.Holds(a, k.Stride) {
			r.broken(fault.FreelistLeaves, "%s of the %s holds %#x", what, name(b, k), a)
			return false
		}
		i := (a - b.First) / k.Stride
		if r.shape.seen[i/64]&(1<<(i%64)) != 0 {
			if end != impls.EndCycle {
				r.broken(fault.FreeTwice, "%#x of the %s", a, name(b, k))
			}
			whole = false
		}
		r.shape.seen[i/64] |= 1 << (i % 64)
		if r.judge.live.has(a) {
			r.broken(fault.LiveOnFreelist, "%#x is on %s of the %s", a, what, name(b, k))
		}
	}
	return whole
}

// lost finds objects that are neither live nor on a freelist.
func (r *Runner) lost(b *impls.SlabState, k *impls.CacheState) {
	for i := range b.Objects {
		a := b.First + uint64(i)*k.Stride
		if r.shape.seen[i/64]&(1<<(uint(i)%64)) == 0 && !r.judge.live.has(a) {
			r.broken(fault.FreeLost, "%#x of the %s", a, name(b, k))
			return
		}
	}
}

// placed checks that live objects of caches are objects of slabs.
func (r *Runner) placed() {
	n := min(r.exec.Slots(), deepMax)
	for i := range n {
		s := r.exec.Slot(i)
		if s.State != play.Live || s.Owner() < 0 {
			continue
		}
		b := r.snap.SlabOf(uint64(r.m.PageSize), s.Addr)
		if b == nil || !b.Holds(s.Addr, r.snap.Caches[b.Cache].Stride) {
			r.broken(fault.OutsideSlab, "%#x", s.Addr)
			continue
		}
		if left := uint64(r.m.PageSize)<<uint(b.Order) - (s.Addr - b.Addr); s.Size > left {
			r.broken(fault.OutsideSlab, "%#x has %d bytes, its slab %d more", s.Addr, s.Size, left)
		}
	}
}
