package machine

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// nativeState is what a native machine has instead of a scheduler.
type nativeState struct{ mu sync.Mutex }

func newNativeState() *nativeState { return &nativeState{} }

// nativeLock is a real spin lock.
type nativeLock struct{ mu sync.Mutex }

func (l *nativeLock) lock()         { l.mu.Lock() }
func (l *nativeLock) tryLock() bool { return l.mu.TryLock() }
func (l *nativeLock) unlock()       { l.mu.Unlock() }

// nativeCPU is one CPU's mailbox of calls. owned is true while a goroutine has
// the CPU; a call to a CPU that nobody has is made by the caller.
type nativeCPU struct {
	mu      sync.Mutex
	owned   bool
	pending atomic.Int32
	calls   []*nativeCall
}

func (n *nativeCPU) reset() {
	n.owned = false
	n.pending.Store(0)
	n.calls = nil
}

type nativeCall struct {
	f    func(*Ctx)
	done atomic.Bool
}

// NativeCtx gives the calling goroutine CPU i of a native machine until Release.
// Each CPU has one goroutine at a time.
func (m *Machine) NativeCtx(i int, name string) *Ctx {
	if m.native == nil {
		panic("allocfuzz: NativeCtx on a simulated machine")
	}
	cpu := m.cpus[i]
	cpu.native.mu.Lock()
	cpu.native.owned = true
	cpu.native.mu.Unlock()
	c := &Ctx{m: m, cpu: cpu, name: name, f: &frame{pos: -1}}
	c.frames = append(c.frames, c.f)
	return c
}

// Release gives the CPU back and makes the calls that are still waiting.
func (c *Ctx) Release() {
	n := &c.cpu.native
	n.mu.Lock()
	defer n.mu.Unlock()
	n.owned = false
	c.takeCalls()
}

// Poll makes the calls that other CPUs asked this one for. The runner calls it
// between operations.
func (c *Ctx) Poll() {
	n := &c.cpu.native
	if n.pending.Load() == 0 {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	c.takeCalls()
}

// takeCalls makes the waiting calls. Holds the CPU's native lock.
func (c *Ctx) takeCalls() {
	n := &c.cpu.native
	for _, k := range n.calls {
		k.f(c)
		k.done.Store(true)
	}
	n.calls = n.calls[:0]
	n.pending.Store(0)
}

func (c *Ctx) nativeCall(cpu int, f func(*Ctx)) {
	target := c.m.cpus[cpu]
	if target == c.cpu {
		f(c)
		return
	}
	n := &target.native
	n.mu.Lock()
	if !n.owned {
		other := &Ctx{m: c.m, cpu: target, name: c.name, f: &frame{pos: -1}}
		f(other)
		n.mu.Unlock()
		return
	}
	k := &nativeCall{f: f}
	n.calls = append(n.calls, k)
	n.pending.Add(1)
	n.mu.Unlock()
	for !k.done.Load() {
		c.Poll()
		runtime.Gosched()
	}
}
