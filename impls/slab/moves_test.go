package slab

import (
	"testing"
	"time"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// designs are the lists of the debate of 2001, by row.
var designs = []struct {
	name  string
	lists func(*Cache) lists
}{{"S1a", newOneList}, {"S1c", newThreeLists}, {"S1d", newThreeListsOpt}}

// TestMoves counts how often a slab leaves a list, which is what the debate was about. With
// one list a mark moves over slabs that get full, and only what is emptied goes to the tail;
// with three every change of fullness moves the slab, with two objects a slab at each of the
// four operations. The optimised form files a free slab among the partial ones even when its
// one object fills it: one move more for every allocation, and none more with two objects.
func TestMoves(t *testing.T) {
	for _, tt := range []struct {
		objects int
		ops     string // "a" allocates, a digit frees the object of that number
		want    [3]int // S1a, S1c, S1d
	}{
		{1, "a", [3]int{0, 1, 2}},
		{1, "a0", [3]int{0, 2, 3}},
		{1, "a0a1", [3]int{0, 4, 6}},
		{2, "a", [3]int{0, 1, 1}},
		{2, "aa", [3]int{0, 2, 2}},
		{2, "aa0", [3]int{0, 3, 3}},
		{2, "aa01", [3]int{1, 4, 4}},
		{3, "aaa012", [3]int{1, 4, 4}},
	} {
		for i, d := range designs {
			if got := played(t, d.lists, tt.objects, tt.ops); got != tt.want[i] {
				t.Errorf("%s, %d objects, %s: %d moves, want %d", d.name, tt.objects, tt.ops, got,
					tt.want[i])
			}
		}
	}
}

// played plays operations and returns the moves.
func played(t *testing.T, of func(*Cache) lists, objects int, ops string) int {
	t.Helper()
	m := machine.New(machine.DefaultConfig())
	defer m.Close()
	inst := plain(of).new(m)
	spec := impls.NewSpec("c", 64)
	spec.Objects = objects
	k, err := inst.Objects().NewCache(nil, spec)
	if err != nil {
		t.Fatal(err)
	}
	m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
		var got []impls.Addr
		for _, op := range ops {
			if op == 'a' {
				got = append(got, k.Alloc(c, 0))
			} else {
				k.Free(c, got[op-'0'])
			}
		}
	})
	if err := m.Sim().Run(nil); err != nil {
		t.Fatal(err)
	}
	var s impls.Snapshot
	inst.Snapshot(&s)
	return s.Caches[0].Moves
}

// BenchmarkLists is the loop by which the debate was decided, objects of 10 bytes taken by the
// thousand and given back, on three designs in turns, as ratios to the one list. The figures of
// 2001: 1.06 for three lists, 1.01 optimised.
func BenchmarkLists(b *testing.B) {
	const objects = 1000
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.Pages = true, 64
	var run [3]func()
	for i, d := range designs {
		m := machine.New(cfg)
		defer m.Close()
		k, err := plain(d.lists).new(m).Objects().NewCache(nil, impls.NewSpec("c", 16))
		if err != nil {
			b.Fatal(err)
		}
		c := m.NativeCtx(0, "bench")
		defer c.Release()
		var got [objects]impls.Addr
		run[i] = func() {
			for j := range got {
				got[j] = k.Alloc(c, 0)
			}
			for j := range got {
				k.Free(c, got[j])
			}
		}
	}
	var best [3]time.Duration
	for b.Loop() {
		for i, f := range run {
			start := time.Now()
			f()
			if d := time.Since(start); best[i] == 0 || d < best[i] {
				best[i] = d
			}
		}
	}
	b.ReportMetric(float64(best[1])/float64(best[0]), "S1c/S1a")
	b.ReportMetric(float64(best[2])/float64(best[0]), "S1d/S1a")
	b.ReportMetric(float64(best[0])/objects, "ns/pair")
}
