package play

import (
	"fmt"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// This file is what only allocators of real processes have: see impls.Callocer and its
// neighbours.

// callocs asks for zeroed elements, in the allocator's own terms where it has such.
func (e *Exec) callocs(c *machine.Ctx, s *Step) impls.Addr {
	if e.calloc != nil {
		return e.calloc.Calloc(c, s.op.Arg, s.op.Size)
	}
	return e.sizes.Malloc(c, s.size, s.op.Flags|impls.FlagZero)
}

// overflown ends a calloc whose bytes are more than a number holds. What was handed out
// nevertheless goes back.
func (e *Exec) overflown(c *machine.Ctx, s *Step) {
	if s.got == 0 {
		return
	}
	s.ev.Broke = fault.OverflowServed
	s.ev.Evidence = fmt.Sprintf("%d elements of %d bytes at %#x", s.op.Arg, s.op.Size, s.got)
	e.sizes.Free(c, s.got)
	s.got = 0
}

func (e *Exec) freeSized(c *machine.Ctx, s *Step) {
	if e.sized != nil {
		e.sized.FreeSized(c, s.held.Addr, s.held.Size)
		return
	}
	e.sizes.Free(c, s.held.Addr)
}

// witnessed puts down what the last call broke.
func (e *Exec) witnessed(c *machine.Ctx, ev *impls.Event) {
	if e.witness != nil {
		ev.Broke, ev.Evidence = e.witness.Broke(c)
	}
}
