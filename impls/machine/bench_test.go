package machine_test

import (
	"testing"
	"time"

	"allocfuzz/impls/machine"
)

func BenchmarkPoint(b *testing.B) {
	m := machine.New(config(1, machine.PreemptNone))
	defer m.Close()
	var w machine.Word
	w.Init(word, -1, 0)
	const per = 4000
	b.ResetTimer()
	for n := 0; n < b.N; n += per {
		m.Reset()
		m.AddTask("cpu0", 0, 0, true, lines(0, 1, func(c *machine.Ctx) {
			for range per {
				w.Load(c)
			}
		}))
		m.Sim().Run(nil)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds()/1e6, "Mpoints/s")
}

// pingPong switches at every point.
type pingPong struct {
	tasks [2]*machine.Ctx
	last  [2]int // attempt at which each task switched
}

func (p *pingPong) Choose(c *machine.Ctx, pt machine.Point) machine.Action {
	me := 0
	if c == p.tasks[1] {
		me = 1
	}
	a := machine.Action{Kind: machine.SwitchTo, Task: p.tasks[1-me]}
	if pt.N == p.last[me] || !c.Allowed(pt, a) {
		return machine.Action{}
	}
	p.last[me] = pt.N
	return a
}

// BenchmarkSwitch measures switches between two tasks that depart at every point, and
// in turn with it the same contexts as goroutines that hand over through unbuffered
// channels, without points and decisions.
func BenchmarkSwitch(b *testing.B) {
	m := machine.New(config(2, machine.PreemptNone))
	defer m.Close()
	var w machine.Word
	w.Init(word, -1, 0)
	body := func(c *machine.Ctx) {
		for range 2000 {
			w.Load(c)
		}
	}
	peer := newHandOver()
	defer peer.close()
	var ours, theirs time.Duration
	b.ResetTimer()
	switches := uint64(0)
	for switches < uint64(b.N) {
		m.Reset()
		p := &pingPong{}
		p.tasks[0] = m.AddTask("cpu0", 0, 0, true, lines(0, 1, body))
		p.tasks[1] = m.AddTask("cpu1", 1, 1, true, lines(1, 1, body))
		began := time.Now()
		m.Sim().Run(p)
		ours += time.Since(began)
		n := m.Sim().Switches()
		switches += n
		b.StopTimer()
		began = time.Now()
		peer.run(n)
		theirs += time.Since(began)
		b.StartTimer()
	}
	b.ReportMetric(float64(switches)/ours.Seconds()/1e6, "Mswitches/s")
	b.ReportMetric(float64(switches)/theirs.Seconds()/1e6, "Mswitches/s_channels")
	b.ReportMetric(theirs.Seconds()/ours.Seconds(), "x_channels")
}

// handOver runs two goroutines one at a time: each waits to be resumed and hands
// back, as coroutines do.
type handOver struct{ resume, yield [2]chan struct{} }

func newHandOver() *handOver {
	h := &handOver{}
	for i := range h.resume {
		h.resume[i], h.yield[i] = make(chan struct{}), make(chan struct{})
		go func() {
			for range h.resume[i] {
				h.yield[i] <- struct{}{}
			}
		}()
	}
	return h
}

func (h *handOver) run(switches uint64) {
	for i := range switches {
		h.resume[i%2] <- struct{}{}
		<-h.yield[i%2]
	}
}

func (h *handOver) close() {
	for i := range h.resume {
		close(h.resume[i])
	}
}
