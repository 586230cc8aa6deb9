package search_test

import (
	"context"
	"errors"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus"
	"allocfuzz/fuzz/search"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// committed is a committed program without its schedules.
func committed(tb testing.TB, name string) *oracle.Compiled {
	tb.Helper()
	for f := range corpus.All() {
		if f.Name != "corpus/"+name {
			continue
		}
		p, err := f.Program()
		if err != nil {
			tb.Fatal(err)
		}
		p.Scheds = nil
		c, err := oracle.Compile(p)
		if err != nil {
			tb.Fatal(err)
		}
		return c
	}
	tb.Fatalf("no program %s", name)
	return nil
}

// options are those of a search in one worker.
func options(k search.Strategy) search.Options {
	return search.Options{Strategy: k, Parallel: 1, Shards: 1, Depth: 3, Seed: 1,
		Bounds: explore.Bounds{Preemptions: 2, Interrupts: 1}}
}

func run(tb testing.TB, c *oracle.Compiled, v *impls.Variant, opt search.Options) *search.Result {
	tb.Helper()
	r, err := search.Run(context.Background(), c, v, opt)
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

const (
	aba     = "seeds/aba-interrupt.prog"
	colours = "regress/slab-colour-unclamped-two-cpus.prog"
)

// TestFinds: every strategy finds the ABA of the plain cmpxchg, at an interrupt, and the smallest
// schedule of each is that one departure; those that can prove anything prove the sequence
// number right.
func TestFinds(t *testing.T) {
	c := committed(t, aba)
	for _, name := range search.Strategies() {
		t.Run(name, func(t *testing.T) {
			opt := options(search.Strategy(name))
			if opt.Strategy == search.Naive || opt.Strategy == search.DPOR ||
				opt.Strategy == search.Sleep {
				opt.Bounds = explore.Bounds{}
			}
			v := subject(t, "slub-2008-cmpxchg")
			r := run(t, c, v, opt)
			if r.Finding == nil || r.First < 2 || r.Found != 1 || r.Complete {
				t.Fatalf("found %v, first %d, %d found, complete %t", r.Finding, r.First, r.Found,
					r.Complete)
			}
			m, err := search.Minimise(t.Context(), c, v, opt.Run, r)
			if err != nil {
				t.Fatal(err)
			}
			if len(m.Anchors) != 1 || len(m.Anchors[0].Acts) != 1 ||
				m.Anchors[0].Acts[0].Kind != machine.Interrupt {
				t.Errorf("the smallest schedule is %+v, want one interrupt", m.Anchors)
			}
			opt.Max = 2000
			s := run(t, c, subject(t, "slub-2008-seq"), opt)
			if s.Finding != nil || !s.Done || s.Complete != opt.Strategy.Proves() ||
				s.Schedules < 20 || s.States < 4 {
				t.Errorf("sound: found %v, done %t, complete %t, %d, %d states", s.Finding,
					s.Done, s.Complete, s.Schedules, s.States)
			}
		})
	}
}

// summary is what must be the same however a search is carried out.
func summary(r *search.Result) search.Result {
	s := *r
	s.Counts, s.Finding = oracle.Counts{}, nil
	if r.Finding != nil {
		f := *r.Finding
		s.Finding = &f
	}
	return s
}

// TestWorkers: four workers give what one gives, silent or with a finding.
func TestWorkers(t *testing.T) {
	c := committed(t, colours)
	for _, k := range []search.Strategy{search.Bound, search.Random, search.PCT, search.Portfolio} {
		for _, name := range []string{"slab-colour-racy", "slab-colour-unclamped"} {
			opt := options(k)
			opt.Max = 0
			if k != search.Bound {
				opt.Max = 1000
			}
			want := summary(run(t, c, subject(t, name), opt))
			opt.Parallel = 4
			got := summary(run(t, c, subject(t, name), opt))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("%s of %s: four workers differ (-one +four):\n%s", k, name,
					cmp.Diff(want.Levels, got.Levels))
			}
			if (name == "slab-colour-unclamped" && k == search.Bound) != (want.Finding != nil) &&
				k == search.Bound {
				t.Errorf("%s of %s: found %v", k, name, want.Finding)
			}
		}
	}
}

// TestShards: the parts of a search make its schedules, each once.
func TestShards(t *testing.T) {
	c, v := committed(t, colours), subject(t, "slab-colour-racy")
	for _, k := range []search.Strategy{search.Bound, search.Random} {
		opt := options(k)
		if k == search.Random {
			opt.Max = 1000
		}
		whole := run(t, c, v, opt)
		schedules, points := 0, uint64(0)
		opt.Shards = 3
		for opt.Shard = range opt.Shards {
			r := run(t, c, v, opt)
			if !r.Done || r.Exhausted || r.Schedules == 0 || r.Schedules > 2*whole.Schedules/3 {
				t.Errorf("%s: part %d: done %t, exhausted %t, %d schedules", k, opt.Shard,
					r.Done, r.Exhausted, r.Schedules)
			}
			schedules += r.Schedules
			points += r.Points
		}
		if schedules != whole.Schedules || points != whole.Points {
			t.Errorf("%s: the parts have %d schedules of %d points, the whole %d of %d", k,
				schedules, points, whole.Schedules, whole.Points)
		}
	}
}

// TestResume: from every state that a search hands out, it goes on to the same end.
func TestResume(t *testing.T) {
	c, v := committed(t, colours), subject(t, "slab-colour-racy")
	var states []*search.State
	opt := options(search.Bound)
	opt.Checkpoint = func(s *search.State) { states = append(states, s) }
	want := summary(run(t, c, v, opt))
	if len(states) < 5 {
		t.Fatalf("%d states", len(states))
	}
	opt.Checkpoint = nil
	for i, s := range states {
		opt.Resume = s
		if got := summary(run(t, c, v, opt)); !reflect.DeepEqual(got, want) {
			t.Errorf("from state %d of %d: %+v, want %+v", i, len(states), got, want)
		}
	}
}

// TestCheckpoint: a file is taken up again, and one of another search is refused by what differs.
func TestCheckpoint(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a search")
	c, v := committed(t, colours), subject(t, "slab-colour-racy")
	opt := options(search.Bound)
	opt.Run.Checks = oracle.AllChecks
	f, err := search.Load(name, c, &opt)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.State(v, c, &opt); s != nil || err != nil {
		t.Fatalf("a new file has state %v, %v", s, err)
	}
	saved := &search.State{Departures: 1, Ended: []int{2}}
	if err := f.Save(v, saved); err != nil {
		t.Fatal(err)
	}
	f, err = search.Load(name, c, &opt)
	if err != nil {
		t.Fatal(err)
	}
	if s, err := f.State(v, c, &opt); err != nil || s == nil || s.Departures != 1 {
		t.Fatalf("read again: %+v, %v", s, err)
	}
	// The same name with other behaviour is another version.
	other := *subject(t, "slab-colour-locked")
	other.Name = v.Name
	refused(t, "version", func() error { _, err := f.State(&other, c, &opt); return err })
	for what, change := range map[string]func(*search.Options){
		"bounds": func(o *search.Options) { o.Bounds.Preemptions++ },
		"checks": func(o *search.Options) { o.Run.Checks = o.Run.Checks.Without(fault.Step) },
		"shard":  func(o *search.Options) { o.Shards = 2 },
	} {
		changed := opt
		change(&changed)
		refused(t, what, func() error { _, err := search.Load(name, c, &changed); return err })
	}
	refused(t, "program", func() error {
		_, err := search.Load(name, committed(t, aba), &opt)
		return err
	})
}

func refused(t *testing.T, what string, f func() error) {
	t.Helper()
	var m *search.Mismatch
	if err := f(); !errors.As(err, &m) || !strings.Contains(err.Error(), what) {
		t.Errorf("%s: %v, want that it differs", what, err)
	}
}

// TestMax: a search ends at its number of schedules and when it is told to, and says so.
func TestMax(t *testing.T) {
	c, v := committed(t, colours), subject(t, "slab-colour-racy")
	for _, k := range []search.Strategy{search.Bound, search.DPOR, search.Sleep} {
		opt := options(k)
		if k != search.Bound {
			opt.Bounds = explore.Bounds{}
		}
		opt.Max = 50
		if r := run(t, c, v, opt); r.Schedules+r.Redundant != 50 || r.Complete || r.Exhausted {
			t.Errorf("%s: %d schedules, complete %t, exhausted %t, want 50 and no", k, r.Schedules,
				r.Complete, r.Exhausted)
		}
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		opt.Max = 0
		r, err := search.Run(ctx, c, v, opt)
		if err != nil || r.Complete || r.Schedules > 1 {
			t.Errorf("%s: told to end: %d schedules, complete %t, %v", k, r.Schedules, r.Complete,
				err)
		}
	}
}

// TestAll: with All the search goes on behind what it finds and counts it.
func TestAll(t *testing.T) {
	c, v := committed(t, aba), subject(t, "slub-2008-cmpxchg")
	opt := options(search.Bound)
	opt.All = true
	r := run(t, c, v, opt)
	if !r.Complete || !r.Exhausted || r.Found < 2 || r.Found == r.Schedules || r.Finding == nil {
		t.Errorf("complete %t, exhausted %t, %d of %d found", r.Complete, r.Exhausted, r.Found,
			r.Schedules)
	}
}

// TestMinimise: from schedules by chance, which depart at many points, what is left is needed,
// each departure, shows the same, and is the run that its trace says.
func TestMinimise(t *testing.T) {
	shrunk := 0
	for _, row := range []struct{ program, subject string }{
		{colours, "slab-colour-unclamped"},
		{"regress/slub-2021-partial-cmpxchg-reused.prog", "slub-2021-partial-cmpxchg"},
		{"regress/slub-2008-seq-slowpath-migrate.prog", "slub-2008-seq-slowpath"},
		{"regress/slub-2022-debug-racy-validate.prog", "slub-2022-debug-racy"},
	} {
		c, v := committed(t, row.program), subject(t, row.subject)
		for seed := range uint64(5) {
			opt := options(search.Random)
			opt.Seed = 1000 * seed
			r := run(t, c, v, opt)
			if r.Finding == nil {
				continue
			}
			m, err := search.Minimise(t.Context(), c, v, opt.Run, r)
			if err != nil {
				t.Fatal(err)
			}
			if m.After < m.Before {
				shrunk++
			}
			needed(t, c, v, m)
		}
	}
	if shrunk < 8 {
		t.Errorf("%d schedules were made smaller", shrunk)
	}
}

// needed replays what is left, and without each departure in turn.
func needed(t *testing.T, c *oracle.Compiled, v *impls.Variant, m *search.Minimised) {
	t.Helper()
	run := oracle.NewRunner()
	defer run.Close()
	replay := sched.NewReplay(sched.Strict, m.Anchors)
	res := run.Run(c, v, oracle.Options{Chooser: replay})
	f := res.Finding()
	if f == nil || f.Identity() != m.Finding.Identity() || res.Hash != m.Hash ||
		len(replay.Unused()) > 0 && !res.Aborted {
		t.Fatalf("%s: replayed %v, trace %x, want %s, %x", v.Name, f, res.Hash,
			m.Finding.Identity(), m.Hash)
	}
	for i := range m.Anchors {
		less := append(append([]sched.Anchor(nil), m.Anchors[:i]...), m.Anchors[i+1:]...)
		res := run.Run(c, v, oracle.Options{Chooser: sched.NewReplay(sched.Repair, less)})
		if g := res.Finding(); g != nil && g.Identity() == f.Identity() {
			t.Errorf("%s: departure %+v is not needed for %s", v.Name, m.Anchors[i], f.Identity())
		}
	}
}

// TestDraw: what each CPU did, with the handler nested where it came.
func TestDraw(t *testing.T) {
	c, v := committed(t, aba), subject(t, "slub-2008-cmpxchg")
	r := run(t, c, v, options(search.Bound))
	rows, err := search.Draw(c, v, oracle.Options{}, r.Anchors)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range rows {
		got = append(got, strings.Repeat("  ", r.Depth)+r.Who+" "+r.Line+" | "+r.Cut+" | "+r.Ended)
	}
	want := []string{
		"cpu0 w = alloc c |  | ok 0x100000000",
		"cpu0 a = alloc c | cmpxchg cpu_slab.freelist | ",
		"  irq0 x = alloc c |  | ok 0x100000040",
		"  irq0 y = alloc c |  | ok 0x100000080",
		"  irq0 free c x |  | ok 0x100000040",
		"cpu0 a = alloc c |  | ok 0x100000040",
		"cpu0 b = alloc c |  | ok 0x100000080",
	}
	if diff := cmp.Diff(want, got[:len(want)]); diff != "" {
		t.Errorf("drawn (-want +got):\n%s", diff)
	}
	if rows[5].Fault == "" || rows[4].Fault != "" {
		t.Errorf("what was wrong is told of %q, want of the allocation that goes on", rows[5].Fault)
	}
	if last := rows[5]; !strings.HasPrefix(last.Did, "cmpxchg cpu_slab.freelist") {
		t.Errorf("the allocation goes on with %q, want the exchange before which it was left",
			last.Did)
	}
}

// TestNotDeterministic: a subject that does something else the second time is said to, by every
// strategy.
func TestNotDeterministic(t *testing.T) {
	c := committed(t, aba)
	seq, off := subject(t, "slub-2008-seq"), subject(t, "slub-2008-irqsave")
	for _, name := range search.Strategies() {
		v := *seq
		made := 0
		v.New = func(m *machine.Machine) impls.Instance {
			if made++; made%7 == 0 {
				return off.New(m)
			}
			return seq.New(m)
		}
		opt := options(search.Strategy(name))
		opt.Max = 3000
		if k := opt.Strategy; k == search.Naive || k == search.DPOR || k == search.Sleep {
			opt.Bounds = explore.Bounds{}
		}
		_, err := search.Run(context.Background(), c, &v, opt)
		if err == nil || !strings.Contains(err.Error(), "not deterministic") {
			t.Errorf("%s: %v, want that it is not deterministic", name, err)
		}
	}
}

// TestCheck: options that cannot be used are refused in words.
func TestCheck(t *testing.T) {
	for want, change := range map[string]func(*search.Options){
		"no strategy":  func(o *search.Options) { o.Strategy = "nosuch" },
		"below 0":      func(o *search.Options) { o.Bounds.Interrupts = -1 },
		"at most 64":   func(o *search.Options) { o.Bounds.Preemptions = 70 },
		"at least 1":   func(o *search.Options) { o.Parallel = 0 },
		"shard 2 of 2": func(o *search.Options) { o.Shard, o.Shards = 2, 2 },
		"depth 0":      func(o *search.Options) { o.Strategy, o.Depth = search.PCT, 0 },
		"cannot be shared": func(o *search.Options) {
			o.Strategy, o.Shards = search.DPOR, 2
		},
	} {
		opt := options(search.Bound)
		change(&opt)
		_, err := search.Run(context.Background(), committed(t, aba),
			subject(t, "slub-2008-seq"), opt)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// twoHandlers is a program whose bug needs both handlers out of their place.
const twoHandlers = `allocfuzz 1
cache c size=64
cpu0 w = alloc c
cpu0 a = alloc c
cpu0 b = alloc c
irq0.one x = alloc c
irq0.one y = alloc c
irq0.two free c x
`

// TestExhausted: that there is no schedule beyond the bounds is said only when no switch and no
// interrupt was left out for them.
func TestExhausted(t *testing.T) {
	v := subject(t, "slub-2008-cmpxchg")
	for _, row := range []struct {
		program   *oracle.Compiled
		subject   *impls.Variant
		bounds    explore.Bounds
		exhausted bool
	}{
		{committed(t, aba), v, explore.Bounds{Preemptions: 2}, false},
		{compile(t, twoHandlers), v, explore.Bounds{Preemptions: 2, Interrupts: 1}, false},
		{committed(t, colours), subject(t, "slab-colour-racy"),
			explore.Bounds{Interrupts: 1}, false},
		{committed(t, colours), subject(t, "slab-colour-racy"), explore.Bounds{Preemptions: 1,
			Interrupts: 1}, false},
		{committed(t, aba), subject(t, "slub-2008-seq"), explore.Bounds{Preemptions: 9,
			Interrupts: 1}, true},
		{compile(t, twoHandlers), subject(t, "slub-2008-seq"), explore.Bounds{Preemptions: 9,
			Interrupts: 4}, true},
	} {
		opt := options(search.Bound)
		opt.Bounds = row.bounds
		r := run(t, row.program, row.subject, opt)
		if !r.Complete || r.Exhausted != row.exhausted || r.Finding != nil {
			t.Errorf("%s within %s: complete %t, exhausted %t, want %t; found %v", row.subject.Name,
				row.bounds, r.Complete, r.Exhausted, row.exhausted, r.Finding)
		}
	}
}

// TestMoves: with a migration the search of orders sees what its task does on the other CPU, also
// when a run of it has just been made again.
func TestMoves(t *testing.T) {
	c := compile(t, `allocfuzz 1
machine cpus=2 preempt=full
cache c size=64
task t cpu=0

cpu1 w = alloc c
check
t a = alloc c
t b = alloc c
`)
	for _, k := range []search.Strategy{search.DPOR, search.Sleep, search.Naive} {
		opt := options(k)
		opt.Bounds, opt.Moves = explore.Bounds{}, 1
		r := run(t, c, subject(t, "slub-2008-seq"), opt)
		if r.Schedules != 13 || r.States != 3 || !r.Complete || r.Exhausted {
			t.Errorf("%s: %d schedules, %d states, complete %t, exhausted %t, want 13, 3, complete",
				k, r.Schedules, r.States, r.Complete, r.Exhausted)
		}
	}
}

// TestUnfair: an allocator that waits for another CPU is not blamed when that is kept from running.
func TestUnfair(t *testing.T) {
	c := compile(t, "allocfuzz 1\nmachine cpus=2\ncache c size=64\ncpu0 a = alloc c\n"+
		"cpu1 shrink c\n")
	for _, k := range []search.Strategy{search.DPOR, search.Sleep} {
		opt := options(k)
		opt.Bounds, opt.Max = explore.Bounds{}, 700
		r := run(t, c, subject(t, "slab-2001-threelists"), opt)
		if r.Finding != nil || r.Redundant == 0 || r.Complete {
			t.Errorf("%s: found %v, %d in vain, complete %t", k, r.Finding, r.Redundant, r.Complete)
		}
	}
}

// TestStates: what a bounded search and a search of orders show in the end is the same, of a
// handler of two lines too.
func TestStates(t *testing.T) {
	c := compile(t, "allocfuzz 1\nirq0 g = pages 1\nirq0 pagesfree g\nirq0.b h = pages 1\n"+
		"cpu0 i = pages 1\ncpu0 pagesfree i\n")
	opt := options(search.Bound)
	opt.Bounds = explore.Bounds{Preemptions: 14, Interrupts: 6}
	want := run(t, c, subject(t, "page-buddy"), opt)
	for _, k := range []search.Strategy{search.DPOR, search.Sleep, search.Naive} {
		opt := options(k)
		opt.Bounds = explore.Bounds{}
		if r := run(t, c, subject(t, "page-buddy"), opt); r.States != want.States || !r.Complete {
			t.Errorf("%s: %d final states, want the %d of a bounded search", k, r.States,
				want.States)
		}
	}
}
