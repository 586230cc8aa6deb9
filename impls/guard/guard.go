package guard

import (
	"runtime"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
)

// Options say how an allocator is guarded. The zero value is good.
type Options struct {
	// Flags are the debug options of what names none itself: of memory by size, and
	// of caches without words of their own. 0 is debugcheck.Default, all of FZPU.
	Flags debugcheck.Flags
	// Align is what every address of the allocator behind is a multiple of, so that
	// those of the guard are too: a power of two, 0 when nothing is promised.
	Align uint64
	// Count and Bytes limit the quarantine: the objects in it and what they take with
	// everything around them. 0 is CountUsual and BytesUsual; a Count below 0 is no
	// quarantine at all. One object that is above Bytes does not go there.
	Count int
	Bytes uint64
	// Stacks keeps the Go stack of each allocation and free (with option U) for
	// reports, at about 600 ns each.
	Stacks bool
}

// Limits of a quarantine that nobody chose.
const (
	CountUsual = 256
	BytesUsual = 1 << 20
)

// bySize is the name of what is not of a cache, in reports and in the boot parameter.
const bySize = "malloc"

// commonAlign is the alignment that is taken for granted, as kmalloc.Caches does.
const commonAlign = 8

// An Allocator is an allocator behind red zones and a quarantine.
type Allocator struct {
	inner impls.Allocator
	mem   impls.Viewer
	opt   Options
	boot  impls.Boot
	least uint64           // up to which alignment inner is asked by Malloc
	flags debugcheck.Flags // of memory by size
	sizes map[sizeKey]*cache
	last  sizeKey // that was asked for, and its cache
	same  *cache
	any   *cache // stands for memory by size of whatever size

	lock  machine.ThreadLock // guards what follows and every object
	table map[impls.Addr]*object
	live  list // in the order of their allocation
	kept  list // in quarantine, in the order of their frees
	bytes uint64
	spare *object // records without an object
	found *object // the last that was searched for

	check debugcheck.Checker
	slot  slot            // what check looks at
	slab  debugcheck.Slab // likewise
	c     *machine.Ctx    // who holds lock
}

var (
	_ impls.Allocator    = (*Allocator)(nil)
	_ impls.Owner        = (*Allocator)(nil)
	_ kmalloc.MinAligner = (*Allocator)(nil)
)

// New guards inner, whose memory is mem. An alignment in opt that is no power of two
// is a fault of the caller: it panics.
func New(inner impls.Allocator, mem impls.Viewer, opt Options) *Allocator {
	return newAllocator(inner, mem, opt, nil)
}

// newAllocator is New with the boot parameters of a machine, nil for none.
func newAllocator(inner impls.Allocator, mem impls.Viewer, opt Options,
	m *machine.Machine) *Allocator {
	if opt.Flags == 0 {
		opt.Flags = debugcheck.Default
	}
	if opt.Count == 0 {
		opt.Count = CountUsual
	}
	opt.Count = max(opt.Count, 0)
	if opt.Bytes == 0 {
		opt.Bytes = BytesUsual
	}
	g := &Allocator{inner: inner, mem: mem, opt: opt, least: commonAlign,
		boot:  impls.BootOf(m, debugcheck.Guard),
		sizes: map[sizeKey]*cache{}, table: map[impls.Addr]*object{}}
	if m, ok := inner.(kmalloc.MinAligner); ok {
		g.least = m.MinAlign()
	}
	g.boot.Usual = opt.Flags
	g.flags, _ = g.boot.For(bySize, 0)
	k, err := g.newCache(debugcheck.Spec{Name: bySize, Size: 1, Flags: g.flags}, 0)
	if err != nil {
		panic("allocfuzz: guard: " + err.Error())
	}
	g.any = k
	g.check.Mem, g.check.Out = &g.slot, g.report
	return g
}

// MinAlign is the alignment up to which the allocator behind needs no Memalign.
func (g *Allocator) MinAlign() uint64 { return g.least }

// Malloc returns size bytes; for size 0 an address of its own with one byte.
func (g *Allocator) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	return g.take(c, g.sized(c, size, 0), f)
}

// Memalign is Malloc at a multiple of align, zeroed on request.
func (g *Allocator) Memalign(c *machine.Ctx, align, size uint64, f impls.AllocFlags) impls.Addr {
	return g.take(c, g.sized(c, size, align), f)
}

// take is an allocation of cache k; nil stands for sizes that nothing can meet.
func (g *Allocator) take(c *machine.Ctx, k *cache, f impls.AllocFlags) impls.Addr {
	if k == nil {
		c.NoteRefusal()
		return 0
	}
	refused := c.Refused()
	block := g.ask(c, k, f)
	if block == 0 && c.Refused() > refused && g.release(c, nil) > 0 {
		block = g.ask(c, k, f)
	}
	if block == 0 {
		return 0
	}
	g.enter(c)
	defer g.leave(c)
	o := g.place(k, block, f&impls.FlagZero != 0)
	if g.opt.Stacks {
		runtime.Callers(allocSkip, o.stack(debugcheck.AllocTrack))
	}
	return o.addr
}

// ask gets a block from the allocator behind.
func (g *Allocator) ask(c *machine.Ctx, k *cache, f impls.AllocFlags) impls.Addr {
	l := &k.layout
	if k.align <= g.least {
		return g.inner.Malloc(c, l.Stride, f&^impls.FlagZero)
	}
	return g.inner.Memalign(c, l.Align, l.Stride, f&^impls.FlagZero)
}

// place makes an object of a block. A block that is somebody's already was handed out
// twice: its object is looked at as it is then, and forgotten.
func (g *Allocator) place(k *cache, block impls.Addr, zero bool) *object {
	o := g.record(k, block)
	if twice := g.table[o.addr]; twice != nil {
		g.paint(o)
		g.look(twice)
		g.check.Validate(&g.slab)
		g.forget(twice)
	}
	g.table[o.addr] = o
	g.live.push(o)
	k.live++
	g.paint(o)
	g.track(debugcheck.AllocTrack, o)
	switch {
	case k.layout.Ctor: // whatever the quarantine did to it
		impls.CtorPattern.Fill(g.slot.Bytes(debugcheck.Object, o.addr, k.layout.Size))
	case zero:
		clear(g.slot.Bytes(debugcheck.Object, o.addr, k.layout.Size))
	}
	return o
}

// paint writes what lies around a new object and in it.
func (g *Allocator) paint(o *object) {
	g.look(o)
	g.check.SetUp(&g.slab)
	g.check.Activate(o.addr, o.cache.layout.Size)
}

// Free takes p back; 0 is allowed.
func (g *Allocator) Free(c *machine.Ctx, p impls.Addr) { g.free(c, p, nil) }

// free is Free by way of cache from, nil when it is by size.
func (g *Allocator) free(c *machine.Ctx, p impls.Addr, from *cache) {
	if p == 0 {
		return
	}
	for block := g.retire(c, p, from); block != 0; block = g.oldest(c) {
		g.inner.Free(c, block)
	}
}

// retire puts the object at p into quarantine if it may be freed, and returns the
// block that can go back to the allocator behind for it, 0 for none.
func (g *Allocator) retire(c *machine.Ctx, p impls.Addr, from *cache) impls.Addr {
	g.enter(c)
	defer g.leave(c)
	o := g.table[p]
	if o == nil || o.free {
		g.stray(p, o, from)
		return 0
	}
	k := o.cache
	g.look(o)
	if from != nil && from != k && from.layout.Flags.Has(debugcheck.Sanity) {
		g.check.WrongCache(from.layout.Name, p)
	}
	if !g.check.FreeOne(&g.slab, p) {
		return 0
	}
	g.track(debugcheck.FreeTrack, o)
	if g.opt.Stacks {
		runtime.Callers(freeSkip, o.stack(debugcheck.FreeTrack))
	}
	g.check.Deactivate(p)
	if !k.debugged() || k.layout.Stride > g.opt.Bytes {
		return g.drop(o)
	}
	g.keep(o)
	return g.excess()
}

// Realloc moves p to size bytes, also to fewer: the old place goes to the quarantine.
// What it adds is zero with FlagZero.
func (g *Allocator) Realloc(c *machine.Ctx, p impls.Addr, size uint64,
	f impls.AllocFlags) impls.Addr {
	if p == 0 {
		return g.Malloc(c, size, f)
	}
	k := g.liveCache(c, p)
	if k == nil {
		return 0
	}
	to := g.sized(c, size, 0)
	q := g.take(c, to, f)
	if q == 0 {
		return 0
	}
	n := min(size, k.layout.Size)
	if old, b := g.contents(k, p), g.contents(to, q); old != nil && b != nil {
		copy(b[:n], old[:n])
	}
	g.free(c, p, nil)
	return q
}

// liveCache is the cache of the live object at p; any other address is reported, as
// its free is, and has none.
func (g *Allocator) liveCache(c *machine.Ctx, p impls.Addr) *cache {
	g.enter(c)
	defer g.leave(c)
	o := g.table[p]
	if o == nil || o.free {
		g.stray(p, o, nil)
		return nil
	}
	return o.cache
}

// contents are the bytes of the live object of k at p; nil when they are no memory.
func (g *Allocator) contents(k *cache, p impls.Addr) []byte {
	l := &k.layout
	b := g.mem.View(p-l.Pad, l.Stride)
	if b == nil {
		return nil
	}
	return b[l.Pad : l.Pad+l.Size]
}

// Usable is the size that was asked for, 1 where that was 0: what lies behind is red
// zone. It is 0 for what is no live object.
func (g *Allocator) Usable(c *machine.Ctx, p impls.Addr) uint64 {
	g.enter(c)
	defer g.leave(c)
	o := g.table[p]
	if o == nil || o.free {
		return 0
	}
	return o.cache.layout.Size
}

// Validate checks every object that is live or in quarantine and has debug options,
// and returns how many there were.
func (g *Allocator) Validate(c *machine.Ctx) int { return g.validate(c, nil) }

// validate is Validate of the objects of one cache, nil for all.
func (g *Allocator) validate(c *machine.Ctx, k *cache) int {
	g.enter(c)
	defer g.leave(c)
	n := 0
	for _, l := range [...]*list{&g.live, &g.kept} {
		for o := l.first; o != nil; o = o.next {
			if !o.cache.debugged() || k != nil && o.cache != k {
				continue
			}
			g.look(o)
			g.check.Validate(&g.slab)
			n++
		}
	}
	return n
}
