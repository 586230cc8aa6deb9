package impls

import "allocfuzz/impls/machine"

// Arena is the Memory of a machine's arena.
type Arena struct{ M *machine.Machine }

// Fill writes pattern p to n bytes at a; outside the arena it does nothing.
func (r Arena) Fill(a Addr, n uint64, p Pattern) { p.Fill(r.M.MemBytes(a, int(n))) }

// Verify returns the offset of the first byte that is not pattern p, -1 when all
// are; 0 outside the arena.
func (r Arena) Verify(a Addr, n uint64, p Pattern) int64 {
	b := r.M.MemView(a, int(n))
	if b == nil && n > 0 {
		return 0
	}
	return p.Verify(b)
}

// Read copies bytes at a into b and returns how many there were.
func (r Arena) Read(a Addr, b []byte) int { return copy(b, r.M.MemView(a, len(b))) }

// Flip inverts the bits of mask in the byte at a.
func (r Arena) Flip(a Addr, mask byte) {
	if b := r.M.MemBytes(a, 1); b != nil {
		b[0] ^= mask
	}
}

// Contains says whether n bytes at a are in the arena.
func (r Arena) Contains(a Addr, n uint64) bool { return r.M.Contains(a, n) }

// View is n bytes at a; nil outside the arena.
func (r Arena) View(a Addr, n uint64) []byte { return r.M.MemBytes(a, int(n)) }
