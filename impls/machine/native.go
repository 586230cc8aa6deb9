package machine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// nativeState is what a native machine has instead of a scheduler.
type nativeState struct {
	mu    sync.Mutex
	dirty []atomic.Bool // pages that were written
}

func newNativeState(pages int) *nativeState {
	return &nativeState{dirty: make([]atomic.Bool, pages)}
}

func (n *nativeState) touch(pfn int) {
	if d := &n.dirty[pfn]; !d.Load() {
		d.Store(true)
	}
}

// resetNative clears pages and descriptors that were used.
func (m *Machine) resetNative() {
	for pfn := range m.pages {
		if d := &m.native.dirty[pfn]; d.Load() {
			d.Store(false)
			m.clearPage(pfn)
		}
		if p := &m.pages[pfn]; p.used {
			p.reset()
		}
	}
}

// nativeLock is a real spin lock.
type nativeLock struct{ mu sync.Mutex }

func (l *nativeLock) lock()         { l.mu.Lock() }
func (l *nativeLock) tryLock() bool { return l.mu.TryLock() }
func (l *nativeLock) unlock()       { l.mu.Unlock() }

// A ThreadLock keeps the threads of a native machine apart around state that is no part of
// what is tested. It has no rank and is taken last. Simulated, one context runs at a time and
// it does nothing; nor does it without a context, when nothing runs yet. The zero ThreadLock
// is free.
type ThreadLock struct{ native nativeLock }

// Lock takes l.
func (l *ThreadLock) Lock(c *Ctx) {
	if c != nil && c.sim == nil {
		l.native.lock()
	}
}

// Unlock releases l.
func (l *ThreadLock) Unlock(c *Ctx) {
	if c != nil && c.sim == nil {
		l.native.unlock()
	}
}

// nativeCPU is one CPU's mailbox of calls. owned is true while a goroutine has
// the CPU, which makes the calls; when nobody has it the caller borrows it.
type nativeCPU struct {
	mu       sync.Mutex
	owned    bool
	borrowed bool
	pending  atomic.Int32
	calls    []*nativeCall
}

func (n *nativeCPU) reset() {
	n.owned, n.borrowed = false, false
	n.pending.Store(0)
	n.calls = nil
}

type nativeCall struct {
	f    func(*Ctx)
	done atomic.Bool
}

// NativeCtx gives the calling goroutine CPU i of a native machine until Release.
// Each CPU has one goroutine at a time: a second one is a harness fault.
func (m *Machine) NativeCtx(i int, name string) *Ctx {
	if m.native == nil {
		panic("allocfuzz: NativeCtx on a simulated machine")
	}
	cpu := m.cpus[i]
	for !cpu.native.own(name) {
		runtime.Gosched()
	}
	return m.nativeCtx(cpu, name)
}

func (m *Machine) nativeCtx(cpu *CPU, name string) *Ctx {
	c := &Ctx{m: m, cpu: cpu, name: name, f: &frame{pos: -1}}
	c.frames = append(c.frames, c.f)
	return c
}

// own takes the CPU, or says false while a caller has it.
func (n *nativeCPU) own(name string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.owned {
		panic("allocfuzz: " + name + " takes a CPU that another goroutine has")
	}
	n.owned = !n.borrowed
	return n.owned
}

// Release ends a read section, gives the CPU back and makes the calls that are still waiting.
func (c *Ctx) Release() {
	c.EndReading()
	n := &c.cpu.native
	for {
		c.Poll()
		n.mu.Lock()
		last := len(n.calls) == 0
		if last {
			n.owned = false
		}
		n.mu.Unlock()
		if last {
			return
		}
	}
}

// Poll makes the calls that other CPUs asked this one for. The runner calls it
// between operations.
func (c *Ctx) Poll() {
	n := &c.cpu.native
	if n.pending.Load() == 0 {
		return
	}
	n.mu.Lock()
	calls := n.calls
	n.calls = nil
	n.pending.Store(0)
	n.mu.Unlock()
	defer func() { // a call that panics is over, too, and so are those behind it
		for _, k := range calls {
			k.done.Store(true)
		}
	}()
	for _, k := range calls {
		k.f(c)
		k.done.Store(true)
	}
}

// nativeCall runs f on another CPU and waits, making the calls of others
// meanwhile.
func (c *Ctx) nativeCall(cpu int, f func(*Ctx)) {
	target := c.m.cpus[cpu]
	if target == c.cpu {
		f(c)
		return
	}
	k := &nativeCall{f: f}
	for {
		switch target.native.ask(k) {
		case askQueued:
			for !k.done.Load() {
				c.Poll()
				runtime.Gosched()
			}
			return
		case askBorrowed:
			defer target.native.giveBack()
			f(c.m.nativeCtx(target, c.name))
			return
		}
		c.Poll()
		runtime.Gosched()
	}
}

// What became of a call.
const (
	askBusy     = iota // somebody else has borrowed the CPU
	askQueued          // its owner makes the call
	askBorrowed        // the caller has the CPU until giveBack
)

func (n *nativeCPU) ask(k *nativeCall) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.owned:
		n.calls = append(n.calls, k)
		n.pending.Add(1)
		return askQueued
	case n.borrowed:
		return askBusy
	}
	n.borrowed = true
	return askBorrowed
}

func (n *nativeCPU) giveBack() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.borrowed = false
}
