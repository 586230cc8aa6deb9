package oracle_test

import (
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// toy is a small right allocator with memory of its own, of which a test breaks one
// thing. Memory by size is bumped and reused by size; a cache has slabs of four
// objects, each in a page of its own.
type toy struct {
	m      *machine.Machine
	mem    []byte
	next   uint64
	sizes  map[impls.Addr]uint64
	free   map[uint64][]impls.Addr
	caches []*toyCache
	last   impls.Addr // what was handed out last
	calls  int

	bug toyBug
}

// toyBug is what is wrong with a toy; nil fields are right.
type toyBug struct {
	give   func(t *toy, a impls.Addr, size uint64) impls.Addr // another address than a
	after  func(t *toy, a impls.Addr, size uint64)            // behind an allocation
	dirty  bool                                               // zeroed memory is not
	loses  bool                                               // realloc forgets the old bytes
	usable int                                                // added to the usable size
	refuse string                                             // "malloc", "realloc" …: says no
	silent bool                                               // … and notes no reason
	busy   bool                                               // destroy says that objects remain
	never  bool                                               // destroy never says so
	bare   bool                                               // never calls a constructor
	hoards bool                                               // shrink does nothing
	lies   bool                                               // shrink says that nothing is left
	fifo   bool                                               // reuses what was freed first
	show   func(t *toy, s *impls.Snapshot)                    // bends the snapshot
	hidden bool                                               // shows no snapshot
	call   func(t *toy, c *machine.Ctx)                       // before every call
	reap   func(t *toy) int                                   // what reap does and says
	setUp  func(t *toy)                                       // once a run
}

const toyCaps = impls.CapObjects | impls.CapSizes | impls.CapZero | impls.CapAlign |
	impls.CapZeroAlign | impls.CapRealloc | impls.CapUsable | impls.CapShrink | impls.CapDestroy |
	impls.CapReuseLIFO | impls.CapDrain | impls.CapPages | impls.CapIRQ | impls.CapSMP |
	impls.CapFlush | impls.CapOffline | impls.CapCtor | impls.CapRCU | impls.CapTune |
	impls.CapReap | impls.CapZeroRealloc

// toySubject is a variant with one bug.
func toySubject(bug toyBug) *impls.Variant {
	return &impls.Variant{Name: "toy", Alias: "plaything", Caps: toyCaps, Sound: true,
		Machines: []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT},
		Profile:  impls.Profile{MinAlign: 8, MallocZero: impls.Always},
		New: func(m *machine.Machine) impls.Instance {
			t := &toy{m: m, mem: make([]byte, 1<<17), next: toyPage, sizes: map[impls.Addr]uint64{},
				free: map[uint64][]impls.Addr{}, bug: bug}
			if bug.setUp != nil {
				bug.setUp(t)
			}
			return t
		}}
}

const toyPage = 4096

func (t *toy) Memory() impls.Memory   { return t }
func (t *toy) Objects() impls.Objects { return t }
func (t *toy) Sizes() impls.Allocator { return t }
func (t *toy) Pages() impls.Pages     { return t }
func (t *toy) Close()                 {}
func (t *toy) Drain(c *machine.Ctx)   { t.enter(c) }
func (t *toy) enter(c *machine.Ctx) {
	t.calls++
	if t.bug.call != nil {
		t.bug.call(t, c)
	}
}

// Reap gives back nothing.
func (t *toy) Reap(c *machine.Ctx) int {
	t.enter(c)
	if t.bug.reap != nil {
		return t.bug.reap(t)
	}
	return 0
}

// bump takes fresh memory.
func (t *toy) bump(align, size uint64) impls.Addr {
	a := (t.next + align - 1) &^ (align - 1)
	if size > uint64(len(t.mem)) || a+size > uint64(len(t.mem))-toyPage {
		return 0
	}
	t.next = a + max((size+7)&^7, 8)
	return a
}

func (t *toy) give(c *machine.Ctx, align, size uint64, why string) impls.Addr {
	t.enter(c)
	if t.bug.refuse == why {
		if !t.bug.silent {
			c.NoteRefusal()
		}
		return 0
	}
	var a impls.Addr
	if list := t.free[size]; len(list) > 0 && list[len(list)-1]%align == 0 {
		a, t.free[size] = list[len(list)-1], list[:len(list)-1]
	} else if a = t.bump(align, size); a == 0 {
		c.NoteRefusal()
		return 0
	}
	return t.out(a, size)
}

// out is the end of every allocation.
func (t *toy) out(a impls.Addr, size uint64) impls.Addr {
	if t.bug.give != nil {
		a = t.bug.give(t, a, size)
	}
	t.sizes[a] = size
	if t.bug.after != nil {
		t.bug.after(t, a, size)
	}
	t.last = a
	return a
}

func (t *toy) zero(a impls.Addr, size uint64, f impls.AllocFlags) impls.Addr {
	if a != 0 && f&impls.FlagZero != 0 {
		t.Fill(a, size, 0)
		if t.bug.dirty && size > 0 {
			t.mem[a+size-1] = 1
		}
	}
	return a
}

func (t *toy) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	return t.zero(t.give(c, 8, size, "malloc"), size, f)
}

func (t *toy) Memalign(c *machine.Ctx, align, size uint64, f impls.AllocFlags) impls.Addr {
	return t.zero(t.give(c, max(align, 8), size, "memalign"), size, f)
}

func (t *toy) Realloc(c *machine.Ctx, p impls.Addr, size uint64, f impls.AllocFlags) impls.Addr {
	old := t.sizes[p]
	q := t.zero(t.give(c, 8, size, "realloc"), size, f)
	if q == 0 {
		return 0
	}
	if !t.bug.loses {
		copy(t.mem[q:q+size], t.mem[p:p+old])
	}
	t.free[old] = append(t.free[old], p)
	return q
}

func (t *toy) Free(c *machine.Ctx, p impls.Addr) {
	t.enter(c)
	if p != 0 {
		t.free[t.sizes[p]] = append(t.free[t.sizes[p]], p)
	}
}

func (t *toy) Usable(c *machine.Ctx, p impls.Addr) uint64 {
	t.enter(c)
	return t.sizes[p] + 7&^7 + uint64(t.bug.usable)
}

func (t *toy) AllocPages(c *machine.Ctx, order int, f impls.AllocFlags) impls.Addr {
	return t.zero(t.give(c, toyPage, toyPage<<order, "pages"), toyPage<<order, f)
}

func (t *toy) FreePages(c *machine.Ctx, a impls.Addr) { t.Free(c, a) }

func (t *toy) NewCache(c *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	if len(spec.Flags) > 1 {
		return nil, impls.ErrUnsupported
	}
	if c != nil && t.bug.refuse == "create" {
		if !t.bug.silent {
			c.NoteRefusal()
		}
		return nil, impls.ErrNoMemory
	}
	k := &toyCache{t: t, name: spec.Name, size: spec.Size, align: max(spec.Align, 8),
		ctor: spec.Ctor && !t.bug.bare}
	k.stride = (k.size + k.align - 1) &^ (k.align - 1)
	t.caches = append(t.caches, k)
	return k, nil
}

func (t *toy) Fill(a impls.Addr, n uint64, p impls.Pattern) {
	if t.Contains(a, n) {
		p.Fill(t.mem[a : a+n])
	}
}

func (t *toy) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	if !t.Contains(a, n) {
		return -1
	}
	return p.Verify(t.mem[a : a+n])
}

func (t *toy) Read(a impls.Addr, b []byte) int { return copy(b, t.mem[a:]) }
func (t *toy) Flip(a impls.Addr, mask byte)    { t.mem[a] ^= mask }
func (t *toy) Contains(a impls.Addr, n uint64) bool {
	return a >= toyPage && n <= uint64(len(t.mem)) && a <= uint64(len(t.mem))-n
}

// Snapshot shows the caches, and then what the bug makes of them.
func (t *toy) Snapshot(s *impls.Snapshot) bool {
	s.Reset()
	if t.bug.hidden {
		return false
	}
	for i, k := range t.caches {
		s.Caches = append(s.Caches, impls.CacheState{Name: k.name, Handle: k, Size: k.size,
			Stride: k.stride, Align: k.align, Dead: k.dead, FullLists: true,
			Shrinks: impls.AnswersRemains})
		for _, page := range k.pages {
			k.show(i, page, s.AddSlab())
		}
		s.Counts = append(s.Counts, impls.Count{Name: "cache.slabs", Stored: len(k.pages),
			Counted: len(k.pages)})
	}
	if t.bug.show != nil && t.calls > 0 {
		t.bug.show(t, s)
	}
	return true
}

// toyObjects is the number of objects of a slab.
const toyObjects = 4

type toyCache struct {
	t                   *toy
	name                string
	size, align, stride uint64
	pages               []impls.Addr // of its slabs
	list                []impls.Addr // free objects, the next one last
	dead, ctor          bool
}

func (k *toyCache) show(cache int, page impls.Addr, b *impls.SlabState) {
	b.Cache, b.Page, b.Addr, b.First = cache, int(page/toyPage), page, page
	b.Objects = toyObjects
	for i := range k.list {
		if a := k.list[len(k.list)-1-i]; a/toyPage == page/toyPage {
			b.Free = append(b.Free, a)
		}
	}
	b.Inuse = b.Objects - len(b.Free)
	at := impls.Place{List: impls.ListPartial}
	switch b.Inuse {
	case 0:
		at.List = impls.ListFree
	case b.Objects:
		at.List = impls.ListFull
	}
	b.On = append(b.On, at)
}

func (k *toyCache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	t := k.t
	t.enter(c)
	if len(k.list) == 0 {
		page := t.bump(toyPage, toyPage)
		if page == 0 {
			c.NoteRefusal()
			return 0
		}
		k.pages = append(k.pages, page)
		for i := toyObjects - 1; i >= 0; i-- {
			k.list = append(k.list, page+uint64(i)*k.stride)
			if k.ctor {
				impls.Construct(t, page+uint64(i)*k.stride, k.size)
			}
		}
	}
	n := len(k.list) - 1
	a := k.list[n]
	k.list = k.list[:n]
	return t.zero(t.out(a, k.size), k.size, f)
}

func (k *toyCache) Free(c *machine.Ctx, a impls.Addr) {
	k.t.enter(c)
	if k.t.bug.fifo {
		k.list = append([]impls.Addr{a}, k.list...)
		return
	}
	k.list = append(k.list, a)
}

func (k *toyCache) Shrink(c *machine.Ctx) int {
	k.t.enter(c)
	k.shrink()
	if k.t.bug.lies {
		return 0
	}
	return min(len(k.pages), 1)
}

// shrink gives up the slabs all of whose objects are free.
func (k *toyCache) shrink() {
	if k.t.bug.hoards {
		return
	}
	k.pages = slices.DeleteFunc(k.pages, func(page impls.Addr) bool {
		in := func(a impls.Addr) bool { return a/toyPage == page/toyPage }
		rest := slices.DeleteFunc(slices.Clone(k.list), in)
		if len(k.list)-len(rest) < toyObjects {
			return false
		}
		k.list = rest
		return true
	})
}

// drop gives up slab i, whose objects are free.
func (k *toyCache) drop(i int) {
	page := k.pages[i]
	k.pages = slices.Delete(k.pages, i, i+1)
	k.list = slices.DeleteFunc(k.list, func(a impls.Addr) bool { return a/toyPage == page/toyPage })
}

func (k *toyCache) Destroy(c *machine.Ctx) error {
	k.t.enter(c)
	k.shrink()
	live := len(k.list) < len(k.pages)*toyObjects
	if k.t.bug.busy || live && !k.t.bug.never {
		return impls.ErrBusy
	}
	k.dead, k.pages, k.list = true, nil, nil
	return nil
}

func (k *toyCache) Flush(c *machine.Ctx) { k.t.enter(c) }

func (t *toy) Offline(c *machine.Ctx, cpu int) error {
	t.enter(c)
	if cpu == c.CPUID() {
		return impls.ErrInvalid
	}
	return nil
}

func (k *toyCache) Tune(c *machine.Ctx, _, _ int) error {
	k.t.enter(c)
	return nil
}

func (k *toyCache) Size() uint64  { return k.size }
func (k *toyCache) Align() uint64 { return k.align }

// titles lists the titles of a run's faults in order, each once.
func titles(res *oracle.Result) []fault.Title {
	var out []fault.Title
	seen := map[fault.Title]bool{}
	for i := range res.Faults {
		if t := res.Faults[i].Title; !seen[t] {
			seen[t] = true
			out = append(out, t)
		}
	}
	return out
}
