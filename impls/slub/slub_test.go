package slub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls/machine"
)

// aba is the program of source row S2b (i): the handler takes two objects and
// gives the first back.
var aba = program{cfg: machineOf(1, 16), spec: specOf(8), lines: []string{
	"cpu0 w=alloc", "cpu0 a=alloc", "cpu0 b=alloc",
	"irq0 x=alloc", "irq0 y=alloc", "irq0 free x",
}}

// replaced is the program of S2b (ii): the handler replaces the slab whose list
// is empty by one whose list is empty as well.
var replaced = program{cfg: machineOf(1, 16), spec: specOf(2), lines: []string{
	"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 free a",
	"irq0 x=alloc", "irq0 y=alloc",
}}

func TestABA(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		w := newWorld(t, name, &aba)
		w.silent(t, "aba", w.interrupt(0))
		w = newWorld(t, name, &replaced)
		w.silent(t, "replaced slab", w.interrupt(0))
	})
}

func TestCmpxchgIsFound(t *testing.T) {
	tests := []struct {
		name string
		prog *program
		want []string
		says string
	}{
		{"aba", &aba, []string{
			"cpu0 a=alloc/cmpxchg cpu_slab.freelist 1", "cpu0 b=alloc/cmpxchg cpu_slab.freelist 1",
		}, "live object on a freelist"},
		{"replaced slab", &replaced, []string{
			"cpu0 free a/memstore object.link 1", "cpu0 free a/cmpxchg cpu_slab.freelist 1",
		}, "freelist leaves its slab"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, "slub-2008-cmpxchg", tt.prog)
			broken, says, _ := w.everywhere(at{}, w.interrupt(0))
			if diff := cmp.Diff(tt.want, broken); diff != "" {
				t.Errorf("broken places (-want +got):\n%s", diff)
			}
			if !strings.Contains(says, tt.says) {
				t.Errorf("got\n%swant %q", says, tt.says)
			}
		})
	}
}

// TestTwiceOut is the consequence of the first broken place of aba: b gets what
// the handler has.
func TestTwiceOut(t *testing.T) {
	w := newWorld(t, "slub-2008-cmpxchg", &aba)
	for k := 1; k < 100; k++ {
		s := &at{k: k, action: w.interrupt(0), w: w}
		w.run(s)
		if s.where != "cpu0 a=alloc/cmpxchg cpu_slab.freelist 1" {
			continue
		}
		says := w.says()
		if !strings.Contains(says, "b = ") || !strings.Contains(says, "handed out twice") {
			t.Errorf("got\n%s", says)
		}
		return
	}
	t.Error("no such place")
}

// bodies calls f with every sequence of up to n steps of allocating, giving back
// the newest and giving back the oldest object, as lines of a context.
func bodies(ctx string, n int, f func(lines []string)) {
	var held, lines []string
	var extend func(names int)
	extend = func(names int) {
		if len(lines) > 0 {
			f(lines)
		}
		if len(lines) == n {
			return
		}
		name := fmt.Sprintf("%s_%d", ctx, names)
		lines, held = append(lines, ctx+" "+name+"=alloc"), append(held, name)
		extend(names + 1)
		lines, held = lines[:len(lines)-1], held[:len(held)-1]
		for _, i := range []int{0, len(held) - 1} {
			if i < 0 || i > 0 && len(held) < 2 || len(held) == 0 {
				continue
			}
			was := slices.Clone(held)
			lines = append(lines, ctx+" free "+held[i])
			held = slices.Delete(held, i, i+1)
			extend(names)
			lines, held = lines[:len(lines)-1], was
			if len(was) == 1 {
				break
			}
		}
	}
	extend(0)
}

// TestHandlers delivers every short handler at every point of a short task: the
// sequence fast path at all first values of small sequence numbers, and that with
// transaction ids, which have none.
func TestHandlers(t *testing.T) {
	length := 6
	if testing.Short() {
		length = 4
	}
	tasks := []struct {
		objects int
		lines   []string
	}{
		{4, []string{"cpu0 w=alloc", "cpu0 a=alloc", "cpu0 b=alloc", "cpu0 c=alloc"}},
		{4, []string{"cpu0 w=alloc", "cpu0 a=alloc", "cpu0 free a", "cpu0 b=alloc"}},
		{3, []string{"cpu0 w=alloc", "cpu0 a=alloc", "cpu0 free a"}},
		{1, []string{"cpu0 w=alloc", "cpu0 free w", "cpu0 a=alloc", "cpu0 free a"}},
		{1, []string{"cpu0 w=alloc", "cpu0 free w"}},
	}
	for seq0 := uint64(0); seq0 < 4; seq0++ {
		for _, task := range tasks {
			p := &program{cfg: machineOf(1, 8), spec: specOf(task.objects)}
			p.cfg.SeqBits, p.cfg.Seq0 = 2, seq0
			worlds := []*world{newWorld(t, "slub-2008-seq", p)}
			if seq0 == 0 {
				worlds = append(worlds, newWorld(t, "slub-2011-tid", p))
			}
			bodies("irq0", length, func(lines []string) {
				p.lines = append(slices.Clone(task.lines), lines...)
				for _, w := range worlds {
					if !t.Failed() {
						w.silent(t, fmt.Sprintf("seq0=%d", seq0), w.interrupt(0))
					}
				}
			})
		}
	}
}

// TestOverwrites: the slow path of 2008 loses objects without anybody in between, once
// the sequence number stands at all ones, and with a wide one, which never does, it does not.
func TestOverwrites(t *testing.T) {
	p := &program{cfg: machineOf(1, 8), spec: specOf(3)}
	lost := map[int]int{}
	for _, width := range []int{2, 32} {
		p.cfg.SeqBits = width
		w := newWorld(t, "slub-2008-seq-slowpath", p)
		bodies("cpu0", 6, func(lines []string) {
			p.lines = lines
			w.run(nil)
			if !w.wrong() {
				return
			}
			lost[width]++
			if says := w.says(); !strings.Contains(says, "free object lost") && !t.Failed() {
				t.Errorf("%s:\n%s", strings.Join(lines, "\n"), says)
			}
		})
	}
	if lost[2] == 0 || lost[32] != 0 {
		t.Errorf("programs that lose objects, by width of the number: %v", lost)
	}
}

// TestMovedTwice moves a task that has transaction ids to the other CPU, and back, at
// every pair of points. Both CPUs make as many list changes, and both lists are empty at
// times.
func TestMovedTwice(t *testing.T) {
	for _, name := range []string{"slub-2011-tid", "slub-2021-tid-partial"} {
		for objects := 1; objects <= 2; objects++ {
			p := &program{cfg: machineOf(2, 8), spec: specOf(objects), lines: []string{
				"t1@0 a=alloc", "cpu1 x=alloc", "t1@0 free a", "t1@0 b=alloc", "cpu1 free x",
				"t1@0 free b",
			}}
			p.cfg.Preempt = machine.PreemptFull
			w := newWorld(t, name, p)
			w.silentPairs(t, "moved twice", func(c *machine.Ctx, _ machine.Point) machine.Action {
				return machine.Action{Kind: machine.Move, CPU: 1 - c.CPUID()}
			})
		}
	}
}

// TestSequential plays every short sequence without anything in between, the
// state held against the invariants after each step. The small sequence number
// brings the slow path to lists that are not empty.
func TestSequential(t *testing.T) {
	length := 8
	if testing.Short() {
		length = 6
	}
	each(t, func(t *testing.T, name string) {
		p := &program{cfg: machineOf(1, 8), spec: specOf(3)}
		p.cfg.SeqBits = 2
		w := newWorld(t, name, p)
		bodies("cpu0", length, func(lines []string) {
			p.lines = p.lines[:0]
			for _, line := range lines {
				p.lines = append(p.lines, line, "cpu0 check")
			}
			if w.run(nil); w.wrong() && !t.Failed() {
				t.Errorf("%s:\n%s", strings.Join(lines, "\n"), w.says())
			}
		})
	})
}

// TestWrap lets a handler change the list about as often as an 8-bit number can
// count, at every point of the allocations that it interrupts: it takes three
// objects, gives the first back and takes and frees that one again and again.
func TestWrap(t *testing.T) {
	for seq0 := uint64(2); seq0 <= 3; seq0++ {
		for pairs := 125; pairs <= 127; pairs++ {
			if testing.Short() && pairs != 126 {
				continue
			}
			p := &program{cfg: machineOf(1, 16), spec: specOf(8)}
			p.cfg.SeqBits, p.cfg.Seq0 = 8, seq0
			p.lines = []string{"cpu0 w=alloc", "cpu0 a=alloc", "cpu0 b=alloc",
				"irq0 x=alloc", "irq0 y=alloc", "irq0 v=alloc", "irq0 free x"}
			for range pairs {
				p.lines = append(p.lines, "irq0 z=alloc", "irq0 free z")
			}
			w := newWorld(t, "slub-2008-seq", p)
			w.silent(t, "wrap", func(c *machine.Ctx, q machine.Point) machine.Action {
				if c.InInterrupt() {
					return machine.Action{}
				}
				return w.interrupt(0)(c, q)
			})
		}
	}
}

// TestPreempted lets another task of the CPU run at every point. Outside
// interrupts the number may wrap, so only disabled preemption keeps a fast path
// from missing it.
func TestPreempted(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		for _, preempt := range kinds(t, name, machine.PreemptFull) {
			p := &program{cfg: machineOf(1, 8), spec: specOf(4)}
			p.cfg.SeqBits, p.cfg.Preempt = 2, preempt
			w := newWorld(t, name, p)
			bodies("t1@0", 5, func(lines []string) {
				if t.Failed() {
					return
				}
				p.lines = append([]string{"cpu0 w=alloc", "cpu0 a=alloc"}, lines...)
				p.lines = append(p.lines, "cpu0 b=alloc")
				w.silentHow(t, "preempted", at{again: true}, w.switchTo(1))
			})
		}
	})
}

// TestMigrated moves a task to the other CPU at every point, while the other CPU
// allocates, too.
func TestMigrated(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		for objects := 1; objects <= 4; objects++ {
			p := &program{cfg: machineOf(2, 16), spec: specOf(objects), lines: []string{
				"t1@0 w=alloc", "cpu1 v=alloc", "t1@0 a=alloc", "t1@0 free w", "t1@0 b=alloc",
				"cpu1 free v", "t1@0 free a", "t1@0 c=alloc", "cpu1 u=alloc", "t1@0 free b",
			}}
			p.cfg.SeqBits = 2
			for _, p.cfg.Preempt = range kinds(t, name, machine.PreemptFull) {
				w := newWorld(t, name, p)
				w.silent(t, "moved", move(1))
			}
		}
	})
}

// TestTwoCPUs switches to the other CPU at every point: remote frees, a full slab
// that gets its first free object, one that becomes empty, shrinking and draining.
func TestTwoCPUs(t *testing.T) {
	programs := map[string][]string{
		"remote frees": {
			"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 c=alloc", "cpu1 free a", "cpu1 free b",
			"cpu0 d=alloc", "cpu1 free c", "cpu0 e=alloc", "cpu0 f=alloc",
		},
		"both empty a slab": {
			"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 c=alloc", "cpu0 d=alloc", "cpu0 e=alloc",
			"cpu0 free a", "cpu1 free b", "cpu0 free c", "cpu1 free d",
		},
		"both allocate from the node": {
			"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 c=alloc", "cpu0 d=alloc", "cpu0 e=alloc",
			"cpu0 free a", "cpu0 free c", "cpu1 x=alloc", "cpu0 y=alloc", "cpu1 z=alloc",
			"cpu0 free x", "cpu1 free y",
		},
		"shrink": {
			"cpu0 a=alloc", "cpu1 x=alloc", "cpu0 b=alloc", "cpu0 c=alloc", "cpu0 free a",
			"cpu1 shrink", "cpu0 free b", "cpu1 y=alloc", "cpu0 d=alloc", "cpu0 shrink",
			"cpu1 free x",
		},
		"drain": {
			"cpu0 a=alloc", "cpu1 x=alloc", "cpu0 b=alloc", "cpu0 c=alloc", "cpu1 free a",
			"cpu1 drain", "cpu0 free b", "cpu1 y=alloc", "cpu0 d=alloc", "cpu0 drain",
			"cpu1 free x",
		},
		"flush": {
			"cpu0 a=alloc", "cpu0 b=alloc", "cpu1 x=alloc", "cpu0 flush", "cpu0 free a",
			"cpu1 flush", "cpu1 free b", "cpu0 c=alloc", "cpu1 y=alloc", "cpu0 flush",
		},
		"offline": {
			"cpu0 a=alloc", "cpu0 b=alloc", "cpu1 x=alloc", "cpu1 y=alloc", "cpu1 z=alloc",
			"cpu1 free x", "cpu0 offline 1", "cpu1 free y", "cpu0 free z", "cpu1 offline 0",
			"cpu0 c=alloc", "cpu1 x=alloc",
		},
	}
	each(t, func(t *testing.T, name string) {
		for what, lines := range programs {
			for keep := range 2 {
				if testing.Short() && keep > 0 {
					continue
				}
				p := &program{cfg: machineOf(2, 16), spec: specOf(2), lines: lines}
				p.spec.MinPartial, p.cfg.SeqBits = keep, 2
				for _, p.cfg.Preempt = range kinds(t, name, machine.PreemptNone) {
					w := newWorld(t, name, p)
					w.silent(t, what, w.switchTo(0))
					w.silent(t, what, w.switchTo(1))
				}
			}
		}
	})
}

// TestTwoSwitches switches to the other CPU at every pair of points: what one CPU
// decided before it took the list lock may be over when it has it.
func TestTwoSwitches(t *testing.T) {
	programs := [][]string{
		{"cpu0 a=alloc", "cpu0 b=alloc", "cpu0 drain", "cpu0 free a", "cpu0 free b",
			"cpu1 x=alloc"},
		{"cpu0 a=alloc", "cpu0 b=alloc", "cpu1 x=alloc", "cpu1 free a", "cpu0 free x",
			"cpu0 c=alloc"},
	}
	each(t, func(t *testing.T, name string) {
		for objects := 1; objects <= 2; objects++ {
			for i, lines := range programs {
				if testing.Short() && objects != i+1 {
					continue
				}
				p := &program{cfg: machineOf(2, 8), spec: specOf(objects), lines: lines}
				for _, p.cfg.Preempt = range kinds(t, name, machine.PreemptRT) {
					w := newWorld(t, name, p)
					w.silentPairs(t, "two switches", w.other)
				}
				p.cfg.Preempt = machine.PreemptNone
				w := newWorld(t, name, p)
				w.silentPairs(t, "two switches", w.other)
			}
		}
	})
}

// TestInterrupts delivers a handler that fills, empties and replaces slabs at every
// point of tasks on two CPUs.
func TestInterrupts(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		for objects := 1; objects <= 3; objects++ {
			p := &program{cfg: machineOf(2, 16), spec: specOf(objects), lines: []string{
				"cpu0 a=alloc", "cpu0 b=alloc", "cpu1 c=alloc", "cpu1 free a", "cpu0 d=alloc",
				"irq0 x=alloc", "irq0 free b", "irq0 y=alloc", "irq0 z=alloc", "irq0 free c",
				"irq0 free y", "cpu0 free d", "cpu0 shrink", "cpu1 e=atomic", "cpu1 f=alloc",
			}}
			p.cfg.SeqBits = 2
			for _, p.cfg.Preempt = range kinds(t, name, machine.PreemptNone) {
				w := newWorld(t, name, p)
				w.silent(t, "interrupt", w.interrupt(0))
			}
		}
	})
}

// TestWords runs on every width of word, with slabs that lie across a half-word
// boundary: a fast path cannot go from one side to the other.
func TestWords(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		for _, word := range []int{64, 32, 16} {
			for _, bits := range []int{2, word / 2} {
				cfg := machineOf(1, 16)
				cfg.Word, cfg.SeqBits, cfg.Base = word, bits, 1<<(word/2)
				p := &program{cfg: cfg, spec: specOf(6)}
				p.spec.Size = 40
				if word == 16 {
					p.cfg.PageSize, p.cfg.Base = 128, 128 // the slab is 128-383, the boundary 256
				}
				if word == 32 {
					p.cfg.Base = 1<<16 - 4096
					p.spec.Size, p.spec.Objects = 2000, 4
				}
				for i := range 8 {
					p.lines = append(p.lines, fmt.Sprintf("cpu0 a%d=alloc", i))
				}
				for _, i := range []int{1, 0, 5, 3} {
					p.lines = append(p.lines, fmt.Sprintf("cpu0 free a%d", i), "cpu0 check")
				}
				p.lines = append(p.lines, "cpu0 b=zalloc", "cpu0 c=alloc", "cpu0 d=alloc",
					"irq0 x=alloc", "irq0 free a4", "irq0 y=alloc", "irq0 free x")
				w := newWorld(t, name, p)
				w.silent(t, fmt.Sprintf("word=%d seqbits=%d", word, bits), w.interrupt(0))
			}
		}
	})
}

// TestNoMemory fails each page request in turn, and exhausts the arena.
func TestNoMemory(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		p := &program{cfg: machineOf(2, 4), spec: specOf(2)}
		for i := range 10 {
			p.lines = append(p.lines, fmt.Sprintf("cpu%d a%d=alloc", i%2, i))
		}
		for i := range 10 {
			p.lines = append(p.lines, fmt.Sprintf("cpu%d free a%d", (i+1)%2, i))
		}
		for i := range 8 {
			p.lines = append(p.lines, fmt.Sprintf("cpu0 b%d=alloc", i))
		}
		w := newWorld(t, name, p)
		w.silent(t, "page request refused", failPages)
		w.run(nil)
		if w.refused < 2 || w.refused > 4 {
			t.Errorf("%d refusals, want 2 of the first ten", w.refused)
		}
	})
}
