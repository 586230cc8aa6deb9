package slab

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// A construction is when a cache calls the constructor of its objects.
type construction uint8

const (
	// never: there is none.
	never construction = iota
	// whenMade is when a slab is made, once for each object; whoever frees one leaves it in
	// that state. 2.4 knows nothing else: where there is a constructor it drops the poison.
	whenMade
	// whenTaken is at every allocation, as in 2.6 where free objects are poisoned: what
	// their owners left in them is gone.
	whenTaken
)

// constructsOf is when the objects of a cache are constructed that has around them what l
// says, nil without debug options.
func constructsOf(spec *impls.CacheSpec, l *debugcheck.Layout) construction {
	switch {
	case !spec.Ctor:
		return never
	case l != nil && l.Body:
		return whenTaken
	}
	return whenMade
}

// construct calls the constructor for the object at a.
func (s *Cache) construct(a impls.Addr) { impls.Construct(s.sys.Arena, a, s.size) }
