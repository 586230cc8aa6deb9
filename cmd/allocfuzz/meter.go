package main

import (
	"fmt"
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"github.com/schollz/progressbar/v3"

	"allocfuzz/fuzz/engine"
	reports "allocfuzz/fuzz/report"
)

// plainEvery is the time between two plain lines of progress.
const plainEvery = 5 * time.Second

// A meter shows how far the fuzzing is: a bar on a terminal, else a plain line now
// and then.
type meter struct {
	app    *app
	bars   bool
	bar    *progressbar.ProgressBar
	target string
	last   time.Duration // of the target, when its last plain line was printed

	from    time.Time
	sampled time.Time
}

// sampleEvery is the time between two samples of a target.
const sampleEvery = time.Second

// sample keeps how far a target is, for the plots of a report.
func (m *meter) sample(p *engine.Progress) {
	now := time.Now()
	if m.from.IsZero() {
		m.from = now
	}
	if p.Target == m.target && now.Sub(m.sampled) < sampleEvery {
		return
	}
	m.sampled = now
	m.app.samples = append(m.app.samples, reports.Sample{Target: p.Target,
		At: now.Sub(m.from).Seconds(), Execs: p.Execs, New: p.New})
}

func (a *app) newMeter(plain bool) *meter {
	f, ok := a.err.(*os.File)
	return &meter{app: a, bars: !plain && ok && isatty.IsTerminal(f.Fd())}
}

// words are the progress in words.
func words(p *engine.Progress) string {
	seconds := max(p.Elapsed.Seconds(), 0.001)
	s := fmt.Sprintf("%s (%d of %d): %d execs, %.0f/s", p.Target, p.At, p.Of, p.Execs,
		float64(p.Execs)/seconds)
	if p.Points > 0 {
		s += ", " + rate(float64(p.Points)/seconds) + " points/s"
	}
	return s + fmt.Sprintf(", %d new", p.New)
}

// rate is a large number in a few digits.
func rate(n float64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1fM", n/1e6)
	case n >= 1e3:
		return fmt.Sprintf("%.1fk", n/1e3)
	}
	return fmt.Sprintf("%.0f", n)
}

// show takes the progress of a target.
func (m *meter) show(p engine.Progress) {
	m.sample(&p)
	if !m.bars {
		if p.Target != m.target {
			m.target, m.last = p.Target, 0
		}
		if p.Elapsed-m.last >= plainEvery {
			m.last = p.Elapsed
			m.app.sayf("%v of %v: %s", p.Elapsed.Round(time.Second), p.Budget.Round(time.Second),
				words(&p))
		}
		return
	}
	if p.Target != m.target {
		m.end()
		m.target = p.Target
		m.bar = progressbar.NewOptions64(max(1, p.Budget.Milliseconds()),
			progressbar.OptionSetWriter(m.app.err), progressbar.OptionSetWidth(20),
			progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false))
	}
	m.bar.Describe(words(&p))
	_ = m.bar.Set64(min(p.Elapsed.Milliseconds(), p.Budget.Milliseconds()))
}

// log prints a line between the bars.
func (m *meter) log(format string, args ...any) {
	if m.bar != nil {
		_ = m.bar.Clear()
	}
	m.app.sayf(format, args...)
}

// end leaves the bar of a target.
func (m *meter) end() {
	if m.bar != nil {
		_ = m.bar.Exit()
		fmt.Fprintln(m.app.err)
		m.bar = nil
	}
}
