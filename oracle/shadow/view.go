package shadow

import (
	"encoding/binary"
	"slices"
	"sort"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// A view is a slab as an operation finds it, and as it changes while the reports of
// the operation are predicted.
type view struct {
	k     *cache
	b     *impls.SlabState
	d     debugcheck.Slab // as stored
	chain []impls.Addr    // the free objects in order; the last may be no object
	said  string          // the report behind the last repair of d or chain, "" for none
	left  bool            // of a bulk allocation: it has taken all that is free, or retired it
}

// view is slab i of the state before the operation. The fields of a slab that no misuse
// has touched are what they must be, whatever is stored.
func (s *Shadow) view(k *cache, i int) *view {
	b := &s.before.Slabs[i]
	if v, ok := s.views[i]; ok {
		return v
	}
	v := &view{k: k, b: b, d: s.stored[i], chain: b.Free}
	if s.views != nil {
		s.views[i] = v
	}
	if !s.odd[b.Page] {
		v.d.Objects, v.d.Inuse, v.d.Frozen = v.d.Max, v.d.Max-len(v.chain), s.retired[b.Page]
	}
	return v
}

// viewOf is the slab whose memory holds a; nil when it is no slab of k.
func (s *Shadow) viewOf(k *cache, a impls.Addr) *view {
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		if a >= b.Addr && a-b.Addr < s.PageSize<<uint(b.Order) &&
			s.before.Caches[b.Cache].Handle == k.Debugger.(impls.Cache) {
			return s.view(k, i)
		}
	}
	return nil
}

// listed are the slabs of k on a list, in its order.
func (s *Shadow) listed(k *cache, list impls.ListKind) []*view {
	var views []*view
	var at []int
	for i := range s.before.Slabs {
		b := &s.before.Slabs[i]
		if s.before.Caches[b.Cache].Handle != k.Debugger.(impls.Cache) {
			continue
		}
		for _, p := range b.On {
			if p.Kind == impls.OnList && p.List == list {
				views, at = append(views, s.view(k, i)), append(at, p.At)
			}
		}
	}
	sort.Sort(&byPlace{views, at})
	return views
}

// byPlace sorts slabs by their place in a list.
type byPlace struct {
	views []*view
	at    []int
}

// Len is the number of slabs.
func (p *byPlace) Len() int { return len(p.views) }

// Less compares two places.
func (p *byPlace) Less(i, j int) bool { return p.at[i] < p.at[j] }

// Swap exchanges two slabs.
func (p *byPlace) Swap(i, j int) {
	p.views[i], p.views[j] = p.views[j], p.views[i]
	p.at[i], p.at[j] = p.at[j], p.at[i]
}

// object is the address of object i.
func (v *view) object(i int) impls.Addr { return v.b.First + uint64(i)*v.k.l.Stride }

// index is the number of the object at a; -1 when none of the first n begins there.
func (v *view) index(a impls.Addr, n int) int {
	d := a - v.b.First
	if a < v.b.First || d%v.k.l.Stride != 0 || d/v.k.l.Stride >= uint64(max(n, 0)) {
		return -1
	}
	return int(d / v.k.l.Stride)
}

// holds says whether an object begins at a, by the number of objects that is stored.
func (v *view) holds(a impls.Addr) bool { return v.index(a, v.d.Objects) >= 0 }

// pop takes the first object from the chain.
func (v *view) pop() {
	v.chain = v.chain[1:]
	v.left = len(v.chain) == 0
}

// free says whether the chain holds a.
func (v *view) free(a impls.Addr) bool { return slices.Contains(v.chain, a) }

// end is one behind the slab's last byte.
func (v *view) end(pageSize uint64) impls.Addr { return v.b.Addr + pageSize<<uint(v.b.Order) }

// span turns a place relative to an object into addresses.
func span(a impls.Addr, from, to int64) (x, y impls.Addr) {
	return a + uint64(from), a + uint64(to)
}

// word reads the word at a; false when there is no memory.
func (s *Shadow) word(k *cache, a impls.Addr) (uint64, bool) {
	var b [8]byte
	n := int(k.l.Word)
	if s.Memory.Read(a, b[:n]) != n {
		return 0, false
	}
	return native(b[:n]), true
}

// native reads bytes as a word of the machine.
func native(b []byte) uint64 {
	switch len(b) {
	case 2:
		return uint64(binary.NativeEndian.Uint16(b))
	case 4:
		return uint64(binary.NativeEndian.Uint32(b))
	}
	return binary.NativeEndian.Uint64(b)
}

// badLink says whether the free pointer of the object at a leads to no object: it was
// damaged, or the slab says that it has fewer objects.
func (s *Shadow) badLink(v *view, a impls.Addr) bool {
	at := a + v.k.l.Link
	if _, _, hurt := v.k.hurt.span(at, at+v.k.l.Word); !hurt && v.d.Objects >= v.d.Max {
		return false
	}
	w := s.links[a]
	return w != v.k.l.End && !v.holds(w)
}
