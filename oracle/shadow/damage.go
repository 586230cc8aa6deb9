package shadow

import "allocfuzz/impls"

// damage is what misuse did to bytes of one cache's slabs: by address the bits that
// were inverted.
type damage map[impls.Addr]byte

// flip inverts the bits of mask at a: the second time they are right again.
func (d damage) flip(a impls.Addr, mask byte) {
	if m := d[a] ^ mask; m != 0 {
		d[a] = m
	} else {
		delete(d, a)
	}
}

// span finds the first and the last wrong byte from a up to b; ok is false when
// there is none.
func (d damage) span(a, b impls.Addr) (first, last impls.Addr, ok bool) {
	if uint64(len(d)) < b-a {
		return d.extent(a, b)
	}
	for p := a; p != b; p++ {
		if d[p] == 0 {
			continue
		}
		if !ok {
			first, ok = p, true
		}
		last = p
	}
	return first, last, ok
}

// extent is span where there are fewer wrong bytes than bytes.
func (d damage) extent(a, b impls.Addr) (first, last impls.Addr, ok bool) {
	//tidy:maporder the least and the greatest, in any order
	for p := range d {
		if p-a >= b-a {
			continue
		}
		if !ok {
			first, last, ok = p, p, true
		}
		first, last = min(first-a, p-a)+a, max(last-a, p-a)+a
	}
	return first, last, ok
}

// heal forgets what was done from a up to b: it was written over.
func (d damage) heal(a, b impls.Addr) {
	if uint64(len(d)) >= b-a {
		for p := a; p != b; p++ {
			delete(d, p)
		}
		return
	}
	//tidy:maporder each is deleted, in any order
	for p := range d {
		if p-a < b-a {
			delete(d, p)
		}
	}
}
