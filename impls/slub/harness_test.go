package slub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slub"
)

// A program is what one run does: lines of tasks and handlers in order. A line is
// "cpu0 a=alloc", "cpu0 free a", "irq0 …", "t1@0 …" (a task that may move),
// with the verbs alloc, zalloc, atomic, free, shrink, drain, flush, offline, validate, check. Every
// report of a debug check is something wrong.
type program struct {
	cfg   machine.Config
	spec  impls.CacheSpec
	lines []string
}

// machineOf is a small machine.
func machineOf(cpus, pages int) machine.Config {
	cfg := machine.DefaultConfig()
	cfg.CPUs, cfg.Pages = cpus, pages
	return cfg
}

// specOf is a cache of n objects a slab that keeps no empty slab and stores one.
func specOf(n int) impls.CacheSpec {
	spec := impls.NewSpec("c", 64)
	spec.Objects, spec.MinPartial, spec.CPUPartial = n, 0, 1
	return spec
}

// A world runs programs on one variant, again and again on one machine.
type world struct {
	v        *impls.Variant
	m        *machine.Machine
	in       impls.Instance
	cache    impls.Cache
	prog     *program
	slots    map[string]impls.Addr
	live     map[impls.Addr]impls.Pattern
	fills    impls.Pattern
	bad      []string // what went wrong, beside the machine's faults
	tasks    []*machine.Ctx
	handlers []*machine.Handler
	refused  int
	snap     impls.Snapshot
}

func variant(t testing.TB, name string) *impls.Variant {
	t.Helper()
	for _, v := range slub.Variants() {
		if v.Name == name {
			return v
		}
	}
	t.Fatalf("no variant %s", name)
	return nil
}

func newWorld(t testing.TB, name string, p *program) *world {
	t.Helper()
	if err := p.cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	w := &world{v: variant(t, name), m: machine.New(p.cfg), prog: p}
	t.Cleanup(w.m.Close)
	return w
}

func (w *world) fail(format string, args ...any) {
	if len(w.bad) < 20 {
		w.bad = append(w.bad, fmt.Sprintf(format, args...))
	}
}

// reset sets everything up for a run.
func (w *world) reset() {
	w.m.Reset()
	w.in = w.v.New(w.m)
	cache, err := w.in.Objects().NewCache(nil, w.prog.spec)
	if err != nil {
		panic(err)
	}
	w.cache = cache
	w.slots, w.live = map[string]impls.Addr{}, map[impls.Addr]impls.Pattern{}
	w.bad, w.tasks, w.handlers, w.refused, w.fills = nil, nil, nil, 0, 0
	order := []string{}
	bodies := map[string][]int{}
	for i, line := range w.prog.lines {
		ctx, _, _ := strings.Cut(line, " ")
		if bodies[ctx] == nil {
			order = append(order, ctx)
		}
		bodies[ctx] = append(bodies[ctx], i)
	}
	for _, ctx := range order {
		w.add(ctx, bodies[ctx])
	}
}

func (w *world) add(ctx string, at []int) {
	var cpu int
	body := func(c *machine.Ctx) { w.play(c, at) }
	if n, _ := fmt.Sscanf(ctx, "irq%d", &cpu); n == 1 {
		h := &machine.Handler{CPU: cpu, Name: ctx, Pos: at[0], Body: body}
		w.m.AddHandler(h)
		w.handlers = append(w.handlers, h)
		return
	}
	pinned := true
	if _, after, ok := strings.Cut(ctx, "@"); ok {
		pinned = false
		fmt.Sscanf(after, "%d", &cpu)
	} else {
		fmt.Sscanf(ctx, "cpu%d", &cpu)
	}
	w.tasks = append(w.tasks, w.m.AddTask(ctx, cpu, at[0], pinned, body))
}

func (w *world) play(c *machine.Ctx, at []int) {
	for n, i := range at {
		c.BeginLine(i, [2]int32{})
		_, op, _ := strings.Cut(w.prog.lines[i], " ")
		w.do(c, op)
		for _, n := range c.Notes() {
			r := n.(*debugcheck.Report)
			w.fail("%s: %s: got %#x, want %#x", fault.FalseReport, r.Title, r.Got, r.Want)
		}
		next := machine.After
		if n+1 < len(at) {
			next = at[n+1]
		}
		c.EndLine(next)
	}
}

func (w *world) do(c *machine.Ctx, op string) {
	if name, verb, ok := strings.Cut(op, "="); ok {
		var f impls.AllocFlags
		switch verb {
		case "zalloc":
			f = impls.FlagZero
		case "atomic":
			f = impls.FlagAtomic
		}
		w.got(c, name, w.cache.Alloc(c, f), f)
		return
	}
	verb, name, _ := strings.Cut(op, " ")
	switch verb {
	case "free":
		w.free(c, name)
	case "shrink":
		w.cache.Shrink(c)
	case "drain":
		w.in.Pages().Drain(c)
	case "flush":
		w.cache.(impls.Flusher).Flush(c)
	case "offline":
		if err := w.in.(impls.Hotplugger).Offline(c, int(name[0]-'0')); err != nil {
			w.fail("offline %s: %v", name, err)
		}
	case "validate":
		if _, err := w.cache.(impls.Debugger).Validate(c); err != nil {
			w.fail("validate: %v", err)
		}
	case "check":
		w.check()
	default:
		panic("no verb " + verb)
	}
}

// got binds an allocated address.
func (w *world) got(c *machine.Ctx, name string, a impls.Addr, f impls.AllocFlags) {
	if a == 0 {
		w.refused++
		if c.Refused() == 0 {
			w.fail("%s: %s", name, fault.RefusedNoReason)
		}
		return
	}
	mem, size := w.in.Memory(), w.cache.Size()
	if _, ok := w.live[a]; ok {
		w.fail("%s = %#x: %s", name, a, fault.TwiceOut)
	}
	if !mem.Contains(a, size) || a%w.cache.Align() != 0 {
		w.fail("%s = %#x: outside or misaligned", name, a)
		return
	}
	if f&impls.FlagZero != 0 && mem.Verify(a, size, 0) >= 0 {
		w.fail("%s = %#x: %s", name, a, fault.NotZeroed)
	}
	w.fills++
	mem.Fill(a, size, w.fills)
	w.live[a] = w.fills
	for _, bound := w.slots[name]; bound; _, bound = w.slots[name] {
		name += "'" // a handler delivered again
	}
	w.slots[name] = a
}

// free gives back what a name is bound to; nothing when it is not bound.
func (w *world) free(c *machine.Ctx, name string) {
	a, ok := w.slots[name]
	if !ok {
		return
	}
	delete(w.slots, name)
	if w.in.Memory().Verify(a, w.cache.Size(), w.live[a]) >= 0 {
		w.fail("%s = %#x: %s", name, a, fault.ContentsChanged)
	}
	delete(w.live, a)
	w.cache.Free(c, a)
}

// run plays the program once and then, unless something is wrong, checks the
// state, frees everything, destroys the cache and wants every page back.
func (w *world) run(ch machine.Chooser) {
	w.reset()
	w.sim(ch)
	if w.wrong() {
		return
	}
	w.check()
	if w.wrong() {
		return
	}
	w.m.AddTask("end", 0, len(w.prog.lines), true, func(c *machine.Ctx) { w.end(c) })
	w.sim(nil)
	if w.wrong() {
		return
	}
	w.check()
	if free := w.m.PageLayer().FreePages(); free != w.prog.cfg.Pages {
		w.fail("%s: %d of %d", fault.PagesLeaked, free, w.prog.cfg.Pages)
	}
}

func (w *world) end(c *machine.Ctx) {
	c.BeginLine(len(w.prog.lines), [2]int32{})
	if len(w.slots) > 0 {
		if err := w.cache.Destroy(c); err != impls.ErrBusy {
			w.fail("destroy with live objects: %v", err)
		}
	}
	var names []string
	for name := range w.slots {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		w.free(c, name)
	}
	if err := w.cache.Destroy(c); err != nil {
		w.in.Snapshot(&w.snap)
		w.fail("destroy: %v, slabs %+v", err, w.snap.Slabs)
	}
	c.EndLine(machine.After)
}

func (w *world) sim(ch machine.Chooser) {
	if err := w.m.Sim().Run(ch); err != nil {
		p := err.(*machine.Panic)
		w.fail("panic: %v\n%s", p.Value, p.Stack)
	}
}

func (w *world) wrong() bool { return len(w.bad) > 0 || len(w.m.Faults()) > 0 }

// says lists everything that was found wrong.
func (w *world) says() string {
	var b strings.Builder
	for _, f := range w.m.Faults() {
		fmt.Fprintf(&b, "  fault %v at line %d cpu %d\n", f, f.Where.Line, f.Where.CPU)
	}
	for _, s := range w.bad {
		fmt.Fprintf(&b, "  %s\n", s)
	}
	return b.String()
}

// check holds a snapshot against the invariants.
func (w *world) check() {
	if !w.in.Snapshot(&w.snap) {
		w.fail("no snapshot")
		return
	}
	used := 0
	seen := map[impls.Addr]bool{}
	for i := range w.snap.Slabs {
		b := &w.snap.Slabs[i]
		used += 1 << b.Order
		w.checkSlab(b, seen)
	}
	for a := range w.live {
		b := w.snap.SlabOf(uint64(w.prog.cfg.PageSize), a)
		if b == nil || !b.Holds(a, w.stride(b)) {
			w.fail("live %#x: %s", a, fault.OutsideSlab)
		}
	}
	for _, n := range w.snap.Counts {
		if n.Stored != n.Counted {
			w.fail("%s: %s %d, counted %d", fault.CountWrong, n.Name, n.Stored, n.Counted)
		}
	}
	total, free := w.snap.PagesTotal, w.snap.PagesFree
	if total != w.prog.cfg.Pages || free+used != total {
		w.fail("%d pages free, %d in slabs, of %d", free, used, total)
	}
}

func (w *world) stride(b *impls.SlabState) uint64 { return w.snap.Caches[b.Cache].Stride }

func (w *world) checkSlab(b *impls.SlabState, seen map[impls.Addr]bool) {
	for _, list := range [][]impls.Addr{b.Free, b.CPUFree} {
		for _, a := range list {
			if _, live := w.live[a]; live {
				w.fail("SLUB4 %#x: %s", a, fault.LiveOnFreelist)
			}
			if seen[a] {
				w.fail("SLUB4 %#x: %s", a, fault.FreeTwice)
			}
			if !b.Holds(a, w.stride(b)) {
				w.fail("SLUB1 %#x on page %d: %s", a, b.Page, fault.FreelistLeaves)
			}
			seen[a] = true
		}
	}
	live := 0
	for a := range w.live {
		if b.Holds(a, w.stride(b)) {
			live++
		}
	}
	if b.FreeEnd != impls.EndOK || b.CPUEnd != impls.EndOK {
		w.fail("page %d: freelists end %d, %d", b.Page, b.FreeEnd, b.CPUEnd)
	}
	if live+len(b.Free)+len(b.CPUFree) != b.Objects {
		w.fail("page %d: %s: %d live, %d + %d free of %d", b.Page, fault.FreeLost, live,
			len(b.Free), len(b.CPUFree), b.Objects)
	}
	if b.Inuse != b.Objects-len(b.Free) {
		w.fail("SLUB5 page %d: %s: %d, %d of %d free", b.Page, fault.InuseWrong, b.Inuse,
			len(b.Free), b.Objects)
	}
	w.checkPlace(b)
}

func (w *world) checkPlace(b *impls.SlabState) {
	switch {
	case len(b.On) > 1:
		w.fail("page %d: %s: %v", b.Page, fault.SlabTwice, b.On)
	case len(b.On) == 0:
		if b.Frozen || len(b.Free) > 0 || len(b.CPUFree) > 0 {
			w.fail("page %d: %s", b.Page, fault.SlabLost)
		}
	case b.On[0].Kind == impls.OnList && b.On[0].List == impls.ListFull:
		if b.Frozen || len(b.Free) > 0 || len(b.CPUFree) > 0 {
			w.fail("page %d on the full list: %s", b.Page, fault.ListOrder)
		}
	case b.On[0].Kind == impls.OnList:
		if b.Frozen || len(b.Free) == 0 || len(b.CPUFree) > 0 {
			w.fail("SLUB6 page %d: %s", b.Page, fault.ListOrder)
		}
	case b.On[0].Kind == impls.OnCPUPartial:
		if !b.Frozen || len(b.Free) == 0 || len(b.CPUFree) > 0 {
			w.fail("SLUB9 page %d: %s", b.Page, fault.ListOrder)
		}
	default:
		if !b.Frozen {
			w.fail("SLUB2 page %d of a CPU is not frozen", b.Page)
		}
	}
}

// An at is a chooser that takes one action at the k-th point, and at an earlier one.
// With again it takes it there until it cannot: a task that was switched to gives
// the CPU back after each line.
type at struct {
	k, n   int
	first  int
	again  bool
	asked  asked
	action func(c *machine.Ctx, p machine.Point) machine.Action
	where  string // the point, once the action was taken
	w      *world
}

// An asked is a question that Choose was asked.
type asked struct {
	c   *machine.Ctx
	irq bool
	p   machine.Point
}

func (s *at) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	q := asked{c, c.InInterrupt(), p}
	if q == s.asked {
		if a := s.action(c, p); s.again && c.Allowed(p, a) {
			return a
		}
		s.asked = asked{}
		return machine.Action{}
	}
	s.n++
	if s.n != s.k && s.n != s.first {
		return machine.Action{}
	}
	a := s.action(c, p)
	if a.Kind == machine.Go || !c.Allowed(p, a) {
		return machine.Action{}
	}
	line := "-"
	if i := c.Where().Line; i >= 0 && i < len(s.w.prog.lines) {
		line = s.w.prog.lines[i]
	}
	s.asked = q
	s.where = fmt.Sprintf("%s/%s %s %d", line, p.Kind, p.Field.Name(), p.N)
	return a
}

// Each kind of action, as a choice at a point.

func (w *world) interrupt(i int) func(*machine.Ctx, machine.Point) machine.Action {
	return func(*machine.Ctx, machine.Point) machine.Action {
		return machine.Action{Kind: machine.Interrupt, Handler: w.handlers[i]}
	}
}

func (w *world) switchTo(i int) func(*machine.Ctx, machine.Point) machine.Action {
	return func(*machine.Ctx, machine.Point) machine.Action {
		return machine.Action{Kind: machine.SwitchTo, Task: w.tasks[i]}
	}
}

// other switches to the other of two tasks.
func (w *world) other(c *machine.Ctx, _ machine.Point) machine.Action {
	to := w.tasks[0]
	if to == c {
		to = w.tasks[1]
	}
	return machine.Action{Kind: machine.SwitchTo, Task: to}
}

func move(cpu int) func(*machine.Ctx, machine.Point) machine.Action {
	return func(*machine.Ctx, machine.Point) machine.Action {
		return machine.Action{Kind: machine.Move, CPU: cpu}
	}
}

func failPages(*machine.Ctx, machine.Point) machine.Action {
	return machine.Action{Kind: machine.FailPages}
}

// everywhere runs the program once for each point at which an action can be taken,
// and returns those after which something was wrong, with what it was.
// The first point of how, 0 for none, gets the action in every run.
func (w *world) everywhere(how at, action func(*machine.Ctx, machine.Point) machine.Action) (
	broken []string, says string, taken int) {
	for k := how.first + 1; ; k++ {
		s := &at{k: k, first: how.first, again: how.again, action: action, w: w}
		w.run(s)
		if s.where != "" {
			taken++
		}
		if w.wrong() {
			broken = append(broken, s.where)
			says = w.says()
		}
		if s.n < k {
			return broken, says, taken
		}
	}
}

// silent wants a program to run without a finding, undisturbed and with the
// action at every point.
func (w *world) silent(t testing.TB, what string,
	action func(*machine.Ctx, machine.Point) machine.Action) {
	t.Helper()
	w.silentHow(t, what, at{}, action)
}

func (w *world) silentHow(t testing.TB, what string, how at,
	action func(*machine.Ctx, machine.Point) machine.Action) {
	t.Helper()
	broken, says, taken := w.everywhere(how, action)
	if len(broken) > 0 {
		t.Errorf("%s: %s: %d places, the last %q:\n%s%s", w.v.Name, what, len(broken),
			broken[len(broken)-1], strings.Join(w.prog.lines, "\n"), "\n"+says)
	}
	if taken == 0 {
		t.Errorf("%s: %s: the action was possible nowhere", w.v.Name, what)
	}
}

// silentPairs is silent with the action at every pair of points.
func (w *world) silentPairs(t testing.TB, what string,
	action func(*machine.Ctx, machine.Point) machine.Action) {
	t.Helper()
	w.silent(t, what, action)
	for first, taken := 1, 1; taken > 0; first++ {
		var broken []string
		var says string
		broken, says, taken = w.everywhere(at{first: first}, action)
		if len(broken) > 0 {
			t.Fatalf("%s: %s: first at point %d, then %q:\n%s\n%s", w.v.Name, what, first, broken,
				strings.Join(w.prog.lines, "\n"), says)
		}
	}
}

// sound lists the variants that must stay silent.
func sound() []string {
	var names []string
	for _, v := range slub.Variants() {
		if v.Sound {
			names = append(names, v.Name)
		}
	}
	return names
}

// kinds lists the kernels that a variant is made for, from one on.
func kinds(t testing.TB, name string, from machine.Preempt) []machine.Preempt {
	var list []machine.Preempt
	for _, p := range variant(t, name).Machines {
		if p >= from {
			list = append(list, p)
		}
	}
	return list
}

// each runs a test on every sound variant.
func each(t *testing.T, f func(t *testing.T, name string)) {
	for _, name := range sound() {
		t.Run(name, func(t *testing.T) { f(t, name) })
	}
}
