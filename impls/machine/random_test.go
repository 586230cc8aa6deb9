package machine_test

import (
	"flag"
	"fmt"
	"testing"

	"allocfuzz/impls/machine"
)

var randomSeed = flag.Uint64("seed", 1, "first seed of the random programs")

// xorshift is the generator of programs and schedules.
type xorshift uint64

func (x *xorshift) n(n int) int {
	*x ^= *x << 13
	*x ^= *x >> 7
	*x ^= *x << 17
	return int(uint64(*x) >> 11 % uint64(n))
}

func seeded(a, b uint64) *xorshift {
	x := xorshift(a*0x9e3779b97f4a7c15 + b*0xbf58476d1ce4e5b9 + 0x632be59bd9b4e019)
	x.n(2)
	return &x
}

// What a step of a random program does. The first group keeps every rule; the wild
// ones break them.
const (
	doBarrier = iota
	doAtomic
	doExchange
	doGuarded
	doNested
	doPerCPU
	doLocalExchange
	doLocalLock
	doPreempt
	doCall
	doCallAll
	doPages
	doTry
	doMem
	doRacy
	doWait
	doSet
	doRead
	doReadEnd
	doCallRCU
	doGrace
	nTame
)

const (
	wildLock = nTame + iota
	wildUnlock
	wildOff
	wildOn
	wildPreempt
	wildEnable
	wildMem
	wildForeign
	wildDie
	wildCall
	nWild
)

type rstep struct{ op, arg int }

// An rctx is a task or handler of a random program: lines of steps.
type rctx struct {
	name    string
	cpu     int
	irq     bool
	pinned  bool
	pos     []int
	lines   [][]rstep
	repeats []int
}

// A rprog is a random program.
type rprog struct {
	cfg      machine.Config
	ctxs     []rctx
	barriers []int
}

func randomProgram(x *xorshift, wild bool) *rprog {
	cfg := machine.DefaultConfig()
	cfg.CPUs, cfg.Preempt = 1+x.n(3), machine.Preempt(x.n(3))
	p := &rprog{cfg: cfg}
	for range 2 + x.n(5) {
		k := rctx{cpu: x.n(cfg.CPUs), irq: len(p.ctxs) > 0 && x.n(5) < 2, pinned: x.n(2) == 0}
		k.name = fmt.Sprint("t", len(p.ctxs))
		if k.irq {
			k.name = fmt.Sprint("h", len(p.ctxs))
		}
		p.ctxs = append(p.ctxs, k)
	}
	pos := 0
	for range 3 + x.n(8) {
		if x.n(8) == 0 && pos > 0 {
			p.barriers = append(p.barriers, pos)
			pos++
			continue
		}
		k := &p.ctxs[x.n(len(p.ctxs))]
		var line []rstep
		for range 1 + x.n(4) {
			op := x.n(nTame)
			if wild && x.n(3) == 0 {
				op = nTame + x.n(nWild-nTame)
			}
			line = append(line, rstep{op, x.n(8)})
		}
		k.pos = append(k.pos, pos)
		k.lines = append(k.lines, line)
		k.repeats = append(k.repeats, 1+max(0, x.n(6)-3))
		pos++
	}
	return p
}

// A rrun is a random program on a machine.
type rrun struct {
	p        *rprog
	m        *machine.Machine
	tasks    []*machine.Ctx
	handlers []*machine.Handler

	a, b   machine.SpinLock
	shared machine.GuardedWord // under a
	inner  machine.GuardedWord // under a and b
	atomic machine.Word
	swap   machine.Word
	racy   machine.Word
	cpu    [4]machine.Word // with interrupts off
	local  [4]machine.Word // by local exchanges
	locks  [4]machine.LocalLock
	under  [4]machine.GuardedWord // under the local lock
	names  [4]binding
	pages  bump

	reading [16]int // by context: the number of its section, 0 for none
	depth   [16]int
	begun   int // sections
	called  int // callbacks

	inside bool                         // a callback that had to wait
	over   int                          // callbacks that were handed over
	handed [17]struct{ gave, came int } // callbacks, by task; those of handlers together

	done    []int // executions of lines, by context
	counts  [nTame]uint64
	checked int
}

// set makes the run's tasks and handlers on a machine that is new or was reset.
func (r *rrun) set(p *rprog, m *machine.Machine) {
	*r = rrun{p: p, m: m, done: make([]int, len(p.ctxs))}
	r.a.Init(lockA, 200)
	r.b.Init(lockB, 150)
	r.shared.Init(held, r.a.Guard(), 0)
	r.inner.Init(held, r.b.Guard(), 0)
	r.atomic.Init(word, -1, 0)
	r.swap.Init(word, -1, 0)
	r.racy.Init(link, -1, 0)
	for i := range m.CPUs {
		r.cpu[i].Init(own, i, 0)
		r.local[i].Init(own, i, 0)
		r.locks[i].Init(many[0], m.CPU(i))
		r.under[i].Init(held, r.locks[i].Guard(), 0)
	}
	m.SetPageLayer(&r.pages)
	for i := range p.ctxs {
		k := &p.ctxs[i]
		body := func(c *machine.Ctx) { r.body(c, i) }
		first := machine.After
		if len(k.pos) > 0 {
			first = k.pos[0]
		}
		if k.irq {
			h := &machine.Handler{CPU: k.cpu, Name: k.name, Pos: first, Body: body}
			if first == machine.After {
				h = nil // without lines it would never come by default
			} else {
				m.AddHandler(h)
			}
			r.handlers, r.tasks = append(r.handlers, h), append(r.tasks, nil)
			continue
		}
		r.handlers = append(r.handlers, nil)
		r.tasks = append(r.tasks, m.AddTask(k.name, k.cpu, first, k.pinned, body))
	}
	m.SetBarriers(p.barriers, func(int) {
		if !m.Sim().Quiet(nil) {
			panic("allocfuzz: a barrier is not quiet")
		}
		r.checked++
		clear(r.reading[:])
	})
}

func (r *rrun) body(c *machine.Ctx, i int) {
	k := &r.p.ctxs[i]
	for j := range k.lines {
		for n := range k.repeats[j] {
			next := machine.After
			if j+1 < len(k.pos) {
				next = k.pos[j+1]
			}
			if n+1 < k.repeats[j] {
				next = k.pos[j]
			}
			iter := [2]int32{}
			if k.repeats[j] > 1 {
				iter[0] = int32(n + 1)
			}
			c.BeginLine(k.pos[j], iter)
			for _, s := range k.lines[j] {
				if !c.Reading() { // a barrier may have ended it
					r.depth[i] = 0
				}
				if s.op == doReadEnd && r.depth[i] > 0 {
					r.depth[i]--
				}
				if r.depth[i] == 0 {
					r.reading[i] = 0
				}
				r.step(c, s)
				if s.op == doRead {
					if r.depth[i]++; r.depth[i] == 1 {
						r.begun++
						r.reading[i] = r.begun
					}
				}
			}
			r.done[i]++
			c.EndLine(next)
		}
	}
	r.reading[i], r.depth[i] = 0, 0
}

// callRCU hands over a callback that demands its turn, and that no reader of then is left.
func (r *rrun) callRCU(c *machine.Ctx) {
	from := &r.handed[0]
	for i, t := range r.tasks {
		if t == c && c.Line().Handler == nil {
			from = &r.handed[i+1]
		}
	}
	from.gave++
	turn, last, now := from.gave, r.begun, true
	c.CallRCU(func(c *machine.Ctx) {
		r.called++
		if from.came++; from.came != turn && from != &r.handed[0] {
			panic(fmt.Sprintf("allocfuzz: callback %d of a context came as number %d", turn,
				from.came))
		}
		if !now && (!c.InInterrupt() || c.MayBlock()) {
			panic("allocfuzz: a callback that may sleep")
		}
		if !now {
			if r.inside {
				panic("allocfuzz: two callbacks at a time")
			}
			r.inside = true
			defer func() { r.inside = false }()
		}
		for i, n := range r.reading {
			if n != 0 && n <= last && len(r.p.barriers) == 0 { // a barrier ends sections unseen
				panic(fmt.Sprintf("allocfuzz: a callback while context %d still reads", i))
			}
		}
		r.counts[doPerCPU]++
		r.perCPU(c)
		f := r.a.LockIRQSave(c)
		r.counts[doGuarded]++
		r.shared.Store(c, r.shared.Load(c)+1)
		r.a.UnlockIRQRestore(c, f)
	})
	now = false
	r.over++
}

func (r *rrun) step(c *machine.Ctx, s rstep) {
	if s.op >= nTame {
		r.wild(c, s)
		return
	}
	r.counts[s.op]++
	switch s.op {
	case doBarrier:
		c.Barrier()
	case doAtomic:
		r.atomic.Add(c, 1)
	case doExchange:
		for old := r.swap.Load(c); !r.swap.Cmpxchg(c, old, old+1); {
			old = r.swap.Load(c)
		}
	case doGuarded, doNested:
		f := r.a.LockIRQSave(c)
		v := r.shared.Load(c)
		c.Barrier()
		if s.op == doNested {
			r.b.Lock(c)
			r.inner.Add(c, 1)
			r.b.Unlock(c)
		}
		r.shared.Store(c, v+1)
		r.a.UnlockIRQRestore(c, f)
	case doPerCPU:
		r.perCPU(c)
	case doLocalExchange:
		c.PreemptDisable()
		w := &r.local[c.CPUID()]
		for old := w.Load(c); !w.CmpxchgLocal(c, old, old+1); {
			old = w.Load(c)
		}
		c.PreemptEnable()
	case doLocalLock:
		l := &r.locks[c.CPUID()]
		f := l.Lock(c)
		g := &r.under[c.CPUID()]
		v := g.Load(c)
		c.Barrier()
		g.Store(c, v+1)
		l.Unlock(c, f)
	case doPreempt:
		c.PreemptDisable()
		before := c.CPUID()
		c.Barrier()
		if c.CPUID() != before {
			panic("allocfuzz: moved with preemption disabled")
		}
		c.PreemptEnable()
	default:
		r.more(c, s)
	}
}

func (r *rrun) perCPU(c *machine.Ctx) {
	f := c.IRQSave()
	w := &r.cpu[c.CPUID()]
	v := w.Load(c)
	w.Store(c, v+1)
	c.IRQRestore(f)
}

func (r *rrun) more(c *machine.Ctx, s rstep) {
	switch s.op {
	case doCall:
		if c.InInterrupt() {
			r.perCPU(c)
			return
		}
		to := s.arg % r.m.CPUs
		c.CallOn(to, func(c *machine.Ctx) {
			if c.CPUID() != to || !c.IRQsOff() {
				panic("allocfuzz: a call on the wrong CPU or with interrupts on")
			}
			r.perCPU(c)
		})
	case doCallAll:
		if c.InInterrupt() {
			r.counts[doCall] += uint64(r.m.CPUs)
			for range r.m.CPUs {
				r.perCPU(c)
			}
			return
		}
		r.counts[doCall] += uint64(r.m.CPUs)
		c.CallOnAll(r.perCPU)
	case doPages:
		if p := c.AllocPages(0, c.MayBlock()); p != nil {
			c.FreePages(p)
		}
	case doTry:
		f := c.IRQSave()
		if r.b.TryLock(c) {
			r.inner.Add(c, 1)
			r.b.Unlock(c)
		} else {
			r.counts[doTry]--
		}
		c.IRQRestore(f)
	case doMem:
		a := r.m.Base + uint64(s.arg)*uint64(r.m.PageSize)
		c.StoreMem(link, a, c.LoadMem(link, a)+1)
	case doRacy:
		r.racy.Store(c, r.racy.Load(c)*3+uint64(s.arg))
	case doWait:
		c.Wait(&r.names[s.arg%4])
	case doSet:
		r.names[s.arg%4].set = true
	case doRead:
		c.RCUReadLock()
	case doReadEnd:
		if c.Reading() {
			c.RCUReadUnlock()
		}
	case doCallRCU:
		r.callRCU(c)
	case doGrace:
		before := r.over
		if c.RCUBarrier() && r.called < before {
			panic("allocfuzz: waited for callbacks that did not come")
		}
	}
}

func (r *rrun) wild(c *machine.Ctx, s rstep) {
	l := &r.a
	if s.arg%2 == 1 {
		l = &r.b
	}
	switch s.op {
	case wildLock:
		l.Lock(c)
	case wildUnlock:
		l.Unlock(c)
	case wildOff:
		c.IRQSave()
	case wildOn:
		c.IRQRestore(true)
	case wildPreempt:
		c.PreemptDisable()
	case wildEnable:
		c.PreemptEnable()
	case wildMem:
		c.LoadMem(link, uint64(s.arg))
	case wildForeign:
		r.cpu[s.arg%r.m.CPUs].Store(c, 0)
	case wildDie:
		if s.arg == 0 {
			c.Die("deadlock", "on purpose")
		}
	case wildCall:
		c.CallOn(s.arg%r.m.CPUs, func(c *machine.Ctx) { r.shared.Add(c, 1); l.Lock(c) })
	}
}

// A rdecision is a decision by numbers of contexts, so that it means the same on
// another machine.
type rdecision struct {
	pos, handler, delivery, n int
	iter                      [2]int32
	kind                      machine.Kind
	field                     string
	act                       machine.ActionKind
	ctx, cpu                  int
}

func (r *rrun) find(t *machine.Ctx, h *machine.Handler) int {
	for i := range r.tasks {
		if t != nil && r.tasks[i] == t || h != nil && r.handlers[i] == h {
			return i
		}
	}
	return -1
}

func (r *rrun) decisions() (out []rdecision) {
	for _, d := range r.m.Sim().Decisions() {
		out = append(out, rdecision{pos: d.Pos, handler: r.find(nil, d.Handler),
			delivery: d.Delivery, n: d.Point.N, iter: d.Iter, kind: d.Point.Kind,
			field: d.Point.Field.Name(), act: d.Action.Kind,
			ctx: r.find(d.Action.Task, d.Action.Handler), cpu: d.Action.CPU})
	}
	return out
}

// rreplay follows recorded decisions, in their order.
type rreplay struct {
	r    *rrun
	todo []rdecision
}

func (p *rreplay) Choose(c *machine.Ctx, pt machine.Point) machine.Action {
	if len(p.todo) == 0 {
		return machine.Action{}
	}
	d, l := &p.todo[0], c.Line()
	if d.pos != l.Pos || d.iter != l.Iter || d.handler != p.r.find(nil, l.Handler) ||
		d.delivery != l.Delivery || d.kind != pt.Kind || d.field != pt.Field.Name() || d.n != pt.N {
		return machine.Action{}
	}
	p.todo = p.todo[1:]
	a := machine.Action{Kind: d.act, CPU: d.cpu}
	if d.ctx >= 0 {
		a.Task, a.Handler = p.r.tasks[d.ctx], p.r.handlers[d.ctx]
	}
	return a
}

// rchooser departs at one point in every few.
type rchooser struct {
	r     *rrun
	x     *xorshift
	every int
}

func (p *rchooser) Choose(c *machine.Ctx, pt machine.Point) machine.Action {
	if p.x.n(p.every) != 0 {
		return machine.Action{}
	}
	i := p.x.n(len(p.r.tasks))
	a := machine.Action{Task: p.r.tasks[i], Handler: p.r.handlers[i]}
	switch {
	case pt.Kind == machine.KPageAlloc && p.x.n(2) == 0:
		a = machine.Action{Kind: machine.FailPages}
	case a.Task != nil && p.x.n(3) == 0:
		a = machine.Action{Kind: machine.Move, CPU: p.x.n(p.r.m.CPUs)}
	case a.Task != nil:
		a.Kind = machine.SwitchTo
	case a.Handler != nil && p.x.n(10) == 0:
		a.Kind = machine.Suppress
	case a.Handler != nil && a.Handler.Delivered() < 3:
		a.Kind = machine.Interrupt
	}
	if !c.Allowed(pt, a) {
		return machine.Action{}
	}
	return a
}

// outcome is everything that two runs can be compared by.
func (r *rrun) outcome() string {
	s := r.m.Sim()
	out := fmt.Sprint(s.Hash(), s.Steps(), s.Switches(), s.Aborted(), r.done, r.counts, r.checked,
		r.racy.Peek(), r.shared.Peek())
	for _, f := range r.m.Faults() {
		out += "\n" + f.String() + fmt.Sprint(f.Where)
	}
	return out
}

// verify holds a run that kept every rule against what it must have done.
func (r *rrun) verify() error {
	if fs := r.m.Faults(); len(fs) > 0 {
		return fmt.Errorf("faults %v", fs)
	}
	for i := range r.p.ctxs {
		k, lines := &r.p.ctxs[i], 0
		for _, n := range k.repeats {
			lines += n
		}
		want := lines
		if h := r.handlers[i]; k.irq && h != nil {
			if h.Due() {
				return fmt.Errorf("%s was never delivered", k.name)
			}
			want *= h.Delivered()
		}
		if r.done[i] != want {
			return fmt.Errorf("%s carried out %d lines of %d", k.name, r.done[i], want)
		}
	}
	if r.checked != len(r.p.barriers) {
		return fmt.Errorf("%d of %d barriers", r.checked, len(r.p.barriers))
	}
	var cpu, local, under uint64
	for i := range r.m.CPUs {
		cpu, local, under = cpu+r.cpu[i].Peek(), local+r.local[i].Peek(), under+r.under[i].Peek()
	}
	for _, k := range []struct {
		name      string
		got, want uint64
	}{
		{"atomic", r.atomic.Peek(), r.counts[doAtomic]},
		{"exchanged", r.swap.Peek(), r.counts[doExchange]},
		{"under a lock", r.shared.Peek(), r.counts[doGuarded] + r.counts[doNested]},
		{"under two", r.inner.Peek(), r.counts[doNested] + r.counts[doTry]},
		{"per CPU", cpu, r.counts[doPerCPU] + r.counts[doCall]},
		{"locally exchanged", local, r.counts[doLocalExchange]},
		{"under a local lock", under, r.counts[doLocalLock]},
	} {
		if k.got != k.want {
			return fmt.Errorf("%s: %d, want %d", k.name, k.got, k.want)
		}
	}
	if n := r.counts[doCallRCU]; uint64(r.called) != n {
		return fmt.Errorf("%d of %d callbacks came", r.called, n)
	}
	if _, oldest := r.m.ReadSections(); oldest != 0 {
		return fmt.Errorf("read section %d is open at the end", oldest)
	}
	if r.a.Held() || r.b.Held() {
		return fmt.Errorf("a lock is held")
	}
	return nil
}

// TestRandom runs random programs under random schedules. Each run ends; programs
// that keep the rules are found to; recorded decisions give the same run again, on
// the same machine reset and on a new one.
func TestRandom(t *testing.T) {
	schedules, every := 24_000, 60
	if testing.Short() {
		schedules = 3_000
	}
	t.Logf("seed %d", *randomSeed)
	machines := map[machine.Config]*machine.Machine{}
	defer func() {
		for _, m := range machines {
			m.Close()
		}
	}()
	aborted, decided := 0, 0
	var r rrun
	for n := 0; n < schedules; n++ {
		x := seeded(*randomSeed, uint64(n/20))
		wild := n/20%3 == 2
		p := randomProgram(x, wild)
		m := machines[p.cfg]
		if m == nil {
			m = machine.New(p.cfg)
			machines[p.cfg] = m
		}
		fail := func(what string, args ...any) {
			t.Fatalf("schedule %d, seed %d: %s\nprogram %+v", n, *randomSeed,
				fmt.Sprintf(what, args...), *p)
		}
		once := func(m *machine.Machine, ch machine.Chooser) string {
			if err := m.Sim().Run(ch); err != nil {
				fail("%v\n%s", err, err.(*machine.Panic).Stack)
			}
			return r.outcome()
		}
		m.Reset()
		r.set(p, m)
		m.Sim().Record()
		var ch machine.Chooser
		if n%20 > 0 {
			ch = &rchooser{&r, seeded(*randomSeed, uint64(n)+1<<40), 2 + n%7*3}
		}
		first := once(m, ch)
		if !wild {
			if m.Sim().Aborted() {
				fail("aborted: %s", first)
			}
			if err := r.verify(); err != nil {
				fail("%v", err)
			}
		}
		if m.Sim().Aborted() {
			aborted++
		}
		ds := r.decisions()
		decided += len(ds)
		m.Reset()
		r.set(p, m)
		replay := &rreplay{&r, ds}
		if got := once(m, replay); got != first || len(replay.todo) > 0 {
			fail("%d decisions, %d not replayed\n%s\nagain on the machine reset\n%s", len(ds),
				len(replay.todo), first, got)
		}
		if n%every != 0 {
			continue
		}
		fresh := machine.New(p.cfg)
		r.set(p, fresh)
		replay = &rreplay{&r, ds}
		if got := once(fresh, replay); got != first || len(replay.todo) > 0 {
			fail("%s\nand on a new machine\n%s", first, got)
		}
		fresh.Close()
	}
	if aborted < schedules/50 || aborted > schedules/3 || decided < schedules {
		t.Errorf("%d of %d runs aborted, %d decisions: the programs test little", aborted,
			schedules, decided)
	}
}
