package slub

import (
	"slices"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// TestDetach: from the end, objects of one slab come together, the one found last in front,
// over at most two objects of others at a time; three end the search.
func TestDetach(t *testing.T) {
	m := machine.New(machine.DefaultConfig())
	defer m.Close()
	for i := range 4 {
		m.PageAt(i).SetBlock(0)
	}
	k := &Cache{heap: &heap{m: m, boot: impls.BootOf(m, debugcheck.SLUB61)}}
	// A letter is a slab, its number an object of it.
	at := func(s string) impls.Addr {
		return m.Base + uint64(s[0]-'a')*4096 + uint64(s[1]-'0')*64
	}
	for _, test := range []struct {
		in, out []string
		from    int
	}{
		{[]string{"a1"}, []string{"a1"}, 0},
		{[]string{"a1", "a2", "a3"}, []string{"a1", "a2", "a3"}, 0},
		{[]string{"a1", "b1", "a2"}, []string{"b1", "a1", "a2"}, 1},
		{[]string{"a1", "b1", "c1", "a2"}, []string{"c1", "b1", "a1", "a2"}, 2},
		{[]string{"a1", "b1", "c1", "d1", "a2"}, []string{"a1", "b1", "c1", "d1", "a2"}, 4},
		{[]string{"a1", "b1", "a2", "b2", "c1", "a3"}, []string{"a1", "b1", "c1", "b2", "a2", "a3"},
			4},
	} {
		var in, want []impls.Addr
		for i := range test.in {
			in, want = append(in, at(test.in[i])), append(want, at(test.out[i]))
		}
		from := k.detach(m.PageOf(in[len(in)-1]), in)
		if from != test.from || !slices.Equal(in, want) {
			t.Errorf("%q: %#x from %d on, want %q from %d on", test.in, in, from, test.out,
				test.from)
		}
	}
}
