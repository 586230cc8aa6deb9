package slub_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slub"
)

// one runs f as the only task of a machine with one variant on it.
func one(t *testing.T, name string, cfg machine.Config, f func(c *machine.Ctx, in impls.Instance)) {
	t.Helper()
	m := machine.New(cfg)
	defer m.Close()
	in := variant(t, name).New(m)
	m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		c.BeginLine(0, [2]int32{})
		f(c, in)
		c.EndLine(machine.After)
	})
	if err := m.Sim().Run(nil); err != nil {
		t.Fatalf("%v\n%s", err, err.(*machine.Panic).Stack)
	}
	for _, f := range m.Faults() {
		t.Errorf("fault: %v", f)
	}
}

// snap is the state of an instance.
func snap(t *testing.T, in impls.Instance) *impls.Snapshot {
	t.Helper()
	s := &impls.Snapshot{}
	if !in.Snapshot(s) {
		t.Fatal("no snapshot")
	}
	return s
}

func TestLayout(t *testing.T) {
	type want struct {
		Stride, Link   uint64
		Order, Objects int
		Err            error
	}
	spec := func(size, align uint64, objects, order int) impls.CacheSpec {
		s := impls.NewSpec("c", size)
		s.Align, s.Objects, s.Order = align, objects, order
		return s
	}
	tests := []struct {
		name string
		cfg  machine.Config
		spec impls.CacheSpec
		want want
	}{
		{"a word at least", machineOf(1, 16), spec(1, 0, -1, -1), want{8, 0, 0, 512, nil}},
		{"padded to the word", machineOf(1, 16), spec(20, 0, -1, -1), want{24, 8, 0, 170, nil}},
		{"half a page", machineOf(1, 16), spec(100, 0, -1, -1), want{104, 48, 0, 39, nil}},
		{"aligned", machineOf(1, 16), spec(40, 256, -1, -1), want{256, 16, 0, 16, nil}},
		{"aligned to a page", machineOf(1, 16), spec(40, 4096, 2, -1), want{4096, 16, 1, 2, nil}},
		{"too many for a page", machineOf(1, 16), spec(1024, 0, 5, -1), want{1024, 512, 1, 5, nil}},
		{"exactly n", machineOf(1, 16), spec(64, 0, 3, -1), want{64, 32, 0, 3, nil}},
		{"order asked for", machineOf(1, 16), spec(64, 0, -1, 2), want{64, 32, 2, 256, nil}},
		{"both asked for", machineOf(1, 16), spec(64, 0, 3, 1), want{64, 32, 1, 3, nil}},
		{"enough for the CPUs", machineOf(1, 1024), spec(1000, 0, -1, -1),
			want{1000, 496, 1, 8, nil}},
		{"more CPUs, more objects", machineOf(8, 1024), spec(1000, 0, -1, -1),
			want{1000, 496, 3, 32, nil}},
		{"little waste", machineOf(1, 1024), spec(2600, 0, -1, -1), want{2600, 1296, 3, 12, nil}},
		{"larger than a page", machineOf(1, 16), spec(9000, 0, -1, -1),
			want{9000, 4496, 2, 1, nil}},
		{"the whole arena", machineOf(1, 16), spec(65536, 0, -1, -1),
			want{65536, 32768, 4, 1, nil}},
		{"at most an eighth of the arena", machineOf(1, 16), spec(4096, 0, -1, -1),
			want{4096, 2048, 1, 2, nil}},
		{"the count's width", func() machine.Config {
			cfg := machineOf(1, 16)
			cfg.PageSize = 1 << 20
			return cfg
		}(), spec(8, 0, -1, -1), want{8, 0, 0, 32767, nil}},
		{"no size", machineOf(1, 16), spec(0, 0, -1, -1), want{Err: impls.ErrInvalid}},
		{"too large", machineOf(1, 15), spec(9*4096, 0, -1, -1), want{Err: impls.ErrInvalid}},
		{"absurd", machineOf(1, 16), spec(1<<63, 0, -1, -1), want{Err: impls.ErrInvalid}},
		{"absurd number", machineOf(1, 16), spec(64, 0, 1<<40, -1), want{Err: impls.ErrInvalid}},
		{"no objects", machineOf(1, 16), spec(64, 0, 0, -1), want{Err: impls.ErrInvalid}},
		{"no power of two", machineOf(1, 16), spec(64, 24, -1, -1), want{Err: impls.ErrInvalid}},
		{"aligned too much", machineOf(1, 16), spec(64, 8192, -1, -1), want{Err: impls.ErrInvalid}},
		{"order too large", machineOf(1, 16), spec(64, 0, -1, 5), want{Err: impls.ErrInvalid}},
		{"order too small", machineOf(1, 16), spec(4096, 0, 3, 1), want{Err: impls.ErrInvalid}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, v := range slub.Variants() {
				w := tt.want
				if v.Year < 2021 {
					w.Link = 0
				}
				one(t, v.Name, tt.cfg, func(c *machine.Ctx, in impls.Instance) {
					cache, err := in.Objects().NewCache(c, tt.spec)
					if !errors.Is(err, w.Err) {
						t.Fatalf("%s: error %v, want %v", v.Name, err, w.Err)
					}
					if err != nil {
						return
					}
					a := cache.Alloc(c, 0)
					s := snap(t, in)
					got := want{s.Caches[0].Stride, s.Caches[0].LinkOffset, s.Slabs[0].Order,
						s.Slabs[0].Objects, nil}
					if diff := cmp.Diff(w, got); diff != "" {
						t.Errorf("%s (-want +got):\n%s", v.Name, diff)
					}
					if a%cache.Align() != 0 || cache.Align() < tt.spec.Align || cache.Align() < 8 {
						t.Errorf("%s: %#x, aligned to %d", v.Name, a, cache.Align())
					}
					cache.Free(c, a)
				})
			}
		})
	}
}

func TestUnsupported(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		one(t, name, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
			ctor, word := impls.NewSpec("c", 64), impls.NewSpec("c", 64)
			ctor.Ctor, ctor.Kmalloc = true, true
			word.Flags = []string{"purple"}
			for _, tt := range []struct {
				spec impls.CacheSpec
				want error
			}{{ctor, impls.ErrInvalid}, {word, impls.ErrInvalid}} {
				if _, err := in.Objects().NewCache(c, tt.spec); err != tt.want {
					t.Errorf("%+v: %v", tt.spec, err)
				}
			}
		})
	})
}

// TestKeeps counts the slabs that remain when objects of n one-object slabs are
// freed: min_partial on the node, cpu_partial in the CPU's store, one the CPU's.
func TestKeeps(t *testing.T) {
	tests := []struct {
		variant         string
		minPartial, cpu int
		want            int // slabs after all were freed
		drained         int // and after a drain
	}{
		{"slub-2008-irqsave", 0, -1, 1, 0},
		{"slub-2008-irqsave", 1, -1, 2, 1},
		{"slub-2008-irqsave", 3, -1, 4, 3},
		{"slub-2008-irqsave", -1, -1, 6, 5},
		{"slub-2008-seq", 3, -1, 4, 3},
		{"slub-2021-partial-cmpxchg", 0, 3, 3, 0},
		{"slub-2021-partial-cmpxchg-irqson", 0, 3, 3, 0},
		{"slub-2021-partial-irqsave", 0, 0, 2, 0},
		{"slub-2021-partial-irqsave", 0, 1, 2, 0},
		{"slub-2021-partial-irqsave", 0, 3, 3, 0}, // stored 1 2 3, drained, 1 2
		{"slub-2021-partial-irqsave", 2, 4, 4, 2}, // drained once, 2 of 4 kept, then 1
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s %d %d", tt.variant, tt.minPartial, tt.cpu), func(t *testing.T) {
			one(t, tt.variant, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
				spec := impls.NewSpec("c", 64)
				spec.Objects, spec.MinPartial, spec.CPUPartial = 1, tt.minPartial, tt.cpu
				cache, err := in.Objects().NewCache(c, spec)
				if err != nil {
					t.Fatal(err)
				}
				n := 10
				if tt.minPartial == 2 {
					n = 6
				} else if tt.cpu == 3 {
					n = 6
				}
				var a []impls.Addr
				for range n {
					a = append(a, cache.Alloc(c, 0))
				}
				for _, a := range a {
					cache.Free(c, a)
				}
				if got := len(snap(t, in).Slabs); got != tt.want {
					t.Errorf("%d slabs kept, want %d", got, tt.want)
				}
				in.Pages().Drain(c)
				if got := len(snap(t, in).Slabs); got != tt.drained {
					t.Errorf("%d slabs after a drain, want %d", got, tt.drained)
				}
				if got := cache.Shrink(c); got != 0 {
					t.Errorf("shrink answers %d with nothing left", got)
				}
				if got := snap(t, in); len(got.Slabs) != 0 || got.PagesFree != 16 {
					t.Errorf("shrunk to %d slabs and %d free pages", len(got.Slabs), got.PagesFree)
				}
			})
		})
	}
}

// onNode lists the free objects of the slabs on the node's list, in its order.
func onNode(s *impls.Snapshot) []int {
	free := map[int]int{}
	for i := range s.Slabs {
		for _, at := range s.Slabs[i].On {
			if at.Kind == impls.OnList {
				free[at.At] = len(s.Slabs[i].Free)
			}
		}
	}
	var list []int
	for i := range len(free) {
		list = append(list, free[i])
	}
	return list
}

// TestShrink puts slabs in order by what is free in them, up to 32, gives empty
// ones back, and says whether slabs remain.
func TestShrink(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		one(t, name, machineOf(2, 64), func(c *machine.Ctx, in impls.Instance) {
			spec := impls.NewSpec("c", 64)
			spec.Objects, spec.MinPartial, spec.CPUPartial = 40, 10, 2
			cache, err := in.Objects().NewCache(c, spec)
			if err != nil {
				t.Fatal(err)
			}
			frees := []int{33, 2, 40, 32, 1, 34, 2, 0, 40, 7}
			slabs := make([][]impls.Addr, len(frees))
			for i := range slabs {
				c.BeginLine(0, [2]int32{})
				for range spec.Objects {
					slabs[i] = append(slabs[i], cache.Alloc(c, 0))
				}
			}
			cache.Alloc(c, 0) // the last one belongs to the CPU now
			for i, n := range frees {
				c.BeginLine(0, [2]int32{})
				for j := range n {
					cache.Free(c, slabs[i][j])
				}
			}
			c.BeginLine(0, [2]int32{})
			if got := cache.Shrink(c); got != 1 {
				t.Errorf("shrink answers %d with slabs left", got)
			}
			s := snap(t, in)
			list := onNode(s)
			if diff := cmp.Diff([]int{1, 2, 2, 7, 32}, list[:5]); diff != "" || len(list) != 8 {
				t.Errorf("order %v (-want +got):\n%s", list, diff)
			}
			if got := len(s.Slabs); got != 9 {
				t.Errorf("%d slabs, want 9", got)
			}
			if err := cache.Destroy(c); err != impls.ErrBusy {
				t.Errorf("destroy with live objects: %v", err)
			}
			for i, n := range frees {
				c.BeginLine(0, [2]int32{})
				for j := n; j < spec.Objects; j++ {
					cache.Free(c, slabs[i][j])
				}
			}
			if a := cache.Alloc(c, 0); a == 0 {
				t.Error("no object after a destroy that was refused")
			}
		})
	})
}

// TestManySlabs: an operation that goes over every slab may take as long as there
// are slabs.
func TestManySlabs(t *testing.T) {
	const slabs = 3000
	each(t, func(t *testing.T, name string) {
		one(t, name, machineOf(1, 4096), func(c *machine.Ctx, in impls.Instance) {
			spec := impls.NewSpec("c", 64)
			spec.Objects, spec.MinPartial, spec.CPUPartial = 2, slabs, slabs
			cache, _ := in.Objects().NewCache(c, spec)
			a := make([]impls.Addr, 2*slabs)
			for i := range a {
				c.BeginLine(0, [2]int32{})
				a[i] = cache.Alloc(c, 0)
			}
			for half := range 2 {
				for i := half; i < len(a); i += 2 {
					c.BeginLine(0, [2]int32{})
					cache.Free(c, a[i])
				}
				c.BeginLine(0, [2]int32{})
				cache.Shrink(c)
				want := slabs * (1 - half)
				if got := len(snap(t, in).Slabs); got != want {
					t.Errorf("%d slabs left, want %d", got, want)
				}
			}
		})
	})
}

// TestNodeOrder: a slab that a CPU lets go with free objects of its own comes to
// the front of the node's list, one that was full to the end.
func TestNodeOrder(t *testing.T) {
	one(t, "slub-2008-irqsave", machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
		spec := impls.NewSpec("c", 64)
		spec.Objects = 4
		cache, _ := in.Objects().NewCache(c, spec)
		var a []impls.Addr
		for range 9 { // two full slabs, and one object of a third
			a = append(a, cache.Alloc(c, 0))
		}
		cache.Free(c, a[0]) // the first slab has one free
		cache.Free(c, a[4]) // the second has two
		cache.Free(c, a[5])
		in.Pages().Drain(c) // the third has three
		if diff := cmp.Diff([]int{3, 1, 2}, onNode(snap(t, in))); diff != "" {
			t.Errorf("free objects on the node's list (-want +got):\n%s", diff)
		}
		if b := cache.Alloc(c, 0); b < a[8] {
			t.Errorf("allocation from %#x, want the first slab of the list, %#x", b, a[8])
		}
	})
}

// TestStock: taking a slab from the node fills the CPU's store to half its size
// and one more, with the free objects that the slabs have.
func TestStock(t *testing.T) {
	const name = "slub-2021-partial-irqsave"
	for limit, want := range map[int]int{0: 0, 1: 1, 2: 2, 4: 3} {
		one(t, name, machineOf(1, 64), func(c *machine.Ctx, in impls.Instance) {
			spec := impls.NewSpec("c", 64)
			spec.Objects, spec.MinPartial, spec.CPUPartial = 4, 0, limit
			cache, _ := in.Objects().NewCache(c, spec)
			var a []impls.Addr
			for range 40 {
				a = append(a, cache.Alloc(c, 0))
			}
			for i := 0; i < 40; i += 4 {
				cache.Free(c, a[i])
				cache.Free(c, a[i+1])
			}
			in.Pages().Drain(c)
			cache.Alloc(c, 0)
			s := snap(t, in)
			stored := map[string]int{}
			for _, n := range s.Counts {
				stored[n.Name] = n.Stored
			}
			if stored["slab.pages"] != want || stored["slab.pobjects"] != 2*want {
				t.Errorf("cpu_partial=%d: %d slabs and %d objects in store, want %d and %d", limit,
					stored["slab.pages"], stored["slab.pobjects"], want, 2*want)
			}
			if got := stored["node.nr_partial"]; got != 9-want {
				t.Errorf("cpu_partial=%d: %d slabs on the node, want %d", limit, got, 9-want)
			}
		})
	}
}

// TestReuse: what was freed last comes back first, where that is promised.
func TestReuse(t *testing.T) {
	for _, v := range slub.Variants() {
		if !v.Caps.Has(impls.CapReuseLIFO) {
			continue
		}
		one(t, v.Name, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
			cache, _ := in.Objects().NewCache(c, impls.NewSpec("c", 64))
			var a []impls.Addr
			for range 20 {
				a = append(a, cache.Alloc(c, 0))
			}
			for _, i := range []int{3, 19, 0, 7} {
				cache.Free(c, a[i])
				if got := cache.Alloc(c, 0); got != a[i] {
					t.Errorf("%s: %#x after free of %#x", v.Name, got, a[i])
				}
			}
		})
	}
}

// TestVariants holds what is declared against what there is.
func TestVariants(t *testing.T) {
	for _, v := range slub.Variants() {
		t.Run(v.Name, func(t *testing.T) {
			if v.Sound == (v.Finds != impls.Finds{}) {
				t.Error("neither sound nor found, or both")
			}
			for _, title := range []string{v.Finds.Step, v.Finds.Consequence} {
				if _, ok := fault.Lookup(fault.Title(title)); title != "" && !ok {
					t.Errorf("%q is no title", title)
				}
			}
			has := map[string]bool{}
			for _, a := range v.Axes {
				has[a.Name] = true
			}
			if v.Row == "" || v.Year == 0 || v.About == "" || len(has) != len(v.Axes) ||
				!has["fast path"] || !has["exclusion"] || !has["partial list"] ||
				!has["size classes"] ||
				has["debug locking"] != (v.Year >= 2022) {
				t.Errorf("incomplete: %+v", v)
			}
			for _, f := range v.Racy {
				if f.Class != machine.ClassRacy || f.Reason == "" {
					t.Errorf("%s is racy without a reason", f.Name())
				}
			}
			one(t, v.Name, machineOf(1, 64), func(c *machine.Ctx, in impls.Instance) {
				sizes(t, c, in)
			})
		})
	}
}

// sizes allocates by size and takes pages.
func sizes(t *testing.T, c *machine.Ctx, in impls.Instance) {
	al, mem := in.Sizes(), in.Memory()
	if al != in.Sizes() {
		t.Error("two allocators by size")
	}
	var got []impls.Addr
	for size := uint64(1); size <= 20000; size = size*2 + 1 {
		a := al.Malloc(c, size, impls.FlagZero)
		if a == 0 || al.Usable(c, a) < size || mem.Verify(a, size, 0) >= 0 {
			t.Fatalf("malloc(%d) = %#x", size, a)
		}
		mem.Fill(a, size, impls.Pattern(size))
		b := al.Realloc(c, a, size+size/2, 0)
		if b == 0 || mem.Verify(b, size, impls.Pattern(size)) >= 0 {
			t.Fatalf("realloc of %d bytes loses them", size)
		}
		got = append(got, b)
	}
	if a := al.Memalign(c, 512, 40, 0); a == 0 || a%512 != 0 {
		t.Errorf("memalign(512) = %#x", a)
	} else {
		got = append(got, a)
	}
	p := in.Pages().AllocPages(c, 1, 0)
	if p == 0 {
		t.Error("no pages")
	}
	in.Pages().FreePages(c, p)
	for _, a := range got {
		al.Free(c, a)
	}
	in.Pages().Drain(c)
	in.Close()
}
