package golib

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/wasm2go/libc-gen/test_alloc/tlsf"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// subjects are the variants of the package and wrapped ones of every kind.
func subjects() []*impls.Variant {
	return append(Variants(),
		Wrap("user-plain", func() any { return plain{} }),
		Wrap("user-full", func() any { return &full{} }),
		Wrap("user-heap", func() any { return newHeap(1 << 20) }))
}

// native is a context for subjects that have no points.
func native(tb testing.TB) *machine.Ctx {
	cfg := machine.DefaultConfig()
	cfg.Native = true
	m := machine.New(cfg)
	c := m.NativeCtx(0, "cpu0")
	tb.Cleanup(func() { c.Release(); m.Close() })
	return c
}

func execOn(v *impls.Variant, in impls.Instance) *play.Exec {
	return play.New(play.Setup{Instance: in, Caps: v.Caps, Profile: v.Profile, Slots: 64,
		Caches: 2})
}

// stream is a deterministic stream of operations over 64 slots.
func stream(n int, seed uint64) []impls.Op {
	codes := []impls.Code{impls.OpMalloc, impls.OpFree, impls.OpRealloc, impls.OpCalloc,
		impls.OpMemalign, impls.OpUsable, impls.OpAlloc, impls.OpFree, impls.OpVerify,
		impls.OpFill, impls.OpMalloc, impls.OpFree}
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

// run plays ops and demands that nothing is wrong in any event; it returns events.
func run(t *testing.T, v *impls.Variant, in impls.Instance, ops []impls.Op) []impls.Event {
	t.Helper()
	c := native(t)
	e := execOn(v, in)
	for i, size := range []uint64{24, 200} {
		spec := impls.NewSpec("c", size)
		if got := e.Open(c, i, &spec); got != impls.OK {
			t.Fatalf("open cache: %s", got)
		}
	}
	live := map[impls.Addr]uint64{}
	events := make([]impls.Event, len(ops))
	for i := range ops {
		ev := &events[i]
		e.Do(c, &ops[i], ev)
		if ev.Bad >= 0 {
			t.Fatalf("operation %d %s: wrong byte at %d", i, ev.Code, ev.Bad)
		}
		if ev.Outcome == impls.NoMem && !ev.Legit {
			t.Fatalf("operation %d %s %d: refused without reason", i, ev.Code, ev.Size)
		}
		checkLive(t, v, in, live, ev)
	}
	return events
}

// checkLive is a small ownership check over events.
func checkLive(t *testing.T, v *impls.Variant, in impls.Instance, live map[impls.Addr]uint64,
	ev *impls.Event) {
	t.Helper()
	if ev.Outcome != impls.OK {
		return
	}
	if play.Frees(ev.Code) {
		delete(live, ev.Addr)
		return
	}
	if ev.Code == impls.OpUsable {
		if ev.Usable < ev.Size {
			t.Fatalf("usable %d of %d bytes", ev.Usable, ev.Size)
		}
		return
	}
	if ev.Code == impls.OpVerify || ev.Code == impls.OpFill {
		return
	}
	delete(live, ev.Old)
	if ev.Addr == 0 {
		return
	}
	for a, n := range live {
		if ev.Addr < a+n && a < ev.Addr+ev.Size {
			t.Fatalf("%s: %d bytes at %#x overlap %d at %#x", ev.Code, ev.Size, ev.Addr, n, a)
		}
	}
	if ev.Addr%max(ev.Align, v.Profile.MinAlign, 1) != 0 {
		t.Fatalf("%s: %#x is no multiple of %d", ev.Code, ev.Addr, ev.Align)
	}
	if !in.Memory().Contains(ev.Addr, ev.Size) {
		t.Fatalf("%s: %d bytes at %#x are no memory", ev.Code, ev.Size, ev.Addr)
	}
	live[ev.Addr] = ev.Size
}

func TestStreams(t *testing.T) {
	for _, v := range subjects() {
		t.Run(v.Name, func(t *testing.T) {
			for seed := range uint64(5) {
				in := v.New(nil)
				events := run(t, v, in, stream(3000, seed))
				in.Close()
				done := map[impls.Code]int{}
				for i := range events {
					if events[i].Outcome == impls.OK {
						done[events[i].Code]++
					}
				}
				if done[impls.OpFree] < 50 || done[impls.OpAlloc] < 100 {
					t.Fatalf("too little was done: %v", done)
				}
			}
		})
	}
}

// A heap from the pool must answer as a new one does: a run depends on nothing
// before it. Addresses are compared where they are offsets.
func TestPooledAsNew(t *testing.T) {
	for _, v := range subjects() {
		t.Run(v.Name, func(t *testing.T) {
			ops := stream(2000, 9)
			in := v.New(nil)
			want := run(t, v, in, ops)
			in.Close()
			in = v.New(nil)
			run(t, v, in, stream(4000, 10)) // leaves objects live
			in.Close()
			in = v.New(nil)
			defer in.Close()
			if h := in.(*heap); h.bytes != 0 || h.live.n != 0 {
				t.Errorf("%d bytes in %d objects are live from the start", h.bytes, h.live.n)
			}
			got := run(t, v, in, ops)
			offsets := strings.Contains(v.Name, "wasm") || v.Name == "user-heap"
			for i := range want {
				if want[i].Outcome != got[i].Outcome || want[i].Usable != got[i].Usable ||
					offsets && want[i].Addr != got[i].Addr {
					t.Fatalf("operation %d: new heap %+v, pooled %+v", i, want[i], got[i])
				}
			}
		})
	}
}

func TestVersions(t *testing.T) {
	mod, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"modernc.org/memory " + moderncVersion,
		"github.com/ncruces/wasm2go " + wasmVersion,
		"github.com/bytedance/gopkg " + mcacheVersion} {
		if !strings.Contains(string(mod), line) {
			t.Errorf("go.mod has not %q: change the version in variants.go", line)
		}
	}
}

func TestCapabilities(t *testing.T) {
	want := map[string]impls.Caps{
		"go-modernc-memory": wrapCaps | impls.CapZero | impls.CapRealloc | impls.CapUsable,
		"go-wasm2go-sbrk":   wrapCaps | impls.CapAlign | impls.CapRealloc,
		"go-wasm2go-tlsf":   wrapCaps | impls.CapAlign | impls.CapRealloc,
		"go-wasm2go-bump":   wrapCaps | impls.CapAlign | impls.CapRealloc,
		"go-gopkg-mcache":   wrapCaps | impls.CapUsable,
		"user-plain":        wrapCaps,
		"user-full": wrapCaps | impls.CapZero | impls.CapRealloc | impls.CapAlign |
			impls.CapUsable,
		"user-heap": wrapCaps | impls.CapZero | impls.CapAlign,
	}
	for _, v := range subjects() {
		if v.Caps != want[v.Name] {
			t.Errorf("%s: %v, want %v", v.Name, v.Caps.Names(), want[v.Name].Names())
		}
	}
}

// Zero sizes do what the profiles promise.
func TestZeroSizes(t *testing.T) {
	for _, v := range Variants() {
		c := native(t)
		in := v.New(nil)
		a := in.Sizes()
		p := a.Malloc(c, 0, 0)
		if want := v.Profile.MallocZero; want == impls.Always && p == 0 ||
			want == impls.Never && p != 0 {
			t.Errorf("%s: malloc(0) is %#x", v.Name, p)
		}
		if p != 0 {
			a.Free(c, p)
		}
		p = a.Malloc(c, 10, 0)
		q := p
		if v.Caps.Has(impls.CapRealloc) {
			q = a.Realloc(c, p, 0, 0)
		}
		if v.Profile.ReallocZero == impls.Always && q != 0 ||
			v.Profile.ReallocZero == impls.Never && q == 0 {
			t.Errorf("%s: realloc(p, 0) is %#x", v.Name, q)
		}
		a.Free(c, q)
		a.Free(c, 0)
		if h := in.(*heap); h.live.n != 0 || h.bytes != 0 {
			t.Errorf("%s: %d objects, %d bytes live after all frees", v.Name, h.live.n, h.bytes)
		}
		in.Close()
	}
}

// mcache once indexed its pools by -1 when it was given nothing back (bytedance/gopkg 225).
func TestMcacheFreesNothing(t *testing.T) {
	for _, b := range [][]byte{nil, {}, make([]byte, 0, 3)} {
		pools{}.Free(b)
	}
	if b := (pools{}).Malloc(0); b == nil || len(b) != 0 {
		t.Errorf("%v, want an empty slice that is not nil", b)
	}
}

// Memory ends, the refusals are legitimate, and after frees there is memory again.
func TestOutOfMemory(t *testing.T) {
	for _, v := range subjects() {
		t.Run(v.Name, func(t *testing.T) {
			c := native(t)
			in := v.New(nil)
			defer in.Close()
			a := in.Sizes()
			var got []impls.Addr
			for {
				before := c.Refused()
				p := a.Malloc(c, 128<<10, 0)
				if p == 0 {
					if c.Refused() == before {
						t.Fatalf("refused without reason after %d blocks", len(got))
					}
					break
				}
				if got = append(got, p); len(got) > 1000 {
					t.Fatal("memory does not end")
				}
			}
			for _, p := range got {
				a.Free(c, p)
			}
			if a.Malloc(c, 128<<10, 0) == 0 && v.Profile.Reuse != impls.Never {
				t.Fatal("no memory after all frees")
			}
		})
	}
}

// What Profile.Reuse says is what happens: an arena uses up all that was ever asked for, and its
// refusals with nothing live are legitimate.
func TestReuse(t *testing.T) {
	for _, v := range append(subjects(), Wrap("user-arena", func() any { return &spent{} })) {
		t.Run(v.Name, func(t *testing.T) {
			c := native(t)
			in := v.New(nil)
			defer in.Close()
			a := in.Sizes()
			refused := 0
			for range 700 { // of 2 × 100 KiB: more than any has
				before := c.Refused()
				p, q := a.Malloc(c, 100<<10, 0), a.Malloc(c, 100<<10, 0)
				refused += c.Refused() - before
				if p == 0 && c.Refused() == before {
					t.Fatal("refused without reason")
				}
				a.Free(c, p)
				a.Free(c, q)
			}
			if (refused > 0) != (v.Profile.Reuse == impls.Never) {
				t.Errorf("%d refusals with little live; reuse is promised: %d", refused,
					v.Profile.Reuse)
			}
		})
	}
}

func TestAbsurdSizes(t *testing.T) {
	for _, v := range subjects() {
		t.Run(v.Name, func(t *testing.T) {
			c := native(t)
			in := v.New(nil)
			defer in.Close()
			a := in.Sizes()
			small := a.Malloc(c, 16, 0)
			for _, size := range []uint64{1<<31 - 1, 1 << 31, 1<<31 + 1, 1<<32 - 20, 1<<32 - 1,
				1 << 32, 1 << 47, 1<<63 - 1, 1 << 63, 1<<64 - 1} {
				before := c.Refused()
				p := a.Malloc(c, size, 0)
				if v.Caps.Has(impls.CapAlign) {
					p |= a.Memalign(c, 4096, size, 0) | a.Memalign(c, 1<<40, 16, 0)
				}
				if v.Caps.Has(impls.CapRealloc) {
					p |= a.Realloc(c, small, size, 0)
				}
				if p != 0 || c.Refused() == before {
					t.Errorf("size %d: %#x, %d refusals", size, p, c.Refused()-before)
				}
			}
		})
	}
}

// A refusal far below the limit is not excused.
func TestRefusedWithoutReason(t *testing.T) {
	c := native(t)
	v := Wrap("miser", func() any { return miser{} })
	in := v.New(nil)
	defer in.Close()
	e := execOn(v, in)
	var ev impls.Event
	e.Do(c, &impls.Op{Code: impls.OpMalloc, Size: 16, Cache: -1, Slot: -1}, &ev)
	if ev.Outcome != impls.NoMem || ev.Legit {
		t.Errorf("16 bytes refused: %+v, want no excuse", ev)
	}
}

// A large block that comes and goes between small ones that stay uses the memory of
// go-wasm2go-tlsf up, with next to nothing live; that is a reason, and below it there is
// none.
func TestFragmented(t *testing.T) {
	const large = 84 << 16
	c := native(t)
	in := newTLSF(nil).(*wasm[tlsf.Memory])
	h := &heap{backend: in, live: &table[uint64]{}}
	for n := 0; ; n++ {
		if n > wasmMax/large {
			t.Fatal("memory does not end")
		}
		before := c.Refused()
		p := h.Malloc(c, large, 0)
		if p == 0 {
			if c.Refused() == before {
				t.Errorf("refused without reason with %d bytes live", h.bytes)
			}
			break
		}
		h.Malloc(c, 100, 0)
		h.Free(c, p)
	}
	if room := uint64(wasmMax - len(*in.mem)); in.full(0, room/2) || !in.full(0, room) {
		t.Errorf("room for %d bytes; half of that: full %v, all of it: full %v", room,
			in.full(0, room/2), in.full(0, room))
	}
}

// Just above a power of two, with its header, go-wasm2go-tlsf grows by a sixteenth more than
// is asked for: by 69 pages where 68 are left.
func TestRoundedUp(t *testing.T) {
	const large = 4<<20 - 2
	c := native(t)
	in := newTLSF(nil).(*wasm[tlsf.Memory])
	h := &heap{backend: in, live: &table[uint64]{}}
	for len(*in.mem) < wasmMax-68*wasmPage {
		if h.Malloc(c, 40000, 0) == 0 {
			t.Fatal("refused too early")
		}
	}
	before := c.Refused()
	if p := h.Malloc(c, large, 0); p != 0 || c.Refused() == before {
		t.Errorf("%#x, %d refusals with room for %d bytes", p, c.Refused()-before,
			wasmMax-len(*in.mem))
	}
}

// A user's realloc that refuses leaves the old slice good.
func TestReallocRefused(t *testing.T) {
	c := native(t)
	in := Wrap("user-full", func() any { return &full{} }).New(nil)
	defer in.Close()
	a, mem := in.Sizes(), in.Memory()
	p := a.Malloc(c, 100, 0)
	mem.Fill(p, 100, 5)
	if q := a.Realloc(c, p, fullMax, 0); q != 0 {
		t.Fatalf("realloc beyond the limit: %#x", q)
	}
	if at := mem.Verify(p, 100, 5); at != -1 {
		t.Errorf("the old memory is wrong at %d", at)
	}
	if a.Free(c, p); in.(*heap).backend.(*slices).a.(*full).out != 0 {
		t.Error("the free did not reach the allocator")
	}
}

// A panic goes through, and the heap it happened in is not used again.
func TestPanicDropsHeap(t *testing.T) {
	c := native(t)
	made, closed := 0, 0
	v := Wrap("bomb", func() any { made++; return &bomb{closed: &closed} })
	in := v.New(nil)
	func() {
		defer func() {
			if got := recover(); got != "out of order" {
				t.Errorf("panic %v, want the allocator's own", got)
			}
		}()
		in.Sizes().Malloc(c, 16, 0)
	}()
	in.Close()
	in.Close()
	v.New(nil).Close()
	if made != 3 || closed != 2 {
		t.Errorf("%d made and %d closed, want 3 (one to look at) and 2", made, closed)
	}
}

func TestWrongKind(t *testing.T) {
	defer func() {
		got, _ := recover().(string)
		if !strings.HasPrefix(got, "allocfuzz: golib: int is no allocator") {
			t.Errorf("panic %q", got)
		}
	}()
	Wrap("x", func() any { return 1 })
}

// Contents are reached through Memory only inside of what is memory.
func TestMemoryBounds(t *testing.T) {
	for _, v := range subjects() {
		t.Run(v.Name, func(t *testing.T) {
			c := native(t)
			in := v.New(nil)
			defer in.Close()
			p := in.Sizes().Malloc(c, 100, 0)
			mem := in.Memory()
			mem.Fill(p, 100, 7)
			mem.Flip(p+50, 0x80)
			if got := mem.Verify(p, 100, 7); got != 50 {
				t.Errorf("wrong byte at %d, want 50", got)
			}
			b := make([]byte, 1)
			if n := mem.Read(p+50, b); n != 1 || b[0] != impls.Pattern(7).Byte(50)^0x80 {
				t.Errorf("read %d bytes: %#x", n, b)
			}
			for _, a := range []impls.Addr{0, 1 << 62, 1<<64 - 1} {
				if mem.Contains(a, 8) {
					t.Errorf("%#x is memory", a)
				}
				mem.Fill(a, 8, 1)
				mem.Flip(a, 1)
				if mem.Verify(a, 8, 1) != 0 || mem.Read(a, b) != 0 {
					t.Errorf("%#x can be read", a)
				}
			}
			if !mem.Contains(p, 100) || mem.Contains(p, 1<<40) {
				t.Error("the object is no memory, or too much is")
			}
		})
	}
}

func TestTable(t *testing.T) {
	tab := &table[int]{}
	want := map[impls.Addr]int{}
	seed := uint64(1)
	for i := range 200000 {
		seed = seed*6364136223846793005 + 1442695040888963407
		a := (seed>>40%5000 + 1) * 16
		if seed>>63 == 0 {
			_, had := want[a]
			if tab.put(a, i) == had {
				t.Fatalf("put %d: new %v", a, had)
			}
			want[a] = i
			continue
		}
		v, had := want[a]
		got, ok := tab.take(a)
		if ok != had || got != v {
			t.Fatalf("take %d: %d %v, want %d %v", a, got, ok, v, had)
		}
		delete(want, a)
	}
	if tab.n != len(want) {
		t.Fatalf("%d entries, want %d", tab.n, len(want))
	}
	tab.each(func(a impls.Addr, v *int) bool {
		if want[a] != *v {
			t.Fatalf("%d: %d, want %d", a, *v, want[a])
		}
		delete(want, a)
		return true
	})
	if len(want) > 0 || tab.find(3) != nil {
		t.Fatalf("%d entries not visited", len(want))
	}
}

func TestNoAllocationPerOperation(t *testing.T) {
	for _, v := range Variants() {
		if v.Name == "go-gopkg-mcache" {
			continue // a sync.Pool may forget what it has, and does under the race detector
		}
		c := native(t)
		in := v.New(nil)
		e := execOn(v, in)
		ops := pairs()
		var ev impls.Event
		got := testing.AllocsPerRun(100, func() {
			for i := range ops {
				e.Do(c, &ops[i], &ev)
			}
		})
		if got != 0 {
			t.Errorf("%s: %v allocations in %d operations", v.Name, got, len(ops))
		}
		in.Close()
	}
}

// pairs allocates 64 objects of various sizes and frees them, twice.
func pairs() []impls.Op {
	var ops []impls.Op
	for range 2 {
		for i := range int32(64) {
			ops = append(ops, impls.Op{Code: impls.OpMalloc, Size: uint64(8 + i%13*11), Cache: -1,
				Slot: -1, Result: i, Pattern: impls.Pattern(i)})
		}
		for i := range int32(64) {
			free := impls.Op{Code: impls.OpFree, Cache: -1, Slot: i * 37 % 64, Result: -1}
			ops = append(ops, free)
		}
	}
	return ops
}

// plainOps are operations a second of what anybody would write without allocfuzz: make for every
// object, kept in a map by its number, with the same contents written and compared.
func plainOps(ops []impls.Op, atLeast int) float64 {
	live := map[int32][]byte{}
	var patterns [64]impls.Pattern
	began, n := time.Now(), 0
	for ; n < atLeast; n++ {
		op := &ops[n%len(ops)]
		if op.Code == impls.OpMalloc {
			b := make([]byte, op.Size)
			op.Pattern.Fill(b)
			live[op.Result], patterns[op.Result] = b, op.Pattern
			continue
		}
		if patterns[op.Slot].Verify(live[op.Slot]) >= 0 {
			panic("memory changed")
		}
		delete(live, op.Slot)
	}
	return float64(n) / time.Since(began).Seconds()
}

// BenchmarkChecked: operations a second with the contents of every object written when it is
// handed out and compared when it is freed, and how many times as many as a map and make do.
func BenchmarkChecked(b *testing.B) {
	ops := pairs()
	for i := range ops {
		ops[i].Size = ops[i].Size * 256 / 140 // up to 256 bytes
	}
	peer := 0.0
	for range 5 { // the best: whatever else runs, slows it down only
		peer = max(peer, plainOps(ops, 1<<19))
	}
	for _, v := range Variants() {
		b.Run(v.Name, func(b *testing.B) {
			c := native(b)
			in := v.New(nil)
			defer func() { in.Close() }()
			e := execOn(v, in)
			var ev impls.Event
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				e.Do(c, &ops[n%len(ops)], &ev)
				if ev.Outcome != impls.OK || ev.Bad >= 0 {
					b.Fatalf("operation %d: %s, wrong byte %d", n, ev.Outcome, ev.Bad)
				}
				if n++; n%(1<<14) == 0 { // an arena would be full some day
					in.Close()
					in = v.New(nil)
					e = execOn(v, in)
				}
			}
			rate := float64(n) / b.Elapsed().Seconds()
			b.ReportMetric(rate, "ops/s")
			b.ReportMetric(rate/peer, "×plain")
		})
	}
}

func BenchmarkOperations(b *testing.B) {
	for _, v := range subjects() {
		b.Run(v.Name, func(b *testing.B) {
			c := native(b)
			in := v.New(nil)
			defer in.Close()
			e := execOn(v, in)
			ops := pairs()
			var ev impls.Event
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				e.Do(c, &ops[n%len(ops)], &ev)
				n++
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "Mops/s")
		})
	}
}

// BenchmarkInstance is what a run costs beside its operations.
func BenchmarkInstance(b *testing.B) {
	for _, v := range Variants() {
		b.Run(v.Name, func(b *testing.B) {
			c := native(b)
			for b.Loop() {
				in := v.New(nil)
				in.Sizes().Malloc(c, 100, 0)
				in.Close()
			}
		})
	}
}
