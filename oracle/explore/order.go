package explore

import "allocfuzz/impls/machine"

// An event is a step as it happened in a run.
type event struct {
	proc    int
	places  uint64
	from    int // accesses in the run's list
	to      int
	able    set  // who could run just before it
	fixed   bool // nobody chose it
	sync    bool
	moved   bool // a migration, which both CPUs have to permit
	inLine  bool // and that in the middle of a line
	target  int  // CPU of the migration
	behind  bool // everything before it came first: its process had a migration to make
	returns bool // nobody else can come before it: the return of a handler on an idle CPU
	admits  bool // the CPU that the run's migration goes to took a task in the middle of a line
	waited  bool // the end of a wait: it cannot come before what it waited for
}

// step is the event as a step, with its accesses out of all: it lasts as long as they do.
func (e *event) step(acc []machine.Access) step {
	return step{proc: e.proc, places: e.places, sync: e.sync || e.behind, moved: e.moved,
		acc: acc[e.from:e.to]}
}

// order is the happens-before relation of a run, by vector clocks: of each event and process,
// how many of the process's events come before it or are it. It is kept three times: whole,
// without the edges between the steps of one place, and without those from the release of a
// lock to its next acquisition.
type order struct {
	procs  int
	whole  []int32
	noCPU  []int32
	noRel  []int32
	nth    []int32              // of each event: its number in its process, from 1
	last   []int                // of each process: its last event, -1 none
	prev   int                  // of the event entered last: its process's before it, -1 none
	placed [machine.MaxCPUs]int // of each place: its last event
	synced int                  // the last event that everything behind comes after, -1 none
	objs   map[uint64]*object
	spare  []*object
	preds  []edge // of the event entered last
	locks  []int  // who had the locks that it takes, before it
}

// An object is what is known of one while a run is gone through.
type object struct {
	write int   // last event that was no read
	reads []int // since then
	held  int   // last event that was neither read nor release
	kind  machine.AccessKind
}

// An edge is a direct predecessor of an event.
type edge struct {
	from int
	kind edgeKind
}

type edgeKind uint8

const (
	program edgeKind = iota
	conflict
	place
	release // of a lock, to who takes it next
)

func (o *order) reset(procs, events int) {
	o.procs = procs
	n := procs * events
	if cap(o.whole) < n {
		o.whole, o.noCPU, o.noRel = make([]int32, 2*n), make([]int32, 2*n), make([]int32, 2*n)
	}
	o.whole, o.noCPU, o.noRel = o.whole[:n], o.noCPU[:n], o.noRel[:n]
	o.nth, o.last = o.nth[:0], o.last[:0]
	for range procs {
		o.last = append(o.last, -1)
	}
	for i := range o.placed {
		o.placed[i] = -1
	}
	if o.objs == nil {
		o.objs = map[uint64]*object{}
	}
	//tidy:maporder all go to the spare ones, which are alike
	for k, x := range o.objs {
		o.spare = append(o.spare, x)
		delete(o.objs, k)
	}
	o.synced = -1
}

func (o *order) object(n uint64) *object {
	x := o.objs[n]
	if x != nil {
		return x
	}
	if k := len(o.spare); k > 0 {
		x, o.spare = o.spare[k-1], o.spare[:k-1]
	} else {
		x = &object{}
	}
	x.write, x.held, x.reads = -1, -1, x.reads[:0]
	o.objs[n] = x
	return x
}

// before says whether event e comes before event f, or is it, by clocks.
func (o *order) before(clocks []int32, e, proc, f int) bool {
	return clocks[f*o.procs+proc] >= o.nth[e]
}

// add enters event j, whose accesses are acc, and leaves its direct predecessors in preds.
func (o *order) add(events []event, j int, acc []machine.Access) {
	e := &events[j]
	o.preds, o.locks = o.preds[:0], o.locks[:0]
	n := int32(1)
	o.prev = o.last[e.proc]
	if l := o.prev; l >= 0 {
		n = o.nth[l] + 1
		o.preds = append(o.preds, edge{l, program})
	}
	o.nth = append(o.nth, n)
	each(e.places, func(k int) {
		if o.placed[k] >= 0 && events[o.placed[k]].proc != e.proc {
			o.preds = append(o.preds, edge{o.placed[k], place})
		}
		o.placed[k] = j
	})
	for i := range acc {
		o.access(events, j, &acc[i])
	}
	if e.sync || e.behind {
		for _, l := range o.last {
			if l >= 0 {
				o.preds = append(o.preds, edge{l, program})
			}
		}
	}
	if e.sync {
		o.synced = j
	} else if o.synced >= 0 {
		o.preds = append(o.preds, edge{o.synced, program})
	}
	o.join(j, e.proc, n)
	o.last[e.proc] = j
}

// access finds the predecessors of event j on one object, and enters it there.
func (o *order) access(events []event, j int, a *machine.Access) {
	x := o.object(a.Object)
	if a.Kind == machine.Reads {
		o.after(events, j, x.write, conflict)
		x.reads = append(x.reads, j)
		return
	}
	kind := conflict
	if a.Kind == machine.Acquires && x.kind == machine.Releases {
		kind = release
	}
	o.after(events, j, x.write, kind)
	for _, r := range x.reads {
		o.after(events, j, r, conflict)
	}
	if a.Kind == machine.Acquires && x.held >= 0 {
		o.locks = append(o.locks, x.held)
	}
	if a.Kind != machine.Releases {
		x.held = j
	}
	x.write, x.reads, x.kind = j, x.reads[:0], a.Kind
}

// after enters an edge to event j. Between two events of one place it is one of the place, whatever
// else they share.
func (o *order) after(events []event, j, from int, kind edgeKind) {
	if from < 0 || from == j {
		return
	}
	if events[from].places&events[j].places != 0 {
		kind = place
	}
	o.preds = append(o.preds, edge{from, kind})
}

// races calls f for every event that event j, entered last, could come before, though it came
// behind it and depends on it.
func (o *order) races(events []event, j int, f func(e int)) {
	q := &events[j]
	if q.sync || q.fixed || q.behind {
		return
	}
	try := func(e int) {
		// What its process did before must be possible without e: inside a lock that whoever
		// made e held outside of it, it is not.
		if o.prev <= e || !o.before(o.whole, e, events[e].proc, o.prev) {
			f(e)
		}
	}
	for i := range o.preds {
		d := &o.preds[i]
		e := &events[d.from]
		if d.kind == conflict && !q.waited && e.proc != q.proc && e.places&q.places == 0 &&
			o.adjacent(events, i) {
			try(d.from)
		}
	}
	each(q.places, func(k int) {
		if e := o.lift(events, j, k); e >= 0 && !o.before(o.noCPU, e, events[e].proc, j) {
			try(e)
		}
	})
	for _, e := range o.locks {
		p := &events[e]
		if p.proc != q.proc && p.places&q.places == 0 && !o.before(o.noRel, e, p.proc, j) {
			try(e)
		}
	}
}

// holder is the event that an acquisition of a lock by a process would have to come before, were it
// possible: that of whoever has the lock when the run ends in a deadlock; -1 when there is none.
func (o *order) holder(events []event, s *step) int {
	x := o.objs[s.acc[0].Object]
	if x == nil || x.held < 0 {
		return -1
	}
	e, l := x.held, o.last[s.proc]
	p := &events[e]
	if p.proc == s.proc || p.places&s.places != 0 || l >= 0 && (o.before(o.noRel, e, p.proc, l) ||
		l > e && o.before(o.whole, e, p.proc, l)) {
		return -1
	}
	return e
}

// adjacent says whether nothing lies between the event entered last and its predecessor i, and
// that is no release of a lock that it takes.
func (o *order) adjacent(events []event, i int) bool {
	e := o.preds[i].from
	for k, d := range o.preds {
		if d.from == e {
			if d.kind == release {
				return false
			}
			continue
		}
		if k != i && o.before(o.whole, e, events[e].proc, d.from) {
			return false
		}
	}
	return true
}

// lift finds the last event at place k, behind the last one of event j's own process, at which
// that process could have run instead; -1 when there is none. A migration has two places, which
// are looked at one by one.
func (o *order) lift(events []event, j, k int) int {
	q := &events[j]
	for i := j - 1; i >= 0; i-- {
		e := &events[i]
		switch {
		case e.places>>uint(k)&1 == 0:
		case e.proc == q.proc:
			return -1
		case q.permitted(e, k):
			if e.fixed {
				return -1
			}
			return i
		}
	}
	return -1
}

// permitted says whether CPU k permitted q, which came later, when event e of that CPU came.
func (q *event) permitted(e *event, k int) bool {
	if q.moved && k == q.target {
		return !e.returns && (!q.inLine || e.admits)
	}
	return e.able.has(q.proc)
}

// join makes the clocks of event j from those of its predecessors.
func (o *order) join(j, proc int, n int32) {
	p := o.procs
	w, c, r := o.whole[j*p:j*p+p], o.noCPU[j*p:j*p+p], o.noRel[j*p:j*p+p]
	clear(w)
	clear(c)
	clear(r)
	for _, d := range o.preds {
		upTo(w, o.whole[d.from*p:])
		if d.kind != place {
			upTo(c, o.noCPU[d.from*p:])
		}
		if d.kind != release {
			upTo(r, o.noRel[d.from*p:])
		}
	}
	w[proc], c[proc], r[proc] = n, n, n
}

// upTo makes each count of a at least that of b.
func upTo(a, b []int32) {
	for i := range a {
		a[i] = max(a[i], b[i])
	}
}
