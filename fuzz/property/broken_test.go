package property_test

import (
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// twice is v with a bug: after the given number of frees of one cache, every allocation of it
// hands out an object that is live, if there is one.
func twice(v *impls.Variant, frees int) *impls.Variant {
	bad := *v
	bad.Name += "-twice"
	bad.Alias = ""
	bad.Caps &^= impls.CapBulk
	bad.New = func(m *machine.Machine) impls.Instance {
		return &twiceInstance{Instance: v.New(m), frees: frees}
	}
	return &bad
}

// sameInBulk is v with a bug: the last two objects of a bulk allocation are one.
func sameInBulk(v *impls.Variant) *impls.Variant {
	bad := *v
	bad.Name, bad.Alias = v.Name+"-same", ""
	bad.New = func(m *machine.Machine) impls.Instance { return sameInstance{v.New(m)} }
	return &bad
}

type sameInstance struct{ impls.Instance }

func (s sameInstance) Objects() impls.Objects { return s }

func (s sameInstance) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	k, err := s.Instance.Objects().NewCache(c, spec)
	if err != nil {
		return nil, err
	}
	return sameCache{k.(impls.BulkCache)}, nil
}

type sameCache struct{ impls.BulkCache }

func (s sameCache) AllocBulk(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) bool {
	ok := s.BulkCache.AllocBulk(c, f, into)
	if n := len(into); ok && n > 1 {
		into[n-1] = into[n-2]
	}
	return ok
}

type twiceInstance struct {
	impls.Instance
	frees int
}

func (t *twiceInstance) Objects() impls.Objects { return t }

func (t *twiceInstance) NewCache(c *machine.Ctx, s impls.CacheSpec) (impls.Cache, error) {
	k, err := t.Instance.Objects().NewCache(c, s)
	if err != nil {
		return nil, err
	}
	return &twiceCache{Cache: k, frees: t.frees}, nil
}

type twiceCache struct {
	impls.Cache
	frees int
	live  []impls.Addr
}

func (t *twiceCache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	if t.frees <= 0 && len(t.live) > 0 {
		return t.live[0]
	}
	a := t.Cache.Alloc(c, f)
	if a != 0 {
		t.live = append(t.live, a)
	}
	return a
}

func (t *twiceCache) Free(c *machine.Ctx, a impls.Addr) {
	for i, b := range t.live {
		if a == b {
			t.live = append(t.live[:i], t.live[i+1:]...)
			t.frees--
			t.Cache.Free(c, a)
			return
		}
	}
}

// The bugs of badSizes.
const (
	dirty   = "not zeroed"
	lost    = "prefix lost at realloc"
	small   = "usable size below the request"
	inside  = "object overlaps a live object"
	odd     = "object misaligned"
	scrawls = "contents changed"
	miser   = "refused without reason"
)

// badSizes is v with one bug in its allocations by size, named by the title that it shows as.
func badSizes(v *impls.Variant, bug string) *impls.Variant {
	bad := *v
	bad.Name += "-bad"
	bad.Alias = ""
	bad.New = func(m *machine.Machine) impls.Instance {
		in := v.New(m)
		return &badInstance{Instance: in, sizes: &badAllocator{Allocator: in.Sizes(), bug: bug,
			mem: in.Memory()}}
	}
	return &bad
}

type badInstance struct {
	impls.Instance
	sizes impls.Allocator
}

func (b *badInstance) Sizes() impls.Allocator { return b.sizes }

type badAllocator struct {
	impls.Allocator
	mem   impls.Memory
	bug   string
	last  impls.Addr // of the last allocation, while it is live
	calls int
}

func (b *badAllocator) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	b.calls++
	switch {
	case b.bug == dirty:
		f = 0
	case b.bug == miser && b.calls%5 == 0:
		return 0
	case b.bug == inside && b.last != 0 && size < 100:
		return b.last + 16
	}
	a := b.Allocator.Malloc(c, size, f)
	if b.bug == odd {
		return a + 4
	}
	if b.last = 0; size > 200 {
		b.last = a
	}
	return a
}

func (b *badAllocator) Free(c *machine.Ctx, a impls.Addr) {
	if a == b.last {
		b.last = 0
	} else if b.bug == scrawls && b.last != 0 {
		b.mem.Flip(b.last, 1)
	}
	b.Allocator.Free(c, a)
}

func (b *badAllocator) Realloc(c *machine.Ctx, p impls.Addr, size uint64,
	f impls.AllocFlags) impls.Addr {
	b.last = 0
	if b.bug == lost {
		b.Allocator.Free(c, p)
		return b.Allocator.Malloc(c, size, impls.FlagZero)
	}
	return b.Allocator.Realloc(c, p, size, f)
}

func (b *badAllocator) Usable(c *machine.Ctx, a impls.Addr) uint64 {
	if n := b.Allocator.Usable(c, a); b.bug != small {
		return n
	}
	return 15
}
