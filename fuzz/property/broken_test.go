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
	bad.New = func(m *machine.Machine) impls.Instance {
		return &twiceInstance{Instance: v.New(m), frees: frees}
	}
	return &bad
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
