package machine

import (
	"fmt"
	"sync/atomic"

	"allocfuzz/impls/fault"
)

// A View is what a region of a page descriptor is used as. Descriptors are
// unions, as struct page is: words written under one view are read as something
// else under another.
type View uint8

// The views.
const (
	ViewNone      View = iota // never given out
	ViewBuddy                 // free, in the page allocator's lists
	ViewSlab                  // body of a slab: freelist and counts
	ViewList                  // links of a slab on a list of its node or cache
	ViewPartial               // links of a slab on a per-CPU partial list
	ViewPageCache             // somebody else's: the page-cache actor
	ViewLarge                 // an allocation of whole pages
	ViewPool                  // free, in the page layer's list of one CPU
)

var viewNames = [...]string{"nothing", "buddy", "slab", "list", "partial", "page cache", "large",
	"pool"}

// String names the view.
func (v View) String() string { return nameOf(viewNames[:], int(v)) }

// A Region is a part of a descriptor whose words change their meaning together.
type Region uint8

// The two regions, of pageWords words each.
const (
	RegionLinks Region = iota // list links, or a per-CPU partial list's link and counts
	RegionBody                // freelist, counts, owner
	nRegions
)

const pageWords = 4

// A Page is a page descriptor. A block of pages is described by its first one;
// Head finds it.
type Page struct {
	Lock  SpinLock // the slab lock: a bit of the descriptor in the kernel
	Tag   any      // the cache of a slab; set before its first object is handed out
	m     *Machine
	pfn   int
	head  int
	order int8
	used  bool
	view  [nRegions]View
	guard [nRegions]Guard
	w     [nRegions][pageWords]uint64
}

// slabLock is the lock that each descriptor carries. It ranks below list locks.
var slabLock = Atomic("slab", "lock")

// RankSlabLock is the rank of Page.Lock, for the ranks of other locks.
const RankSlabLock = 100

func (p *Page) init(m *Machine, pfn int) {
	p.m, p.pfn, p.head = m, pfn, pfn
	p.Lock.Init(slabLock, RankSlabLock)
	p.Lock.object = mix(p.Lock.object, uint64(pfn)+1)
}

func (p *Page) use() {
	if !p.used {
		p.used = true
		if p.m.native == nil {
			p.m.usedN = append(p.m.usedN, p.pfn)
		}
	}
}

func (p *Page) reset() {
	p.used, p.Tag, p.head, p.order = false, nil, p.pfn, 0
	p.view, p.w, p.guard = [nRegions]View{}, [nRegions][pageWords]uint64{}, [nRegions]Guard{}
	p.Lock.reset()
}

// PFN is the page's number, from 0.
func (p *Page) PFN() int { return p.pfn }

// Addr is the address of the page's first byte.
func (p *Page) Addr() Addr { return p.m.Base + uint64(p.pfn)*uint64(p.m.PageSize) }

// Order is the order of the block that p is the first page of.
func (p *Page) Order() int { return int(p.order) }

// Bytes is the size of the block that p is the first page of.
func (p *Page) Bytes() uint64 { return uint64(p.m.PageSize) << uint(p.order) }

// SetBlock makes p the first page of a block of 1<<order pages, which must be
// pages of the arena.
func (p *Page) SetBlock(order int) {
	if order < 0 || order > 62 || 1<<order > len(p.m.pages)-p.pfn {
		panic(fmt.Sprintf("allocfuzz: page %d of %d cannot begin a block of order %d", p.pfn,
			len(p.m.pages), order))
	}
	for i := 0; i < 1<<order; i++ {
		q := &p.m.pages[p.pfn+i]
		q.use()
		q.head = p.pfn
	}
	p.order = int8(order)
}

// SetView says what a region is used as from now on and what guards it. The
// words keep their bits, as a union's do.
func (p *Page) SetView(r Region, v View, g Guard) {
	p.use()
	p.view[r], p.guard[r] = v, g
}

// CurrentView is what region r is used as.
func (p *Page) CurrentView(r Region) View { return p.view[r] }

// Scribble writes a value into every word of the descriptor, as somebody else's
// use of the page does.
func (p *Page) Scribble(v uint64) {
	p.use()
	if p.m.sim != nil {
		p.m.sim.note(v)
	}
	for r := range p.w {
		for i := range p.w[r] {
			atomic.StoreUint64(&p.w[r][i], v+uint64(r*pageWords+i))
		}
	}
}

// PageAt returns the descriptor of page number pfn, 0 … Pages-1.
func (m *Machine) PageAt(pfn int) *Page { return &m.pages[pfn] }

// PageOf returns the first page of the block that holds a, nil outside the arena.
func (m *Machine) PageOf(a Addr) *Page {
	if !m.Contains(a, 1) {
		return nil
	}
	return &m.pages[m.pages[(a-m.Base)>>m.shift].head]
}

// A PageWord is a word of every page descriptor under one view. Declare it as a
// package variable with its field.
type PageWord struct {
	f      *Field
	view   View
	region Region
	index  uint8
}

// PageField declares word index (0 … 3) of a region under a view, of any class but
// per-CPU and plain.
func PageField(f *Field, r Region, v View, index int) *PageWord {
	if index < 0 || index >= pageWords {
		panic("allocfuzz: machine: a page region has 4 words")
	}
	f.want(f.Class != ClassPerCPU, "a page has no CPU")
	f.want(f.Class != ClassPlain, "a page has no plain words")
	return &PageWord{f: f, view: v, region: r, index: uint8(index)}
}

// Peek reads without a check, for snapshots at quiet points.
func (w *PageWord) Peek(p *Page) uint64 { return atomic.LoadUint64(&p.w[w.region][w.index]) }

// Load reads the word: a guarded one is checked, any other is a point. Reading
// it while its view is not current is a finding.
func (w *PageWord) Load(c *Ctx, p *Page) uint64 {
	if c.sim != nil {
		w.access(c, p, KLoad, Reads)
		w.checkView(c, p)
		at := &p.w[w.region][w.index]
		if r := c.sim.races; r != nil {
			r.load(c, w.f, at)
		}
		v := c.seen(at, *at)
		c.sim.note(v)
		return v
	}
	if w.f.Class == ClassGuarded {
		return p.w[w.region][w.index]
	}
	return atomic.LoadUint64(&p.w[w.region][w.index])
}

// LoadStale reads the word and accepts whatever is there: a read that may
// legally see garbage, which the caller throws away.
func (w *PageWord) LoadStale(c *Ctx, p *Page) uint64 {
	if c.sim == nil {
		return atomic.LoadUint64(&p.w[w.region][w.index])
	}
	c.point(KLoad, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(p), Reads)
	}
	at := &p.w[w.region][w.index]
	v := c.seen(at, *at)
	c.sim.note(v)
	return v
}

// Store writes the word under the same rules as Load.
func (w *PageWord) Store(c *Ctx, p *Page, v uint64) {
	if c.sim != nil {
		w.simStore(c, p, v)
		return
	}
	p.use()
	if w.f.Class == ClassGuarded {
		p.w[w.region][w.index] = v
		return
	}
	atomic.StoreUint64(&p.w[w.region][w.index], v)
}

func (w *PageWord) simStore(c *Ctx, p *Page, v uint64) {
	at := &p.w[w.region][w.index]
	guarded := w.f.Class == ClassGuarded
	if guarded {
		p.guard[w.region].check(c, w.f)
	} else {
		c.plainPoint(KStore, w.f)
		if c.sim.watcher != nil {
			c.touch(w.object(p), Writes)
		}
	}
	w.checkView(c, p)
	c.sim.note(v)
	p.use()
	if guarded {
		c.through(at)
		*at = v
		return
	}
	if r := c.sim.races; r != nil {
		r.store(c, w.f, at, false)
	}
	c.write(w.f, at, v)
}

// Cmpxchg stores v when the word holds old, in one step for every CPU, under the
// same rules as Load.
func (w *PageWord) Cmpxchg(c *Ctx, p *Page, old, v uint64) bool {
	at := &p.w[w.region][w.index]
	if c.sim == nil {
		p.use()
		return atomic.CompareAndSwapUint64(at, old, v)
	}
	w.access(c, p, KCmpxchg, Writes)
	c.fence()
	w.checkView(c, p)
	c.sim.note(*at)
	if *at != old {
		if r := c.sim.races; r != nil {
			r.load(c, w.f, at)
		}
		return false
	}
	if r := c.sim.races; r != nil {
		r.exchange(c, w.f, at, false)
	}
	c.sim.note(v)
	p.use()
	*at = v
	return true
}

func (w *PageWord) access(c *Ctx, p *Page, k Kind, how AccessKind) {
	if w.f.Class == ClassGuarded {
		p.guard[w.region].check(c, w.f)
		return
	}
	c.point(k, w.f)
	if c.sim.watcher != nil {
		c.touch(w.object(p), how)
	}
}

func (w *PageWord) checkView(c *Ctx, p *Page) {
	if p.view[w.region] != w.view {
		c.Fault(fault.StaleView, "%s of page %d, which is used as %s", w.f.Name(), p.pfn,
			p.view[w.region])
	}
}

// AllocPages asks the page layer for a block of 1<<order pages; nil when there
// is none or a failure was injected. mayBlock says that the caller may sleep,
// which is a finding with interrupts off, preemption disabled, a read section open or in a
// handler.
func (c *Ctx) AllocPages(order int, mayBlock bool) *Page {
	if c.m.layer == nil {
		panic("allocfuzz: a page request on a machine without a page layer")
	}
	c.f.pageRequests++
	if c.sim != nil {
		if mayBlock && !c.MayBlock() {
			c.Fault(fault.Sleeping, "page allocation that may sleep with %s", c.whyNot())
		}
		c.point(KPageAlloc, zonePages)
	}
	fail := c.failNext || c.f.failAt != 0 && c.f.pageRequests == c.f.failAt
	c.failNext = false
	var p *Page
	if fail {
		c.f.injected++
	} else {
		c.f.reserves = !mayBlock
		p = c.m.layer.Alloc(c, order)
	}
	if p == nil {
		c.f.refused++
	}
	if c.sim != nil {
		c.sim.notePage(p)
	}
	return p
}

// FreePages gives back a block that AllocPages returned. With the lock of one of its pages
// held it is a finding: the next owner would find the lock taken, or see it taken away.
func (c *Ctx) FreePages(p *Page) {
	if c.sim != nil {
		c.checkUnlocked(p)
	}
	c.m.layer.Free(c, p, p.Order())
}

// checkUnlocked looks for a lock that is held in the block of p.
func (c *Ctx) checkUnlocked(p *Page) {
	for i := p.pfn; i < min(p.pfn+1<<p.order, len(c.m.pages)); i++ {
		if q := &c.m.pages[i]; q.Lock.Held() {
			c.Fault(fault.PageLocked, "page %d, by %s", q.pfn, q.Lock.owner.name)
		}
	}
}

// notePage folds the answer to a page request into the trace hash.
func (s *Sim) notePage(p *Page) {
	if p == nil {
		s.note(0)
		return
	}
	s.note(uint64(p.pfn) + 1)
}

var zonePages = Atomic("zone", "pages")
