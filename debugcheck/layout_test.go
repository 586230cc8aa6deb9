package debugcheck

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// flagsOf reads letters of options, "" for none.
func flagsOf(letters string) (f Flags) {
	for _, c := range letters {
		for i, l := range Letters {
			if c == l {
				f |= 1 << i
			}
		}
	}
	return f
}

// lay lays out what has to be possible.
func lay(t *testing.T, s Spec) *Layout {
	t.Helper()
	if s.Word == 0 {
		s.Word = 8
	}
	l, err := NewLayout(s)
	if err != nil {
		t.Fatalf("NewLayout(%+v): %v", s, err)
	}
	return &l
}

// The kernel's layouts on a 64-bit machine, worked by hand.
func TestLayoutSLUB(t *testing.T) {
	type row struct {
		size              uint64
		flags             string
		kind              string // of the cache
		inuse, link       uint64
		out               bool
		pad, red, infoEnd uint64 // infoEnd: before the tracks
		tail, stride      uint64
		objects, left     uint64 // of a slab of 4096 bytes
	}
	tests := []row{
		{8, "", "", 8, 0, false, 0, 0, 8, 0, 8, 512, 0},
		{8, "F", "", 8, 0, false, 0, 0, 8, 0, 8, 512, 0},
		{8, "TA", "", 8, 0, false, 0, 0, 8, 0, 8, 512, 0},
		{8, "Z", "", 16, 0, false, 8, 8, 16, 8, 32, 128, 0},
		{8, "P", "", 8, 8, true, 0, 0, 16, 0, 16, 256, 0},
		{8, "", "rcu", 8, 8, true, 0, 0, 16, 0, 16, 256, 0},
		{8, "", "ctor", 8, 8, true, 0, 0, 16, 0, 16, 256, 0},
		{8, "U", "", 8, 0, false, 0, 0, 8, 0, 72, 56, 64},
		{8, "ZP", "", 16, 16, true, 8, 8, 24, 8, 40, 102, 16},
		{8, "FZPU", "", 16, 16, true, 8, 8, 24, 8, 104, 39, 40},
		{8, "FZPU", "kmalloc", 16, 16, true, 8, 8, 24, 8, 112, 36, 64},
		{24, "", "", 24, 8, false, 0, 0, 24, 0, 24, 170, 16},
		{24, "F", "", 24, 8, false, 0, 0, 24, 0, 24, 170, 16},
		{24, "Z", "", 32, 8, false, 8, 8, 32, 8, 48, 85, 16},
		{24, "P", "", 24, 24, true, 0, 0, 32, 0, 32, 128, 0},
		{24, "U", "", 24, 8, false, 0, 0, 24, 0, 88, 46, 48},
		{24, "ZP", "", 32, 32, true, 8, 8, 40, 8, 56, 73, 8},
		{24, "FZPU", "", 32, 32, true, 8, 8, 40, 8, 120, 34, 16},
		{64, "", "", 64, 32, false, 0, 0, 64, 0, 64, 64, 0},
		{64, "", "first", 64, 0, false, 0, 0, 64, 0, 64, 64, 0},
		{64, "Z", "", 72, 32, false, 8, 8, 72, 8, 88, 46, 48},
		{64, "Z", "first", 72, 0, false, 8, 8, 72, 8, 88, 46, 48},
		{64, "P", "", 64, 64, true, 0, 0, 72, 0, 72, 56, 64},
		{64, "P", "first", 64, 64, true, 0, 0, 72, 0, 72, 56, 64},
		{64, "U", "", 64, 32, false, 0, 0, 64, 0, 128, 32, 0},
		{64, "ZP", "", 72, 72, true, 8, 8, 80, 8, 96, 42, 64},
		{64, "FZPU", "", 72, 72, true, 8, 8, 80, 8, 160, 25, 96},
		{64, "FZPU", "kmalloc 64", 72, 72, true, 64, 8, 80, 40, 256, 16, 0},
		{100, "", "", 104, 48, false, 0, 4, 104, 0, 104, 39, 40},
		{100, "Z", "", 104, 48, false, 8, 4, 104, 8, 120, 34, 16},
		{100, "P", "", 104, 104, true, 0, 4, 112, 0, 112, 36, 64},
		{100, "U", "", 104, 48, false, 0, 4, 104, 0, 168, 24, 64},
		{100, "ZP", "", 104, 104, true, 8, 4, 112, 8, 128, 32, 0},
		{100, "FZPU", "", 104, 104, true, 8, 4, 112, 8, 192, 21, 64},
		// The link leaves an object that is smaller than it, or whose tail is a red zone.
		{4, "Z", "", 8, 8, true, 8, 4, 16, 8, 32, 128, 0},
		{64, "ZU", "kmalloc 6.12", 72, 72, true, 8, 8, 80, 8, 168, 24, 64},
		{64, "ZU", "kmalloc 6.1", 72, 32, false, 8, 8, 72, 8, 160, 25, 96},
		{64, "ZU", "", 72, 32, false, 8, 8, 72, 8, 152, 26, 144},
		{4, "", "", 8, 0, false, 0, 4, 8, 0, 8, 512, 0},
	}
	for _, tt := range tests {
		for _, rules := range []Rules{SLUB61, SLUB612, Guard} {
			name := fmt.Sprintf("%d %s %s %v", tt.size, tt.flags, tt.kind, rules)
			s := Spec{Size: tt.size, Flags: flagsOf(tt.flags), Rules: rules,
				RCU: tt.kind == "rcu", Ctor: tt.kind == "ctor", First: tt.kind == "first",
				Kmalloc: strings.HasPrefix(tt.kind, "kmalloc")}
			if tt.kind == "kmalloc 64" {
				s.Align = 64
			}
			if tt.kind == "kmalloc 6.1" && rules == SLUB612 ||
				tt.kind == "kmalloc 6.12" && rules != SLUB612 {
				continue
			}
			l := lay(t, s)
			got := row{l.Size, tt.flags, tt.kind, l.Inuse, l.Link, l.Outside, l.Pad,
				l.Inuse - l.Size, l.Info - 2*l.Tracks - l.OrigLen, l.Stride - l.Pad - l.Info,
				l.Stride, 4096 / l.Stride, 4096 % l.Stride}
			want := tt
			if s.Kmalloc && rules != SLUB612 {
				want.tail += 4 // the size asked for takes 4 bytes, not 8
			}
			if got != want {
				t.Errorf("%s:\n got %+v\nwant %+v", name, got, want)
			}
		}
	}
}

func TestLayoutTracks(t *testing.T) {
	tests := []struct {
		word                      uint64
		rules                     Rules
		track, tracks, orig, olen uint64
	}{
		{8, SLUB61, 80, 32, 144, 4}, // 64, red word, link
		{8, SLUB612, 80, 32, 144, 8},
		{8, Guard, 80, 32, 144, 4},
		{4, SLUB61, 72, 20, 112, 4},
		{4, SLUB612, 72, 20, 112, 4},
		{2, SLUB61, 68, 10, 88, 2},
		{2, SLUB612, 68, 10, 88, 2},
	}
	for _, tt := range tests {
		s := Spec{Size: 64, Word: tt.word, Rules: tt.rules, Flags: Default, Kmalloc: true}
		l := lay(t, s)
		got, want := [4]uint64{l.Track, l.Tracks, l.Orig, l.OrigLen},
			[4]uint64{tt.track, tt.tracks, tt.orig, tt.olen}
		if got != want {
			t.Errorf("word %d, %v: %d, want %d", tt.word, tt.rules, got, want)
		}
		if s.Kmalloc = false; lay(t, s).Orig != 0 || lay(t, s).OrigLen != 0 {
			t.Errorf("word %d, %v: the size asked for is kept outside kmalloc", tt.word, tt.rules)
		}
	}
}

// SLAB's slots: the red words, the last user, what 2.4 rounds, what alignment adds.
func TestLayoutSLAB(t *testing.T) {
	const z, p, u, def = RedZone, Poison, StoreUser, Default
	type at = [2]int64
	tests := []struct {
		rules              Rules
		size, align, word  uint64
		flags              Flags
		end                uint64 // of the object
		left, right, user  at
		pad, inuse, stride uint64
	}{
		{SLAB24, 64, 0, 8, 0, 64, at{}, at{64, 64}, at{}, 0, 64, 64},
		{SLAB24, 64, 0, 8, z | p, 64, at{-8, 0}, at{64, 72}, at{}, 8, 72, 80},
		{SLAB24, 61, 0, 8, z | p, 64, at{-8, 0}, at{64, 72}, at{}, 8, 72, 80},
		{SLAB26, 61, 0, 8, z | p, 61, at{-8, 0}, at{64, 72}, at{}, 8, 72, 80},
		{SLAB26, 61, 0, 8, p, 61, at{}, at{61, 64}, at{}, 0, 64, 64},
		{SLAB26, 64, 0, 8, z | u, 64, at{-8, 0}, at{64, 72}, at{72, 80}, 8, 72, 88},
		{SLAB26, 64, 0, 8, u, 64, at{}, at{64, 64}, at{64, 72}, 0, 64, 72},
		{SLAB24, 64, 0, 4, def, 64, at{-4, 0}, at{64, 68}, at{68, 72}, 4, 68, 76},
		{SLAB26, 5, 0, 2, def, 5, at{-2, 0}, at{6, 8}, at{8, 10}, 2, 8, 12},
		{SLAB24, 64, 64, 8, z, 64, at{-8, 0}, at{64, 72}, at{}, 64, 72, 192},
		{SLAB26, 8, 16, 8, z | u, 8, at{-8, 0}, at{8, 16}, at{16, 24}, 16, 16, 48},
	}
	for _, tt := range tests {
		l := lay(t, Spec{Rules: tt.rules, Size: tt.size, Align: tt.align, Word: tt.word,
			Flags: tt.flags, Kmalloc: true})
		name := fmt.Sprintf("%v %d/%d %v", tt.rules, tt.size, tt.align, tt.flags)
		regions := map[Region]at{LeftRed: tt.left, Object: {0, int64(tt.end)},
			RightRed: tt.right, FreePtr: {}, AllocTrack: tt.user, FreeTrack: {}, OrigSize: {}}
		for r, want := range regions {
			if from, to := l.At(r); from != want[0] || to != want[1] {
				t.Errorf("%s: %v at %d to %d, want %d", name, r, from, to, want)
			}
		}
		if l.Pad != tt.pad || l.Inuse != tt.inuse || l.Stride != tt.stride || l.Outside {
			t.Errorf("%s: %+v, want pad %d, inuse %d, stride %d", name, *l,
				tt.pad, tt.inuse, tt.stride)
		}
	}
}

func TestLayoutBody(t *testing.T) {
	for _, rules := range []Rules{SLUB61, SLUB612, SLAB24, SLAB26, Guard} {
		for i := range 8 {
			s := Spec{Size: 32, Rules: rules, Ctor: i&2 != 0, RCU: i&4 != 0}
			if i&1 != 0 {
				s.Flags = Poison
			}
			// Only 2.6 poisons what its constructor will put right at the next allocation.
			if l := lay(t, s); l.Body != (i == 1 || i == 3 && rules == SLAB26) {
				t.Errorf("%v, %+v: body poisoned is %v", rules, s, l.Body)
			}
		}
	}
}

// everySpec visits every combination of options and kinds for sizes and alignments of
// all word sizes and rule sets.
func everySpec(visit func(Spec)) {
	sizes := []uint64{1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 24, 31, 100, 128, 1000, 4096, 5001}
	for i := range 1 << 6 * 1 << 4 {
		s := Spec{Flags: Flags(i & 63), Ctor: i&64 != 0, RCU: i&128 != 0, Kmalloc: i&256 != 0,
			First: i&512 != 0}
		for _, s.Rules = range []Rules{SLUB61, SLUB612, SLAB24, SLAB26, Guard} {
			for _, s.Word = range []uint64{2, 4, 8} {
				for _, s.Align = range []uint64{0, 1, 2, 4, 8, 16, 64, 4096} {
					for _, s.Size = range sizes {
						visit(s)
					}
				}
			}
		}
	}
}

// Whatever the options, the regions of a slot follow each other without overlap and
// without a gap, and every object of a slab is aligned.
func TestLayoutRegions(t *testing.T) {
	everySpec(func(s Spec) {
		l := lay(t, s)
		if msg := l.unfit(s); msg != "" && !t.Failed() {
			t.Errorf("%+v\nof %+v: %s", *l, s, msg)
		}
	})
}

// unfit says what is wrong with a layout for s.
func (l *Layout) unfit(s Spec) string {
	align, slab := max(s.Align, s.Word), s.Rules.SLAB()
	red, user := s.Flags.Has(RedZone), s.Flags.Has(StoreUser)
	end := -int64(l.Pad)
	if slab && red {
		end = -int64(s.Word)
	}
	for r := LeftRed; r <= Padding; r++ {
		from, to := l.At(r)
		if r == FreePtr && !l.Outside {
			continue
		}
		if slack := from - end; slab && red && r == RightRed {
			if slack < 0 || slack >= int64(s.Word) || s.Rules == SLAB24 && slack != 0 {
				return fmt.Sprintf("%d bytes in front of the right red word", slack)
			}
			end = from
		}
		if to < from || from != to && from != end {
			return fmt.Sprintf("%v at %d to %d, the region in front ends at %d", r, from, to, end)
		}
		if from != to {
			end = to
		}
	}
	switch from, to := l.At(FreePtr); {
	case end != int64(l.Stride-l.Pad):
		return "the regions do not end with the slot"
	case l.Stride%align != 0 || l.Pad%align != 0:
		return "objects are not aligned"
	case l.Size < s.Size || !slab && l.Size != s.Size:
		return "the object has another size"
	case (l.Pad != 0) != red:
		return "a left red zone where none belongs, or none where one does"
	case red && l.Inuse == l.Size:
		return "no right red zone"
	case red && !slab && l.Stride-l.Pad-l.Info < s.Word:
		return "no word of padding at the end"
	case (l.Tracks != 0) != user || (l.Track != 0) != user:
		return "tracks where none belong, or none where they do"
	case slab && from != to:
		return "a link in the slot"
	case !slab && (to-from != int64(s.Word) || from%int64(s.Word) != 0):
		return "the link is no aligned word"
	case !slab && l.Outside != (from >= int64(l.Inuse)):
		return "the link is on the other side"
	case !slab && red && !l.Outside && to > int64(l.Size):
		return "the link reaches into the red zone"
	case !slab && l.Body && !l.Outside:
		return "the link lies in poison"
	}
	return ""
}

func TestLayoutErrors(t *testing.T) {
	tests := []struct {
		name string
		spec Spec
		ok   bool
	}{
		{"size 0", Spec{Size: 0, Word: 8}, false},
		{"size 1", Spec{Size: 1, Word: 8}, true},
		{"all ones", Spec{Size: math.MaxUint64, Word: 8}, false},
		{"all ones but the last word", Spec{Size: math.MaxUint64 - 7, Word: 8}, false},
		{"half", Spec{Size: 1 << 63, Word: 8}, false},
		{"above the largest", Spec{Size: 1<<62 + 1, Word: 8}, false},
		{"the largest", Spec{Size: 1 << 62, Word: 8, Flags: Default, Kmalloc: true}, true},
		{"the largest, SLAB", Spec{Size: 1 << 62, Word: 2, Flags: Default, Rules: SLAB26}, true},
		{"largest alignment", Spec{Size: 1, Align: 1 << 62, Word: 8}, true},
		{"both largest", Spec{Size: 1 << 62, Align: 1 << 62, Word: 8}, true},
		{"a slot of three quarters", Spec{Size: 1, Align: 1 << 62, Word: 8, Flags: RedZone}, false},
		{"a slot of all", Spec{Size: 1 << 62, Align: 1 << 62, Word: 8, Flags: RedZone}, false},
		{"likewise SLAB", Spec{Size: 1 << 62, Align: 1 << 62, Word: 8, Flags: RedZone,
			Rules: SLAB24}, false},
		{"alignment 3", Spec{Size: 8, Align: 3, Word: 8}, false},
		{"alignment 1<<63", Spec{Size: 8, Align: 1 << 63, Word: 8}, false},
		{"likewise with Z", Spec{Size: 8, Align: 1 << 63, Word: 8, Flags: RedZone}, false},
		{"alignment all ones", Spec{Size: 8, Align: math.MaxUint64, Word: 8}, false},
		{"no word", Spec{Size: 8}, false},
		{"word 3", Spec{Size: 8, Word: 3}, false},
		{"word 16", Spec{Size: 8, Word: 16}, false},
		{"rules", Spec{Size: 8, Word: 8, Rules: nRules}, false},
	}
	for _, tt := range tests {
		l, err := NewLayout(tt.spec)
		if (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
		if err == nil && l.unfit(tt.spec) != "" {
			t.Errorf("%s: %s", tt.name, l.unfit(tt.spec))
		}
	}
}

// O leaves Z, P and U out exactly where the smallest slab grows with them.
func TestDropGrowing(t *testing.T) {
	tests := []struct {
		size uint64
		in   string
		want string
	}{
		{64, "FZPUTA", "FZPUTA"},
		{4096, "FZPUTA", "FTA"},
		{4096, "FT", "FT"},
		{4096, "Z", ""},
		{4072, "Z", "Z"}, // with three words exactly a page
		{4080, "Z", ""},
		{4088, "P", "P"}, // with the link exactly a page
		{4089, "P", ""},
		{8192, "U", ""},
		{8128, "U", "U"}, // with both tracks exactly two pages
		{4097, "FZPU", "FZPU"},
	}
	for _, tt := range tests {
		s := DropGrowing(Spec{Size: tt.size, Word: 8, Flags: flagsOf(tt.in)}, 4096)
		if s.Flags != flagsOf(tt.want) {
			t.Errorf("%d %s: %v, want %q", tt.size, tt.in, s.Flags, tt.want)
		}
	}
	if s := DropGrowing(Spec{Word: 8, Flags: Default}, 4096); s.Flags != Sanity {
		t.Errorf("what has no layout keeps %v", s.Flags)
	}
}

// A pointer is an object of a slab if it is the start of one of those that it counts.
func TestIndex(t *testing.T) {
	for _, flags := range []string{"", "Z", "FZPU"} {
		l := lay(t, Spec{Size: 24, Flags: flagsOf(flags)})
		s := Slab{Addr: 0x1000, First: 0x1020, Bytes: 4096, Max: 9, Objects: 9}
		want := map[uint64]int{}
		for i := range 9 {
			want[0x1020+uint64(i)*l.Stride+l.Pad] = i
			if a := l.objectAt(&s, i); want[a] != i || a%8 != 0 {
				t.Errorf("%s: object %d at %#x", flags, i, a)
			}
		}
		for a := uint64(0xf00); a < 0x3000; a++ {
			i, ok := l.Index(&s, a)
			if w, is := want[a]; ok != is || i != w {
				t.Errorf("%s: %#x is object %d, %v, want %d, %v", flags, a, i, ok, w, is)
			}
		}
		last := l.objectAt(&s, 8)
		for _, tt := range []struct {
			objects int
			ok      bool
		}{{8, false}, {10, true}, {0, false}, {-1, false}, {math.MaxInt, true}} {
			s.Objects = tt.objects
			if _, ok := l.Index(&s, last); ok != tt.ok {
				t.Errorf("%s: of %d objects, the last of 9 is one: %v", flags, tt.objects, ok)
			}
			if i, ok := l.Index(&s, last+l.Stride); ok {
				t.Errorf("%s: of %d objects, %d is one of 9", flags, tt.objects, i)
			}
		}
		s.Objects = 9
		for _, a := range []uint64{0, 1, l.Pad, math.MaxUint64, math.MaxUint64 - l.Stride + 1} {
			if i, ok := l.Index(&s, a); ok {
				t.Errorf("%s: %#x is object %d", flags, a, i)
			}
		}
		if _, ok := l.Index(&Slab{}, l.Pad); ok {
			t.Errorf("%s: a slab of nothing has an object", flags)
		}
	}
}
