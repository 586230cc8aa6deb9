package oracle

import (
	"strings"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/sched"
)

// Options say how a program is run.
type Options struct {
	Checks  Checks          // rules to apply; 0 means AllChecks
	Chooser machine.Chooser // who decides at points; nil for line order
	Record  bool            // keep the decisions
	Trace   bool            // keep every point
	Native  bool            // on a native machine: one task only
	Shallow bool            // structure at checks and the end only, also of small programs
	Discard bool            // judge the transcript and do not keep it
	Extra   *fault.Fault    // found by comparing runs; noted with the run's own faults
}

// A Result is what one run of one program on one subject gave. It belongs to the
// Runner and is valid until its next run.
type Result struct {
	Subject   *impls.Variant
	Program   *Compiled
	Faults    []fault.Fault // steps and consequences in order of discovery
	Events    []impls.Event // the transcript
	Hash      uint64        // of the trace
	Steps     uint64        // points
	Switches  uint64
	Decisions []machine.Decision
	Trace     []machine.TraceEntry
	Aborted   bool // a fault ended the run
	Counts    Counts
}

// Counts say how much a run did and how much of it was left out.
type Counts struct {
	Operations  int
	Unsupported int
	Skipped     int
	Refused     int // no memory, or turned down
	Checked     [8]int
}

// Add sums two counts.
func (c *Counts) Add(d *Counts) {
	c.Operations += d.Operations
	c.Unsupported += d.Unsupported
	c.Skipped += d.Skipped
	c.Refused += d.Refused
	for i := range c.Checked {
		c.Checked[i] += d.Checked[i]
	}
}

// A Runner runs programs on subjects, one at a time, and keeps machines and
// storage between runs. Close it to end their coroutines.
type Runner struct {
	machines map[machine.Config]*machine.Machine
	recent   []machine.Config
	exec     play.Exec
	judge    judge
	snap     impls.Snapshot
	shape    shape
	ctxs     []*ctxRun
	lines    []Line
	orphans  []play.Slot     // what the program lost the names of
	orphan   func(play.Slot) // adds to them
	res      Result
	opt      Options
	m        *machine.Machine
	in       impls.Instance
	p        *Compiled
	v        *impls.Variant
	pattern  impls.Pattern
	binding  sched.Binding
	explain  *Report // the report that this run is made for, nil normally
	deep     bool
	rest     int // operations until the structure is looked at again
	keep     bool
	native   bool
}

// NewRunner makes a runner without machines.
func NewRunner() *Runner {
	r := &Runner{machines: map[machine.Config]*machine.Machine{}}
	r.orphan = func(s play.Slot) { r.orphans = append(r.orphans, s) }
	return r
}

// Close ends the machines of r.
func (r *Runner) Close() {
	for _, m := range r.machines { //tidy:maporder every machine is closed, in any order
		m.Close()
	}
	clear(r.machines)
	r.recent = r.recent[:0]
}

const machinesMax = 24

// machine finds or makes the machine of a config, reset.
func (r *Runner) machine(cfg machine.Config) *machine.Machine {
	m := r.machines[cfg]
	if m != nil {
		m.Reset()
		return m
	}
	if len(r.recent) == machinesMax {
		old := r.recent[0]
		r.machines[old].Close()
		delete(r.machines, old)
		r.recent = append(r.recent[:0], r.recent[1:]...)
	}
	m = machine.New(cfg)
	r.machines[cfg] = m
	r.recent = append(r.recent, cfg)
	return m
}

// drop forgets the current machine: a panic may have left it in any state.
func (r *Runner) drop() {
	cfg := r.m.Config
	r.m.Close()
	delete(r.machines, cfg)
	for i := range r.recent {
		if r.recent[i] == cfg {
			r.recent = append(r.recent[:i], r.recent[i+1:]...)
			break
		}
	}
}

// Applies says whether p can run on v, and if not why.
func Applies(p *Compiled, v *impls.Variant) (ok bool, why string) {
	if !v.For(p.Config.Preempt) {
		return false, "made for other machines than preempt=" + p.Config.Preempt.String()
	}
	if p.Sequential() {
		return true, ""
	}
	tasks := 0
	for i := range p.Ctxs {
		if !p.Ctxs[i].Ctx.IsIRQ() {
			tasks++
		} else if !v.Caps.Has(impls.CapIRQ) {
			return false, "not to be called in interrupts"
		}
	}
	if tasks > 1 && !v.Caps.Has(impls.CapSMP) {
		return false, "not to be called by several tasks"
	}
	return true, ""
}

// deepMax bounds the programs whose structure is checked after every operation.
const deepMax = 256

// Run runs p on v, which Applies must allow. A fault of this project panics.
func (r *Runner) Run(p *Compiled, v *impls.Variant, opt Options) *Result {
	if opt.Checks == 0 {
		opt.Checks = AllChecks
	}
	r.start(p, v, opt)
	if v.New == nil {
		r.playRemote()
		return &r.res
	}
	r.deep = !opt.Shallow && p.ops <= deepMax && p.Config.Pages <= 64 &&
		opt.Checks.On(fault.Structure)
	r.keep, r.rest = p.ops <= eventsMax && !opt.Discard, 0
	r.setUp()
	if opt.Native {
		r.runNative()
	} else {
		r.runSim()
	}
	r.finish()
	return &r.res
}

// eventsMax bounds the programs whose transcript is kept.
const eventsMax = 1 << 21

func (r *Runner) start(p *Compiled, v *impls.Variant, opt Options) {
	r.p, r.v, r.opt, r.native = p, v, opt, opt.Native
	r.orphans, r.pattern = r.orphans[:0], 0
	r.res = Result{Subject: v, Program: p, Faults: r.res.Faults[:0], Events: r.res.Events[:0]}
	r.lines = append(r.lines[:0], p.Lines...)
}

// setUp makes machine, instance, slots and declared caches.
func (r *Runner) setUp() {
	cfg := r.p.Config
	cfg.Native = r.native
	r.m = r.machine(cfg)
	r.in = r.v.New(r.m)
	r.exec.Reset(play.Setup{Instance: r.in, Caps: r.v.Caps, Profile: r.v.Profile,
		PageSize: uint64(cfg.PageSize), Slots: len(r.p.Slots), Caches: len(r.p.Stores),
		Lost: r.orphan})
	align := r.minAlign()
	r.judge.reset(r.exec.Memory(), align, granule(align), r.opt.Checks)
	r.judge.first, r.judge.arena = nil, r.m.PageLayer() != nil
	if r.explain != nil {
		r.judge.first = r.state
	}
	r.shape.reset()
	var c *machine.Ctx // in simulation nothing runs yet
	if r.native {
		c = r.m.NativeCtx(0, "set-up")
		defer c.Release()
	}
	for i := range r.p.Caches {
		r.exec.Open(c, i, &r.p.Caches[i])
	}
}

// minAlign is the alignment that the subject promises for every address: at most a
// word where it lives on the machine.
func (r *Runner) minAlign() uint64 {
	if r.m.PageLayer() == nil {
		return max(r.v.Profile.MinAlign, 1)
	}
	return min(max(r.v.Profile.MinAlign, 1), uint64(r.m.WordBytes()))
}

// granule is the shift of the judge's unit of memory: the alignment of every
// address, at most 8 bytes.
func granule(align uint64) uint {
	shift := uint(0)
	for shift < 3 && uint64(2)<<shift <= align {
		shift++
	}
	return shift
}

func (r *Runner) runSim() {
	s := r.m.Sim()
	for i := range r.p.Ctxs {
		k := &r.p.Ctxs[i]
		x := r.ctx(i)
		if k.Ctx.IsIRQ() {
			x.handler = machine.Handler{CPU: k.CPU, Name: k.Name, Pos: k.First, Body: x.body}
			r.m.AddHandler(&x.handler)
			continue
		}
		x.task = r.m.AddTask(k.Name, k.CPU, k.First, k.Ctx.Kind == pinnedKind, x.body)
	}
	if len(r.p.Checks) > 0 {
		r.m.SetBarriers(r.p.Checks, func(int) { r.structure(nil) })
	}
	if r.opt.Record {
		s.Record()
	}
	if r.opt.Trace {
		s.Trace()
	}
	r.bind()
	if b, ok := r.opt.Chooser.(sched.Binder); ok {
		b.Bind(&r.binding)
	}
	err := s.Run(r.opt.Chooser)
	r.panicked(err)
	r.res.Aborted = r.res.Aborted || s.Aborted()
	r.res.Hash, r.res.Steps, r.res.Switches = s.Hash(), s.Steps(), s.Switches()
	r.res.Decisions, r.res.Trace = s.Decisions(), s.Entries()
}

// bind notes the tasks and handlers of this run by number of context.
func (r *Runner) bind() {
	b := &r.binding
	b.Machine, b.Tasks, b.Handlers = r.m, b.Tasks[:0], b.Handlers[:0]
	for i := range r.p.Ctxs {
		x := r.ctxs[i]
		b.Tasks = append(b.Tasks, x.task)
		if x.task == nil {
			b.Handlers = append(b.Handlers, &x.handler)
		} else {
			b.Handlers = append(b.Handlers, nil)
		}
	}
}

// panicked turns what a subject panicked with into a fault, and passes on faults
// of this project.
func (r *Runner) panicked(err error) {
	if err == nil {
		return
	}
	p, ok := err.(*machine.Panic)
	if !ok {
		panic("allocfuzz: " + err.Error())
	}
	if strings.HasPrefix(p.Error(), "allocfuzz:") {
		panic(p.Error() + "\n\n" + string(p.Stack))
	}
	r.judge.fault(fault.Aborted, "panic: %s\n%s", p.Error(), p.Stack)
	r.res.Aborted = true
}

// finish checks the end of the run and gathers what was found.
func (r *Runner) finish() {
	if !r.res.Aborted {
		if r.opt.Checks.On(fault.Structure) {
			r.structure(nil)
			r.epilogue()
		}
	}
	r.in.Close()
	r.res.Faults = append(r.res.Faults, r.m.Faults()...)
	if !r.opt.Checks.On(fault.Step) {
		r.res.Faults = r.res.Faults[:0]
		for _, f := range r.m.Faults() {
			if f.Title == fault.WildAddress || f.Title == fault.NoProgress || f.Title == fault.Deadlock {
				r.res.Faults = append(r.res.Faults, f) // the run ended there
			}
		}
	}
	r.res.Faults = append(r.res.Faults, r.judge.faults...)
	if r.opt.Extra != nil {
		r.res.Faults = append(r.res.Faults, *r.opt.Extra)
	}
	c := &r.res.Counts
	c.Checked[fault.Ownership] += int(r.judge.judged[0])
	c.Checked[fault.Contents] += int(r.judge.judged[1])
	c.Checked[fault.Structure] += r.shape.checks
	c.Checked[fault.Step] += int(r.res.Steps)
	if r.res.Aborted {
		r.drop()
	}
}
