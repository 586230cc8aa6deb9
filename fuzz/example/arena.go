// Package arena holds two small allocators, put under test by allocfuzz as anybody would put
// their own: Arena, which hands out offsets into memory of its own, and Pool, which hands out
// slices.
package arena

import (
	"encoding/binary"
	"fmt"
)

// A Ref is an allocation of an Arena: the offset of its first byte. 0 is none.
type Ref uint32

// unit is what sizes and offsets are multiples of, and the size of a block's header.
const unit = 8

// An Arena is a first-fit allocator over one piece of memory. The memory is a row of blocks without
// gaps. Each has a header of two words: its size, header included, with the lowest bit set while
// it is in use; and the size of the block in front of it, 0 for the first. Free neighbours are
// joined at once, so no two free blocks touch.
type Arena struct{ mem []byte }

// New makes an arena of size bytes, rounded down to a multiple of 8.
func New(size int) *Arena {
	a := &Arena{mem: make([]byte, size/unit*unit)}
	a.put(0, len(a.mem), 0)
	return a
}

// Memory is all of the arena.
func (a *Arena) Memory() []byte { return a.mem }

// Alloc returns n bytes; ok is false when no free block is large enough.
func (a *Arena) Alloc(n int) (ref Ref, ok bool) {
	need, ok := blockSize(n, len(a.mem))
	if !ok {
		return 0, false
	}
	for at := 0; at < len(a.mem); at += a.size(at) {
		if !a.used(at) && a.size(at) >= need {
			a.take(at, need)
			return Ref(at + unit), true
		}
	}
	return 0, false
}

// Free takes back what Alloc or Resize returned.
func (a *Arena) Free(ref Ref) {
	at := int(ref) - unit
	if at < 0 || at >= len(a.mem) || !a.used(at) {
		panic(fmt.Sprintf("arena: %d is not allocated", ref))
	}
	size, prev := a.size(at), a.prev(at)
	if next := at + size; next < len(a.mem) && !a.used(next) {
		size += a.size(next)
	}
	if front := at - prev; prev > 0 && !a.used(front) {
		at, size, prev = front, size+prev, a.prev(front)
	}
	a.put(at, size, prev)
}

// Resize changes the size of an allocation to n bytes and keeps the bytes that both sizes share. It
// may move; with ok false it is as it was.
func (a *Arena) Resize(ref Ref, n int) (moved Ref, ok bool) {
	need, ok := blockSize(n, len(a.mem))
	if !ok {
		return 0, false
	}
	at := int(ref) - unit
	if a.size(at) >= need {
		return ref, true
	}
	next := at + a.size(at)
	if next < len(a.mem) && !a.used(next) && a.size(at)+a.size(next) >= need {
		a.put(at, a.size(at)+a.size(next), a.prev(at))
		a.take(at, need)
		return ref, true
	}
	if moved, ok = a.Alloc(n); !ok {
		return 0, false
	}
	copy(a.mem[moved:], a.mem[ref:int(ref)+a.Cap(ref)])
	a.Free(ref)
	return moved, true
}

// Cap is how many bytes of an allocation may be used.
func (a *Arena) Cap(ref Ref) int { return a.size(int(ref)-unit) - unit }

// blockSize is the size of a block for n bytes; ok is false when it is above most.
func blockSize(n, most int) (size int, ok bool) {
	if n < 0 || n > most {
		return 0, false
	}
	return max((n+unit-1)/unit*unit, unit) + unit, true
}

// take makes a block in use and splits off what is left of it.
func (a *Arena) take(at, need int) {
	rest := a.size(at) - need
	if rest >= 2*unit {
		a.put(at, need, a.prev(at))
		a.put(at+need, rest, need)
	}
	binary.LittleEndian.PutUint32(a.mem[at:], uint32(a.size(at)|1))
}

// put writes the header of a free block, and its size behind it.
func (a *Arena) put(at, size, prev int) {
	binary.LittleEndian.PutUint32(a.mem[at:], uint32(size))
	binary.LittleEndian.PutUint32(a.mem[at+4:], uint32(prev))
	if next := at + size; next < len(a.mem) {
		binary.LittleEndian.PutUint32(a.mem[next+4:], uint32(size))
	}
}

func (a *Arena) used(at int) bool { return a.mem[at]&1 != 0 }

func (a *Arena) size(at int) int { return int(binary.LittleEndian.Uint32(a.mem[at:]) &^ 1) }

func (a *Arena) prev(at int) int { return int(binary.LittleEndian.Uint32(a.mem[at+4:])) }
