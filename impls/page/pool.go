package page

import (
	"strconv"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// PoolMax is the largest number of pages that a CPU's pool may hold, however large the
// memory is.
const PoolMax = 64

var (
	poolHead  = machine.PerCPU("cpu_pages", "head")
	poolCount = machine.PerCPU("cpu_pages", "count")
	poolNext  = machine.PageField(machine.Atomic("page", "pool_next"),
		machine.RegionLinks, machine.ViewPool, 0)
	zoneShort = machine.Racy("zone", "short",
		"read without the zone lock: a page that goes to the other place is free there, too")
)

// Pool is a Buddy, the zone, with a pool of single pages in front of it for each CPU: a
// machine.PageLayer (source row S1h). Interrupts off on its CPU are all that protects
// a pool, so a page that comes from one or goes to one needs no lock.
type Pool struct {
	m     *machine.Machine
	zone  *Buddy
	entry poolEntry
	cpus  []cpuPages
	max   uint64 // pages that a pool may hold
	low   uint64 // memory is short while the zone has fewer free pages
	short machine.Word
	told  bool // what short says; guarded by the zone lock
}

// A cpuPages is the pool of one CPU. Invariant POOL1: count is the length of the list.
type cpuPages struct {
	head  machine.Word // of the list, a link as those of the zone's lists
	count machine.Word
}

// A poolEntry is how an operation comes to the pool of its CPU with interrupts off.
type poolEntry interface {
	enter(c *machine.Ctx, p *Pool) (*cpuPages, machine.Flags)
}

// cpuFirst, as the pool was mailed in 2001: which CPU this is is asked while interrupts
// are still on.
// Cause: the kernel of the time could not be preempted, so a task kept its CPU and only
// handlers of the same CPU could come in between. They leave the answer right.
// Effect: none there. Where a task can be preempted it may go on upon another CPU, turn
// interrupts off there, and change the list of the first CPU while its owner does.
// Fix: irqFirst.
type cpuFirst struct{}

func (cpuFirst) enter(c *machine.Ctx, p *Pool) (*cpuPages, machine.Flags) {
	q := &p.cpus[c.CPUID()]
	return q, c.IRQSave()
}

// irqFirst turns interrupts off and then asks which CPU this is: the task cannot leave
// it any more. The same instructions in the other order, and right on every machine.
type irqFirst struct{}

func (irqFirst) enter(c *machine.Ctx, p *Pool) (*cpuPages, machine.Flags) {
	flags := c.IRQSave()
	return &p.cpus[c.CPUID()], flags
}

// NewPool builds the page allocator of m with empty pools and every page free.
func NewPool(m *machine.Machine) *Pool { return newPool(m, irqFirst{}) }

func newPool(m *machine.Machine, entry poolEntry) *Pool {
	p := &Pool{m: m, zone: New(m), entry: entry, cpus: make([]cpuPages, m.CPUs),
		max: poolMax(m.Pages, m.CPUs), low: uint64(max(1, m.Pages/32))}
	for i := range p.cpus {
		p.cpus[i].head.Init(poolHead, i, 0)
		p.cpus[i].count.Init(poolCount, i, 0)
	}
	p.short.Init(zoneShort, -1, 0)
	return p
}

// poolMax is how many pages a pool may hold: all pools together a 128th of the memory,
// but each at least one page and at most PoolMax.
func poolMax(pages, cpus int) uint64 { return uint64(min(max(pages/cpus/128, 1), PoolMax)) }

// keep is how many pages of a pool are left for those who cannot wait.
func (p *Pool) keep() uint64 { return p.max / 8 }

// Alloc returns the first page of a block of 1<<order pages, nil when there is none. A
// single page comes from the pool of this CPU, as long as that holds more than keep, or
// any at all where the request may use reserves. Anything else comes from the zone,
// which has no pages that are in pools.
func (p *Pool) Alloc(c *machine.Ctx, order int) *machine.Page {
	if order < 0 || order > MaxOrder {
		return nil
	}
	keep := p.keep()
	if c.MayUseReserves() {
		keep = 0
	}
	q, flags := p.entry.enter(c, p)
	var page *machine.Page
	if order == 0 && q.count.Load(c) > keep {
		page = p.pop(c, q)
	} else {
		p.zone.lock.Lock(c)
		page = p.zone.take(c, order)
		p.tell(c)
		p.zone.lock.Unlock(c)
	}
	c.IRQRestore(flags)
	return page
}

// Free takes a block back: a single page into the pool of this CPU, unless that is full
// or memory is short, anything else into the zone. What is a wrong free for Buddy is one
// here, and so is that of a page that is in a pool.
func (p *Pool) Free(c *machine.Ctx, page *machine.Page, order int) {
	q, flags := p.entry.enter(c, p)
	switch {
	case page.CurrentView(machine.RegionLinks) == machine.ViewPool:
		c.Fault(fault.StaleView, "page %d freed with order %d: it is in a pool", page.PFN(), order)
	case order == 0 && p.zone.blocks[page.PFN()] == given && p.wants(c, q):
		p.push(c, q, page)
	default:
		p.zone.lock.Lock(c)
		p.zone.give(c, page, order)
		p.tell(c)
		p.zone.lock.Unlock(c)
	}
	c.IRQRestore(flags)
}

// wants says whether a free page should go to pool q.
func (p *Pool) wants(c *machine.Ctx, q *cpuPages) bool {
	return q.count.Load(c) < p.max && p.short.Load(c) == 0
}

// tell says aloud whether memory is short, when that has changed. Holds the zone lock.
func (p *Pool) tell(c *machine.Ctx) {
	short := p.zone.free.Load(c) < p.low
	if short == p.told {
		return
	}
	p.told = short
	v := uint64(0)
	if short {
		v = 1
	}
	p.short.Store(c, v)
}

// push puts a page at the head of pool q. Interrupts off on its CPU.
func (p *Pool) push(c *machine.Ctx, q *cpuPages, page *machine.Page) {
	page.SetView(machine.RegionLinks, machine.ViewPool, machine.Guard{})
	page.SetView(machine.RegionBody, machine.ViewPool, machine.Guard{})
	poolNext.Store(c, page, q.head.Load(c))
	q.head.Store(c, link(page))
	q.count.Add(c, 1)
}

// pop takes the page at the head of pool q, which counts at least one. When there is none
// the run ends. Interrupts off on its CPU.
func (p *Pool) pop(c *machine.Ctx, q *cpuPages) *machine.Page {
	head := q.head.Load(c)
	if head == 0 || head > uint64(p.m.Pages) {
		c.Die(fault.WildAddress, "the pool counts a page, and its list leads to %#x, which is no "+
			"link to one", head)
	}
	page := p.m.PageAt(int(head - 1))
	q.head.Store(c, poolNext.Load(c, page))
	q.count.Add(c, ^uint64(0))
	p.zone.setViews(page, 0, machine.ViewNone)
	return page
}

// Drain gives the pages of every pool to the zone, each CPU its own. Where calls to other
// CPUs are forbidden it is only the pool of this CPU.
func (p *Pool) Drain(c *machine.Ctx) {
	if !c.MayBlock() {
		c.CallOn(c.CPUID(), p.flush)
		return
	}
	for cpu := range p.cpus {
		c.Progress()
		p.DrainCPU(c, cpu)
	}
}

// DrainCPU gives the pages of one CPU's pool to the zone: that CPU goes out of use. Only
// where calls to other CPUs are allowed.
func (p *Pool) DrainCPU(c *machine.Ctx, cpu int) { c.CallOn(cpu, p.flush) }

// flush empties the pool of this CPU. Interrupts off.
func (p *Pool) flush(c *machine.Ctx) {
	q := &p.cpus[c.CPUID()]
	if q.count.Load(c) == 0 {
		return
	}
	p.zone.lock.Lock(c)
	for q.count.Load(c) > 0 {
		p.zone.give(c, p.pop(c, q), 0)
	}
	p.tell(c)
	p.zone.lock.Unlock(c)
}

// FreePages is the number of free pages, those in pools among them. Call it at quiet
// points.
func (p *Pool) FreePages() int {
	n := p.zone.FreePages()
	for i := range p.cpus {
		n += int(p.cpus[i].count.Peek())
	}
	return n
}

// Snapshot adds to s what that of Buddy does, with the pages in pools among the free ones,
// the pools, and their counts beside what a walk of their lists counts.
func (p *Pool) Snapshot(s *impls.Snapshot) {
	p.zone.Snapshot(s)
	s.PagesFree = p.FreePages()
	for i := range p.cpus {
		q := &p.cpus[i]
		o := s.AddPool(i)
		o.Keep, o.Max = int(p.keep()), int(p.max)
		p.walk(o, q.head.Peek())
		s.Counts = append(s.Counts, impls.Count{
			Name:   poolCount.Name() + " of CPU " + strconv.Itoa(i),
			Stored: int(q.count.Peek()), Counted: len(o.Pages)})
	}
}

// walk adds the pages of a pool's list to o, as far as its links make sense.
func (p *Pool) walk(o *impls.Pool, at uint64) {
	for at != 0 && at <= uint64(p.m.Pages) && len(o.Pages) < p.m.Pages {
		page := p.m.PageAt(int(at - 1))
		o.Pages = append(o.Pages, page.PFN())
		at = poolNext.Peek(page)
	}
}
