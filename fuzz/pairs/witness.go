package pairs

import (
	"bytes"
	"strconv"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

// A witness watches one subject through a run: every page that goes out or comes back,
// and its state at every quiet point. It writes lines, so that what differs can be read.
type witness struct {
	impls.Instance
	machine.PageLayer
	m      *machine.Machine
	view   View
	events []byte // lines of the outcomes
	ops    []int32
	seen   []byte // lines of all else, in order
	states int
	snap   impls.Snapshot // of place
}

// A field is a value with its name.
type field struct {
	name string
	v    uint64
}

// line writes a line.
func line(to []byte, what string, fields ...field) []byte {
	to = append(to, what...)
	for _, f := range fields {
		to = append(append(append(to, ' '), f.name...), '=')
		to = value(to, f.v)
	}
	return append(to, '\n')
}

// value writes an address as such, and what is no address as a number with its sign.
func value(to []byte, v uint64) []byte {
	if n := int64(v); n > -1<<32 && n < 1<<32 {
		return strconv.AppendInt(to, n, 10)
	}
	return strconv.AppendUint(append(to, "0x"...), v, 16)
}

func (w *witness) note(what string, fields ...field) { w.seen = line(w.seen, what, fields...) }

// watch is v with the witness, which each run starts afresh. It promises no order, so
// that a run of one that breaks its promise is no other than that of its partner.
func (w *witness) watch(v *impls.Variant, view View) *impls.Variant {
	copied := *v
	copied.Caps &^= impls.CapReuseLIFO
	copied.New = func(m *machine.Machine) impls.Instance {
		*w = witness{Instance: v.New(m), PageLayer: m.PageLayer(), m: m, view: view,
			events: w.events[:0], ops: w.ops[:0], seen: w.seen[:0], snap: w.snap}
		m.SetPageLayer(w)
		return w
	}
	return &copied
}

// Alloc takes pages and writes down which.
func (w *witness) Alloc(c *machine.Ctx, order int) *machine.Page {
	p := w.PageLayer.Alloc(c, order)
	switch {
	case w.view == Outcomes:
	case p == nil:
		w.note("no pages", field{"order", uint64(order)})
	default:
		w.note("pages", field{"page", uint64(p.PFN())}, field{"order", uint64(order)})
	}
	return p
}

// Free gives pages back and writes down which.
func (w *witness) Free(c *machine.Ctx, p *machine.Page, order int) {
	if w.view != Outcomes {
		w.note("back", field{"page", uint64(p.PFN())}, field{"order", uint64(order)})
	}
	w.PageLayer.Free(c, p, order)
}

// Memory is the subject's, which is asked where each object lies when it gets its
// contents and addresses cannot be compared.
func (w *witness) Memory() impls.Memory {
	mem := w.Instance.Memory()
	if v, ok := mem.(impls.Viewer); ok && w.view == Uncoloured {
		return placing{v, w}
	}
	return mem
}

// placing is a memory that writes down what is filled.
type placing struct {
	impls.Viewer
	w *witness
}

// Fill writes pattern p to n bytes at a.
func (m placing) Fill(a impls.Addr, n uint64, p impls.Pattern) {
	m.w.place(a, p)
	m.Viewer.Fill(a, n, p)
}

// place writes down where the contents p go: which object of which slab, or which page.
func (w *witness) place(a impls.Addr, p impls.Pattern) {
	page := (a - w.m.Base) / uint64(w.m.PageSize)
	w.snap.Reset()
	if w.Instance.Snapshot(&w.snap) {
		if b := w.snap.SlabOf(uint64(w.m.PageSize), a); b != nil {
			w.note("object", field{"contents", uint64(p)}, field{"page", uint64(b.Page)},
				field{"number", (a - b.First) / w.snap.Caches[b.Cache].Stride})
			return
		}
	}
	w.note("memory", field{"contents", uint64(p)}, field{"page", page})
}

// Snapshot writes the state down: each slab with its place in its list and its freelist,
// each cache with its mark, the counters, and the free blocks.
func (w *witness) Snapshot(s *impls.Snapshot) bool {
	ok := w.Instance.Snapshot(s)
	w.states++
	if w.view == Outcomes {
		return ok
	}
	for i := range s.Caches {
		w.cache(&s.Caches[i])
	}
	for i := range s.Slabs {
		w.slab(s, &s.Slabs[i])
	}
	for _, n := range s.Counts {
		w.note(n.Name, field{"stored", uint64(n.Stored)}, field{"counted", uint64(n.Counted)})
	}
	for _, b := range s.Blocks {
		w.note("block", field{"page", uint64(b.Page)}, field{"order", uint64(b.Order)})
	}
	w.note("free pages", field{"n", uint64(s.PagesFree)})
	return ok
}

func (w *witness) cache(k *impls.CacheState) {
	what := "cache"
	if k.Dead {
		what = "dead cache"
	}
	w.note(what, field{"size", k.Size}, field{"stride", k.Stride}, field{"align", k.Align},
		field{"first", uint64(k.FirstNotFull)})
}

func (w *witness) slab(s *impls.Snapshot, b *impls.SlabState) {
	w.note("slab", field{"cache", uint64(b.Cache)}, field{"page", uint64(b.Page)},
		field{"order", uint64(b.Order)}, field{"objects", uint64(b.Objects)},
		field{"inuse", uint64(b.Inuse)}, field{"end", uint64(b.FreeEnd)})
	if w.view == Whole {
		w.note("at", field{"first", b.First}, field{"colour", uint64(b.Colour)})
	}
	for _, on := range b.On {
		w.note("on", field{"kind", uint64(on.Kind)}, field{"list", uint64(on.List)},
			field{"cpu", uint64(on.CPU)}, field{"at", uint64(on.At)})
	}
	w.objects("free", s, b, b.Free)
	w.objects("free on a CPU", s, b, b.CPUFree)
}

// objects writes a freelist down: addresses, or numbers where those depend on a colour.
func (w *witness) objects(what string, s *impls.Snapshot, b *impls.SlabState, list []impls.Addr) {
	stride := s.Caches[b.Cache].Stride
	w.seen = append(w.seen, what...)
	for _, a := range list {
		if w.view == Uncoloured {
			a = (a - b.First) / stride
		}
		w.seen = value(append(w.seen, ' '), a)
	}
	w.seen = append(w.seen, '\n')
}

// result writes down what the run gave, but for the steps at which it did.
func (w *witness) result(res *oracle.Result) {
	for i := range res.Events {
		w.event(res, i)
	}
	for _, r := range res.Reports {
		what := "report " + r.Title
		switch w.view {
		case Whole:
			w.note(what, field{"object", r.Object}, field{"slab", r.Slab})
		case Uncoloured:
			w.note(what, field{"slab", r.Slab})
		case Outcomes:
			w.note(what)
		}
	}
	for i := range res.Faults {
		w.note("fault " + string(res.Faults[i].Title))
	}
	if res.Aborted {
		w.note("aborted")
	}
}

// event writes one event down.
func (w *witness) event(res *oracle.Result, i int) {
	ev := &res.Events[i]
	w.ops = append(w.ops, ev.Op)
	what := ev.Code.String() + " " + ev.Outcome.String()
	all := [...]field{{"op", uint64(ev.Op)}, {"reports", uint64(len(ev.Reports))},
		{"bad", uint64(ev.Bad + 1)}, {"contents", uint64(ev.Want)}, {"answer", ev.Usable},
		{"addr", ev.Addr}, {"old", ev.Old}, {"mask", ev.Mask}}
	n := len(all)
	switch w.view {
	case Uncoloured:
		n = 5
	case Outcomes:
		n = 2
	}
	some := make([]field, 0, len(all))
	for _, f := range all[:n] {
		if f.v != 0 {
			some = append(some, f)
		}
	}
	w.events = line(w.events, what, some...)
}

// differs finds the first line that is not the same on both sides: its number from 0, and
// the lines; ok is false when all are the same.
func differs(a, b []byte) (n int, x, y string, ok bool) {
	if bytes.Equal(a, b) {
		return 0, "", "", false
	}
	for {
		lineA, restA, _ := bytes.Cut(a, []byte{'\n'})
		lineB, restB, _ := bytes.Cut(b, []byte{'\n'})
		if !bytes.Equal(lineA, lineB) {
			return n, string(lineA), string(lineB), true
		}
		a, b = restA, restB
		n++
	}
}
