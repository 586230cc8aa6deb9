// Package pages holds what a page layer shows of its free pages against the rules: every
// page in one place, none of them live, blocks at multiples of their size and joined as far
// as they can be, pools within their limit and empty after a drain, and no request turned
// down that could have been met.
package pages

import (
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// Raise tells that a rule was broken.
type Raise func(t fault.Title, format string, args ...any)

// What a page is: a byte for each. In the first page of a free block inZone is added to
// its order and 1.
const (
	inZone uint8 = 0x40 // of a free block
	inPool uint8 = 0x80 // in the pool of a CPU
)

// A Checker knows which pages are free. The zero value is ready for use.
type Checker struct{ page []uint8 }

// Free checks the free pages of a snapshot that shows them and returns how many there are.
func (k *Checker) Free(s *impls.Snapshot, raise Raise) int {
	k.page = slices.Grow(k.page[:0], s.PagesTotal)[:s.PagesTotal]
	clear(k.page)
	free := 0
	for _, b := range s.Blocks {
		k.block(b, raise)
		free += 1 << b.Order
	}
	for i := range s.Pools {
		k.pool(&s.Pools[i], raise)
		free += len(s.Pools[i].Pages)
	}
	for _, b := range s.Blocks {
		buddy := b.Page ^ 1<<b.Order
		if b.Page >= 0 && b.Page < buddy && buddy < s.PagesTotal && b.Order < s.TopOrder &&
			k.page[buddy] == inZone+uint8(b.Order)+1 {
			raise(fault.BuddiesApart, "pages %d and %d begin free blocks of order %d", b.Page,
				buddy, b.Order)
		}
	}
	return free
}

// block notes a free block of the zone.
func (k *Checker) block(b impls.Block, raise Raise) {
	if b.Page&(1<<b.Order-1) != 0 {
		raise(fault.Misaligned, "a free block of order %d begins at page %d", b.Order, b.Page)
	}
	for i := b.Page; i < b.Page+1<<b.Order; i++ {
		k.free(i, inZone, raise)
	}
	if b.Page >= 0 && b.Page < len(k.page) {
		k.page[b.Page] = inZone + uint8(b.Order) + 1
	}
}

// pool notes the pages of a pool.
func (k *Checker) pool(p *impls.Pool, raise Raise) {
	for _, page := range p.Pages {
		k.free(page, inPool, raise)
	}
	if len(p.Pages) > p.Max {
		raise(fault.PoolLimit, "%d pages in the pool of CPU %d, which may hold %d", len(p.Pages),
			p.CPU, p.Max)
	}
}

func (k *Checker) free(page int, where uint8, raise Raise) {
	switch {
	case page < 0 || page >= len(k.page):
		raise(fault.OutsideArena, "page %d is free, of %d", page, len(k.page))
	case k.page[page] != 0:
		raise(fault.FreeTwice, "page %d", page)
	default:
		k.page[page] = where
	}
}

// Live looks for the pages of a live block among those that the last Free saw.
func (k *Checker) Live(first, n int, raise Raise) {
	for i := first; i < min(first+n, len(k.page)); i++ {
		if k.page[i] != 0 {
			raise(fault.LiveOnFreelist, "page %d is free, and of the live block at page %d", i,
				first)
			return
		}
	}
}

// PoolOf is the pool of a CPU, nil when s shows none.
func PoolOf(s *impls.Snapshot, cpu int) *impls.Pool {
	for i := range s.Pools {
		if s.Pools[i].CPU == cpu {
			return &s.Pools[i]
		}
	}
	return nil
}

// Refused holds a request of a CPU that was turned down, though no failure was injected,
// against the snapshot taken since: a free block that is large enough, or a page of the
// CPU's pool that need not be kept, should have been handed out.
func Refused(s *impls.Snapshot, order, cpu int, raise Raise) {
	for _, b := range s.Blocks {
		if b.Order >= order {
			raise(fault.RefusedNoReason, "a block of order %d, and one of order %d at page %d is "+
				"free", order, b.Order, b.Page)
			return
		}
	}
	if p := PoolOf(s, cpu); order == 0 && p != nil && len(p.Pages) > p.Keep {
		raise(fault.RefusedNoReason, "a page, and %d are in the pool of CPU %d", len(p.Pages), cpu)
	}
}

// Drained looks for pages that a drain should have given to everybody.
func Drained(s *impls.Snapshot, raise Raise) {
	for i := range s.Pools {
		if p := &s.Pools[i]; len(p.Pages) > 0 {
			raise(fault.PagesLeaked, "%d pages are in the pool of CPU %d after a drain",
				len(p.Pages), p.CPU)
		}
	}
}

// Released looks for pages of a CPU that is out of use.
func Released(s *impls.Snapshot, cpu int, raise Raise) {
	if p := PoolOf(s, cpu); p != nil && len(p.Pages) > 0 {
		raise(fault.HeldOn, "%d pages are in the pool of CPU %d", len(p.Pages), cpu)
	}
}

// Next says whether a page that a CPU just gave back is what its next request for one page
// gets: it went to the pool, and that need not keep it.
func Next(s *impls.Snapshot, cpu, page int) bool {
	p := PoolOf(s, cpu)
	return p != nil && len(p.Pages) > p.Keep && slices.Contains(p.Pages, page)
}
