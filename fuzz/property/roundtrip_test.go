package property_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/property"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// Random schedules of the round trip, all together.
const (
	roundTrips      = 10_500
	roundTripsShort = 5_000
)

// TestRoundTrip is the promise that a schedule is its text: a run under a random schedule is
// recorded as departures from line order, written down as a block of its program, parsed, and
// replayed strictly. The replay takes every departure and gives the same trace.
func TestRoundTrip(t *testing.T) {
	n := roundTrips
	if testing.Short() {
		n = roundTripsShort
	}
	r := oracle.NewRunner()
	defer r.Close()
	rt := &roundTrip{t: t, r: r, seen: map[string]int{}}
	rng := rand.New(rand.NewPCG(uint64(seed(t)), 0x2007))
	needs := slices.Concat(roundTripNeeds, all.Names())
	for rt.seen["schedules"] < n || rt.seen["schedules"] < 4*n && len(rt.rare(needs, n)) > 0 {
		lines := 4 + rng.IntN(14)
		p := input.Generate(rng, input.GenerateOptions{Lines: lines,
			Decode: input.DecodeOptions{Budget: 16 << rng.IntN(4)}})
		p.Scheds = nil
		p.Machine.Preempt = prog.Preempt(rng.IntN(3))
		if compile(t, p).Sequential() && rng.IntN(3) > 0 {
			continue // one task alone has little to decide
		}
		for _, i := range rng.Perm(len(all.Variants()))[:roundTripSubjects] {
			for range 2 {
				rt.run(p, all.Variants()[i], newDecider(rng))
			}
		}
	}
	t.Logf("seen: %v", rt.seen)
	for _, what := range rt.rare(needs, n) {
		t.Errorf("%d of %d schedules had %q: too few to say anything", rt.seen[what],
			rt.seen["schedules"], what)
	}
}

// rare lists what is in too few of n schedules to say anything.
func (rt *roundTrip) rare(needs []string, n int) (few []string) {
	for _, what := range needs {
		if rt.seen[what] < n/500 {
			few = append(few, what)
		}
	}
	return few
}

// roundTripNeeds is what the schedules of a round trip must have had.
var roundTripNeeds = []string{"preempt=none", "preempt=full", "preempt=rt", "switch", "interrupt",
	"move", "page request fails", "repeat", "later round", "in a handler", "later delivery",
	"several acts", "check", "no delivery"}

// roundTripSubjects is the number of subjects that a program is run on, drawn by lot: with
// all of them there would be the fewer programs the more subjects there are.
const roundTripSubjects = 8

// A decider departs at random in every way there is: sched.Random does not leave out deliveries.
type decider struct {
	sched.Random
	drops uint64 // one point in so many, 0 none
	asked uint64
	b     *sched.Binding
}

// newDecider departs at one point in 2 to 32.
func newDecider(rng *rand.Rand) *decider {
	d := &decider{Random: sched.Random{Seed: rng.Uint64(), Every: 2 << rng.IntN(5)}}
	if rng.IntN(4) == 0 {
		d.drops = 3 + rng.Uint64N(20)
	}
	return d
}

// Bind starts a run.
func (d *decider) Bind(b *sched.Binding) {
	d.b, d.asked = b, 0
	d.Random.Bind(b)
}

// Choose sometimes drops the handler that is due next.
func (d *decider) Choose(c *machine.Ctx, p machine.Point) machine.Action {
	d.asked++
	if d.drops == 0 || d.asked%d.drops != 0 {
		return d.Random.Choose(c, p)
	}
	a := machine.Action{Kind: machine.Suppress}
	for _, h := range d.b.Handlers {
		if h != nil && h.Due() && (a.Handler == nil || h.Pos < a.Handler.Pos) {
			a.Handler = h
		}
	}
	if a.Handler == nil || !c.Allowed(p, a) {
		return machine.Action{}
	}
	return a
}

// roundTrip counts what its schedules had.
type roundTrip struct {
	t    *testing.T
	r    *oracle.Runner
	seen map[string]int
}

// trace is what a replay must give again.
type trace struct {
	Hash, Steps uint64
	Switches    uint64
	Aborted     bool
	Faults      []string
	Outcomes    []impls.Outcome
}

func traceOf(res *oracle.Result) trace {
	out := trace{Hash: res.Hash, Steps: res.Steps, Switches: res.Switches, Aborted: res.Aborted}
	for i := range res.Faults {
		out.Faults = append(out.Faults, string(res.Faults[i].Title))
	}
	for i := range res.Events {
		out.Outcomes = append(out.Outcomes, res.Events[i].Outcome)
	}
	return out
}

// run makes one round trip.
func (rt *roundTrip) run(p *prog.Program, v *impls.Variant, random machine.Chooser) {
	rt.t.Helper()
	c := compile(rt.t, p)
	if ok, _ := oracle.Applies(c, v); !ok {
		return
	}
	res := rt.r.Run(c, v, oracle.Options{Chooser: random, Record: true})
	want := traceOf(res)
	anchors := rt.r.Recorded()
	rt.note(c, anchors)
	rt.seen[v.Name]++

	copied := *p
	copied.Scheds = []prog.Sched{c.Schedule(v.Name, anchors)}
	text := prog.Format(&copied)
	q, err := prog.ParseString(string(text))
	if err != nil {
		rt.t.Fatalf("%s: a recorded schedule does not parse: %v\n%s", v.Name, err, text)
	}
	again := compile(rt.t, q)
	anchors, err = again.Anchors(&q.Scheds[0])
	if err != nil {
		rt.t.Fatalf("%s: a recorded schedule has no place: %v\n%s", v.Name, err, text)
	}
	replay := sched.NewReplay(sched.Strict, anchors)
	res = rt.r.Run(again, v, oracle.Options{Chooser: replay, Record: true})
	got := traceOf(res)
	if !reflect.DeepEqual(want, got) {
		rt.t.Fatalf("%s: the replay differs (- recorded, + replayed):\n%s\n%s\nunused: %v\n%s",
			v.Name, property.Diff(want, got), rt.parting(c, v, random, replay), unused(replay),
			text)
	}
	if u := unused(replay); u != "" {
		rt.t.Fatalf("%s: departures that the replay did not take: %s\n%s", v.Name, u, text)
	}
	q.Scheds = []prog.Sched{again.Schedule(v.Name, rt.r.Recorded())}
	if once, twice := string(text), string(prog.Format(q)); once != twice {
		rt.t.Fatalf("%s: the replay records itself otherwise:\n%s", v.Name,
			property.Diff(once, twice))
	}
}

// parting runs both again and tells the points before and at which they part.
func (rt *roundTrip) parting(c *oracle.Compiled, v *impls.Variant, a, b machine.Chooser) string {
	var traces [2][]string
	for i, ch := range []machine.Chooser{a, b} {
		res := rt.r.Run(c, v, oracle.Options{Chooser: ch, Trace: true})
		for _, e := range res.Trace {
			traces[i] = append(traces[i], fmt.Sprintf("%+v %s %s %d depth %d", e.Where, e.Kind,
				e.Field.Name(), e.N, e.Depth))
		}
	}
	at := 0
	for at < min(len(traces[0]), len(traces[1])) && traces[0][at] == traces[1][at] {
		at++
	}
	from := max(0, at-6)
	return fmt.Sprintf("they part at point %d of %d and %d:\n%s", at, len(traces[0]),
		len(traces[1]),
		property.Diff(traces[0][from:min(len(traces[0]), at+4)],
			traces[1][from:min(len(traces[1]), at+4)]))
}

// note counts what a schedule had.
func (rt *roundTrip) note(c *oracle.Compiled, anchors []sched.Anchor) {
	has := map[string]bool{"schedules": true, "preempt=" + c.Config.Preempt.String(): true,
		"check": len(c.Checks) > 0}
	for i := range c.Lines {
		has["repeat"] = has["repeat"] || c.Lines[i].Src.Verb == prog.Repeat
	}
	for i := range anchors {
		a := &anchors[i]
		has["in a handler"] = has["in a handler"] || a.Handler >= 0
		has["later delivery"] = has["later delivery"] || a.Delivery > 1
		has["several acts"] = has["several acts"] || len(a.Acts) > 1
		has["later round"] = has["later round"] || a.Iter[0] > 1 || a.Iter[1] > 1
		for _, act := range a.Acts {
			has[actName[act.Kind]] = true
		}
	}
	for what, is := range has {
		if is {
			rt.seen[what]++
		}
	}
}

var actName = map[machine.ActionKind]string{machine.SwitchTo: "switch",
	machine.Interrupt: "interrupt", machine.Move: "move", machine.FailPages: "page request fails",
	machine.Suppress: "no delivery", machine.Hold: "store held", machine.Drain: "store drained"}

// unused spells the anchors that a replay did not take.
func unused(r *sched.Replay) string {
	var out []string
	for _, a := range r.Unused() {
		out = append(out, fmt.Sprintf("%+v", *a))
	}
	return strings.Join(out, "; ")
}
