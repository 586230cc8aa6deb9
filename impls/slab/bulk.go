package slab

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

var _ impls.BulkCache = (*Cache)(nil)

// AllocBulk is kmem_cache_alloc_bulk: object by object, with interrupts as they are, since
// each may need a page.
func (s *Cache) AllocBulk(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) bool {
	return impls.AllocEach(c, s, f, into)
}

// FreeBulk is kmem_cache_free_bulk: object by object, with interrupts off, so that no
// handler of the CPU comes between two of them.
func (s *Cache) FreeBulk(c *machine.Ctx, objects []impls.Addr) {
	flags := c.IRQSave()
	impls.FreeEach(c, s, objects)
	c.IRQRestore(flags)
}
