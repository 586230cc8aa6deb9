package guard

import (
	"fmt"
	"runtime"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// stackDepth is how many callers of an allocation or a free are kept.
const stackDepth = 8

// Who called the guard is that many frames above runtime.Callers, which is called as far
// up as can be, because each frame costs: beside Callers and the guard's method there are
// take, or retire and free.
const (
	allocSkip = 3
	freeSkip  = 4
)

// stacks are who called for the allocation and for the free of an object.
type stacks struct{ alloc, free [stackDepth]uintptr }

// track writes down who is about to have o, or to have given it back.
func (g *Allocator) track(r debugcheck.Region, o *object) {
	if !o.cache.layout.Flags.Has(debugcheck.StoreUser) {
		return
	}
	g.check.SetTrack(r, o.addr, impls.TrackOf(g.c))
}

// stack is where the callers of the allocation or the free of o are to be kept, all
// zero; nil without option U.
func (o *object) stack(r debugcheck.Region) []uintptr {
	if !o.cache.layout.Flags.Has(debugcheck.StoreUser) {
		return nil
	}
	if o.calls == nil {
		o.calls = &stacks{}
	}
	if r == debugcheck.FreeTrack {
		clear(o.calls.free[:])
		return o.calls.free[:]
	}
	*o.calls = stacks{}
	return o.calls.alloc[:]
}

// frames spells a stack, innermost call first.
func frames(pcs *[stackDepth]uintptr) []string {
	var out []string
	n := 0
	for n < len(pcs) && pcs[n] != 0 {
		n++
	}
	fs := runtime.CallersFrames(pcs[:n])
	for more := n > 0; more; {
		var f runtime.Frame
		f, more = fs.Next()
		out = append(out, fmt.Sprintf("%s %s:%d", f.Function, f.File, f.Line))
	}
	return out
}

// report passes a report of the checker on, with what only the guard knows.
func (g *Allocator) report(r *debugcheck.Report) {
	if o := g.slot.object; o != nil && o.calls != nil && r.Object >= o.block &&
		r.Object-o.block < o.cache.layout.Stride {
		r.AllocAt, r.FreeAt = frames(&o.calls.alloc), frames(&o.calls.free)
	}
	impls.Tell(g.c, r)
}

// unknown reports a free of an address that lies in no block that the guard has.
func (g *Allocator) unknown(p impls.Addr, from *cache) {
	if from == nil {
		from = g.any
	}
	g.check.Layout, g.check.View, g.slot = &from.layout, nil, slot{}
	g.check.NotSlab(p)
}
