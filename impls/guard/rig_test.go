package guard

import (
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// base is the first address of a toy.
const base = 0x1000

// A toy is an allocator that never hands out the same memory twice, lets so many bytes
// be live as there is room for, and writes down what it was asked for.
type toy struct {
	mem      []byte
	next     uint64
	room     uint64
	sizes    map[impls.Addr]uint64
	freed    []impls.Addr
	stubborn bool       // refuses without reason
	again    impls.Addr // handed out instead of new memory, once
}

func newToy(size uint64) *toy {
	return &toy{mem: make([]byte, size), room: size, sizes: map[impls.Addr]uint64{}}
}

func (t *toy) Malloc(c *machine.Ctx, size uint64, f impls.AllocFlags) impls.Addr {
	return t.Memalign(c, 8, size, f)
}

func (t *toy) Memalign(c *machine.Ctx, align, size uint64, _ impls.AllocFlags) impls.Addr {
	if a := t.again; a != 0 {
		t.again = 0
		return a
	}
	if t.stubborn {
		return 0
	}
	at := (t.next + align - 1) &^ (align - 1)
	if size > t.room || at+size > uint64(len(t.mem)) {
		c.NoteRefusal()
		return 0
	}
	t.next = at + size
	t.room -= size
	t.sizes[base+at] = size
	return base + at
}

func (t *toy) Free(_ *machine.Ctx, p impls.Addr) {
	size, ok := t.sizes[p]
	if !ok {
		panic("free of what is no block")
	}
	delete(t.sizes, p)
	t.room += size
	t.freed = append(t.freed, p)
}

func (t *toy) Realloc(*machine.Ctx, impls.Addr, uint64, impls.AllocFlags) impls.Addr {
	panic("called")
}
func (t *toy) Usable(*machine.Ctx, impls.Addr) uint64 { panic("called") }

func (t *toy) View(a impls.Addr, n uint64) []byte {
	if a < base || a-base > uint64(len(t.mem)) || n > uint64(len(t.mem))-(a-base) {
		return nil
	}
	return t.mem[a-base : a-base+n]
}

func (t *toy) Fill(a impls.Addr, n uint64, p impls.Pattern) { p.Fill(t.View(a, n)) }
func (t *toy) Read(a impls.Addr, b []byte) int              { panic("called") }
func (t *toy) Flip(a impls.Addr, mask byte)                 { panic("called") }
func (t *toy) Contains(a impls.Addr, n uint64) bool         { return t.View(a, n) != nil }

func (t *toy) Verify(a impls.Addr, n uint64, p impls.Pattern) int64 {
	return p.Verify(t.View(a, n))
}

// A rig is a guard over a toy, and one context.
type rig struct {
	*testing.T
	toy  *toy
	g    *Allocator
	c    *machine.Ctx
	seen int // reports that were asked for
}

func native(tb testing.TB, cpus int) *machine.Machine {
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs = true, cpus
	m := machine.New(cfg)
	tb.Cleanup(m.Close)
	return m
}

func newRig(t *testing.T, opt Options) *rig {
	r := &rig{T: t, toy: newToy(1 << 16), c: native(t, 1).NativeCtx(0, "cpu0")}
	t.Cleanup(r.c.Release)
	r.g = New(r.toy, r.toy, opt)
	return r
}

// reports are the reports since the last call of it.
func (r *rig) reports() []*debugcheck.Report {
	var out []*debugcheck.Report
	for _, n := range r.c.Notes()[r.seen:] {
		out = append(out, n.(*debugcheck.Report))
	}
	r.seen = len(r.c.Notes())
	return out
}

// want demands that exactly these titles were reported since the last look, and
// returns the last report.
func (r *rig) want(what string, titles ...string) *debugcheck.Report {
	r.Helper()
	got := r.reports()
	ok := len(got) == len(titles)
	for i := 0; ok && i < len(got); i++ {
		ok = got[i].Title == titles[i]
	}
	if !ok {
		var have []string
		for _, g := range got {
			have = append(have, g.Title)
		}
		r.Fatalf("%s: reported %q, want %q", what, have, titles)
	}
	if len(got) == 0 {
		return nil
	}
	return got[len(got)-1]
}

// malloc is an allocation that must succeed and be quiet.
func (r *rig) malloc(size uint64) impls.Addr {
	r.Helper()
	p := r.g.Malloc(r.c, size, 0)
	if p == 0 {
		r.Fatalf("malloc(%d) refused", size)
	}
	r.want("malloc")
	return p
}

// freed demands that the toy got exactly these blocks back since the last look.
func (r *rig) freed(what string, blocks ...impls.Addr) {
	r.Helper()
	ok := len(blocks) == len(r.toy.freed)
	for i := 0; ok && i < len(blocks); i++ {
		ok = blocks[i] == r.toy.freed[i]
	}
	if !ok {
		r.Fatalf("%s: %#x went back, want %#x", what, r.toy.freed, blocks)
	}
	r.toy.freed = nil
}
