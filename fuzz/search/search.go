package search

import (
	"context"
	"errors"
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// A search is one under way.
type search struct {
	ctx  context.Context
	opt  Options
	p    *oracle.Compiled
	v    *impls.Variant
	res  *Result
	sum  tally // of all that was searched
	left int   // schedules that may still be made, -1 for any number
	// refused says that schedules beyond the bounds were left out.
	refused bool
}

// Run searches the schedules of a program on a subject. It ends early when ctx does, with what
// it has then. An error is one of the harness or a refusal of the strategy, with its reason.
func Run(ctx context.Context, p *oracle.Compiled, v *impls.Variant, opt Options) (
	*Result, error) {
	res := &Result{Subject: v, Strategy: opt.Strategy, Bounds: opt.Bounds}
	if err := opt.Check(); err != nil {
		return res, err
	}
	if ok, why := oracle.Applies(p, v); !ok {
		res.Left = why
		return res, nil
	}
	if v.New == nil {
		res.Left = "remote: its steps cannot be chosen"
		return res, nil
	}
	s := &search{ctx: ctx, opt: opt, p: p, v: v, res: res, left: -1,
		sum: tally{states: states{}}}
	if opt.Max > 0 {
		s.left = opt.Max
	}
	err := s.strategy(opt.Strategy)
	if k, _ := opt.Strategy.kind(); k.proves {
		res.Done = res.Complete
	} else {
		res.Complete, res.Exhausted = false, false
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", v.Name, err)
	}
	return res, err
}

func (s *search) strategy(k Strategy) error {
	switch k {
	case Bound:
		return s.bounded(s.opt.Bounds)
	case DPOR:
		return s.orders(explore.Optimal)
	case Sleep:
		return s.orders(explore.SleepSets)
	case Naive:
		return s.orders(explore.Naive)
	case Guided:
		return s.guided(s.chanceRuns())
	case Portfolio:
		return s.portfolio()
	}
	return s.chance(k, s.opt.Depth, s.chanceRuns())
}

// chanceRuns is the number of schedules that a strategy by chance makes.
func (s *search) chanceRuns() int {
	if s.left >= 0 {
		return s.left
	}
	return ChanceRuns
}

// portfolio shares the schedules between strategies. It begins with the cheapest bound.
func (s *search) portfolio() error {
	total := s.chanceRuns()
	near := s.opt.Bounds
	near.Preemptions, near.Interrupts = min(near.Preemptions, 1), min(near.Interrupts, 1)
	near.Failures = min(near.Failures, 1)
	if s.left = total / 2; s.left == 0 {
		s.left = 1
	}
	if err := s.bounded(near); err != nil || s.done() {
		return err
	}
	rest := max(0, total-s.res.Schedules)
	s.left = -1
	for _, share := range []struct {
		k     Strategy
		depth int
	}{{PCT, 2}, {PCT, 3}, {PCT, 4}, {Random, 0}} {
		if err := s.chance(share.k, share.depth, rest/5); err != nil || s.done() {
			return err
		}
	}
	return s.guided(rest / 5)
}

// done says whether the search has what it was made for, or was ended.
func (s *search) done() bool { return stopped(s.ctx) || s.res.Finding != nil && !s.opt.All }

// level adds what one number of departures, or one strategy, gave.
func (s *search) level(name string, departures int, t *tally, complete bool) {
	s.sum.join(t)
	s.res.fill(&s.sum)
	s.res.Levels = append(s.res.Levels, Level{Name: name, Departures: departures,
		Schedules: t.schedules, Found: t.found, Complete: complete})
}

// orders searches all orders of steps, and with Options.Moves those with one migration.
func (s *search) orders(r explore.Reduction) error {
	if s.opt.Bounds.Failures > 0 {
		return errNoFailures
	}
	b := newBody(s.p, s.v, s.opt.Run)
	defer b.close()
	t, done, err := s.ordersWith(b, &explore.Orders{Reduction: r, Moves: s.opt.Moves})
	s.level(r.String(), -1, t, done)
	s.res.Complete, s.res.Exhausted = done, done && len(movable(s.p)) == 0
	return err
}

var errNoFailures = errors.New("the search of orders knows no failing page requests: search " +
	"with a bound")

// movable are the tasks that may change their CPU, by number of context.
func movable(p *oracle.Compiled) []int {
	var tasks []int
	for i := range p.Ctxs {
		if p.Ctxs[i].Ctx.Kind == prog.TaskCtx && p.Config.CPUs > 1 {
			tasks = append(tasks, i)
		}
	}
	return tasks
}

func (s *search) ordersWith(b *body, o *explore.Orders) (t *tally, done bool, err error) {
	t = &tally{}
	var check error
	err = guarded(func() error {
		sum, err := o.Explore(b, func(r *explore.Run, complete bool) bool {
			if r.Bad && o.Unfair() && endless(b.res) {
				if complete { // else it counts as begun in vain already
					t.unfair++
				}
				r.Bad, complete = false, false
			}
			if complete {
				t.add(r, b)
			} else {
				t.begun(r, b)
			}
			if r.Bad && !s.opt.All || !s.allow() {
				return false
			}
			s.progress(t)
			check = b.again(r)
			return check == nil
		})
		t.redundant = sum.Redundant + sum.Idle + t.unfair
		done = sum.Done
		return errors.Join(err, check)
	})
	return t, done && err == nil, err
}

// endless says whether all that is wrong with a run is that an operation found no end. Where
// somebody else was kept from running, that is the schedule's fault.
func endless(res *oracle.Result) bool {
	for i := range res.Faults {
		if res.Faults[i].Title != fault.NoProgress {
			return false
		}
	}
	return true
}

// allow takes one off the schedules that may be made; false when there are no more, or the
// search was ended.
func (s *search) allow() bool {
	if s.left > 0 {
		s.left--
	}
	return s.left != 0 && !stopped(s.ctx)
}

// progressEvery is the number of schedules between two words about progress.
const progressEvery = 1024

func (s *search) progress(t *tally) {
	if s.opt.Progress == nil || t.schedules%progressEvery != 0 {
		return
	}
	s.opt.Progress(Progress{Subject: s.v, Departures: -1,
		Schedules: s.res.Schedules + t.schedules, Points: s.res.Points + t.points})
}
