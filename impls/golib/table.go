package golib

import "allocfuzz/impls"

// A table maps addresses to values: open addressing with linear probing, at most
// half full, so that it needs no memory once it has its size. Address 0 is no key.
type table[V any] struct {
	entries []entry[V]
	n       int
	shift   uint
}

type entry[V any] struct {
	addr  impls.Addr
	value V
}

const (
	tableBits  = 6  // of the first size
	tableKept  = 12 // of the largest size that survives reset
	hashFactor = 0x9e3779b97f4a7c15
)

func (t *table[V]) home(a impls.Addr) int { return int(a * hashFactor >> t.shift) }

// find returns where the value of a is; nil when there is none. The place is good
// until the table changes.
func (t *table[V]) find(a impls.Addr) *V {
	if t.n == 0 || a == 0 {
		return nil
	}
	mask := len(t.entries) - 1
	for i := t.home(a); t.entries[i].addr != 0; i = (i + 1) & mask {
		if t.entries[i].addr == a {
			return &t.entries[i].value
		}
	}
	return nil
}

// put sets the value of a and says whether it had none.
func (t *table[V]) put(a impls.Addr, v V) bool {
	if had := t.find(a); had != nil {
		*had = v
		return false
	}
	if 2*(t.n+1) > len(t.entries) {
		t.grow()
	}
	t.insert(a, v)
	t.n++
	return true
}

func (t *table[V]) insert(a impls.Addr, v V) {
	mask := len(t.entries) - 1
	i := t.home(a)
	for t.entries[i].addr != 0 {
		i = (i + 1) & mask
	}
	t.entries[i] = entry[V]{a, v}
}

func (t *table[V]) grow() {
	old := t.entries
	t.shift--
	if len(old) == 0 {
		t.shift = 64 - tableBits
	}
	t.entries = make([]entry[V], 1<<(64-t.shift))
	for i := range old {
		if old[i].addr != 0 {
			t.insert(old[i].addr, old[i].value)
		}
	}
}

// take removes a and returns its value; ok is false when there was none.
func (t *table[V]) take(a impls.Addr) (v V, ok bool) {
	if t.n == 0 || a == 0 {
		return v, false
	}
	mask := len(t.entries) - 1
	i := t.home(a)
	for t.entries[i].addr != a {
		if t.entries[i].addr == 0 {
			return v, false
		}
		i = (i + 1) & mask
	}
	v = t.entries[i].value
	t.n--
	for j := (i + 1) & mask; t.entries[j].addr != 0; j = (j + 1) & mask {
		if h := t.home(t.entries[j].addr); (j-h)&mask >= (j-i)&mask {
			t.entries[i] = t.entries[j]
			i = j
		}
	}
	t.entries[i] = entry[V]{}
	return v, true
}

// reset empties the table and keeps its storage unless that is large.
func (t *table[V]) reset() {
	if len(t.entries) > 1<<tableKept {
		t.entries = nil
	}
	if t.n > 0 {
		clear(t.entries)
	}
	t.n = 0
}

// each calls f for every entry until it returns false. f must not change the table.
func (t *table[V]) each(f func(a impls.Addr, v *V) bool) {
	for i := range t.entries {
		if t.entries[i].addr != 0 && !f(t.entries[i].addr, &t.entries[i].value) {
			return
		}
	}
}
