package slub

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/kmalloc"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// A design is one choice of each axis.
type design struct {
	layer     func(*machine.Machine) page.Layer // where pages come from
	fast      fastPath
	start     slowStart
	exclusion exclusion
	partial   partialList
	locking   debugLocking
	middle    bool           // a free object keeps its link near its middle, not in its first word
	classes   *kmalloc.Table // nil for those of today
}

// new sets the design up on a machine that was just made or reset.
func (d design) new(m *machine.Machine) impls.Instance {
	d.exclusion = d.exclusion.in(m)
	h := &heap{design: d, m: m, pages: d.layer(m), boot: impls.BootOf(m, debugcheck.SLUB61)}
	h.actor = page.NewActor(m)
	m.SetPageLayer(h.pages)
	return h
}

// A heap is one machine's caches: an impls.Instance, with the impls.Objects and
// impls.Pages that it offers.
type heap struct {
	design
	m      *machine.Machine
	pages  page.Layer
	actor  *page.Actor
	sizes  impls.Allocator // made when first asked for
	ghost  registry
	limbo  impls.Limbo
	caches []*Cache // natively under ghost.lock
	boot   impls.Boot
}

var (
	_ impls.Instance   = (*heap)(nil)
	_ impls.Objects    = (*heap)(nil)
	_ impls.Hotplugger = (*heap)(nil)
	_ impls.Pages      = pages{}
)

// Memory reaches the arena.
func (h *heap) Memory() impls.Memory { return impls.Arena{M: h.m} }

// Objects is the heap itself.
func (h *heap) Objects() impls.Objects { return h }

// Pages is the page cache, with a Drain that empties the CPUs' slabs, too.
func (h *heap) Pages() impls.Pages { return pages{h.actor, h} }

// Sizes is kmalloc over caches of its own, which the first call makes.
func (h *heap) Sizes() impls.Allocator {
	if h.sizes == nil {
		h.sizes = kmalloc.New(h.m, h, h.classes)
	}
	return h.sizes
}

// Close does nothing: all is in the machine.
func (h *heap) Close() {}

// describe turns a spec into what layouts are computed from, d, which is zero: its own
// debug flags with those that the machine's options add.
func (h *heap) describe(spec *impls.CacheSpec, d *debugcheck.Spec) error {
	flags, small, err := h.boot.Flags(spec)
	if err != nil {
		return err
	}
	d.Name, d.Size, d.Kmalloc = spec.Name, spec.Size, spec.Kmalloc
	d.Align = spec.Alignment(uint64(h.m.PageSize))
	d.First, d.Word, d.End = !h.middle, uint64(h.m.WordBytes()), endMark
	d.Flags, d.Ctor, d.RCU, d.Rules = flags, spec.Ctor, spec.RCU(), h.boot.Rules
	if small {
		*d = debugcheck.DropGrowing(*d, uint64(h.m.PageSize))
	}
	return nil
}

// NewCache makes a cache. It fails with impls.ErrInvalid when spec cannot be met. It makes
// no page request. c may be nil where nothing runs yet.
func (h *heap) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	var g debugcheck.Layout
	if err := h.describe(&spec, &g.Spec); err != nil {
		return nil, spec.TurnDown(c, err)
	}
	k, err := newCache(h, &spec, &g)
	if err != nil {
		return nil, spec.TurnDown(c, err)
	}
	h.ghost.lock.Lock(c)
	defer h.ghost.lock.Unlock(c)
	for _, old := range h.caches {
		if old.kin.Takes(&k.kin) {
			old.kin.Join(&k.kin)
			return old, nil
		}
	}
	k.index = len(h.caches)
	h.caches = append(h.caches, k)
	return k, nil
}

// pages is the page cache of a heap.
type pages struct {
	*page.Actor
	h *heap
}

// Drain makes the CPUs let go of their slabs, then the page layer of its pages.
// Where calls to other CPUs are forbidden it is only this CPU.
func (p pages) Drain(c *machine.Ctx) {
	for _, k := range p.h.all(c) {
		c.Progress()
		if c.MayBlock() {
			k.Flush(c)
		} else {
			k.exclusion.on(c, k, c.CPUID())
		}
	}
	p.Actor.Drain(c)
}

// all is the caches that exist, destroyed ones too.
func (h *heap) all(c *machine.Ctx) []*Cache {
	h.ghost.lock.Lock(c)
	defer h.ghost.lock.Unlock(c)
	return h.caches
}

// Offline takes a CPU out of use, as slub_cpu_dead and page_alloc_cpu_dead: what every
// cache and the page layer hold for it goes back. Whoever runs there next has it back in
// use, with nothing held.
func (h *heap) Offline(c *machine.Ctx, cpu int) error {
	if cpu == c.CPUID() {
		return impls.ErrInvalid
	}
	for _, k := range h.all(c) {
		c.Progress()
		k.exclusion.on(c, k, cpu)
	}
	h.pages.DrainCPU(c, cpu)
	return nil
}
