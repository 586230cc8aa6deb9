package shadow_test

import (
	"fmt"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// A liar is a real subject with a lie put in front of it: what its debug checks say or
// do passes through here first.
type liar struct {
	impls.Instance
	m      *machine.Machine
	lie    *lie
	caches []*lyingCache
	slabs  []debugcheck.Slab // of the debugged caches, as they were before the call in hand
	seen   *[]seen
}

// A seen is one report that was made, before anybody lied about it.
type seen struct {
	line int
	debugcheck.Report
}

// A lie is what is wrong with a liar. Reports are counted over the run, from 0.
type lie struct {
	at int // the first report that it is about
	// reports changes them, from that on, of one call.
	reports func(list []*debugcheck.Report) []*debugcheck.Report
	// after is called behind the call that made the report.
	after func(t *liar, c *machine.Ctx, r *debugcheck.Report)
	free  func(k *lyingCache, c *machine.Ctx, a impls.Addr) // instead of a cache's free
	ends  func(k *lyingCache, c *machine.Ctx) error         // instead of a cache's destroy
	show  func(s *impls.Snapshot)                           // bends what is shown
	limit [2]int                                            // given for those of a quarantine
	slot  func(l *debugcheck.Layout)                        // bends the layout of caches
	got   func(t *liar, c *machine.Ctx, a impls.Addr)       // behind an allocation
}

// lying is v with a lie; the reports that v makes are added to list.
func lying(v *impls.Variant, l *lie, list *[]seen) *impls.Variant {
	w := *v
	w.New = func(m *machine.Machine) impls.Instance {
		return &liar{Instance: v.New(m), m: m, lie: l, seen: list}
	}
	return &w
}

// Objects makes caches that lie.
func (t *liar) Objects() impls.Objects { return liedObjects{t.Instance.Objects(), t} }

// Quarantine gives other limits than the real ones where the lie has some.
func (t *liar) Quarantine() (objects int, bytes uint64) {
	objects, bytes = 1<<62, 1<<62
	if q, ok := t.Instance.(interface{ Quarantine() (int, uint64) }); ok {
		objects, bytes = q.Quarantine()
	}
	if t.lie.limit != [2]int{} {
		return t.lie.limit[0], uint64(t.lie.limit[1])
	}
	return objects, bytes
}

// Sizes lies about what was allocated by size.
func (t *liar) Sizes() impls.Allocator {
	if o, ok := t.Instance.Sizes().(impls.Owner); ok {
		return liedSizes{o, t}
	}
	return t.Instance.Sizes()
}

// Snapshot shows the caches that lie in the place of the real ones.
func (t *liar) Snapshot(s *impls.Snapshot) bool {
	ok := t.Instance.Snapshot(s)
	for i := range s.Caches {
		for _, k := range t.caches {
			if s.Caches[i].Handle == k.Debugger.(impls.Cache) {
				s.Caches[i].Handle = k
			}
		}
	}
	if t.lie.show != nil && ok {
		t.lie.show(s)
	}
	return ok
}

// call makes a call and lies about its reports.
func (t *liar) call(c *machine.Ctx, f func()) {
	from := len(c.Notes())
	t.picture()
	defer func() {
		if t.m.Halted() {
			t.tamper(c, t.m.LastWords()[from:], false)
		}
	}()
	f()
	t.tamper(c, c.Notes()[from:], true)
}

// gave lies about what an allocation returned.
func (t *liar) gave(c *machine.Ctx, a impls.Addr) impls.Addr {
	if t.lie.got != nil && a != 0 {
		t.lie.got(t, c, a)
	}
	return a
}

// tamper lies about the reports of one call. Where more may come there is room for more.
func (t *liar) tamper(c *machine.Ctx, notes []any, more bool) {
	var list []*debugcheck.Report
	n := len(*t.seen)
	for _, v := range notes {
		if r, ok := v.(*debugcheck.Report); ok {
			list = append(list, r)
			*t.seen = append(*t.seen, seen{c.Where().Line, *r})
		}
	}
	if i := t.lie.at - n; i >= 0 && i < len(list) {
		if t.lie.after != nil && more {
			t.lie.after(t, c, list[i])
		}
		if t.lie.reports != nil {
			list = append(list[:i:i], t.lie.reports(list[i:])...)
		}
	}
	for i := range notes {
		notes[i] = nil
		if i < len(list) {
			notes[i] = list[i]
		}
	}
	for i := len(notes); i < len(list) && more; i++ {
		c.Note(list[i])
	}
}

// picture notes what is stored about every slab.
func (t *liar) picture() {
	var s impls.Snapshot
	t.slabs = t.slabs[:0]
	if t.lie.after == nil || !t.Instance.Snapshot(&s) {
		return
	}
	for i := range s.Slabs {
		if d, ok := s.Caches[s.Slabs[i].Cache].Handle.(impls.Debugger); ok && d.Layout() != nil {
			b, _ := d.Slab(s.Slabs[i].Addr)
			t.slabs = append(t.slabs, b)
		}
	}
}

// before is what was stored about the slab at a before the call in hand.
func (t *liar) before(a impls.Addr) (b debugcheck.Slab, ok bool) {
	for _, b := range t.slabs {
		if b.Addr == a {
			return b, true
		}
	}
	return b, false
}

// owner is the debugged cache whose slab holds a; nil for none.
func (t *liar) owner(a impls.Addr) impls.Debugger {
	for _, k := range t.caches {
		if _, ok := k.Slab(a); ok {
			return k.Debugger
		}
	}
	if o, ok := t.Instance.Sizes().(impls.Owner); ok {
		d, _ := o.CacheOf(a).(impls.Debugger)
		return d
	}
	return nil
}

type liedObjects struct {
	impls.Objects
	t *liar
}

// NewCache wraps what can be debugged.
func (o liedObjects) NewCache(c *machine.Ctx, s impls.CacheSpec) (impls.Cache, error) {
	k, err := o.Objects.NewCache(c, s)
	d, ok := k.(impls.Debugger)
	if err != nil || !ok {
		return k, err
	}
	w := &lyingCache{d, o.t}
	o.t.caches = append(o.t.caches, w)
	return w, nil
}

// A lyingCache is a debugged cache of a liar.
type lyingCache struct {
	impls.Debugger
	t *liar
}

func (k *lyingCache) Layout() *debugcheck.Layout {
	l := k.Debugger.Layout()
	if l == nil || k.t.lie.slot == nil {
		return l
	}
	bent := *l
	k.t.lie.slot(&bent)
	return &bent
}

func (k *lyingCache) Alloc(c *machine.Ctx, f impls.AllocFlags) (a impls.Addr) {
	k.t.call(c, func() { a = k.Debugger.Alloc(c, f) })
	return k.t.gave(c, a)
}

func (k *lyingCache) Free(c *machine.Ctx, a impls.Addr) {
	k.t.call(c, func() {
		if k.t.lie.free != nil {
			k.t.lie.free(k, c, a)
			return
		}
		k.Debugger.Free(c, a)
	})
}

func (k *lyingCache) Shrink(c *machine.Ctx) (n int) {
	k.t.call(c, func() { n = k.Debugger.Shrink(c) })
	return n
}

func (k *lyingCache) Destroy(c *machine.Ctx) (err error) {
	k.t.call(c, func() {
		if k.t.lie.ends != nil {
			err = k.t.lie.ends(k, c)
			return
		}
		err = k.Debugger.Destroy(c)
	})
	return err
}

func (k *lyingCache) Validate(c *machine.Ctx) (n int, err error) {
	k.t.call(c, func() { n, err = k.Debugger.Validate(c) })
	return n, err
}

type liedSizes struct {
	impls.Owner
	t *liar
}

func (s liedSizes) Malloc(c *machine.Ctx, n uint64, f impls.AllocFlags) (a impls.Addr) {
	s.t.call(c, func() { a = s.Owner.Malloc(c, n, f) })
	return s.t.gave(c, a)
}

func (s liedSizes) Memalign(c *machine.Ctx, align, n uint64, f impls.AllocFlags) (a impls.Addr) {
	s.t.call(c, func() { a = s.Owner.Memalign(c, align, n, f) })
	return s.t.gave(c, a)
}

func (s liedSizes) Realloc(c *machine.Ctx, p impls.Addr, n uint64,
	f impls.AllocFlags) (a impls.Addr) {
	s.t.call(c, func() { a = s.Owner.Realloc(c, p, n, f) })
	return s.t.gave(c, a)
}

func (s liedSizes) Free(c *machine.Ctx, p impls.Addr) {
	s.t.call(c, func() { s.Owner.Free(c, p) })
}

func (s liedSizes) CacheOf(a impls.Addr) impls.Cache {
	k := s.Owner.CacheOf(a)
	for _, w := range s.t.caches {
		if k == w.Debugger.(impls.Cache) {
			return w
		}
	}
	return k
}

func subject(tb testing.TB, name string) *impls.Variant {
	tb.Helper()
	v, ok := all.Lookup(name)
	if !ok {
		tb.Fatalf("no subject %s", name)
	}
	return v
}

// expand writes a program out: lines are divided by semicolons, and are of context cpu0
// when they name none.
func expand(text string) []byte {
	out := []byte("allocfuzz 1\n")
	for _, line := range strings.Split(text, ";") {
		line = strings.TrimSpace(line)
		switch word, _, _ := strings.Cut(line, " "); word {
		case "":
			continue
		case "machine", "cache", "cpu1", "irq0", "sched", "at", "}":
		default:
			line = "cpu0 " + line
		}
		out = append(out, line+"\n"...)
	}
	return out
}

func compile(tb testing.TB, text string) *oracle.Compiled {
	tb.Helper()
	p, err := prog.ParseString(string(expand(text)))
	if err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		tb.Fatalf("%v\n%s", err, text)
	}
	return c
}

// titles lists the titles of a run's faults in order, each once.
func titles(res *oracle.Result) []fault.Title {
	var out []fault.Title
	have := map[fault.Title]bool{}
	for i := range res.Faults {
		if t := res.Faults[i].Title; !have[t] {
			have[t] = true
			out = append(out, t)
		}
	}
	return out
}

// said are the reports that the lines of a program made: "line: title", lines from 1
// without the declarations, in order.
func said(p *oracle.Compiled, list []seen) []string {
	var out []string
	for i := range list {
		if n := list[i].line; n >= 0 && n < len(p.Lines) {
			out = append(out, fmt.Sprintf("%d: %s", n+1, list[i].Title))
		}
	}
	return out
}
