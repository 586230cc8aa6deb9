package search

import (
	"context"
	"slices"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// Minimised is a schedule that was made smaller.
type Minimised struct {
	Anchors []sched.Anchor
	Finding *oracle.Finding // the same identity as before
	Hash    uint64
	Tries   int // runs
	Before  int // departures of the schedule that was given
	After   int
}

// Minimise takes away what a schedule does not need to show a finding of the same identity: it
// leaves the fewest departures that a search with a small budget finds, each of which is
// needed, as early in its line as it goes. Strictly replayed the schedule is the run it says. When
// ctx ends it leaves what it has by then.
func Minimise(ctx context.Context, p *oracle.Compiled, v *impls.Variant, opt oracle.Options,
	found *Result) (*Minimised, error) {
	anchors, identity := found.Anchors, found.Finding.Identity()
	m := &minimiser{ctx: ctx, b: newBody(p, v, opt), identity: identity}
	defer m.b.close()
	err := guarded(func() error {
		acts := flat(anchors)
		m.out.Before = len(acts)
		if !m.shows(acts) {
			return errLost
		}
		m.thin()
		if err := m.fewest(m.size()-1, fewestMax); err != nil {
			return err
		}
		for last := -1; last != m.size(); { // an earlier place may make another departure needless
			last = m.size()
			m.thin()
			m.earlier()
		}
		m.thin()
		return nil
	})
	m.out.After = m.size()
	return &m.out, err
}

// Recover looks for a schedule of the runs of like that shows its finding again, after the program
// was changed to p: one with no more departures of any sort than like has, of which it makes at
// most most runs. Finding is nil when there is none.
func Recover(ctx context.Context, p *oracle.Compiled, opt oracle.Options, like *Result,
	most int) (*Minimised, error) {
	m := &minimiser{ctx: ctx, b: newBody(p, like.Subject, opt), identity: like.Finding.Identity()}
	defer m.b.close()
	m.out.Anchors, m.out.Before = like.Anchors, len(flat(like.Anchors))
	err := guarded(func() error { return m.fewest(m.size(), most) })
	m.out.After = m.size()
	return &m.out, err
}

// errLost says that a finding did not repeat.
var errLost = explore.ErrNotDeterministic

type minimiser struct {
	ctx      context.Context
	b        *body
	identity string
	out      Minimised
}

// flat parts anchors so that each has one act.
func flat(anchors []sched.Anchor) []sched.Anchor {
	var out []sched.Anchor
	for i := range anchors {
		for _, act := range anchors[i].Acts {
			a := anchors[i]
			a.Acts = []sched.Act{act}
			out = append(out, a)
		}
	}
	return out
}

// shows says whether departures show the finding, and keeps what was really taken when that is
// no more than before.
func (m *minimiser) shows(acts []sched.Anchor) bool {
	if m.out.Tries++; m.out.Tries > 1 && stopped(m.ctx) {
		return false // what there is is good enough
	}
	m.b.Run(sched.NewReplay(sched.Repair, acts))
	f := m.b.res.Finding()
	if f == nil || f.Identity() != m.identity {
		return false
	}
	m.out.Anchors, m.out.Finding, m.out.Hash = m.b.runner.Recorded(), f, m.b.res.Hash
	return true
}

// thin takes departures away, many at a time and then each by itself, until every one is needed.
func (m *minimiser) thin() {
	for part := max(1, len(flat(m.out.Anchors))/2); ; part = max(1, part/2) {
		took := false
		for from := 0; ; {
			acts := flat(m.out.Anchors)
			if from >= len(acts) {
				break
			}
			if m.shows(slices.Delete(slices.Clone(acts), from, min(from+part, len(acts)))) {
				took = true
				continue
			}
			from += part
		}
		if part == 1 && !took {
			return
		}
	}
}

// fewestMax bounds the schedules that are tried for one of fewer departures.
const fewestMax = 4000

// size is the number of departures at hand.
func (m *minimiser) size() int { return len(flat(m.out.Anchors)) }

// fewest looks for a schedule of at most so many departures that shows the same.
func (m *minimiser) fewest(departures, left int) error {
	bounds := m.bounds()
	all := &explore.Bounded{Bounds: bounds}
	for total := 0; total <= min(bounds.Total(), departures) && left > 0; total++ {
		shown := false
		_, err := all.Explore(m.b, explore.Unit{Left: bounds}, total,
			func(r *explore.Run, _ []explore.Departure) bool {
				m.out.Tries++
				left--
				f, anchors := m.b.res.Finding(), m.b.runner.Recorded()
				if f != nil && f.Identity() == m.identity && len(flat(anchors)) <= departures {
					m.out.Anchors, m.out.Finding = anchors, f
					m.out.Hash, shown = r.Hash, true
				}
				return !shown && left > 0 && !stopped(m.ctx)
			})
		if err != nil || shown {
			return err
		}
	}
	return nil
}

// bounds are those of the departures at hand.
func (m *minimiser) bounds() explore.Bounds {
	var b explore.Bounds
	for _, a := range flat(m.out.Anchors) {
		switch a.Acts[0].Kind {
		case machine.Interrupt:
			b.Interrupts++
		case machine.FailPages:
			b.Failures++
		case machine.SwitchTo, machine.Move, machine.Hold, machine.Drain:
			b.Preemptions++
		}
	}
	return b
}

// earlier takes each departure at the first attempt of its line that shows the same: a later one
// is lost more easily when the code changes.
func (m *minimiser) earlier() {
	for i := 0; i < len(flat(m.out.Anchors)); i++ {
		acts := flat(m.out.Anchors)
		for n := 1; n < acts[i].N; n++ {
			try := slices.Clone(acts)
			try[i].N = n
			if !m.shows(try) {
				continue
			}
			if len(flat(m.out.Anchors)) <= len(acts) {
				break
			}
			m.shows(acts)
		}
	}
}
