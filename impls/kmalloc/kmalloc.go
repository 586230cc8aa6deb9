package kmalloc

import (
	"math/bits"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/page"
)

// ZeroSize is ZERO_SIZE_PTR: the address of every allocation of no bytes. It may
// be freed, and nothing may be stored there.
const ZeroSize impls.Addr = 16

// Profile is what every allocator made by New promises.
var Profile = impls.Profile{
	MallocZero:  impls.Always,
	ReallocZero: impls.Always,
	MinAlign:    8,
	Source:      "Linux, kmalloc and krealloc",
}

// Kmalloc is kmalloc over the object caches of one family.
type Kmalloc struct {
	m       *machine.Machine
	objects impls.Objects
	table   *Table
	least   uint64 // smallest class of the machine
	most    uint64 // largest class of the machine
	// caches are the caches of the classes. In simulation each is made when it is
	// first needed, without a point, so that it is as if it had been there from the
	// start and short runs do not pay for all. Natively all are.
	caches [classesMost]impls.Cache
	sized  [classesMost]impls.SizedCache // the same, of those that keep the size asked for
	failed [classesMost]bool             // the family cannot make the cache
}

var _ impls.Allocator = (*Kmalloc)(nil)

// New makes kmalloc with the classes of a table out of a family's caches on a machine
// that has its page layer; without a table it is TwoPages. The caches of the size classes
// are made as if nothing ran yet: NewCache gets no context. A class that the family
// cannot make has no memory.
func New(m *machine.Machine, o impls.Objects, t *Table) *Kmalloc {
	if t == nil {
		t = TwoPages
	}
	page := uint64(m.PageSize)
	k := &Kmalloc{m: m, objects: o, table: t, least: t.least(page), most: t.largest(page)}
	for i := 0; i < len(t.classes) && m.Native; i++ {
		if size := t.classes[i].size; size >= k.least && size <= k.most {
			k.create(i)
		}
	}
	return k
}

// create makes the cache of a class.
func (k *Kmalloc) create(i int) {
	spec := impls.NewSpec(k.table.classes[i].name, k.table.classes[i].size)
	spec.Align, spec.Kmalloc = k.align(i), true
	cache, err := k.objects.NewCache(nil, spec)
	if err != nil {
		k.failed[i] = true
		return
	}
	k.caches[i] = cache
	k.sized[i], _ = cache.(impls.SizedCache)
}

// align is the alignment of a class on this machine.
func (k *Kmalloc) align(class int) uint64 {
	return k.table.align(k.table.classes[class].size, uint64(k.m.PageSize))
}

// classOf is the index of the class that serves size, which is not above the largest.
func (k *Kmalloc) classOf(size uint64) int { return k.table.index(max(size, k.least)) }

// Malloc is kmalloc: size bytes, zeroed with FlagZero; 0 when there is no memory,
// ZeroSize when size is 0. It may be called anywhere: in a handler, with interrupts off
// or with FlagAtomic it does not sleep, whatever else the flags say.
func (k *Kmalloc) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	switch {
	case size == 0:
		return ZeroSize
	case size <= k.most:
		return k.fromClass(c, k.classOf(size), size, f)
	case !k.table.pages:
		c.NoteRefusal()
		return 0
	}
	return k.large(c, size, f)
}

// fromClass takes an object of class i for size bytes.
func (k *Kmalloc) fromClass(c *machine.Ctx, i int, size uint64, f impls.AllocFlags) impls.Addr {
	if k.caches[i] == nil {
		if !k.failed[i] {
			k.create(i)
		}
		if k.failed[i] {
			c.NoteRefusal()
			return 0
		}
	}
	if s := k.sized[i]; s != nil {
		return s.AllocSize(c, f, size)
	}
	return k.caches[i].Alloc(c, f)
}

// large takes a block of pages. A size beyond every block is a page request that
// is refused.
func (k *Kmalloc) large(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	pages := (size-1)/uint64(k.m.PageSize) + 1
	order := min(bits.Len64(pages-1), page.MaxOrder+1)
	p := c.AllocPages(order, f.Waits(c))
	if p == nil {
		return 0
	}
	p.SetView(machine.RegionBody, machine.ViewLarge, machine.Guard{})
	p.Tag = nil
	if f&impls.FlagZero != 0 {
		clear(k.m.MemBytes(p.Addr(), int(p.Bytes())))
	}
	return p.Addr()
}

// Memalign is Malloc at a multiple of align, a power of two: from the first class
// whose objects lie so, else from the pages. It heeds the flags as Malloc does. No kernel
// has it; a user who needs the alignment takes pages by hand, and so does it.
func (k *Kmalloc) Memalign(c *machine.Ctx, align, size uint64, f impls.AllocFlags) impls.Addr {
	if size == 0 {
		size = 1 // ZeroSize has an alignment of its own
	}
	for next := size; next <= k.most; {
		i := k.classOf(next)
		if k.align(i) >= align {
			return k.fromClass(c, i, size, f)
		}
		next = k.table.classes[i].size + 1
	}
	if size > k.most && !k.table.pages {
		c.NoteRefusal()
		return 0
	}
	// A block begins at a page, so only a larger alignment needs room to move.
	room := uint64(0)
	if align > uint64(k.m.PageSize) {
		room = align - uint64(k.m.PageSize)
	}
	if size+room < size {
		c.NoteRefusal()
		return 0
	}
	a := k.large(c, size+room, f)
	return (a + align - 1) &^ (align - 1)
}

// Realloc is krealloc: p itself while size fits there, else a copy at another
// place. Without p, or at ZeroSize, it is Malloc; a size of 0 frees p and returns
// ZeroSize. To know what fits it asks what is usable, and so all of it may be used from
// then on.
//
// FlagZero clears what lies behind the new size, so that there is nothing left to clear
// when the memory grows into it later. Only where the size asked for is kept some of it
// may be inside the new size: that was no part of what the allocation cleared.
func (k *Kmalloc) Realloc(c *machine.Ctx, p impls.Addr, size uint64,
	f impls.AllocFlags) impls.Addr {
	if size == 0 {
		k.Free(c, p)
		return ZeroSize
	}
	if p == 0 || p == ZeroSize {
		return k.Malloc(c, size, f)
	}
	old, room := k.extent(c, p)
	if size <= room {
		if from := min(old, size); f&impls.FlagZero != 0 {
			clear(k.m.MemBytes(p+from, int(room-from)))
		}
		return p
	}
	q := k.Malloc(c, size, f)
	if q == 0 {
		return 0
	}
	copy(k.m.MemBytes(q, int(old)), k.m.MemView(p, int(old)))
	k.Free(c, p)
	return q
}

// Free is kfree: p goes back to where its page says that it came from. 0 and
// ZeroSize do nothing; what nobody handed out is a finding.
func (k *Kmalloc) Free(c *machine.Ctx, p impls.Addr) {
	if p == 0 || p == ZeroSize {
		return
	}
	head := k.m.PageOf(p)
	if head == nil {
		c.Fault(fault.WildAddress, "%#x freed, outside the arena", p)
		return
	}
	if cache, ok := head.Tag.(impls.Cache); ok {
		cache.Free(c, p)
		return
	}
	if !isLarge(head) {
		c.Fault(fault.StaleView, "%#x freed, its page %d is used as %s", p, head.PFN(),
			head.CurrentView(machine.RegionBody))
		return
	}
	c.FreePages(head)
}

// Usable is ksize: the size of the class or the rest of the block; 0 at 0, at
// ZeroSize and where nothing was handed out. A debugged class is told that all of the
// object may be used from now on.
func (k *Kmalloc) Usable(c *machine.Ctx, p impls.Addr) uint64 {
	_, room := k.extent(c, p)
	return room
}

// extent is how many bytes at p hold something, as far as anybody keeps that, and how many
// may be used from now on.
func (k *Kmalloc) extent(c *machine.Ctx, p impls.Addr) (asked, room uint64) {
	head := k.m.PageOf(p)
	if head == nil {
		return 0, 0
	}
	if cache, ok := head.Tag.(impls.Cache); ok {
		asked, room = cache.Size(), cache.Size()
		if s, ok := cache.(impls.SizedCache); ok {
			asked = s.Widen(c, p)
		}
		return asked, room
	}
	if !isLarge(head) {
		return 0, 0
	}
	room = head.Addr() + head.Bytes() - p
	return room, room
}

// CacheOf is the cache whose slab holds a; nil for a large block and for what nobody
// handed out.
func (k *Kmalloc) CacheOf(a impls.Addr) impls.Cache {
	head := k.m.PageOf(a)
	if head == nil {
		return nil
	}
	cache, _ := head.Tag.(impls.Cache)
	return cache
}

// isLarge says whether p is the first page of a block that kmalloc took.
func isLarge(p *machine.Page) bool {
	return p.CurrentView(machine.RegionBody) == machine.ViewLarge
}
