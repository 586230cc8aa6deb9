package stress

import (
	"context"
	"fmt"
	"time"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A Workload is what the threads of a round do.
type Workload uint8

// The workloads.
const (
	Mixed    Workload = iota // each frees its own; sizes, objects, pages, several at once
	Remote                   // each frees what the next one allocated
	Producer                 // half of them allocate, the others free, over one queue
	Churn                    // as Mixed and Remote, and threads change their CPUs
	nWorkloads
)

var workloadNames = [nWorkloads]string{"mixed", "remote", "producer", "churn"}

// String is the name that --workload uses.
func (w Workload) String() string { return workloadNames[w] }

// Workloads lists them in order.
func Workloads() []Workload {
	list := make([]Workload, nWorkloads)
	for i := range list {
		list[i] = Workload(i)
	}
	return list
}

// WorkloadNamed finds a workload by its name; ok is false when there is none.
func WorkloadNamed(name string) (w Workload, ok bool) {
	for i, n := range workloadNames {
		if n == name {
			return Workload(i), true
		}
	}
	return 0, false
}

// Limits of a Config.
const (
	ThreadsMax = machine.MaxCPUs - 1 // one CPU is left for what is done from elsewhere
	OpsMax     = 1 << 17
)

// searchMax bounds the operations of a round that porcupine is asked about.
const searchMax = 4000

// A subject has no more rounds when so many of them found something: what comes would be
// the same again.
const roundsFound = 20

// A Config says what to do.
type Config struct {
	Subjects  []*impls.Variant // in process: with New
	Workloads []Workload
	For       time.Duration // no round begins later, but for the first of each kind
	Threads   int           // 2 … ThreadsMax
	Ops       int           // of a thread in a round, 1 … OpsMax
	Seed      uint64
	Limit     time.Duration // of one search by porcupine
	Hang      time.Duration // without any thread getting on, until a round is given up
	Found     func(*Finding)
	Progress  func(Progress) // after each round

	after func(time.Duration) <-chan time.Time // time.After, but in tests
}

// Progress is how far a run is.
type Progress struct {
	Passed     time.Duration
	Rounds     int
	Operations int
	Found      int
	Subject    string // of the last round
}

// A Result is what a subject did.
type Result struct {
	Subject    *impls.Variant
	Locked     bool   // threads took turns
	Stopped    string // why it had no more rounds before the end, "" when it had
	Rounds     int
	Operations int
	Took       time.Duration // of the threads
	Histories  int           // written down and checked per address
	Searched   int           // of these decided by porcupine too
	Unknown    int           // of these not decided in time
	Found      int           // different ones
	shown      int           // rounds in which something was found
}

// A run is one call of Run.
type run struct {
	Config
	ctx     context.Context
	start   time.Time
	results []Result
	known   map[string]bool // identities
	m       *machine.Machine
}

// Run has rounds with every subject in turn until the time is over or ctx ends; each has
// one of every workload, unless ctx ends. A fault of this project panics.
func Run(ctx context.Context, cfg Config) []Result {
	r := newRun(ctx, cfg)
	for n := 0; r.pass(n); n++ {
		continue
	}
	if r.m != nil {
		r.m.Close()
	}
	return r.results
}

func newRun(ctx context.Context, cfg Config) *run {
	r := &run{Config: cfg, ctx: ctx, start: time.Now(), known: map[string]bool{}}
	if r.after == nil {
		r.after = time.After
	}
	for _, v := range cfg.Subjects {
		if v.New == nil {
			panic("allocfuzz: stress of a subject that is not in this process: " + v.Name)
		}
		r.results = append(r.results, Result{Subject: v, Locked: !v.Caps.Has(impls.CapSMP)})
	}
	return r
}

// pass is one round of every workload with every subject; false when there is none left to do.
func (r *run) pass(n int) (more bool) {
	for i := range r.results {
		res := &r.results[i]
		for _, w := range r.Workloads {
			if res.Stopped != "" {
				break
			}
			if r.ctx.Err() != nil || n > 0 && time.Since(r.start) >= r.For {
				return false
			}
			r.one(res, w, n)
			more = true
		}
	}
	return more
}

// one is one round.
func (r *run) one(res *Result, w Workload, n int) {
	d := newRound(r, res, w, n)
	d.carryOut()
	res.Rounds++
	res.Operations += d.operations()
	res.Took += d.took
	found := d.judge()
	for _, f := range found {
		r.tell(res, f)
	}
	if len(found) > 0 {
		r.m = nil // nobody knows what state it is in
		if res.shown++; res.shown == roundsFound && res.Stopped == "" {
			res.Stopped = fmt.Sprintf("something was found in %d rounds", roundsFound)
		}
	}
	if r.Progress != nil {
		p := Progress{Passed: time.Since(r.start), Subject: res.Subject.Name}
		for i := range r.results {
			p.Rounds += r.results[i].Rounds
			p.Operations += r.results[i].Operations
			p.Found += r.results[i].Found
		}
		r.Progress(p)
	}
}

// tell passes on a finding, once.
func (r *run) tell(res *Result, f *Finding) {
	if r.known[f.Identity()] {
		return
	}
	r.known[f.Identity()] = true
	res.Found++
	if r.Found != nil {
		r.Found(f)
	}
}
