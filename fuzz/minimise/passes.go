package minimise

import (
	"slices"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/edit"
	"allocfuzz/fuzz/search"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A pass takes one sort of things away.
type pass struct {
	name string
	do   func(m *minimiser)
}

// passes is the order in which things go: what takes most away for a run comes first.
var passes = []pass{
	{"plain", func(m *minimiser) { m.each(edit.Plain) }},
	{"tail", (*minimiser).tail},
	{"closure", (*minimiser).closure},
	{"caches", func(m *minimiser) { m.each(ofOneCache) }},
	{"lines", (*minimiser).lines},
	{"contexts", func(m *minimiser) { m.each(edit.Contexts) }},
	{"options", func(m *minimiser) { m.each(edit.Options) }},
	{"departures", (*minimiser).departures},
	{"machine", func(m *minimiser) { m.each(edit.CPUs); m.each(edit.Machine) }},
	{"declarations", func(m *minimiser) { m.each(edit.Declarations) }},
	{"numbers", (*minimiser).numbers},
}

// last are the dearer ones, for a program from which the others take nothing more.
var last = []pass{
	{"schedule", (*minimiser).schedule},
	{"shifted", (*minimiser).shifted},
}

// reduce makes the passes until none takes anything away.
func (m *minimiser) reduce() {
	for m.round(passes) || m.round(last) {
	}
	m.renamed()
	m.out.Minimal = !m.over()
}

// round makes some passes and says whether the program is another one.
func (m *minimiser) round(list []pass) bool {
	before := m.best
	for i := range list {
		list[i].do(m)
		if m.opt.Progress != nil {
			m.opt.Progress(Progress{list[i].name, SizeOf(m.best.prog), m.out.Tries})
		}
	}
	return m.best != before && !m.over()
}

// cut tries one cut of the best program.
func (m *minimiser) cut(k *edit.Cut) bool { return m.try(k.Apply(m.best.prog)) }

// each tries every cut of a sort. After one that works the list is another, and goes on at the same
// place.
func (m *minimiser) each(list func(*prog.Program) []edit.Cut) {
	cuts := list(m.best.prog)
	for i := 0; i < len(cuts) && !m.over(); {
		if m.cut(&cuts[i]) {
			cuts = list(m.best.prog)
			continue
		}
		i++
	}
}

// tail leaves out what stands behind the line that fails, as far as the file goes, but for checks
// when they cannot go with it.
func (m *minimiser) tail() {
	all := edit.Lines(m.best.prog)
	n := slices.Index(all, m.best.failing)
	if n < 0 || n == len(all)-1 {
		return
	}
	k := edit.Without(all[n+1:]...)
	if m.cut(&k) {
		return
	}
	k = edit.Without(slices.DeleteFunc(all[n+1:], func(l *prog.Line) bool {
		return l.Verb == prog.Check
	})...)
	m.cut(&k)
}

// closure leaves out what has nothing to do with the line that fails: at once whatever shares no
// name with it or with what shares one, or if that is too much what is of other caches.
func (m *minimiser) closure() {
	for _, related := range []func(*prog.Line) []string{namesOf, cachesOf} {
		if m.best.failing == nil {
			return
		}
		k := outside(m.best, related)
		if len(k.Drop) > 0 && m.cut(&k) {
			return
		}
	}
}

// outside leaves out the lines that what related gives does not join with the failing one.
func outside(s *shown, related func(*prog.Line) []string) edit.Cut {
	lines, in, have := edit.Lines(s.prog), map[*prog.Line]bool{}, map[string]bool{}
	take := func(l *prog.Line) {
		in[l] = true
		for _, name := range related(l) {
			have[name] = true
		}
	}
	take(s.failing)
	for again := true; again; {
		again = false
		for _, l := range lines {
			joined := slices.ContainsFunc(related(l), func(n string) bool { return have[n] })
			if joined && !in[l] {
				take(l)
				again = true
			}
		}
	}
	k := edit.Cut{Drop: map[*prog.Line]bool{}}
	for _, l := range lines {
		if !in[l] && l.Verb != prog.Repeat && l.Verb != prog.Check {
			k.Drop[l] = true
		}
	}
	return k
}

// namesOf are the objects that a line binds or uses.
func namesOf(l *prog.Line) []string { return append(slices.Clone(l.Results), l.Slots...) }

// cachesOf is the cache of a line, with a sign for it in what makes one; those without one are of
// one sort.
func cachesOf(l *prog.Line) []string {
	switch {
	case l.Verb == prog.Create:
		return l.Results
	case l.Cache != "":
		return []string{l.Cache}
	}
	return []string{""}
}

// ofOneCache leaves out all lines of other caches than one, or all lines of one. What is without a
// cache counts as one.
func ofOneCache(p *prog.Program) []edit.Cut {
	var order []string
	of := map[string][]*prog.Line{}
	for _, l := range edit.Lines(p) {
		if l.Verb == prog.Repeat || l.Verb == prog.Check {
			continue
		}
		name := cachesOf(l)[0]
		if of[name] == nil {
			order = append(order, name)
		}
		of[name] = append(of[name], l)
	}
	var others, out []edit.Cut
	for _, name := range order {
		k := edit.Cut{Drop: map[*prog.Line]bool{}}
		for _, other := range order {
			for _, l := range of[other] {
				k.Drop[l] = other != name
			}
		}
		others, out = append(others, k), append(out, edit.Without(of[name]...))
	}
	if len(order) < 2 {
		return nil
	}
	return append(others, out...)
}

// lines leaves out runs of lines, from the end, first long ones and at last single ones until each
// is needed.
func (m *minimiser) lines() {
	for size := (len(edit.Lines(m.best.prog)) + 1) / 2; !m.over(); size = max(1, size/2) {
		took := false
		for end := len(edit.Lines(m.best.prog)); end > 0 && !m.over(); {
			all := edit.Lines(m.best.prog)
			end = min(end, len(all))
			from := max(0, end-size)
			k := edit.Without(all[from:end]...)
			took = m.cut(&k) || took
			end = from
		}
		if size <= 1 && !took {
			return
		}
	}
}

// departures leaves out all departures, half of them and so on to single actions, and has those
// that stay be at the first attempt of their line.
func (m *minimiser) departures() {
	m.split()
	for part := max(1, m.size()/2); !m.over(); part = max(1, part/2) {
		took := false
		for from := 0; from < m.size() && !m.over(); {
			k := edit.Cut{Depart: acting(from, from+part)}
			if m.cut(&k) {
				took = true
				continue
			}
			from += part
		}
		if part == 1 && !took {
			break
		}
	}
	for i := 0; len(m.best.prog.Scheds) > 0 && i < len(m.best.prog.Scheds[0].Departures); i++ {
		m.earlier(i)
	}
}

// split tries line order.
func (m *minimiser) split() {
	if m.size() > 0 {
		m.cut(&edit.Departures(m.best.prog)[0])
	}
}

// size is the number of actions of the schedule.
func (m *minimiser) size() int { return SizeOf(m.best.prog).Departures }

// acting leaves out the actions of these numbers, counted over all departures.
func acting(from, to int) func(int, *prog.Departure) bool {
	at := 0
	return func(_ int, d *prog.Departure) bool {
		keep := d.Actions[:0]
		for _, a := range d.Actions {
			if at < from || at >= to {
				keep = append(keep, a)
			}
			at++
		}
		d.Actions = keep
		return len(keep) > 0
	}
}

// earlier moves departure i to the first attempt that shows the bug: a later one is lost more
// easily when the code changes.
func (m *minimiser) earlier(i int) {
	for n := 1; !m.over() && len(m.best.prog.Scheds) > 0; n++ {
		list := m.best.prog.Scheds[0].Departures
		if i >= len(list) || n >= list[i].N {
			return
		}
		k := edit.Cut{Depart: func(at int, d *prog.Departure) bool {
			if at == i {
				d.N = n
			}
			return true
		}}
		if m.cut(&k) {
			return
		}
	}
}

// numbers makes each number the usual one, or the smallest for which the bug shows, as far as
// halving finds it.
func (m *minimiser) numbers() {
	for i := 0; !m.over(); i++ {
		list := edit.Numbers(m.best.prog)
		if i >= len(list) {
			return
		}
		m.number(i, list[i])
	}
}

// number searches number i between 1 and the value that shows the bug.
func (m *minimiser) number(i int, number edit.Number) {
	good := number.Value
	at := func(n uint64) bool {
		list := edit.Numbers(m.best.prog)
		return i < len(list) && m.cut(list[i].With(n))
	}
	if good == number.Usual || at(number.Usual) || at(1) {
		return
	}
	for bad := uint64(1); good-bad > 1 && !m.over(); {
		mid := bad + (good-bad)/2
		if at(mid) {
			good = mid
		} else {
			bad = mid
		}
	}
}

// scheduled says whether a schedule can be searched for: of one subject in this process.
func (m *minimiser) scheduled() (*alone, bool) {
	a, ok := m.judge.(*alone)
	return a, ok && m.size() > 0 && !m.over()
}

// schedule looks for fewer departures that show the same.
func (m *minimiser) schedule() {
	a, ok := m.scheduled()
	if !ok {
		return
	}
	c, anchors := m.compiled(m.best.prog)
	found, err := search.Minimise(m.ctx, c, a.v, a.opt,
		&search.Result{Anchors: anchors, Finding: m.best.finding})
	m.out.Tries += found.Tries
	if err != nil || actions(found.Anchors) >= m.size() {
		return
	}
	m.take(c, a, found.Anchors)
}

// compiled is a program that was run, with its departures.
func (m *minimiser) compiled(q *prog.Program) (*oracle.Compiled, []sched.Anchor) {
	c, err := oracle.Compile(q)
	if err != nil {
		panic("allocfuzz: a program that ran does not compile: " + err.Error())
	}
	anchors, err := anchorsOf(c)
	if err != nil {
		panic("allocfuzz: a schedule that ran does not resolve: " + err.Error())
	}
	return c, anchors
}

// take tries another schedule of a program.
func (m *minimiser) take(c *oracle.Compiled, a *alone, anchors []sched.Anchor) bool {
	q := *c.Prog
	q.Scheds = blocks(c, a.v.Name, anchors)
	return m.try((&edit.Cut{}).Apply(&q))
}

// actions counts the acts of anchors.
func actions(anchors []sched.Anchor) int {
	n := 0
	for i := range anchors {
		n += len(anchors[i].Acts)
	}
	return n
}

// shiftedMax bounds the schedules that are tried for all lines, in equal parts.
const shiftedMax = 4000

// shifted leaves out each line with a new schedule: its loss may have done no more than to move
// the others.
func (m *minimiser) shifted() {
	for i := 0; i < len(edit.Lines(m.best.prog)); {
		a, ok := m.scheduled()
		if !ok {
			return
		}
		_, like := m.compiled(m.best.prog)
		k := edit.Without(edit.Lines(m.best.prog)[i])
		q := k.Apply(m.best.prog)
		if q == nil || !m.recovered(q, a, like) {
			i++
		}
	}
}

// recovered looks for a schedule of a smaller program that shows the bug.
func (m *minimiser) recovered(q *prog.Program, a *alone, like []sched.Anchor) bool {
	q.Scheds = nil
	c, err := oracle.Compile(q)
	if err != nil {
		return false
	}
	if ok, _ := oracle.Applies(c, a.v); !ok {
		return false
	}
	found, err := search.Recover(m.ctx, c, a.opt,
		&search.Result{Subject: a.v, Anchors: like, Finding: m.best.finding},
		shiftedMax/SizeOf(m.best.prog).Lines)
	m.out.Tries += found.Tries
	return err == nil && found.Finding != nil && m.take(c, a, found.Anchors)
}
