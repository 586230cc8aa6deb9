package machine_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"allocfuzz/impls/machine"
)

// This file holds the litmus tests of total store order. Each is run under every schedule there
// is: whoever takes the next step, whichever store is held back, whenever one is drained. What
// came of it is compared as a whole set, so that an outcome too many is as wrong as one too
// few.

// A brute is a Chooser that takes every combination of choices, one a run.
type brute struct {
	m     *machine.Machine
	tasks []*machine.Ctx
	irqs  []*machine.Handler
	path  []int // choices of this run
	wide  []int // how many there were
	depth int
	fresh bool // a step was made since the last switch: somebody else may take the next
	go1   bool // this point has had its choice
}

// start begins a run on tasks that were just added.
func (b *brute) start(tasks []*machine.Ctx, irqs []*machine.Handler) {
	b.tasks, b.irqs, b.depth, b.fresh, b.go1 = tasks, irqs, 0, true, false
}

// next goes to the next combination; false when there is none.
func (b *brute) next() bool {
	for i := b.depth - 1; i >= 0; i-- {
		if b.path[i]+1 < b.wide[i] {
			b.path[i]++
			b.path, b.wide = b.path[:i+1], b.wide[:i+1]
			return true
		}
	}
	return false
}

// Choose takes the choice that is this run's.
func (b *brute) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	// Who is next when a thread has ended is decided at the first point of whoever it is, but a
	// handler whose place has come would be delivered before that.
	idle := p.Kind == machine.KWait || p.Kind == machine.KEnd && len(b.irqs) == 0
	if idle || b.go1 {
		b.fresh, b.go1 = true, false
		return machine.Action{}
	}
	options := b.options(c, p)
	if b.depth == len(b.path) {
		b.path, b.wide = append(b.path, 0), append(b.wide, len(options))
	}
	a := options[b.path[b.depth]]
	b.depth++
	b.fresh = a.Kind != machine.SwitchTo
	b.go1 = a.Kind == machine.Hold
	return a
}

// options are the choices at p. To switch again before a step was made leads nowhere new.
func (b *brute) options(c *machine.Ctx, p machine.Point) []machine.Action {
	list := []machine.Action{{}}
	add := func(a machine.Action) {
		if c.Allowed(p, a) {
			list = append(list, a)
		}
	}
	add(machine.Action{Kind: machine.Hold})
	if !b.fresh {
		return list
	}
	for _, t := range b.tasks {
		add(machine.Action{Kind: machine.SwitchTo, Task: t})
	}
	for _, h := range b.irqs {
		if h.Due() {
			add(machine.Action{Kind: machine.Interrupt, Handler: h})
		}
	}
	for cpu := range b.m.CPUs {
		add(machine.Action{Kind: machine.Drain, CPU: cpu})
	}
	return list
}

// A place is something that can be loaded and stored.
type place struct {
	load  func(c *machine.Ctx) uint64
	store func(c *machine.Ctx, v uint64)
}

// A litmus is a machine with places and registers, one thread a CPU and perhaps a handler of
// CPU 0.
type litmus struct {
	m       *machine.Machine
	x, y    place
	r       [4]uint64 // what the threads read
	words   [4]machine.Word
	pair    machine.DoubleWord
	lock    machine.SpinLock
	threads []func(c *machine.Ctx)
	irq     func(c *machine.Ctx)
	final   bool // the places in the end are part of the outcome
}

var openA = machine.PageField(machine.Racy("test", "open_a", "test"), machine.RegionBody,
	machine.ViewSlab, 0)
var openB = machine.PageField(machine.Racy("test", "open_b", "test"), machine.RegionBody,
	machine.ViewSlab, 1)

// wordPlace, pagePlace and memPlace are the three things that hold shared words.
func wordPlace(w *machine.Word) place {
	return place{func(c *machine.Ctx) uint64 { return w.Load(c) },
		func(c *machine.Ctx, v uint64) { w.Store(c, v) }}
}

func pagePlace(p *machine.Page, w *machine.PageWord) place {
	return place{func(c *machine.Ctx) uint64 { return w.Load(c, p) },
		func(c *machine.Ctx, v uint64) { w.Store(c, p, v) }}
}

func memPlace(a machine.Addr) place {
	return place{func(c *machine.Ctx) uint64 { return c.LoadMem(link, a) },
		func(c *machine.Ctx, v uint64) { c.StoreMem(link, a, v) }}
}

// litmusConfig has a CPU for each of four threads.
func litmusConfig(tso bool) machine.Config {
	cfg := config(4, machine.PreemptNone)
	cfg.TSO = tso
	return cfg
}

// outcomes runs what set makes of a litmus under every schedule, and counts by what came of it.
func outcomes(t *testing.T, tso bool, set func(l *litmus)) map[string]int {
	t.Helper()
	l := &litmus{m: machine.New(litmusConfig(tso))}
	t.Cleanup(l.m.Close)
	b := &brute{m: l.m}
	seen := map[string]int{}
	for more := true; more; more = b.next() {
		l.setUp(set)
		tasks, irqs := l.begin()
		b.start(tasks, irqs)
		run(t, l.m, b)
		wantFaults(t, l.m)
		seen[l.outcome()]++
	}
	return seen
}

// setUp makes the places anew, which are words unless set says otherwise.
func (l *litmus) setUp(set func(l *litmus)) {
	l.m.Reset()
	l.r = [4]uint64{}
	for i := range l.words {
		l.words[i].Init(word, -1, 0)
	}
	l.pair.A.Init(word, -1, 0)
	l.pair.B.Init(word, -1, 0)
	l.lock.Init(lockA, 1)
	l.x, l.y = wordPlace(&l.words[0]), wordPlace(&l.words[1])
	set(l)
}

func (l *litmus) begin() (tasks []*machine.Ctx, irqs []*machine.Handler) {
	for i, f := range l.threads {
		tasks = append(tasks, l.m.AddTask("t", i, i, true, lines(i, 1, f)))
	}
	if l.irq != nil {
		h := &machine.Handler{CPU: 0, Name: "irq", Pos: 4, Body: lines(4, 1, l.irq)}
		l.m.AddHandler(h)
		irqs = append(irqs, h)
	}
	return tasks, irqs
}

func (l *litmus) outcome() string {
	s := fmt.Sprintf("%d%d%d%d", l.r[0], l.r[1], l.r[2], l.r[3])
	if l.final {
		s += fmt.Sprintf(" x%d y%d", l.words[0].Peek(), l.words[1].Peek())
	}
	return s
}

// get reads a place into register i, and put writes one.
func (l *litmus) get(i int, p *place) func(c *machine.Ctx) {
	return func(c *machine.Ctx) { l.r[i] = p.load(c) }
}

func put(p *place, v uint64) func(c *machine.Ctx) {
	return func(c *machine.Ctx) { p.store(c, v) }
}

// wantOutcomes demands exactly the outcomes of a list, and extra ones with store buffers.
func wantOutcomes(t *testing.T, set func(l *litmus), list, extra string) {
	t.Helper()
	for _, tso := range []bool{false, true} {
		want := splitComma(list)
		if tso && extra != "" {
			want = append(want, splitComma(extra)...)
		}
		slices.Sort(want)
		counts := outcomes(t, tso, set)
		got := slices.Sorted(maps.Keys(counts))
		if !slices.Equal(got, want) {
			t.Errorf("tso %v: outcomes %q, want %q", tso, got, want)
		}
		runs := 0
		for _, n := range counts {
			runs += n
		}
		t.Logf("tso %v: %d schedules", tso, runs)
	}
}

func splitComma(s string) []string {
	list := strings.Split(s, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return list
}

// between are the things that may stand between the store and the load of a thread.
type between struct {
	name  string
	f     func(l *litmus, thread int) func(c *machine.Ctx)
	fence bool
}

var betweens = []between{
	{"nothing", func(*litmus, int) func(*machine.Ctx) { return func(*machine.Ctx) {} }, false},
	{"barrier", func(*litmus, int) func(*machine.Ctx) { return barrier }, true},
	{"cmpxchg", func(l *litmus, i int) func(*machine.Ctx) {
		return func(c *machine.Ctx) { l.words[2+i].Cmpxchg(c, 0, 1) }
	}, true},
	{"cmpxchg that fails", func(l *litmus, i int) func(*machine.Ctx) {
		return func(c *machine.Ctx) { l.words[2+i].Cmpxchg(c, 1, 2) }
	}, true},
	{"add", func(l *litmus, i int) func(*machine.Ctx) {
		return func(c *machine.Ctx) { l.words[2+i].Add(c, 1) }
	}, true},
	{"cmpxchg of a page", func(l *litmus, i int) func(*machine.Ctx) {
		return func(c *machine.Ctx) { openB.Cmpxchg(c, l.m.PageAt(2+i), 0, 1) }
	}, true},
	{"local cmpxchg that fails", func(l *litmus, i int) func(*machine.Ctx) {
		return func(c *machine.Ctx) { l.words[2+i].CmpxchgLocal(c, 1, 2) }
	}, false},
}

// TestStoreBuffering is SB, with everything between store and load that is a fence or none.
// It is the one outcome that Dekker's algorithm breaks at.
func TestStoreBuffering(t *testing.T) {
	for _, row := range betweens {
		t.Run(row.name, func(t *testing.T) {
			extra := "0000"
			if row.fence {
				extra = ""
			}
			wantOutcomes(t, func(l *litmus) {
				for i := range 2 {
					l.m.PageAt(2+i).SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
				}
				l.threads = []func(*machine.Ctx){
					then(put(&l.x, 1), row.f(l, 0), l.get(0, &l.y)),
					then(put(&l.y, 1), row.f(l, 1), l.get(1, &l.x)),
				}
			}, "0100, 1000, 1100", extra)
		})
	}
}

// TestStoreBufferingPlaces: every kind of shared word can be late.
func TestStoreBufferingPlaces(t *testing.T) {
	sb := func(l *litmus) {
		l.threads = []func(*machine.Ctx){
			then(put(&l.x, 1), l.get(0, &l.y)), then(put(&l.y, 1), l.get(1, &l.x))}
	}
	t.Run("pages", func(t *testing.T) {
		wantOutcomes(t, func(l *litmus) {
			p := l.m.PageAt(0)
			p.SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
			l.x, l.y = pagePlace(p, openA), pagePlace(p, openB)
			sb(l)
		}, "0100, 1000, 1100", "0000")
	})
	t.Run("memory", func(t *testing.T) {
		wantOutcomes(t, func(l *litmus) {
			l.x, l.y = memPlace(l.m.Base), memPlace(l.m.Base+8)
			sb(l)
		}, "0100, 1000, 1100", "0000")
	})
	t.Run("local exchanges", func(t *testing.T) {
		wantOutcomes(t, func(l *litmus) {
			l.x.store = func(c *machine.Ctx, v uint64) { l.words[0].CmpxchgLocal(c, 0, v) }
			l.y.store = func(c *machine.Ctx, v uint64) { l.words[1].CmpxchgLocal(c, 0, v) }
			sb(l)
		}, "0100, 1000, 1100", "0000")
	})
}

// TestLitmus: the other classical tests. Of two stores and two loads in two orders only a load
// may pass a store.
func TestLitmus(t *testing.T) {
	for _, row := range []struct {
		name        string
		set         func(l *litmus)
		list, extra string
	}{
		{"R", func(l *litmus) {
			l.final = true
			l.threads = []func(*machine.Ctx){
				then(put(&l.x, 1), put(&l.y, 1)), then(put(&l.y, 2), l.get(0, &l.x))}
		}, "0000 x1 y1, 1000 x1 y1, 1000 x1 y2", "0000 x1 y2"},
		{"R with barriers", func(l *litmus) {
			l.final = true
			l.threads = []func(*machine.Ctx){then(put(&l.x, 1), barrier, put(&l.y, 1)),
				then(put(&l.y, 2), barrier, l.get(0, &l.x))}
		}, "0000 x1 y1, 1000 x1 y1, 1000 x1 y2", ""},
		{"MP", func(l *litmus) {
			l.threads = []func(*machine.Ctx){
				then(put(&l.x, 1), put(&l.y, 1)), then(l.get(0, &l.y), l.get(1, &l.x))}
		}, "0000, 0100, 1100", ""},
		{"LB", func(l *litmus) {
			l.threads = []func(*machine.Ctx){
				then(l.get(0, &l.x), put(&l.y, 1)), then(l.get(1, &l.y), put(&l.x, 1))}
		}, "0000, 0100, 1000", ""},
		{"S", func(l *litmus) {
			l.final = true
			l.threads = []func(*machine.Ctx){
				then(put(&l.x, 2), put(&l.y, 1)), then(l.get(0, &l.y), put(&l.x, 1))}
		}, "0000 x1 y1, 0000 x2 y1, 1000 x1 y1", ""},
		{"2+2W", func(l *litmus) {
			l.final = true
			l.threads = []func(*machine.Ctx){
				then(put(&l.x, 1), put(&l.y, 2)), then(put(&l.y, 1), put(&l.x, 2))}
		}, "0000 x1 y2, 0000 x2 y1, 0000 x2 y2", ""},
		{"n6", func(l *litmus) {
			l.final = true
			l.threads = []func(*machine.Ctx){then(put(&l.x, 1), l.get(0, &l.x), l.get(1, &l.y)),
				then(put(&l.y, 2), put(&l.x, 2))}
		}, "1000 x2 y2, 1200 x1 y2, 1200 x2 y2, 2200 x2 y2", "1000 x1 y2"},
		{"SB with forwarding", func(l *litmus) {
			l.threads = []func(*machine.Ctx){then(put(&l.x, 1), l.get(0, &l.x), l.get(1, &l.y)),
				then(put(&l.y, 1), l.get(2, &l.y), l.get(3, &l.x))}
		}, "1011, 1110, 1111", "1010"},
		{"both halves", func(l *litmus) {
			l.threads = []func(*machine.Ctx){
				func(c *machine.Ctx) {
					l.pair.CmpxchgDoubleLocal(c, [2]uint64{}, [2]uint64{1, 1})
				},
				func(c *machine.Ctx) { l.r[0], l.r[1] = l.pair.A.Load(c), l.pair.B.Load(c) }}
		}, "0000, 0100, 1100", ""},
	} {
		t.Run(row.name, func(t *testing.T) { wantOutcomes(t, row.set, row.list, row.extra) })
	}
}

// TestIRIW: two readers do not disagree about the order of two stores of two others.
func TestIRIW(t *testing.T) {
	for _, tso := range []bool{false, true} {
		counts := outcomes(t, tso, func(l *litmus) {
			l.threads = []func(*machine.Ctx){put(&l.x, 1), put(&l.y, 1),
				then(l.get(0, &l.x), l.get(1, &l.y)), then(l.get(2, &l.y), l.get(3, &l.x))}
		})
		if len(counts) != 15 || counts["1010"] > 0 {
			t.Errorf("tso %v: outcomes %v, want all but 1010", tso, counts)
		}
	}
}

// TestLitmusInterrupt: a handler reads what its CPU has stored, though others do not yet.
func TestLitmusInterrupt(t *testing.T) {
	wantOutcomes(t, func(l *litmus) {
		other := wordPlace(&l.words[2])
		l.threads = []func(*machine.Ctx){then(put(&l.x, 1), l.get(3, &other)),
			then(put(&l.y, 1), l.get(2, &l.x))}
		l.irq = then(l.get(0, &l.x), l.get(1, &l.y))
	}, "0000, 0010, 0100, 0110, 1010, 1100, 1110", "1000")
}
