package machine_test

import (
	"sync/atomic"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

// read, unread and later are lines of the tests of read sections; later leaves its mark when
// it is called back.
func read(c *machine.Ctx)   { c.RCUReadLock() }
func unread(c *machine.Ctx) { c.RCUReadUnlock() }

func (w *world) later(s string) func(*machine.Ctx) {
	return func(c *machine.Ctx) { c.CallRCU(w.say(s)) }
}

// at adds a pinned task with lines at these places.
func (w *world) at(name string, cpu int, pos []int, fs ...func(*machine.Ctx)) {
	w.tasks[name] = w.m.AddTask(name, cpu, pos[0], true, func(c *machine.Ctx) {
		for i, f := range fs {
			c.BeginLine(pos[i], [2]int32{})
			f(c)
			next := machine.After
			if i+1 < len(pos) {
				next = pos[i+1]
			}
			c.EndLine(next)
		}
	})
}

var everyPreempt = []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT}

// TestGracePeriod: a callback waits for the sections that were open when it was handed over,
// and for no other; it comes as an interrupt of who ended the last. Without one it comes at
// once.
func TestGracePeriod(t *testing.T) {
	for _, p := range everyPreempt {
		w := newWorld(t, 3, p)
		w.at("r", 1, []int{10, 50, 60}, then(read, read), then(unread, w.say("nested")),
			then(unread, w.say("ended")))
		w.at("b", 0, []int{0, 20, 70, 80}, then(w.later("at-once"), w.say("line")),
			then(w.later("first"), w.later("second"), w.say("line")), w.later("third"),
			w.say("end"))
		w.at("late", 2, []int{30, 75}, read, unread)
		w.run("at-once0 line0 line0 nested1 first1! second1! ended1 third2! end0")
		wantFaults(t, w.m)
	}
}

// TestGracePeriodOfHandler: a section of a handler is the handler's, and ends with it at the
// latest, while that of the task that it interrupted stays open.
func TestGracePeriodOfHandler(t *testing.T) {
	w := newWorld(t, 2, machine.PreemptNone)
	w.task("t", 0, 0, then(read, barrier, w.later("task"), unread, w.say("unread")))
	w.irq("h", 0, 5, then(read, w.later("handler"), w.say("handled")))
	w.run("handled0! handler0! task0! unread0",
		dep{who: "t", kind: machine.KBarrier, field: "-", n: 1, act: w.deliver("h")})
	wantFaults(t, w.m)
	w = newWorld(t, 2, machine.PreemptNone)
	w.task("t", 0, 0, then(barrier, w.say("task")))
	w.irq("h", 0, 5, then(read, w.later("handler"), w.say("handled")))
	w.run("handled0! handler0! task0",
		dep{who: "t", kind: machine.KBarrier, field: "-", n: 1, act: w.deliver("h")})
	wantFaults(t, w.m)
}

// TestReaderLeaves: the machine ends a section that its task leaves open, at the end of the
// task or at a barrier, and the callbacks come before the barrier.
func TestReaderLeaves(t *testing.T) {
	for _, p := range everyPreempt {
		for _, cpus := range []int{1, 2} {
			w := newWorld(t, cpus, p)
			w.task("r", cpus-1, 0, read)
			w.task("b", 0, 1, w.later("back"), w.say("line"))
			w.run(map[int]string{1: "back0 line0", 2: "back0 line0"}[cpus]) // r is over by then
			wantFaults(t, w.m)

			w = newWorld(t, cpus, p)
			w.task("r", cpus-1, 0, read, w.later("back"), w.say("line"))
			w.run([]string{"", "line0 back0!", "line1 back0!"}[cpus])
			wantFaults(t, w.m)

			w = newWorld(t, cpus, p)
			reading := true
			w.at("r", cpus-1, []int{0, 10}, then(read, read, w.later("back")),
				func(c *machine.Ctx) { reading = c.Reading() })
			w.m.SetBarriers([]int{5}, func(int) { w.trail = append(w.trail, "check") })
			w.run("back0! check")
			if reading {
				t.Error("the section went on behind the barrier")
			}
			wantFaults(t, w.m)
		}
	}
}

// TestRCUBarrier: it waits for callbacks of before, while readers go on, on any CPU; not where
// it would wait for itself or may not sleep; and a barrier that keeps the reader does not keep
// it.
func TestRCUBarrier(t *testing.T) {
	for _, p := range everyPreempt {
		for _, cpus := range []int{1, 2} {
			w := newWorld(t, cpus, p)
			wait := func(c *machine.Ctx) {
				if !c.RCUBarrier() {
					t.Error("did not wait")
				}
			}
			reader := func() {
				w.at("r", cpus-1, []int{0, 10}, read, then(w.say("reader"),
					(*machine.Ctx).EndReading))
			}
			reader()
			w.task("b", 0, 1, then(w.later("back"), wait, w.say("waited")))
			w.run([]string{"", "reader0 back0! waited0", "reader1 back1! waited0"}[cpus])
			wantFaults(t, w.m)

			w = newWorld(t, cpus, p)
			reader()
			w.task("b", 0, 1, then(w.later("back"), wait, w.say("waited")))
			w.m.SetBarriers([]int{5}, func(int) { w.trail = append(w.trail, "check") })
			w.run("back0! waited0 check reader" + string(rune('0'+cpus-1)))
			wantFaults(t, w.m)

			w = newWorld(t, cpus, p)
			w.task("b", 0, 1, then(read, w.later("back"), func(c *machine.Ctx) {
				if c.RCUBarrier() || c.MayBlock() {
					t.Error("waited for itself")
				}
			}, unread, wait, w.say("line")))
			w.run("back0! line0")
			wantFaults(t, w.m)
		}
	}
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("b", 0, 0, then(read, w.later("back")), barrier)
	w.irq("h", 0, 1, func(c *machine.Ctx) {
		if c.RCUBarrier() {
			t.Error("a handler waited")
		}
	})
	w.run("back0!")
	wantFaults(t, w.m)
}

// TestReadFaults: what must not be done about a section is a finding.
func TestReadFaults(t *testing.T) {
	w := newWorld(t, 1, machine.PreemptNone)
	w.task("t", 0, 0, then(read, func(c *machine.Ctx) { c.AllocPages(0, true) }, unread, unread))
	w.run("")
	wantFaults(t, w.m, fault.Sleeping, fault.StateLeaked)
}

// TestNativeReaders: threads read what others hand over; a callback never comes while a
// reader of then goes on, all come in the end, and the race detector watches.
func TestNativeReaders(t *testing.T) {
	const rounds = 500
	m := nativeMachine(t, 4)
	// Each record is alive until its callback; readers look at the current one.
	type record struct{ dead, plain int }
	var now atomic.Pointer[record]
	now.Store(&record{})
	var handed, came atomic.Int64
	onCPUs(m, func(c *machine.Ctx) {
		for i := range rounds {
			if c.CPUID() < 2 {
				c.RCUReadLock()
				r := now.Load()
				for range 3 {
					if c.Poll(); r.dead != 0 {
						t.Error("a reader saw a record that is gone")
					}
				}
				c.RCUReadUnlock()
				continue
			}
			old := now.Swap(&record{})
			handed.Add(1)
			c.CallRCU(func(*machine.Ctx) { old.dead = 1; came.Add(1) })
			if i%50 == 0 && !c.RCUBarrier() {
				t.Error("did not wait")
			}
		}
	})
	if handed.Load() != came.Load() {
		t.Errorf("%d callbacks came, %d were handed over", came.Load(), handed.Load())
	}
}
