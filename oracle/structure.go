package oracle

import (
	"math/bits"
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/pages"
)

// shape is the check of structure (check 4): what one run has looked at and said.
type shape struct {
	checks  int
	told    map[fault.Title]bool
	reap    []waiting           // slabs that may go at the reap in hand
	seen    []uint64            // bit per object of the slab in hand
	order   []position          // slabs of the list in hand
	own     map[impls.Addr]bool // objects that the allocator uses itself
	pages   pages.Checker
	tallies []tally // of the caches, by index
}

func (s *shape) reset() {
	s.checks = 0
	if s.told == nil {
		s.told, s.own = map[fault.Title]bool{}, map[impls.Addr]bool{}
	}
	clear(s.told)
}

// between looks at the structure after an operation of a small program: after each
// while there are few objects, the more seldom the more there are.
func (r *Runner) between(c *machine.Ctx, ev *impls.Event) {
	r.reused(ev)
	shrunk := ev.Code == impls.OpShrink && ev.Outcome == impls.OK ||
		ev.Code == impls.OpDestroy && ev.Outcome == impls.Refused
	if r.rest > 0 && !shrunk && !empties(ev) {
		r.rest--
		return
	}
	if r.native || !r.m.Sim().Quiet(c) {
		return
	}
	r.structure(c)
	r.turnedDown(c, ev)
	r.promised(c, ev)
	r.promisedPage(c, ev)
	// Whoever must not wait, in a read section, too, drains its own CPU only.
	if ev.Code == impls.OpDrain && ev.Outcome == impls.OK && c.MayBlock() && r.p.Sequential() {
		r.drained(c)
	}
	if shrunk && r.p.Sequential() {
		r.shrunk(r.exec.Cache(int(ev.Cache)), ev)
	}
	if empties(ev) && r.p.Sequential() {
		r.emptied(ev)
	}
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
	r.managed()
	for i := range r.snap.Slabs {
		r.slab(&r.snap.Slabs[i])
	}
	for i := range r.snap.Counts {
		k := &r.snap.Counts[i]
		if k.Stored != k.Counted && !(r.shadowed && r.shadow.Miscounts()) {
			r.broken(fault.CountWrong, "%s is stored as %d and counts %d", k.Name, k.Stored,
				k.Counted)
		}
	}
	for i := range r.snap.Caches {
		if r.snap.Caches[i].Ordered {
			r.ordered(i)
		}
	}
	r.footprint()
	r.placed()
	r.arrays()
	r.paged()
}

// broken raises a title, once a run.
func (r *Runner) broken(t fault.Title, format string, args ...any) {
	if !r.shape.told[t] {
		r.shape.told[t] = true
		r.judge.fault(t, format, args...)
	}
}

// slab checks one slab: where it is, what its freelists hold, what it has lost.
func (r *Runner) slab(b *impls.SlabState) {
	k := &r.snap.Caches[b.Cache]
	if r.shadowed && r.shadow.Odd(b.Page) {
		return // misuse damaged what the allocator goes by
	}
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
	for i := 0; whole && i < len(b.On); i++ {
		r.fullness(b, k, b.On[i])
	}
	if b.Colour >= max(b.Colours, 1) {
		r.broken(fault.ColourRange, "%s: colour %d of %d", name(b, k), b.Colour, b.Colours)
	}
}

// name is how a finding speaks of a slab.
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
		r.broken(fault.ListOrder, "%s has %d of %d objects free and is on the %s list", name(b, k),
			free, b.Objects, p.List)
	}
}

// position is a slab at a place of a list.
type position struct {
	at   int
	slab *impls.SlabState
}

// ordered checks the list of a cache that keeps all slabs on one: first the full
// ones, then those with some objects free, then those with all, and what the cache
// stores as the first that is not full.
func (r *Runner) ordered(cache int) {
	k := &r.snap.Caches[cache]
	list := r.shape.order[:0]
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		switch {
		case b.Cache != cache:
		case b.FreeEnd != impls.EndOK:
			return // nobody can say how full it is
		case len(b.On) > 0 && b.On[0].List == impls.ListAny:
			list = append(list, position{b.On[0].At, b})
		}
	}
	r.shape.order = list
	slices.SortFunc(list, func(a, b position) int { return a.at - b.at })
	first, before := -1, 0
	for _, p := range list {
		free := len(p.slab.Free)
		phase := min(free, 1)
		if free == p.slab.Objects {
			phase = 2
		}
		if phase > 0 && first < 0 {
			first = p.slab.Page
		}
		if phase < before {
			r.broken(fault.ListOrder, "%s has %d of %d objects free and comes behind emptier ones",
				name(p.slab, k), free, p.slab.Objects)
		}
		before = phase
	}
	if first != k.FirstNotFull {
		r.broken(fault.ListOrder, "the first slab of %s that is not full is at page %d, and %d is "+
			"stored", k.Name, first, k.FirstNotFull)
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
		if r.judge.live.Has(a) || r.shape.own[a] {
			r.broken(fault.LiveOnFreelist, "%#x is on %s of the %s", a, what, name(b, k))
		}
	}
	return whole
}

// holds says whether the allocator may keep an object that is neither live nor free.
func (r *Runner) holds(a impls.Addr, b *impls.SlabState) bool {
	return r.shape.own[a] || r.shadowed && r.shadow.Holds(a, b.Page)
}

// lost finds objects that are neither live nor on a freelist.
func (r *Runner) lost(b *impls.SlabState, k *impls.CacheState) {
	for i := range b.Objects {
		a := b.First + uint64(i)*k.Stride
		if r.shape.seen[i/64]&(1<<(uint(i)%64)) == 0 && !r.judge.live.Has(a) && !r.holds(a, b) {
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

// reuse is what a subject that promises reuse=lifo must hand out next.
type reuse struct {
	cache int32 // slot of the cache, ofPages, or -1 while nothing is promised
	cpu   uint8
	addr  impls.Addr
}

// reused holds an operation against what the free before it promised. The promise
// is about the very next operation: any other ends it.
func (r *Runner) reused(ev *impls.Event) {
	if ev.Outcome == impls.Skipped || ev.Outcome == impls.Unsupported {
		return
	}
	u := r.reuse
	r.reuse.cache = -1
	if ev.Part > 0 {
		return // which object of several comes first is open
	}
	r.reusedPage(u, ev)
	if u.cache >= 0 && ev.Code == impls.OpAlloc && ev.Outcome == impls.OK && ev.Cache == u.cache &&
		ev.CPU == u.cpu && ev.Addr != u.addr {
		r.broken(fault.ReuseOrder, "%#x was freed last and %#x was handed out", u.addr, ev.Addr)
	}
}

// promised says what reuse=lifo promises after a free, from the snapshot taken
// since: the object itself, where the CPU has an array of the cache or its slab is the
// CPU's, which the task cannot leave, or the cache keeps lists of all slabs and no other
// is partial.
func (r *Runner) promised(c *machine.Ctx, ev *impls.Event) {
	if !play.Frees(ev.Code) || ev.Outcome != impls.OK || ev.Cache < 0 || ev.Part > 0 ||
		len(ev.Reports) > 0 ||
		!r.v.Caps.Has(impls.CapReuseLIFO) || !r.p.Sequential() {
		return
	}
	b := r.snap.SlabOf(uint64(r.m.PageSize), ev.Addr)
	if b == nil {
		return
	}
	next := r.snap.Caches[b.Cache].FullLists && !r.partials(b)
	stays := r.m.CPUs == 1 || r.pinned() // else it may allocate elsewhere and be back in time
	for _, p := range b.On {
		next = next || stays && p.Kind == impls.OnCPU && p.CPU == c.CPUID()
	}
	if a := r.arrayOf(b.Cache, c.CPUID()); a != nil && a.Limit > 0 {
		next = r.pinned()
	}
	if next {
		r.reuse = reuse{cache: ev.Cache, cpu: uint8(c.CPUID()), addr: ev.Addr}
	}
}

// partials says whether the cache of b has another slab with some objects free and
// some in use.
func (r *Runner) partials(b *impls.SlabState) bool {
	for i := range r.snap.Slabs {
		o := &r.snap.Slabs[i]
		if o.Cache == b.Cache && o.Page != b.Page && len(o.Free) > 0 && len(o.Free) < o.Objects {
			return true
		}
	}
	return false
}

// ofPages is the owner of what pages were bound to.
const ofPages = -2

// paged checks the page layer's free pages, and where nothing but pages is handed out
// that every page is either free or live.
func (r *Runner) paged() {
	s := &r.snap
	if s.TopOrder == 0 {
		return
	}
	free, live := r.shape.pages.Free(s, r.broken), 0
	for i := range r.exec.Slots() {
		if s := r.exec.Slot(i); s.State == play.Live {
			live += r.block(&s)
		}
	}
	for i := range r.orphans {
		live += r.block(&r.orphans[i])
	}
	for _, b := range s.Waiting {
		r.shape.pages.Live(b.Page, 1<<b.Order, r.broken) // readers may look at it
	}
	if r.v.Caps&(impls.CapObjects|impls.CapSizes) == 0 && free+live != s.PagesTotal {
		r.broken(fault.PagesLeaked, "%d pages, %d free and %d live", s.PagesTotal, free, live)
	}
}

// block checks a block of pages that the program has and returns how many there are, 0
// when s is something else.
func (r *Runner) block(s *play.Slot) int {
	if s.Owner() != ofPages || s.Addr < r.m.Base {
		return 0
	}
	n := int(s.Size / uint64(r.m.PageSize))
	r.shape.pages.Live(int((s.Addr-r.m.Base)/uint64(r.m.PageSize)), n, r.broken)
	return n
}

// turnedDown holds a refused request for pages against the snapshot taken since.
func (r *Runner) turnedDown(c *machine.Ctx, ev *impls.Event) {
	n := ev.Size / uint64(r.m.PageSize)
	if ev.Code == impls.OpPages && ev.Outcome == impls.NoMem && r.p.Sequential() &&
		c.Injected() == 0 && n > 0 {
		cpu := -1 // may have been moved since
		if r.pinned() {
			cpu = c.CPUID()
		}
		pages.Refused(&r.snap, bits.Len64(n)-1, cpu, r.broken)
	}
}

// promisedPage says what reuse=lifo promises after a single page was given back to the
// pool of its CPU, from the snapshot taken since.
func (r *Runner) promisedPage(c *machine.Ctx, ev *impls.Event) {
	if ev.Code != impls.OpPagesFree || ev.Outcome != impls.OK || !r.p.Sequential() ||
		!r.pinned() || ev.Size != uint64(r.m.PageSize) || !r.v.Caps.Has(impls.CapReuseLIFO) {
		return
	}
	if pages.Next(&r.snap, c.CPUID(), int((ev.Addr-r.m.Base)/ev.Size)) {
		r.reuse = reuse{cache: ofPages, cpu: uint8(c.CPUID()), addr: ev.Addr}
	}
}

// reusedPage holds a request for a page against that promise.
func (r *Runner) reusedPage(u reuse, ev *impls.Event) {
	if u.cache == ofPages && ev.Code == impls.OpPages && ev.Outcome == impls.OK &&
		ev.Size == uint64(r.m.PageSize) && ev.CPU == u.cpu && ev.Addr != u.addr {
		r.broken(fault.ReuseOrder, "page %#x was freed last and %#x was handed out", u.addr,
			ev.Addr)
	}
}

// managed checks where the slabs are described that are described off them, and notes
// the objects that this takes: they are neither live, as the program sees it, nor free.
// The management may only come from a cache that keeps its own on its slabs, and must
// hold as many objects as the slab has.
func (r *Runner) managed() {
	clear(r.shape.own)
	for i := range r.snap.Caches {
		k := &r.snap.Caches[i]
		if !k.OffSlab {
			continue
		}
		if m := r.stateOf(k.Manager); m == nil || m.OffSlab {
			r.broken(fault.OffSlabLimit, "slabs of %s are described in objects of a cache that "+
				"does not describe its own slabs on them", k.Name)
		}
	}
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		if k := &r.snap.Caches[b.Cache]; k.OffSlab {
			r.described(b, k)
		}
	}
}

// stateOf finds the state of a cache; nil when it shows none.
func (r *Runner) stateOf(c impls.Cache) *impls.CacheState {
	for i := range r.snap.Caches {
		if c != nil && r.snap.Caches[i].Handle == c {
			return &r.snap.Caches[i]
		}
	}
	return nil
}

// described checks the object in which slab b is described, and notes it.
func (r *Runner) described(b *impls.SlabState, k *impls.CacheState) {
	if b.Objects > k.Limit {
		r.broken(fault.OffSlabLimit, "%s has %d objects, described off it, of at most %d",
			name(b, k), b.Objects, k.Limit)
	}
	in := r.snap.SlabOf(uint64(r.m.PageSize), b.Manager)
	if in == nil || !in.Holds(b.Manager, r.snap.Caches[in.Cache].Stride) ||
		r.snap.Caches[in.Cache].Handle != k.Manager {
		r.broken(fault.OutsideSlab, "%s is described at %#x", name(b, k), b.Manager)
		return
	}
	if size := r.snap.Caches[in.Cache].Size; uint64(b.Managed) > size {
		r.broken(fault.OffSlabLimit, "%s is described in %d bytes at %#x, where an object has %d",
			name(b, k), b.Managed, b.Manager, size)
	}
	if r.shape.own[b.Manager] {
		r.broken(fault.TwiceOut, "%#x, which describes the %s, describes another slab, too",
			b.Manager, name(b, k))
	}
	r.shape.own[b.Manager] = true
	if at, live := r.judge.live.Any(b.Manager, uint64(b.Managed)); live {
		r.broken(fault.Overlap, "%#x, which describes the %s, live from %#x", b.Manager,
			name(b, k), at)
	}
}
