package explore

import "allocfuzz/impls/machine"

// act does what brings the wanted step about; false when that is done without an action.
func (d *Orders) act(c *machine.Ctx, p machine.Point) (machine.Action, bool) {
	q := &d.table.procs[d.want]
	switch {
	case q.of >= 0:
		return d.move(c, p, q)
	case q.handler != nil:
		return d.handle(c, p, q.handler)
	case q.task != c || c.Running() != nil:
		d.going = between(q.task)
		return d.toward(c, p, q.task), true
	case p.Kind == machine.KEnd:
		d.going = true
		stay := machine.Action{Kind: machine.SwitchTo, Task: c}
		if c.Allowed(p, stay) {
			return stay, true
		}
		return machine.Action{}, true
	}
	d.take(c, p)
	return machine.Action{}, true
}

// Pick takes the next step when a handler on an idle CPU has returned.
func (d *Orders) Pick() machine.Action {
	if d.err != nil || d.blocked {
		return machine.Action{}
	}
	for {
		if d.want < 0 && !d.choose() {
			return machine.Action{}
		}
		q := &d.table.procs[d.want]
		h := q.handler
		switch {
		case q.of >= 0 && q.task.Over():
			d.nothing(q)
			continue
		case h != nil && h.Host() == nil:
			d.deliver(h)
			return machine.Action{Kind: machine.Interrupt, Handler: h}
		case h != nil:
			return machine.Action{Kind: machine.Interrupt, Handler: h}
		}
		t := q.task
		d.going = q.of < 0 && between(t)
		if cur := t.CPU().Current(); cur != nil {
			t = cur
		}
		return machine.Action{Kind: machine.SwitchTo, Task: t}
	}
}

// deliver enters the delivery of a handler.
func (d *Orders) deliver(h *machine.Handler) {
	d.record(event{proc: d.want, places: d.table.places(d.want, h.CPU)})
}

// nothing enters a migration of a task that has ended.
func (d *Orders) nothing(q *process) {
	d.record(event{proc: d.want, places: 1 << uint(chainBit+q.of)})
}

// between says whether t's next step is to begin a line.
func between(t *machine.Ctx) bool { return !t.InLine() && t.Kind() == machine.KEnd }

// take enters the step that c goes on to make.
func (d *Orders) take(c *machine.Ctx, p machine.Point) {
	d.record(event{proc: d.want, places: d.table.places(d.want, c.CPUID()),
		waited: p.Kind == machine.KWait})
}

// handle is the next step of a handler: its delivery, or one of its own.
func (d *Orders) handle(c *machine.Ctx, p machine.Point, h *machine.Handler) (
	machine.Action, bool) {
	host := h.Host()
	if host == c {
		d.take(c, p)
		return machine.Action{}, true
	}
	a := machine.Action{Kind: machine.Interrupt, Handler: h}
	if host == nil {
		d.deliver(h)
	} else if !c.Allowed(p, a) {
		return d.toward(c, p, host), true
	}
	return a, true
}

// move is the step of a migration: nothing when the task has ended.
func (d *Orders) move(c *machine.Ctx, p machine.Point, q *process) (machine.Action, bool) {
	t := q.task
	if t.Over() {
		d.nothing(q)
		return machine.Action{}, false
	}
	if t != c {
		return d.toward(c, p, t), true
	}
	d.record(event{proc: d.want,
		places: d.table.places(d.want, c.CPUID()) | 1<<uint(q.cpu)})
	return machine.Action{Kind: machine.Move, CPU: q.cpu}, true
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
	return a // the machine says what is wrong
}
