package slab

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

var _ impls.Debugger = (*Cache)(nil)

// Layout says what is around an object; nil without debug flags.
func (s *Cache) Layout() *debugcheck.Layout {
	if s.debug == nil {
		return nil
	}
	return s.debug.check.Layout
}

// Validate checks the order of the one list, and then every slab of every list, list by
// list. It returns the number of slabs; ErrInvalid without debug flags.
func (s *Cache) Validate(c *machine.Ctx) (slabs int, err error) {
	d := s.debug
	if d == nil {
		return 0, impls.ErrInvalid
	}
	flags := s.lock.LockIRQSave(c)
	d.inOrder(c)
	for _, l := range s.heads {
		for p := l.first(c); p != nil; p = next(c, p) {
			slabs = s.walked(c, slabs)
			d.look(c, p)
			d.check.Validate(&d.slab)
		}
	}
	s.lock.UnlockIRQRestore(c, flags)
	return slabs, nil
}

// walked counts one more slab of a walk over the lists, which has come past n. More than
// there are pages means that a list runs into itself: the run ends.
func (s *Cache) walked(c *machine.Ctx, n int) int {
	c.Progress()
	if n > s.sys.m.Pages {
		c.Die(fault.NoProgress, "cache %s: a list of slabs runs into itself", s.name)
	}
	return n + 1
}

// Slab describes the slab whose memory holds a; false without debug flags and when
// no slab of the cache does.
func (s *Cache) Slab(a impls.Addr) (debugcheck.Slab, bool) {
	p := s.sys.m.PageOf(a)
	if s.debug == nil || p == nil || s.sys.owner[p.PFN()] != s {
		return debugcheck.Slab{}, false
	}
	var d debugcheck.Slab
	s.picture(&d, p, colourWord.Peek(p), inuseWord.Peek(p), freeWord.Peek(p))
	return d, true
}

// fieldBits is the width of the words of a slab that can be damaged, where a word of
// the machine is no narrower.
const fieldBits = 32

// Damage inverts bits of a slab's count of objects in use, or of the number of its
// first free object. The cache has no other such field, and none without debug
// flags.
func (s *Cache) Damage(c *machine.Ctx, r debugcheck.Region, a impls.Addr, mask uint64) bool {
	mask &= 1<<min(fieldBits, s.wordBytes*8) - 1
	if _, ok := s.Slab(a); !ok || mask == 0 {
		return false
	}
	word := inuseWord
	switch r {
	case debugcheck.SlabInuse:
	case debugcheck.SlabFreelist:
		word = freeWord
	default:
		return false
	}
	p := s.sys.m.PageOf(a)
	flags := s.lock.LockIRQSave(c)
	word.Store(c, p, word.Load(c, p)^mask)
	s.lock.UnlockIRQRestore(c, flags)
	return true
}

// chainTest is S1e, kmem_slabchain_test of 2001: after each free, with the option for
// consistency checks, the whole list is walked. Holds cache.lock.
func (d *debugger) chainTest(c *machine.Ctx) {
	if d.check.Layout.Flags.Has(debugcheck.Sanity) {
		d.inOrder(c)
	}
}

// inOrder stops the kernel when the one list of a cache is not first full slabs, then
// partial ones, then free ones, or when its mark is not at the first that is not
// full. Later kernels have neither list nor test. Holds cache.lock.
func (d *debugger) inOrder(c *machine.Ctx) {
	s := d.s
	if s.notFull == nil || d.check.Layout.Rules != debugcheck.SLAB24 {
		return
	}
	first, before, steps := uint64(0), full, 0
	for p := s.heads[0].first(c); p != nil; p = next(c, p) {
		inuse := inuseWord.Load(c, p)
		now := s.fullness(inuse)
		if now < before || steps > s.sys.m.Pages {
			d.bug(c, p, debugcheck.TitleSlabOrder,
				"the slab at page %d with %d of %d objects in use is behind emptier ones", p.PFN(),
				inuse, s.objects)
		}
		if now != full && first == 0 {
			first = link(p)
		}
		before = now
		steps++
	}
	if mark := s.notFull.Load(c); mark != first {
		d.bug(c, slabAt(c, mark), debugcheck.TitleSlabOrder,
			"page %d is marked as the first slab that is not full, it is page %d", int(mark)-1,
			int(first)-1)
	}
}

// The fullness of a slab, in the order of the one list.
const (
	full = iota
	partial
	empty
)

// fullness is how full a slab with so many objects in use is.
func (s *Cache) fullness(inuse uint64) int {
	switch inuse {
	case s.objects:
		return full
	case 0:
		return empty
	}
	return partial
}
