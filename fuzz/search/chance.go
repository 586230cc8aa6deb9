package search

import (
	"sync"

	"allocfuzz/oracle/explore"
)

// chance makes n schedules by chance, in chunks that are the same whoever makes them.
func (s *search) chance(k Strategy, depth, n int) error {
	c := &layer{search: s, total: -1}
	chunks := (n + chunk - 1) / chunk
	for i := range chunks {
		if i%s.opt.Shards == s.opt.Shard {
			c.units = append(c.units, explore.Unit{Spent: i})
		}
	}
	c.tallies = make([]*tally, len(c.units))
	c.stop.Store(int64(len(c.units)))
	steps, err := s.steps()
	if err != nil {
		return err
	}
	var wait sync.WaitGroup
	for range min(s.opt.Parallel, max(1, len(c.units))) {
		wait.Go(func() { c.draw(k, depth, steps, n) })
	}
	wait.Wait()
	sum := &tally{states: states{}}
	for i, t := range c.tallies {
		if t != nil && int64(i) <= c.stop.Load() {
			sum.join(t)
		}
	}
	whole := c.failed == nil && !stopped(s.ctx) && (sum.finding == nil || s.opt.All)
	s.level(string(k), -1, sum, whole)
	s.res.Done = whole
	return c.failed
}

// chunk is the number of schedules by chance that are made together.
const chunk = 64

// steps is the number of points of the program in line order.
func (s *search) steps() (int, error) {
	b := newBody(s.p, s.v, s.opt.Run)
	defer b.close()
	n := 0
	err := guarded(func() error {
		r := b.Run(nil)
		n = int(r.Points)
		return r.Err
	})
	return n, err
}

// draw makes one chunk after the other.
func (l *layer) draw(k Strategy, depth, steps, n int) {
	b := newBody(l.p, l.v, l.opt.Run)
	defer b.close()
	var ch explore.Sampler = &explore.Walk{Bounds: l.opt.Bounds}
	if k == PCT {
		p := &explore.PCT{Bounds: l.opt.Bounds, Depth: depth}
		p.Length(steps)
		ch = p
	}
	for {
		i := l.next.Add(1) - 1
		if i >= int64(len(l.units)) || i > l.stop.Load() || stopped(l.ctx) {
			return
		}
		t := &tally{}
		first := l.units[i].Spent * chunk
		err := guarded(func() error {
			for seed := first; seed < min(first+chunk, n) && !stopped(l.ctx); seed++ {
				ch.Seed(l.opt.Seed + uint64(seed))
				r := b.Run(ch)
				if r.Err != nil {
					return r.Err
				}
				l.made.Add(1)
				l.points.Add(r.Points)
				t.add(&r, b)
				l.tell()
				if r.Bad && !l.opt.All {
					break
				}
				if err := b.again(&r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			l.fail(err)
			return
		}
		if t.finding != nil && !l.opt.All {
			l.stopBehind(i)
		}
		l.mu.Lock()
		l.tallies[i] = t
		l.mu.Unlock()
	}
}

// guided makes n schedules from strings of bytes.
func (s *search) guided(n int) error {
	b := newBody(s.p, s.v, s.opt.Run)
	defer b.close()
	g := explore.NewGuided(s.opt.Seed, s.opt.Bounds)
	t := &tally{}
	err := guarded(func() error {
		for range n {
			if stopped(s.ctx) {
				return nil
			}
			g.Next()
			r := b.Run(g)
			if r.Err != nil {
				return r.Err
			}
			t.add(&r, b)
			s.progress(t)
			if r.Bad && !s.opt.All {
				return nil
			}
			if err := b.again(&r); err != nil {
				return err
			}
		}
		return nil
	})
	whole := err == nil && !stopped(s.ctx) && (t.finding == nil || s.opt.All)
	s.level(string(Guided), -1, t, whole)
	s.res.Done = whole
	return err
}
