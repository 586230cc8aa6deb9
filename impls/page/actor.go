package page

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// Actor is somebody else who uses pages, as the page cache does: it takes blocks
// from the page layer and writes into every word of their descriptors, which it
// shares with what the pages were used as before (source row S4d). It is the
// impls.Pages behind the operations on pages.
type Actor struct{ m *machine.Machine }

var _ impls.Pages = (*Actor)(nil)

// NewActor is the page cache of a machine.
func NewActor(m *machine.Machine) *Actor { return &Actor{m: m} }

// AllocPages takes a block of 1<<order pages and writes over its descriptors; 0
// when there is none. It sleeps where c may, unless f forbids it.
func (a *Actor) AllocPages(c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr {
	p := c.AllocPages(order, f.Waits(c))
	if p == nil {
		return 0
	}
	for i := 0; i < 1<<order; i++ {
		q := a.m.PageAt(p.PFN() + i)
		q.SetView(machine.RegionLinks, machine.ViewPageCache, machine.Guard{})
		q.SetView(machine.RegionBody, machine.ViewPageCache, machine.Guard{})
		q.Scribble(a.foreign(q))
	}
	if f&impls.FlagZero != 0 {
		clear(a.m.MemBytes(p.Addr(), int(p.Bytes())))
	}
	return p.Addr()
}

// foreign is what the page cache keeps in a descriptor: it looks like a pointer
// into somebody else's memory.
func (a *Actor) foreign(p *machine.Page) uint64 {
	v := uint64(0xffff_8880_5a5a_0000) + uint64(p.PFN())<<6
	return v & (1<<uint(a.m.Word) - 1)
}

// FreePages gives a block back. An address that starts no block of the page
// cache is a finding and changes nothing.
func (a *Actor) FreePages(c *machine.Ctx, at impls.Addr) {
	p := a.m.PageOf(at)
	switch {
	case p == nil:
		c.Fault(fault.WildAddress, "pages freed at %#x, outside the arena", at)
	case p.Addr() != at || p.CurrentView(machine.RegionBody) != machine.ViewPageCache:
		c.Fault(fault.StaleView, "pages freed at %#x, which is used as %s", at,
			p.CurrentView(machine.RegionBody))
	default:
		c.FreePages(p)
	}
}

// Drain gives back pages that the page layer holds for one CPU.
func (a *Actor) Drain(c *machine.Ctx) { a.m.PageLayer().Drain(c) }
