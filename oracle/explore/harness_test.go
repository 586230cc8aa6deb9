package explore_test

import (
	"fmt"
	"math/bits"

	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// This file runs small programs that are written for the machine directly. Each word and lock
// has a field of its own, since words of one field count as one object.

// The sizes of what every toy can use.
const (
	atomsMax  = 136
	locksMax  = 64
	objectMax = 8 // words of memory that the ABA toys link
)

func fieldsOf(n int, name string, declare func(object, member string) *machine.Field) (
	fs []*machine.Field) {
	for i := range n {
		fs = append(fs, declare("toy", fmt.Sprint(name, i)))
	}
	return fs
}

var (
	atomFields = fieldsOf(atomsMax, "x", machine.Atomic)
	lockFields = fieldsOf(locksMax, "l", machine.Guarded)
	headField  = machine.PerCPU("toy", "head")
	countField = machine.PerCPU("toy", "count")
)

// A process is a task or a handler of a toy.
type process struct {
	cpu     int
	movable bool
	pos     int // order of the first line; one line behind another is places behind it
	lines   []func(*th)
}

// A toy is a program on the machine, and a body that can be explored.
type toy struct {
	name     string
	cpus     int
	preempt  machine.Preempt
	tasks    []process
	handlers []process
	first    []uint64   // values that words begin with, 0 beyond
	heads    [][]uint64 // the same of the per-CPU pairs
	bad      func(*toy) bool
	only     fault.Title // the only fault that counts; any when empty
	found    bool        // whether some schedule is bad
	want     int         // traces, 0 when only brute force can say
	text     string      // of a generated program

	m       *machine.Machine
	binding sched.Binding
	x       [atomsMax]machine.Word
	l       [locksMax]machine.SpinLock
	pc      machine.PerCPUDouble
	irq     []machine.Handler
	ths     []th
	tracer  tracer
}

// A th is a process while it runs: its context, and what it read.
type th struct {
	*machine.Ctx
	t    *toy
	me   int // number of the context
	kept []uint64
	acc  uint64
}

func (h *th) load(i int) uint64           { return h.t.x[i].Load(h.Ctx) }
func (h *th) store(i int, v uint64)       { h.t.x[i].Store(h.Ctx, v) }
func (h *th) cas(i int, o, v uint64) bool { return h.t.x[i].Cmpxchg(h.Ctx, o, v) }
func (h *th) lock(i int)                  { h.t.l[i].Lock(h.Ctx) }
func (h *th) unlock(i int)                { h.t.l[i].Unlock(h.Ctx) }

// keep makes a value that was read part of the final state.
func (h *th) keep(v uint64) { h.kept = append(h.kept, v) }

// machineOf makes the machine of the toy, once.
func (t *toy) machineOf() *machine.Machine {
	if t.m == nil {
		cfg := machine.DefaultConfig()
		cfg.CPUs, cfg.Preempt, cfg.Pages = t.cpus, t.preempt, 1
		t.m = machine.New(cfg)
		t.ths = make([]th, len(t.tasks)+len(t.handlers))
		t.irq = make([]machine.Handler, len(t.handlers))
		t.pc = make(machine.PerCPUDouble, t.cpus)
	}
	return t.m
}

// close ends the machine.
func (t *toy) close() {
	if t.m != nil {
		t.m.Close()
		t.m = nil
	}
}

// reset brings words, locks and processes to their first state.
func (t *toy) reset() {
	for i := range t.x {
		v := uint64(0)
		if i < len(t.first) {
			v = t.first[i]
		}
		t.x[i].Init(atomFields[i], -1, v)
	}
	for i := range t.l {
		t.l[i].Init(lockFields[i], locksMax-i) // to be taken in order of their numbers
	}
	for cpu := range t.pc {
		var v [2]uint64
		if cpu < len(t.heads) {
			copy(v[:], t.heads[cpu])
		}
		t.pc[cpu].A.Init(headField, cpu, v[0])
		t.pc[cpu].B.Init(countField, cpu, v[1])
	}
	for i := range t.ths {
		t.ths[i] = th{t: t, me: i, kept: t.ths[i].kept[:0]}
	}
}

// body is what a context of the machine does for process i.
func (t *toy) body(i int, p *process, places int) func(*machine.Ctx) {
	return func(c *machine.Ctx) {
		h := &t.ths[i]
		h.Ctx = c
		for n, line := range p.lines {
			pos := p.pos + n*places
			next := pos + places
			if n == len(p.lines)-1 {
				next = machine.After
			}
			c.BeginLine(pos, [2]int32{})
			line(h)
			c.EndLine(next)
		}
	}
}

// add gives the machine the tasks and handlers.
func (t *toy) add() {
	n := len(t.tasks) + len(t.handlers)
	t.binding.Machine = t.m
	t.binding.Tasks = append(t.binding.Tasks[:0], make([]*machine.Ctx, n)...)
	t.binding.Handlers = append(t.binding.Handlers[:0], make([]*machine.Handler, n)...)
	for i := range t.tasks {
		p := &t.tasks[i]
		p.pos = i
		t.binding.Tasks[i] = t.m.AddTask(fmt.Sprint("t", i), p.cpu, p.pos, !p.movable,
			t.body(i, p, len(t.tasks)))
	}
	for i := range t.handlers {
		p, at := &t.handlers[i], len(t.tasks)+i
		if p.pos == 0 {
			p.pos = 1000 + i
		}
		t.irq[i] = machine.Handler{CPU: p.cpu, Name: fmt.Sprint("h", i), Pos: p.pos,
			Body: t.body(at, p, 1)}
		t.m.AddHandler(&t.irq[i])
		t.binding.Handlers[at] = &t.irq[i]
	}
}

// Run makes one run under ch. The hash is that of the canonical trace.
func (t *toy) Run(ch machine.Chooser) explore.Run {
	t.machineOf().Reset()
	t.reset()
	t.add()
	if b, ok := ch.(sched.Binder); ok {
		b.Bind(&t.binding)
	}
	t.tracer.start(&t.binding, ch)
	err := t.m.Sim().Run(&t.tracer)
	if err == nil {
		err = t.tracer.err
	}
	return explore.Run{Bad: t.isBad(), State: t.state(), Hash: t.tracer.hash(),
		Points: t.m.Sim().Steps(), Err: err}
}

func (t *toy) isBad() bool {
	for _, f := range t.m.Faults() {
		if t.only == "" || t.only == f.Title {
			return true
		}
	}
	return t.bad != nil && !t.m.Sim().Aborted() && t.bad(t)
}

// fold adds v to the hash h.
func fold(h, v uint64) uint64 { return bits.RotateLeft64(h^v, 27)*0x9fb21c651e98df25 + 1 }

// state hashes the words, the locks and what each process kept.
func (t *toy) state() uint64 {
	h := uint64(1)
	for i := range t.x {
		h = fold(h, t.x[i].Peek())
	}
	for i := range t.l {
		if t.l[i].Held() {
			h = fold(h, uint64(i)<<32)
		}
	}
	for i := range t.pc {
		h = fold(fold(h, t.pc[i].A.Peek()), t.pc[i].B.Peek())
	}
	for i := range t.ths {
		h = fold(h, uint64(i)<<40)
		for _, v := range t.ths[i].kept {
			h = fold(h, v)
		}
	}
	for _, f := range t.m.Faults() {
		for i := range len(f.Title) {
			h = fold(h, uint64(f.Title[i]))
		}
	}
	return h
}
