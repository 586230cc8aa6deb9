package impls

import "allocfuzz/impls/machine"

// AllocEach is AllocBulk for a cache that knows single objects only: a plain loop, which
// gives back what it has when there is no memory for the next one.
func AllocEach(c *machine.Ctx, k Cache, f AllocFlags, into []Addr) bool {
	for i := range into {
		c.Progress()
		if into[i] = k.Alloc(c, f); into[i] == 0 {
			FreeEach(c, k, into[:i])
			return false
		}
	}
	return true
}

// FreeEach is FreeBulk for such a cache.
func FreeEach(c *machine.Ctx, k Cache, objects []Addr) {
	for _, a := range objects {
		c.Progress()
		k.Free(c, a)
	}
}
