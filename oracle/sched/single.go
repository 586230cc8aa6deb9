package sched

import "allocfuzz/impls/machine"

// A Survey is a Chooser that departs nowhere and counts, for every point of a
// run, the departures that would be allowed there.
type Survey struct {
	binding Binding
	Allowed []int // by number of the point, from 0
	acts    []machine.Action
}

// Bind starts a run.
func (s *Survey) Bind(b *Binding) {
	s.binding = *b
	s.Allowed = s.Allowed[:0]
}

// Choose counts and goes on.
func (s *Survey) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	s.acts = s.binding.Departures(s.acts[:0], c, p)
	s.Allowed = append(s.Allowed, len(s.acts))
	return machine.Action{}
}

// Departures appends every departure that may be taken at p: deliveries of handlers that were
// not delivered yet, or not often enough, switches to who would not go on anyway and has lines
// left, moves, a failing page request, and with store buffers to hold this store back and to
// drain one that was.
func (b *Binding) Departures(out []machine.Action, c *machine.Ctx, p machine.Point) (
	acts []machine.Action) {
	next := c.Next(p)
	for i := range b.Tasks {
		h := b.Handlers[i]
		if h != nil && (b.left(h) || h.Delivered() < max(1, b.Deliveries)) {
			out = offer(out, c, p, machine.Action{Kind: machine.Interrupt, Handler: h})
		}
		if t := b.Tasks[i]; t != nil && t != next && !t.Over() {
			out = offer(out, c, p, machine.Action{Kind: machine.SwitchTo, Task: t})
		}
	}
	if c.Movable() && !c.Over() {
		for cpu := range b.Machine.CPUs {
			out = offer(out, c, p, machine.Action{Kind: machine.Move, CPU: cpu})
		}
	}
	if p.Kind == machine.KPageAlloc {
		out = offer(out, c, p, machine.Action{Kind: machine.FailPages})
	}
	if b.Machine.TSO {
		out = offer(out, c, p, machine.Action{Kind: machine.Hold})
		for cpu := range b.Machine.CPUs {
			out = offer(out, c, p, machine.Action{Kind: machine.Drain, CPU: cpu})
		}
	}
	return out
}

// left says whether h was left in the middle and could go on.
func (b *Binding) left(h *machine.Handler) bool {
	c := h.Host()
	return c != nil && !c.Waits()
}

// offer appends a where it is allowed.
func offer(out []machine.Action, c *machine.Ctx, p machine.Point, a machine.Action) (
	acts []machine.Action) {
	if c.Allowed(p, a) {
		out = append(out, a)
	}
	return out
}

// A Single is a Chooser that departs once: at point Point of the run (from 0) it
// takes the departure number Which of those that are allowed there.
type Single struct {
	Point, Which int
	binding      Binding
	seen         int
	acts         []machine.Action
	taken        bool
}

// Bind starts a run.
func (s *Single) Bind(b *Binding) { s.binding, s.seen, s.taken = *b, 0, false }

// Choose departs at the point it was made for.
func (s *Single) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if s.taken {
		return machine.Action{}
	}
	n := s.seen
	s.seen++
	if n != s.Point {
		return machine.Action{}
	}
	s.taken = true
	s.acts = s.binding.Departures(s.acts[:0], c, p)
	if s.Which >= len(s.acts) {
		return machine.Action{}
	}
	return s.acts[s.Which]
}

// A Random is a Chooser that departs at one point in Every, by a generator that
// Seed starts.
type Random struct {
	Seed    uint64
	Every   uint64
	binding Binding
	state   uint64
	acts    []machine.Action
}

// Bind starts a run.
func (r *Random) Bind(b *Binding) {
	r.binding = *b
	r.binding.Deliveries = 3
	r.state = r.Seed*0x9e3779b97f4a7c15 + 0x632be59bd9b4e019
}

func (r *Random) draw(n uint64) uint64 {
	r.state ^= r.state << 13
	r.state ^= r.state >> 7
	r.state ^= r.state << 17
	return (r.state >> 11) % n
}

// Choose departs by chance.
func (r *Random) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	if r.draw(r.Every) != 0 {
		return machine.Action{}
	}
	r.acts = r.binding.Departures(r.acts[:0], c, p)
	if len(r.acts) == 0 {
		return machine.Action{}
	}
	return r.acts[r.draw(uint64(len(r.acts)))]
}
