package stress

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
)

func config() Config {
	return Config{Workloads: Workloads(), Threads: 2, Ops: 200, Seed: 1, Limit: time.Minute,
		Hang: time.Hour}
}

// silent fails a test with whatever is found.
func silent(t *testing.T, cfg *Config) {
	cfg.Found = func(f *Finding) { t.Errorf("found %s: %s\n%s", f.Identity(), f.Fault, f.Stacks) }
}

// TestSound: nothing is found with any sound subject; each has rounds of every kind and of
// these two out of three write their history down, all of which porcupine decides.
func TestSound(t *testing.T) {
	cfg := config()
	cfg.Subjects, cfg.Threads = fuzz.Sound(), 3
	silent(t, &cfg)
	passes := untimed
	if testing.Short() {
		passes = 1
	}
	r := newRun(context.Background(), cfg)
	for n := range passes {
		r.For = enough
		if !r.pass(n) {
			t.Fatal("there was nothing to do")
		}
	}
	for _, x := range r.results {
		timed := int(nWorkloads) * (passes - passes/untimed)
		if x.Rounds != passes*int(nWorkloads) || x.Histories != timed || x.Searched != timed ||
			x.Unknown != 0 || x.Stopped != "" {
			t.Errorf("%s: %+v", x.Subject.Name, x)
		}
		if x.Locked == x.Subject.Caps.Has(impls.CapSMP) {
			t.Errorf("%s: threads take turns: %v", x.Subject.Name, x.Locked)
		}
		if least := 2 * x.Rounds * cfg.Ops; x.Operations < least {
			t.Errorf("%s: %d operations, want %d", x.Subject.Name, x.Operations, least)
		}
	}
}

// TestWork: threads do all that the subject can, what each workload is about among it.
func TestWork(t *testing.T) {
	v, _ := all.Lookup("slub-2021-partial-irqsave-pools")
	cfg := config()
	cfg.Subjects, cfg.Ops = []*impls.Variant{v}, 2000
	silent(t, &cfg)
	done := map[impls.Code]bool{}
	for _, w := range Workloads() {
		r := newRun(context.Background(), cfg)
		d := newRound(r, &r.results[0], w, 0)
		d.carryOut()
		d.judge()
		h := d.history()
		cpus := map[uint8]bool{}
		for i := range h.Ops {
			done[h.Ops[i].Code], cpus[h.Ops[i].CPU] = true, true
		}
		remote, total := frees(h, cfg.Threads)
		few := total / 10
		switch w {
		case Mixed:
			if remote > 0 || len(cpus) != 2 {
				t.Errorf("mixed: %d of %d were freed by others, CPUs %v", remote, total, cpus)
			}
		case Remote, Producer:
			if remote < few || len(cpus) != 2 {
				t.Errorf("%s: %d of %d were freed by others, CPUs %v", w, remote, total, cpus)
			}
		case Churn:
			if remote < few || remote > total-few || len(cpus) != 3 {
				t.Errorf("churn: %d of %d were freed by others, CPUs %v", remote, total, cpus)
			}
		}
	}
	for _, code := range []impls.Code{impls.OpAlloc, impls.OpFree, impls.OpMalloc,
		impls.OpMemalign, impls.OpRealloc, impls.OpPages, impls.OpPagesFree} {
		if !done[code] {
			t.Errorf("no %s", code)
		}
	}
}

// frees counts what threads gave back, and what of it others had allocated.
func frees(h *history.History, threads int) (remote, total int) {
	type moment struct {
		when   int64
		got    bool
		at     history.Range
		client int
	}
	var moments []moment
	for i := range h.Ops {
		o := &h.Ops[i]
		moments = append(moments, moment{o.Call, false, o.Old, o.Client},
			moment{o.Return, true, o.New, o.Client})
	}
	slices.SortFunc(moments, func(a, b moment) int { return int(a.when - b.when) })
	owner := map[history.Range]int{}
	for _, m := range moments {
		switch {
		case m.at.Size == 0 || m.client >= threads:
		case m.got:
			owner[m.at] = m.client
		default:
			if total++; owner[m.at] != m.client {
				remote++
			}
		}
	}
	return remote, total
}

// TestPlanted: an allocator whose list is changed without a lock hands one block out to two
// threads. It is found, always as the same bug, whatever the seed; with the lock nothing is.
func TestPlanted(t *testing.T) {
	const want = "planted: history not linearizable in malloc"
	for seed := range uint64(4) {
		cfg := config()
		cfg.Seed = seed
		f, others := hunt(t, cfg, toyBug{unlocked: true}.variant("planted"), want)
		if f == nil {
			t.Fatalf("seed %d: not found, but %q", seed, others)
		}
		v := new(history.Checker).Check(f.History)
		if v == nil || linear.Check(f.part, time.Minute) != linear.NotLinearizable {
			t.Errorf("seed %d: the history that is kept shows nothing", seed)
		}
	}
	cfg := config()
	cfg.Subjects = []*impls.Variant{toyBug{}.variant("sound"),
		toyBug{caps: impls.CapSMP}.variant("alone")}
	silent(t, &cfg)
	Run(context.Background(), cfg)
}

// TestTurns: an allocator that is not made for several threads has one at a time.
func TestTurns(t *testing.T) {
	var inside atomic.Int32
	b := toyBug{unlocked: true, caps: impls.CapSMP, malloc: func(int64) {
		if inside.Add(1) != 1 {
			t.Error("two threads are inside")
		}
		time.Sleep(0) // a chance for others
		inside.Add(-1)
	}}
	cfg := config()
	cfg.Subjects = []*impls.Variant{b.variant("alone")}
	silent(t, &cfg)
	Run(context.Background(), cfg)
}

// TestPromises: what is wrong with a single allocation is found at it.
func TestPromises(t *testing.T) {
	for _, c := range []struct {
		bug   toyBug
		title fault.Title
		verb  string
	}{
		{toyBug{scribble: true}, fault.ContentsChanged, "free"},
		{toyBug{odd: true}, fault.Misaligned, "memalign"},
		{toyBug{outside: true}, fault.OutsideArena, "malloc"},
		{toyBug{dirty: true}, fault.NotZeroed, "malloc"},
		{toyBug{dies: true, caps: impls.CapAlign}, fault.WildAddress, "malloc"},
		{toyBug{halts: true, caps: impls.CapAlign}, fault.Aborted, "malloc"},
		{toyBug{resize: func(_ *toy, b []byte) { b[0]++ }}, fault.PrefixLost, "realloc"},
		{toyBug{free: func(*toy) { panic("no") }}, fault.Aborted, "free"},
	} {
		id := "toy: " + string(c.title) + " in " + c.verb
		f, others := hunt(t, config(), c.bug.variant("toy"), id)
		if f == nil {
			t.Errorf("no %s, but %q", id, others)
		} else if e, _ := fault.Lookup(c.title); f.Class() != e.Rule.String() {
			t.Errorf("%s is of class %s", id, f.Class())
		} else if c.bug.free != nil && !strings.Contains(f.Stacks, "toy") {
			t.Errorf("the stack of a panic is %q", f.Stacks)
		}
	}
}

// TestHarnessFault: a panic of this project is no finding.
func TestHarnessFault(t *testing.T) {
	defer func() {
		if p, _ := recover().(string); !strings.HasPrefix(p, "allocfuzz: broken\n") {
			t.Errorf("panicked with %q", p)
		}
	}()
	b := toyBug{free: func(*toy) { panic("allocfuzz: broken") }}
	cfg := config()
	cfg.Subjects = []*impls.Variant{b.variant("toy")}
	silent(t, &cfg)
	Run(context.Background(), cfg)
}

// TestHung: threads that are stuck are left behind, and the next subject has its turn. The
// watch looks when both are stuck.
func TestHung(t *testing.T) {
	release, both := make(chan struct{}), make(chan time.Time)
	defer close(release)
	var stuck atomic.Int32
	b := toyBug{caps: impls.CapAlign, malloc: func(n int64) {
		if n < 20 {
			return
		}
		if stuck.Add(1) == 2 {
			close(both)
		}
		<-release
	}}
	cfg := config()
	cfg.Workloads, cfg.For = []Workload{Mixed}, enough
	cfg.Subjects = []*impls.Variant{b.variant("stuck"), toyBug{}.variant("sound")}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	told := false
	cfg.after = func(time.Duration) <-chan time.Time {
		if told {
			return nil
		}
		return both
	}
	cfg.Found = func(f *Finding) {
		told = true
		if f.Identity() != "stuck: hung in malloc" || f.Class() != fault.Process.String() {
			t.Errorf("found %s of class %s", f.Identity(), f.Class())
		}
		for _, want := range []string{"malloc of thread 0", "malloc of thread 1"} {
			if !strings.Contains(f.Fault.Detail, want) {
				t.Errorf("no %q in %q", want, f.Fault.Detail)
			}
		}
		if !strings.Contains(f.Stacks, "(*toy).Malloc") {
			t.Errorf("no stack of those that are stuck in\n%s", f.Stacks)
		}
		pending := 0
		for i := range f.History.Ops {
			if f.History.Ops[i].Pending() {
				pending++
			}
		}
		if pending != 2 {
			t.Errorf("%d operations are pending", pending)
		}
	}
	rounds := 0
	cfg.Progress = func(Progress) {
		if rounds++; rounds == 3 {
			stop()
		}
	}
	res := Run(ctx, cfg)
	if res[0].Rounds != 1 || res[0].Found != 1 || res[0].Stopped == "" || res[1].Rounds != 2 ||
		res[1].Stopped != "" {
		t.Errorf("%+v", res)
	}
}

// TestInterrupted: when the context ends, threads end in good order, and what was done counts.
func TestInterrupted(t *testing.T) {
	ctx, stop := context.WithCancel(context.Background())
	b := toyBug{malloc: func(n int64) {
		if n == 50 {
			stop()
		}
	}}
	cfg := config()
	cfg.Ops, cfg.For = OpsMax, enough
	cfg.Subjects = []*impls.Variant{b.variant("toy"), b.variant("other")}
	silent(t, &cfg)
	res := Run(ctx, cfg)
	if res[0].Rounds != 1 || res[0].Histories != 1 || res[0].Operations < 50 ||
		res[0].Operations >= OpsMax || res[1].Rounds != 0 {
		t.Errorf("%+v", res)
	}
}

// bent is a subject whose snapshot is bent before it is looked at.
type bent struct {
	impls.Instance
	bend func(*impls.Snapshot)
}

func (b *bent) Snapshot(s *impls.Snapshot) bool {
	ok := b.Instance.Snapshot(s)
	b.bend(s)
	return ok
}

// ofSmall finds a slab of the round's first cache that has both live and free objects.
func ofSmall(s *impls.Snapshot) *impls.SlabState {
	for i := range s.Slabs {
		b := &s.Slabs[i]
		if n := len(b.Free) + len(b.CPUFree); s.Caches[b.Cache].Name == "small" && n > 0 &&
			n < b.Objects {
			return b
		}
	}
	return &impls.SlabState{}
}

// TestQuiet: each way in which the state at the end of a round can be wrong is found.
func TestQuiet(t *testing.T) {
	list := func(b *impls.SlabState) *[]impls.Addr {
		if len(b.Free) > 0 {
			return &b.Free
		}
		return &b.CPUFree
	}
	for _, c := range []struct {
		title fault.Title
		bend  func(*impls.Snapshot)
	}{
		{fault.FreeLost, func(s *impls.Snapshot) {
			if b := ofSmall(s); b.Objects > 0 {
				*list(b) = (*list(b))[1:]
			}
		}},
		{fault.FreeTwice, func(s *impls.Snapshot) {
			if b := ofSmall(s); b.Objects > 0 {
				b.Free = append(b.Free, (*list(b))[0])
			}
		}},
		{fault.LiveOnFreelist, func(s *impls.Snapshot) {
			b := ofSmall(s)
			for i := range b.Objects {
				a := b.First + uint64(i)*s.Caches[b.Cache].Stride
				if !slices.Contains(b.Free, a) && !slices.Contains(b.CPUFree, a) {
					b.Free = append(b.Free, a)
					return
				}
			}
		}},
		{fault.FreelistCycle, func(s *impls.Snapshot) { ofSmall(s).FreeEnd = impls.EndCycle }},
		{fault.FreelistLeaves, func(s *impls.Snapshot) { ofSmall(s).CPUEnd = impls.EndLeaves }},
		{fault.SlabTwice, func(s *impls.Snapshot) {
			b := ofSmall(s)
			b.On = append(b.On, impls.Place{}, impls.Place{})
		}},
		{fault.SlabLost, func(s *impls.Snapshot) { ofSmall(s).On = nil }},
		{fault.CountWrong, func(s *impls.Snapshot) {
			s.Counts = append(s.Counts, impls.Count{Name: "n", Stored: 1})
		}},
		{fault.PagesLeaked, func(s *impls.Snapshot) { s.PagesFree-- }},
	} {
		t.Run(string(c.title), func(t *testing.T) {
			base, _ := all.Lookup("slub-2008-irqsave")
			v := *base
			v.New = func(m *machine.Machine) impls.Instance { return &bent{base.New(m), c.bend} }
			id := v.Name + ": " + string(c.title) + " in end of the round"
			if f, others := hunt(t, config(), &v, id); f == nil {
				t.Errorf("no %s, but %q", id, others)
			}
		})
	}
}

// TestSave: report, history and picture lie side by side under the name of the bug, and
// nothing is overwritten.
func TestSave(t *testing.T) {
	f, others := hunt(t, config(), toyBug{unlocked: true}.variant("planted"),
		"planted: history not linearizable in malloc")
	if f == nil {
		t.Fatalf("not found, but %q", others)
	}
	dir := t.TempDir()
	for _, name := range []string{"planted-history-not-linearizable-in-malloc",
		"planted-history-not-linearizable-in-malloc-2"} {
		files, err := f.Save(dir)
		if err != nil {
			t.Fatal(err)
		}
		base := filepath.Join(dir, name)
		if want := (Files{base + ".txt", base + ".json", base + ".html"}); files != want {
			t.Errorf("wrote %+v, want %+v", files, want)
		}
		report := read(t, files.Report)
		for _, want := range []string{"TITLE: planted: history not linearizable\n",
			"CLASS: history\n", "REPLAY: allocfuzz stress --subject planted --workload ",
			"HISTORY: " + name + ".json\n", "PICTURE: " + name + ".html\n", "\nOPERATIONS\n"} {
			if !strings.Contains(report, want) {
				t.Errorf("no %q in the report\n%s", want, report)
			}
		}
		var ops []map[string]any
		if err := json.Unmarshal([]byte(read(t, files.History)), &ops); err != nil ||
			len(ops) != len(f.History.Ops) {
			t.Errorf("%d operations in the history, want %d: %v", len(ops), len(f.History.Ops), err)
		}
		if !strings.Contains(read(t, files.Picture), "<html") {
			t.Error("the picture is none")
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 6 {
		t.Errorf("there are %q", names)
	}
	f.History, f.part = nil, nil
	files, err := f.Save(dir)
	if err != nil || files.History != "" || files.Picture != "" ||
		!strings.Contains(read(t, files.Report), "took no stamps") {
		t.Errorf("without a history: %+v, %v", files, err)
	}
	if _, err := f.Save(filepath.Join(dir, "none")); err == nil {
		t.Error("saved in a folder that is not there")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n")))
}

// TestNames: every workload is found by its name.
func TestNames(t *testing.T) {
	for _, w := range Workloads() {
		if got, ok := WorkloadNamed(w.String()); !ok || got != w {
			t.Errorf("%s is %v", w, got)
		}
	}
	if _, ok := WorkloadNamed("none"); ok {
		t.Error("there is a workload none")
	}
}

// TestUntimed: each third round takes no stamps and has no history: a stamp would order the
// threads.
func TestUntimed(t *testing.T) {
	v, _ := all.Lookup("slub-2011-tid")
	cfg := config()
	cfg.Subjects = []*impls.Variant{v}
	silent(t, &cfg)
	r := newRun(context.Background(), cfg)
	for n := range 2 * untimed {
		d := newRound(r, &r.results[0], Mixed, n)
		d.carryOut()
		d.judge()
		want := n%untimed != untimed-1
		if took := d.clock.Load() > 0; took != want || (len(d.history().Ops) > 0) != want {
			t.Errorf("round %d: %d stamps, %d operations", n, d.clock.Load(), len(d.history().Ops))
		}
	}
}

// TestOnce: a bug is told once, however many rounds show it; when enough have, there are no
// more.
func TestOnce(t *testing.T) {
	cfg := config()
	cfg.Subjects, cfg.For = []*impls.Variant{toyBug{dirty: true}.variant("toy")}, enough
	told := map[string]int{}
	cfg.Found = func(f *Finding) { told[f.Identity()]++ }
	res := Run(context.Background(), cfg)
	if told["toy: not zeroed in malloc"] != 1 || len(told) != res[0].Found {
		t.Errorf("%v was told, %d found", told, res[0].Found)
	}
	if res[0].Rounds != roundsFound || res[0].Stopped == "" {
		t.Errorf("%+v", res[0])
	}
}

// TestPanicLeavesOthers: where a thread panics and another one is stuck since, the panic is
// what is told, once; and one of this project is none of the subject's. The watch looks when
// the panic was noted.
func TestPanicLeavesOthers(t *testing.T) {
	for _, text := range []string{"no", "allocfuzz: no"} {
		release, stuck, now := make(chan int), make(chan int), make(chan time.Time)
		close(now)
		b := toyBug{caps: impls.CapAlign, malloc: func(n int64) {
			switch {
			case n == 20:
				<-stuck
				panic(text)
			case n > 20:
				close(stuck)
				<-release
			}
		}}
		cfg := config()
		cfg.Subjects = []*impls.Variant{b.variant("toy")}
		r := newRun(context.Background(), cfg)
		d := newRound(r, &r.results[0], Mixed, 0)
		r.after = func(time.Duration) <-chan time.Time {
			for !d.isLost() {
				runtime.Gosched()
			}
			return now
		}
		func() {
			defer func() {
				p, _ := recover().(string)
				if (text != "no") != strings.HasPrefix(p, "allocfuzz: no\n") {
					t.Errorf("%q: panicked with %q", text, p)
				}
			}()
			d.carryOut()
		}()
		if found := d.judge(); len(found) != 1 || found[0].Identity() != "toy: aborted in malloc" {
			t.Errorf("found %+v", found)
		}
		close(release)
	}
}
