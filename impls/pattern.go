package impls

import (
	"encoding/binary"
	"math/bits"
)

// A Pattern is the contents of an object as a function of its number and the
// offset: Pattern 0 is all zeros. Two sizes of one pattern share their prefix.
type Pattern uint32

const patternStep = 0x9e3779b97f4a7c15

func (p Pattern) first() uint64 { return uint64(p) * 0xd6e8feb86659fd93 }

func (p Pattern) step() uint64 {
	if p == 0 {
		return 0
	}
	return patternStep
}

// Fill writes the pattern to b, starting at offset 0 of the object.
func (p Pattern) Fill(b []byte) { p.FillFrom(b, 0) }

// FillFrom is Fill from an offset of the object, a multiple of 8.
func (p Pattern) FillFrom(b []byte, from uint64) {
	w, step := p.first()+from/8*p.step(), p.step()
	for len(b) >= 8 {
		binary.LittleEndian.PutUint64(b, w)
		w += step
		b = b[8:]
	}
	for i := range b {
		b[i] = byte(w >> (8 * uint(i)))
	}
}

// Verify returns the offset of the first byte of b that is not the pattern's, -1
// when all are.
func (p Pattern) Verify(b []byte) int64 { return p.VerifyFrom(b, 0) }

// VerifyFrom is Verify from an offset of the object, a multiple of 8; what it returns counts
// from there.
func (p Pattern) VerifyFrom(b []byte, from uint64) int64 {
	w, step := p.first()+from/8*p.step(), p.step()
	i := 0
	for ; i+8 <= len(b); i += 8 {
		if diff := binary.LittleEndian.Uint64(b[i:]) ^ w; diff != 0 {
			return int64(i + bits.TrailingZeros64(diff)/8)
		}
		w += step
	}
	for j := i; j < len(b); j++ {
		if b[j] != byte(w>>(8*uint(j-i))) {
			return int64(j)
		}
	}
	return -1
}

// Byte is the pattern's byte at offset i.
func (p Pattern) Byte(i uint64) byte {
	w := p.first() + i/8*p.step()
	return byte(w >> (8 * (i % 8)))
}

// CtorPattern is what the constructor of a cache writes. No operation has it: they are
// numbered from 1 up, see Next.
const CtorPattern Pattern = 1<<32 - 1

// Next is the pattern of the operation behind that of p.
func (p Pattern) Next() Pattern {
	if p++; p == CtorPattern {
		return 1
	}
	return p
}

// Construct is the constructor of every cache that has one (CacheSpec.Ctor): it writes all
// size bytes of the object at a, and nothing else. Whoever owns an object gives it back in
// this state.
func Construct(mem Memory, a Addr, size uint64) { mem.Fill(a, size, CtorPattern) }
