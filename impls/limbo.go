package impls

import "allocfuzz/impls/machine"

var limboLock = machine.Atomic("slab", "limbo")

// A Limbo holds the pages of slabs that are no more, of caches whose objects may be read
// after they were freed (CacheSpec.RCU), until the read sections that were open when the slab
// ended have ended. They are no slab's and not free. Use Init before the first Free.
type Limbo struct {
	mutex  machine.SpinLock // natively; it is taken last
	blocks []Block          // in the order in which they came
}

// Init makes an empty Limbo.
func (l *Limbo) Init() { l.mutex.Init(limboLock, 0) }

func (l *Limbo) lock(c *machine.Ctx) {
	if c.Native() {
		l.mutex.Lock(c)
	}
}

func (l *Limbo) unlock(c *machine.Ctx) {
	if c.Native() {
		l.mutex.Unlock(c)
	}
}

// Free gives the block of p back when no reader can see it any more: at once, where none
// reads.
func (l *Limbo) Free(c *machine.Ctx, p *machine.Page) {
	l.lock(c)
	l.blocks = append(l.blocks, Block{Page: p.PFN(), Order: p.Order()})
	l.unlock(c)
	c.CallRCU(func(c *machine.Ctx) {
		l.forget(c, p.PFN())
		c.FreePages(p)
	})
}

// forget takes the block that begins at a page out.
func (l *Limbo) forget(c *machine.Ctx, page int) {
	l.lock(c)
	defer l.unlock(c)
	for i := range l.blocks {
		if l.blocks[i].Page == page {
			l.blocks = append(l.blocks[:i], l.blocks[i+1:]...)
			return
		}
	}
}

// Snapshot adds the blocks to s.
func (l *Limbo) Snapshot(s *Snapshot) { s.Waiting = append(s.Waiting, l.blocks...) }
