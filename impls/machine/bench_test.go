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
	b.ResetTimer()
	switches := uint64(0)
	for switches < uint64(b.N) {
		m.Reset()
		p := &pingPong{}
		p.tasks[0] = m.AddTask("cpu0", 0, 0, true, lines(0, 1, body))
		p.tasks[1] = m.AddTask("cpu1", 1, 1, true, lines(1, 1, body))
		m.Sim().Run(p)
		switches += m.Sim().Switches()
	}
	ours := float64(switches) / b.Elapsed().Seconds()
	b.StopTimer()
	b.ReportMetric(ours/1e6, "Mswitches/s")
	b.ReportMetric(ours/channels(50_000), "x_channels")
}

// channels is the number of switches a second when two goroutines hand over through
// unbuffered channels, the usual way to run contexts one at a time.
func channels(switches int) float64 {
	there, back := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(back)
		for range there {
			back <- struct{}{}
		}
	}()
	began := time.Now()
	for range switches / 2 {
		there <- struct{}{}
		<-back
	}
	rate := float64(switches) / time.Since(began).Seconds()
	close(there)
	<-back
	return rate
}
