package search

import (
	"sync"
	"sync/atomic"

	"allocfuzz/oracle/explore"
)

// unitDepth is the number of departures by which the schedules of one number of them are parted.
const unitDepth = 2

// bounded searches all schedules of 0, 1, 2, … departures within bounds. One with a finding
// stops it behind the schedules of as many departures that come before it.
func (s *search) bounded(bounds explore.Bounds) error {
	from := 0
	if st := s.opt.Resume; st != nil {
		from = s.resume(st)
	}
	for total := from; total <= bounds.Total(); total++ {
		n, complete, err := s.layer(bounds, total)
		if err != nil || !complete {
			return err
		}
		made := s.res.Levels[len(s.res.Levels)-1].Schedules
		if n == 0 || s.opt.Shards == 1 && made == 0 { // nor are there any of more departures
			s.res.Complete = true
			s.res.Exhausted = s.opt.Shards == 1 && !s.refused
			return nil
		}
		if s.done() {
			return nil
		}
	}
	s.res.Complete = true
	return nil
}

// A layer is the schedules of one number of departures under way.
type layer struct {
	*search
	bounds  explore.Bounds
	total   int
	refused atomic.Bool // schedules beyond the bounds were left out
	units   []explore.Unit
	parts   int      // of all shards
	tallies []*tally // of each unit, nil while it was not ended
	next    atomic.Int64
	stop    atomic.Int64 // the first unit with a finding; those behind it are not searched
	made    atomic.Int64 // schedules
	points  atomic.Uint64
	ended   atomic.Int64 // units
	mu      sync.Mutex   // guards failed, and calls of Progress and Checkpoint
	failed  error
}

// layer searches the schedules of total departures. It returns the number of its parts, those of
// other shards too.
func (s *search) layer(bounds explore.Bounds, total int) (parts int, complete bool, err error) {
	l := &layer{search: s, bounds: bounds, total: total}
	if err := l.plan(); err != nil {
		return 0, false, err
	}
	l.stop.Store(int64(len(l.units)))
	if err := l.takeUp(); err != nil {
		return 0, false, err
	}
	var wait sync.WaitGroup
	workers := min(s.opt.Parallel, max(1, len(l.units)))
	if l.left >= 0 {
		workers = 1 // or which ones are made would depend on who is quicker
	}
	for range workers {
		wait.Go(l.work)
	}
	wait.Wait()
	complete = l.gather()
	s.refused = s.refused || l.refused.Load()
	return l.parts, complete, l.failed
}

// plan parts the schedules, and takes this shard's.
func (l *layer) plan() error {
	b := newBody(l.p, l.v, l.opt.Run)
	defer b.close()
	all := &explore.Bounded{Bounds: l.bounds}
	return guarded(func() error {
		units, err := all.Units(b, l.total, unitDepth)
		l.parts = len(units)
		l.search.refused = l.search.refused || all.Refused()
		for i := range units {
			if i%l.opt.Shards == l.opt.Shard {
				l.units = append(l.units, units[i])
			}
		}
		l.tallies = make([]*tally, len(l.units))
		return err
	})
}

// work searches one unit after the other until none is left.
func (l *layer) work() {
	b := newBody(l.p, l.v, l.opt.Run)
	defer b.close()
	all := &explore.Bounded{Bounds: l.bounds, Check: checkEvery}
	for {
		i := l.next.Add(1) - 1
		if i >= int64(len(l.units)) || i > l.stop.Load() || l.over() {
			return
		}
		if l.tallies[i] != nil {
			continue
		}
		t, err := l.unit(b, all, int(i))
		if all.Refused() {
			l.refused.Store(true)
		}
		if err != nil {
			l.fail(err)
			return
		}
		if t != nil {
			l.mu.Lock()
			l.tallies[i] = t
			l.ended.Add(1)
			if l.ended.Load()%saveEvery == 0 {
				l.save()
			}
			l.mu.Unlock()
		}
	}
}

func (l *layer) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed == nil {
		l.failed = err
	}
}

// over says whether the layer is to end early.
func (l *layer) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.failed != nil || stopped(l.ctx) || l.left >= 0 && l.made.Load() >= int64(l.left)
}

// unit searches one unit; nil when it was cut short without a finding.
func (l *layer) unit(b *body, all *explore.Bounded, i int) (*tally, error) {
	t := &tally{}
	cut := false
	err := guarded(func() error {
		u := l.units[i]
		_, err := all.Explore(b, u, l.total, func(r *explore.Run, _ []explore.Departure) bool {
			if l.left >= 0 && l.made.Load() >= int64(l.left) || int64(i) > l.stop.Load() ||
				stopped(l.ctx) {
				cut = true
				return false
			}
			l.made.Add(1)
			l.points.Add(r.Points)
			t.add(r, b)
			l.tell()
			return !r.Bad || l.opt.All
		})
		return err
	})
	if t.finding != nil && !l.opt.All {
		l.stopBehind(int64(i))
		return t, err
	}
	if cut && int64(i) > l.stop.Load() {
		return nil, err
	}
	t.cut = cut
	return t, err
}

// stopBehind says that units behind one need not be searched.
func (l *layer) stopBehind(unit int64) {
	for old := l.stop.Load(); unit < old && !l.stop.CompareAndSwap(old, unit); {
		old = l.stop.Load()
	}
}

// tell tells of progress.
func (l *layer) tell() {
	n := l.made.Load()
	if l.opt.Progress == nil || n%progressEvery != 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opt.Progress(Progress{Subject: l.v, Departures: l.total,
		Schedules: l.res.Schedules + int(n), Points: l.res.Points + l.points.Load(),
		Part: int(l.ended.Load()), Parts: len(l.units)})
}

// gather joins the units that count: all of them, or those up to the first with a finding.
func (l *layer) gather() (complete bool) {
	l.save()
	sum := &tally{states: states{}}
	complete = l.failed == nil
	for i, t := range l.tallies {
		if int64(i) > l.stop.Load() {
			break
		}
		if t == nil {
			complete = false
			continue
		}
		complete = complete && !t.cut
		sum.join(t)
	}
	if l.left >= 0 {
		l.left = max(0, l.left-sum.schedules)
	}
	if sum.finding != nil && !l.opt.All {
		complete = false
	}
	l.level(string(Bound), l.total, sum, complete)
	return complete
}
