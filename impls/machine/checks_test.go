package machine_test

import (
	"slices"
	"strings"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// A check is a tiny program that must raise a title, and its twin that must not.
type check struct {
	title         fault.Title
	p             machine.Preempt
	trigger, twin func(r *racer) []dep
}

// onlyTask is a program of one task of one line.
func onlyTask(f func(r *racer) func(*machine.Ctx)) func(r *racer) []dep {
	return func(r *racer) []dep {
		r.task("a", 0, 0, f(r))
		return nil
	}
}

// mayBlock asks for a page and may sleep.
func mayBlock(c *machine.Ctx) { c.AllocPages(0, true) }

var (
	heldWord  machine.GuardedWord
	otherView = machine.PageField(word, machine.RegionLinks, machine.ViewList, 0)
	high, low machine.SpinLock
)

// crossed are two tasks that take two locks each, the second while the other waits.
func crossed(first, second *machine.SpinLock) func(r *racer) []dep {
	return func(r *racer) []dep {
		high.Init(lockA, 3)
		low.Init(lockB, 2)
		r.task("a", 0, 0, nest(&high, &low))
		r.task("b", 1, 1, nest(first, second))
		return []dep{{"a", machine.KLock, "test.lock_b", 1, r.to("b"), false}}
	}
}

// pageUnder frees a page while its lock is held, or behind it.
func pageUnder(held bool) func(r *racer) func(*machine.Ctx) {
	return func(r *racer) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			r.page.Lock.Lock(c)
			if held {
				c.FreePages(r.page)
			}
			r.page.Lock.Unlock(c)
			if !held {
				c.FreePages(r.page)
			}
		}
	}
}

// checks holds a row for every title that the machine raises.
var checks = []check{
	{title: fault.Unguarded,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) {
			heldWord.Init(held, r.lock.Guard(), 0)
			return then(nest(&r.lock), func(c *machine.Ctx) { heldWord.Load(c) })
		}),
		twin: onlyTask(func(r *racer) func(*machine.Ctx) {
			heldWord.Init(held, r.lock.Guard(), 0)
			return then(r.lock.Lock, func(c *machine.Ctx) { heldWord.Load(c) }, r.lock.Unlock)
		})},
	{title: fault.StaleView,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) {
			return func(c *machine.Ctx) { otherView.Load(c, r.page) }
		}),
		twin: onlyTask(func(r *racer) func(*machine.Ctx) {
			return func(c *machine.Ctx) { otherView.LoadStale(c, r.page) }
		})},
	{title: fault.ForeignPerCPU,
		trigger: func(r *racer) []dep {
			r.task("a", 1, 0, func(c *machine.Ctx) { r.mine.Store(c, 1) })
			return nil
		},
		twin: onlyTask(func(r *racer) func(*machine.Ctx) {
			return func(c *machine.Ctx) { r.mine.Store(c, 1) }
		})},
	{title: fault.DataRace,
		trigger: func(r *racer) []dep {
			r.task("a", 0, 0, func(c *machine.Ctx) { r.x.Add(c, 1) })
			r.irq("h", 0, 1, func(c *machine.Ctx) { r.x.Add(c, 1) })
			return nil
		},
		twin: func(r *racer) []dep {
			r.task("a", 0, 0, func(c *machine.Ctx) {
				flags := c.IRQSave()
				r.x.Add(c, 1)
				c.IRQRestore(flags)
			})
			r.irq("h", 0, 1, func(c *machine.Ctx) { r.x.Add(c, 1) })
			return nil
		}},
	{title: fault.LockOrder,
		trigger: func(r *racer) []dep {
			r.task("a", 0, 0, nest(locked(lockA, 2), locked(lockB, 1)))
			r.task("b", 1, 1, nest(locked(lockB, 2), locked(many[0], 1)))
			r.task("c", 2, 2, nest(locked(many[0], 2), locked(lockA, 1)))
			return nil
		},
		twin: func(r *racer) []dep {
			r.task("a", 0, 0, nest(locked(lockA, 2), locked(lockB, 1)))
			r.task("b", 1, 1, nest(locked(lockB, 2), locked(many[0], 1)))
			r.task("c", 2, 2, nest(locked(lockA, 2), locked(many[0], 1)))
			return nil
		}},
	{title: fault.LockIRQ,
		trigger: func(r *racer) []dep {
			r.task("a", 0, 0, nest(&r.lock))
			r.irq("h", 0, 1, nest(&r.lock))
			return nil
		},
		twin: func(r *racer) []dep {
			r.task("a", 0, 0, func(c *machine.Ctx) {
				r.lock.UnlockIRQRestore(c, r.lock.LockIRQSave(c))
			})
			r.irq("h", 0, 1, nest(&r.lock))
			return nil
		}},
	{title: fault.Sleeping,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) {
			return then(r.lock.Lock, mayBlock, r.lock.Unlock)
		}),
		twin: onlyTask(func(r *racer) func(*machine.Ctx) {
			return then(nest(&r.lock), mayBlock)
		})},
	{title: fault.CallIRQOff,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) {
			return then(r.lock.Lock, func(c *machine.Ctx) { c.CallOn(1, barrier) }, r.lock.Unlock)
		}),
		twin: onlyTask(func(r *racer) func(*machine.Ctx) {
			return then(nest(&r.lock), func(c *machine.Ctx) { c.CallOn(1, barrier) })
		})},
	{title: fault.WildAddress,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) {
			return func(c *machine.Ctx) { c.LoadMem(link, r.m.Base+r.m.Bytes()) }
		}),
		twin: onlyTask(func(r *racer) func(*machine.Ctx) {
			return func(c *machine.Ctx) { c.LoadMem(link, r.m.Base+r.m.Bytes()-8) }
		})},
	{title: fault.NoProgress,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) {
			return func(c *machine.Ctx) {
				for r.flag.Load(c) == 0 {
					c.Barrier()
				}
			}
		}),
		twin: func(r *racer) []dep {
			r.task("a", 0, 0, func(c *machine.Ctx) {
				for r.flag.Load(c) == 0 {
					c.Barrier()
				}
			})
			r.task("b", 1, 1, r.set)
			return []dep{{"a", machine.KBarrier, "-", 1, r.to("b"), false}}
		}},
	{title: fault.Deadlock, trigger: crossed(&low, &high), twin: crossed(&high, &low)},
	{title: fault.StateLeaked,
		trigger: onlyTask(func(r *racer) func(*machine.Ctx) { return r.lock.Lock }),
		twin:    onlyTask(func(r *racer) func(*machine.Ctx) { return nest(&r.lock) })},
	{title: fault.PageLocked, trigger: onlyTask(pageUnder(true)),
		twin: onlyTask(pageUnder(false))},
}

// TestChecks: each title is raised by its program and not by the twin; and every title that
// is the machine's has a row.
func TestChecks(t *testing.T) {
	rows := map[fault.Title]bool{}
	for _, k := range checks {
		rows[k.title] = true
		t.Run(string(k.title), func(t *testing.T) {
			for i, set := range []func(*racer) []dep{k.trigger, k.twin} {
				r := newRacer(t, k.p)
				s := newScript(t, set(r)...)
				run(t, r.m, s)
				s.done()
				found := false
				for _, title := range titles(r.m) {
					found = found || title == k.title
				}
				if found != (i == 0) || i == 1 && len(r.m.Faults()) > 0 {
					t.Errorf("program %d: faults %v", i, r.m.Faults())
				}
			}
		})
	}
	for _, e := range fault.Titles() {
		if e.Rule == fault.Step && !rows[e.Title] {
			t.Errorf("no program for %q", e.Title)
		}
	}
}

// detail is the text of the first fault of a title.
func detail(m *machine.Machine, title fault.Title) string {
	for _, f := range m.Faults() {
		if f.Title == title {
			return f.Detail
		}
	}
	return ""
}

// TestLockCircle: a circle of any length is found at the lock that closes it, and told once.
// Local locks are a part of it on a real-time machine, and locks of one class have the order
// of their ranks.
func TestLockCircle(t *testing.T) {
	var la, lb machine.LocalLock
	local := func(l *machine.LocalLock, f func(*machine.Ctx)) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			flags := l.Lock(c)
			f(c)
			l.Unlock(c, flags)
		}
	}
	pair := func(i, j int) func(*machine.Ctx) {
		return nest(locked(many[i], 2), locked(many[j], 1))
	}
	for _, k := range []struct {
		name  string
		lines []func(*machine.Ctx)
		want  string
	}{
		{"of three", []func(*machine.Ctx){pair(0, 1), pair(1, 2), pair(2, 0), pair(2, 0)},
			"each of these is held while the next is taken: many.lock0, many.lock1, many.lock2, " +
				"many.lock0"},
		{"of four at once", []func(*machine.Ctx){pair(2, 3), pair(0, 1), pair(3, 0), pair(1, 2)},
			"each of these is held while the next is taken: many.lock2, many.lock3, many.lock0, " +
				"many.lock1, many.lock2"},
		{"through a third", []func(*machine.Ctx){
			nest(locked(many[0], 3), locked(many[1], 2), locked(many[2], 1)), pair(2, 0)},
			"many.lock2 and many.lock0 are taken in both orders"},
		{"none", []func(*machine.Ctx){pair(0, 1), pair(1, 2), pair(0, 2), pair(3, 2)}, ""},
		{"one class by rank", []func(*machine.Ctx){pair(0, 0)}, ""},
		{"local locks", []func(*machine.Ctx){local(&la, local(&lb, barrier)),
			local(&lb, local(&la, barrier))},
			"test.lock_b and test.lock_a are taken in both orders"},
		{"local locks in one order", []func(*machine.Ctx){local(&la, local(&lb, barrier)),
			local(&la, local(&lb, barrier))}, ""},
		{"a spin lock inside a local lock", []func(*machine.Ctx){local(&la, pair(0, 1)),
			pair(1, 2), nest(locked(many[2], 1))}, ""},
		{"a spin lock of its class", []func(*machine.Ctx){
			local(&la, nest(locked(many[0], 1))), nest(locked(many[0], 2), locked(lockA, 1))},
			"many.lock0 and test.lock_a are taken in both orders"},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptRT)
			la.Init(lockA, w.m.CPU(0))
			lb.Init(lockB, w.m.CPU(0))
			w.task("a", 0, 0, k.lines...)
			w.run("")
			if k.want == "" {
				wantFaults(t, w.m)
				return
			}
			wantFaults(t, w.m, fault.LockOrder)
			if got := got0(w.m); got != k.want {
				t.Errorf("%s\nwant %s", got, k.want)
			}
		})
	}
}

// TestLockIRQOver: a lock that interrupts take must not be held when one is taken that is
// taken with interrupts on, whichever of all this comes last, and however many are between.
func TestLockIRQOver(t *testing.T) {
	off := func(f func(*machine.Ctx)) func(*machine.Ctx) {
		return func(c *machine.Ctx) {
			flags := c.IRQSave()
			f(c)
			c.IRQRestore(flags)
		}
	}
	pair := func(i, j int) func(*machine.Ctx) {
		return off(nest(locked(many[i], 2), locked(many[j], 1)))
	}
	on, handler := nest(locked(many[2], 1)), nest(locked(many[0], 1))
	for _, k := range []struct {
		name     string
		lines    []func(*machine.Ctx)
		irq      func(*machine.Ctx)
		from, to string
	}{
		{"all", []func(*machine.Ctx){pair(0, 2), on, pair(3, 4)}, handler, "many.lock0",
			"many.lock2"},
		{"all, used first", []func(*machine.Ctx){on, pair(0, 2)}, handler, "many.lock0",
			"many.lock2"},
		{"with one between", []func(*machine.Ctx){pair(1, 2), pair(0, 1), on}, handler,
			"many.lock0, then many.lock1", "many.lock2"},
		{"only tried in interrupts", []func(*machine.Ctx){pair(0, 2), on}, func(c *machine.Ctx) {
			l := locked(many[0], 1)
			l.TryLock(c)
			l.Unlock(c)
		}, "", ""},
		{"the other way round", []func(*machine.Ctx){pair(2, 0), on}, handler, "", ""},
		{"never on", []func(*machine.Ctx){pair(0, 2), off(on)}, handler, "", ""},
		{"never in interrupts", []func(*machine.Ctx){pair(0, 2), on}, barrier, "", ""},
	} {
		for at := range 3 {
			t.Run(k.name, func(t *testing.T) {
				w := newWorld(t, 1, machine.PreemptNone)
				w.task("a", 0, 1, append(k.lines, barrier)...)
				w.irq("h", 0, at*2, k.irq)
				w.run("")
				if k.from == "" {
					wantFaults(t, w.m)
					return
				}
				wantFaults(t, w.m, fault.LockIRQ)
				want := k.to + " is taken with interrupts on, and with many.lock0 held, which " +
					"interrupts take (" + k.from + ", then " + k.to + ")"
				if got := got0(w.m); got != want {
					t.Errorf("%s\nwant %s", got, want)
				}
			})
		}
	}
}

// TestSleepingPlaces: whatever may sleep is a finding with a spin lock held, though nothing has
// to be waited for.
func TestSleepingPlaces(t *testing.T) {
	var l machine.SpinLock
	var local machine.LocalLock
	for _, k := range []struct {
		name string
		do   func(*machine.Ctx)
		want fault.Title
	}{
		{"pages", mayBlock, fault.Sleeping},
		{"pages that do not block", func(c *machine.Ctx) { c.AllocPages(0, false) }, ""},
		{"a call", func(c *machine.Ctx) { c.CallOn(1, barrier) }, fault.CallIRQOff},
		{"work", func(c *machine.Ctx) { c.RunOn(1, barrier) }, fault.CallIRQOff},
		{"a local lock", func(c *machine.Ctx) { local.Unlock(c, local.Lock(c)) }, fault.Sleeping},
		{"a wait for readers", func(c *machine.Ctx) { c.RCUBarrier() }, fault.Sleeping},
		{"a callback", func(c *machine.Ctx) { c.CallRCU(barrier) }, ""},
		{"a name", func(c *machine.Ctx) { c.Wait(&binding{}) }, fault.Sleeping},
		{"a name that is bound", func(c *machine.Ctx) { c.Wait(&binding{true}) }, ""},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 2, machine.PreemptRT)
			l.Init(lockA, 1)
			local.Init(lockB, w.m.CPU(0))
			w.task("a", 0, 0, then(l.Lock, k.do, l.Unlock), k.do)
			w.run("")
			if k.want == "" {
				wantFaults(t, w.m)
				return
			}
			wantFaults(t, w.m, k.want)
			if got := got0(w.m); !strings.HasSuffix(got, "a spin lock held") &&
				!strings.HasSuffix(got, "preemption disabled") {
				t.Error(got)
			}
		})
	}
}

// TestDeadlockText: who waits for what, who has it since where, and the circle.
func TestDeadlockText(t *testing.T) {
	var a, b machine.SpinLock
	var x binding
	for _, k := range []struct {
		name string
		p    machine.Preempt
		set  func(w *world) []dep
		want string
	}{
		{"two tasks and their neighbours", 0, func(w *world) []dep {
			w.task("t", 0, 0, then(a.Lock, b.Lock))
			w.task("u", 1, 3, then(b.Lock, a.Lock))
			w.task("v", 2, 4, then(func(c *machine.Ctx) { c.CallOn(1, barrier) }))
			w.task("n", 2, 5, func(c *machine.Ctx) { c.Wait(&x) })
			return []dep{{"t", machine.KLock, "test.lock_b", 1, w.to("u"), false},
				{"u", machine.KLock, "test.lock_a", 1, w.to("t"), false}}
		}, "t waits for test.lock_b, which u took in line 3 on CPU 1; " +
			"u waits for test.lock_a, which t took in line 0 on CPU 0; a circle of t, u"},
		{"handlers", 0, func(w *world) []dep {
			w.irq("h", 0, 0, then(a.Lock, b.Lock))
			w.irq("i", 1, 1, then(b.Lock, a.Lock))
			return []dep{{"h", machine.KLock, "test.lock_b", 1, w.deliver("i"), false}}
		}, "h waits for test.lock_b, which i took in line 1 on CPU 1; " +
			"i waits for test.lock_a, which h took in line 0 on CPU 0; a circle of h, i"},
		{"a CPU with interrupts off", 0, func(w *world) []dep {
			w.task("t", 0, 0, func(c *machine.Ctx) {
				c.IRQSave()
				a.Lock(c)
				b.Lock(c)
			})
			w.task("u", 1, 1, then(b.Lock, func(c *machine.Ctx) { c.CallOn(0, barrier) }))
			return []dep{{"t", machine.KLock, "test.lock_b", 1, w.to("u"), false}}
		}, "t waits for test.lock_b, which u took in line 1 on CPU 1; u waits for a call on " +
			"CPU 0, where t has it with interrupts off in line 0 on CPU 0; a circle of t, u"},
	} {
		t.Run(k.name, func(t *testing.T) {
			w := newWorld(t, 3, k.p)
			a.Init(lockA, 1)
			b.Init(lockB, 1)
			w.m.Sim().NameLines(func(pos int) string { return "line " + string(rune('0'+pos)) })
			s := newScript(t, k.set(w)...)
			run(t, w.m, s)
			s.done()
			if got := detail(w.m, fault.Deadlock); got != k.want {
				t.Errorf("%s\nwant %s", got, k.want)
			}
		})
	}
}

// TestLivelockText: what goes round is named with how often, and what came once is not.
func TestLivelockText(t *testing.T) {
	r := newRacer(t, machine.PreemptNone)
	r.task("a", 0, 0, func(c *machine.Ctx) {
		r.lock.Lock(c)
		r.lock.Unlock(c)
		for !r.flag.Cmpxchg(c, 1, 2) {
			r.flag.Load(c)
			r.stale.Load(c)
		}
	})
	run(t, r.m, nil)
	got := strings.Split(strings.TrimPrefix(detail(r.m, fault.NoProgress),
		"5000 points without an end: "), ", ")
	slices.Sort(got)
	want := []string{"1666 times cmpxchg test.word", "1666 times load test.link",
		"1666 times load test.word"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
