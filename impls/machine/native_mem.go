package machine

import (
	"sync/atomic"
	"unsafe"
)

// bytesOf views words as bytes. The arena is made of words so that link words
// can be read and written atomically on a native machine.
func bytesOf(words []uint64) []byte {
	if len(words) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), len(words)*8)
}

func (m *Machine) atomicGet(a Addr) uint64 {
	return atomic.LoadUint64(&m.words[int(a-m.Base)/8])
}

func (m *Machine) atomicPut(a Addr, v uint64) {
	off := int(a - m.Base)
	atomic.StoreUint64(&m.words[off/8], v)
	m.native.touch(off >> m.shift)
}
