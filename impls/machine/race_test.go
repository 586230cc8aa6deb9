package machine_test

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

var plain = machine.Plain("test", "plain")

// A racer is what the programs about data races share.
type racer struct {
	*world
	x         machine.PlainWord
	flag      machine.Word // atomic
	stale     machine.Word // racy
	mine      machine.Word // per-CPU, of CPU 0
	lock      machine.SpinLock
	local     machine.LocalLock // of CPU 0
	page      *machine.Page
	pageFlag  *machine.PageWord
	pageStale *machine.PageWord
}

var (
	pageAtomic = machine.PageField(machine.Atomic("test", "page_flag"), machine.RegionBody,
		machine.ViewSlab, 0)
	pageRacy = machine.PageField(machine.Racy("test", "page_stale", "test"), machine.RegionBody,
		machine.ViewSlab, 1)
)

func newRacer(t *testing.T, p machine.Preempt) *racer {
	r := &racer{world: newWorld(t, 3, p)}
	r.x.Init(r.m, plain, 0)
	r.flag.Init(word, 0, 0)
	r.stale.Init(link, 0, 0)
	r.mine.Init(own, 0, 0)
	r.lock.Init(lockA, 1)
	r.local.Init(lockB, r.m.CPU(0))
	r.page, r.pageFlag, r.pageStale = r.m.PageAt(1), pageAtomic, pageRacy
	r.page.SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
	return r
}

// Lines of the programs.
func (r *racer) write(c *machine.Ctx)   { r.x.Store(c, 1) }
func (r *racer) read(c *machine.Ctx)    { r.x.Load(c) }
func (r *racer) set(c *machine.Ctx)     { r.flag.StoreRelease(c, 1) }
func (r *racer) see(c *machine.Ctx)     { r.flag.LoadAcquire(c) }
func (r *racer) section(c *machine.Ctx) { c.IRQRestore(c.IRQSave()) }

func (r *racer) irqsOff(c *machine.Ctx) {
	flags := c.IRQSave()
	r.write(c)
	c.IRQRestore(flags)
}

func (r *racer) pinned(c *machine.Ctx) {
	c.PreemptDisable()
	r.write(c)
	c.PreemptEnable()
}

func (r *racer) locked(c *machine.Ctx) {
	r.lock.Lock(c)
	r.write(c)
	r.lock.Unlock(c)
}

func (r *racer) localLocked(c *machine.Ctx) {
	flags := r.local.Lock(c)
	r.write(c)
	r.local.Unlock(c, flags)
}

// raceCases are programs that run in line order, so that no two accesses meet: what races
// does so by what orders them, not by when they came. Each that races has a twin beside it
// which does not.
var raceCases = []struct {
	name  string
	p     machine.Preempt
	set   func(r *racer)
	races bool
}{
	{"two CPUs", 0, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.task("b", 1, 1, r.write)
	}, true},
	{"two CPUs, one reads", 0, func(r *racer) {
		r.task("a", 0, 0, r.read)
		r.task("b", 1, 1, r.write)
	}, true},
	{"two CPUs, one reads again", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.read))
		r.task("b", 1, 1, r.read)
	}, true},
	{"two CPUs, both read", 0, func(r *racer) {
		r.task("a", 0, 0, r.read)
		r.task("b", 1, 1, r.read)
	}, false},
	{"two CPUs, one with the lock", 0, func(r *racer) {
		r.task("a", 0, 0, r.locked)
		r.task("b", 1, 1, r.write)
	}, true},
	{"two CPUs with the lock", 0, func(r *racer) {
		r.task("a", 0, 0, r.locked)
		r.task("b", 1, 1, r.locked)
	}, false},
	{"behind the lock", 0, func(r *racer) {
		r.task("a", 0, 0, then(nest(&r.lock), r.write))
		r.task("b", 1, 1, r.locked)
	}, true},
	{"interrupts off on two CPUs", 0, func(r *racer) {
		r.task("a", 0, 0, r.irqsOff)
		r.task("b", 1, 1, r.irqsOff)
	}, true},
	{"handed on by an atomic word", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.set))
		r.task("b", 1, 1, then(r.see, r.write))
	}, false},
	{"handed on too early", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, then(r.set, r.write))
		r.task("b", 1, 1, then(r.see, r.write))
	}, true},
	{"handed on and written again", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.set, r.write))
		r.task("b", 1, 1, then(r.see, r.write))
	}, true},
	{"handed on by somebody else", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.set))
		r.task("c", 2, 1, r.set)
		r.task("b", 1, 2, then(r.see, r.write))
	}, true},
	{"handed on by a racy word", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.stale.Store(c, 1) }))
		r.task("b", 1, 1, then(func(c *machine.Ctx) { r.stale.Load(c) }, r.write))
	}, true},
	{"handed on by an exchange", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.flag.Cmpxchg(c, 0, 1) }))
		r.task("b", 1, 1, then(func(c *machine.Ctx) { r.flag.Cmpxchg(c, 0, 2) }, r.write))
	}, false},
	{"handed on by an exchange that failed", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.flag.Cmpxchg(c, 5, 1) }))
		r.task("b", 1, 1, then(r.see, r.write))
	}, true},
	{"handed on by an exchange for one CPU", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.flag.CmpxchgLocal(c, 0, 1) }))
		r.task("b", 1, 1, then(r.see, r.write))
	}, true},
	{"handed on along exchanges", 0, func(r *racer) {
		add := func(c *machine.Ctx) { r.flag.Add(c, 1) }
		r.task("a", 0, 0, then(r.write, add))
		r.task("c", 2, 1, add)
		r.task("b", 1, 2, then(r.see, r.write))
	}, false},
	{"handed on by a word of one CPU", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.mine.Store(c, 1) }))
		r.task("b", 1, 1, then(func(c *machine.Ctx) { r.mine.Load(c) }, r.write))
	}, true},
	{"handed on by a word of one CPU on it", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.mine.Store(c, 1) }))
		r.task("b", 0, 1, then(func(c *machine.Ctx) { r.mine.Load(c) }, r.write))
	}, false},
	{"handed on by a page", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.pageFlag.Store(c, r.page, 1) }))
		r.task("b", 1, 1, then(func(c *machine.Ctx) { r.pageFlag.Load(c, r.page) }, r.write))
	}, false},
	{"handed on by an exchange in a page", 0, func(r *racer) {
		swap := func(c *machine.Ctx) { r.pageFlag.Cmpxchg(c, r.page, 0, 1) }
		r.task("a", 0, 0, then(r.write, swap))
		r.task("b", 1, 1, then(swap, r.write))
	}, false},
	{"handed on by a racy word of a page", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { r.pageStale.Store(c, r.page, 1) }))
		r.task("b", 1, 1, then(func(c *machine.Ctx) { r.pageStale.Load(c, r.page) }, r.write))
	}, true},
	{"handed on in memory", 0, func(r *racer) {
		at := r.m.Base
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { c.StoreMem(word, at, 1) }))
		r.task("b", 1, 1, then(func(c *machine.Ctx) { c.LoadMem(word, at) }, r.write))
	}, false},
	{"handed on by a name", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.flag.Meet))
		r.task("b", 1, 1, then(r.flag.Meet, r.write))
	}, false},
	{"on both sides of a check", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.m.SetBarriers([]int{1}, nil)
		r.task("b", 1, 2, r.write)
	}, false},
	{"on both sides of a check, in the middle", machine.PreemptFull, func(r *racer) {
		r.at("b", 1, []int{1, 4}, barrier, r.write)
		r.at("a", 0, []int{0, 2}, barrier, r.write)
		r.m.SetBarriers([]int{3}, nil)
	}, false},
	{"behind a check", machine.PreemptFull, func(r *racer) {
		r.at("b", 1, []int{1, 4}, barrier, r.write)
		r.at("a", 0, []int{0, 5}, barrier, r.write)
		r.m.SetBarriers([]int{3}, nil)
	}, true},

	{"a handler long after", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.section), r.section)
		r.irq("h", 0, 5, r.write)
	}, true},
	{"a handler long before", 0, func(r *racer) {
		r.irq("h", 0, 0, r.write)
		r.task("a", 0, 1, then(r.section, r.write))
	}, true},
	{"a handler with interrupts off", 0, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.irq("h", 0, 5, r.irqsOff)
	}, true},
	{"a task with interrupts off", 0, func(r *racer) {
		r.task("a", 0, 0, r.irqsOff)
		r.irq("h", 0, 5, r.write)
	}, false},
	{"a task with preemption disabled", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.pinned)
		r.irq("h", 0, 5, r.write)
	}, true},
	{"a handler of another CPU", 0, func(r *racer) {
		r.task("a", 0, 0, r.irqsOff)
		r.irq("h", 1, 5, r.write)
	}, true},
	{"a handler that is told", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.set))
		r.irq("h", 0, 5, then(r.see, r.write))
	}, false},
	{"two handlers", 0, func(r *racer) { r.irq("h", 0, 0, r.write); r.irq("i", 0, 1, r.write) },
		true},
	{"two handlers with interrupts off", 0, func(r *racer) {
		r.irq("h", 0, 0, r.irqsOff)
		r.irq("i", 0, 1, r.irqsOff)
	}, false},
	{"from section to handler to another CPU", 0, func(r *racer) {
		r.task("a", 0, 0, r.irqsOff)
		r.irq("h", 0, 1, r.set)
		r.task("b", 1, 2, then(r.see, r.write))
	}, false},
	{"from section to section to another CPU", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.irqsOff)
		r.task("c", 0, 1, func(c *machine.Ctx) {
			flags := c.IRQSave()
			r.set(c)
			c.IRQRestore(flags)
		})
		r.task("b", 1, 2, then(r.see, r.write))
	}, false},
	{"from no section to section to another CPU", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, then(r.section, r.write))
		r.task("c", 0, 1, func(c *machine.Ctx) {
			flags := c.IRQSave()
			r.set(c)
			c.IRQRestore(flags)
		})
		r.task("b", 1, 2, then(r.see, r.write))
	}, true},

	{"tasks of a CPU", machine.PreemptNone, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.task("b", 0, 1, r.write)
	}, false},
	{"tasks of a CPU that are preempted", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.task("b", 0, 1, r.write)
	}, true},
	{"tasks of a CPU, one preempted", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, then(r.write, r.pinned))
		r.task("b", 0, 1, r.pinned)
	}, true},
	{"tasks of a CPU, neither preempted", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.pinned)
		r.task("b", 0, 1, r.pinned)
	}, false},
	{"tasks of two CPUs, neither preempted", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.pinned)
		r.task("b", 1, 1, r.pinned)
	}, true},
	{"from task to task to another CPU", machine.PreemptNone, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.task("c", 0, 1, r.set)
		r.task("b", 1, 2, then(r.see, r.write))
	}, false},
	{"from a task's past to another CPU", machine.PreemptNone, func(r *racer) {
		r.at("a", 0, []int{0, 2}, barrier, r.write)
		r.at("c", 0, []int{1}, r.set)
		r.at("b", 1, []int{3}, then(r.see, r.write))
	}, true},
	{"from a handler's end to another CPU", 0, func(r *racer) {
		r.m.AddHandler(&machine.Handler{Name: "h", Body: r.write})
		r.task("a", 0, 1, func(c *machine.Ctx) {
			flags := c.IRQSave()
			r.set(c)
			c.IRQRestore(flags)
		})
		r.task("b", 1, 2, then(r.see, r.write))
	}, false},
	{"from task to task that preempts to another CPU", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.task("c", 0, 1, r.set)
		r.task("b", 1, 2, then(r.see, r.write))
	}, true},

	{"a handler's task", machine.PreemptRT, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.irq("h", 0, 5, r.pinned)
	}, true},
	{"a handler's task is not preempted", machine.PreemptRT, func(r *racer) {
		r.task("a", 0, 0, r.pinned)
		r.irq("h", 0, 5, r.write)
	}, false},
	{"the local lock", machine.PreemptRT, func(r *racer) {
		r.task("a", 0, 0, r.localLocked)
		r.irq("h", 0, 5, r.localLocked)
	}, false},
	{"the local lock as interrupts off", machine.PreemptFull, func(r *racer) {
		r.task("a", 0, 0, r.localLocked)
		r.irq("h", 0, 5, r.localLocked)
	}, false},
	{"the local lock in one", machine.PreemptRT, func(r *racer) {
		r.task("a", 0, 0, r.write)
		r.irq("h", 0, 5, r.localLocked)
	}, true},

	{"a call and its caller", 0, func(r *racer) {
		r.task("a", 0, 0, func(c *machine.Ctx) {
			r.write(c)
			c.CallOn(1, r.write)
			r.write(c)
		})
	}, false},
	{"a call and who has its CPU", 0, func(r *racer) {
		r.task("b", 1, 0, r.write)
		r.task("a", 0, 1, func(c *machine.Ctx) { c.CallOn(1, r.write) })
	}, true},
	{"a call and interrupts off on its CPU", 0, func(r *racer) {
		r.task("b", 1, 0, r.irqsOff)
		r.task("a", 0, 1, func(c *machine.Ctx) { c.CallOn(1, r.write) })
	}, false},
	{"behind a call", 0, func(r *racer) {
		r.task("a", 0, 0, func(c *machine.Ctx) { c.CallOn(1, r.write) })
		r.task("b", 1, 1, func(c *machine.Ctx) {
			flags := c.IRQSave()
			r.set(c)
			c.IRQRestore(flags)
		})
		r.task("d", 2, 2, then(r.see, r.write))
	}, false},

	{"a reader", 0, func(r *racer) {
		r.at("r", 1, []int{0, 2}, then(read, r.read), unread)
		r.at("a", 0, []int{1, 3}, r.write, barrier)
	}, true},
	{"a reader that is waited for", 0, func(r *racer) {
		r.at("r", 1, []int{0, 2}, then(read, r.read), unread)
		r.at("a", 0, []int{1, 3}, func(c *machine.Ctx) { c.CallRCU(r.write) }, barrier)
	}, false},
	{"two readers that are waited for", 0, func(r *racer) {
		r.at("r", 1, []int{0, 3}, then(read, r.read), unread)
		r.at("s", 2, []int{1, 4}, then(read, r.read), unread)
		r.at("a", 0, []int{2, 5}, func(c *machine.Ctx) { c.CallRCU(r.write) }, barrier)
	}, false},
	{"who asked a reader to call", 0, func(r *racer) {
		r.at("r", 1, []int{0, 2}, read, unread)
		r.at("a", 0, []int{1, 3}, then(r.write, func(c *machine.Ctx) { c.CallRCU(r.write) }),
			barrier)
	}, false},
	{"a reader that begins later", 0, func(r *racer) {
		r.task("a", 0, 0, then(r.write, func(c *machine.Ctx) { c.CallRCU(barrier) }))
		r.task("r", 1, 1, then(read, r.read, unread))
	}, false},
	{"who waited for callbacks", 0, func(r *racer) {
		r.task("a", 0, 0, func(c *machine.Ctx) { c.CallRCU(r.write) })
		r.task("b", 1, 1, func(c *machine.Ctx) { c.RCUBarrier(); r.write(c) })
	}, false},
}

// TestDataRace: two accesses that nothing orders are found, in line order too.
func TestDataRace(t *testing.T) {
	for _, k := range raceCases {
		t.Run(k.name, func(t *testing.T) {
			r := newRacer(t, k.p)
			for range 2 { // and the next run knows nothing of this one
				k.set(r)
				r.run("")
				if k.races {
					wantFaults(t, r.m, fault.DataRace)
				} else {
					wantFaults(t, r.m)
				}
				r.m.Reset()
				r.x.Init(r.m, plain, 0)
				r.page.SetView(machine.RegionBody, machine.ViewSlab, machine.Guard{})
				r.flag.Poke(0)
			}
		})
	}
}

// TestDataRaceText: both accesses are named, with who, where and how; once a word.
func TestDataRaceText(t *testing.T) {
	r := newRacer(t, machine.PreemptNone)
	r.task("a", 0, 0, r.read, r.read)
	r.irq("h", 0, 5, r.write, r.irqsOff)
	r.m.Sim().NameLines(func(pos int) string { return "line " + string(rune('A'+pos)) })
	r.run("")
	wantFaults(t, r.m, fault.DataRace)
	want := "test.plain: read by a (line B, CPU 0, with interrupts on), then written by h " +
		"(line F, CPU 0, in an interrupt), and nothing orders them"
	if got := got0(r.m); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestSameHandler: a handler does not interrupt itself.
func TestSameHandler(t *testing.T) {
	r := newRacer(t, machine.PreemptNone)
	r.irq("h", 0, 0, r.write)
	r.task("a", 0, 1, barrier)
	r.run("", dep{"a", machine.KBarrier, "-", 1, r.deliver("h"), false})
	wantFaults(t, r.m)
	if n := r.irqs["h"].Delivered(); n != 2 {
		t.Errorf("%d deliveries", n)
	}
}

// TestMovedTask: a task is in order with itself wherever it is.
func TestMovedTask(t *testing.T) {
	r := newRacer(t, machine.PreemptFull)
	r.free("a", 0, 0, then(r.write, barrier, r.write))
	r.run("", dep{"a", machine.KBarrier, "-", 1, move(1), false})
	wantFaults(t, r.m)
}

// TestPlainAdd: adding is a load and a store, and what comes between is lost.
func TestPlainAdd(t *testing.T) {
	r := newRacer(t, machine.PreemptNone)
	r.task("a", 0, 0, func(c *machine.Ctx) { r.x.Add(c, 1) })
	r.irq("h", 0, 5, func(c *machine.Ctx) { r.x.Add(c, 1) })
	r.run("", dep{"a", machine.KStore, "test.plain", 1, r.deliver("h"), false})
	wantFaults(t, r.m, fault.DataRace)
	if r.x.Peek() != 1 {
		t.Errorf("%d, want one addition lost", r.x.Peek())
	}
}

// TestPlainMisuse: a plain word is of a plain field, no other word is, and it must be made for
// the run.
func TestPlainMisuse(t *testing.T) {
	m := machine.New(config(1, machine.PreemptNone))
	defer m.Close()
	var x machine.PlainWord
	var w machine.Word
	wantPanic(t, func() { x.Init(m, word, 0) })
	wantPanic(t, func() { w.Init(plain, 0, 0) })
	wantPanic(t, func() { machine.PageField(plain, machine.RegionBody, machine.ViewSlab, 0) })
	x.Init(m, plain, 0)
	m.Reset()
	m.AddTask("a", 0, 0, true, lines(0, 1, func(c *machine.Ctx) { x.Load(c) }))
	err := m.Sim().Run(nil)
	if err == nil || !strings.HasPrefix(err.Error(), "allocfuzz: test.plain is used and was not") {
		t.Errorf("error %v", err)
	}
}

// TestPlainNative: natively a plain word is a variable. Goroutines that a lock orders may share
// it, which the race detector confirms.
func TestPlainNative(t *testing.T) {
	cfg := config(2, machine.PreemptNone)
	cfg.Native = true
	m := machine.New(cfg)
	defer m.Close()
	var x machine.PlainWord
	var l machine.SpinLock
	x.Init(m, plain, 7)
	l.Init(lockA, 1)
	var wg sync.WaitGroup
	for cpu := range 2 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			c := m.NativeCtx(cpu, "a")
			defer c.Release()
			for range 100 {
				l.Lock(c)
				x.Store(c, x.Load(c)+1)
				x.Add(c, 1)
				l.Unlock(c)
			}
		}()
	}
	wg.Wait()
	if x.Peek() != 407 {
		t.Errorf("%d, want 407", x.Peek())
	}
}

// seen is a Watcher that keeps the kinds of accesses.
type seen struct{ kinds []machine.AccessKind }

func (s *seen) Choose(*machine.Ctx, machine.Point) machine.Action { return machine.Action{} }
func (s *seen) Touch(_ *machine.Ctx, a machine.Access) {
	s.kinds = append(s.kinds, a.Kind)
}
func (s *seen) Begin(*machine.Ctx) {}

// TestPlainWatched: an explorer is told of both halves of an addition.
func TestPlainWatched(t *testing.T) {
	r := newRacer(t, machine.PreemptNone)
	r.task("a", 0, 0, func(c *machine.Ctx) { r.x.Add(c, 1) })
	s := &seen{}
	run(t, r.m, s)
	if !slices.Equal(s.kinds, []machine.AccessKind{machine.Reads, machine.Writes}) {
		t.Errorf("told of %v", s.kinds)
	}
}

// TestPlainHeld: a plain store is one that a store buffer can hold: its CPU reads it there, and
// others find it in memory when it is drained. To be late is no order.
func TestPlainHeld(t *testing.T) {
	w := newBuffered(t, 2, machine.PreemptNone)
	var x machine.PlainWord
	x.Init(w.m, plain, 0)
	var here, there uint64
	w.task("a", 0, 0, func(c *machine.Ctx) { x.Store(c, 1); here = x.Load(c) })
	w.task("b", 1, 1, func(c *machine.Ctx) { there = x.Load(c) })
	w.run("", dep{"a", machine.KStore, "test.plain", 1, hold, false},
		dep{"a", machine.KLoad, "test.plain", 1, w.to("b"), false})
	wantFaults(t, w.m, fault.DataRace)
	if here != 1 || there != 0 || x.Peek() != 1 {
		t.Errorf("read %d here and %d there, and it holds %d", here, there, x.Peek())
	}
}

// TestHeldTells: a store of an atomic word that is held back tells nothing before it is made, and
// takes nothing away from what an earlier one told.
func TestHeldTells(t *testing.T) {
	name := word.Name()
	for _, k := range []struct {
		name  string
		holds string // who holds its store of the flag
		want  uint64 // what c sees of it
		races bool
	}{{"the news of another", "b", 1, false}, {"its own news", "a", 0, true}} {
		t.Run(k.name, func(t *testing.T) {
			w := newBuffered(t, 3, machine.PreemptNone)
			var x machine.PlainWord
			var flag machine.Word
			x.Init(w.m, plain, 0)
			flag.Init(word, 0, 0)
			saw := uint64(99)
			w.task("a", 0, 0, func(c *machine.Ctx) { x.Store(c, 1); flag.Store(c, 1) })
			if k.holds == "b" {
				w.task("b", 1, 1, func(c *machine.Ctx) { flag.Store(c, 2) })
			}
			w.task("c", 2, 2, func(c *machine.Ctx) { saw = flag.Load(c); x.Load(c) })
			w.run("", dep{k.holds, machine.KStore, name, 1, hold, false})
			if saw != k.want {
				t.Fatalf("c sees %d of the flag, want %d", saw, k.want)
			}
			if k.races {
				wantFaults(t, w.m, fault.DataRace)
			} else {
				wantFaults(t, w.m)
			}
		})
	}
}
