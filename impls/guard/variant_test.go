package guard

import (
	"strings"
	"sync"
	"testing"
	"time"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/golib"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// subjects are guarded subjects of every kind behind.
func subjects() []*impls.Variant {
	var out []*impls.Variant
	for _, v := range golib.Variants() {
		out = append(out, Of(v, Options{}))
	}
	return append(out, Of(golib.Wrap("user", func() any { return piles{} }), Options{Count: 9}))
}

// piles is a user's allocator that leaves everything to Go.
type piles struct{}

func (piles) Malloc(n int) []byte { return make([]byte, n) }
func (piles) Free([]byte)         {}

// TestSilent: programs without misuse are reported nothing about, on any allocator, and
// contents, alignment and zeroing are right.
func TestSilent(t *testing.T) {
	for _, v := range subjects() {
		t.Run(v.Name, func(t *testing.T) {
			in := v.New(nil)
			defer in.Close()
			c := native(t, 1).NativeCtx(0, "cpu0")
			defer c.Release()
			e := play.New(play.Setup{Instance: in, Caps: v.Caps, Profile: v.Profile, Slots: 64,
				Caches: 2})
			for i, size := range []uint64{24, 200} {
				spec := impls.NewSpec("c", size)
				if got := e.Open(c, i, &spec); got != impls.OK {
					t.Fatalf("open cache: %s", got)
				}
			}
			done := map[impls.Code]int{}
			for seed := range uint64(4) {
				for _, op := range stream(4000, seed) {
					var ev impls.Event
					e.Do(c, &op, &ev)
					if ev.Bad >= 0 || ev.Addr%max(ev.Align, v.Profile.MinAlign) != 0 ||
						ev.Outcome == impls.NoMem && !ev.Legit {
						t.Fatalf("%s: %+v", op.Code, ev)
					}
					if ev.Outcome == impls.OK {
						done[op.Code]++
					}
				}
			}
			g := in.Sizes().(*Allocator)
			if n := g.Validate(c); n != g.live.n+g.kept.n || n < 64 {
				t.Errorf("%d objects validated", n)
			}
			if len(c.Notes()) > 0 {
				t.Fatalf("false alarm: %s", c.Notes()[0])
			}
			for _, code := range []impls.Code{impls.OpMalloc, impls.OpFree, impls.OpRealloc,
				impls.OpCalloc, impls.OpAlloc, impls.OpVerify} {
				if done[code] < 100 {
					t.Errorf("%s was done %d times", code, done[code])
				}
			}
		})
	}
}

// TestMisuse: the misuse of programs acts on guarded subjects and is reported, in caches
// and by size.
func TestMisuse(t *testing.T) {
	for _, v := range subjects() {
		in := v.New(nil)
		defer in.Close()
		c := native(t, 1).NativeCtx(0, "cpu0")
		defer c.Release()
		e := play.New(play.Setup{Instance: in, Caps: v.Caps, Profile: v.Profile, Slots: 3,
			Caches: 1})
		spec := impls.NewSpec("c", 24)
		e.Open(c, 0, &spec)
		for _, cache := range []int32{0, -1} {
			get := impls.Op{Code: impls.OpMalloc, Size: 24}
			if cache >= 0 {
				get.Code = impls.OpAlloc
			}
			for i, s := range []struct {
				op   impls.Op
				want string
			}{
				{get, ""},
				{impls.Op{Code: impls.OpOverrun, Size: 3}, ""},
				{impls.Op{Code: impls.OpFreeInside, Size: 8}, "Invalid object pointer"},
				{impls.Op{Code: impls.OpFree}, "Right Redzone overwritten"},
				{impls.Op{Code: impls.OpFreeAgain}, ""}, // it was refused before
				{impls.Op{Code: impls.OpFreeAgain}, "Object already free"},
				{impls.Op{Code: impls.OpWriteFreed}, ""},
				{impls.Op{Code: impls.OpValidate}, "Poison overwritten"},
				{get, ""},
				{impls.Op{Code: impls.OpFlip, Region: debugcheck.LeftRed, Arg: 1}, ""},
				{impls.Op{Code: impls.OpFree}, "Left Redzone overwritten"},
			} {
				if s.op.Code == impls.OpValidate && cache < 0 {
					continue // there is no cache to name
				}
				s.op.Cache, s.op.Slot, s.op.Result = cache, 0, -1
				if s.op.Code == get.Code {
					s.op.Slot, s.op.Result = -1, 0
				}
				var ev impls.Event
				c.BeginLine(i, [2]int32{})
				e.Do(c, &s.op, &ev)
				var got string
				for _, r := range ev.Reports {
					got += r.Title
				}
				if ev.Outcome != impls.OK || got != s.want {
					t.Errorf("%s, cache %d: %s is %s and %q, want %q", v.Name, cache, s.op.Code,
						ev.Outcome, got, s.want)
				}
			}
		}
	}
}

// stream is a deterministic stream of operations over 64 slots and two caches.
func stream(n int, seed uint64) []impls.Op {
	codes := []impls.Code{impls.OpMalloc, impls.OpFree, impls.OpRealloc, impls.OpCalloc,
		impls.OpMemalign, impls.OpUsable, impls.OpAlloc, impls.OpFree, impls.OpVerify}
	var ops []impls.Op
	for i := range n {
		seed = seed*6364136223846793005 + 1442695040888963407
		r := seed >> 20
		slot := int32(r % 64)
		op := impls.Op{Code: codes[r>>6%uint64(len(codes))], Cache: -1, Slot: slot, Result: slot,
			Size: r >> 12 % 3000, Arg: 1, Pattern: impls.Pattern(i + 1)}
		switch op.Code {
		case impls.OpMemalign:
			op.Arg = 1 << (r >> 30 % 11)
		case impls.OpAlloc:
			op.Cache = int32(r >> 30 % 2)
		case impls.OpFree:
			op.Cache = int32(r>>30%3) - 1
		case impls.OpRealloc:
			op.Result = int32(r >> 24 % 64)
		}
		ops = append(ops, op)
	}
	return ops
}

// TestOf: a guarded subject is another subject, with the guard's capabilities.
func TestOf(t *testing.T) {
	v := golib.Variants()[2]
	w := Of(v, Options{})
	const want = impls.CapObjects | impls.CapSizes | impls.CapZero | impls.CapAlign |
		impls.CapZeroAlign | impls.CapRealloc | impls.CapUsable | impls.CapDestroy |
		impls.CapDebug | impls.CapCtor | impls.CapBulk | impls.CapZeroRealloc
	if w.Name != "go-wasm2go-tlsf-guarded" || v.Name != "go-wasm2go-tlsf" || w.Caps != want ||
		w.Rules != debugcheck.Guard || w.Profile.MinAlign != v.Profile.MinAlign {
		t.Errorf("%s: %v, %s, %+v", w.Name, w.Caps.Names(), w.Rules, w.Profile)
	}
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.Debug = true, "P"
	m := machine.New(cfg)
	defer m.Close()
	c := m.NativeCtx(0, "cpu0")
	defer c.Release()
	in := w.New(m)
	defer in.Close()
	if f := in.Sizes().(*Allocator).flags; f != debugcheck.Poison || in.Pages() != nil {
		t.Errorf("debug=P gives %s", f)
	}
	p := in.Sizes().Malloc(c, 24, 0)
	if mem := in.Memory(); !mem.Contains(p, 24) || mem.Contains(p, 1<<40) || mem.Contains(0, 1) ||
		mem.Read(p, make([]byte, 1<<20)) != 0 || mem.(memory).g == nil {
		t.Error("memory of an object")
	}
	for _, bad := range []func(){
		func() { Of(&impls.Variant{Name: "x", New: v.New}, Options{}) },
		func() { Of(&impls.Variant{Name: "x", Caps: impls.CapSizes}, Options{}) },
		func() { New(newToy(1), newToy(1), Options{Align: 3}) },
	} {
		func() {
			defer func() {
				if s, _ := recover().(string); !strings.HasPrefix(s, "allocfuzz: guard: ") {
					t.Errorf("panic %q", s)
				}
			}()
			bad()
		}()
	}
}

// paged is an instance over a toy that has pages too.
type paged struct {
	impls.Instance
	impls.Pages
	*toy
}

func (x *paged) Memory() impls.Memory   { return x.toy }
func (x *paged) Sizes() impls.Allocator { return x.toy }
func (x *paged) Drain(*machine.Ctx)     { x.stubborn = len(x.toy.freed) == 1 }

// TestPages: pages are those of the subject behind; before they are drained the
// quarantine is emptied.
func TestPages(t *testing.T) {
	r := newRig(t, Options{})
	x := &paged{toy: r.toy}
	v := &impls.Variant{Name: "paged", Caps: impls.CapSizes | impls.CapPages | impls.CapSMP,
		New: func(*machine.Machine) impls.Instance { return withPages{x} }}
	in := Of(v, Options{}).New(nil)
	if in.Memory() != impls.Memory(r.toy) || in.Snapshot(nil) {
		t.Error("the memory of threads goes through the books of the guard")
	}
	a := in.Sizes()
	a.Free(r.c, a.Malloc(r.c, 8, 0))
	in.Pages().Drain(r.c)
	if !r.toy.stubborn {
		t.Error("drained before the quarantine was empty")
	}
}

// withPages gives a paged its pages.
type withPages struct{ *paged }

func (x withPages) Pages() impls.Pages { return x.paged }

// lockedToy is a toy for several threads.
type lockedToy struct {
	mu sync.Mutex
	*toy
}

func (l *lockedToy) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.toy.Malloc(c, size, f)
}

func (l *lockedToy) Free(c *machine.Ctx, p impls.Addr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.toy.Free(c, p)
}

// TestThreads: threads share a guard, and each sees its own contents and no report.
func TestThreads(t *testing.T) {
	const threads, rounds = 4, 500
	m := native(t, threads)
	inner := &lockedToy{toy: newToy(threads * rounds * 512)}
	g := New(inner, inner, Options{Count: 7})
	var group sync.WaitGroup
	for cpu := range threads {
		group.Add(1)
		go func() {
			defer group.Done()
			c := m.NativeCtx(cpu, "cpu")
			defer c.Release()
			for i := range rounds {
				p := g.Malloc(c, uint64(8+i%3*8), 0)
				inner.Fill(p, 8, impls.Pattern(cpu))
				q := g.Realloc(c, p, 60, 0)
				if inner.Verify(q, 8, impls.Pattern(cpu)) >= 0 {
					t.Error("contents lost")
				}
				g.Free(c, q)
			}
			if len(c.Notes()) > 0 {
				t.Errorf("reported: %s", c.Notes()[0])
			}
		}()
	}
	group.Wait()
	if g.live.n != 0 || g.kept.n != 7 {
		t.Errorf("%d live, %d in quarantine", g.live.n, g.kept.n)
	}
}

// TestNoAllocation: while nothing is found the guard needs no memory of its own.
func TestNoAllocation(t *testing.T) {
	r := newRig(t, Options{Count: 4, Stacks: true})
	r.toy.mem = make([]byte, 1<<20)
	r.toy.room = 1 << 20
	k := r.newCache("c")
	work := func() {
		p, q := r.g.Malloc(r.c, 64, 0), k.Alloc(r.c, 0)
		r.g.Free(r.c, p)
		k.Free(r.c, q)
		r.toy.freed = r.toy.freed[:0]
	}
	for range 100 {
		work()
	}
	if n := testing.AllocsPerRun(500, work); n > 0 {
		t.Errorf("%v allocations an operation", n)
	}
}

// BenchmarkGuard is what the guard costs an allocation and a free of 64 bytes.
func BenchmarkGuard(b *testing.B) {
	v := golib.Variants()[0]
	for _, s := range []struct {
		name string
		opt  Options
	}{{"FZPU", Options{}}, {"FZ", Options{Flags: debugcheck.Sanity | debugcheck.RedZone}},
		{"FZPU-stacks", Options{Stacks: true}}} {
		b.Run(s.name, func(b *testing.B) {
			c := native(b, 1).NativeCtx(0, "cpu0")
			defer c.Release()
			var took [2]time.Duration
			for i, w := range []*impls.Variant{v, Of(v, s.opt)} {
				in := w.New(nil)
				a := in.Sizes()
				start := time.Now()
				for range b.N {
					a.Free(c, a.Malloc(c, 64, 0))
				}
				took[i] = time.Since(start)
				in.Close()
			}
			b.ReportMetric(float64(took[0].Nanoseconds())/float64(b.N), "plain-ns/op")
			b.ReportMetric(float64(took[1].Nanoseconds())/float64(b.N), "guarded-ns/op")
			b.ReportMetric(float64(took[1])/float64(took[0]), "ratio")
		})
	}
}
