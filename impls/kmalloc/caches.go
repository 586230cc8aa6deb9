package kmalloc

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A MinAligner is an allocator that says how every address it returns is aligned.
// Without it Caches takes 8 bytes for granted.
type MinAligner interface{ MinAlign() uint64 }

const commonAlign = 8

var cacheLive = machine.Atomic("cache", "live")

// Caches makes object caches out of any allocator. An object is asked for with
// Malloc while the allocator's own alignment is enough, else with Memalign, and
// then zeroed through mem.
func Caches(a impls.Allocator, mem impls.Memory) impls.Objects {
	least := uint64(commonAlign)
	if m, ok := a.(MinAligner); ok {
		least = m.MinAlign()
	}
	return &adapter{a: a, mem: mem, least: least}
}

type adapter struct {
	a     impls.Allocator
	mem   impls.Memory
	least uint64 // alignment of every address
}

// NewCache makes a cache: ErrInvalid for a size of 0 or an alignment that is no
// power of two, ErrUnsupported for debug flags. A constructor is called at every
// allocation, since nobody knows where an object's memory was meanwhile. What else the
// spec says about slabs does not apply.
func (o *adapter) NewCache(_ *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	if len(spec.Flags) > 0 {
		return nil, impls.ErrUnsupported
	}
	if spec.Size == 0 || spec.Align&(spec.Align-1) != 0 {
		return nil, impls.ErrInvalid
	}
	s := &sized{adapter: o, size: spec.Size, align: max(spec.Align, commonAlign),
		ctor: spec.Ctor}
	s.live.Init(cacheLive, 0, 0)
	return s, nil
}

var _ impls.BulkCache = (*sized)(nil)

// sized is an object cache of an allocator.
type sized struct {
	*adapter
	size  uint64
	align uint64
	ctor  bool
	live  machine.Word // objects that are out
}

// Alloc asks the allocator for one object.
func (s *sized) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	var p impls.Addr
	if s.align <= s.least {
		p = s.a.Malloc(c, s.size, f)
	} else {
		p = s.a.Memalign(c, s.align, s.size, f)
		if p != 0 && f&impls.FlagZero != 0 {
			s.mem.Fill(p, s.size, 0)
		}
	}
	if p != 0 {
		s.live.Add(c, 1)
		if s.ctor {
			impls.Construct(s.mem, p, s.size)
		}
	}
	return p
}

// Free gives an object back to the allocator.
func (s *sized) Free(c *machine.Ctx, p impls.Addr) {
	s.a.Free(c, p)
	s.live.Add(c, ^uint64(0))
}

// AllocBulk asks for several objects, or has none.
func (s *sized) AllocBulk(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) bool {
	return impls.AllocEach(c, s, f, into)
}

// FreeBulk gives several objects back.
func (s *sized) FreeBulk(c *machine.Ctx, objects []impls.Addr) { impls.FreeEach(c, s, objects) }

// Shrink has nothing to give back: which memory is whose is the allocator's.
func (s *sized) Shrink(*machine.Ctx) int { return 0 }

// Destroy answers ErrBusy while objects are live.
func (s *sized) Destroy(c *machine.Ctx) error {
	if s.live.Load(c) != 0 {
		return impls.ErrBusy
	}
	return nil
}

// Size is the size of every object.
func (s *sized) Size() uint64 { return s.size }

// Align is the alignment of every object.
func (s *sized) Align() uint64 { return s.align }
