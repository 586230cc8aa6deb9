package machine

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"allocfuzz/impls/fault"
)

// A Machine is a small computer with its memory, page descriptors and CPUs. Make
// it once for a Config and Reset it between runs.
type Machine struct {
	Config
	sim    *Sim // nil natively
	size   uint64
	shift  uint // pages to bytes
	words  []uint64
	mem    []byte // the arena, the same storage as words
	pages  []Page
	cpus   []*CPU
	layer  PageLayer
	dirty  []bool
	dirtyN []int // pages that were written, in order of the first write
	usedN  []int // pages whose descriptors were used, in order of the first use
	native *nativeState
	grace  grace // of read sections
	faults []fault.Fault
	found  []fault.Title // titles among faults
	halted bool          // by Halt
	// lastWords is what the operation that halted had noted.
	lastWords []any
}

// A PageLayer hands out blocks of pages. impls/page implements it; the machine
// says only what it needs.
type PageLayer interface {
	// Alloc returns the first page of a free block of 1<<order pages, nil when
	// there is none. It must set the view of the block's pages.
	Alloc(c *Ctx, order int) *Page
	// Free takes back a block that Alloc returned with the same order.
	Free(c *Ctx, p *Page, order int)
	// Drain gives pages that are held back for one CPU to all.
	Drain(c *Ctx)
	// FreePages is the number of pages that could be handed out.
	FreePages() int
}

// A CPU is one processor.
type CPU struct {
	ID      int
	cur     *Ctx // the task that has the CPU; nil between operations
	idle    *Ctx // runs handlers and calls when no task has the CPU
	irqsOff bool
	preempt int // depth of disabled preemption
	calls   []*call
	pending *Handler    // to be delivered when the CPU's context is resumed
	stores  []heldStore // its store buffer, the oldest first
	native  nativeCPU
}

// New builds a machine; it panics when cfg is not valid, so Validate what comes
// from outside.
func New(cfg Config) *Machine {
	if err := cfg.Validate(); err != nil {
		panic("allocfuzz: machine: " + err.Error())
	}
	m := &Machine{Config: cfg, size: cfg.Bytes(), pages: make([]Page, cfg.Pages),
		shift: uint(bits.TrailingZeros(uint(cfg.PageSize)))}
	m.words = make([]uint64, cfg.Bytes()/8)
	m.mem = bytesOf(m.words)
	for i := range m.pages {
		m.pages[i].init(m, i)
	}
	m.cpus = make([]*CPU, cfg.CPUs)
	for i := range m.cpus {
		m.cpus[i] = &CPU{ID: i}
	}
	if cfg.Native {
		m.native = newNativeState(cfg.Pages)
	} else {
		m.dirty = make([]bool, cfg.Pages)
		m.sim = newSim(m)
	}
	return m
}

// Reset brings memory, page descriptors and CPUs back to their first state and
// forgets the page layer, tasks, handlers and faults: nothing can tell the machine
// from a new one. Nothing may run meanwhile.
func (m *Machine) Reset() {
	if m.sim != nil {
		m.sim.reset()
	} else {
		m.resetNative()
	}
	for _, pfn := range m.dirtyN {
		m.clearPage(pfn)
		m.dirty[pfn] = false
	}
	m.dirtyN = m.dirtyN[:0]
	for _, pfn := range m.usedN {
		m.pages[pfn].reset()
	}
	m.usedN = m.usedN[:0]
	for _, cpu := range m.cpus {
		cpu.reset()
	}
	m.layer, m.halted, m.lastWords = nil, false, nil
	m.faults, m.found = m.faults[:0], m.found[:0]
	m.grace.reset()
}

func (m *Machine) clearPage(pfn int) { clear(m.mem[pfn<<m.shift : (pfn+1)<<m.shift]) }

func (cpu *CPU) reset() {
	cpu.cur, cpu.pending, cpu.irqsOff, cpu.preempt = nil, nil, false, 0
	clear(cpu.calls)
	cpu.calls, cpu.stores = cpu.calls[:0], cpu.stores[:0]
	cpu.native.reset()
}

// Close ends the machine's coroutines. A machine that is not closed leaks them.
// Reset makes a closed machine usable again.
func (m *Machine) Close() {
	if m.sim != nil {
		m.sim.close()
	}
}

// SetPageLayer gives the machine its page allocator.
func (m *Machine) SetPageLayer(l PageLayer) { m.layer = l }

// PageLayer returns the page allocator, nil before SetPageLayer.
func (m *Machine) PageLayer() PageLayer { return m.layer }

// Sim returns the scheduler, nil on a native machine.
func (m *Machine) Sim() *Sim { return m.sim }

// CPU returns processor i, 0 … CPUs-1.
func (m *Machine) CPU(i int) *CPU { return m.cpus[i] }

// Contains says whether n bytes at a lie in the arena.
func (m *Machine) Contains(a Addr, n uint64) bool {
	return n <= m.size && a-m.Base <= m.size-n // below Base the difference wraps
}

// WordBytes is the size of a word in bytes.
func (m *Machine) WordBytes() int { return m.Word / 8 }

// MemBytes returns n bytes of memory at a for writing; nil when they are not in the
// arena. The pages count as written.
func (m *Machine) MemBytes(a Addr, n int) []byte {
	if n < 0 || !m.Contains(a, uint64(n)) {
		return nil
	}
	off := int(a - m.Base)
	if m.TSO && m.sim != nil {
		m.uncover(off, n)
	}
	if n > 0 {
		for p := off >> m.shift; p <= (off+n-1)>>m.shift; p++ {
			m.touch(p)
		}
	}
	return m.mem[off : off+n : off+n]
}

// MemView returns n bytes of memory at a for reading only; nil when they are not in
// the arena.
func (m *Machine) MemView(a Addr, n int) []byte {
	if n < 0 || !m.Contains(a, uint64(n)) {
		return nil
	}
	off := int(a - m.Base)
	if m.TSO && m.sim != nil {
		m.uncover(off, n)
	}
	return m.mem[off : off+n : off+n]
}

// touch notes that a page is written, so that Reset clears it.
func (m *Machine) touch(pfn int) {
	if m.native != nil {
		m.native.touch(pfn)
		return
	}
	if !m.dirty[pfn] {
		m.dirty[pfn] = true
		m.dirtyN = append(m.dirtyN, pfn)
	}
}

// Peek reads the word at a without a point, for snapshots at quiet points; ok is
// false outside the arena.
func (m *Machine) Peek(a Addr) (v uint64, ok bool) {
	n := m.WordBytes()
	if !m.Contains(a, uint64(n)) {
		return 0, false
	}
	return m.get(int(a - m.Base)), true
}

func (m *Machine) get(off int) uint64 {
	switch m.Word {
	case 64:
		return binary.NativeEndian.Uint64(m.mem[off:])
	case 32:
		return uint64(binary.NativeEndian.Uint32(m.mem[off:]))
	default:
		return uint64(binary.NativeEndian.Uint16(m.mem[off:]))
	}
}

func (m *Machine) put(off int, v uint64) {
	m.touch(off >> m.shift)
	switch m.Word {
	case 64:
		binary.NativeEndian.PutUint64(m.mem[off:], v)
	case 32:
		binary.NativeEndian.PutUint32(m.mem[off:], uint32(v))
	default:
		binary.NativeEndian.PutUint16(m.mem[off:], uint16(v))
	}
}

// Faults returns what was found wrong since the last Reset, in order. The slice
// is valid until the next Reset.
func (m *Machine) Faults() []fault.Fault { return m.faults }

// FaultsMax bounds what one run notes: a broken loop would flood memory. The first
// fault of each title is always noted.
const FaultsMax = 256

// Fault notes that c did something wrong and goes on. On a native machine faults
// are noted under a lock. While a run that cannot go on is unwound nothing is
// noted: what its clean-up code meets is no finding.
func (c *Ctx) Fault(t fault.Title, format string, args ...any) {
	m := c.m
	if m.native != nil {
		m.native.mu.Lock()
		defer m.native.mu.Unlock()
	} else if c.sim.aborting {
		return
	}
	seen := slices.Contains(m.found, t)
	if seen && len(m.faults) >= FaultsMax {
		return
	}
	if !seen {
		m.found = append(m.found, t)
	}
	f := fault.Fault{Title: t, Detail: fmt.Sprintf(format, args...), Where: c.Where()}
	m.faults = append(m.faults, f)
}

// Where says where c is: line, step, CPU and name of task or handler.
func (c *Ctx) Where() fault.Where {
	w := fault.Where{Line: c.f.pos, CPU: c.cpu.ID, Task: c.name}
	if c.f.handler != nil {
		w.Task = c.f.handler.Name
	}
	if c.sim != nil {
		w.Step = c.sim.steps
	}
	return w
}

// At is what Where has in numbers: line, CPU and step.
func (c *Ctx) At() (line, cpu int, step uint64) {
	if c.sim != nil {
		step = c.sim.steps
	}
	return c.f.pos, c.cpu.ID, step
}

// Die notes a fault after which the run cannot go on and stops it: it panics, and
// every context is unwound. Natively the caller recovers, see Stopped.
func (c *Ctx) Die(t fault.Title, format string, args ...any) {
	c.Fault(t, format, args...)
	if c.sim != nil {
		c.sim.aborting = true
	}
	panic(stopRun{})
}

// Halt stops the run as Die does, and there is nothing wrong: the kernel that runs
// here stops on purpose, as it does at a BUG.
func (c *Ctx) Halt() {
	c.m.halted, c.m.lastWords = true, append([]any(nil), c.f.notes...)
	if c.sim != nil {
		c.sim.aborting = true
	}
	panic(stopRun{})
}

// Halted says whether the run was ended by Halt since the last Reset.
func (m *Machine) Halted() bool { return m.halted }

// LastWords is what the operation that halted had noted.
func (m *Machine) LastWords() []any { return m.lastWords }

// Stopped says whether a recovered panic is only the end of a run, as Die makes it.
func Stopped(p any) bool {
	_, ok := p.(stopRun)
	return ok
}

// stopRun unwinds a context whose run is over.
type stopRun struct{}
