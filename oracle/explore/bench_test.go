package explore_test

import (
	"testing"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

// BenchmarkOrders is whole searches of all orders of the known programs.
func BenchmarkOrders(b *testing.B) {
	for _, y := range []*toy{lastzero(10), readers(13), indexer(15, 4096), grid(2, 8)} {
		b.Run(y.name, func(b *testing.B) {
			runs, points := 0, uint64(0)
			for b.Loop() {
				d := explore.Orders{Reduction: explore.Optimal}
				sum, err := d.Explore(bare{y}, func(*explore.Run, bool) bool { return true })
				if err != nil || sum.Redundant > 0 || !sum.Done {
					b.Fatal(sum, err)
				}
				runs += sum.Runs
				points += sum.Points
			}
			s := b.Elapsed().Seconds()
			b.ReportMetric(float64(runs)/s/1e3, "kschedules/s")
			b.ReportMetric(float64(points)/s/1e6, "Mpoints/s")
		})
		y.close()
	}
}

// BenchmarkPeer is random walks of two tasks of 32 steps: on the machine, and, as a peer, by a
// scheduler that wakes goroutines over channels and does nothing else.
func BenchmarkPeer(b *testing.B) {
	const steps = 32
	y := grid(2, steps)
	defer y.close()
	w := &explore.Walk{}
	run := bare{y}
	peer := newChannels(2)
	defer peer.close()
	ours, theirs := 0.0, 0.0
	seed := uint64(0)
	for b.Loop() {
		begin := b.Elapsed()
		for range 200 {
			seed++
			w.Seed(seed)
			run.Run(w)
		}
		middle := b.Elapsed()
		for range 200 {
			seed++
			peer.run(steps, seed)
		}
		ours += (middle - begin).Seconds()
		theirs += (b.Elapsed() - middle).Seconds()
	}
	b.ReportMetric(theirs/ours, "times-peer")
	b.ReportMetric(float64(b.N)*200*2*steps/ours/1e6, "Mpoints/s")
}

// channels is the peer: a goroutine for each task, which waits to be told to make a step.
type channels struct {
	tell []chan bool // false ends the goroutine
	done chan int
}

func newChannels(tasks int) *channels {
	p := &channels{done: make(chan int)}
	for i := range tasks {
		c := make(chan bool)
		p.tell = append(p.tell, c)
		go func() {
			for <-c {
				p.done <- i
			}
		}()
	}
	return p
}

// run lets the tasks make so many steps each, in an order by chance.
func (p *channels) run(steps int, seed uint64) {
	left := []int{steps, steps}
	for left[0]+left[1] > 0 {
		seed = seed*6364136223846793005 + 1442695040888963407
		i := int(seed >> 63)
		if left[i] == 0 {
			i = 1 - i
		}
		p.tell[i] <- true
		left[<-p.done]--
	}
}

func (p *channels) close() {
	for _, c := range p.tell {
		c <- false
	}
}

// bare is a toy whose trace nobody keeps.
type bare struct{ *toy }

// Run makes one run.
func (t bare) Run(ch machine.Chooser) explore.Run {
	t.machineOf().Reset()
	t.reset()
	t.add()
	ch.(sched.Binder).Bind(&t.binding)
	err := t.m.Sim().Run(ch)
	return explore.Run{Points: t.m.Sim().Steps(), Hash: t.m.Sim().Hash(), Err: err}
}
