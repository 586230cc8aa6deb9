package explore

import "allocfuzz/impls/machine"

// act does what brings the wanted step about.
func (d *Orders) act(c *machine.Ctx, p machine.Point) machine.Action {
	q := &d.table.procs[d.want]
	switch {
	case q.handler != nil:
		return d.handle(c, p, q.handler)
	case q.task != c || c.Running() != nil:
		d.going = between(q)
		return d.toward(c, p, q.task)
	case q.moves():
		to := q.move.CPU
		d.record(q.migration(d.want))
		return machine.Action{Kind: machine.Move, CPU: to}
	case !c.InLine() && c.CPU().Current() != nil:
		// It was moved to where a task is, which has to lose the CPU to it.
		return machine.Action{Kind: machine.SwitchTo, Task: c.CPU().Current()}
	case p.Kind == machine.KEnd:
		d.going = true
		stay := machine.Action{Kind: machine.SwitchTo, Task: c}
		if c.Allowed(p, stay) {
			return stay
		}
		return machine.Action{}
	}
	d.take(c, p)
	return machine.Action{}
}

// Pick takes the next step when a handler on an idle CPU has returned.
func (d *Orders) Pick() machine.Action {
	if d.err != nil || d.blocked {
		return machine.Action{}
	}
	d.table.cur = nil
	if d.want < 0 && !d.choose() {
		return machine.Action{}
	}
	q := &d.table.procs[d.want]
	if h := q.handler; h != nil {
		switch host := h.Host(); {
		case host == nil:
			d.deliver(h)
		case !host.Idle():
			return machine.Action{Kind: machine.SwitchTo, Task: host}
		}
		return machine.Action{Kind: machine.Interrupt, Handler: h}
	}
	t := q.task
	d.going = between(q)
	if cur := t.CPU().Current(); cur != nil {
		t = cur
	}
	return machine.Action{Kind: machine.SwitchTo, Task: t}
}

// deliver enters the delivery of a handler.
func (d *Orders) deliver(h *machine.Handler) {
	d.record(event{proc: d.want, places: 1 << uint(h.CPU)})
}

// between says whether the next step of a task is to begin a line.
func between(q *process) bool {
	return !q.moves() && !q.task.InLine() && q.task.Kind() == machine.KEnd
}

// take enters the step that c goes on to make.
func (d *Orders) take(c *machine.Ctx, p machine.Point) {
	d.record(event{proc: d.want, places: 1 << uint(c.CPUID()),
		waited: p.Kind == machine.KWait})
}

// handle is the next step of a handler: its delivery, or one of its own.
func (d *Orders) handle(c *machine.Ctx, p machine.Point, h *machine.Handler) machine.Action {
	host := h.Host()
	if host == c {
		d.take(c, p)
		return machine.Action{}
	}
	a := machine.Action{Kind: machine.Interrupt, Handler: h}
	if host == nil {
		d.deliver(h)
	} else if !c.Allowed(p, a) {
		return d.toward(c, p, host)
	}
	return a
}

// toward switches to t, by way of the task that has its CPU when only that can be preempted for
// it.
func (d *Orders) toward(c *machine.Ctx, p machine.Point, t *machine.Ctx) machine.Action {
	a := machine.Action{Kind: machine.SwitchTo, Task: t}
	if c.Allowed(p, a) {
		return a
	}
	if cur := t.CPU().Current(); cur != nil && cur != c && cur != t {
		return machine.Action{Kind: machine.SwitchTo, Task: cur}
	}
	return a // which is not possible: the run is not what it was
}
