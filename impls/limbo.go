package impls

import "allocfuzz/impls/machine"

// A Limbo holds the pages of slabs that are no more, of caches whose objects may be read
// after they were freed (CacheSpec.RCU), until the read sections that were open when the slab
// ended have ended. They are no slab's and not free. The zero Limbo is empty.
type Limbo struct {
	lock   machine.ThreadLock
	blocks []Block // in the order in which they came
}

// Free gives the block of p back when no reader can see it any more: at once, where none
// reads.
func (l *Limbo) Free(c *machine.Ctx, p *machine.Page) {
	l.lock.Lock(c)
	l.blocks = append(l.blocks, Block{Page: p.PFN(), Order: p.Order()})
	l.lock.Unlock(c)
	c.CallRCU(func(c *machine.Ctx) {
		l.forget(c, p.PFN())
		c.FreePages(p)
	})
}

// forget takes the block that begins at a page out.
func (l *Limbo) forget(c *machine.Ctx, page int) {
	l.lock.Lock(c)
	defer l.lock.Unlock(c)
	for i := range l.blocks {
		if l.blocks[i].Page == page {
			l.blocks = append(l.blocks[:i], l.blocks[i+1:]...)
			return
		}
	}
}

// Snapshot adds the blocks to s.
func (l *Limbo) Snapshot(s *Snapshot) { s.Waiting = append(s.Waiting, l.blocks...) }
