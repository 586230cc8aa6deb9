package slub

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A checker checks slabs for one CPU. Whoever uses it has interrupts off, so that
// nobody else on the CPU does meanwhile.
type checker struct {
	debugcheck.Checker
	mem  slabMemory
	slab debugcheck.Slab // the slab in hand
}

// The fields of a slab's memory that checks reach, beside objectLink: under the list
// lock, and in a slab that nobody else knows under its slab lock.
var (
	redZone     = machine.Guarded("object", "redzone")
	poison      = machine.Guarded("object", "poison")
	origSize    = machine.Guarded("object", "size")
	freeTrack   = machine.Guarded("object", "free_track")
	slabPadding = machine.Guarded("slab", "padding")
	allocTrack  = machine.Racy("object", "track",
		"who allocated is written after the list lock is dropped, as in the kernel: only a report "+
			"reads it, and one that comes between names the owner before")
)

var regionFields = [debugcheck.Regions]*machine.Field{
	debugcheck.LeftRed: redZone, debugcheck.Object: poison, debugcheck.RightRed: redZone,
	debugcheck.FreePtr: objectLink, debugcheck.AllocTrack: allocTrack,
	debugcheck.FreeTrack: freeTrack, debugcheck.OrigSize: origSize,
	debugcheck.Padding: slabPadding, debugcheck.SlabPad: slabPadding,
}

// slabMemory is how a checker reaches memory: as a context that holds guard does or,
// for the one write that nothing guards, with a point.
type slabMemory struct {
	c     *machine.Ctx
	guard machine.Guard
	racy  bool
	link  uint64 // place of the free pointer
	base  uint64 // of the arena
	words uint64 // offset of its last word
	word  uint64 // bytes of a word
}

var _ debugcheck.Memory = (*slabMemory)(nil)

// Bytes returns n bytes at a, nil where there is no memory.
func (m *slabMemory) Bytes(r debugcheck.Region, a, n uint64) []byte {
	if r > debugcheck.SlabPad || n > m.words+m.word {
		return nil
	}
	if m.racy {
		return m.c.MemRacy(regionFields[r], a, int(n))
	}
	return m.c.MemGuarded(regionFields[r], m.guard, a, int(n))
}

// Link reads the free pointer of the object at a: the end mark where there is none.
func (m *slabMemory) Link(a uint64) uint64 {
	if !m.isWord(a + m.link) {
		return endMark
	}
	return m.c.LoadMemGuarded(objectLink, m.guard, a+m.link)
}

// SetLink writes it.
func (m *slabMemory) SetLink(a, link uint64) {
	if m.isWord(a + m.link) {
		m.c.StoreMemGuarded(objectLink, m.guard, a+m.link, link)
	}
}

// isWord says whether there is a word of memory at a.
func (m *slabMemory) isWord(a uint64) bool {
	return a-m.base <= m.words && a&(m.word-1) == 0
}

// found is told of every report.
func (m *slabMemory) found(r *debugcheck.Report) { impls.Tell(m.c, r) }

func (u *checker) init(k *Cache, l *debugcheck.Layout) {
	m := k.heap.m
	u.mem.link, u.mem.base, u.mem.word = k.link, m.Base, uint64(m.WordBytes())
	u.mem.words = m.Bytes() - u.mem.word
	u.Checker = debugcheck.Checker{Layout: l, Mem: &u.mem, Out: u.mem.found}
}

// checker is the checker of the CPU that c runs on, for what g guards. Interrupts off.
func (k *Cache) checker(c *machine.Ctx, g machine.Guard) *checker {
	u := &k.debug.checkers[c.CPUID()]
	u.mem.c, u.mem.guard = c, g
	return u
}

// load describes slab p to u as it is stored. Holds the slab lock of p.
func (k *Cache) load(c *machine.Ctx, u *checker, p *machine.Page) {
	k.handle(c, u, p)
	u.slab.Objects, u.slab.Inuse = int(slabObjects.Load(c, p)), int(slabInuse.Load(c, p))
	u.slab.Frozen, u.slab.Freelist = slabFrozen.Load(c, p) != 0, slabFreelist.Load(c, p)
}

// handle makes p the slab that u has in hand. Natively no guard is checked: its memory is
// looked up once.
func (k *Cache) handle(c *machine.Ctx, u *checker, p *machine.Page) {
	k.describe(p, &u.slab)
	if c.Native() && u.ViewAt != u.slab.Addr {
		u.ViewAt, u.View = u.slab.Addr, k.heap.m.MemBytes(u.slab.Addr, int(u.slab.Bytes))
	}
}

// describe fills in what does not change about slab p, and nothing else. A description
// that is copied as a whole right behind this makes the processor wait.
func (k *Cache) describe(p *machine.Page, s *debugcheck.Slab) {
	a := p.Addr()
	s.Page, s.Addr, s.Bytes, s.First = p.PFN(), a, p.Bytes(), a
	s.Max, s.Foreign = k.objects, p.Tag != any(k)
}

// save stores what u says about slab p. Holds the slab lock of p.
func (k *Cache) save(c *machine.Ctx, u *checker, p *machine.Page) {
	frozen := uint64(0)
	if u.slab.Frozen {
		frozen = 1
	}
	slabObjects.Store(c, p, uint64(u.slab.Objects)&objectsMax)
	slabInuse.Store(c, p, uint64(u.slab.Inuse)&inuseMax)
	slabFrozen.Store(c, p, frozen)
	slabFreelist.Store(c, p, u.slab.Freelist)
}

// inuseMax is the largest count of objects in use: a field of 16 bits.
const inuseMax = 1<<16 - 1

// reporter is a checker for reports about what k itself need not know anything of. k
// need not be debugged, and nothing need be held: it reaches no memory.
func (k *Cache) reporter(c *machine.Ctx) *checker {
	l := k.Layout()
	if l == nil {
		l = debugcheck.Bare(k.name, k.heap.boot.Rules)
	}
	u := &checker{}
	u.init(k, l)
	u.mem.c = c
	return u
}

// witness is a reporter that sees slab p of k where a is one of its objects: the tracks of
// an object are read without a lock for a report, as in the kernel, and without a point.
func (k *Cache) witness(c *machine.Ctx, p *machine.Page, a uint64) *checker {
	u := k.reporter(c)
	if k.debug != nil && k.holds(p, a) {
		u.ViewAt, u.View = p.Addr(), k.heap.m.MemView(p.Addr(), int(p.Bytes()))
	}
	return u
}
