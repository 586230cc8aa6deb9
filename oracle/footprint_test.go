package oracle_test

import (
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// fiveObjects needs two slabs at its peak, and has one object live at the check.
const fiveObjects = "cache c size=64\ncpu0 a = alloc c\ncpu0 b = alloc c\ncpu0 d = alloc c\n" +
	"cpu0 e = alloc c\ncpu0 f = alloc c\ncpu0 free c b\ncpu0 free c d\ncpu0 free c e\n" +
	"cpu0 free c f\ncheck\n"

// kept adds n slabs with all objects free at places that at says, and makes the cache
// name its bounds.
func kept(n int, bounds func(k *impls.CacheState), at func(i int) impls.Place) toyBug {
	return toyBug{show: func(_ *toy, s *impls.Snapshot) {
		k := &s.Caches[0]
		k.Bounded = true
		bounds(k)
		for i := range n {
			b := s.AddSlab()
			page := uint64(20 + i)
			b.Page, b.Addr, b.First, b.Objects = int(page), page*toyPage, page*toyPage, toyObjects
			for j := range uint64(toyObjects) {
				b.Free = append(b.Free, b.First+j*k.Stride)
			}
			b.On = append(b.On, at(i))
		}
	}}
}

func ofPast(k *impls.CacheState) {}

func onFree(int) impls.Place { return impls.Place{List: impls.ListFree} }

// ofPresent are the bounds of a cache that keeps one free slab on its node and two for a
// CPU.
func ofPresent(k *impls.CacheState) { k.FullLists, k.Spare, k.Store = false, 1, 2 }

func onNode(i int) impls.Place { return impls.Place{List: impls.ListPartial, At: i} }

func onCPU(i int) impls.Place { return impls.Place{Kind: impls.OnCPUPartial, At: i} }

// present is a cache that keeps n slabs at a kind of place, and none at others.
func present(n int, at func(int) impls.Place) toyBug {
	add := kept(n, ofPresent, at).show
	return toyBug{show: func(t *toy, s *impls.Snapshot) {
		for i := range s.Slabs {
			s.Slabs[i].On = append(s.Slabs[i].On[:0], impls.Place{Kind: impls.OnCPU})
		}
		add(t, s)
	}}
}

// grows keeps another slab at each call, but for the last ones of a program.
var grows = toyBug{show: func(t *toy, s *impls.Snapshot) {
	if t.calls > 600 && t.calls < 1200 {
		kept(t.calls/100, ofPast, onFree).show(t, s)
	}
}}

// overAndOver allocates and frees one object over and over.
const overAndOver = "cache c size=64\ncpu0 repeat 700 {\n\tcpu0 a = alloc c\n\tcpu0 free c a\n}\n"

var footprintRules = []rule{
	{title: fault.Footprint, text: fiveObjects, bug: kept(1, ofPast, onFree)},
	{title: fault.Footprint, how: "free slabs of the node", text: fiveObjects,
		bug: present(2, onNode)},
	{title: fault.Footprint, how: "slabs of a CPU", text: fiveObjects, bug: present(3, onCPU)},
	{title: fault.Footprint, how: "in the middle of a long program", text: overAndOver, bug: grows},
}

// TestFootprintMost: as many slabs as the bounds allow are no finding, nor is any number
// where no bound is named.
func TestFootprintMost(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	none := func(k *impls.CacheState) { k.Bounded = false }
	held := func(k *impls.CacheState) { k.PerCPU = 3 }
	for _, tt := range []struct {
		name string
		bug  toyBug
	}{
		{"past", kept(0, ofPast, onFree)},
		{"held for its CPU", kept(1, held, onFree)},
		{"no bound", kept(9, none, onFree)},
		{"node", present(1, onNode)},
		{"CPU", present(2, onCPU)},
	} {
		text := "allocfuzz 1\n" + fiveObjects
		res := r.Run(compile(t, text), toySubject(tt.bug), oracle.Options{})
		if len(res.Faults) > 0 {
			t.Errorf("%s: %q", tt.name, res.Faults)
		}
	}
}

// TestFootprintTogether: contexts that grow a cache at once can each leave a slab more than
// one alone, and no further one is.
func TestFootprintTogether(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	const text = "allocfuzz 1\nmachine cpus=2\ncache c size=64\ncpu0 a = alloc c\n" +
		"cpu1 b = alloc c\ncpu0 free c a\ncpu1 free c b\ncheck\n"
	// Two live and four in flight fill one slab, one more is made, and one for each of the
	// two: four.
	for n, want := range []int{0, 0, 0, 0, 1} {
		res := r.Run(compile(t, text), toySubject(kept(n, ofPast, onFree)), oracle.Options{})
		if got := len(titles(res)); got != want || want > 0 && titles(res)[0] != fault.Footprint {
			t.Errorf("%d slabs more: %q", n, res.Faults)
		}
	}
}

// TestFootprintOfStream: a stream is looked at in between, too.
func TestFootprintOfStream(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	text := []byte("allocfuzz 1\n" + overAndOver)
	res, err := streamed(r, text, toySubject(grows), oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := titles(res); len(got) != 1 || got[0] != fault.Footprint {
		t.Errorf("found %q", got)
	}
}
