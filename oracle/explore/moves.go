package explore

// This file is what a search of orders does about migrations.

// Moved is a migration: of the task of that number of context, to a CPU, before its step of that
// number.
type Moved struct{ Task, CPU, Before int }

// migrations are all that one run may have, by the lengths of those without.
func (d *Orders) migrations() []Moved {
	var all []Moved
	for task := range d.table.procs {
		p := &d.table.procs[task]
		for cpu := 0; p.movable && cpu < d.table.cpus; cpu++ {
			for before := 2; before <= d.longest[task] && cpu != p.home; before++ {
				all = append(all, Moved{task, cpu, before})
			}
		}
	}
	return all
}

// measure notes how many steps each process made.
func (d *Orders) measure() {
	for i := range d.table.procs {
		if i == len(d.longest) {
			d.longest = append(d.longest, 0)
		}
		if d.move == nil {
			d.longest[i] = max(d.longest[i], d.table.procs[i].steps)
		}
	}
}

// idle says whether the migration of the last run was not made, since its task had fewer steps.
func (d *Orders) idle() bool { return d.move != nil && d.table.procs[d.move.Task].move != nil }

// giveUp says that the migration of the run does not take place, since nobody else can run and it
// is not possible: its task goes on, so that all that others do without it is seen. False when
// there is none.
func (d *Orders) giveUp() bool {
	if d.move == nil || !d.table.procs[d.move.Task].moves() {
		return false
	}
	d.table.procs[d.move.Task].stays = true
	d.gaveUp = true
	return true
}

// permit cuts out what else has to come behind migration j so that both CPUs permit it where
// event f was: f is on one of them, and on the other one the events that come because of f are
// missing, behind which alone it may have been permitted. False when it cannot be.
func (d *Orders) permit(f, j int) bool {
	m := &d.events[j]
	ok := true
	each(m.places&^d.events[f].places, func(cpu int) {
		on := func(k int) bool { return d.events[k].places>>uint(cpu)&1 != 0 }
		k := f + 1
		for k < j && !(on(k) && d.behind(k)) {
			k++
		}
		for k > f && !(on(k) && m.permitted(&d.events[k], cpu)) {
			k--
			ok = ok && !(on(k) && d.events[k].proc == m.proc)
		}
		ok = ok && k > f
		if k < j {
			d.cut = append(d.cut, k)
		}
	})
	own := d.order.prev
	return ok && (own <= f || !d.behind(own))
}
