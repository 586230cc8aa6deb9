package oracle_test

import (
	"slices"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// oneList shows the slabs of the toy's cache on one list: by page in the order of
// pages once there are so many, else as they should be.
func oneList(pages []int, first int) toyBug {
	return toyBug{show: func(_ *toy, s *impls.Snapshot) {
		k := &s.Caches[0]
		k.Ordered, k.FirstNotFull = true, -1
		at := 0
		for phase := range 3 {
			for i := range s.Slabs {
				b := &s.Slabs[i]
				if (b.Inuse < b.Objects) != (phase > 0) || (b.Inuse == 0) != (phase == 2) {
					continue
				}
				if phase > 0 && k.FirstNotFull < 0 {
					k.FirstNotFull = b.Page
				}
				b.On = []impls.Place{{List: impls.ListAny, At: at}}
				at++
			}
		}
		if pages == nil || len(s.Slabs) < len(pages) || s.Slabs[1].Inuse > 0 {
			return
		}
		k.FirstNotFull = first
		for i := range s.Slabs {
			s.Slabs[i].On[0].At = slices.Index(pages, s.Slabs[i].Page)
		}
	}}
}

// TestOrdered: full slabs, then partial ones, then free ones, and the first that is
// not full is the one that is stored. The toy's pages 1, 2, 3 and 4 are full, free,
// partial and full.
func TestOrdered(t *testing.T) {
	text := "allocfuzz 1\ncache c size=64\n"
	for _, name := range []string{"a", "b", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n",
		"o", "p", "q"} {
		text += "cpu0 " + name + " = alloc c\n"
	}
	text += "cpu0 free c j\ncpu0 free c f\ncpu0 free c g\ncpu0 free c h\ncpu0 free c i\ncheck\n"
	p := compile(t, text)
	tests := []struct {
		name  string
		pages []int
		first int
		want  []fault.Title
	}{
		{"as it should be", []int{1, 4, 3, 2}, 3, nil},
		{"full slabs in another order", []int{4, 1, 3, 2}, 3, nil},
		{"stored is a full one", []int{1, 4, 3, 2}, 4, []fault.Title{fault.ListOrder}},
		{"stored is a later one", []int{1, 4, 3, 2}, 2, []fault.Title{fault.ListOrder}},
		{"stored is none", []int{1, 4, 3, 2}, -1, []fault.Title{fault.ListOrder}},
		{"free before partial", []int{1, 4, 2, 3}, 2, []fault.Title{fault.ListOrder}},
		{"full behind partial", []int{1, 3, 4, 2}, 3, []fault.Title{fault.ListOrder}},
		{"full at the end", []int{1, 3, 2, 4}, 3, []fault.Title{fault.ListOrder}},
	}
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := titles(r.Run(p, toySubject(oneList(tt.pages, tt.first)), oracle.Options{}))
			if !slices.Equal(got, tt.want) {
				t.Errorf("found %q, want %q", got, tt.want)
			}
		})
	}
}
