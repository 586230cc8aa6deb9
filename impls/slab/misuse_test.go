package slab_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// A misuse is a program that does what it must not, and what comes of it.
type misuse struct {
	name    string
	rules   string
	letters string
	ops     func(u *user)
	want    []string
	faults  []fault.Title
}

// A user is a program that runs on a cache of two objects a slab.
type user struct {
	*rig
	c        *machine.Ctx
	s, other impls.Cache
}

func (u *user) take() impls.Addr  { return u.alloc(u.c, u.s, 0) }
func (u *user) give(a impls.Addr) { u.free(u.c, u.s, a) }
func (u *user) flip(a impls.Addr) { u.inst.Memory().Flip(a, 0x41) }
func (u *user) shrink()           { u.op(u.c, func() { u.s.Shrink(u.c) }) }
func (u *user) validate() {
	u.op(u.c, func() {
		if _, err := debugger(u.s).Validate(u.c); err != nil {
			u.t.Error(err)
		}
	})
}

func (u *user) damage(r debugcheck.Region, a impls.Addr, mask uint64) {
	u.op(u.c, func() {
		if !debugger(u.s).Damage(u.c, r, a, mask) {
			u.t.Errorf("%s is no field", r)
		}
	})
}

// invert inverts the object.
func (u *user) invert(a impls.Addr) {
	for i := range u.s.Size() {
		u.inst.Memory().Flip(a+i, 0xff)
	}
}

const (
	either  = "double free, or memory outside object was overwritten"
	double  = "double free detected"
	outside = "memory outside object was overwritten"
	poison  = "Slab corruption"
	start   = "start of a freed object was overwritten"
	end     = "end of a freed object was overwritten"
	onChain = "slab: double free detected in cache"
	chain   = "Internal list corruption detected"
	slabs   = "slabs of the list are out of order"
	invalid = "Invalid object pointer"
	noSlab  = "Object is not a Slab page"

	wrongOne = "Wrong slab cache"
)

func overrun(u *user)  { a := u.take(); u.flip(a + 64); u.give(a); u.take() }
func underrun(u *user) { a := u.take(); u.flip(a - 1); u.give(a); u.take() }
func twice(u *user)    { a := u.take(); u.give(a); u.give(a) }
func stale(u *user)    { a := u.take(); u.give(a); u.invert(a); u.take() }
func staleBit(u *user) { a := u.take(); u.give(a); u.flip(a); u.take() }
func staleEnd(u *user) { a := u.take(); u.give(a); u.flip(a + 63); u.shrink() }
func beside(u *user)   { a := u.take(); u.give(a); u.flip(a - 8); u.flip(a + 71); u.shrink() }
func inside(u *user)   { a := u.take(); u.give(a + 8) }
func strange(u *user)  { u.take(); u.give(64) }

func foreign(u *user) {
	var page impls.Addr
	u.op(u.c, func() { page = u.inst.Pages().AllocPages(u.c, 0, 0) })
	u.give(page)
}

// wrong frees to the other cache.
func wrong(u *user) {
	a := u.take()
	u.free(u.c, u.other, a)
	if b := u.take(); b != a {
		u.t.Errorf("%#x, want %#x, which was freed to the wrong cache", b, a)
	}
}

// noObject leads the chain out of the slab, atEnd to its end.
func noObject(u *user) { a := u.take(); u.damage(debugcheck.SlabFreelist, a, 0x10); u.take() }
func atEnd(u *user)    { a := u.take(); u.damage(debugcheck.SlabFreelist, a, 0xfffe); u.take() }
func chained(u *user)  { a := u.take(); u.damage(debugcheck.SlabFreelist, a, 0x10); u.give(a) }

// onFree makes the chain of a slab with one object free begin at a live object.
func onFree(u *user) { a := u.take(); u.damage(debugcheck.SlabFreelist, a, 1); u.give(a) }

var misuses = []misuse{
	{"overrun", "2.4", "Z", overrun, []string{"fatal " + either}, nil},
	{"overrun", "2.6", "Z", overrun, []string{"bug " + outside}, nil},
	{"overrun", "2.4", "P", overrun, nil, nil}, // into a free object, but for its end
	{"overrun", "2.6", "U", overrun, nil, nil}, // the last user is not checked
	{"underrun", "2.4", "Z", underrun, []string{"fatal " + either}, nil},
	{"underrun", "2.6", "Z", underrun, []string{"bug " + outside}, nil},
	{"twice", "2.4", "Z", twice, []string{"fatal " + either}, nil},
	{"twice", "2.4", "F", twice, []string{"fatal " + onChain}, nil},
	{"twice", "2.6", "Z", twice, []string{"bug " + double}, nil},
	{"twice", "2.6", "FZ", twice, []string{"bug " + double, "fatal " + onChain}, nil},
	{"stale", "2.4", "P", stale, []string{"fatal " + poison}, nil},
	{"stale", "2.6", "P", stale, []string{"bug " + poison}, nil},
	{"stale", "2.4", "FZU", stale, nil, nil},
	{"stale bit", "2.4", "P", staleBit, nil, nil}, // the weak check
	{"stale bit", "2.6", "P", staleBit, []string{"bug " + poison}, nil},
	{"stale end, shrink", "2.4", "P", staleEnd, []string{"fatal " + poison}, nil},
	{"stale end, shrink", "2.6", "P", staleEnd, []string{"bug " + poison}, nil},
	{"beside, shrink", "2.4", "Z", beside, []string{"fatal " + start}, nil},
	{"beside, shrink", "2.6", "Z", beside, []string{"bug " + start, "bug " + end}, nil},
	{"inside", "2.4", "F", inside, []string{"fatal " + invalid}, nil},
	{"inside", "2.4", "Z", inside, []string{"fatal " + either}, nil},
	{"inside", "2.6", "FZ", inside, []string{"bug " + outside, "fatal " + invalid}, nil},
	{"inside", "2.6", "Z", inside, []string{"bug " + outside}, []fault.Title{fault.OutsideSlab}},
	{"inside", "2.4", "P", inside, nil, []fault.Title{fault.OutsideSlab}},
	{"foreign", "2.4", "P", foreign, []string{"fatal " + noSlab}, nil},
	{"foreign", "2.6", "F", foreign, []string{"warning " + noSlab}, nil},
	{"foreign", "2.6", "", foreign, nil, []fault.Title{fault.OutsideSlab}},
	{"outside the arena", "2.4", "Z", strange, []string{"fatal " + noSlab}, nil},
	{"outside the arena", "2.6", "Z", strange, []string{"warning " + noSlab}, nil},
	{"wrong cache", "2.4", "F", wrong, []string{"fatal " + wrongOne}, nil},
	{"wrong cache", "2.6", "FZPU", wrong, []string{"warning " + wrongOne}, nil},
	{"no object", "2.4", "Z", noObject, []string{"fatal " + chain}, nil},
	{"no object", "2.6", "F", noObject, []string{"fatal " + chain}, nil},
	{"at the end", "2.4", "U", atEnd, []string{"fatal " + chain}, nil},
	{"no object at free", "2.4", "F", chained, []string{"fatal " + chain}, nil},
	{"no object at free", "2.6", "F", chained, []string{"fatal " + chain}, nil},
	{"no object at free", "2.4", "Z", chained, nil, nil},
	{"free already", "2.4", "F", onFree, []string{"fatal " + onChain}, nil},
	{"free already", "2.6", "Z", onFree, nil, nil},
	{"overrun, validate", "2.4", "Z", func(u *user) { u.flip(u.take() + 64); u.validate() },
		[]string{"bug " + either}, nil},
	{"count, validate", "2.4", "P", func(u *user) {
		u.damage(debugcheck.SlabInuse, u.take(), 2)
		u.validate()
	}, []string{"bug " + chain}, nil},
}

// TestMisuse: each misuse is reported at once, later or never, as the rules say.
func TestMisuse(t *testing.T) {
	for _, tt := range misuses {
		t.Run(fmt.Sprintf("%s/%s/%s", tt.name, tt.rules, tt.letters), func(t *testing.T) {
			each(t, func(t *testing.T, v *impls.Variant) { tt.run(t, v) })
		})
	}
}

func (m *misuse) run(t *testing.T, v *impls.Variant) {
	r := newRigOf(t, v, rules(m.rules))
	s := r.cache(flagged(64, 2, m.letters))
	other := r.cache(flagged(64, 2, m.letters))
	r.run(func(c *machine.Ctx) { m.ops(&user{r, c, s, other}) })
	if diff := cmp.Diff(m.want, r.reports()); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	fatal := len(m.want) > 0 && strings.HasPrefix(m.want[len(m.want)-1], "fatal")
	if r.m.Halted() != fatal {
		t.Errorf("halted %v, want %v", r.m.Halted(), fatal)
	}
	r.titles(m.faults...)
}

// TestWrongCache frees an object to another cache, one of the two without flags: its
// own is the one that speaks.
func TestWrongCache(t *testing.T) {
	for _, own := range []bool{true, false} {
		r := newRig(t, rules("2.6"))
		s, bare := r.cache(flagged(64, 2, "FZ")), r.cache(small(64, 2))
		r.run(func(c *machine.Ctx) {
			if own {
				r.free(c, bare, r.alloc(c, s, 0))
			} else {
				r.free(c, s, r.alloc(c, bare, 0))
			}
		})
		if own {
			r.check() // it went home
			r.titles()
		} else {
			r.titles(fault.OutsideSlab)
		}
		if got := r.reports(); own != (len(got) == 1 && got[0] == "warning "+wrongOne) {
			t.Errorf("own %v: %q", own, got)
		}
	}
}

// TestChainTest damages the counts of slabs: the walk over the one list notices what
// is out of order, after a free with F and at every validation, by the rules of 2.4.
func TestChainTest(t *testing.T) {
	// Page 0 is full and page 1, the first that is not, is partial.
	three := func(u *user) [3]impls.Addr { return [3]impls.Addr{u.take(), u.take(), u.take()} }
	fullBehind := func(u *user) {
		a := three(u)
		u.damage(debugcheck.SlabInuse, a[2], 1^2)
		u.give(a[0])
	}
	mark := func(u *user) {
		a := three(u)
		u.damage(debugcheck.SlabInuse, a[0], 2^3)
		u.give(a[2])
	}
	behindFree := func(u *user) {
		a, _, b := u.take(), u.take(), u.take()
		u.take()
		u.take()
		u.give(a) // pages 1 (full), 0 and 2
		u.damage(debugcheck.SlabInuse, a, 1)
		u.give(b)
	}
	validated := func(u *user) { fullBehind(u); u.validate() }
	last := []string{"fatal " + slabs}
	tests := []struct {
		on string
		misuse
	}{
		{"onelist", misuse{"full behind partial", "2.4", "F", fullBehind, last, nil}},
		{"onelist", misuse{"full behind partial", "2.6", "F", fullBehind, nil, nil}},
		{"onelist", misuse{"full behind partial", "2.4", "Z", fullBehind, nil, nil}},
		{"threelists", misuse{"full behind partial", "2.4", "F", fullBehind, nil, nil}},
		{"onelist", misuse{"the mark", "2.4", "F", mark, last, nil}},
		{"onelist", misuse{"partial behind free", "2.4", "F", behindFree, last, nil}},
		{"onelist", misuse{"validated", "2.4", "Z", validated, last, nil}},
		{"threelists", misuse{"validated", "2.4", "Z", validated, []string{"bug " + chain}, nil}},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%s/%s/%s/%s", tt.on, tt.name, tt.rules, tt.letters),
			func(t *testing.T) { tt.run(t, variant(tt.on)) })
	}
}
