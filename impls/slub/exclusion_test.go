package slub_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/slub"
)

const localLock = "slub-2021-partial-locallock"

// A watch is a chooser that delivers a handler at one point, if any, and sees every other.
type watch struct {
	at   machine.Point // its Field by name in field
	line string
	act  func() machine.Action
	seen func(c *machine.Ctx, p machine.Point)
	w    *world
	done bool
}

func (s *watch) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if s.seen != nil {
		s.seen(c, p)
	}
	i := c.Line().Pos
	if s.act == nil || s.done || i < 0 || i >= len(s.w.prog.lines) || s.w.prog.lines[i] != s.line ||
		p.Kind != s.at.Kind || p.N != s.at.N || p.Field != s.at.Field {
		return machine.Action{}
	}
	s.done = true
	return s.act()
}

// TestSlowPathPreemptible: on a real-time machine interrupts are never off at what is the
// cache's, be it a lock or a word, whatever it does; on any other machine its local lock is
// interrupts off.
func TestSlowPathPreemptible(t *testing.T) {
	lines := append(cycle(8), "cpu0 drain", "cpu0 flush", "cpu0 shrink")
	for _, preempt := range kinds(t, localLock, machine.PreemptNone) {
		p := &program{cfg: machineOf(2, 16), spec: twoStored(), lines: lines}
		p.cfg.Preempt = preempt
		w := newWorld(t, localLock, p)
		locks, off := 0, 0
		w.run(&watch{w: w, seen: func(c *machine.Ctx, q machine.Point) {
			kind, _, _ := strings.Cut(q.Field.Name(), ".")
			if kind != "slab" && kind != "node" && kind != "cpu_slab" {
				return
			}
			locks++
			if c.IRQsOff() {
				off++
			}
		}})
		if w.wrong() {
			t.Error(w.says())
		}
		if rt := preempt == machine.PreemptRT; locks < 50 || rt == (off > 0) {
			t.Errorf("%s: %d points, %d of them with interrupts off", preempt, locks, off)
		}
	}
}

// TestPagesDropTheLock: while a slow path waits for pages nobody waits for its lock: a
// handler that allocates then brings the CPU a slab, and that is let go and not forgotten.
func TestPagesDropTheLock(t *testing.T) {
	for _, verb := range []string{"alloc", "atomic"} {
		p := realTime(&program{cfg: machineOf(1, 16), spec: specOf(3), lines: []string{
			"cpu0 a=" + verb, "irq0 x=alloc"}})
		w := newWorld(t, localLock, p)
		waits := 0
		ask := &watch{w: w, line: p.lines[0], act: func() machine.Action {
			return machine.Action{Kind: machine.Interrupt, Handler: w.handlers[0]}
		}, seen: func(_ *machine.Ctx, q machine.Point) {
			if q.Kind == machine.KWait {
				waits++
			}
		}}
		find := &watch{w: w, seen: func(_ *machine.Ctx, q machine.Point) {
			if q.Kind == machine.KPageAlloc && ask.at.Field == nil {
				ask.at = q
			}
		}}
		if w.run(find); w.wrong() {
			t.Fatal(w.says())
		}
		if w.run(ask); w.wrong() || waits != 0 || !ask.done {
			t.Errorf("%s: %d waits, asked %v:\n%s", verb, waits, ask.done, w.says())
		}
	}
}

// TestPushTwoTasks: on a real-time machine the push that takes no lock is two switches of
// tasks away from losing its slab, and with the lock it is not.
func TestPushTwoTasks(t *testing.T) {
	p := realTime(&program{cfg: machineOf(1, 16), spec: twoStored(), lines: []string{
		"cpu0 a=alloc", "cpu0 a2=alloc", "cpu0 b=alloc", "cpu0 b2=alloc",
		"cpu0 d=alloc", "cpu0 d2=alloc", "cpu0 free a", "cpu0 free b", "t1@0 x=alloc",
	}})
	for _, name := range []string{stores[1], localLock} {
		w := newWorld(t, name, p)
		lost := 0
		for first, taken := 1, 1; taken > 0; first++ {
			var broken []string
			var says string
			broken, says, taken = w.everywhere(at{first: first}, w.other)
			lost += len(broken)
			if len(broken) > 0 && !strings.Contains(says, string(fault.SlabLost)) {
				t.Fatalf("%s: first at point %d: %s", name, first, says)
			}
		}
		if (lost > 0) != (name == stores[1]) {
			t.Errorf("%s: lost under %d pairs of switches", name, lost)
		}
	}
}

// held lists what belongs to CPUs: CPU and page of each slab.
func held(s *impls.Snapshot) (list [][2]int) {
	for i := range s.Slabs {
		b := &s.Slabs[i]
		for _, p := range b.On {
			if p.Kind != impls.OnList {
				list = append(list, [2]int{p.CPU, b.Page})
			}
		}
	}
	slices.SortFunc(list, func(a, b [2]int) int { return a[0] - b[0] })
	return list
}

// heldAfter runs lines in their order and lists what belongs to CPUs then.
func (w *world) heldAfter(lines []string) [][2]int {
	w.prog.lines = lines
	w.reset()
	w.sim(nil)
	w.check()
	return held(&w.snap)
}

// spread gives three CPUs a slab each of a cache, and the first two a store, where there are
// stores; the third has no more than the rest of a full slab.
var spread = []string{
	"cpu0 a=alloc", "cpu0 a2=alloc", "cpu0 b=alloc", "cpu1 d=alloc", "cpu1 d2=alloc",
	"cpu1 e=alloc", "cpu2 f=alloc", "cpu0 free a", "cpu1 free d",
}

// TestFlush: after a flush no CPU has anything of the cache, whatever it had, on any kernel;
// and nothing is lost, which the end of each run sees.
func TestFlush(t *testing.T) {
	for _, v := range slub.Variants() {
		for _, preempt := range kinds(t, v.Name, machine.PreemptNone) {
			p := &program{cfg: machineOf(3, 16), spec: twoStored()}
			p.cfg.Preempt = preempt
			w := newWorld(t, v.Name, p)
			before := w.heldAfter(spread)
			after := w.heldAfter(append(slices.Clone(spread), "cpu1 flush", "cpu0 check"))
			if len(before) < 3 || len(after) > 0 || w.wrong() {
				t.Errorf("%s, %s: held %v, after a flush %v\n%s", v.Name, preempt, before, after,
					w.says())
			}
			if w.run(nil); w.wrong() {
				t.Errorf("%s, %s: %s", v.Name, preempt, w.says())
			}
		}
	}
}

// TestOffline: when a CPU goes out of use it has nothing any more, pages in a pool
// included, the others have what they had, and it is used again afterwards.
func TestOffline(t *testing.T) {
	for _, v := range slub.Variants() {
		for _, preempt := range kinds(t, v.Name, machine.PreemptNone) {
			p := &program{cfg: machineOf(3, 16), spec: twoStored()}
			p.cfg.Preempt = preempt
			w := newWorld(t, v.Name, p)
			before := w.heldAfter(spread)
			kept := slices.DeleteFunc(slices.Clone(before),
				func(h [2]int) bool { return h[0] == 1 })
			after := w.heldAfter(append(slices.Clone(spread), "cpu2 offline 1"))
			if len(kept) == len(before) || !slices.Equal(after, kept) ||
				w.wrong() {
				t.Errorf("%s, %s: held %v, then %v\n%s", v.Name, preempt, before, after, w.says())
			}
			for _, pool := range w.snap.Pools {
				if pool.CPU == 1 && len(pool.Pages) > 0 {
					t.Errorf("%s: pool %v", v.Name, pool)
				}
			}
			p.lines = append(p.lines, "cpu1 x=alloc", "cpu1 y=alloc", "cpu1 free x",
				"cpu0 offline 1")
			if w.run(nil); w.wrong() {
				t.Errorf("%s, %s: %s", v.Name, preempt, w.says())
			}
		}
	}
}

// TestOfflinePools: the page that a CPU's pool has goes back with the CPU, and only that one.
func TestOfflinePools(t *testing.T) {
	cfg := machineOf(2, 16)
	one(t, "slub-2021-partial-irqsave-pools", cfg, func(c *machine.Ctx, in impls.Instance) {
		fill := func(c *machine.Ctx) { in.Pages().FreePages(c, in.Pages().AllocPages(c, 0, 0)) }
		c.RunOnAll(fill)
		pools := func() (n []int) {
			for _, p := range snap(t, in).Pools {
				n = append(n, len(p.Pages))
			}
			return n
		}
		before := pools()
		err := in.(impls.Hotplugger).Offline(c, 1)
		if after := pools(); err != nil || !slices.Equal(before, []int{1, 1}) ||
			!slices.Equal(after, []int{1, 0}) {
			t.Errorf("%v: pools of %v, then of %v pages", err, before, after)
		}
	})
}

// TestOfflineOwn: the CPU that one is on cannot go, and keeps what it has.
func TestOfflineOwn(t *testing.T) {
	each(t, func(t *testing.T, name string) {
		one(t, name, machineOf(2, 16), func(c *machine.Ctx, in impls.Instance) {
			k, err := in.Objects().NewCache(c, specOf(2))
			if err != nil {
				t.Fatal(err)
			}
			a := k.Alloc(c, 0)
			if err := in.(impls.Hotplugger).Offline(c, 0); !errors.Is(err, impls.ErrInvalid) {
				t.Errorf("offline of the own CPU: %v", err)
			}
			if h := held(snap(t, in)); len(h) != 1 {
				t.Errorf("held %v", h)
			}
			k.Free(c, a)
		})
	})
}
