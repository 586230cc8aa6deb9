package debugcheck

import (
	"encoding/binary"
	"fmt"
	"testing"
)

// A bank is one slab with an allocator around it, as small as can be: what a Checker
// is asked by, and the memory that it reaches.
type bank struct {
	t       testing.TB
	k       Checker
	l       *Layout
	base    uint64
	mem     []byte
	slab    Slab
	found   []*Report
	missing bool   // there is no memory at all
	asked   uint64 // bytes that Bytes was asked for
}

// end is a freelist's end, as the families have it.
const bankEnd = 1

// bankAt is where the slab of a bank begins.
const bankAt = 0x4000

// newBank makes a slab of so many objects with a leftover of 24 bytes behind them. Its
// memory holds the remains of former use.
func newBank(t testing.TB, spec Spec, objects int) *bank {
	t.Helper()
	if spec.Name == "" {
		spec.Name = "bank"
	}
	if spec.Word == 0 {
		spec.Word = 8
	}
	spec.End = bankEnd
	l, err := NewLayout(spec)
	if err != nil {
		t.Fatalf("%+v: %v", spec, err)
	}
	b := &bank{t: t, l: &l, base: bankAt}
	b.mem = make([]byte, uint64(objects)*l.Stride+24)
	for i := range b.mem {
		b.mem[i] = byte(i*7 + 3)
	}
	b.k = Checker{Layout: b.l, Mem: b, Out: func(r *Report) {
		b.found = append(b.found, r)
	}}
	b.slab = Slab{Addr: b.base, First: b.base, Bytes: uint64(len(b.mem)), Max: objects,
		Objects: objects, Freelist: bankEnd}
	b.k.SetUp(&b.slab)
	for i := objects - 1; i >= 0; i-- {
		a := b.object(i)
		b.SetLink(a, b.slab.Freelist)
		b.slab.Freelist = a
	}
	return b
}

// object is the address of object i.
func (b *bank) object(i int) uint64 { return b.base + b.l.Pad + uint64(i)*b.l.Stride }

// Bytes implements Memory.
func (b *bank) Bytes(_ Region, a, n uint64) []byte {
	off := a - b.base
	b.asked += n
	if b.missing || off > uint64(len(b.mem)) || n > uint64(len(b.mem))-off {
		return nil
	}
	return b.mem[off : off+n : off+n]
}

// Link implements Memory: a little endian word.
func (b *bank) Link(a uint64) uint64 {
	p := b.Bytes(FreePtr, a+b.l.Link, b.l.Word)
	if len(p) == 8 {
		return binary.LittleEndian.Uint64(p)
	}
	link := uint64(0)
	for i, v := range p {
		link |= uint64(v) << (8 * i)
	}
	return link
}

// SetLink implements Memory.
func (b *bank) SetLink(a, link uint64) {
	p := b.Bytes(FreePtr, a+b.l.Link, b.l.Word)
	if len(p) == 8 {
		binary.LittleEndian.PutUint64(p, link)
		return
	}
	for i := range p {
		p[i] = byte(link >> (8 * i))
	}
}

// take unlinks the first free object; a link that leads nowhere ends the freelist.
func (b *bank) take() uint64 {
	a := b.slab.Freelist
	b.slab.Inuse++
	b.slab.Freelist = bankEnd
	if _, ok := b.l.Index(&b.slab, a); ok {
		if _, ok := b.l.Index(&b.slab, b.Link(a)); ok {
			b.slab.Freelist = b.Link(a)
		}
	}
	return a
}

// alloc allocates n bytes and writes into them; 0 when the checks said no.
func (b *bank) alloc(n uint64) uint64 {
	b.t.Helper()
	if b.slab.Freelist == bankEnd {
		b.t.Fatal("the bank is full")
	}
	a := b.take()
	if !b.k.AllocOK(&b.slab, a) {
		return 0
	}
	b.k.Activate(a, n)
	b.k.SetTrack(AllocTrack, a, Track{Line: 3, Set: true})
	for i := range b.Bytes(Object, a, n) {
		b.mem[a-b.base+uint64(i)] = byte(i*11 + 1)
	}
	return a
}

// release frees an object; false when the checks said no.
func (b *bank) release(a uint64) bool {
	if !b.k.FreeOK(&b.slab, []uint64{a}, 1) {
		return false
	}
	b.k.Deactivate(a)
	b.k.SetTrack(FreeTrack, a, Track{Line: 4, Set: true})
	b.SetLink(a, b.slab.Freelist)
	b.slab.Freelist = a
	b.slab.Inuse--
	return true
}

// flip inverts all bits of n bytes.
func (b *bank) flip(a, n uint64) {
	for i := a - b.base; n > 0; i, n = i+1, n-1 {
		b.mem[i] ^= 0xff
	}
}

// said returns the titles of what was found since the last call.
func (b *bank) said() []string {
	out := []string{}
	for _, r := range b.found {
		out = append(out, r.Title)
	}
	b.found = nil
	return out
}

// expect fails unless exactly these titles came since the last call.
func (b *bank) expect(titles ...string) {
	b.t.Helper()
	if got := fmt.Sprintf("%q", b.said()); got != fmt.Sprintf("%q", titles) {
		b.t.Errorf("reports %s, expected %q", got, titles)
	}
}
