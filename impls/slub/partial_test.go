package slub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// stores are the variants that differ only in how a CPU's store is changed.
var stores = []string{
	"slub-2021-partial-cmpxchg", "slub-2021-partial-cmpxchg-irqson", "slub-2021-partial-irqsave",
	"slub-2021-partial-locallock",
}

// twoStored is a cache of two objects a slab whose CPUs store two slabs.
func twoStored() impls.CacheSpec {
	spec := specOf(2)
	spec.CPUPartial = 2
	return spec
}

// broughtBack is the program of S4a (a): while the task pushes the slab of d the handler
// uses up the slab of a, stores that of b, and brings the slab of a back above it.
func broughtBack() *program {
	return &program{cfg: machineOf(1, 16), spec: twoStored(), lines: []string{
		"cpu0 a=alloc", "cpu0 a2=alloc", "cpu0 b=alloc", "cpu0 b2=alloc",
		"cpu0 d=alloc", "cpu0 d2=alloc", "cpu0 e=alloc", "cpu0 e2=alloc",
		"cpu0 free a", "cpu0 free d",
		"irq0 x=alloc", "irq0 y=alloc", "irq0 free b", "irq0 free x",
	}}
}

// pushedInPop is the program of S4a′: the handler pushes while the task takes a slab.
func pushedInPop() *program {
	return &program{cfg: machineOf(1, 16), spec: twoStored(), lines: []string{
		"cpu0 a=alloc", "cpu0 a2=alloc", "cpu0 b=alloc", "cpu0 b2=alloc",
		"cpu0 d=alloc", "cpu0 d2=alloc", "cpu0 free a", "cpu0 x=alloc", "irq0 free b",
	}}
}

// realTime is the same program on a real-time machine.
func realTime(p *program) *program {
	p.cfg.Preempt = machine.PreemptRT
	return p
}

// TestStoreIsFound: one interrupt breaks the pushes and the pop at exactly the points
// between the first load of what changes and the write that relies on it.
func TestStoreIsFound(t *testing.T) {
	push := []string{
		"cpu0 free d/load slab.pobjects 1", "cpu0 free d/store slab.next 1",
		"cpu0 free d/store slab.pages 1", "cpu0 free d/store slab.pobjects 1",
		"cpu0 free d/cmpxchg cpu_slab.partial 1",
	}
	pop := []string{"cpu0 x=alloc/load slab.next 1", "cpu0 x=alloc/store cpu_slab.partial 1"}
	tests := []struct {
		variant string
		prog    *program
		want    []string
		says    string
	}{
		{stores[0], broughtBack(), push, "stored count wrong: slab.pages 2, counted 3"},
		{stores[1], broughtBack(), push, "stored count wrong: slab.pages 2, counted 3"},
		{stores[2], broughtBack(), nil, ""},
		{stores[0], pushedInPop(), nil, ""},
		{stores[1], pushedInPop(), pop, "slab lost"},
		{stores[2], pushedInPop(), nil, ""},
		{stores[3], broughtBack(), nil, ""},
		{stores[3], pushedInPop(), nil, ""},
		{stores[3], realTime(broughtBack()), nil, ""},
		{stores[3], realTime(pushedInPop()), nil, ""},
	}
	for i, tt := range tests {
		t.Run(fmt.Sprintf("%s/%d", tt.variant, i), func(t *testing.T) {
			w := newWorld(t, tt.variant, tt.prog)
			broken, says, taken := w.everywhere(at{}, w.interrupt(0))
			if diff := cmp.Diff(tt.want, broken); diff != "" {
				t.Errorf("broken places (-want +got):\n%s", diff)
			}
			if !strings.Contains(says, tt.says) {
				t.Errorf("got\n%swant %q", says, tt.says)
			}
			if taken < 50 {
				t.Errorf("interrupted at %d points only", taken)
			}
		})
	}
}

// TestSlabBroughtInPop: a handler that allocates while the task finds the store empty gives
// the CPU a slab of its own, which must not be forgotten when the task then takes the
// next one from the node.
func TestSlabBroughtInPop(t *testing.T) {
	p := &program{cfg: machineOf(1, 16), spec: specOf(2), lines: []string{
		"cpu0 a=alloc", "cpu0 a2=alloc", "cpu0 b=alloc", "cpu0 b2=alloc",
		"cpu0 free a", "cpu0 free b", "cpu0 drain", "cpu0 y=alloc", "irq0 x=alloc",
	}}
	p.spec.CPUPartial = 0
	for _, name := range stores {
		w := newWorld(t, name, p)
		w.silent(t, "allocation in the pop", w.interrupt(0))
	}
}

// TestStorePairs: where nothing comes in between, the designs of the store do the same:
// addresses, lists in their order and counts, with stores that are drained.
func TestStorePairs(t *testing.T) {
	for _, limit := range []int{0, 1, 2} {
		for objects := 1; objects <= 2; objects++ {
			p := &program{cfg: machineOf(1, 16), spec: specOf(objects)}
			p.spec.CPUPartial = limit
			var worlds []*world
			for _, name := range stores {
				worlds = append(worlds, newWorld(t, name, p))
			}
			full := 0
			same := func(lines []string) {
				if t.Failed() {
					return
				}
				p.lines = slices.Clone(lines)
				want := worlds[2].outcome(t)
				for _, w := range worlds {
					if diff := cmp.Diff(want, w.outcome(t)); diff != "" {
						t.Errorf("%s:\n%s\n(-%s +this)\n%s", w.v.Name, strings.Join(lines, "\n"),
							stores[2], diff)
					}
				}
				if stored(&worlds[2].snap) == max(limit, 1) {
					full++
				}
			}
			bodies("cpu0", 6, same)
			lines := cycle(8 * objects)
			for n := range lines {
				same(lines[:n+1])
			}
			if full == 0 {
				t.Errorf("cpu_partial=%d: no store was ever full", limit)
			}
		}
	}
}

// outcome plays the program undisturbed and returns all that there is to see of it.
func (w *world) outcome(t *testing.T) string {
	t.Helper()
	w.reset()
	w.sim(nil)
	w.check()
	if w.wrong() {
		t.Errorf("%s:\n%s\n%s", w.v.Name, strings.Join(w.prog.lines, "\n"), w.says())
	}
	return fmt.Sprintf("%v\n%+v\n%+v", w.slots, w.snap.Slabs, w.snap.Counts)
}

// stored is the number of slabs in the store of the only CPU.
func stored(s *impls.Snapshot) int {
	for _, n := range s.Counts {
		if n.Name == "slab.pages" {
			return n.Counted
		}
	}
	return -1
}

// cycle fills n objects, gives every second one back and then the others, and allocates
// again: stores fill, are drained, and are taken from.
func cycle(n int) []string {
	var lines []string
	for i := range n {
		lines = append(lines, fmt.Sprintf("cpu0 a%d=alloc", i))
	}
	for _, first := range []int{0, 1} {
		for i := first; i < n; i += 2 {
			lines = append(lines, fmt.Sprintf("cpu0 free a%d", i))
		}
		lines = append(lines, fmt.Sprintf("cpu0 b%d=alloc", first))
	}
	return lines
}
