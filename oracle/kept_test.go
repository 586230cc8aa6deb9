package oracle_test

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// arrayRules are the ways to break what is said of arrays for single CPUs; part of the
// table of TestTitles.
var arrayRules = []rule{
	{title: fault.CountWrong, how: "array", text: twoObjects, bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.Avail++ })},
	{title: fault.ArrayLimit, text: twoObjects, bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.Limit, a.Batch = 1, 1 })},
	{title: fault.ArrayLimit, how: "batch", text: twoObjects, bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.Batch = a.Limit + 1 })},
	{title: fault.ArrayLimit, how: "no batch", text: twoObjects, bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.Batch = 0 })},
	{title: fault.FreelistLeaves, how: "array", text: twoObjects, bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.Objects[0] += 8 })},
	{title: fault.FreelistLeaves, how: "array, no slab there", text: twoObjects, bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.Objects[0] = 16 * toyPage })},
	{title: fault.FreelistLeaves, how: "array, slab of another cache", bug: inArray(
		func(s *impls.Snapshot, a *impls.Array) {
			if len(s.Slabs) == 2 && a.Cache == 0 && len(a.Objects) > 0 {
				a.Objects[0] = s.Slabs[1].First + 3*s.Caches[1].Stride
			}
		}), text: "cache c size=64\ncache d size=64\ncpu0 a = alloc c\ncpu0 b = alloc d\ncheck\n"},
	{title: fault.FreeTwice, how: "in two arrays", text: twoObjects, bug: inArray(
		func(s *impls.Snapshot, a *impls.Array) {
			obj := a.Objects[0]
			b := s.AddArray(0, 1)
			b.Avail, b.Limit, b.Batch, b.Objects = 1, 4, 2, append(b.Objects, obj)
			s.Slabs[0].CPUFree = append(s.Slabs[0].CPUFree, obj)
		})},
	{title: fault.FreeTwice, how: "in an array and on the chain", text: twoObjects, bug: inArray(
		func(s *impls.Snapshot, a *impls.Array) {
			s.Slabs[0].Free = append(s.Slabs[0].Free, a.Objects[0])
			resettle(&s.Slabs[0])
		})},
	{title: fault.LiveOnFreelist, how: "in an array", text: twoObjects, bug: inArray(
		func(s *impls.Snapshot, a *impls.Array) {
			a.Objects, a.Avail = append(a.Objects, s.Slabs[0].First), a.Avail+1
			s.Slabs[0].CPUFree = append(s.Slabs[0].CPUFree, s.Slabs[0].First)
		})},
	{title: fault.FreeLost, how: "by an array", text: twoObjects, bug: inArray(
		func(s *impls.Snapshot, a *impls.Array) {
			a.Objects, a.Avail = a.Objects[1:], a.Avail-1
			s.Slabs[0].CPUFree = s.Slabs[0].CPUFree[:a.Avail]
		})},
	{title: fault.ReuseOrder, how: "array", text: fiveOfC + "cpu0 free c a\ncpu0 free c b\n" +
		"cpu0 g = alloc c\n", bug: toyBug{fifo: true, show: inArray(onlyFirst).show}},
	{title: fault.HeldOn, how: "array, flush", text: twoObjects + "cpu0 flush c\n",
		bug: inArray(nil)},
	{title: fault.HeldOn, how: "array, tune", text: twoObjects + "cpu0 tune c batch=2 limit=8\n",
		bug: inArray(nil)},
	{title: fault.ArrayLimit, how: "tuned limit", text: fullSlab + "cpu0 tune c batch=2 limit=4\n",
		bug: inArray(nil)},
	{title: fault.ArrayLimit, how: "tuned batch", text: fullSlab + "cpu0 tune c batch=1 limit=8\n",
		bug: inArray(nil)},
	{title: fault.ArrayLimit, how: "no array", text: fullSlab + "cpu0 tune c batch=1 limit=0\n",
		bug: inArray(nil)},
	{title: fault.HeldOn, how: "array, offline", text: "machine cpus=2\n" + twoObjects +
		"cpu0 offline cpu=1\n", bug: inArray(
		func(_ *impls.Snapshot, a *impls.Array) { a.CPU = 1 })},
	{title: fault.ReapWrong, how: "too many", text: twoObjects + "cpu0 reap\n",
		bug: toyBug{setUp: withPages(0, 0), reap: func(*toy) int { return 1 }}},
	{title: fault.ReuseOrder, how: "reap", text: twoFreeSlabs + "cpu0 reap\n",
		bug: reaping(0)},
	{title: fault.ReapWrong, how: "too few", text: twoObjects + "cpu0 reap\n",
		bug: toyBug{setUp: withPages(1, 0), reap: func(t *toy) int {
			t.m.PageLayer().(*toyPages).hides = 0
			return 0
		}}},
}

// reaping gives slabs up, one by one by their numbers in a list that is in their order, and
// says that this is no page: twoFreeSlabs has its pages from nowhere.
func reaping(slabs ...int) toyBug {
	return toyBug{setUp: withPages(0, 0), reap: func(t *toy) int {
		for _, i := range slabs {
			t.caches[0].drop(i)
		}
		return 0
	}, show: func(_ *toy, s *impls.Snapshot) {
		for i := range s.Slabs {
			s.Slabs[i].On[0].At = i
		}
	}}
}

// TestReclaimed: slabs may go from the end of their list, or all.
func TestReclaimed(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := compile(t, "allocfuzz 1\n"+twoFreeSlabs+"cpu0 reap\n")
	for _, slabs := range [][]int{nil, {1}, {1, 0}, {0, 0}} {
		res := r.Run(p, toySubject(reaping(slabs...)), oracle.Options{})
		if len(res.Faults) > 0 {
			t.Errorf("%v: %q", slabs, res.Faults)
		}
	}
}

// twoFreeSlabs are free; the toy's pages are no pages of the page layer.
const twoFreeSlabs = fiveOfC + "cpu0 free c a\ncpu0 free c b\ncpu0 free c d\ncpu0 free c e\n" +
	"cpu0 free c f\n"

const fiveOfC = "cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncpu0 d = alloc c\n" +
	"cpu0 e = alloc c\ncpu0 f = alloc c\n"

// inArray shows all free objects of each cache as those of an array for CPU 0, in the order
// in which the toy reuses them, and then what bend makes of the array of the first; nil for
// nothing.
func inArray(bend func(s *impls.Snapshot, a *impls.Array)) toyBug {
	return toyBug{show: func(t *toy, s *impls.Snapshot) {
		for i, k := range t.caches {
			if k.dead {
				return
			}
			a := s.AddArray(i, 0)
			a.Avail, a.Limit, a.Batch = len(k.list), 8, 2
			a.Objects = append(a.Objects, k.list...)
		}
		for i := range s.Slabs {
			b := &s.Slabs[i]
			b.CPUFree, b.Free = append(b.CPUFree, b.Free...), b.Free[:0]
			resettle(b)
		}
		if bend != nil {
			bend(s, &s.Arrays[0])
		}
	}}
}

// onlyFirst leaves the free objects of all slabs but the first where they really are: the
// second is partial, and only the array decides what comes next.
func onlyFirst(s *impls.Snapshot, a *impls.Array) {
	for i := range s.Slabs[1:] {
		b := &s.Slabs[1+i]
		b.Free, b.CPUFree = append(b.Free, b.CPUFree...), b.CPUFree[:0]
		resettle(b)
		a.Objects = slices.DeleteFunc(a.Objects, func(obj impls.Addr) bool {
			return obj/toyPage == b.First/toyPage
		})
	}
	a.Avail = len(a.Objects)
}

// TestArraysShown: objects in arrays that keep every rule are silent, also where another
// CPU's array is to be emptied and where the bounds are those that were asked for.
func TestArraysShown(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := toySubject(inArray(nil))
	for _, text := range []string{
		twoObjects + "cpu0 d = alloc c\ncheck\n",
		"machine cpus=2\n" + twoObjects + "cpu0 offline cpu=1\n",
		fullSlab + "cpu0 flush c\ncpu0 tune c batch=2 limit=8\n",
		fiveOfC + "cpu0 free c a\ncpu0 free c b\ncpu0 free c f\ncpu0 g = alloc c\n" +
			"cpu0 h = alloc c\n",
		// On another CPU nothing is promised of the array of this one.
		"machine cpus=2\n" + fiveOfC + "cpu0 free c a\ncpu0 g = alloc c\n",
	} {
		res := r.Run(compile(t, "allocfuzz 1\n"+text), v, oracle.Options{})
		if len(res.Faults) > 0 {
			t.Errorf("%s: %q", text, res.Faults)
		}
	}
	// A task that may leave its CPU is promised nothing: it may have left the array behind.
	v = toySubject(toyBug{fifo: true, show: inArray(onlyFirst).show})
	text := strings.ReplaceAll(fiveOfC+"cpu0 free c a\ncpu0 free c b\ncpu0 g = alloc c\n",
		"cpu0", "t")
	text = strings.Replace(text, "\n", "\ntask t cpu=0\n", 1)
	if res := r.Run(compile(t, "allocfuzz 1\n"+text), v, oracle.Options{}); len(res.Faults) > 0 {
		t.Errorf("%s: %q", text, res.Faults)
	}
}
