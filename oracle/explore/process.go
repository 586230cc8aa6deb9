package explore

import (
	"errors"
	"math/bits"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// A process is one of those whose steps a search orders: a task, a handler, or the migration of
// a task to a CPU, which is a process of one step. Its number is the same in every run.
type process struct {
	task    *machine.Ctx // of a mover: the task that it moves
	handler *machine.Handler
	cpu     int // of a mover: where to
	of      int // of a mover: the number of its task; -1 otherwise
}

// processesMax is the number of processes that sets of them have room for.
const processesMax = 48

// chainBit is the bit of a step's places that stands for task 0: all steps of a task and its
// movers are in one place, as those of a CPU are.
const chainBit = 16

// A set is a set of processes, a bit each.
type set uint64

func (s set) has(p int) bool { return s>>uint(p)&1 != 0 }
func one(p int) set          { return 1 << uint(p) }

// A mover is a migration that a search may make: of the task of that number of context.
type mover struct{ task, cpu int }

// table is the processes of a run.
type table struct {
	m      *machine.Machine
	procs  []process
	chains bool // there are movers
}

var errTooMany = errors.New("the program has more tasks, handlers and moves than the search has " +
	"room for")

// bind finds the processes of a run by number of context, movers behind them.
func (t *table) bind(b *sched.Binding, movers []mover) error {
	t.m, t.procs, t.chains = b.Machine, t.procs[:0], len(movers) > 0
	for i := range b.Tasks {
		t.procs = append(t.procs, process{task: b.Tasks[i], handler: b.Handlers[i], of: -1})
	}
	for _, v := range movers {
		t.procs = append(t.procs, process{task: b.Tasks[v.task], cpu: v.cpu, of: v.task})
	}
	if len(t.procs) > processesMax {
		return errTooMany
	}
	return nil
}

// of is the process that c runs for: its innermost handler, or itself.
func (t *table) of(c *machine.Ctx) int {
	h := c.Running()
	for i := range t.procs {
		p := &t.procs[i]
		if h != nil && p.handler == h || h == nil && p.task == c && p.of < 0 {
			return i
		}
	}
	panic("allocfuzz: explore: " + c.Name() + " is in no binding")
}

// ready is the processes whose next step could be taken now, and able those that could run, be
// it up to a lock that is held.
func (t *table) ready() (ready, able set) {
	for i := range t.procs {
		r, a := t.procs[i].ready(t.m.Sim())
		if r {
			ready |= one(i)
		}
		if a {
			able |= one(i)
		}
	}
	return ready, able
}

func (p *process) ready(s *machine.Sim) (ready, able bool) {
	switch {
	case p.handler != nil:
		h := p.handler
		if c := h.Host(); c != nil {
			able = c.Running() == h
			return able && !c.Waits(), able
		}
		able = h.Due() && s.CanDeliver(h)
		return able, able
	case p.of >= 0:
		able = p.task.Over() || p.task.Standing() && p.task.Running() == nil &&
			s.CanMove(p.task, p.cpu)
		return able, able
	}
	c := p.task
	if c.Over() || c.Running() != nil || !s.CanRun(c) {
		return false, false
	}
	return !c.Waits(), true
}

// stuck appends the next steps of those of some processes that stand at a lock.
func (t *table) stuck(out []*step, some set) []*step {
	each(uint64(some), func(i int) {
		p := &t.procs[i]
		c := p.task
		if p.handler != nil {
			c = p.handler.Host()
		}
		if c == nil || p.of >= 0 {
			return
		}
		if a, ok := c.Wants(); ok {
			out = append(out, &step{proc: i, places: t.places(i, c.CPUID()),
				acc: []machine.Access{a}})
		}
	})
	return out
}

// places are those in which all steps are ordered: bits of CPUs, and of tasks that are moved.
func (t *table) places(p int, cpu int) uint64 {
	at := uint64(1) << uint(cpu)
	if !t.chains {
		return at
	}
	q := &t.procs[p]
	switch {
	case q.of >= 0:
		at |= 1 << uint(chainBit+q.of)
	case q.task != nil:
		at |= 1 << uint(chainBit+p)
	}
	return at
}

// each calls f for the number of each bit.
func each(mask uint64, f func(n int)) {
	for ; mask != 0; mask &= mask - 1 {
		f(bits.TrailingZeros64(mask))
	}
}
