package explore

import (
	"errors"
	"math/bits"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// A process is one of those whose steps a search orders: a task or a handler. Its number is that of
// its context, the same in every run.
type process struct {
	task    *machine.Ctx
	handler *machine.Handler
	steps   int    // made so far
	stays   bool   // its migration is due and was given up
	move    *Moved // the migration that it is to make, nil when there is none or it was made
	// As it was when the run began: behind the run its context may be another's.
	movable bool
	home    int
}

// processesMax is the number of processes that sets of them have room for.
const processesMax = 64

// A set is a set of processes, a bit each.
type set uint64

func (s set) has(p int) bool { return s>>uint(p)&1 != 0 }
func one(p int) set          { return 1 << uint(p) }

// table is the processes of a run.
type table struct {
	m     *machine.Machine
	cpus  int
	procs []process
	cur   *machine.Ctx // who is asked, nil when nobody runs
	to    *machine.CPU // to which a task is moved in this run, nil when none is
}

var errTooMany = errors.New("the program has more tasks and handlers than the search has room for")

// bind finds the processes of a run. The task of move makes that migration, nil for none.
func (t *table) bind(b *sched.Binding, move *Moved) error {
	t.m, t.cpus, t.procs = b.Machine, b.Machine.CPUs, t.procs[:0]
	for i := range b.Tasks {
		p := process{task: b.Tasks[i], handler: b.Handlers[i]}
		if p.task != nil {
			p.movable, p.home = p.task.Movable(), p.task.CPUID()
		}
		t.procs = append(t.procs, p)
	}
	t.to = nil
	if move != nil {
		t.procs[move.Task].move, t.to = move, b.Machine.CPU(move.CPU)
	}
	if len(t.procs) > processesMax {
		return errTooMany
	}
	return nil
}

// moves says whether the next step of p is its migration.
func (p *process) moves() bool { return p.move != nil && !p.stays && p.steps == p.move.Before-1 }

// migration is the event of p's migration, where it stands.
func (p *process) migration(n int) event {
	to := p.move.CPU
	return event{proc: n, places: 1<<uint(p.task.CPUID()) | 1<<uint(to), moved: true, target: to,
		inLine: p.task.InLine()}
}

// of is the process that c runs for: its innermost handler, or itself.
func (t *table) of(c *machine.Ctx) int {
	h := c.Running()
	for i := range t.procs {
		p := &t.procs[i]
		if h != nil && p.handler == h || h == nil && p.task == c {
			return i
		}
	}
	panic("allocfuzz: explore: " + c.Name() + " is in no binding")
}

// returns says whether a handler on an idle CPU is about to return.
func (t *table) returns() bool { return t.cur != nil && t.cur.Returning() }

// ready is the processes whose next step could be taken now, and able those that could run, be
// it up to a lock that is held.
func (t *table) ready() (ready, able set) {
	if t.returns() {
		p := one(t.of(t.cur))
		return p, p // nothing can tell what comes before the return from what comes behind it
	}
	for i := range t.procs {
		r, a := t.procs[i].ready(t.m.Sim(), t.cur, t.to)
		if r {
			ready |= one(i)
		}
		if a {
			able |= one(i)
		}
	}
	return ready, able
}

// ready says whether the next step of p could be taken now, and whether p could run: a task that
// is to be moved, as far as the CPU goes that it leaves.
func (p *process) ready(s *machine.Sim, cur *machine.Ctx, to *machine.CPU) (ready, able bool) {
	switch {
	case p.handler != nil:
		h := p.handler
		if c := h.Host(); c != nil {
			able = c.Running() == h
			return able && !c.Waits(), able
		}
		able = h.Due() && s.CanDeliver(h)
		return able, able
	case p.moves():
		able = p.task.Standing() && p.task.Running() == nil && p.task.Kind() != machine.KWait &&
			(p.task == cur || s.CanRun(p.task)) && s.CanLeave(p.task)
		return able && (!p.task.InLine() || to.Admits()), able
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
		if c == nil || p.moves() || p.stays {
			return // or its lock comes behind everything, since it gave a migration up
		}
		if a, ok := c.Wants(); ok {
			out = append(out, &step{proc: i, places: 1 << uint(c.CPUID()),
				acc: []machine.Access{a}})
		}
	})
	return out
}

// each calls f for the number of each bit.
func each(mask uint64, f func(n int)) {
	for ; mask != 0; mask &= mask - 1 {
		f(bits.TrailingZeros64(mask))
	}
}
