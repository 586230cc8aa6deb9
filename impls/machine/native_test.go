package machine_test

import (
	"sync"
	"testing"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
)

func nativeMachine(t *testing.T, cpus int) *machine.Machine {
	t.Helper()
	cfg := config(cpus, machine.PreemptNone)
	cfg.Native = true
	return machine.New(cfg)
}

// onCPUs runs f on every CPU of a native machine at once.
func onCPUs(m *machine.Machine, f func(c *machine.Ctx)) {
	var g sync.WaitGroup
	for i := range m.CPUs {
		g.Add(1)
		go func() {
			defer g.Done()
			c := m.NativeCtx(i, "cpu")
			defer c.Release()
			f(c)
		}()
	}
	g.Wait()
}

// TestNativeShared: locks exclude, atomics count, memory is whole words; the race
// detector watches.
func TestNativeShared(t *testing.T) {
	const rounds = 2000
	m := nativeMachine(t, 4)
	l := locked(lockA, 1)
	var g machine.GuardedWord
	g.Init(held, l.Guard(), 0)
	var sum, swapped machine.Word
	sum.Init(word, -1, 0)
	swapped.Init(word, -1, 0)
	plain := 0
	p := m.PageAt(0)
	p.SetView(machine.RegionBody, machine.ViewSlab, l.Guard())
	m.SetPageLayer(noPages{})
	onCPUs(m, func(c *machine.Ctx) {
		a := m.Base + uint64(c.CPUID())*8
		for i := range rounds {
			c.BeginLine(i, [2]int32{1, 2})
			if c.Line().Pos != i || c.Line().Iter != [2]int32{1, 2} {
				t.Error("place")
			}
			f := l.LockIRQSave(c)
			g.Add(c, 1)
			plain++
			bodyWord.Store(c, p, bodyWord.Load(c, p)+1)
			if !l.HeldBy(c) {
				t.Error("not held")
			}
			l.UnlockIRQRestore(c, f)
			if l.TryLock(c) {
				plain++
				l.Unlock(c)
			} else {
				l.Lock(c)
				plain++
				l.Unlock(c)
			}
			sum.Add(c, 1)
			for old := swapped.Load(c); !swapped.Cmpxchg(c, old, old+1); {
				old = swapped.Load(c)
			}
			slabWord.LoadStale(c, p)
			for old := slabWord.Load(c, p); !slabWord.Cmpxchg(c, p, old, old+1); {
				old = slabWord.Load(c, p)
			}
			c.StoreMem(link, a, c.LoadMem(link, a)+1)
			c.LoadMem(link, m.Base) // a neighbour's, stale
			c.AllocPages(0, true)
			c.EndLine(i + 1)
		}
	})
	const want = 4 * rounds
	if g.Peek() != want || sum.Peek() != want || swapped.Peek() != want || plain != 2*want ||
		bodyWord.Peek(p) != want || slabWord.Peek(p) != want {
		t.Errorf("%d %d %d %d %d %d", g.Peek(), sum.Peek(), swapped.Peek(), plain,
			bodyWord.Peek(p), slabWord.Peek(p))
	}
	for i := range uint64(4) {
		if v, _ := m.Peek(m.Base + i*8); v != rounds {
			t.Errorf("word %d is %d", i, v)
		}
	}
	m.Reset()
	if v, _ := m.Peek(m.Base); v != 0 || slabWord.Peek(p) != 0 ||
		p.CurrentView(machine.RegionBody) != machine.ViewNone || m.PageLayer() != nil {
		t.Error("something is left after Reset")
	}
}

// TestNativeLocal: what belongs to one CPU needs no atomics, and calls are made by
// its owner, or by the caller while it has none.
func TestNativeLocal(t *testing.T) {
	const rounds = 300
	m := nativeMachine(t, 4)
	var own4 [4]machine.Word
	var locals [4]machine.LocalLock
	var counts [4]int
	var d machine.DoubleWord
	pairs := make(machine.PerCPUDouble, 4)
	for i := range own4 {
		pairs[i].A.Init(own, i, uint64(i))
		pairs[i].B.Init(own, i, 0)
		own4[i].Init(own, i, 0)
		locals[i].Init(lockB, m.CPU(i))
	}
	d.A.Init(word, -1, 0)
	d.B.Init(word, -1, 0)
	inc := func(c *machine.Ctx) {
		f := locals[c.CPUID()].Lock(c)
		w := &own4[c.CPUID()]
		if !w.CmpxchgLocal(c, w.Load(c), w.Load(c)+1) || w.CmpxchgLocal(c, ^uint64(0), 1) {
			t.Error("a local exchange")
		}
		pair := &pairs[c.CPUID()]
		old := [2]uint64{pair.A.Load(c), pair.B.Load(c)}
		if pairs.CmpxchgDoubleThisCPU(c, [2]uint64{old[0], old[1] + 1}, old) ||
			!pairs.CmpxchgDoubleThisCPU(c, old, [2]uint64{old[0], old[1] + 1}) {
			t.Error("a double exchange of this CPU")
		}
		counts[c.CPUID()]++
		locals[c.CPUID()].Unlock(c, f)
	}
	onCPUs(m, func(c *machine.Ctx) {
		for i := range rounds {
			c.BeginLine(i, [2]int32{})
			inc(c)
			if c.CPUID() == 3 && i == rounds/2 {
				return // the rest is made by the callers
			}
			c.CallOnAll(inc)
			c.EndLine(i + 1)
		}
	})
	for i := range own4 {
		want := 3*rounds + rounds/2 // calls
		want += rounds
		if i == 3 {
			want += rounds/2 + 1 - rounds
		}
		if own4[i].Peek() != uint64(want) || counts[i] != want || pairs[i].A.Peek() != uint64(i) ||
			pairs[i].B.Peek() != uint64(want) {
			t.Errorf("CPU %d: %d and %d, want %d", i, own4[i].Peek(), counts[i], want)
		}
	}
	c := m.NativeCtx(0, "a")
	if !d.CmpxchgDoubleLocal(c, [2]uint64{0, 0}, [2]uint64{1, 2}) ||
		d.CmpxchgDoubleLocal(c, [2]uint64{1, 1}, [2]uint64{}) || d.A.Peek() != 1 ||
		d.B.Peek() != 2 {
		t.Error("a double exchange")
	}
	if !c.Native() || c.InInterrupt() || c.IRQsOff() || !c.MayBlock() || c.CPUID() != 0 {
		t.Error("state")
	}
	c.PreemptDisable()
	c.PreemptEnable()
	c.Barrier()
	if !c.Wait(&binding{true}) || c.Wait(&binding{}) {
		t.Error("wait")
	}
	c.Release()
}

// TestNativeFaults: faults are noted one at a time, a death ends its own context, and
// calls of who died are over.
func TestNativeFaults(t *testing.T) {
	m := nativeMachine(t, 4)
	onCPUs(m, func(c *machine.Ctx) {
		c.BeginLine(7, [2]int32{})
		c.Fault(fault.Unguarded, "by %d", c.CPUID())
		defer func() {
			if !machine.Stopped(recover()) {
				t.Error("not stopped")
			}
		}()
		c.Die(fault.WildAddress, "by %d", c.CPUID())
	})
	if n := len(m.Faults()); n != 8 || m.Faults()[0].Where.Line != 7 {
		t.Errorf("%d faults", n)
	}
	c := m.NativeCtx(0, "a")
	made := make(chan bool)
	go func() {
		d := m.NativeCtx(1, "b")
		defer close(made)
		defer d.Release()
		d.CallOn(0, func(*machine.Ctx) { panic("boom") })
	}()
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("no panic")
			}
		}()
		for {
			c.Poll()
		}
	}()
	<-made // the caller is not left waiting
	c.Release()
}

// TestNativeMisuse: what a native machine does not have is a harness fault, and so is
// what is wrong on both.
func TestNativeMisuse(t *testing.T) {
	m := nativeMachine(t, 1)
	c := m.NativeCtx(0, "a")
	l := locked(lockA, 1)
	var local machine.LocalLock
	local.Init(lockB, m.CPU(0))
	for name, f := range map[string]func(){
		"task":         func() { m.AddTask("a", 0, 0, true, nil) },
		"handler":      func() { m.AddHandler(&machine.Handler{}) },
		"barriers":     func() { m.SetBarriers(nil, nil) },
		"two owners":   func() { m.NativeCtx(0, "b") },
		"unlock":       func() { l.Unlock(c) },
		"local unlock": func() { local.Unlock(c, true) },
		"call":         func() { c.CallOn(1, barrier) },
		"pages":        func() { c.AllocPages(0, false) },
	} {
		t.Run(name, func(t *testing.T) { wantPanic(t, f) })
	}
	if m.Sim() != nil {
		t.Error("a scheduler")
	}
	m.Close()
	m.Reset() // and a CPU that was not given back is free
	m.NativeCtx(0, "b").Release()
	m.NativeCtx(0, "c").Release()
}
