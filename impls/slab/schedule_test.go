package slab_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// steer takes its actions at the points of these numbers, where they are allowed.
type steer struct {
	at   []int
	acts []machine.Action
	n    int
	did  int
	over bool // no more actions
}

func (s *steer) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	s.n++
	for i, k := range s.at {
		if k == s.n && !s.over && c.Allowed(p, s.acts[i%len(s.acts)]) {
			s.did++
			return s.acts[i%len(s.acts)]
		}
	}
	return machine.Action{}
}

// ops is a program of one context: it takes three objects, gives some back, and
// leaves one live.
func (r *rig) ops(c *machine.Ctx, s impls.Cache, pos int) {
	next := func() { pos++; r.listen(c); c.EndLine(pos); c.BeginLine(pos, [2]int32{}) }
	c.BeginLine(pos, [2]int32{})
	x := r.got(c, s, s.Alloc(c, 0))
	next()
	y := r.got(c, s, s.Alloc(c, impls.FlagAtomic))
	next()
	r.drop(c, s, x)
	next()
	r.got(c, s, s.Alloc(c, 0))
	next()
	r.drop(c, s, y)
	next()
	s.Shrink(c)
	r.listen(c)
	c.EndLine(machine.After)
}

// drop frees what was got.
func (r *rig) drop(c *machine.Ctx, s impls.Cache, a impls.Addr) {
	if a != 0 {
		delete(r.live, a)
		s.Free(c, a)
	}
}

// scene sets a run up and returns the actions that may be taken in it.
type scene func(r *rig, s impls.Cache) []machine.Action

func interrupts(r *rig, s impls.Cache) []machine.Action {
	h := &machine.Handler{Name: "irq0", Pos: 50, Body: func(c *machine.Ctx) { r.ops(c, s, 50) }}
	r.m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) { r.ops(c, s, 0) })
	r.m.AddHandler(h)
	return []machine.Action{{Kind: machine.Interrupt, Handler: h}}
}

func otherTask(cpu int) scene {
	return func(r *rig, s impls.Cache) []machine.Action {
		a := r.m.AddTask("t0", 0, 0, true, func(c *machine.Ctx) { r.ops(c, s, 0) })
		b := r.m.AddTask("t1", cpu, 50, true, func(c *machine.Ctx) { r.ops(c, s, 50) })
		return []machine.Action{
			{Kind: machine.SwitchTo, Task: b}, {Kind: machine.SwitchTo, Task: a},
		}
	}
}

func moves(r *rig, s impls.Cache) []machine.Action {
	r.m.AddTask("t0", 0, 0, false, func(c *machine.Ctx) { r.ops(c, s, 0) })
	b := r.m.AddTask("t1", 1, 50, false, func(c *machine.Ctx) { r.ops(c, s, 50) })
	return []machine.Action{{Kind: machine.Move, CPU: 1}, {Kind: machine.SwitchTo, Task: b}}
}

func failing(r *rig, s impls.Cache) []machine.Action {
	r.m.AddTask("t0", 0, 0, true, func(c *machine.Ctx) { r.ops(c, s, 0) })
	return []machine.Action{{Kind: machine.FailPages}}
}

// TestEverywhere takes one action, or two, at every point of small programs: all
// is silent and in order after each run.
func TestEverywhere(t *testing.T) {
	scenes := []struct {
		name string
		cpus int
		set  scene
		none bool // possible without preemption
	}{
		{"interrupt", 1, interrupts, true},
		{"other CPU", 2, otherTask(1), true},
		{"other task", 1, otherTask(0), true},
		{"migration", 2, moves, false},
		{"failure", 1, failing, true},
	}
	for _, sc := range scenes {
		for p := machine.PreemptNone; p <= machine.PreemptRT; p++ {
			if p == machine.PreemptNone && !sc.none {
				continue
			}
			t.Run(fmt.Sprintf("%s/%s", sc.name, p), func(t *testing.T) {
				each(t, func(t *testing.T, v *impls.Variant) {
					r := newRigOf(t, v, func(c *machine.Config) {
						c.CPUs, c.Preempt, c.Pages = sc.cpus, p, 4
					})
					r.everywhere(sc.set)
					r.letters = "FZPU"
					r.everywhere(sc.set)
				})
			})
		}
	}
}

func (r *rig) everywhere(set scene) {
	t := r.t
	total, did := 1, 0
	for first := 1; first <= total; first++ {
		second := first // the same point again: bound 1
		for {
			ch := r.once(set, first, second)
			total, did = max(total, ch.n), did+ch.did
			if t.Failed() {
				t.Fatalf("at points %d and %d", first, second)
			}
			if second += 5; second > ch.n || testing.Short() {
				break
			}
		}
	}
	if did == 0 || total < 20 {
		t.Errorf("%d actions at %d points", did, total)
	}
}

// once makes one run, with an epilogue that gives everything back.
func (r *rig) once(set scene, at ...int) *steer {
	r.reset()
	s := r.cache(flagged(64, 2, r.letters))
	ch := &steer{at: at, acts: set(r, s)}
	r.m.SetBarriers([]int{100}, func(int) { r.check() })
	r.m.AddTask("end", 0, 101, true, func(c *machine.Ctx) {
		r.line, ch.over = 101, true
		for _, b := range r.check().Slabs {
			for i := range b.Objects {
				if a := b.First + uint64(i)*r.snap.Caches[0].Stride; r.live[a] {
					r.free(c, s, a)
				}
			}
		}
		r.op(c, func() {
			if err := s.Destroy(c); err != nil {
				r.t.Error(errors.New("nothing is live"), err)
			}
		})
	})
	r.finish(ch)
	r.allBack()
	if len(r.told) > 0 {
		r.t.Error(r.reports())
	}
	r.titles()
	return ch
}

// TestGrowTogether lets an interrupt make a slab, and empty it, while a task asks
// for a page: the task's own new slab comes behind it.
func TestGrowTogether(t *testing.T) {
	r := newRig(t, nil)
	s := r.cache(small(64, 2))
	h := &machine.Handler{CPU: 0, Name: "irq0", Pos: 50, Body: func(c *machine.Ctx) {
		c.BeginLine(50, [2]int32{})
		s.Free(c, s.Alloc(c, 0))
		c.EndLine(machine.After)
	}}
	r.m.AddHandler(h)
	r.m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) { r.alloc(c, s, 0) })
	r.finish(&atPages{h: h})
	snap := r.check()
	if diff := cmp.Diff([]int{1}, order(snap, impls.ListFree)); diff != "" {
		t.Error(diff)
	}
	if h.Delivered() != 1 {
		t.Error("no interrupt")
	}
	r.titles()
}

// atPages delivers its handler at the first page request.
type atPages struct{ h *machine.Handler }

func (a *atPages) Choose(_ *machine.Ctx, p machine.Point) machine.Action {
	if p.Kind == machine.KPageAlloc && a.h != nil && a.h.Delivered() == 0 {
		return machine.Action{Kind: machine.Interrupt, Handler: a.h}
	}
	return machine.Action{}
}

func BenchmarkPair(b *testing.B) {
	b.Run("native", func(b *testing.B) { pair(b, true, "") })
	b.Run("native/FZPU", func(b *testing.B) { pair(b, true, "FZPU") })
	b.Run("simulated", func(b *testing.B) { pair(b, false, "") })
}

// pair frees and allocates on a machine of one CPU.
func pair(b *testing.B, native bool, letters string) {
	cfg := machine.DefaultConfig()
	cfg.Native = native
	m := machine.New(cfg)
	defer m.Close()
	inst := variant("threelists").New(m)
	s, err := inst.Objects().NewCache(nil, flagged(64, -1, letters))
	if err != nil {
		b.Fatal(err)
	}
	body := func(c *machine.Ctx) {
		s.Alloc(c, 0)
		b.ReportAllocs()
		for b.Loop() {
			if !native {
				c.BeginLine(0, [2]int32{})
			}
			s.Free(c, s.Alloc(c, 0))
			if !native {
				c.EndLine(0)
			}
		}
	}
	if native {
		body(m.NativeCtx(0, "bench"))
		return
	}
	m.AddTask("cpu0", 0, 0, true, body)
	if err := m.Sim().Run(nil); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkRun is a whole run: reset, instance, one cache, two operations.
func BenchmarkRun(b *testing.B) {
	for _, sizes := range []bool{false, true} {
		b.Run(fmt.Sprintf("sizes=%v", sizes), func(b *testing.B) {
			m := machine.New(machine.DefaultConfig())
			defer m.Close()
			v := variant("threelists")
			spec := impls.NewSpec("c", 64)
			b.ReportAllocs()
			for b.Loop() {
				m.Reset()
				inst := v.New(m)
				s, _ := inst.Objects().NewCache(nil, spec)
				if sizes {
					inst.Sizes()
				}
				m.AddTask("cpu0", 0, 0, true, func(c *machine.Ctx) {
					c.BeginLine(0, [2]int32{})
					s.Free(c, s.Alloc(c, 0))
					c.EndLine(machine.After)
				})
				if err := m.Sim().Run(nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
