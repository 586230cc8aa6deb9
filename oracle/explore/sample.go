package explore

import (
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// A Sampler is a chooser that makes one schedule of a number: the same for the same number.
type Sampler interface {
	machine.Chooser
	sched.Binder
	// Seed sets the number of the next run.
	Seed(n uint64)
}

// A source gives numbers by chance: splitmix64.
type source uint64

func (s *source) next() uint64 {
	*s += 0x9e3779b97f4a7c15
	z := uint64(*s)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below is a number from 0 to n-1.
func (s *source) below(n int) int { return int((s.next() >> 33) * uint64(n) >> 31) }

// A Walk is a random walk: at every step each context that could take it does so with the same
// probability. Within bounds, an interrupt or a failing page request is one more that could; what
// they say of preemptions is not looked at.
type Walk struct {
	Bounds  Bounds
	seed    uint64
	chance  source
	left    Bounds
	binding sched.Binding
	acts    []machine.Action
	going   bool
}

// Seed sets the number of the next run.
func (w *Walk) Seed(n uint64) { w.seed = n }

// Bind starts a run.
func (w *Walk) Bind(b *sched.Binding) {
	w.binding, w.chance, w.left, w.going = *b, source(w.seed), w.Bounds, false
	w.binding.Deliveries = w.Bounds.Deliveries
}

// Choose takes a step by chance.
func (w *Walk) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if w.going {
		w.going = false
		return machine.Action{}
	}
	w.acts = w.binding.Departures(w.acts[:0], c, p)
	n := 0
	for i := range w.acts {
		cost := chargeOf(c, p, &w.acts[i])
		if left := w.left; cost == preemption || left.spend(cost) {
			w.acts[n] = w.acts[i]
			n++
		}
	}
	i := w.chance.below(n + 1)
	if i == n {
		return machine.Action{}
	}
	a := w.acts[i]
	if cost := chargeOf(c, p, &a); cost != preemption {
		w.left.spend(cost)
	}
	// Who was chosen takes a step; where a task was only moved it is drawn for again.
	w.going = a.Kind == machine.SwitchTo || a.Kind == machine.Interrupt
	return a
}

// A PCT is the probabilistic concurrency testing of Burckhardt, Kothari, Musuvathi and
// Nagarakatte (ASPLOS 2010): contexts have priorities by chance, the highest runs, and at
// Depth-1 steps by chance whoever runs falls behind all others. A bug that needs Depth steps in
// order is found with a probability of at least 1/(n·k^(Depth-1)) a run, for n contexts and k
// steps. Of the bounds only that on interrupts is looked at, and no page request fails.
type PCT struct {
	Bounds Bounds
	Depth  int
	seed   uint64

	steps   int // of the run before, which the next one's are taken to be
	at      int
	chance  source
	left    Bounds
	rank    []int // of each context; the higher the earlier
	falls   []int // the steps at which who runs falls behind
	turns   int   // switches in a row that brought no step about
	binding sched.Binding
	acts    []machine.Action
}

// Seed sets the number of the next run.
func (t *PCT) Seed(n uint64) { t.seed = n }

// Length tells how many steps the runs have, as an estimate. It is what makes a run a function
// of its number: the same for all.
func (t *PCT) Length(steps int) { t.steps = steps }

// Bind starts a run.
func (t *PCT) Bind(b *sched.Binding) {
	t.binding, t.chance, t.left, t.at, t.turns = *b, source(t.seed), t.Bounds, 0, 0
	n := len(b.Tasks)
	t.rank = t.rank[:0]
	for i := range n {
		t.rank = append(t.rank, t.Depth+i)
	}
	for i := n - 1; i > 0; i-- {
		j := t.chance.below(i + 1)
		t.rank[i], t.rank[j] = t.rank[j], t.rank[i]
	}
	t.falls = t.falls[:0]
	for range t.Depth - 1 {
		t.falls = append(t.falls, 1+t.chance.below(max(1, t.steps)))
	}
}

// Choose lets the context of the highest rank go on.
func (t *PCT) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	best, bestRank, who := machine.Action{}, -1, -1
	// Without a word c goes on, or at the end of its line and in a wait whoever comes next.
	if next := c.Next(p); next != nil && !next.Waits() {
		who = t.of(next)
		bestRank = t.ranked(who)
	}
	t.acts = t.binding.Departures(t.acts[:0], c, p)
	for i := range t.acts {
		a := &t.acts[i]
		left := t.left
		if a.Kind != machine.SwitchTo && a.Kind != machine.Interrupt ||
			a.Handler != nil && a.Handler.Host() == nil && !left.spend(interrupt) ||
			a.Task != nil && a.Task.Waits() {
			continue
		}
		n := t.binding.Context(a.Task, a.Handler)
		if a.Task != nil {
			n = t.of(a.Task)
		}
		if r := t.ranked(n); r > bestRank {
			best, bestRank = *a, r
		}
	}
	if best.Kind == machine.SwitchTo && t.turns > len(t.rank) {
		best = machine.Action{} // who is switched to may be at the end of its line, and give way
	}
	if best.Kind == machine.Interrupt && best.Handler.Host() == nil {
		t.left.spend(interrupt)
	}
	t.turns++
	if best.Kind == machine.Go {
		t.turns = 0
		t.step(who)
	}
	return best
}

// of is the number of what c runs: its innermost handler, or itself; -1 for an idle context.
func (t *PCT) of(c *machine.Ctx) int {
	if h := c.Running(); h != nil {
		return t.binding.Context(nil, h)
	}
	return t.binding.Context(c, nil)
}

// ranked is the rank of a context by number.
func (t *PCT) ranked(n int) int {
	if n < 0 {
		return -1
	}
	return t.rank[n]
}

// step counts a step of a context, which falls behind at some.
func (t *PCT) step(self int) {
	t.at++
	for i, at := range t.falls {
		if at == t.at && self >= 0 {
			t.rank[self] = i
		}
	}
}
