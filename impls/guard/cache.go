package guard

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// sizesMax bounds the table of sizes. When it is full it begins anew: objects keep
// what they have.
const sizesMax = 1024

// A sizeKey is what memory by size is asked for with.
type sizeKey struct{ size, align uint64 }

// A cache is objects of one layout: a cache that was asked for, or all memory of one
// size and alignment.
type cache struct {
	g      *Allocator
	layout debugcheck.Layout
	align  uint64 // that was asked for
	live   int    // objects that are out
}

var (
	_ impls.Debugger  = (*cache)(nil)
	_ impls.BulkCache = (*cache)(nil)
)

// newCache makes a cache of objects at multiples of align.
func (g *Allocator) newCache(spec debugcheck.Spec, align uint64) (*cache, error) {
	spec.Align = max(align, g.opt.Align)
	spec.Rules, spec.Word, spec.End = g.boot.Rules, commonAlign, endMark
	l, err := debugcheck.NewLayout(spec)
	if err != nil {
		return nil, err
	}
	return &cache{g: g, layout: l, align: align}, nil
}

// sized finds what memory of one size and alignment is laid out like; nil when that
// cannot be met.
func (g *Allocator) sized(c *machine.Ctx, size, align uint64) *cache {
	key := sizeKey{max(size, 1), align}
	g.enter(c)
	defer g.leave(c)
	if key == g.last && g.same != nil {
		return g.same
	}
	if k := g.sizes[key]; k != nil {
		g.last, g.same = key, k
		return k
	}
	k, err := g.newCache(debugcheck.Spec{Name: bySize, Size: key.size, Flags: g.flags}, align)
	if err != nil {
		return nil
	}
	if len(g.sizes) == sizesMax {
		clear(g.sizes)
	}
	g.sizes[key] = k
	g.last, g.same = key, k
	return k
}

// CacheOf is what the object whose slot holds a, live or in quarantine, belongs to: an
// impls.Debugger. It is nil for any other address. It is a look from outside: natively
// nothing may be running.
func (g *Allocator) CacheOf(a impls.Addr) impls.Cache {
	if o := g.holder(a); o != nil {
		return o.cache
	}
	return nil
}

// caches makes caches out of a guarded allocator.
type caches struct{ g *Allocator }

// usualPage is the page whose cache lines hwalign is about: the allocator behind has none.
const usualPage = 4096

// NewCache makes a cache: ErrInvalid for a size or an alignment that cannot be met and
// for a flag that is none. Its words
// for debug options take the place of Options.Flags. The letter O of the boot parameter
// is ignored: blocks are not made of pages.
func (x caches) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	flags, _, err := x.g.boot.Flags(&spec)
	if err != nil {
		return nil, spec.TurnDown(c, err)
	}
	s := debugcheck.Spec{Name: spec.Name, Size: spec.Size, Flags: flags, RCU: spec.RCU(),
		Ctor: spec.Ctor}
	k, err := x.g.newCache(s, max(spec.Alignment(usualPage), commonAlign))
	if err != nil {
		return nil, spec.TurnDown(c, impls.ErrInvalid)
	}
	return k, nil
}

// Alloc returns an object.
func (k *cache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr { return k.g.take(c, k, f) }

// Free takes an object back. One of another cache is reported and goes back to its
// own.
func (k *cache) Free(c *machine.Ctx, a impls.Addr) { k.g.free(c, a, k) }

// AllocBulk takes several objects, or none: what was taken for nothing no program has seen,
// and it goes back without a quarantine.
func (k *cache) AllocBulk(c *machine.Ctx, f impls.AllocFlags, into []impls.Addr) bool {
	for i := range into {
		c.Progress()
		if into[i] = k.Alloc(c, f); into[i] == 0 {
			k.g.undo(c, into[:i])
			return false
		}
	}
	return true
}

// FreeBulk takes several objects back.
func (k *cache) FreeBulk(c *machine.Ctx, objects []impls.Addr) { impls.FreeEach(c, k, objects) }

// Shrink gives back what is in quarantine and returns the number of objects.
func (k *cache) Shrink(c *machine.Ctx) int { return k.g.release(c, k) }

// Destroy gives back what is in quarantine; ErrBusy while objects are live, those
// among them whose free was refused.
func (k *cache) Destroy(c *machine.Ctx) error {
	k.g.enter(c)
	live := k.live
	k.g.leave(c)
	if live > 0 {
		return impls.ErrBusy
	}
	k.g.release(c, k)
	return nil
}

// Size is the size of every object.
func (k *cache) Size() uint64 { return k.layout.Size }

// Align is what the address of every object is a multiple of.
func (k *cache) Align() uint64 { return max(k.align, 1) }

// debugged says whether there is anything to check.
func (k *cache) debugged() bool { return k.layout.Flags.Debugs() }

// Layout says where what lies around an object; nil without debug options.
func (k *cache) Layout() *debugcheck.Layout {
	if !k.debugged() {
		return nil
	}
	return &k.layout
}

// Validate checks every object, in quarantine too, and returns how many there were.
func (k *cache) Validate(c *machine.Ctx) (int, error) {
	if !k.debugged() {
		return 0, impls.ErrInvalid
	}
	return k.g.validate(c, k), nil
}

// Slab describes the object whose slot holds a. Natively nothing may be running.
func (k *cache) Slab(a impls.Addr) (debugcheck.Slab, bool) {
	o := k.g.holder(a)
	if o == nil || o.cache != k {
		return debugcheck.Slab{}, false
	}
	var s debugcheck.Slab
	o.describe(&s)
	return s, true
}

// Damage has nothing to damage: what the guard knows does not lie in memory.
func (k *cache) Damage(*machine.Ctx, debugcheck.Region, impls.Addr, uint64) bool { return false }
