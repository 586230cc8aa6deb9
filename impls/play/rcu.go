package play

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Read sections are the machine's; a subject has only to honour them. One without
// impls.CapRCU need not, and does not support them. An unlock without a section of its own
// context is skipped: there is none, or a check has ended it.

// beginRead begins rculock or rcuunlock.
func (e *Exec) beginRead(c *machine.Ctx, s *Step) bool {
	switch {
	case !e.caps.Has(impls.CapRCU):
		return e.pass(c, s, impls.Unsupported)
	case s.op.Code == impls.OpRCUUnlock && !c.Reading():
		return e.pass(c, s, impls.Skipped)
	}
	return true
}

// Stable says whether the cache in slot i keeps the memory of freed objects for readers, and
// which of those that had the slot it is.
func (e *Exec) Stable(i int32) (nth uint32, ok bool) {
	if i < 0 || int(i) >= len(e.caches) {
		return 0, false
	}
	k := &e.caches[i]
	return k.nth, k.stable
}
