package debugcheck

import (
	"bytes"
	"math"
	"testing"
)

// trackMem is memory of one run of bytes that notes what was asked for.
type trackMem struct {
	base  uint64
	b     []byte
	asked []Region
}

func (m *trackMem) Bytes(r Region, a, n uint64) []byte {
	m.asked = append(m.asked, r)
	if a < m.base || n > uint64(len(m.b)) || a-m.base > uint64(len(m.b))-n {
		return nil
	}
	return m.b[a-m.base:][:n]
}
func (m *trackMem) Link(uint64) uint64     { return 1 }
func (m *trackMem) SetLink(uint64, uint64) {}

// TestTrackBytes holds the bytes of tracks of every size against ones made by hand, and
// reads them back.
func TestTrackBytes(t *testing.T) {
	some := Track{Line: 0x0102, Task: 3, CPU: 4, Step: 0x050607, Set: true}
	big := Track{Line: 1 << 40, Task: 1 << 33, CPU: 1 << 20, Step: 1 << 62, Set: true}
	for _, c := range []struct {
		name string
		n    uint64
		in   Track
		want []byte
		out  Track
	}{
		{"four words", 32, some, []byte{4, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0,
			4, 0, 0, 0, 0, 0, 0, 0, 7, 6, 5, 0, 0, 0, 0, 0}, some},
		{"words of 4", 20, some, []byte{4, 1, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0,
			7, 6, 5, 0, 0, 0, 0, 0}, some},
		{"words of 2", 10, some, []byte{4, 1, 3, 0, 4, 0, 7, 6, 5, 0}, some},
		{"one word of 8", 8, some, []byte{4, 1, 0, 3, 4, 7, 6, 5}, some},
		{"one word of 4", 4, some, []byte{4, 1, 3, 4},
			Track{Line: 0x102, Task: 3, CPU: 4, Set: true}},
		{"one word of 2", 2, some, []byte{4, 1}, Track{Line: 0x102, Set: true}},
		{"none ran", 4, Track{Line: -1, Task: 1, Set: true}, []byte{1, 0, 1, 0},
			Track{Line: -1, Task: 1, Set: true}},
		{"less than none", 4, Track{Line: -7, Task: -1, CPU: -1, Set: true}, []byte{1, 0, 0, 0},
			Track{Line: -1, Set: true}},
		{"not set", 4, Track{Line: 7, Task: 1}, []byte{0, 0, 0, 0}, Track{}},
		{"too big for 2", 10, big, []byte{255, 255, 255, 255, 255, 255, 255, 255, 255, 255},
			Track{Line: 0xfffd, Task: 0xffff, CPU: 0xffff, Step: 0xffffffff, Set: true}},
		{"too big for 4", 20, big, []byte{255, 255, 255, 255, 255, 255, 255, 255, 0, 0, 16, 0,
			0, 0, 0, 0, 0, 0, 0, 64},
			Track{Line: 0xfffffffd, Task: 0xffffffff, CPU: 1 << 20, Step: 1 << 62, Set: true}},
		{"too big for one word", 8, big, []byte{255, 255, 255, 255, 255, 255, 255, 255},
			Track{Line: 0xfffffd, Task: 255, CPU: 255, Step: 0xffffff, Set: true}},
	} {
		l := &Layout{Tracks: c.n}
		b := bytes.Repeat([]byte{0x99}, int(c.n))
		l.encodeTrack(b, c.in)
		if !bytes.Equal(b, c.want) {
			t.Errorf("%s: %v is stored as % x, want % x", c.name, c.in, b, c.want)
		}
		if out := l.decodeTrack(c.want); out != c.out {
			t.Errorf("%s: % x is read as %v, want %v", c.name, c.want, out, c.out)
		}
	}
	l := &Layout{Tracks: 32}
	if got := l.decodeTrack(bytes.Repeat([]byte{255}, 32)); got.Line != math.MaxInt-2 ||
		got.Task != math.MaxInt || !got.Set {
		t.Errorf("bytes that nobody stored are read as %v", got)
	}
	if got := l.decodeTrack(nil); got != (Track{}) {
		t.Errorf("no memory is read as %v", got)
	}
}

// TestSetTrack says where the tracks lie: SLUB has two behind each other, SLAB one for
// both, without U there is none. One access each.
func TestSetTrack(t *testing.T) {
	by := Track{Line: 2, Task: 1, CPU: 0, Step: 9, Set: true}
	for _, c := range []struct {
		name        string
		spec        Spec
		alloc, free int // where the line is stored, from the object; -1 nowhere
		region      Region
	}{
		{"SLUB", Spec{Size: 8, Word: 8, Flags: StoreUser}, 8, 40, FreeTrack},
		{"SLUB, all", Spec{Size: 8, Word: 8, Flags: Default}, 24, 56, FreeTrack},
		{"small words", Spec{Size: 8, Word: 2, Flags: StoreUser}, 8, 18, FreeTrack},
		{"SLAB", Spec{Size: 8, Word: 8, Flags: Default, Rules: SLAB26}, 16, 16, AllocTrack},
		{"no U", Spec{Size: 8, Word: 8, Flags: Default &^ StoreUser}, -1, -1, 0},
	} {
		l, err := NewLayout(c.spec)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range []Region{AllocTrack, FreeTrack} {
			m := &trackMem{base: 0x1000, b: make([]byte, 256)}
			k := &Checker{Layout: &l, Mem: m}
			k.SetTrack(r, 0x1010, by)
			at, region := c.alloc, AllocTrack
			if r == FreeTrack {
				at, region = c.free, c.region
			}
			if at < 0 {
				if len(m.asked) != 0 || k.Track(r, 0x1010).Set {
					t.Errorf("%s: %v is reached: %v", c.name, r, m.asked)
				}
				continue
			}
			if i := bytes.IndexByte(m.b, 4); i != 0x10+at {
				t.Errorf("%s: the line of %v is at %d, want %d", c.name, r, i, 0x10+at)
			}
			if len(m.asked) != 1 || m.asked[0] != region {
				t.Errorf("%s: %v asked for %v, want one %v", c.name, r, m.asked, region)
			}
			if got := k.Track(r, 0x1010); got.Line != 2 || !got.Set {
				t.Errorf("%s: %v reads %v", c.name, r, got)
			}
			k.SetTrack(r, math.MaxUint64-8, by)
			if k.SetTrack(r, 0x9000, by); k.Track(r, 0x9000).Set {
				t.Errorf("%s: a track where there is no memory", c.name)
			}
		}
	}
}

// BenchmarkSetTrack is one of the two tracks of an allocation and a free.
func BenchmarkSetTrack(b *testing.B) {
	l, err := NewLayout(Spec{Size: 64, Word: 8, Flags: Default})
	if err != nil {
		b.Fatal(err)
	}
	track := make([]byte, l.Tracks)
	by := Track{Line: 7, Task: 1, CPU: 1, Step: 1 << 20, Set: true}
	for b.Loop() {
		l.encodeTrack(track, by)
	}
}
