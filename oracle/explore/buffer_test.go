package explore_test

import (
	"errors"
	"testing"

	"allocfuzz/impls/machine"
	"allocfuzz/oracle/explore"
	"allocfuzz/oracle/sched"
)

var flag = machine.Atomic("buffer", "flag")

// crossed is a body of two CPUs, each of which stores to one word and reads the other. It is bad
// when both read the old value.
type crossed struct {
	m       *machine.Machine
	barrier bool
	words   [2]machine.Word
	read    [2]uint64
}

// Run makes one run.
func (x *crossed) Run(ch machine.Chooser) explore.Run {
	x.m.Reset()
	b := &sched.Binding{Machine: x.m}
	for i := range x.words {
		x.words[i].Init(flag, -1, 0)
		b.Tasks = append(b.Tasks, x.m.AddTask("t", i, i, true, x.thread(i)))
		b.Handlers = append(b.Handlers, nil)
	}
	if k, ok := ch.(sched.Binder); ok {
		k.Bind(b)
	}
	err := x.m.Sim().Run(ch)
	return explore.Run{Bad: x.read == [2]uint64{}, Hash: x.m.Sim().Hash(), Err: err}
}

func (x *crossed) thread(i int) func(c *machine.Ctx) {
	return func(c *machine.Ctx) {
		c.BeginLine(i, [2]int32{})
		x.words[i].Store(c, 1)
		if x.barrier {
			c.Barrier()
		}
		x.read[i] = x.words[1-i].Load(c)
		c.EndLine(machine.After)
	}
}

// newCrossed is a body with store buffers or without.
func newCrossed(t *testing.T, tso, barrier bool) *crossed {
	cfg := machine.DefaultConfig()
	cfg.CPUs, cfg.TSO = 2, tso
	x := &crossed{m: machine.New(cfg), barrier: barrier}
	t.Cleanup(x.m.Close)
	return x
}

// TestBoundedHolds: a search depth-first shows at one departure that a barrier is missing. With
// the barrier or without store buffers it shows nothing at four.
func TestBoundedHolds(t *testing.T) {
	for _, row := range []struct {
		name         string
		tso, barrier bool
		departures   int // at which it shows, -1 for none
	}{{"missing", true, false, 1}, {"there", true, true, -1}, {"not needed", false, false, -1}} {
		t.Run(row.name, func(t *testing.T) {
			x := newCrossed(t, row.tso, row.barrier)
			found, runs := -1, 0
			for total := 0; total <= 4 && found < 0; total++ {
				s := &explore.Bounded{Bounds: explore.Bounds{Preemptions: total}, Check: 1}
				each := func(r *explore.Run, _ []explore.Departure) bool {
					if runs++; r.Bad && found < 0 {
						found = total
					}
					return true
				}
				if _, err := s.Explore(x, explore.Unit{Left: s.Bounds}, total, each); err != nil {
					t.Fatal(err)
				}
			}
			if found != row.departures {
				t.Errorf("found at %d departures in %d runs, want %d", found, runs, row.departures)
			}
		})
	}
}

// TestOrdersRefuseBuffers: a search of all orders of steps would leave out what store buffers do.
func TestOrdersRefuseBuffers(t *testing.T) {
	_, err := new(explore.Orders).Explore(newCrossed(t, true, false),
		func(*explore.Run, bool) bool { return true })
	if !errors.Is(err, explore.ErrBuffers) {
		t.Errorf("error %v", err)
	}
}
