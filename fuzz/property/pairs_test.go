package property_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/property"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// A witness watches a subject: every page that goes out or comes back, in order, and
// its state at every quiet point.
type witness struct {
	impls.Instance
	machine.PageLayer
	seen   []byte // lines
	states int
}

// note writes a line down.
func (w *witness) note(what string, values ...uint64) {
	w.seen = append(w.seen, what...)
	for _, v := range values {
		w.seen = strconv.AppendUint(append(w.seen, ' '), v, 16)
	}
	w.seen = append(w.seen, '\n')
}

// watched is v with a witness, which each run starts afresh. It promises no order, so
// that a run of the one that breaks its promise is no other than that of its partner.
func watched(v *impls.Variant, w *witness) *impls.Variant {
	copied := *v
	copied.Caps &^= impls.CapReuseLIFO
	copied.New = func(m *machine.Machine) impls.Instance {
		*w = witness{Instance: v.New(m), PageLayer: m.PageLayer(), seen: w.seen[:0]}
		m.SetPageLayer(w)
		return w
	}
	return &copied
}

// Alloc takes pages and writes down which.
func (w *witness) Alloc(c *machine.Ctx, order int) *machine.Page {
	p := w.PageLayer.Alloc(c, order)
	if p == nil {
		w.note("no pages", uint64(order))
	} else {
		w.note("pages", uint64(p.PFN()), uint64(order))
	}
	return p
}

// Free gives pages back and writes down which.
func (w *witness) Free(c *machine.Ctx, p *machine.Page, order int) {
	w.note("back", uint64(p.PFN()), uint64(order))
	w.PageLayer.Free(c, p, order)
}

// Snapshot writes the state down: each slab with its place in its list, its freelist and
// its colour, each cache with its mark, the counters, and the free blocks.
func (w *witness) Snapshot(s *impls.Snapshot) bool {
	ok := w.Instance.Snapshot(s)
	w.states++
	for _, k := range s.Caches {
		dead := uint64(0)
		if k.Dead {
			dead = 1
		}
		w.note("cache", k.Size, k.Stride, k.Align, dead, uint64(k.FirstNotFull))
	}
	for i := range s.Slabs {
		b := &s.Slabs[i]
		w.note("slab", uint64(b.Cache), uint64(b.Page), uint64(b.Order), b.First,
			uint64(b.Objects), uint64(b.Inuse), uint64(b.Colour), uint64(b.FreeEnd))
		for _, on := range b.On {
			w.note("on", uint64(on.Kind), uint64(on.List), uint64(on.At))
		}
		w.note("free", b.Free...)
	}
	for _, n := range s.Counts {
		w.note(n.Name, uint64(n.Stored), uint64(n.Counted))
	}
	for _, b := range s.Blocks {
		w.note("block", uint64(b.Page), uint64(b.Order))
	}
	w.note("free pages", uint64(s.PagesFree))
	return ok
}

// result writes down what a run gave, but for the steps at which it did.
func (w *witness) result(res *oracle.Result) {
	for i := range res.Events {
		ev := &res.Events[i]
		w.note("event", uint64(ev.Op), uint64(ev.Outcome), ev.Addr, ev.Old, ev.Usable,
			uint64(ev.Bad), uint64(ev.Want), ev.Mask, uint64(len(ev.Reports)))
	}
	for _, r := range res.Reports {
		w.note("report "+r.Title, r.Object, r.Slab)
	}
	for i := range res.Faults {
		w.note("fault " + string(res.Faults[i].Title))
	}
}

// A pair is two subjects that are the same to whoever sees them with the locks free.
type pair struct {
	a, b *impls.Variant
	of   [2]witness
	runs int
	ops  int
}

func newPair(t *testing.T, a, b string) *pair {
	t.Helper()
	p := &pair{}
	v, okA := all.Lookup(a)
	w, okB := all.Lookup(b)
	if !okA || !okB {
		t.Fatalf("no %s or no %s", a, b)
	}
	p.a, p.b = watched(v, &p.of[0]), watched(w, &p.of[1])
	return p
}

// run runs a program on both and returns the first thing that differs, "" when nothing
// does.
func (p *pair) run(r *oracle.Runner, c *oracle.Compiled) string {
	if ok, _ := oracle.Applies(c, p.a); !ok {
		return "does not apply"
	}
	for i, v := range []*impls.Variant{p.a, p.b} {
		res := r.Run(c, v, oracle.Options{})
		w := &p.of[i]
		if res.Err != nil || w.states == 0 {
			return fmt.Sprintf("%s: looked at %d times, %v", v.Name, w.states, res.Err)
		}
		w.result(res)
		p.ops += res.Counts.Operations
	}
	p.runs++
	if bytes.Equal(p.of[0].seen, p.of[1].seen) {
		return ""
	}
	return property.Diff(strings.Split(string(p.of[0].seen), "\n"),
		strings.Split(string(p.of[1].seen), "\n"))
}

func compiled(t *testing.T, f corpus.File) *oracle.Compiled {
	t.Helper()
	p, err := f.Program()
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// TestPairs: what is stated to be equal is: outcomes, addresses, every list in order
// with all that is on it, at every quiet point, and the pages in the order in which they
// go and come. On every sequential seed and on generated programs, debugged ones and
// ones with misuse among them.
func TestPairs(t *testing.T) {
	for _, names := range [][2]string{
		{"slab-2001-threelists", "slab-2001-threelists-opt"},
		{"slab-2001-onelist", "slab-2001-onelist-lifo-posted"},
	} {
		t.Run(names[1], func(t *testing.T) {
			r := oracle.NewRunner()
			defer r.Close()
			p := newPair(t, names[0], names[1])
			for f := range corpus.Seeds() {
				if c := compiled(t, f); c.Sequential() {
					if diff := p.run(r, c); diff != "" {
						t.Errorf("%s: %s", f.Name, diff)
					}
				}
			}
			if p.runs < 50 {
				t.Errorf("%d seeds", p.runs)
			}
			p.generated(t, r, 2000)
		})
	}
}

// generated runs n programs, half of them with debug flags and misuse.
func (p *pair) generated(t *testing.T, r *oracle.Runner, n int) {
	rng := rand.New(rand.NewPCG(2001, 9))
	before := p.runs
	for i := range n {
		odd := i%2 == 1
		text := input.Generate(rng, input.GenerateOptions{Lines: 60, Decode: input.DecodeOptions{
			Sequential: true, Debug: odd, Misuse: odd}})
		c, err := oracle.Compile(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := p.run(r, c); diff != "" {
			t.Fatalf("%s\n%s", prog.Format(text), diff)
		}
	}
	if p.runs-before < n || p.ops < 40*n {
		t.Errorf("%d programs of %d, %d operations", p.runs-before, n, p.ops)
	}
}

// TestEmptiedSlab: the program of the emptied slab tells the old list from its repair.
// Where the order is kept the last allocation gets the object freed last, the sixth one,
// else the one freed last of the other slab, the fourth. As mailed the repair keeps
// nothing.
func TestEmptiedSlab(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	c := committed(t, "slab-emptied-at-tail")
	for name, want := range map[string]int{
		"slab-2001-onelist":             3,
		"slab-2001-onelist-lifo":        5,
		"slab-2001-onelist-lifo-posted": 3,
		"slab-2001-threelists":          5,
		"slab-2001-threelists-opt":      5,
	} {
		v, ok := all.Lookup(name)
		if !ok {
			t.Fatalf("no %s", name)
		}
		var freed []impls.Addr
		last := impls.Addr(0)
		for _, ev := range r.Run(c, v, oracle.Options{}).Events {
			switch ev.Code {
			case impls.OpFree:
				freed = append(freed, ev.Addr)
			case impls.OpAlloc:
				last = ev.Addr
			}
		}
		if len(freed) < 6 || freed[want] != last {
			t.Errorf("%s: %#x freed, then %#x allocated, want number %d", name, freed, last, want)
		}
	}
	if newPair(t, "slab-2001-onelist", "slab-2001-onelist-lifo").run(r, c) == "" {
		t.Error("nobody sees the difference")
	}
}

// committed finds a seed by its name.
func committed(t *testing.T, name string) *oracle.Compiled {
	t.Helper()
	for f := range corpus.Seeds() {
		if f.Name == "corpus/seeds/"+name+".prog" {
			return compiled(t, f)
		}
	}
	t.Fatalf("no seed %s", name)
	return nil
}
