package page

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A Layer is a machine's page allocator that can be looked at.
type Layer interface {
	machine.PageLayer
	// DrainCPU gives back the pages that are held for one CPU. Only where calls to other
	// CPUs are allowed.
	DrainCPU(c *machine.Ctx, cpu int)
	// Snapshot adds its pages to s. Call it at quiet points.
	Snapshot(s *impls.Snapshot)
}

var (
	_ Layer = (*Buddy)(nil)
	_ Layer = (*Pool)(nil)
)

// Plain is New as a layer: the page allocator without pools.
func Plain(m *machine.Machine) Layer { return New(m) }

// Pooled is NewPool as a layer: pools of single pages that are right on every machine.
func Pooled(m *machine.Machine) Layer { return NewPool(m) }

// A subject is a page allocator under test by itself: an impls.Instance that hands out
// pages and nothing else. Who asks for them is the page cache.
type subject struct {
	impls.Arena
	layer Layer
	actor *Actor
}

var (
	_ impls.Instance   = (*subject)(nil)
	_ impls.Hotplugger = (*subject)(nil)
)

// alone makes the constructor of a variant out of that of its page layer.
func alone(layer func(*machine.Machine) Layer) func(*machine.Machine) impls.Instance {
	return func(m *machine.Machine) impls.Instance {
		s := &subject{Arena: impls.Arena{M: m}, layer: layer(m), actor: NewActor(m)}
		m.SetPageLayer(s.layer)
		return s
	}
}

// Memory is the machine's arena.
func (s *subject) Memory() impls.Memory { return s.Arena }

// Objects is nil: there are no caches.
func (s *subject) Objects() impls.Objects { return nil }

// Sizes is nil: there is no allocation by size.
func (s *subject) Sizes() impls.Allocator { return nil }

// Pages is the page cache.
func (s *subject) Pages() impls.Pages { return s.actor }

// Offline takes a CPU out of use: the pages that are held for it go back. Whoever runs
// there next has it back in use, with none.
func (s *subject) Offline(c *machine.Ctx, cpu int) error {
	if cpu == c.CPUID() {
		return impls.ErrInvalid
	}
	s.layer.DrainCPU(c, cpu)
	return nil
}

// Snapshot is the page layer's.
func (s *subject) Snapshot(snap *impls.Snapshot) bool {
	s.layer.Snapshot(snap)
	return true
}

// Close does nothing: all is the machine's.
func (s *subject) Close() {}
