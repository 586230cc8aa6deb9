package slab

import (
	"fmt"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// debugBytes is what debugging keeps around objects, and their bytes while they are
// looked at.
var debugBytes = machine.Guarded("slab", "debug_bytes")

// endLink is what a Checker sees at the end of a chain: no object is at 1.
const endLink = 1

// around lays the debugging of an object of g out, of which options says what there is,
// and gives g its stride. Without debug options there is none.
func (g *geometry) around(spec debugcheck.Spec, page uint64, small bool) (
	*debugcheck.Layout, error) {
	spec.Size, spec.Align, spec.Word, spec.End = g.size, g.align, g.wordBytes, endLink
	if small {
		spec = debugcheck.DropGrowing(spec, page)
	}
	if !spec.Flags.Debugs() {
		return nil, nil
	}
	l, err := debugcheck.NewLayout(spec)
	if err != nil {
		return nil, err
	}
	g.stride, g.pad, g.align = l.Stride, l.Pad, l.Align
	return &l, nil
}

// A debugger is the debugging of one cache. It repairs nothing, as no rule of SLAB
// does. Everything about it is guarded by cache.lock, and its methods hold it but
// where they say that they take it.
type debugger struct {
	s     *Cache
	check debugcheck.Checker
	c     *machine.Ctx    // who looks
	slab  debugcheck.Slab // what is looked at
	start uint64          // the address behind its colour
	index uint64          // where it is described
}

var _ debugcheck.Memory = (*debugger)(nil)

func newDebugger(s *Cache, l *debugcheck.Layout) *debugger {
	d := &debugger{s: s}
	d.check = debugcheck.Checker{Layout: l, Mem: d, Out: d.tell}
	return d
}

// tell passes a report on.
func (d *debugger) tell(r *debugcheck.Report) { impls.Tell(d.c, r) }

// bug stops the kernel because of slab p, nil for none.
func (d *debugger) bug(c *machine.Ctx, p *machine.Page, title, format string, args ...any) {
	r := &debugcheck.Report{Rules: d.check.Layout.Rules, Kind: debugcheck.Fatal, Cache: d.s.name,
		Title: title, Detail: fmt.Sprintf(format, args...)}
	if p != nil {
		r.Slab = p.Addr()
	}
	d.c = c
	d.tell(r)
}

// look reads what slab p says about itself.
func (d *debugger) look(c *machine.Ctx, p *machine.Page) {
	d.c = c
	colour := colourWord.Load(c, p)
	d.start, d.index = d.s.start(p, colour), managerWord.Load(c, p)
	d.s.picture(&d.slab, p, colour, inuseWord.Load(c, p), freeWord.Load(c, p))
	k := &d.check
	if c.Native() && k.ViewAt != d.slab.Addr {
		k.ViewAt, k.View = d.slab.Addr, d.s.sys.m.MemBytes(d.slab.Addr, int(d.slab.Bytes))
	}
}

// made fills the new slab p.
func (d *debugger) made(c *machine.Ctx, p *machine.Page) {
	d.look(c, p)
	d.check.SetUp(&d.slab)
}

// taken checks and marks the object at obj, which was just taken from slab p. No rule
// of SLAB keeps it back: the kernel stops or goes on.
func (d *debugger) taken(c *machine.Ctx, p *machine.Page, obj impls.Addr) {
	d.look(c, p)
	d.check.AllocOK(&d.slab, obj)
	d.check.Activate(obj, d.s.size)
	d.check.SetTrack(debugcheck.AllocTrack, obj, impls.TrackOf(c))
}

// mayFree says whether the object at obj may go back to slab p.
func (d *debugger) mayFree(c *machine.Ctx, p *machine.Page, obj impls.Addr) bool {
	d.look(c, p)
	return d.check.FreeOne(&d.slab, obj)
}

// freed marks an object that goes back: its last user is who frees it.
func (d *debugger) freed(c *machine.Ctx, obj impls.Addr) {
	d.c = c
	d.check.Deactivate(obj)
	d.check.SetTrack(debugcheck.AllocTrack, obj, impls.TrackOf(c))
}

// discard checks slab p, whose pages are about to go back.
func (d *debugger) discard(c *machine.Ctx, p *machine.Page) {
	d.look(c, p)
	d.check.Discard(&d.slab)
}

// remaining reports that the cache is not destroyed, with the number of its objects in
// use.
func (d *debugger) remaining(c *machine.Ctx) {
	live, slabs := 0, 0
	for _, l := range d.s.heads {
		for p := l.first(c); p != nil; p = next(c, p) {
			slabs = d.s.walked(c, slabs)
			live += int(inuseWord.Load(c, p))
		}
	}
	d.c = c
	d.check.Remaining(nil, live)
}

// noObject stops the kernel where the chain of slab p leads to no object.
func (d *debugger) noObject(c *machine.Ctx, p *machine.Page, index uint64) {
	d.bug(c, p, debugcheck.TitleSlabChain, "the first free object is number %d of %d", index,
		d.s.objects)
}

// stray reports a free of obj, which is in no slab of the cache to: in one of this cache
// or, when that is the same one, in none. It takes cache.lock.
func (d *debugger) stray(c *machine.Ctx, to *Cache, obj impls.Addr) {
	flags := d.s.lock.LockIRQSave(c)
	d.c = c
	if d.s == to {
		d.check.NotSlab(obj)
	} else {
		d.check.WrongCache(to.name, obj)
	}
	d.s.lock.UnlockIRQRestore(c, flags)
}

// Bytes returns memory of the arena, nil elsewhere.
func (d *debugger) Bytes(_ debugcheck.Region, a, n uint64) []byte {
	return d.c.MemGuarded(debugBytes, d.s.guard, a, int(n))
}

// Link is the object behind the one at a on the chain of the slab that is looked at: an
// address that is no object's when the chain's number is none, endLink at the end and
// where no object of the slab is.
func (d *debugger) Link(a uint64) uint64 {
	index, ok := d.check.Layout.Index(&d.slab, a)
	if !ok {
		return endLink
	}
	return d.s.linkTo(d.start, d.s.loadIndex(d.c, d.index, uint64(index)))
}

// SetLink does nothing: no chain is repaired.
func (d *debugger) SetLink(_, _ uint64) {}

// linkTo is the address for the number of an object of a slab; start is the address behind
// its colour.
func (s *Cache) linkTo(start impls.Addr, index uint64) uint64 {
	if index == s.end() {
		return endLink
	}
	return start + s.first + index*s.stride
}

// picture describes slab p, of which these words are stored. It leaves alone what is the
// same for every slab here: it is neither frozen nor foreign.
func (s *Cache) picture(d *debugcheck.Slab, p *machine.Page, colour, inuse, free uint64) {
	start := s.start(p, colour)
	d.Page, d.Addr, d.Bytes, d.First = p.PFN(), p.Addr(), p.Bytes(), start+s.first-s.pad
	d.Max, d.Objects, d.Inuse = int(s.objects), int(s.objects), int(inuse)
	d.Freelist = s.linkTo(start, free)
}
