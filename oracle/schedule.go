package oracle

import (
	"fmt"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle/sched"
)

// Anchors resolves the departures of a schedule block to places of p. A departure
// that names no line of p, or no context, is an error with its place in the file.
func (p *Compiled) Anchors(s *prog.Sched) ([]sched.Anchor, error) {
	places := p.places()
	index := prog.NewIndex(p.Prog)
	var out []sched.Anchor
	for i := range s.Departures {
		a, err := p.anchor(index, places, &s.Departures[i])
		if err != nil {
			return nil, err
		}
		out = append(out, a)
	}
	return out, nil
}

// places finds the order of each line of the source.
func (p *Compiled) places() map[*prog.Line]int {
	m := make(map[*prog.Line]int, len(p.Lines))
	for i := range p.Lines {
		m[p.Lines[i].Src] = i
	}
	return m
}

func (p *Compiled) anchor(x *prog.Index, places map[*prog.Line]int, d *prog.Departure) (
	sched.Anchor, error) {
	fail := func(format string, args ...any) error {
		return &prog.Error{File: p.Prog.File, Pos: d.Pos, Msg: fmt.Sprintf(format, args...)}
	}
	a := sched.Anchor{Handler: -1, Delivery: d.Where.Delivery, Kind: machine.Kind(d.Kind),
		Field: d.Field, N: d.N}
	line, path, err := x.Target(&d.Where)
	if err != nil {
		return a, err
	}
	a.Pos = places[line]
	for i := range min(len(path)-1, len(a.Iter)) {
		a.Iter[i] = 1
		if i < len(d.Where.Iter) {
			a.Iter[i] = int32(d.Where.Iter[i])
		}
	}
	if d.Where.IRQ != "" {
		ctx, ok := prog.ParseCtx(d.Where.IRQ)
		if a.Handler = p.context(ctx); !ok || a.Handler < 0 {
			return a, fail("no handler %s in the program", d.Where.IRQ)
		}
		a.Delivery = max(a.Delivery, 1)
	}
	for _, act := range d.Actions {
		got, ok := p.act(act)
		if !ok {
			return a, fail("no context for the action in the program")
		}
		a.Acts = append(a.Acts, got)
	}
	return a, nil
}

// context finds the number of a context; -1 when p has none such.
func (p *Compiled) context(x prog.Ctx) int {
	for i := range p.Ctxs {
		if p.Ctxs[i].Ctx == x {
			return i
		}
	}
	return -1
}

func (p *Compiled) act(a prog.Action) (sched.Act, bool) {
	out := sched.Act{Ctx: -1, CPU: a.CPU}
	if ctx, ok := a.Ctx(); ok {
		out.Kind = machine.SwitchTo
		if a.Kind == prog.Interrupt {
			out.Kind = machine.Interrupt
		}
		out.CPU = 0
		out.Ctx = p.context(ctx)
		return out, out.Ctx >= 0
	}
	switch a.Kind {
	case prog.Move:
		out.Kind = machine.Move
		return out, a.CPU < p.Config.CPUs
	case prog.HoldStore:
		out.Kind = machine.Hold
	case prog.DrainStore:
		out.Kind = machine.Drain
		return out, a.CPU < p.Config.CPUs
	case prog.Fail:
		out.Kind = machine.FailPages
	case prog.None:
		out.Kind = machine.Suppress
	}
	return out, true
}

// Schedule writes anchors down as a schedule block of p.
func (p *Compiled) Schedule(subject string, anchors []sched.Anchor) prog.Sched {
	s := prog.Sched{Subject: subject}
	for i := range anchors {
		a := &anchors[i]
		l := &p.Lines[a.Pos]
		d := prog.Departure{Kind: prog.Kind(a.Kind), Field: a.Field, N: a.N}
		d.Where.Line = l.Src
		for k := range len(l.Path) - 1 {
			d.Where.Iter = append(d.Where.Iter, int(a.Iter[k]))
		}
		if a.Handler >= 0 {
			d.Where.IRQ, d.Where.Delivery = p.Ctxs[a.Handler].Name, a.Delivery
		}
		for _, act := range a.Acts {
			d.Actions = append(d.Actions, p.action(act))
		}
		s.Departures = append(s.Departures, d)
	}
	return s
}

func (p *Compiled) action(a sched.Act) prog.Action {
	switch a.Kind {
	case machine.SwitchTo:
		x := p.Ctxs[a.Ctx].Ctx
		if x.Kind == prog.TaskCtx {
			return prog.Action{Kind: prog.ToTask, Name: x.Name}
		}
		return prog.Action{Kind: prog.ToCPU, CPU: x.CPU}
	case machine.Interrupt:
		x := p.Ctxs[a.Ctx].Ctx
		return prog.Action{Kind: prog.Interrupt, CPU: x.CPU, Name: x.Name}
	case machine.Move:
		return prog.Action{Kind: prog.Move, CPU: a.CPU}
	case machine.FailPages:
		return prog.Action{Kind: prog.Fail}
	case machine.Hold:
		return prog.Action{Kind: prog.HoldStore}
	case machine.Drain:
		return prog.Action{Kind: prog.DrainStore, CPU: a.CPU}
	}
	return prog.Action{Kind: prog.None}
}

// Recorded returns the decisions of the last run, which must have been made with
// Options.Record, as anchors.
func (r *Runner) Recorded() []sched.Anchor {
	return sched.FromDecisions(&r.binding, r.res.Decisions)
}

// Points runs p on v once, under block s or in line order when s is nil, and keeps
// every point: the result's Trace. Departures that do not apply are left out. Like
// any result it is valid until the next run. A departure that names no line of p is
// an error with its place in the file.
func (r *Runner) Points(p *Compiled, v *impls.Variant, s *prog.Sched, opt Options) (
	*Result, error) {
	opt.Chooser, opt.Trace = nil, true
	if s != nil && len(s.Departures) > 0 {
		anchors, err := p.Anchors(s)
		if err != nil {
			return nil, err
		}
		opt.Chooser = sched.NewReplay(sched.Repair, anchors)
	}
	return r.Run(p, v, opt), nil
}

// An Exploration is what trying one departure at every point gave.
type Exploration struct {
	Subject   *impls.Variant
	Schedules int
	Points    uint64
	Counts    Counts
	Finding   *Finding    // the first
	Sched     *prog.Sched // that shows it; without departures when line order does
	Hash      uint64      // of that run's trace
	Found     int         // schedules that found something
}

// Singles runs p on v in line order and then once for every departure that is
// possible at any point of that run: an interrupt, a switch, a migration, a
// failing page request, a store that is held back, one at a time (bound 1). It goes
// on after a finding. Options say what each run costs: see Shallow, NoEnd, Discard and
// Checks.
func (r *Runner) Singles(p *Compiled, v *impls.Variant, opt Options) *Exploration {
	x := &Exploration{Subject: v}
	survey := &sched.Survey{}
	opt.Chooser, opt.Record = survey, true
	x.add(r, r.Run(p, v, opt))
	single := &sched.Single{}
	opt.Chooser = single
	for point, n := range survey.Allowed {
		for which := range n {
			single.Point, single.Which = point, which
			x.add(r, r.Run(p, v, opt))
		}
	}
	return x
}

func (x *Exploration) add(r *Runner, res *Result) {
	x.Schedules++
	x.Points += res.Steps
	x.Counts.Add(&res.Counts)
	if len(res.Faults) == 0 {
		return
	}
	x.Found++
	if x.Finding == nil {
		x.Finding, x.Hash = res.Finding(), res.Hash
		s := res.Program.Schedule(res.Subject.Name, r.Recorded())
		s.Bug = string(x.Finding.Title)
		x.Sched = &s
	}
}

// A Verdict is what a program showed on one subject: in line order, and under its
// written schedules.
type Verdict struct {
	Subject  *impls.Variant
	Left     string // why the subject was left out, "" when it ran
	Finding  *Finding
	Expected string // title that the subject's own schedule block expects
	Runs     int
	Repaired int // departures that did not apply, of a block made for others or with Options.Repair
	Departed int // departures of the block, those included
	Counts   Counts
	Steps    uint64
	Hash     uint64               // of the run that found something, else of the last
	Sched    *prog.Sched          // of that run; nil in line order
	Events   []impls.Event        // outcomes of the run in line order, when it was made
	Reports  []*debugcheck.Report // of the debug checks, of all runs in order
	Skips    []Skip               // misuse that was not carried out
	Apart    bool                 // it could not make every declared cache, see Comparison
}

// Missing says that a bug was expected and not found.
func (v *Verdict) Missing() bool {
	return v.Left == "" && v.Expected != "" && (v.Finding == nil || !v.Finding.Matches(v.Expected))
}

// Known says that what was found is what the file expects.
func (v *Verdict) Known() bool {
	return v.Finding != nil && v.Expected != "" && v.Finding.Matches(v.Expected)
}

// Judge runs p on v. A subject with a block of its own runs that block, strictly:
// an anchor that never occurs is an error with its place in the file. Any other
// runs in line order and then the first block, leaving out what does not apply. A
// remote subject that cannot be played is an error, too.
func (r *Runner) Judge(p *Compiled, v *impls.Variant, opt Options) (*Verdict, error) {
	out := &Verdict{Subject: v}
	if ok, why := Applies(p, v); !ok {
		out.Left = why
		return out, nil
	}
	own := Block(p.Prog, v)
	if own != nil {
		out.Expected = own.Bug
	}
	if own != nil && v.New != nil { // a remote subject has no points
		return out, r.scheduled(p, v, opt, own, out)
	}
	opt.Chooser = nil
	res := r.Run(p, v, opt)
	if res.Err != nil {
		return out, res.Err
	}
	res.Expect()
	out.Events, out.Apart = append(out.Events, res.Events...), res.Apart()
	out.add(res, nil)
	if len(p.Prog.Scheds) > 0 && v.New != nil {
		return out, r.scheduled(p, v, opt, &p.Prog.Scheds[0], out)
	}
	return out, nil
}

// Block is the schedule block of a program that is for a subject; nil when it has none.
func Block(p *prog.Program, v *impls.Variant) *prog.Sched {
	for i := range p.Scheds {
		if s := &p.Scheds[i]; isFor(s, v) {
			return s
		}
	}
	return nil
}

// Blocks are the schedules under which Judge runs a program on a subject: that of its own, else
// line order, which is nil, and the first one.
func Blocks(p *prog.Program, v *impls.Variant) []*prog.Sched {
	if s := Block(p, v); s != nil {
		return []*prog.Sched{s}
	}
	if len(p.Scheds) > 0 {
		return []*prog.Sched{nil, &p.Scheds[0]}
	}
	return []*prog.Sched{nil}
}

// isFor says whether a block names a subject.
func isFor(s *prog.Sched, v *impls.Variant) bool {
	return s.Subject != "" && (s.Subject == v.Name || s.Subject == v.Alias)
}

func (r *Runner) scheduled(p *Compiled, v *impls.Variant, opt Options, s *prog.Sched,
	out *Verdict) error {
	anchors, err := p.Anchors(s)
	if err != nil {
		return err
	}
	mode := sched.Repair
	if isFor(s, v) {
		mode = sched.Strict
	}
	if opt.Repair {
		mode = sched.Repair
	}
	replay := sched.NewReplay(mode, anchors)
	opt.Chooser = replay
	res := r.Run(p, v, opt)
	if mode == sched.Strict {
		res.Expect()
	}
	unused := replay.Unused()
	out.Departed += len(anchors)
	if mode == sched.Repair {
		out.Repaired += len(unused)
	}
	if mode == sched.Strict && len(unused) > 0 && !res.Aborted {
		return p.neverReached(s, anchors, unused[0])
	}
	out.add(res, s)
	return nil
}

func (p *Compiled) neverReached(s *prog.Sched, anchors []sched.Anchor, a *sched.Anchor) error {
	for i := range anchors {
		if &anchors[i] == a || anchors[i].Pos == a.Pos && anchors[i].Kind == a.Kind &&
			anchors[i].Field == a.Field && anchors[i].N == a.N && anchors[i].Iter == a.Iter {
			return &prog.Error{File: p.Prog.File, Pos: s.Departures[i].Pos,
				Msg: "this point never occurs on " + s.Subject +
					", or the action is not possible there",
				Hint: "see the points of the line with allocfuzz replay -v"}
		}
	}
	panic("allocfuzz: an anchor without a departure")
}

// add takes one run into the verdict; its first finding stays.
func (v *Verdict) add(res *Result, s *prog.Sched) {
	v.Runs++
	v.Counts.Add(&res.Counts)
	v.Steps += res.Steps
	v.Reports = append(v.Reports, res.Reports...)
	v.Skips = append(v.Skips, res.Skips...)
	f := res.Finding()
	if v.Finding == nil {
		v.Hash = res.Hash
		if f != nil {
			v.Finding, v.Sched = f, s
		}
	}
}
