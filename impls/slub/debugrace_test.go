package slub_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

const racy = "slub-2022-debug-racy"

// freed is a free on one CPU and a validation on the other. The slab has a free object
// before the free, so that it is on the partial list throughout.
var freed = program{cfg: machineOf(2, 16), spec: debugSpec(3, "redzone"), lines: []string{
	"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 free a", "cpu1 validate",
}}

// TestValidateRace: where the object is marked and not yet linked, and only there, the
// validation takes it for one in use.
func TestValidateRace(t *testing.T) {
	w := newWorld(t, racy, &freed)
	broken, says, _ := w.everywhere(at{}, w.switchTo(1))
	// The points between the first unlock of the list lock and the second time it is
	// taken. At the unlock itself the other CPU can only wait.
	want := []string{
		"cpu0 free a/irqrestore - 2", "cpu0 free a/irqsave - 3",
		"cpu0 free a/lock node.list_lock 2",
	}
	if diff := cmp.Diff(want, broken); diff != "" {
		t.Errorf("broken places (-want +got):\n%s", diff)
	}
	const report = "false report: " + debugcheck.TitleLeftRedzone + ": got 0xbb, want 0xcc"
	if !strings.Contains(says, report) {
		t.Errorf("got\n%swant %q", says, report)
	}
	each(t, func(t *testing.T, name string) {
		for _, flags := range [][]string{all, {"redzone"}, {"sanity", "user"}} {
			p := freed
			p.spec = debugSpec(3, flags...)
			w := newWorld(t, name, &p)
			w.silent(t, "validate", w.switchTo(1))
		}
	})
}

// TestRaceRetires: the validation repairs the red zone of an object that is free, so
// that the next allocation reports the reverse and retires a good slab.
func TestRaceRetires(t *testing.T) {
	p := freed
	p.spec = debugSpec(3, "redzone", "sanity")
	p.lines = append([]string{}, freed.lines...)
	p.lines = append(p.lines, "cpu0 c=alloc")
	w := newWorld(t, racy, &p)
	for k := 1; ; k++ {
		s := &at{k: k, action: w.switchTo(1), w: w}
		w.reset()
		w.sim(s)
		if s.n < k {
			t.Fatal("no such place")
		}
		if s.where != "cpu0 free a/lock node.list_lock 2" {
			continue
		}
		says := w.says()
		for _, got := range []string{"got 0xbb, want 0xcc", "got 0xcc, want 0xbb"} {
			if !strings.Contains(says, debugcheck.TitleLeftRedzone+": "+got) {
				t.Errorf("got\n%swant %q", says, got)
			}
		}
		if b := snap(t, w.in).Slabs; len(b) != 2 || !b[0].Retired && !b[1].Retired {
			t.Errorf("no slab is retired: %+v", b)
		}
		return
	}
}

// TestRacyRefuses: what the check refuses is not linked either.
func TestRacyRefuses(t *testing.T) {
	one(t, racy, machineOf(1, 16), func(c *machine.Ctx, in impls.Instance) {
		r := &rig{t: t, c: c, m: c.Machine(), in: in}
		r.Debugger = r.cache(debugSpec(2, all...))
		a := r.alloc(1)[0]
		r.flip(a, 64)
		r.free(a, debugcheck.TitleRightRedzone)
		r.at(a, "1/2 partial 0")
		r.free(a)
	})
}

// TestNrSlabs: a validation sees each slab counted exactly while it is on a list.
func TestNrSlabs(t *testing.T) {
	programs := [][]string{
		{"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 free a", "cpu0 free b", "cpu1 validate"},
		{"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 free b", "cpu0 shrink", "cpu1 validate"},
	}
	each(t, func(t *testing.T, name string) {
		for i, lines := range programs {
			for objects := 1; objects <= 2; objects++ {
				p := &program{cfg: machineOf(2, 16), spec: debugSpec(objects, all...), lines: lines}
				p.spec.MinPartial = i * 2
				w := newWorld(t, name, p)
				w.silent(t, "nr_slabs", w.switchTo(1))
			}
		}
	})
}

// TestDebugSequential plays every short sequence, with a validation and a look at the
// state after each step.
func TestDebugSequential(t *testing.T) {
	length := 7
	if testing.Short() {
		length = 5
	}
	for _, flags := range [][]string{all, {"redzone", "sanity"}} {
		for keep := range 2 {
			p := &program{cfg: machineOf(1, 8), spec: debugSpec(2, flags...)}
			p.spec.MinPartial = keep
			w := newWorld(t, locked, p)
			bodies("cpu0", length, func(lines []string) {
				p.lines = p.lines[:0]
				for _, line := range lines {
					p.lines = append(p.lines, line, "cpu0 validate", "cpu0 check")
				}
				if w.run(nil); w.wrong() && !t.Failed() {
					t.Errorf("%s:\n%s", strings.Join(lines, "\n"), w.says())
				}
			})
		}
	}
}

// debugWorlds are programs of two CPUs and a handler that make slabs full, partial and
// empty, with validations between.
var debugWorlds = [][]string{
	{"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 c=alloc", "cpu1 free a", "cpu1 validate", "cpu1 free b",
		"cpu0 d=alloc", "cpu1 free c", "cpu0 validate", "cpu0 e=alloc"},
	{"cpu0 a=alloc", "cpu1 x=alloc", "cpu0 b=alloc", "cpu0 free a", "cpu1 shrink", "cpu0 free b",
		"cpu1 y=alloc", "cpu0 validate", "cpu1 drain", "cpu1 free x"},
	{"cpu0 a=alloc", "cpu0 b=alloc", "cpu1 c=alloc", "cpu1 free a", "cpu0 d=alloc",
		"irq0 x=alloc", "irq0 free b", "irq0 y=atomic", "irq0 free c", "irq0 free y",
		"cpu0 free d", "cpu1 validate", "cpu1 f=zalloc"},
}

// TestDebugConcurrent: nothing is reported and nothing breaks with a switch to the
// other CPU, an interrupt or a refused page request at any point, in any variant.
func TestDebugConcurrent(t *testing.T) {
	for _, v := range []string{"slub-2008-irqsave", "slub-2008-seq", locked} {
		for i, lines := range debugWorlds {
			for objects := 1; objects <= 3; objects++ {
				p := &program{cfg: machineOf(2, 16), spec: debugSpec(objects, all...), lines: lines}
				p.spec.MinPartial, p.cfg.SeqBits = objects%2, 2
				for preempt := machine.PreemptNone; preempt <= machine.PreemptFull; preempt++ {
					p.cfg.Preempt = preempt
					w := newWorld(t, v, p)
					what := fmt.Sprintf("program %d, %d objects, preempt=%s", i, objects, preempt)
					w.silent(t, what, w.switchTo(0))
					w.silent(t, what, w.switchTo(1))
					w.silent(t, what, failPages)
					if len(w.handlers) > 0 {
						w.silent(t, what, w.interrupt(0))
					}
				}
			}
		}
	}
}

// TestDebugMoved moves a task of a debug cache to the other CPU at every point.
func TestDebugMoved(t *testing.T) {
	for objects := 1; objects <= 3; objects++ {
		p := &program{cfg: machineOf(2, 16), spec: debugSpec(objects, all...), lines: []string{
			"t1@0 w=alloc", "cpu1 v=alloc", "t1@0 a=zalloc", "t1@0 free w", "cpu1 validate",
			"t1@0 b=alloc", "cpu1 free v", "t1@0 free a", "t1@0 validate",
		}}
		p.cfg.Preempt = machine.PreemptFull
		w := newWorld(t, locked, p)
		w.silent(t, "moved", move(1))
	}
}

// TestDebugNative has real threads allocate, give objects to one another and validate:
// no report, and every page is back.
func TestDebugNative(t *testing.T) {
	const cpus, rounds = 3, 1500
	m := machine.New(nativeConfig(cpus, 64))
	in := variant(t, locked).New(m)
	spec := debugSpec(4, all...)
	spec.MinPartial = 1
	made, err := in.Objects().NewCache(nil, spec)
	if err != nil {
		t.Fatal(err)
	}
	cache := &validated{Debugger: made.(impls.Debugger), t: t}
	relay(t, m, cache, cpus, rounds)
	if s := snap(t, in); len(s.Slabs) != 0 || s.PagesFree != 64 || len(m.Faults()) > 0 {
		t.Errorf("%d slabs, %d pages free, faults %v", len(s.Slabs), s.PagesFree, m.Faults())
	}
}

// validated is a cache that is validated after each free.
type validated struct {
	impls.Debugger
	t *testing.T
}

func (v *validated) Free(c *machine.Ctx, a impls.Addr) {
	v.Debugger.Free(c, a)
	if _, err := v.Validate(c); err != nil || len(c.Notes()) > 0 {
		v.t.Errorf("validate: %v, %d reports", err, len(c.Notes()))
	}
}
