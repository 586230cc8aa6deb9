package oracle

import (
	"bytes"
	"strconv"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/sched"
)

// A Film is one run, point by point: what a page about it steps through. What does not change from
// one point to the next is the same value, so that a film can be written down once for each value.
type Film struct {
	Report   *Report // of the finding, nil when the run showed none
	Program  *prog.Program
	PageSize int
	CPUs     int
	Lines    []string // the operations in text, by order
	Frames   []Frame
	History  []Step // operations beside the model, as in a report
	Cut      bool   // there were more points than FilmMost: these are the last
}

// FilmMost is the most points of a film.
const FilmMost = 4000

// A Frame is a moment before a point. There is one more when something else ran at a point that
// was chosen there: the point comes then.
type Frame struct {
	Task   string // who comes to the point
	CPU    int
	Depth  int    // of handlers and calls that it is nested in
	Line   int    // order of the line, -1 outside
	Point  string // kind, field and attempt, as a departure spells them
	Chosen string // what a departure does here, "" for nothing
	Faults []string
	CPUs   []machine.CPULook
	Caches []FilmCache
	Slabs  []FilmSlab
	Words  []impls.Word
	Arrays []impls.Array
	Free   int // pages
	Pools  []impls.Pool
	Counts []impls.Count // that are wrong
}

// A FilmCache is what the slabs and words of a frame belong to.
type FilmCache struct {
	Name   string
	Size   uint64 // bytes of an object
	Stride uint64
	Debug  bool
}

// A FilmSlab is a slab in a frame. Objects are told by their numbers in the slab, from 0; -1 is an
// address that is none of them.
type FilmSlab struct {
	Cache   int
	Page    int
	Order   int
	Addr    impls.Addr
	First   impls.Addr
	Inuse   int
	Frozen  bool
	Retired bool
	On      []string
	Objects []FilmObject
	Free    []int // its freelist
	FreeEnd impls.FreeEnd
	CPUFree []int // the list of the CPU whose slab it is
	CPUEnd  impls.FreeEnd
}

// A FilmObject is an object of a slab in a frame.
type FilmObject struct {
	Live  bool   // by the model
	Names string // of the program that it is bound to
	Own   bool   // describes a slab
	Bad   int64  // first byte that is not its owner's, -1 for none
	Red   string // its red zones: active, inactive, broken; "" without, and with SLAB's words
	// Some bytes of a damaged object from From on, and what they should be.
	From     int64
	Is, Want []byte
}

// Film runs a program on a subject under a schedule (nil for line order) and films it. A subject
// that does not run on the machine has no frames.
func (r *Runner) Film(p *Compiled, v *impls.Variant, s *prog.Sched, opt Options) (*Film, error) {
	f := &Film{Program: p.Prog, PageSize: p.Config.PageSize, CPUs: p.Config.CPUs}
	for i := range p.Lines {
		f.Lines = append(f.Lines, p.Named(i))
	}
	c := &camera{r: r, film: f}
	if s != nil && len(s.Departures) > 0 {
		anchors, err := p.Anchors(s)
		if err != nil {
			return nil, err
		}
		c.inner = sched.NewReplay(sched.Repair, anchors)
	}
	opt.Chooser, opt.Record = c, true
	rep := &Report{}
	r.explain = rep
	res := r.Run(p, v, opt)
	r.explain = nil
	if res.Err != nil {
		return nil, res.Err
	}
	rep.Finding, rep.Hash = &Finding{}, res.Hash
	found := res.Finding()
	if found != nil {
		rep.Finding = found
	}
	rep.history(p, res, &r.judge)
	f.History = rep.History
	if found != nil {
		block := prog.Sched{Subject: v.Name, Bug: string(rep.Finding.Title)}
		if s != nil {
			block.Departures = s.Departures
		}
		copied := *p.Prog
		copied.Scheds = []prog.Sched{block}
		rep.Program = &copied
		rep.debug(p, res)
		f.Report = rep
	}
	c.trim()
	for i := range res.Faults {
		c.fault(&res.Faults[i])
	}
	return f, nil
}

// Named is the operation of an order in text.
func (f *Film) Named(order int) string {
	if order < 0 || order >= len(f.Lines) {
		return "the end of the program"
	}
	return f.Lines[order]
}

// A camera is a chooser that looks at every point and decides as another does.
type camera struct {
	r     *Runner
	film  *Film
	inner *sched.Replay // nil: nothing is decided
	steps []uint64      // of the frames
}

// Bind starts a run.
func (k *camera) Bind(b *sched.Binding) {
	k.film.Frames, k.steps = k.film.Frames[:0], k.steps[:0]
	if k.inner != nil {
		k.inner.Bind(b)
	}
}

// Choose films the moment before the point.
func (k *camera) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	w := c.Where()
	if n := len(k.steps); n == 0 || k.steps[n-1] != w.Step || k.film.Frames[n-1].Task != w.Task {
		k.look(c, p)
	}
	var a machine.Action
	if k.inner != nil {
		a = k.inner.Choose(c, p)
	}
	if n := len(k.film.Frames); a.Kind != machine.Go {
		k.film.Frames[n-1].Chosen += " " + actionText(a)
	}
	return a
}

func actionText(a machine.Action) string {
	switch {
	case a.Task != nil:
		return a.Kind.String() + " " + a.Task.Name()
	case a.Handler != nil:
		return a.Kind.String() + " " + a.Handler.Name
	}
	return a.Kind.String()
}

// trim keeps the last points: what a run comes to is at its end.
func (k *camera) trim() {
	if over := len(k.film.Frames) - FilmMost; over > 0 {
		k.film.Frames = append(k.film.Frames[:0], k.film.Frames[over:]...)
		k.steps = append(k.steps[:0], k.steps[over:]...)
		k.film.Cut = true
	}
}

// look adds a frame.
func (k *camera) look(c *machine.Ctx, p machine.Point) {
	if len(k.film.Frames) == 2*FilmMost {
		k.trim()
	}
	w := c.Where()
	f := Frame{Task: w.Task, CPU: w.CPU, Line: w.Line, Point: pointText(p)}
	for i := range k.film.CPUs {
		f.CPUs = append(f.CPUs, k.r.m.CPU(i).Look())
	}
	f.Depth = len(f.CPUs[c.CPUID()].Handlers)
	k.state(&f)
	k.film.Frames = append(k.film.Frames, f)
	k.steps = append(k.steps, w.Step)
}

// state fills in what the subject holds.
func (k *camera) state(f *Frame) {
	r := k.r
	var s impls.Snapshot
	if !r.in.Snapshot(&s) {
		return
	}
	for i := range s.Caches {
		d, ok := s.Caches[i].Handle.(impls.Debugger)
		f.Caches = append(f.Caches, FilmCache{Name: s.Caches[i].Name, Size: s.Caches[i].Size,
			Stride: s.Caches[i].Stride, Debug: ok && d.Layout() != nil})
	}
	bad := r.soiled()
	for i := range s.Slabs {
		f.Slabs = append(f.Slabs, r.filmSlab(&s, &s.Slabs[i], bad))
	}
	if w, ok := r.in.(impls.WordShower); ok {
		f.Words = w.Words()
	}
	f.Arrays, f.Free, f.Pools = s.Arrays, s.PagesFree, s.Pools
	for _, n := range s.Counts {
		if n.Stored != n.Counted {
			f.Counts = append(f.Counts, n)
		}
	}
}

// soiled finds the objects whose contents are not their owner's, by address.
func (r *Runner) soiled() map[impls.Addr]*play.Slot {
	bad := map[impls.Addr]*play.Slot{}
	mem := r.exec.Memory()
	for i := range r.exec.Slots() {
		x := r.exec.Slot(i)
		if x.State == play.Live && x.Size > 0 && mem.Verify(x.Addr, x.Size, x.Pattern) >= 0 {
			bad[x.Addr] = &x
		}
	}
	return bad
}

// redZones says what the red zones around the object at a hold.
func (r *Runner) redZones(l *debugcheck.Layout, a impls.Addr) string {
	if l == nil || l.Flags&debugcheck.RedZone == 0 || l.Rules.SLAB() {
		return ""
	}
	var zones []byte
	for _, region := range []debugcheck.Region{debugcheck.LeftRed, debugcheck.RightRed} {
		from, to := l.At(region)
		b := make([]byte, to-from)
		b = b[:r.exec.Memory().Read(a+uint64(from), b)]
		zones = append(zones, b...)
	}
	switch len(zones) {
	case bytes.Count(zones, []byte{0xcc}):
		return "active"
	case bytes.Count(zones, []byte{0xbb}):
		return "inactive"
	}
	return "broken"
}

// dumpMost is the number of bytes that a film shows of a damaged object.
const dumpMost = 32

// dump notes the first wrong byte of the object in a slot, and some around it.
func (r *Runner) dump(o *FilmObject, slot *play.Slot) {
	mem := r.exec.Memory()
	o.Bad = mem.Verify(slot.Addr, slot.Size, slot.Pattern)
	o.From = o.Bad &^ 7
	o.Is = make([]byte, min(dumpMost, slot.Size-uint64(o.From)))
	o.Is = o.Is[:mem.Read(slot.Addr+uint64(o.From), o.Is)]
	for i := range o.Is {
		o.Want = append(o.Want, slot.Pattern.Byte(uint64(o.From)+uint64(i)))
	}
}

func (r *Runner) filmSlab(s *impls.Snapshot, b *impls.SlabState,
	bad map[impls.Addr]*play.Slot) FilmSlab {
	k := &s.Caches[b.Cache]
	out := FilmSlab{Cache: b.Cache, Page: b.Page, Order: b.Order, Addr: b.Addr, First: b.First,
		Inuse: b.Inuse, Frozen: b.Frozen, Retired: b.Retired, FreeEnd: b.FreeEnd,
		CPUEnd: b.CPUEnd}
	for _, p := range b.On {
		out.On = append(out.On, placeText(p))
	}
	for i := range b.Objects {
		at := b.First + uint64(i)*k.Stride
		st := r.object(s, b, at)
		o := FilmObject{Live: st.live, Names: st.names, Own: st.own, Bad: -1}
		if slot := bad[at]; slot != nil {
			r.dump(&o, slot)
		}
		if d, ok := k.Handle.(impls.Debugger); ok {
			o.Red = r.redZones(d.Layout(), at)
		}
		out.Objects = append(out.Objects, o)
	}
	number := func(list []impls.Addr) (out []int) {
		for _, a := range list {
			n := -1
			if b.Holds(a, k.Stride) {
				n = int((a - b.First) / k.Stride)
			}
			out = append(out, n)
		}
		return out
	}
	out.Free, out.CPUFree = number(b.Free), number(b.CPUFree)
	return out
}

// fault marks the last frame before a fault was raised.
func (k *camera) fault(f *fault.Fault) {
	frames := k.film.Frames
	if len(frames) == 0 {
		return
	}
	if k.film.Cut && f.Where.Step > 0 && f.Where.Step < k.steps[0] {
		frames[0].Faults = append(frames[0].Faults, "before what was filmed: "+f.String())
		return
	}
	at := len(frames) - 1
	for i := range k.steps {
		if f.Where.Step > 0 && k.steps[i] > f.Where.Step {
			at = max(i-1, 0)
			break
		}
	}
	frames[at].Faults = append(frames[at].Faults, f.String())
}

// pointText spells a point as an anchor does.
func pointText(p machine.Point) string {
	field := "-"
	if p.Field != nil {
		field = p.Field.Name()
	}
	return p.Kind.String() + " " + field + " " + strconv.Itoa(p.N)
}
