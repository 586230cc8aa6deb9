package detect

import (
	"fmt"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle"
)

// A State says how a misuse ends.
type State uint8

// The states of an answer.
const (
	Absent    State = iota // the subject has nothing there that could be misused so
	Undefined              // not done, or not gone on with: the rules do not say what follows
	Silent                 // no report whatever comes after it
	Reported               // there is a report
)

// String gives a word for the state.
func (s State) String() string {
	return [...]string{"absent", "undefined", "silent", "reported"}[s]
}

// A Moment is the operation at which a misuse is reported.
type Moment uint8

// The moments.
const (
	Never    Moment = iota
	Now             // the misuse itself
	Alloc           // a later allocation
	Free            // a later free
	Discard         // the end of a slab: the cache is shrunk or destroyed
	Validate        // a validation of the cache
)

// String gives a word for the moment.
func (m Moment) String() string {
	return [...]string{"never", "now", "alloc", "free", "discard", "validate"}[m]
}

// An Effect is what a report did to the operation that it came of.
type Effect uint8

// The effects.
const (
	WentAhead Effect = iota // it was carried out all the same
	TookBack                // a free was refused, or an object not handed out and its slab retired
	Stopped                 // the kernel stopped there
)

// String gives a word for the effect.
func (e Effect) String() string { return [...]string{"", "refused", "fatal"}[e] }

// An Answer is what became of one kind of misuse under one set of options.
type Answer struct {
	State   State
	Moment  Moment
	Effect  Effect
	Title   string // of the first report
	Program string // that shows it, canonical; "" when nothing was reported
}

// Word is the answer in one word, which Legend explains.
func (a Answer) Word() string {
	switch {
	case a.State == Absent:
		return "-"
	case a.State != Reported:
		return a.State.String()
	case a.Moment == Now && a.Effect != WentAhead:
		return a.Effect.String()
	}
	return a.Moment.String() + [...]string{"", "!", "*"}[a.Effect]
}

// A tester runs programs and keeps what a run needs.
type tester struct{ runner *oracle.Runner }

func newTester() *tester { return &tester{runner: oracle.NewRunner()} }

func (t *tester) close() { t.runner.Close() }

// answer runs the programs of a kind on a subject.
func (t *tester) answer(k *Kind, v *impls.Variant, f debugcheck.Flags, r debugcheck.Rules) (
	Answer, error) {
	best := Answer{State: Silent}
	for after := range courses {
		text, ok := k.program(f, r, after)
		if !ok {
			continue
		}
		a, err := t.run(k, v, text)
		if err != nil || a.State == Reported || a.State == Absent {
			return a, err
		}
		if a.State == Undefined {
			best = a
		}
	}
	return best, nil
}

// run is what one program shows.
func (t *tester) run(k *Kind, v *impls.Variant, text string) (Answer, error) {
	p := parse(text)
	c, err := oracle.Compile(p)
	if err != nil {
		return Answer{}, err
	}
	if ok, why := oracle.Applies(c, v); !ok {
		return Answer{}, fmt.Errorf("%s: %s", v.Name, why)
	}
	res := t.runner.Run(c, v, oracle.Options{})
	if res.Err != nil {
		return Answer{}, res.Err
	}
	if len(res.Faults) > 0 {
		f := &res.Faults[0]
		return Answer{}, fmt.Errorf("%s, %s: the run is wrong: %s: %s; the program:\n%s", v.Name,
			k.Name, f.Title, f.Detail, prog.Format(p))
	}
	a := k.judge(res.Events)
	switch {
	case a.State == Reported:
		a.Program = string(prog.Format(p))
	case a.State == Undefined && !exists(c, v, k.at()):
		a.State = Absent
	}
	return a, nil
}

// judge reads the answer from a transcript. A misuse that was skipped, and one after
// which the allocator must not be used any more, are Undefined.
func (k *Kind) judge(events []impls.Event) Answer {
	a := Answer{State: Silent}
	for i := range events {
		ev := &events[i]
		at := int(ev.Op) - k.at()
		switch {
		case at < 0:
			continue
		case len(ev.Reports) > 0:
			return Answer{State: Reported, Moment: momentOf(ev.Code, at),
				Effect: effectOf(ev.Reports), Title: ev.Reports[0].Title}
		case ev.Outcome == impls.Unsupported && at == 0:
			return Answer{State: Absent}
		case ev.Outcome == impls.Skipped:
			a.State = Undefined
		}
	}
	return a
}

// momentOf is the moment of the operation that comes so many places behind the misuse.
func momentOf(code impls.Code, behind int) Moment {
	if behind == 0 {
		return Now
	}
	switch code {
	case impls.OpAlloc, impls.OpMalloc:
		return Alloc
	case impls.OpFree:
		return Free
	case impls.OpValidate:
		return Validate
	case impls.OpShrink, impls.OpDestroy:
		return Discard
	}
	return Never
}

// effectOf is what the reports of one operation did, the strongest first. That an object
// was not freed, or that its slab was retired, is among the repairs; the free of an
// address in no slab ends with its report.
func effectOf(reports []*debugcheck.Report) Effect {
	e := WentAhead
	for _, r := range reports {
		if r.Kind == debugcheck.Fatal {
			return Stopped
		}
		if r.Title == debugcheck.TitleNotSlab || slices.ContainsFunc(r.Fixes, undoes) {
			e = TookBack
		}
	}
	return e
}

// undoes says whether a repair is one of those by which an operation comes to nothing.
func undoes(fix string) bool {
	return strings.HasSuffix(fix, "not freed") || fix == "Marking all objects used"
}

// exists says whether what the operation at a place of a program would misuse is there
// at all, by carrying out what comes before it on a machine of its own.
func exists(p *oracle.Compiled, v *impls.Variant, at int) bool {
	cfg := p.Config
	cfg.Native = true
	m := machine.New(cfg)
	defer m.Close()
	in := v.New(m)
	defer in.Close()
	c := m.NativeCtx(0, "look")
	defer c.Release()
	hit, field := false, false
	e := play.New(play.Setup{Instance: in, Caps: v.Caps, Profile: v.Profile,
		PageSize: uint64(cfg.PageSize), Slots: len(p.Slots), Caches: len(p.Stores),
		May: func(_ *machine.Ctx, op *impls.Op, ev *impls.Event) bool {
			hit = true
			field = op.Code == impls.OpFlip && (ev.Region.OfSlab() || ev.Region.OfCache())
			return field // that there is none shows when it should be changed
		}})
	for i := range p.Caches {
		e.Open(c, i, &p.Caches[i])
	}
	var ev impls.Event
	for i := range at + 1 {
		e.Do(c, &p.Lines[i].Op, &ev)
	}
	return hit && !(field && ev.Outcome == impls.Skipped)
}
