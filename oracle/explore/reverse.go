package explore

import "allocfuzz/impls/machine"

// reverse enters into the trees of the states on the way what each race of the run, which is
// complete, asks for: that its second step come before its first.
func (d *Orders) reverse() {
	o := &d.order
	o.reset(len(d.table.procs), len(d.events))
	d.steps = d.steps[:0]
	for j := range d.events {
		e := &d.events[j]
		o.add(d.events, j, d.acc[e.from:e.to])
		d.steps = append(d.steps, d.step(j))
		o.races(d.events, j, func(f int) { d.plan(f, j, &d.steps[j]) })
	}
	for _, s := range d.stuck {
		if f := o.holder(d.events, s); f >= 0 {
			d.plan(f, len(d.events), s)
		}
	}
}

// plan enters into the tree before event f what comes behind it before event j and not because
// of it, and then a step.
func (d *Orders) plan(f, j int, then *step) {
	at := &d.nodes[f]
	if at.fixed {
		return
	}
	d.v = d.v[:0]
	d.cut = append(d.cut[:0], f)
	if then.moved && !d.permit(f, j) || d.locked(j, then) {
		return
	}
	for k := f + 1; k < j; k++ {
		if !d.behind(k) {
			d.v = append(d.v, &d.steps[k])
		}
	}
	d.v = append(d.v, then)
	for _, s := range at.sleep {
		if _, ok := begins(s, d.v); ok {
			return
		}
	}
	rest := at.wake[1:] // what is being taken comes before event j
	insert(&rest, d.v)
	at.wake = append(at.wake[:1], rest...)
}

// locked says whether a step takes a lock that is held when what comes before event j has come but
// for what is cut out: its release is, and its holder's step is not.
func (d *Orders) locked(j int, s *step) bool {
	for i := range s.acc {
		if s.acc[i].Kind == machine.Acquires && d.left(j, s.acc[i].Object) == machine.Acquires {
			return true
		}
	}
	return false
}

// left is how an object was touched last before event j, but for what is cut out.
func (d *Orders) left(j int, object uint64) machine.AccessKind {
	for k := j - 1; k >= 0; k-- {
		if a := d.touched(k, object); a != nil && !d.behind(k) {
			return a.Kind
		}
	}
	return machine.Reads
}

// touched is the last access of event k to an object; nil when there is none.
func (d *Orders) touched(k int, object uint64) *machine.Access {
	e := &d.events[k]
	for i := e.to - 1; i >= e.from; i-- {
		if d.acc[i].Object == object {
			return &d.acc[i]
		}
	}
	return nil
}

// behind says whether event k comes after one of those that are cut out.
func (d *Orders) behind(k int) bool {
	for _, c := range d.cut {
		if d.order.before(d.order.whole, c, d.events[c].proc, k) {
			return true
		}
	}
	return false
}
