package play

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// toy is a bump allocator with one behaviour to break at a time.
type toy struct {
	mem    []byte
	next   uint64
	sizes  map[impls.Addr]uint64
	dirty  bool // zeroed memory is not
	loses  bool // realloc forgets the old bytes
	refuse bool
	noted  bool // refusals are noted
	busy   error
	during func() // called inside every call
	calls  int
}

const toyCaps = impls.CapObjects | impls.CapSizes | impls.CapPages | impls.CapZero |
	impls.CapAlign | impls.CapRealloc | impls.CapUsable | impls.CapFreeSized |
	impls.CapShrink | impls.CapDestroy | impls.CapDrain | impls.CapZeroRealloc

func newToy() *toy {
	return &toy{mem: make([]byte, 1<<16), next: 64, sizes: map[impls.Addr]uint64{}}
}

func (t *toy) Memory() impls.Memory          { return t }
func (t *toy) Objects() impls.Objects        { return t }
func (t *toy) Sizes() impls.Allocator        { return t }
func (t *toy) Pages() impls.Pages            { return t }
func (t *toy) Snapshot(*impls.Snapshot) bool { return false }
func (t *toy) Close()                        {}

func (t *toy) inside() {
	t.calls++
	if during := t.during; during != nil {
		t.during = nil
		during()
	}
}

func (t *toy) give(c *machine.Ctx, align, size uint64) impls.Addr {
	t.inside()
	a := (t.next + align - 1) &^ (align - 1)
	if t.refuse || size > uint64(len(t.mem)) || a+size > uint64(len(t.mem)) {
		if t.noted {
			c.NoteRefusal()
		}
		return 0
	}
	t.next = a + max(size, 1)
	t.sizes[a] = size
	return a
}

func (t *toy) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	a := t.give(c, 8, size)
	if a != 0 && f&impls.FlagZero != 0 {
		impls.Pattern(0).Fill(t.mem[a : a+size])
		if t.dirty {
			t.mem[a+size-1] = 1
		}
	}
	return a
}

func (t *toy) Memalign(c *machine.Ctx, align, size uint64, _ impls.AllocFlags) impls.Addr {
	return t.give(c, align, size)
}

func (t *toy) Realloc(c *machine.Ctx, p impls.Addr, size uint64, f impls.AllocFlags) impls.Addr {
	if size == 0 {
		t.Free(c, p)
		return 0
	}
	q := t.give(c, 8, size)
	if q == 0 {
		return 0
	}
	if !t.loses {
		copy(t.mem[q:q+size], t.mem[p:p+t.sizes[p]])
	}
	if t.dirty && f&impls.FlagZero != 0 {
		t.mem[q+size-1] = 1
	}
	delete(t.sizes, p)
	return q
}

func (t *toy) Free(_ *machine.Ctx, p impls.Addr) {
	t.inside()
	if _, ok := t.sizes[p]; !ok && p != 0 {
		panic("free of what is not live")
	}
	delete(t.sizes, p)
}

func (t *toy) Usable(_ *machine.Ctx, p impls.Addr) uint64 {
	t.inside()
	if p == 0 {
		return 0
	}
	return t.sizes[p] + 3
}

func (t *toy) NewCache(_ *machine.Ctx, spec impls.CacheSpec) (impls.Cache, error) {
	t.inside()
	if spec.Size > 1<<12 {
		return nil, impls.ErrInvalid
	}
	if t.refuse {
		return nil, impls.ErrNoMemory
	}
	return &toyCache{t, spec.Size}, nil
}

func (t *toy) AllocPages(c *machine.Ctx, order int, _ impls.AllocFlags) impls.Addr {
	return t.give(c, 4096, 4096<<order)
}
func (t *toy) FreePages(c *machine.Ctx, a impls.Addr) { t.Free(c, a) }
func (t *toy) Drain(*machine.Ctx)                     { t.inside() }

func (t *toy) Fill(a impls.Addr, n uint64, p impls.Pattern) { p.Fill(t.mem[a : a+n]) }
func (t *toy) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	return p.Verify(t.mem[a : a+n])
}
func (t *toy) Read(a impls.Addr, b []byte) int { return copy(b, t.mem[a:]) }
func (t *toy) Flip(a impls.Addr, mask byte)    { t.mem[a] ^= mask }
func (t *toy) Contains(a impls.Addr, n uint64) bool {
	return a+n <= uint64(len(t.mem))
}

type toyCache struct {
	t    *toy
	size uint64
}

func (k *toyCache) Alloc(c *machine.Ctx, f impls.AllocFlags) impls.Addr {
	return k.t.Malloc(c, k.size, f)
}
func (k *toyCache) Free(c *machine.Ctx, a impls.Addr) { k.t.Free(c, a) }
func (k *toyCache) Shrink(*machine.Ctx) int           { k.t.inside(); return 7 }
func (k *toyCache) Destroy(*machine.Ctx) error        { k.t.inside(); return k.t.busy }
func (k *toyCache) Size() uint64                      { return k.size }
func (k *toyCache) Align() uint64                     { return 8 }

// A bench is a toy with an Exec of 8 slots and a cache in slot 0 of 3.
type bench struct {
	*testing.T
	toy *toy
	e   *Exec
	c   *machine.Ctx
	n   impls.Pattern
}

func newBench(t *testing.T) *bench {
	cfg := machine.DefaultConfig()
	cfg.Native = true
	m := machine.New(cfg)
	b := &bench{T: t, toy: newToy(), c: m.NativeCtx(0, "cpu0")}
	t.Cleanup(func() { b.c.Release(); m.Close() })
	b.setup(toyCaps)
	return b
}

func (b *bench) setup(caps impls.Caps) {
	b.e = New(Setup{Instance: b.toy, Caps: caps, Slots: 8, Caches: 3,
		Profile: impls.Profile{MallocZero: impls.Always}})
	spec := impls.NewSpec("c", 48)
	b.e.Open(b.c, 0, &spec)
	b.toy.calls = 0
}

// op is an operation without operands.
func op(code impls.Code) impls.Op { return impls.Op{Code: code, Cache: -1, Slot: -1, Result: -1} }

func (b *bench) do(op impls.Op) impls.Event {
	b.n++
	if op.Pattern == 0 {
		op.Pattern = b.n
	}
	ev := impls.Event{Op: 5, Ctx: 6, Seq: 7}
	b.e.Do(b.c, &op, &ev)
	if ev.Op != 5 || ev.Ctx != 6 || ev.Seq != 7 {
		b.Errorf("%s: the caller's fields are gone: %+v", op.Code, ev)
	}
	return ev
}

func (b *bench) malloc(slot int32, size uint64) impls.Event {
	o := op(impls.OpMalloc)
	o.Result, o.Size = slot, size
	return b.do(o)
}

func (b *bench) free(slot int32) impls.Event {
	o := op(impls.OpFree)
	o.Slot = slot
	return b.do(o)
}

func (b *bench) alloc(cache, slot int32) impls.Event {
	o := op(impls.OpAlloc)
	o.Cache, o.Result = cache, slot
	return b.do(o)
}

func (b *bench) want(what string, ev impls.Event, outcome impls.Outcome) {
	b.Helper()
	if ev.Outcome != outcome {
		b.Errorf("%s: outcome %s, want %s", what, ev.Outcome, outcome)
	}
}

func (b *bench) state(slot int, want State) {
	b.Helper()
	if got := b.e.Slot(slot).State; got != want {
		b.Errorf("slot %d is in state %d, want %d", slot, got, want)
	}
}
