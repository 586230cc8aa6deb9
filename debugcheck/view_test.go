package debugcheck

import (
	"fmt"
	"math"
	"testing"
)

// TestSlots: the number of slots comes out as by division, for strides of every shape, on
// both sides of each multiple and where products overflow.
func TestSlots(t *testing.T) {
	for _, spec := range []Spec{{Size: 1, Word: 2}, {Size: 3, Word: 2}, {Size: 20, Word: 4},
		{Size: 64, Word: 8}, {Size: 64, Align: 64, Word: 8}, {Size: 4096, Align: 4096, Word: 8},
		{Size: 1<<61 + 8, Word: 8}, {Size: 1 << 62, Align: 1 << 62, Word: 8}} {
		for _, f := range []Flags{0, Sanity, StoreUser, Default} {
			spec.Flags, spec.Rules = f, SLUB612
			l, err := NewLayout(spec)
			if err != nil {
				continue // with everything around it the largest is too large
			}
			checkSlots(t, &l)
		}
	}
}

func checkSlots(t *testing.T, l *Layout) {
	t.Helper()
	ks := []uint64{0, 1, 2, 3, 7, 1000, MaxObjects, math.MaxUint64 / l.Stride}
	for _, k := range ks {
		for _, d := range []uint64{0, 1, l.Word, l.Stride / 2, l.Stride - 1} {
			n := k*l.Stride + d // also where that is beyond all and wraps
			slots, ok := l.Slots(n)
			if want := n%l.Stride == 0; ok != want || ok && slots != n/l.Stride {
				t.Errorf("stride %d, %#x bytes: %d %v, expected %d %v", l.Stride, n, slots, ok,
					n/l.Stride, want)
			}
		}
	}
}

// viewed makes all memory of a bank its View.
func (b *bank) viewed() { b.k.View, b.k.ViewAt = b.mem, b.base }

// TestViewAsMemory: what is found, said and repaired is the same whether a Checker has a
// View or asks for each region; and with a View it asks for none.
func TestViewAsMemory(t *testing.T) {
	damage := map[string]func(b *bank){
		"nothing":       func(*bank) {},
		"left red":      func(b *bank) { b.flip(b.object(1)-1, 1) },
		"right red":     func(b *bank) { b.flip(b.object(2)+20, 2) },
		"poison":        func(b *bank) { b.flip(b.object(2)+7, 3) },
		"end poison":    func(b *bank) { b.flip(b.object(3)+19, 1) },
		"padding":       func(b *bank) { b.flip(b.object(0)+b.l.Info, 1) },
		"slab padding":  func(b *bank) { b.flip(b.base+6*b.l.Stride+3, 1) },
		"chain":         func(b *bank) { b.flip(b.object(3)+b.l.Link, 1) },
		"head":          func(b *bank) { b.slab.Freelist++ },
		"far link":      func(b *bank) { b.SetLink(b.object(3), b.object(3)+100*b.l.Stride) },
		"early link":    func(b *bank) { b.SetLink(b.object(3), b.object(0)-b.l.Stride) },
		"ring":          func(b *bank) { b.SetLink(b.object(4), b.object(2)) },
		"count":         func(b *bank) { b.slab.Inuse++ },
		"fewer objects": func(b *bank) { b.slab.Objects = 4 },
	}
	for what, f := range damage {
		for _, rules := range []Rules{SLUB61, SLUB612} {
			var said [2]string
			for i := range said {
				b := newBank(t, Spec{Size: 20, Flags: Default, Rules: rules}, 6)
				a, c := b.alloc(20), b.alloc(20)
				f(b)
				if i == 1 {
					b.viewed()
				}
				b.asked = 0
				b.k.Validate(&b.slab)
				links := uint64(len(b.found)+3) * b.l.Word // are written without the View
				for _, p := range []uint64{a, c, a, c} {
					said[i] += fmt.Sprintf("freed %v\n", b.release(p))
				}
				if i == 1 && b.asked > links+uint64(len(b.found))*b.l.Word {
					t.Errorf("%s: %d bytes were asked for", what, b.asked)
				}
				for _, r := range b.found {
					said[i] += r.String()
				}
				said[i] += fmt.Sprintf("%+v\n%x", b.slab, b.mem)
			}
			if said[0] != said[1] {
				t.Errorf("%s: %s\nwith a View: %s", what, said[0], said[1])
			}
		}
	}
}

// TestViewOfAnother: a View of other memory is not taken for the slab's.
func TestViewOfAnother(t *testing.T) {
	b := newBank(t, Spec{Size: 20, Flags: Default}, 4)
	b.alloc(20)
	other := make([]byte, len(b.mem))
	for _, at := range []uint64{0, b.base - uint64(len(other)), b.base + uint64(len(other)),
		math.MaxUint64 - uint64(len(other)) + 1} {
		b.k.View, b.k.ViewAt = other, at
		b.k.Validate(&b.slab)
	}
	b.expect()
	for n := range len(b.mem) { // some regions and links lie in it, some not, some in part
		b.k.View, b.k.ViewAt = b.mem[:n:n], b.base
		b.k.Validate(&b.slab)
	}
	b.expect()
}

// TestSetUpReady: where all objects are in use from the start, SetUp leaves to Activate
// what that writes, and both together write every byte as ever.
func TestSetUpReady(t *testing.T) {
	for _, n := range []int{1, 2, 3} {
		for _, f := range []Flags{Default, Poison, RedZone, Sanity, Poison | StoreUser} {
			var mem [2]string
			for i := range mem {
				b := newBank(t, Spec{Size: 20, Flags: f, RCU: n == 2}, n)
				for j := range b.mem {
					b.mem[j] = byte(j)
				}
				b.slab.Inuse = i * n
				b.k.SetUp(&b.slab)
				for j := range n {
					b.k.Activate(b.object(j), 20)
				}
				mem[i] = fmt.Sprintf("%x", b.mem)
			}
			if mem[0] != mem[1] {
				t.Errorf("%v, %d objects: %s, expected %s", f, n, mem[1], mem[0])
			}
		}
	}
}

// TestPaddingOverflow: slots that are said to take more than 64 bits of memory leave no
// padding to look at.
func TestPaddingOverflow(t *testing.T) {
	b := newBank(t, Spec{Size: 20, Flags: Default}, 4) // 112 bytes a slot: 1<<61 of them wrap to 0
	b.slab.Max = 1 << 61
	b.k.Discard(&b.slab)
	b.expect()
}
