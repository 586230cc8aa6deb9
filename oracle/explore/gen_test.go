package explore_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"allocfuzz/impls/machine"
)

// This file makes small programs by chance, in a form that can be printed.

// An opcode is what a step does. A block holds the steps behind it, up to its end.
type opcode int

const (
	opLoad opcode = iota
	opStore
	opAdd // load and store
	opCas
	opLocal // an exchange of this CPU's pair
	opLock
	opLockIRQ
	opIRQ
	opPreempt
	opIf  // a block for when a word is not 0
	opEnd // of the innermost block
)

var opNames = [...]string{"load", "store", "add", "cas", "local", "lock {", "lockirq {", "irq {",
	"preempt {", "if", "}"}

// Programs use these locks: one that handlers take too, and one that may be held when that is
// taken.
const (
	lockTasks = iota
	lockIRQ
)

// A step is one operation on a word.
type step struct {
	op   opcode
	word int
}

// run carries out the steps. What was read last is what is written, and part of the state.
func run(h *th, steps []step) {
	var undo []func()
	for i := 0; i < len(steps); i++ {
		s := steps[i]
		switch s.op {
		case opLoad:
			h.acc = h.load(s.word)
			h.keep(h.acc)
		case opStore:
			h.store(s.word, h.acc*3+uint64(h.me)+1)
		case opAdd:
			h.store(s.word, h.load(s.word)+1)
		case opCas:
			ok := h.cas(s.word, h.acc, h.acc+7)
			h.keep(map[bool]uint64{false: 100, true: 101}[ok])
		case opLocal:
			d := &h.t.pc[h.CPUID()]
			old := [2]uint64{d.A.Load(h.Ctx), d.B.Peek()}
			ok := h.t.pc.CmpxchgDoubleThisCPU(h.Ctx, old, [2]uint64{old[0] + 1, old[1]})
			h.keep(map[bool]uint64{false: 200, true: 201}[ok])
		case opLock:
			h.lock(lockTasks)
			undo = append(undo, func() { h.unlock(lockTasks) })
		case opLockIRQ:
			flags := h.t.l[lockIRQ].LockIRQSave(h.Ctx)
			undo = append(undo, func() { h.t.l[lockIRQ].UnlockIRQRestore(h.Ctx, flags) })
		case opIRQ:
			flags := h.IRQSave()
			undo = append(undo, func() { h.IRQRestore(flags) })
		case opPreempt:
			h.PreemptDisable()
			undo = append(undo, h.PreemptEnable)
		case opIf:
			if h.load(s.word) == 0 {
				i = endOf(steps, i)
				break
			}
			undo = append(undo, func() {})
		case opEnd:
			undo[len(undo)-1]()
			undo = undo[:len(undo)-1]
		}
	}
}

// endOf is the place of the end of the block that begins at place i.
func endOf(steps []step, i int) int {
	for depth := 0; ; i++ {
		switch op := steps[i].op; {
		case op == opEnd:
			if depth--; depth == 0 {
				return i
			}
		case op >= opLock:
			depth++
		}
	}
}

// A recipe is what is random about programs.
type recipe struct {
	*rand.Rand
	points int // that are left for the program
	words  int
	locals bool
	ifs    bool
}

func (r *recipe) oneIn(n int) bool { return r.IntN(n) == 0 }

// line is up to n steps, of a handler or of a task; blocks are there with their ends.
func (r *recipe) line(n int, handler bool) (out []step) {
	for range n {
		if r.points <= 0 {
			break
		}
		block := opEnd
		switch r.IntN(10) {
		case 0:
			block = opIRQ
		case 1:
			block = opPreempt
		case 2, 3:
			block = opLockIRQ
		case 4:
			block = opLock
		case 5:
			if r.ifs {
				block = opIf
			}
		}
		if handler && (block == opLock || block == opPreempt) {
			block = opEnd
		}
		if block == opEnd {
			out = append(out, r.plain())
			continue
		}
		r.points -= 2
		out = append(out, step{op: block, word: 1 + r.IntN(r.words)}, r.plain())
		if block == opLock && r.oneIn(3) {
			r.points -= 2
			out = append(out, step{op: opLockIRQ}, r.plain(), step{op: opEnd})
		}
		out = append(out, step{op: opEnd})
	}
	if len(out) == 0 {
		out = append(out, r.plain())
	}
	return out
}

// plain is a step that is no block.
func (r *recipe) plain() step {
	s := step{op: opcode(r.IntN(int(opLocal) + 1)), word: 1 + r.IntN(r.words)}
	if s.op == opLocal && !r.locals {
		s.op = opStore
	}
	r.points--
	if s.op == opAdd || s.op == opLocal {
		r.points--
	}
	return s
}

// A mix says what a program has, for the log.
type mix struct {
	cpus, tasks, handlers, lines, moves int
	full, shared, locks, nest           bool
}

// generate makes the program of a seed. Its tasks may be moved moves times.
func generate(seed uint64) (t *toy, moves int, m mix) {
	r := &recipe{Rand: rand.New(rand.NewPCG(seed, 0x5eed))}
	m.cpus = 1 + r.IntN(3)
	m.full = !r.oneIn(3)
	m.tasks = 2
	if r.oneIn(3) {
		m.tasks = 3
	}
	m.handlers = r.IntN(3)
	r.points, r.words, r.locals, r.ifs = 11-m.tasks, 1+r.IntN(2), r.oneIn(2), r.oneIn(2)
	t = &toy{name: fmt.Sprint("seed ", seed), cpus: m.cpus}
	if m.full {
		t.preempt = machine.PreemptFull
	}
	if m.cpus > 1 && r.oneIn(3) {
		m.moves = 1
		r.points -= 3
	}
	var text strings.Builder
	fmt.Fprintf(&text, "cpus=%d preempt=%v moves=%d\n", m.cpus, t.preempt, m.moves)
	for i := range m.tasks {
		p := process{cpu: r.IntN(m.cpus), movable: m.moves > 0 && (i == 0 || r.oneIn(2))}
		m.shared = m.shared || slices.ContainsFunc(t.tasks, func(o process) bool {
			return o.cpu == p.cpu
		})
		fmt.Fprintf(&text, "task %d cpu=%d movable=%v\n", i, p.cpu, p.movable)
		for range 1 + r.IntN(4)/3 {
			r.add(&text, &p, 1+r.IntN(2), false, &m)
		}
		t.tasks = append(t.tasks, p)
	}
	for i := range m.handlers {
		p := process{cpu: r.IntN(m.cpus)}
		if r.oneIn(4) {
			p.pos = 1 + r.IntN(2) // in the middle of the tasks' lines
		}
		m.nest = m.nest || slices.ContainsFunc(t.handlers, func(o process) bool {
			return o.cpu == p.cpu
		})
		fmt.Fprintf(&text, "handler %d cpu=%d pos=%d\n", m.tasks+i, p.cpu, p.pos)
		r.add(&text, &p, 1+r.IntN(2), true, &m)
		t.handlers = append(t.handlers, p)
	}
	t.text = text.String()
	return t, m.moves, m
}

// add gives a process a line.
func (r *recipe) add(text *strings.Builder, p *process, n int, handler bool, m *mix) {
	steps := r.line(n, handler)
	p.lines = append(p.lines, func(h *th) { run(h, steps) })
	m.lines++
	text.WriteString(" ")
	for _, s := range steps {
		m.locks = m.locks || s.op == opLock || s.op == opLockIRQ
		fmt.Fprintf(text, " %s", opNames[s.op])
		if s.op < opLocal || s.op == opIf {
			fmt.Fprintf(text, " x%d", s.word)
		}
	}
	text.WriteString("\n")
}
