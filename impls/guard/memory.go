package guard

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// A slot is the memory of one object with everything around it, as the checker
// reaches it.
type slot struct {
	object *object
	block  impls.Addr
	bytes  []byte // nil when the allocator behind returned what is no memory
}

var _ debugcheck.Memory = (*slot)(nil)

// endMark ends the freelist of every object: it is no address of an object.
const endMark = 0

// Bytes are n bytes of the slot at a, nil outside it.
func (s *slot) Bytes(_ debugcheck.Region, a, n uint64) []byte {
	size := uint64(len(s.bytes))
	if a-s.block > size || n > size-(a-s.block) { // in front of the block it wraps
		return nil
	}
	from := a - s.block
	return s.bytes[from : from+n : from+n]
}

// Link is the end mark: a free object of the guard is linked to none.
func (s *slot) Link(uint64) uint64 { return endMark }

// SetLink has nothing to write.
func (s *slot) SetLink(uint64, uint64) {}

// A memory is the memory of an allocator that one thread at a time uses. The object is
// found, and then its block is shown: an allocator that knows only its blocks has to
// search for an address inside one.
type memory struct{ g *Allocator }

var _ impls.Viewer = memory{}

// View is n bytes at a; nil where they are not memory.
func (m memory) View(a impls.Addr, n uint64) []byte {
	o := m.g.holder(a)
	if o == nil {
		return m.g.mem.View(a, n)
	}
	b, at := m.g.mem.View(o.block, o.cache.layout.Stride), a-o.block
	if b == nil || n > uint64(len(b))-at {
		return m.g.mem.View(a, n)
	}
	return b[at : at+n : at+n]
}

// Fill writes a pattern; outside the memory it does nothing.
func (m memory) Fill(a impls.Addr, n uint64, p impls.Pattern) { p.Fill(m.View(a, n)) }

// Verify checks a pattern; outside the memory the first byte is wrong.
func (m memory) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	b := m.View(a, n)
	if b == nil && n > 0 {
		return 0
	}
	return p.Verify(b)
}

// Read copies bytes at a into b.
func (m memory) Read(a impls.Addr, b []byte) int { return copy(b, m.View(a, uint64(len(b)))) }

// Flip inverts bits of one byte.
func (m memory) Flip(a impls.Addr, mask byte) {
	if b := m.View(a, 1); b != nil {
		b[0] ^= mask
	}
}

// Contains says whether n bytes at a are memory.
func (m memory) Contains(a impls.Addr, n uint64) bool {
	return m.View(a, n) != nil || m.g.mem.Contains(a, n)
}
