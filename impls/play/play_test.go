package play

import (
	"sync"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

func TestEveryOperation(t *testing.T) {
	b := newBench(t)
	with := func(o impls.Op, cache, slot, result int32, size, arg uint64) impls.Op {
		o.Cache, o.Slot, o.Result, o.Size, o.Arg = cache, slot, result, size, arg
		return o
	}
	spec := impls.NewSpec("d", 32)
	create := op(impls.OpCreate)
	create.Result, create.Spec = 1, &spec
	steps := []struct {
		op   impls.Op
		size uint64 // of the event
		call bool
	}{
		{with(op(impls.OpMalloc), -1, -1, 0, 100, 0), 100, true},
		{with(op(impls.OpCalloc), -1, -1, 1, 12, 10), 120, true},
		{with(op(impls.OpMemalign), -1, -1, 2, 60, 256), 60, true},
		{with(op(impls.OpUsable), -1, 0, -1, 0, 0), 100, true},
		{with(op(impls.OpVerify), -1, 1, -1, 0, 0), 120, false},
		{with(op(impls.OpFill), -1, 1, -1, 0, 0), 120, false},
		{with(op(impls.OpVerify), -1, 1, -1, 0, 0), 120, false},
		{with(op(impls.OpRealloc), -1, 1, 3, 500, 0), 500, true},
		{with(op(impls.OpPages), -1, -1, 4, 1, 0), 8192, true},
		{with(op(impls.OpAlloc), 0, -1, 5, 0, 0), 48, true},
		{create, 0, true},
		{with(op(impls.OpAlloc), 1, -1, 6, 0, 0), 32, true},
		{with(op(impls.OpFree), 1, 6, -1, 0, 0), 32, true},
		{with(op(impls.OpShrink), 1, -1, -1, 0, 0), 0, true},
		{with(op(impls.OpDestroy), 1, -1, -1, 0, 0), 0, true},
		{with(op(impls.OpDrain), -1, -1, -1, 0, 0), 0, true},
		{with(op(impls.OpFree), 0, 5, -1, 0, 0), 48, true},
		{with(op(impls.OpPagesFree), -1, 4, -1, 0, 0), 8192, true},
		{with(op(impls.OpFree), -1, 3, -1, 0, 0), 500, true},
		{with(op(impls.OpFreeSized), -1, 2, -1, 60, 0), 60, true},
		{with(op(impls.OpFree), -1, 0, -1, 0, 0), 100, true},
	}
	for i, s := range steps {
		calls := b.toy.calls
		ev := b.do(s.op)
		b.want(s.op.Code.String(), ev, impls.OK)
		if ev.Bad != -1 || ev.Size != s.size {
			t.Errorf("step %d %s: wrong byte %d, size %d, want -1 and %d", i, ev.Code, ev.Bad,
				ev.Size, s.size)
		}
		if (b.toy.calls > calls) != s.call {
			t.Errorf("step %d %s: %d calls", i, ev.Code, b.toy.calls-calls)
		}
	}
	if len(b.toy.sizes) != 0 {
		t.Errorf("%d objects live after all frees", len(b.toy.sizes))
	}
}

func TestSkipped(t *testing.T) {
	b := newBench(t)
	b.malloc(0, 10)
	b.alloc(0, 1)
	pages := op(impls.OpPages)
	pages.Result = 2
	b.do(pages)
	at := func(code impls.Code, cache, slot int32) impls.Op {
		o := op(code)
		o.Cache, o.Slot, o.Result, o.Size = cache, slot, 7, 10
		return o
	}
	calls := b.toy.calls
	for _, o := range []impls.Op{
		at(impls.OpFree, -1, 5), at(impls.OpFree, -1, -1), at(impls.OpFree, -1, 99),
		at(impls.OpFree, 0, 0), at(impls.OpFree, -1, 1), at(impls.OpFree, -1, 2),
		at(impls.OpFree, 1, 1), at(impls.OpFree, 99, 1), at(impls.OpPagesFree, -1, 0),
		at(impls.OpRealloc, -1, 1), at(impls.OpRealloc, -1, 5), at(impls.OpUsable, -1, 2),
		at(impls.OpVerify, -1, 5), at(impls.OpFill, -1, 5), at(impls.OpAlloc, 1, -1),
		at(impls.OpShrink, 2, -1), at(impls.OpDestroy, 2, -1), at(impls.OpCreate, 1, -1),
	} {
		b.want(o.Code.String(), b.do(o), impls.Skipped)
	}
	if b.toy.calls != calls {
		t.Errorf("%d calls by skipped operations", b.toy.calls-calls)
	}
	b.state(7, Void)
	b.state(0, Live)
	b.state(1, Live)
	b.state(2, Live)
	b.want("free", b.free(0), impls.OK)
	b.want("free again", b.free(0), impls.Skipped)
	b.state(5, Unbound)
}

// TestNil: what may be done with nothing reaches the allocator as the address 0, leaves no
// trace in any slot, and a realloc of it is an allocation.
func TestNil(t *testing.T) {
	b := newBench(t)
	on := func(code impls.Code, cache int32) impls.Op {
		o := op(code)
		o.Cache, o.Slot, o.Size = cache, impls.NilSlot, 24
		return o
	}
	for _, code := range []impls.Code{impls.OpFree, impls.OpFreeSized, impls.OpUsable} {
		calls := b.toy.calls
		ev := b.do(on(code, -1))
		b.want(code.String(), ev, impls.OK)
		if ev.Addr != 0 || ev.Size != 0 || ev.Bad != -1 || ev.Usable != 0 ||
			b.toy.calls != calls+1 {
			t.Errorf("%s: %+v", code, ev)
		}
	}
	for _, o := range []impls.Op{on(impls.OpFree, 0), on(impls.OpFill, -1), on(impls.OpVerify, -1),
		on(impls.OpPagesFree, -1)} {
		b.want(o.Code.String(), b.do(o), impls.Skipped)
	}
	re := on(impls.OpRealloc, -1)
	re.Result = 3
	if ev := b.do(re); ev.Outcome != impls.OK || ev.Addr == 0 || ev.Old != 0 || ev.Bad != -1 {
		t.Errorf("realloc: %+v", ev)
	}
	b.state(3, Live)
	b.want("free", b.free(3), impls.OK)
	b.toy.dirty, re.Flags = true, impls.FlagZero
	if ev := b.do(re); ev.Bad != 23 || ev.Usable != 0 {
		t.Errorf("realloc to zeroes: %+v", ev)
	}
	b.toy.refuse, b.toy.noted = true, true
	b.want("realloc refused", b.do(re), impls.NoMem)
	b.state(3, Void)
	re.Result, re.Size, re.Flags, b.toy.refuse = 4, 0, 0, false
	b.want("realloc to nothing", b.do(re), impls.OK)
	b.state(4, Void)
	if s := b.e.Slot(int(impls.NilSlot)); s.State != Live || s.Addr != 0 || s.Owner() != -1 {
		t.Errorf("nothing is %+v", s)
	}
}

func TestUnsupported(t *testing.T) {
	b := newBench(t)
	b.setup(impls.CapSizes)
	b.malloc(0, 10)
	spec := impls.NewSpec("c", 8)
	for code := impls.OpAlloc; code <= impls.OpVerify; code++ {
		want := impls.Unsupported
		switch code {
		case impls.OpMalloc, impls.OpFree, impls.OpFill, impls.OpVerify:
			continue
		}
		o := op(code)
		o.Spec, o.Slot, o.Cache, o.Size = &spec, 0, 0, 8
		b.want(code.String(), b.do(o), want)
	}
	zero := op(impls.OpMalloc)
	zero.Flags, zero.Size = impls.FlagZero, 8
	b.want("malloc zeroed", b.do(zero), impls.Unsupported)
	b.setup(impls.CapObjects)
	for _, set := range []func(*impls.CacheSpec){
		func(s *impls.CacheSpec) { s.Ctor = true }, func(s *impls.CacheSpec) { s.Align = 64 },
		func(s *impls.CacheSpec) { s.Flags = []string{"poison"} },
	} {
		o := op(impls.OpCreate)
		s := spec
		set(&s)
		o.Spec, o.Result = &s, 1
		b.want("create", b.do(o), impls.Unsupported)
	}
	o := op(impls.OpAlloc)
	o.Cache, o.Flags = 0, impls.FlagZero
	b.want("alloc zeroed", b.do(o), impls.Unsupported)
}

func TestRefusals(t *testing.T) {
	b := newBench(t)
	b.malloc(0, 10)
	over := op(impls.OpCalloc)
	over.Size, over.Arg, over.Result = 1<<33, 1<<33, 1
	calls := b.toy.calls
	if ev := b.do(over); ev.Outcome != impls.NoMem || !ev.Legit || b.toy.calls != calls {
		t.Errorf("calloc beyond 64 bits: %+v", ev)
	}
	b.toy.refuse = true
	if ev := b.malloc(1, 10); ev.Outcome != impls.NoMem || ev.Legit {
		t.Errorf("refused in silence: %+v", ev)
	}
	if ev := b.malloc(1, 0); ev.Outcome != impls.NoMem || ev.Legit {
		t.Errorf("malloc(0) refused against its promise: %+v", ev)
	}
	b.toy.noted = true
	if ev := b.malloc(0, 10); ev.Outcome != impls.NoMem || !ev.Legit {
		t.Errorf("refusal that was noted: %+v", ev)
	}
	b.state(0, Void)
	b.toy.refuse = false
	b.malloc(0, 10)
	re := op(impls.OpRealloc)
	re.Slot, re.Result, re.Size = 0, 1, 1<<20
	if ev := b.do(re); ev.Outcome != impls.NoMem || !ev.Legit || ev.Old == 0 {
		t.Errorf("realloc refused: %+v", ev)
	}
	b.state(1, Void)
	b.want("free after a refused realloc", b.free(0), impls.OK)
	b.malloc(0, 10)
	re.Size = 0
	if ev := b.do(re); ev.Outcome != impls.OK || ev.Addr != 0 {
		t.Errorf("realloc to 0: %+v", ev)
	}
	b.state(0, Void)
	create := op(impls.OpCreate)
	spec := impls.NewSpec("big", 1<<20)
	create.Spec, create.Result = &spec, 1
	b.want("create", b.do(create), impls.Refused)
	b.toy.busy = impls.ErrBusy
	destroy := op(impls.OpDestroy)
	destroy.Cache = 0
	b.want("destroy", b.do(destroy), impls.Refused)
	b.want("alloc", b.alloc(0, 2), impls.OK)
}

func TestContents(t *testing.T) {
	b := newBench(t)
	ev := b.malloc(0, 40)
	want := b.n
	b.toy.Flip(ev.Addr+13, 2)
	if ev = b.free(0); ev.Bad != 13 || ev.Want != want || ev.Outcome != impls.OK {
		t.Errorf("free of what was changed: %+v, want byte 13 of pattern %d", ev, want)
	}
	b.toy.dirty = true
	zero := op(impls.OpMalloc)
	zero.Flags, zero.Size, zero.Result = impls.FlagZero, 24, 0
	if ev = b.do(zero); ev.Bad != 23 || ev.Want != 0 {
		t.Errorf("memory not zeroed: %+v, want byte 23", ev)
	}
	if ev = b.free(0); ev.Bad != -1 {
		t.Errorf("contents after that: %+v", ev)
	}
	b.toy.loses = true
	b.malloc(0, 24)
	want = b.n
	re := op(impls.OpRealloc)
	re.Slot, re.Result, re.Size = 0, 0, 8
	if ev = b.do(re); ev.Bad < 0 || ev.Bad >= 8 || ev.Want != want || ev.Fresh != b.n {
		t.Errorf("realloc that loses: %+v, want bytes of pattern %d", ev, want)
	}
	if ev = b.free(0); ev.Bad != -1 || ev.Size != 8 {
		t.Errorf("contents after that: %+v", ev)
	}
}

// TestReallocZero: what a realloc adds must be zero where every call that sized the
// memory asked for it, and nobody asked meanwhile how much may be used.
func TestReallocZero(t *testing.T) {
	for _, tt := range []struct {
		first, second impls.AllocFlags
		calloc, asked bool
		to            uint64
		bad           int64
	}{
		{impls.FlagZero, impls.FlagZero, false, false, 40, 39},
		{0, impls.FlagZero, true, false, 40, 39},
		{impls.FlagZero, impls.FlagZero, false, true, 40, -1},
		{impls.FlagZero, 0, false, false, 40, -1},
		{0, impls.FlagZero, false, false, 40, -1},
		{impls.FlagZero, impls.FlagZero, false, false, 9, -1},
	} {
		b := newBench(t)
		first := op(impls.OpMalloc)
		first.Size, first.Flags, first.Result = 10, tt.first, 0
		if tt.calloc {
			first.Code, first.Arg = impls.OpCalloc, 1
		}
		b.want("first", b.do(first), impls.OK)
		if tt.asked {
			usable := op(impls.OpUsable)
			usable.Slot = 0
			b.want("usable", b.do(usable), impls.OK)
		}
		re := op(impls.OpRealloc)
		re.Slot, re.Result, re.Size, re.Flags = 0, 0, 10, tt.second
		b.want("to the same size", b.do(re), impls.OK)
		b.toy.dirty = tt.to > 10
		re.Size, re.Flags = tt.to, impls.FlagZero
		if ev := b.do(re); ev.Bad != tt.bad || ev.Usable != min(tt.to, 10) {
			t.Errorf("%+v: %+v", tt, ev)
		}
	}
}

// Contexts interleave inside calls. What began first has its claim.
func TestInterleaved(t *testing.T) {
	b := newBench(t)
	b.malloc(0, 16)
	var inner impls.Event
	b.toy.during = func() { inner = b.free(0) }
	b.want("free", b.free(0), impls.OK)
	b.want("free inside of it", inner, impls.Skipped)

	b.malloc(0, 16)
	usable := op(impls.OpUsable)
	usable.Slot = 0
	b.toy.during = func() { inner = b.free(0) }
	b.want("usable", b.do(usable), impls.OK)
	b.want("free inside of it", inner, impls.Skipped)
	b.state(0, Live)

	b.toy.during = func() { inner = b.malloc(0, 77) }
	re := op(impls.OpRealloc)
	re.Slot, re.Result, re.Size = 0, 1, 1<<20
	b.want("realloc", b.do(re), impls.NoMem)
	if s := b.e.Slot(0); s.State != Live || s.Size != 77 {
		t.Errorf("slot bound inside of a refused realloc is %+v, want the 77 bytes", s)
	}

	b.toy.during = func() { b.malloc(0, 77); b.free(0) }
	b.want("realloc", b.do(re), impls.NoMem)
	b.state(0, Void)

	destroy := op(impls.OpDestroy)
	destroy.Cache = 0
	b.toy.during = func() { inner = b.do(destroy) }
	b.want("alloc", b.alloc(0, 2), impls.OK)
	b.want("destroy inside of it", inner, impls.Skipped)
	b.toy.during = func() { inner = b.alloc(0, 3) }
	b.want("destroy", b.do(destroy), impls.OK)
	b.want("alloc inside of it", inner, impls.Skipped)
	b.state(3, Void)

	spec := impls.NewSpec("again", 16)
	create := op(impls.OpCreate)
	create.Cache, create.Spec = 0, &spec
	b.want("create", b.do(create), impls.OK)
	old := op(impls.OpFree)
	old.Cache, old.Slot = 0, 2
	b.want("free to the cache made later", b.do(old), impls.Skipped)
}

func TestReady(t *testing.T) {
	b := newBench(t)
	free := op(impls.OpFree)
	free.Slot = 3
	alloc := op(impls.OpAlloc)
	alloc.Cache, alloc.Result = 1, 4
	create := op(impls.OpCreate)
	create.Cache = 1
	if b.e.Ready(&free) || b.e.Ready(&alloc) || !b.e.Ready(&create) {
		t.Error("before anything was bound: want only create ready")
	}
	b.malloc(3, 8)
	b.free(3)
	spec := impls.NewSpec("c", 1<<20)
	create.Spec = &spec
	b.do(create)
	if !b.e.Ready(&free) || !b.e.Ready(&alloc) {
		t.Error("operands that are void are not ready")
	}
}

// On a simulated machine a failure is injected for one operation only.
func TestFail(t *testing.T) {
	m := machine.New(machine.DefaultConfig())
	defer m.Close()
	m.SetPageLayer(noPages{})
	m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		e := New(Setup{Instance: &paged{newToy()}, Caps: toyCaps, Slots: 4})
		o := impls.Op{Code: impls.OpMalloc, Size: 8, Fail: 2, Cache: -1, Slot: -1, Result: 0}
		var ev impls.Event
		c.BeginLine(0, [2]int32{})
		e.Do(c, &o, &ev)
		if ev.Outcome != impls.NoMem || !ev.Legit {
			t.Errorf("second page request to fail: %+v", ev)
		}
		c.BeginLine(0, [2]int32{})
		o.Fail = 3
		e.Do(c, &o, &ev)
		o.Fail = 0
		e.Do(c, &o, &ev)
		if ev.Outcome != impls.OK {
			t.Errorf("nothing to fail: %+v", ev)
		}
		c.EndLine(machine.After)
	})
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
}

// paged asks for two pages in every malloc.
type paged struct{ *toy }

func (p *paged) Sizes() impls.Allocator { return p }

func (p *paged) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	if c.AllocPages(0, true) == nil || c.AllocPages(0, true) == nil {
		return 0
	}
	return p.toy.Malloc(c, size, f)
}

type noPages struct{}

func (noPages) Alloc(c *machine.Ctx, _ int) *machine.Page { return c.Machine().PageAt(0) }
func (noPages) Free(*machine.Ctx, *machine.Page, int)     {}
func (noPages) Drain(*machine.Ctx)                        {}
func (noPages) FreePages() int                            { return 16 }

// Natively, threads that race for slots each win some, and no slot is won twice.
func TestNativeClaims(t *testing.T) {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs = true, 2
	m := machine.New(cfg)
	defer m.Close()
	const slots, rounds = 64, 200
	in := &locked{toy: newToy()}
	e := New(Setup{Instance: in, Caps: impls.CapSizes, Slots: slots, Native: true})
	var won [2]int
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Go(func() {
			c := m.NativeCtx(cpu, "task")
			defer c.Release()
			var ev impls.Event
			for i := range slots * rounds {
				o := impls.Op{Code: impls.OpMalloc, Cache: -1, Slot: -1, Size: 16,
					Result: int32(i * 7 % slots)}
				if (i+cpu)%3 != 0 {
					o = impls.Op{Code: impls.OpFree, Cache: -1, Slot: int32(i % slots), Result: -1}
				}
				e.Do(c, &o, &ev)
				if o.Code == impls.OpFree && ev.Outcome == impls.OK {
					won[cpu]++
				}
			}
		})
	}
	wg.Wait()
	if in.freed != won[0]+won[1] || in.freed == 0 {
		t.Errorf("%d frees reached the allocator, %d were won", in.freed, won[0]+won[1])
	}
}

// locked hands out fresh memory under a lock and panics at a double free.
type locked struct {
	*toy
	mu    sync.Mutex
	freed int
}

func (l *locked) Sizes() impls.Allocator { return l }

func (l *locked) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.next+size+64 > uint64(len(l.mem)) {
		return 0
	}
	return l.toy.Malloc(c, size, f)
}

func (l *locked) Free(c *machine.Ctx, p impls.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toy.Free(c, p)
	l.freed++
}

// still is an allocator that costs nothing: what is left is the cost of Exec.
type still struct{ *toy }

func (s still) Sizes() impls.Allocator                                 { return s }
func (still) Malloc(*machine.Ctx, uint64, impls.AllocFlags) impls.Addr { return 4096 }
func (still) Free(*machine.Ctx, impls.Addr)                            {}
func (still) Realloc(_ *machine.Ctx, p impls.Addr, _ uint64, _ impls.AllocFlags) impls.Addr {
	return p
}

func TestNoAllocation(t *testing.T) {
	b := newBench(t)
	e := New(Setup{Instance: still{b.toy}, Caps: toyCaps, Slots: 8})
	malloc, free := op(impls.OpMalloc), op(impls.OpFree)
	malloc.Result, malloc.Size, free.Slot = 0, 8, 0
	var ev impls.Event
	if n := testing.AllocsPerRun(100, func() {
		e.Do(b.c, &malloc, &ev)
		e.Do(b.c, &free, &ev)
	}); n != 0 {
		t.Errorf("%v allocations in two operations", n)
	}
	if n := testing.AllocsPerRun(100, func() {
		e.Reset(Setup{Instance: b.toy, Caps: toyCaps, Slots: 8, Caches: 2})
	}); n != 0 {
		t.Errorf("%v allocations in a reset", n)
	}
}

func BenchmarkExec(b *testing.B) {
	cfg := machine.DefaultConfig()
	cfg.Native = true
	m := machine.New(cfg)
	defer m.Close()
	c := m.NativeCtx(0, "cpu0")
	defer c.Release()
	for _, threads := range []bool{false, true} {
		name := "simulated"
		if threads {
			name = "native"
		}
		b.Run(name, func(b *testing.B) {
			e := New(Setup{Instance: still{newToy()}, Caps: toyCaps, Slots: 8, Native: threads})
			malloc, free := op(impls.OpMalloc), op(impls.OpFree)
			malloc.Result, malloc.Size, free.Slot = 0, 8, 0
			var ev impls.Event
			for b.Loop() {
				e.Do(c, &malloc, &ev)
				e.Do(c, &free, &ev)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2, "ns/operation")
		})
	}
}
