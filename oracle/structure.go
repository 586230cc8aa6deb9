package oracle

import (
	"strconv"

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
func (r *Runner) between(c *machine.Ctx, ev *impls.Event) {
	r.reused(ev)
	if r.rest > 0 {
		r.rest--
		return
	}
	if r.native || !r.m.Sim().Quiet(c) {
		return
	}
	r.structure(c)
	r.promised(c, ev)
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
			r.broken(fault.CountWrong, "%s is stored as %d and counts %d", k.Name, k.Stored,
				k.Counted)
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
	for i := 0; whole && i < len(b.On); i++ {
		r.fullness(b, k, b.On[i])
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
		r.broken(fault.ListOrder, "%s has %d of %d objects free and is on list %d", name(b, k),
			free,
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

// reuse is what a subject that promises reuse=lifo must hand out next.
type reuse struct {
	cache int32 // slot of the cache, -1 while nothing is promised
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
	if u.cache >= 0 && ev.Code == impls.OpAlloc && ev.Outcome == impls.OK && ev.Cache == u.cache &&
		ev.CPU == u.cpu && ev.Addr != u.addr {
		r.broken(fault.ReuseOrder, "%#x was freed last and %#x was handed out", u.addr, ev.Addr)
	}
}

// promised says what reuse=lifo promises after a free, from the snapshot taken
// since: the object itself, where its slab is the CPU's or the cache keeps lists
// of all slabs and no other is partial.
func (r *Runner) promised(c *machine.Ctx, ev *impls.Event) {
	if !play.Frees(ev.Code) || ev.Outcome != impls.OK || ev.Cache < 0 ||
		!r.v.Caps.Has(impls.CapReuseLIFO) || !r.p.Sequential() {
		return
	}
	b := r.snap.SlabOf(uint64(r.m.PageSize), ev.Addr)
	if b == nil {
		return
	}
	next := r.snap.Caches[b.Cache].FullLists && !r.partials(b)
	for _, p := range b.On {
		next = next || p.Kind == impls.OnCPU && p.CPU == c.CPUID()
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

func itoa(n int) string { return strconv.Itoa(n) }

// epilogue frees everything that is left, destroys every cache, drains, and then
// demands every page back: by the page layer's own figure, and for small arenas
// by taking them all.
func (r *Runner) epilogue() {
	if r.end == nil {
		r.end = &ending{r: r}
		r.end.body = r.end.run
	}
	e := r.end
	e.line, e.skipped, e.taken = r.base+len(r.lines), false, 0
	if r.native {
		c := r.m.NativeCtx(0, "end")
		e.run(c)
		c.Release()
	} else {
		r.m.AddTask("end", 0, e.line, true, e.body)
		r.panicked(r.m.Sim().Run(nil))
	}
	if r.res.Aborted || r.m.Sim() != nil && r.m.Sim().Aborted() {
		r.res.Aborted = true
		return
	}
	if !e.skipped {
		r.returned(e)
	}
}

// ending is the task that runs after the program's.
type ending struct {
	r       *Runner
	line    int
	skipped bool // something could not be freed, so nothing is demanded
	taken   int  // pages that could be had at the end
	ev      impls.Event
	op      impls.Op
	step    play.Step
	got     []*machine.Page
	body    func(*machine.Ctx)
}

const takeMax = 64

func (e *ending) run(c *machine.Ctx) {
	r := e.r
	e.slots(c)
	if len(r.orphans) > 0 && r.exec.Slots() > 0 {
		for _, s := range r.orphans {
			r.exec.Adopt(0, s)
			e.free(c, 0)
		}
	}
	for i := range r.p.Stores {
		if r.exec.Cache(i) != nil && r.v.Caps.Has(impls.CapDestroy) {
			e.do(c, impls.Op{Code: impls.OpDestroy, Cache: int32(i), Slot: -1, Result: -1})
			if e.ev.Outcome == impls.Refused && !e.skipped {
				r.judge.fault(fault.OutcomesDiffer,
					"destroy of %s refused, though every object was freed",
					r.p.Stores[i])
				e.skipped = true
			}
		}
	}
	e.do(c, impls.Op{Code: impls.OpDrain, Cache: -1, Slot: -1, Result: -1})
	if r.m.PageLayer() != nil && r.m.Pages <= takeMax && !e.skipped {
		e.take(c)
	}
	c.BeginLine(e.line, [2]int32{})
	c.EndLine(machine.After)
}

func (e *ending) slots(c *machine.Ctx) {
	for i := range e.r.exec.Slots() {
		if e.r.exec.Slot(i).State == play.Live {
			e.free(c, i)
		}
	}
}

func (e *ending) free(c *machine.Ctx, i int) {
	owner := e.r.exec.Slot(i)
	op := impls.Op{Code: impls.OpFree, Cache: owner.Owner(), Slot: int32(i), Result: -1}
	if op.Cache < -1 {
		op.Code, op.Cache = impls.OpPagesFree, -1
	}
	e.do(c, op)
	if e.ev.Outcome != impls.OK {
		e.skipped = true
	}
}

func (e *ending) do(c *machine.Ctx, op impls.Op) {
	r := e.r
	e.op = op
	c.BeginLine(e.line, [2]int32{})
	r.judge.ctx = c
	e.ev = impls.Event{Op: -1}
	if r.exec.Begin(c, &e.op, &e.ev, &e.step) {
		if play.Frees(op.Code) {
			r.judge.event(&e.ev)
		}
		r.exec.Call(c, &e.step)
		r.exec.End(c, &e.step)
	}
	c.EndLine(e.line)
}

// take allocates every page and gives them back.
func (e *ending) take(c *machine.Ctx) {
	c.BeginLine(e.line, [2]int32{})
	e.got = e.got[:0]
	for {
		p := c.AllocPages(0, false)
		if p == nil {
			break
		}
		e.got = append(e.got, p)
	}
	e.taken = len(e.got)
	for _, p := range e.got {
		c.FreePages(p)
	}
	c.EndLine(e.line)
}

// returned demands the pages back.
func (r *Runner) returned(e *ending) {
	r.snap.Reset()
	if !r.in.Snapshot(&r.snap) || r.m.PageLayer() == nil {
		return
	}
	kept := 0
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		kept += 1 << b.Order
		if r.snap.Caches[b.Cache].Dead {
			r.judge.fault(fault.PagesLeaked, "%s outlives its cache", name(b,
				&r.snap.Caches[b.Cache]))
			return
		}
	}
	free := r.m.PageLayer().FreePages()
	if free+kept != r.m.Pages {
		r.judge.fault(fault.PagesLeaked, "%d pages, %d free and %d in slabs after the end",
			r.m.Pages,
			free, kept)
		return
	}
	if r.m.Pages <= takeMax && e.taken != free {
		r.judge.fault(fault.PagesLeaked, "%d pages free, and %d could be had", free, e.taken)
	}
}
