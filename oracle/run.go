package oracle

import (
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/sched"
	"allocfuzz/oracle/shadow"
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
	Twice   bool            // run twice: traces and outcomes must be the same
	Repair  bool            // Judge: leave out what does not apply of a subject's own block too
	Warm    bool            // a remote subject's process may have played other programs
	NoEnd   bool            // the end is not looked at: nothing is freed, no page demanded back
	First   *Finding        // for Explain: what showed, should it not repeat
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
	Reports   []*debugcheck.Report // of the debug checks, in order, those of the end too
	Skips     []Skip               // misuse that was not carried out
	History   *history.History     // of several contexts in real time, nil when not checked
	Err       error                // a remote subject could not be played: nothing is known of it
	checks    Checks
	extra     bool               // the last fault is Options.Extra
	opened    []impls.Outcome    // of the declared caches
	kept      map[int]*prog.Line // of a stream: the lines at which faults were raised
}

// line finds the source of the line of order n; nil outside the program.
func (r *Result) line(n int) *prog.Line {
	if r.kept != nil {
		return r.kept[n]
	}
	if n < 0 || n >= len(r.Program.Lines) {
		return nil
	}
	return r.Program.Lines[n].Src
}

// Apart says that the subject could not make every cache that the program declares,
// so that its outcomes are not those of subjects that could; or that caches may be one,
// which is for each subject to decide.
func (r *Result) Apart() bool {
	if r.Program != nil && r.Program.Config.Merge {
		return true
	}
	for _, o := range r.opened {
		if o != impls.OK {
			return true
		}
	}
	return false
}

// Counts say how much a run did and how much of it was left out.
type Counts struct {
	Operations  int
	Unsupported int
	Skipped     int
	Refused     int // no memory, or turned down
	LeftOut     int // stated outcomes of what the subject does not support
	Checked     [8]int
}

// Add sums two counts.
func (c *Counts) Add(d *Counts) {
	c.Operations += d.Operations
	c.Unsupported += d.Unsupported
	c.Skipped += d.Skipped
	c.Refused += d.Refused
	c.LeftOut += d.LeftOut
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
	shadow   shadow.Shadow
	shadowed bool // the run has debugged caches
	denied   bool // the rules did not allow the misuse that was asked about last
	ctxs     []*ctxRun
	lines    []Line
	base     int             // order of the first of them
	orphans  []play.Slot     // what the program lost the names of
	orphan   func(play.Slot) // adds to them
	named    func(int) string
	res      Result
	opt      Options
	m        *machine.Machine
	in       impls.Instance
	p        *Compiled
	v        *impls.Variant
	pattern  impls.Pattern
	stated   *stated // holds a stream's outcomes against what it states
	reuse    reuse
	before   int    // free pages before the shrink or reap in hand
	print    uint64 // of the outcomes, for Options.Twice
	timed    bool   // the history is written down
	times    history.Recorder
	linear   history.Checker
	binding  sched.Binding
	warm     map[*impls.Variant]*warmed // processes of remote subjects that are kept
	end      *ending                    // made once
	explain  *Report                    // the report that this run is made for, nil normally
	deep     bool
	rest     int // operations until the structure is looked at again
	keep     bool
	native   bool
}

// NewRunner makes a runner without machines.
func NewRunner() *Runner {
	r := &Runner{machines: map[machine.Config]*machine.Machine{}}
	r.orphan = func(s play.Slot) { r.orphans = append(r.orphans, s) }
	r.named = func(n int) string { return strconv.Quote(r.p.Named(n)) }
	return r
}

// Close ends the machines of r.
func (r *Runner) Close() {
	//tidy:maporder every machine is closed, in any order
	for _, m := range r.machines {
		m.Close()
	}
	r.hangUp()
	clear(r.machines)
	r.recent, r.m = r.recent[:0], nil
}

const machinesMax = 24

// machine finds or makes the machine of a config, reset.
func (r *Runner) machine(cfg machine.Config) *machine.Machine {
	m := r.m
	if m == nil || m.Config != cfg {
		m = r.machines[cfg]
	}
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
	r.m = nil
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
	if v.Caps.Has(impls.CapPages) && v.Caps&(impls.CapObjects|impls.CapSizes) == 0 && !p.pages {
		return false, "it hands out pages only, and none are asked for"
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
	if v.New == nil && tasks > impls.ThreadsMax {
		return false, fmt.Sprintf("it has %d threads at most", impls.ThreadsMax)
	}
	return true, ""
}

// deepMax bounds the programs whose structure is checked after every operation.
const deepMax = 256

// Run runs p on v, which Applies must allow. A fault of this project panics. A
// remote subject that cannot be reached or does not answer in the protocol is
// neither: the result says so in Err.
func (r *Runner) Run(p *Compiled, v *impls.Variant, opt Options) *Result {
	if opt.Checks == 0 {
		opt.Checks = AllChecks
	}
	res := r.once(p, v, opt)
	if real := v.New == nil && !p.Sequential(); opt.Twice && res.Err == nil && !real {
		r.again(p, v, opt)
	}
	return res
}

// again makes the run a second time and demands the same trace, number of points
// and outcomes. A chooser must begin afresh when it is bound.
func (r *Runner) again(p *Compiled, v *impls.Variant, opt Options) {
	hash, steps, print := r.res.Hash, r.res.Steps, r.print
	res := r.once(p, v, opt)
	if res.Err != nil || !opt.Checks.On(fault.Difference) {
		return
	}
	res.Counts.Checked[fault.Difference]++
	if res.Hash == hash && res.Steps == steps && r.print == print {
		return
	}
	res.Faults = append(res.Faults, fault.Fault{Title: fault.NonDeterministic,
		Detail: fmt.Sprintf("trace %016x, %d points, outcomes %016x; again %016x, %d, %016x",
			hash, steps, print, res.Hash, res.Steps, r.print),
		Where: fault.Where{Line: -1, CPU: -1}})
}

func (r *Runner) once(p *Compiled, v *impls.Variant, opt Options) *Result {
	r.start(p, v, opt)
	if v.New == nil {
		r.playRemote()
		return &r.res
	}
	small := p.Config.Pages <= 64 || p.pages && p.Config.Pages <= 1024
	r.deep = !opt.Shallow && p.ops <= deepMax && small && opt.Checks.On(fault.Structure)
	r.keep, r.rest = p.ops <= eventsMax && !opt.Discard, 0
	r.setUp()
	if opt.Native {
		if !p.Sequential() {
			panic("allocfuzz: a native run of a program with several contexts")
		}
		r.runNative(&p.Ctxs[0], r.inOrder)
	} else {
		r.runSim()
	}
	r.finish()
	return &r.res
}

// eventsMax bounds the programs whose transcript is kept.
const eventsMax = 1 << 21

func (r *Runner) start(p *Compiled, v *impls.Variant, opt Options) {
	if r.p != p { // the runner has its own copy, since it numbers the patterns
		r.lines = append(r.lines[:0], p.Lines...)
	}
	r.p, r.v, r.opt, r.native = p, v, opt, opt.Native
	r.shadowed = false
	r.orphans, r.pattern, r.base = r.orphans[:0], 0, 0
	if r.end != nil {
		r.end.calling = false
	}
	r.stated, r.print, r.reuse, r.timed = nil, 0, reuse{cache: -1}, false
	r.res = Result{Subject: v, Program: p, Faults: r.res.Faults[:0], Events: r.res.Events[:0],
		checks: opt.Checks, opened: r.res.opened[:0]}
}

// setUp makes machine, instance, slots and declared caches.
func (r *Runner) setUp() {
	cfg := r.p.Config
	cfg.Native = r.native
	r.m = r.machine(cfg)
	r.in = r.v.New(r.m)
	r.exec.Reset(play.Setup{Instance: r.in, Caps: r.v.Caps, Profile: r.v.Profile,
		PageSize: uint64(cfg.PageSize), Slots: len(r.p.Slots), Caches: len(r.p.Stores),
		Lost: r.orphan, May: r.may, Fresh: r.fresh})
	align := r.minAlign()
	r.judge.reset(r.exec.Memory(), align, granule(align), r.opt.Checks)
	r.judge.first, r.judge.arena = nil, r.m.PageLayer() != nil
	r.judge.base = r.m.Base
	r.judge.relics.sections, r.judge.relics.stable = r.m.ReadSections, r.exec.Stable
	r.merges()
	if r.explain != nil {
		r.judge.first = r.state
	}
	r.shape.reset()
	r.times.Reset()
	r.timed = !r.native && r.opt.Checks.On(fault.History) && len(r.p.Ctxs) > 0 &&
		!r.p.Sequential()
	r.shadowing()
	var c *machine.Ctx // in simulation nothing runs yet
	if r.native {
		c = r.m.NativeCtx(0, "set-up")
		defer c.Release()
	}
	for i := range r.p.Caches {
		r.opened(i, r.exec.Open(c, i, &r.p.Caches[i]))
	}
}

// runNative carries out one task on a native machine: no points, no checks of
// steps, the same transcript.
func (r *Runner) runNative(k *Context, body func(*machine.Ctx)) {
	c := r.m.NativeCtx(k.CPU, k.Name)
	defer c.Release()
	defer func() {
		if p := recover(); p != nil && !machine.Stopped(p) {
			r.panicked(&machine.Panic{Value: p, Stack: debug.Stack()})
		} else if p != nil {
			r.res.Aborted = true
			if p := impls.Panicked(r.m.LastWords()); p != nil {
				r.stopped(p)
			}
		}
	}()
	body(c)
}

// inOrder carries out the lines of the one task, and the checks between them.
func (r *Runner) inOrder(c *machine.Ctx) {
	code, checks := r.p.Ctxs[0].Code, r.p.Checks
	for i := range code {
		for len(checks) > 0 && checks[0] < code[i].line {
			c.EndReading()
			r.structure(nil)
			checks = checks[1:]
		}
		r.ctx(0).run(c, code[i:i+1], round{after: machine.After})
	}
	for range checks {
		c.EndReading()
		r.structure(nil)
	}
}

func (r *Runner) runSim() {
	s := r.m.Sim()
	s.NameLines(r.named)
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
	r.simulate()
}

// simulate lets the tasks of the simulated machine run to their end.
func (r *Runner) simulate() {
	s := r.m.Sim()
	r.panicked(s.Run(r.opt.Chooser))
	r.res.Aborted = r.res.Aborted || s.Aborted()
	r.halted()
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
	if blame(p.Stack) {
		panic("allocfuzz: " + p.Error() + "\n\n" + string(p.Stack))
	}
	r.judge.fault(fault.Aborted, "panic: %s\n%s", p.Error(), p.Stack)
	r.res.Aborted = true
}

// finish checks the end of the run and gathers what was found.
func (r *Runner) finish() {
	r.inTime()
	if !r.res.Aborted {
		if r.opt.Checks.On(fault.Structure) {
			r.structure(nil)
		}
		if r.opt.Checks.On(fault.Structure) && !r.opt.NoEnd && !r.res.Aborted {
			r.epilogue()
		}
	}
	r.in.Close()
	for _, f := range r.m.Faults() {
		// Without the check of steps those remain that the run ended at.
		if r.opt.Checks.On(fault.Step) || f.Title == fault.WildAddress ||
			f.Title == fault.NoProgress || f.Title == fault.Deadlock {
			r.res.Faults = append(r.res.Faults, f)
		}
	}
	r.judged()
	c := &r.res.Counts
	c.Checked[fault.Structure] += r.shape.checks
	c.Checked[fault.Step] += int(r.res.Steps)
	if r.res.Aborted {
		r.drop()
	}
}

// judged adds what the judge found and counted to the result.
func (r *Runner) judged() {
	r.res.Faults = append(r.res.Faults, r.judge.faults...)
	if r.opt.Extra != nil {
		r.res.Faults, r.res.extra = append(r.res.Faults, *r.opt.Extra), true
	}
	c := &r.res.Counts
	c.Checked[fault.Ownership] += int(r.judge.judged[0])
	c.Checked[fault.Contents] += int(r.judge.judged[1])
	if r.shadowed {
		c.Checked[fault.Reports] += r.shadow.Judged()
	}
}
