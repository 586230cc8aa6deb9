package stress

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
)

// pages is the size of the machine of a round.
const pages = 2048

// specs are the caches of a round: small slabs, so that they come and go.
func specs() []impls.CacheSpec {
	small, large := impls.NewSpec("small", 48), impls.NewSpec("large", 200)
	small.Objects, small.MinPartial, small.CPUPartial = 4, 1, 2
	small.Limit, small.Batch = 4, 2
	return []impls.CacheSpec{small, large}
}

// A round is a subject, threads, and what came of them.
type round struct {
	*run
	v       *impls.Variant
	res     *Result
	w       Workload
	n       int // number of the pass
	timed   bool
	in      impls.Instance
	exec    *play.Exec
	turns   *sync.Mutex // taken around every operation; nil when threads need no turns
	clock   atomic.Int64
	stop    atomic.Bool
	threads []*thread
	all     []*thread // end too
	end     *thread
	queue   queue // of the producers
	makers  atomic.Int32
	ready   atomic.Int32 // threads that are still to come
	moving  sync.Mutex   // guards spare
	spare   int          // the CPU that no thread has
	took    time.Duration
	behind  bool // threads were left behind

	mu       sync.Mutex // guards what follows
	lost     bool       // the subject is in no known state: a thread panicked or was left behind
	halted   *thread    // one that the machine stopped, nil for none
	closed   bool       // nothing is noted any more
	found    []*Finding
	reported map[string]bool
}

// untimed is how often a round takes no stamps.
const untimed = 3

func newRound(r *run, res *Result, w Workload, n int) *round {
	d := &round{run: r, v: res.Subject, res: res, w: w, n: n, timed: n%untimed != untimed-1,
		reported: map[string]bool{}}
	cfg := machine.DefaultConfig()
	cfg.Native, cfg.CPUs, cfg.Pages, cfg.Preempt = true, r.Threads+1, pages, d.v.Machines[0]
	if r.m != nil && r.m.Config == cfg {
		r.m.Reset()
	} else {
		if r.m != nil {
			r.m.Close()
		}
		r.m = machine.New(cfg)
	}
	if res.Locked {
		d.turns = &sync.Mutex{}
	}
	d.in = d.v.New(r.m)
	caches := specs()
	d.exec = play.New(play.Setup{Instance: d.in, Caps: d.v.Caps, Profile: d.v.Profile,
		PageSize: uint64(r.m.PageSize), Slots: r.Threads * d.slots(), Caches: len(caches),
		Native: true})
	for i := range r.Threads {
		d.threads = append(d.threads, newThread(d, i, fmt.Sprintf("thread %d", i)))
	}
	d.end = newThread(d, r.Threads, "end")
	d.all, d.spare = append(slices.Clip(d.threads), d.end), r.Threads
	c := r.m.NativeCtx(0, "set-up")
	defer c.Release()
	for i := range caches {
		d.exec.Open(c, i, &caches[i])
	}
	return d
}

// slots is how many names a thread has for what it allocates in a round.
func (d *round) slots() int { return 2*d.Ops + bulkMax }

// carryOut lets the threads run, and then looks at what they left.
func (d *round) carryOut() {
	start := time.Now()
	var done sync.WaitGroup
	d.ready.Store(int32(d.Threads))
	d.makers.Store(int32((d.Threads + 1) / 2))
	for _, t := range d.threads {
		done.Go(func() { d.guard(t, t.work) })
	}
	d.watch(&done)
	d.took = time.Since(start)
	if !d.isLost() {
		done.Go(func() { d.guard(d.end, d.quiet) })
		d.watch(&done)
	}
	if !d.behind {
		d.wrongSteps()
	}
	if !d.isLost() {
		d.in.Close()
	}
}

// wrongSteps makes findings of what the machine noted, when all threads have ended. A thread
// that was stopped has a reason there.
func (d *round) wrongSteps() {
	faults := d.m.Faults()
	for _, f := range faults {
		t := d.end
		for _, x := range d.threads {
			if x.name == f.Where.Task {
				t = x
			}
		}
		d.raise(t, f.Title, "", "%s", f.Detail)
	}
	if d.halted != nil && len(faults) == 0 {
		d.raise(d.halted, fault.Aborted, "", "the machine was halted")
	}
}

func (d *round) isLost() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.lost
}

// lose notes that the subject is in no known state, and says whether it was before.
func (d *round) lose() (before bool) {
	d.stop.Store(true)
	d.mu.Lock()
	defer d.mu.Unlock()
	before, d.lost = d.lost, true
	return before
}

// guard runs a thread, and makes a finding of what it panics with. One of this project comes
// out in watch.
func (d *round) guard(t *thread, body func()) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if machine.Stopped(p) {
			d.mu.Lock()
			d.halted = t
			d.mu.Unlock()
		} else {
			stack := make([]byte, 1<<16)
			stack = stack[:runtime.Stack(stack, false)]
			d.raise(t, fault.Aborted, string(stack), "%s%v", panicked, p)
		}
		d.lose() // last: it explains a hang, and must be told by then
	}()
	body()
}

// watch waits for threads. When none of them gets on for long, they are left behind.
func (d *round) watch(done *sync.WaitGroup) {
	over := make(chan struct{})
	go func() {
		done.Wait()
		close(over)
	}()
	last := int64(-1)
	for {
		select {
		case <-over:
			d.passOn()
			return
		case <-d.ctx.Done():
			d.stop.Store(true)
			select {
			case <-over:
				d.passOn()
				return
			case <-d.after(d.Hang):
			}
		case <-d.after(d.Hang):
		}
		now := int64(0)
		for _, t := range d.all {
			now += t.steps.Load()
		}
		if now == last {
			d.hung()
			return
		}
		last = now
	}
}

// panicked begins the detail of a finding about a panic.
const panicked = "panic: "

// passOn panics when a thread did because of a fault of this project.
func (d *round) passOn() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, f := range d.found {
		if text, ok := strings.CutPrefix(f.Fault.Detail, panicked+"allocfuzz:"); ok {
			panic("allocfuzz:" + text + "\n\n" + f.Stacks)
		}
	}
}

// hung makes a finding of threads that do not get on, unless one of them ended in a panic,
// which explains it.
func (d *round) hung() {
	explained := d.lose()
	d.passOn()
	d.res.Stopped = "its threads did not get on and were left behind"
	d.behind = true
	d.mu.Lock()
	halted := d.halted
	d.mu.Unlock()
	if halted != nil {
		d.raise(halted, fault.Aborted, "", "the machine was halted, and others did not get on")
	}
	if explained {
		return
	}
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	var stuck []string
	first := d.end
	for _, t := range d.all {
		if code, since, ok := t.pending(); ok {
			stuck = append(stuck, fmt.Sprintf("%s of %s, called at %d", code, t.name, since))
			if first == d.end {
				first = t
			}
		}
	}
	d.raise(first, fault.Hung, string(stacks), "no thread got on for %v; pending: %s", d.Hang,
		strings.Join(stuck, "; "))
}

// raise notes a finding of a thread, of each identity once.
func (d *round) raise(t *thread, title fault.Title, stacks, format string, args ...any) {
	verb := "end of the round"
	if code, _, ok := t.last(); ok {
		verb = code.String()
	}
	d.keep(verb, stacks, fault.Fault{Title: title, Detail: fmt.Sprintf(format, args...),
		Where: fault.Where{Line: -1, CPU: -1, Task: t.name}})
}

// keep notes a finding.
func (d *round) keep(verb, stacks string, what fault.Fault) {
	f := &Finding{Fault: what, Verb: verb, Stacks: stacks, Subject: d.v.Name, Workload: d.w,
		Pass: d.n, Config: d.Config}
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed && !d.reported[f.Identity()] {
		d.reported[f.Identity()] = true
		d.found = append(d.found, f)
	}
}

// close ends the noting of findings and returns them.
func (d *round) close() []*Finding {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	return d.found
}

// operations is how many the threads have carried out.
func (d *round) operations() int {
	n := int64(0)
	for _, t := range d.all {
		n += t.done.Load()
	}
	return int(n)
}

// history is what the threads wrote down, those that were left behind too.
func (d *round) history() *history.History {
	h := &history.History{}
	for _, t := range d.all {
		h.Clients = append(h.Clients, t.name)
		t.mu.Lock()
		h.Ops = append(h.Ops, t.log...)
		t.mu.Unlock()
	}
	return h
}

// judge checks the history, and gives it to the findings of the round.
func (d *round) judge() []*Finding {
	if !d.timed {
		return d.close()
	}
	h := d.history()
	d.res.Histories++
	v := new(history.Checker).Check(h)
	d.search(h, v)
	part := h
	if v != nil {
		d.keep(h.Ops[v.Second].Code.String(), "", v.Fault(h))
		part = h.Around(v)
	}
	found := d.close()
	for _, f := range found {
		f.History, f.part = h, part
	}
	return found
}

// search asks porcupine about a history that v, or nothing, was found in. The two must not
// contradict each other.
func (d *round) search(h *history.History, v *history.Violation) {
	if len(h.Ops) > searchMax {
		return
	}
	switch verdict := linear.Check(h, d.Limit); {
	case verdict == linear.Unknown:
		d.res.Unknown++
	case (verdict == linear.Linearizable) != (v == nil):
		panic(fmt.Sprintf("allocfuzz: two checks of one history disagree: %v and %v", v, verdict))
	default:
		d.res.Searched++
	}
}
