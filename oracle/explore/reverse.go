package explore

// reverse enters into the trees of the states on the way what each race of the run, which is
// complete, asks for: that its second step come before its first.
func (d *Orders) reverse() {
	o := &d.order
	o.reset(len(d.table.procs), len(d.events)+1)
	for j := range d.events {
		if j == d.undoneAt {
			d.reverseUndone()
		}
		e := &d.events[j]
		o.add(d.events, j, d.acc[e.from:e.to])
		o.races(d.events, j, func(f int) { d.plan(f, j, d.step(j)) })
	}
	if d.undoneAt == len(d.events) {
		d.reverseUndone()
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
	if then.moved && !d.permit(f, j) {
		return
	}
	for k := f + 1; k < j; k++ {
		if !d.behind(k) {
			d.v = append(d.v, d.step(k))
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

// behind says whether event k comes after one of those that are cut out.
func (d *Orders) behind(k int) bool {
	for _, c := range d.cut {
		if d.order.before(d.order.whole, c, d.events[c].proc, k) {
			return true
		}
	}
	return false
}
