package play

import "allocfuzz/impls"

// Objects of a cache with a constructor are handed out in its state, which endAlloc looks at
// before it gives them contents of their own, and go back in it, which construct sees to. An
// allocation that asks such a cache for zeroed memory as well is the program's mistake, at
// which a kernel warns: it is skipped.

// construct puts an object that is about to be freed into the state of its constructor, where
// its cache has one. Its contents were looked at before.
func (e *Exec) construct(held *Slot) {
	if held.from < 0 {
		return
	}
	if k := &e.caches[held.from]; k.ctor && k.nth == held.nth {
		impls.Construct(e.mem, held.Addr, held.Size)
		held.Pattern = impls.CtorPattern // a free that is refused leaves it so
	}
}
