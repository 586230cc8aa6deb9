package play

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// needs is the capability that an operation on a cache as a whole needs.
func needs(code impls.Code) impls.Caps {
	switch code {
	case impls.OpDestroy:
		return impls.CapDestroy
	case impls.OpFlush:
		return impls.CapFlush
	case impls.OpTune:
		return impls.CapTune
	}
	return impls.CapShrink
}

// beginHeld begins what concerns everything that is held for CPUs, whatever the cache.
func (e *Exec) beginHeld(c *machine.Ctx, s *Step) bool {
	op, able := s.op, false
	if op.Code == impls.OpOffline {
		_, able = e.in.(impls.Hotplugger)
		able = able && e.caps.Has(impls.CapOffline)
	} else {
		_, able = e.in.(impls.Reaper)
		able = able && e.caps.Has(impls.CapReap)
	}
	switch {
	case !able:
		return e.pass(c, s, impls.Unsupported)
	case c.InInterrupt() && c.Machine().CPUs > 1:
		return e.pass(c, s, impls.Skipped) // it waits for other CPUs: not for a handler to do
	case op.Code == impls.OpOffline && op.Size >= uint64(c.Machine().CPUs):
		return e.pass(c, s, impls.Refused)
	}
	return true
}

// callHeld calls the subject about what it holds for CPUs. What reap answered is the
// event's Usable.
func (e *Exec) callHeld(c *machine.Ctx, s *Step) {
	op := s.op
	switch op.Code {
	case impls.OpFlush:
		s.cache.cache.(impls.Flusher).Flush(c)
	case impls.OpTune:
		s.err = s.cache.cache.(impls.Tuner).Tune(c, int(op.Size), int(op.Arg))
	case impls.OpOffline:
		s.err = e.in.(impls.Hotplugger).Offline(c, int(op.Size))
	case impls.OpReap:
		s.ev.Usable = uint64(e.in.(impls.Reaper).Reap(c))
	}
}
