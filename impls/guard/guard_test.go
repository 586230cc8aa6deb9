package guard

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
)

// The slot of 64 bytes with FZPU, by the rules of 6.1: red zone of one word, the
// object, a full word of red zone, the link's word, two tracks of four words, padding of
// one word.
const (
	pad     = 8
	inuse   = 64 + 8
	tracks  = inuse + 8
	tail    = tracks + 2*32
	stride  = pad + tail + 8
	objects = 64
)

func same(v byte, n int) []byte { return bytes.Repeat([]byte{v}, n) }

// body is an object of n bytes as poison fills it.
func body(n int) []byte { return append(same(0x6b, n-1), 0xa5) }

// TestSlot: what lies around an object of 64 bytes, while it is live and after its free.
func TestSlot(t *testing.T) {
	r := newRig(t, Options{})
	r.c.BeginLine(5, [2]int32{})
	p := r.malloc(objects)
	block := p - pad
	if size := r.toy.sizes[block]; size != stride {
		t.Fatalf("a block of %d bytes at %#x, want %d", size, block, stride)
	}
	slot := r.toy.View(block, stride)
	for _, state := range []struct {
		name       string
		red        byte
		freed      bool
		allocTrack byte
	}{{"live", 0xcc, false, 5 + 2}, {"free", 0xbb, true, 5 + 2}} {
		want := append(same(state.red, pad), body(objects)...)
		want = append(want, same(state.red, inuse-objects)...)
		want = append(want, same(0x5a, 8)...)
		if got := slot[:pad+tracks]; !bytes.Equal(got, want) {
			t.Errorf("%s: % x, want % x", state.name, got, want)
		}
		if got := slot[pad+tail:]; !bytes.Equal(got, same(0x5a, 8)) {
			t.Errorf("%s: padding % x", state.name, got)
		}
		alloc, free := slot[pad+tracks:][:32], slot[pad+tracks+32:][:32]
		if alloc[0] != state.allocTrack || (free[0] != 0) != state.freed {
			t.Errorf("%s: tracks % x and % x", state.name, alloc, free)
		}
		if !state.freed {
			r.c.BeginLine(6, [2]int32{})
			r.g.Free(r.c, p)
			r.want("free")
			r.freed("free")
		}
	}
}

// TestFreeTwice: the second free is refused and reported with who did what, while the
// object is in quarantine and with any flags.
func TestFreeTwice(t *testing.T) {
	for _, flags := range []debugcheck.Flags{0, debugcheck.RedZone, debugcheck.StoreUser} {
		r := newRig(t, Options{Flags: flags, Count: 1})
		r.c.BeginLine(3, [2]int32{})
		p := r.malloc(24)
		r.c.BeginLine(4, [2]int32{})
		r.g.Free(r.c, p)
		r.c.BeginLine(9, [2]int32{})
		r.seen = 0
		r.g.Free(r.c, p)
		got := r.want("second free", "Object already free")
		user := flags == 0 || flags == debugcheck.StoreUser
		if got.Object != p || got.Cache != "malloc" || got.Where.Line != 9 ||
			got.Rules != debugcheck.Guard || len(got.Fixes) != 1 {
			t.Errorf("%s: %+v", flags, got)
		}
		if got.Alloc.Set != user || got.Free.Set != user ||
			user && (got.Alloc.Line != 3 || got.Free.Line != 4) {
			t.Errorf("%s: tracks %+v and %+v", flags, got.Alloc, got.Free)
		}
		if q := r.g.Realloc(r.c, p, 100, 0); q != 0 {
			t.Errorf("realloc of a free object: %#x", q)
		}
		r.want("realloc", "Object already free")
		r.freed("nothing left the quarantine")
		r.g.Free(r.c, r.malloc(8)) // pushes it out
		r.g.Free(r.c, p)
		r.want("out of quarantine", "Invalid object pointer")
	}
}

// TestInvalidPointer: addresses that are no object are refused and change nothing.
func TestInvalidPointer(t *testing.T) {
	for _, flags := range []debugcheck.Flags{debugcheck.Default, debugcheck.Poison} {
		r := newRig(t, Options{Flags: flags})
		p := r.malloc(objects)
		before := bytes.Clone(r.toy.mem)
		for _, a := range []impls.Addr{p + 1, p + 8, p - 1, p + objects, 1, base - 1,
			base + 1<<15, 1 << 63, math.MaxUint64} {
			r.g.Free(r.c, a)
			got := r.want(fmt.Sprintf("free of %#x", a), "Invalid object pointer")
			if got.String() == "" || got.Kind != debugcheck.Bug {
				t.Errorf("%#x: %+v", a, got)
			}
			inside := a >= base && a <= p+objects
			if r.g.Usable(r.c, a) != 0 || (r.g.CacheOf(a) != nil) != inside {
				t.Errorf("%#x has %d bytes of %v", a, r.g.Usable(r.c, a), r.g.CacheOf(a))
			}
			if q := r.g.Realloc(r.c, a, 8, 0); q != 0 {
				t.Errorf("realloc of %#x: %#x", a, q)
			}
			r.want("realloc", "Invalid object pointer")
		}
		if !bytes.Equal(before, r.toy.mem) {
			t.Error("memory was changed")
		}
		r.g.Free(r.c, 0)
		r.g.Free(r.c, p)
		r.want("the object itself")
	}
}

// region says what a byte of the slot of 64 bytes with FZPU belongs to.
func region(at int) string {
	switch at -= pad; {
	case at < 0:
		return "Left Redzone overwritten"
	case at < objects-1:
		return "Poison overwritten"
	case at < objects:
		return "End Poison overwritten"
	case at < inuse:
		return "Right Redzone overwritten"
	case at < tail: // link and tracks
		return ""
	}
	return "Object padding overwritten"
}

// TestDamageWhileLive inverts each byte of a live object's slot. A red zone refuses the
// free once, padding is reported and no more, and all is put right.
func TestDamageWhileLive(t *testing.T) {
	for at := range stride {
		r := newRig(t, Options{})
		p := r.malloc(objects)
		slot := r.toy.View(p-pad, stride)
		clean := slot[at]
		slot[at] ^= 0xff
		title := region(at)
		refused := strings.Contains(title, "Redzone")
		if strings.Contains(title, "Poison") {
			title = "" // the program's own bytes
		}
		r.g.Free(r.c, p)
		if title == "" {
			r.want(fmt.Sprint("byte ", at))
		} else {
			got := r.want(fmt.Sprint("byte ", at), title)
			if a := p - pad + uint64(at); got.From != a || got.To != a+1 || got.Got != ^clean ||
				got.Want != clean || got.Object != p {
				t.Errorf("byte %d: %+v", at, got)
			}
			if (slot[at] == clean) == (!refused && at < pad) {
				t.Errorf("byte %d is %#x after its repair", at, slot[at])
			}
		}
		if (r.g.Usable(r.c, p) == objects) != refused {
			t.Errorf("byte %d: refused %v", at, !refused)
		}
		if refused {
			r.g.Free(r.c, p)
			r.want("second free")
		}
		r.g.Free(r.c, p)
		r.want("third free", "Object already free")
	}
}

// TestDamageInQuarantine inverts each byte of a free object's slot. It is found when the
// object leaves, or by a validation; then the block goes back whatever was found.
func TestDamageInQuarantine(t *testing.T) {
	for at := range stride {
		for _, validate := range []bool{false, true} {
			r := newRig(t, Options{})
			p := r.malloc(objects)
			r.g.Free(r.c, p)
			r.toy.View(p-pad, stride)[at] ^= 1
			var want []string
			if title := region(at); title != "" {
				want = []string{title}
			}
			if validate {
				if n := r.g.Validate(r.c); n != 1 {
					t.Errorf("%d objects validated", n)
				}
				r.want(fmt.Sprint("validation, byte ", at), want...)
				want = nil // it was put right
			}
			r.freed("before")
			if n := r.g.release(r.c, nil); n != 1 {
				t.Errorf("%d objects left", n)
			}
			r.want(fmt.Sprint("byte ", at), want...)
			r.freed("then", p-pad)
		}
	}
}

// TestWithoutSanity: without F a free looks at nothing, and neither does the end of a
// quarantine; a validation does.
func TestWithoutSanity(t *testing.T) {
	r := newRig(t, Options{Flags: debugcheck.RedZone | debugcheck.Poison})
	p, q := r.malloc(32), r.malloc(32)
	r.toy.View(p+32, 1)[0]++
	r.toy.View(q+32, 1)[0]++
	r.g.Free(r.c, p)
	r.toy.View(p, 1)[0]++
	r.g.release(r.c, nil)
	r.want("free and release")
	if n := r.g.Validate(r.c); n != 1 {
		t.Errorf("%d objects validated", n)
	}
	r.want("validation", "Right Redzone overwritten")
}

// TestQuarantine: objects leave in the order of their frees, when there are too many
// or they are too big together; one that is too big alone does not go there.
func TestQuarantine(t *testing.T) {
	r := newRig(t, Options{Count: 2, Bytes: 3 * stride})
	var p [4]impls.Addr
	for i := range p {
		p[i] = r.malloc(objects)
	}
	for i, from := range []int{2, 0, 3, 1} {
		r.g.Free(r.c, p[from])
		if i < 2 {
			r.freed("two have room")
		}
	}
	r.freed("the first two", p[2]-pad, p[0]-pad)
	r.g.Free(r.c, r.malloc(3*stride-stride)) // with its surroundings above two strides
	r.freed("both others", p[3]-pad, p[1]-pad)
	big := r.malloc(3 * stride)
	r.g.Free(r.c, big)
	r.freed("the big one alone", big-pad)
	r.want("all along")

	r = newRig(t, Options{Count: -1})
	q := r.malloc(objects)
	r.g.Free(r.c, q)
	r.freed("no quarantine", q-pad)
}

// TestShortage: before memory is refused the quarantine is emptied; a refusal of the
// allocator behind is passed on as it is.
func TestShortage(t *testing.T) {
	r := newRig(t, Options{})
	r.toy.room = 3 * stride
	p, q := r.malloc(objects), r.malloc(objects)
	r.g.Free(r.c, p)
	r.g.Free(r.c, q)
	r.malloc(objects)
	r.freed("there is room for one")
	r.malloc(objects)
	r.freed("then both go", p-pad, q-pad)
	r.malloc(objects)
	refused := r.c.Refused()
	if a := r.g.Malloc(r.c, objects, 0); a != 0 || r.c.Refused() != refused+1 {
		t.Errorf("a fourth object: %#x, %d refusals", a, r.c.Refused()-refused)
	}

	r = newRig(t, Options{})
	r.g.Free(r.c, r.malloc(objects))
	r.toy.stubborn = true
	if a := r.g.Malloc(r.c, objects, 0); a != 0 || r.c.Refused() > 0 {
		t.Errorf("refused without reason: %#x, %d refusals", a, r.c.Refused())
	}
	r.freed("that is no shortage")
}

// TestAbsurd: sizes and alignments that cannot be met are refused with a reason.
func TestAbsurd(t *testing.T) {
	r := newRig(t, Options{})
	p := r.malloc(10)
	for _, size := range []uint64{1 << 40, 1 << 63, math.MaxUint64 - 200, math.MaxUint64 - 8,
		math.MaxUint64} {
		for _, align := range []uint64{0, 8, 4096, 1 << 40, 1 << 62, 1 << 63} {
			before := r.c.Refused()
			a := r.g.Memalign(r.c, align, size, impls.FlagZero) | r.g.Realloc(r.c, p, size, 0)
			if a != 0 || r.c.Refused() != before+2 {
				t.Errorf("%d bytes at %#x: %#x, %d refusals", size, align, a, r.c.Refused()-before)
			}
		}
	}
	if r.g.Memalign(r.c, 24, 8, 0) != 0 {
		t.Error("an alignment that is no power of two")
	}
	r.want("all along")
	r.g.Free(r.c, p)
	r.want("free")
}

// TestRealloc: bytes that both sizes share move, and the old place is in quarantine.
func TestRealloc(t *testing.T) {
	r := newRig(t, Options{})
	p := r.g.Realloc(r.c, 0, 40, 0)
	r.toy.Fill(p, 40, 7)
	q := r.g.Realloc(r.c, p, 100, 0)
	if q == p || r.toy.Verify(q, 40, 7) >= 0 || r.g.Usable(r.c, q) != 100 {
		t.Fatalf("grown: %#x", q)
	}
	r.g.Free(r.c, p)
	r.want("the old place", "Object already free")
	s := r.g.Realloc(r.c, q, 20, 0)
	if s == q || r.toy.Verify(s, 20, 7) >= 0 || r.g.Usable(r.c, s) != 20 {
		t.Fatalf("shrunk: %#x", s)
	}
	r.toy.room = 0
	r.g.release(r.c, nil)
	r.toy.room = 0
	if a := r.g.Realloc(r.c, s, 1000, 0); a != 0 || r.toy.Verify(s, 20, 7) >= 0 {
		t.Errorf("refused: %#x", a)
	}
	r.toy.room = 1000
	z := r.g.Realloc(r.c, s, 0, 0)
	if z == 0 || r.g.Usable(r.c, z) != 1 {
		t.Errorf("to nothing: %#x", z)
	}
	r.toy.View(z+1, 1)[0]++ // one byte is the object's, the next is red zone
	r.g.Free(r.c, z)
	r.want("free", "Right Redzone overwritten")

	s = r.malloc(16)
	r.toy.View(s+16, 1)[0]++
	if a := r.g.Realloc(r.c, s, 8, 0); a == 0 {
		t.Error("realloc of a damaged object refused")
	}
	r.want("realloc", "Right Redzone overwritten")
	if r.g.Usable(r.c, s) != 16 {
		t.Error("the damaged object was freed")
	}
}

// TestMemalign: the red zone in front takes a whole alignment.
func TestMemalign(t *testing.T) {
	r := newRig(t, Options{Align: 32})
	for _, align := range []uint64{0, 1, 8, 64, 4096} {
		p := r.g.Memalign(r.c, align, 50, impls.FlagZero)
		if p%max(align, 1) != 0 || p == 0 || r.toy.Verify(p, 50, 0) >= 0 {
			t.Fatalf("aligned to %d: %#x", align, p)
		}
		front := max(align, 32)
		if got := r.toy.View(p-front, front); !bytes.Equal(got, same(0xcc, int(front))) {
			t.Errorf("aligned to %d: in front % x", align, got)
		}
		r.toy.View(p-front, 1)[0] = 0
		r.g.Free(r.c, p)
		r.want("free", "Left Redzone overwritten")
	}
	if p := r.malloc(50); !bytes.Equal(r.toy.View(p, 50), body(50)) {
		t.Error("memory that nobody wants zeroed is not poisoned")
	}
}

// TestHandedOutTwice: a block that the allocator behind hands out again while it is in
// quarantine is noticed at once, and the guard's books stay in order.
func TestHandedOutTwice(t *testing.T) {
	for _, freed := range []bool{false, true} {
		r := newRig(t, Options{})
		p := r.malloc(objects)
		if freed {
			r.g.Free(r.c, p)
		}
		r.toy.again = p - pad
		if q := r.g.Malloc(r.c, objects, 0); q != p {
			t.Fatalf("%#x, want %#x", q, p)
		}
		if freed {
			r.want("again", "Left Redzone overwritten")
		} else {
			r.want("again") // its owner sees it
		}
		if r.g.live.n != 1 || r.g.kept.n != 0 || r.g.bytes != 0 || len(r.g.table) != 1 {
			t.Errorf("%d live, %d in quarantine", r.g.live.n, r.g.kept.n)
		}
		r.g.Free(r.c, p)
		r.want("free")
	}
}

// TestNoMemory: an allocator behind may return what is no memory at all.
func TestNoMemory(t *testing.T) {
	for _, block := range []impls.Addr{8, base + 1<<16 - 16, math.MaxUint64 - 63} {
		r := newRig(t, Options{})
		r.toy.again = block
		p := r.g.Malloc(r.c, objects, impls.FlagZero)
		if p != block+pad {
			t.Fatalf("%#x", p)
		}
		q := r.g.Realloc(r.c, p, 10, 0)
		r.g.Validate(r.c)
		r.g.Free(r.c, p)
		r.g.Free(r.c, q)
		for _, rep := range r.reports() {
			if rep.String() == "" {
				t.Error("a report without text")
			}
		}
	}
}

// TestStacks: with the option, reports say which calls led to the tracks.
func TestStacks(t *testing.T) {
	r := newRig(t, Options{Stacks: true, Count: 1})
	p := r.malloc(8)
	r.g.Free(r.c, p)
	r.g.Free(r.c, p)
	got := r.want("twice", "Object already free")
	for what, at := range map[string][]string{"(*rig).malloc": got.AllocAt,
		"guard.TestStacks": got.FreeAt} {
		if len(at) == 0 || len(at) > stackDepth || !strings.Contains(at[0], what) ||
			!strings.Contains(at[0], "_test.go:") {
			t.Errorf("%q, want %s first", at, what)
		}
	}
	if text := got.String(); !strings.Contains(text, "Freed at allocfuzz/impls/guard.TestStacks ") {
		t.Errorf("not in the text:\n%s", text)
	}
	q := r.g.Realloc(r.c, r.malloc(8), 3, 0)
	r.toy.View(q-1, 1)[0]++
	r.g.Free(r.c, q)
	got = r.want("overwritten", "Left Redzone overwritten")
	if r.g.spare == nil {
		t.Fatal("no record is used again")
	}
	if !strings.Contains(got.AllocAt[0], "guard.TestStacks ") || len(got.FreeAt) != 0 {
		t.Errorf("after realloc %q and %q", got.AllocAt, got.FreeAt)
	}
	q = r.g.Malloc(r.c, 8, 0) // with the record of p, whose stack was one call deeper
	r.toy.View(q-1, 1)[0]++
	r.g.Free(r.c, q)
	got = r.want("overwritten", "Left Redzone overwritten")
	if n := strings.Count(strings.Join(got.AllocAt, ""), "runtime.goexit "); n != 1 ||
		len(got.FreeAt) != 0 {
		t.Errorf("record used again: %q and %q", got.AllocAt, got.FreeAt)
	}
}

// TestInsideView: the memory of a guard shows what lies inside an object by way of its
// block, also behind one that was freed and made again, and nothing of another's.
func TestInsideView(t *testing.T) {
	r := newRig(t, Options{Count: -1})
	m := memory{r.g}
	p, q := r.malloc(40), r.malloc(24)
	for _, a := range []impls.Addr{p + 7, q + 23, p - 1, q} {
		b := m.View(a, 1)
		if len(b) != 1 || &b[0] != &r.toy.mem[a-base] {
			t.Errorf("%#x shows %p, expected %p", a, b, &r.toy.mem[a-base])
		}
	}
	if o := r.g.holder(p + 7); o == nil || o.addr != p {
		t.Errorf("%+v holds %#x", o, p+7)
	}
	r.g.Free(r.c, p)
	if o := r.g.holder(p + 7); o != nil {
		t.Errorf("%+v holds what was freed", o)
	}
	r.toy.again = p - r.g.sized(r.c, 40, 0).layout.Pad
	if n := r.malloc(40); n != p || r.g.holder(p+7) != r.g.table[p] {
		t.Errorf("%#x again, %+v holds it", n, r.g.holder(p+7))
	}
}
