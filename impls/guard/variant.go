package guard

import (
	"fmt"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Capabilities of a guarded subject: what it has of the one behind, and what the
// guard does itself.
const (
	passed = impls.CapSizes | impls.CapPages | impls.CapAlign | impls.CapFreeSized |
		impls.CapDrain | impls.CapIRQ | impls.CapSMP
	added = impls.CapObjects | impls.CapDestroy | impls.CapZero | impls.CapRealloc |
		impls.CapUsable | impls.CapDebug | impls.CapCtor | impls.CapBulk | impls.CapZeroRealloc
)

// Of is a new subject: v, which must allocate by size in this process, guarded. It has
// debugging by default, and caches and the machine can choose other options. It shows
// no Snapshot, since what is free to the program is not free to v.
func Of(v *impls.Variant, opt Options) *impls.Variant {
	if v.New == nil || !v.Caps.Has(impls.CapSizes) {
		panic("allocfuzz: guard: " + v.Name + " does not allocate by size in this process")
	}
	w := *v
	w.Name, w.Alias = v.Name+"-guarded", ""
	w.About = v.About + ", behind red zones, poison and a quarantine"
	w.Rules = debugcheck.Guard
	w.Caps = v.Caps&passed | added
	if v.Caps.Has(impls.CapAlign) {
		w.Caps |= impls.CapZeroAlign
	}
	w.Profile = impls.Profile{MallocZero: impls.Always, ReallocZero: impls.Never,
		MinAlign: max(v.Profile.MinAlign, 1), Source: "the guard, for its sizes; alignment: " +
			v.Profile.Source}
	opt.Align = max(opt.Align, v.Profile.MinAlign)
	w.New = func(m *machine.Machine) impls.Instance {
		return newInstance(v, m, opt)
	}
	return &w
}

// An instance is a guarded subject set up for one run.
type instance struct {
	inner impls.Instance
	g     *Allocator
	mem   impls.Memory
}

func newInstance(v *impls.Variant, m *machine.Machine, opt Options) *instance {
	inner := v.New(m)
	mem, ok := inner.Memory().(impls.Viewer)
	if !ok {
		panic(fmt.Sprintf("allocfuzz: guard: %s: %T does not show its bytes: give it "+
			"the method View(impls.Addr, uint64) []byte", v.Name, inner.Memory()))
	}
	x := &instance{inner: inner, g: newAllocator(inner.Sizes(), mem, opt, m), mem: mem}
	if !v.Caps.Has(impls.CapSMP) {
		x.mem = memory{x.g}
	}
	return x
}

// Memory is that of the subject behind.
func (x *instance) Memory() impls.Memory { return x.mem }

// Objects makes guarded caches.
func (x *instance) Objects() impls.Objects { return caches{x.g} }

// Sizes is the guard.
func (x *instance) Sizes() impls.Allocator { return x.g }

// Pages are those of the subject behind, unguarded.
func (x *instance) Pages() impls.Pages {
	if p := x.inner.Pages(); p != nil {
		return pages{p, x.g}
	}
	return nil
}

// Snapshot shows nothing.
func (x *instance) Snapshot(*impls.Snapshot) bool { return false }

// Quarantine gives the limits of the quarantine, in objects and in bytes: what must leave
// it can be predicted from them.
func (x *instance) Quarantine() (objects int, bytes uint64) {
	return x.g.opt.Count, x.g.opt.Bytes
}

// Close ends the subject behind.
func (x *instance) Close() { x.inner.Close() }

// pages are the pages of the subject behind.
type pages struct {
	impls.Pages
	g *Allocator
}

// Drain gives back what is in quarantine first.
func (p pages) Drain(c *machine.Ctx) {
	p.g.release(c, nil)
	p.Pages.Drain(c)
}
