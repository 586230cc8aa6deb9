package oracle

import (
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/shadow"
)

// This file joins a run with the shadow that predicts its debug reports (check 3).

// shadowing sets the shadow up for a run with debugged caches; without them there is
// none, and any report is a false one.
func (r *Runner) shadowing() {
	r.shadowed = false
	if r.p.Config.Debug != "" || r.v.Rules == debugcheck.Guard {
		r.casts()
	}
	for i := range r.p.Caches {
		if debugs(r.p.Caches[i].Flags) && !r.shadowed {
			r.casts()
		}
	}
}

// debugs says whether one of the words of a cache is a debug option.
func debugs(words []string) bool {
	for _, w := range words {
		if _, ok := debugcheck.ParseWord(w); ok {
			return true
		}
	}
	return false
}

// creates is told of a cache that is about to be made: the first one that asks for debug
// flags starts the shadow.
func (r *Runner) creates(op *impls.Op) {
	if !r.shadowed && op.Code == impls.OpCreate && op.Spec != nil && debugs(op.Spec.Flags) {
		r.casts()
	}
}

// casts starts the shadow. A stream has no contexts yet; it will have one.
func (r *Runner) casts() {
	if r.native || !r.v.Caps.Has(impls.CapDebug) {
		return
	}
	r.shadowed = true
	var limits func() (int, uint64)
	if q, ok := r.in.(quarantine); ok {
		limits = q.Quarantine
	}
	r.shadow.Reset(shadow.Setup{Memory: r.exec.Memory(), PageSize: uint64(r.m.PageSize),
		Base: r.m.Base, Alone: len(r.p.Ctxs) == 0 || r.p.Sequential(),
		Blind: r.v.Rules == debugcheck.Guard, Snapshot: r.in.Snapshot, Cache: r.cacheAt,
		Owner: r.owner(), Pinned: r.pinned(), Quarantine: limits, Raise: r.judge.fault})
}

// A quarantine tells its limits, see shadow.Setup.
type quarantine interface {
	Quarantine() (objects int, bytes uint64)
}

// pinned says whether no context of the program ever leaves its CPU.
func (r *Runner) pinned() bool {
	for i := range r.p.Ctxs {
		if k := r.p.Ctxs[i].Ctx; k.Kind != pinnedKind && !k.IsIRQ() {
			return false
		}
	}
	return len(r.p.Ctxs) > 0
}

func (r *Runner) cacheAt(slot int32) impls.Cache { return r.exec.Cache(int(slot)) }

// owner finds the cache of what was allocated by size; nil where none is known.
func (r *Runner) owner() func(impls.Addr) impls.Cache {
	if !r.v.Caps.Has(impls.CapSizes) {
		return nil
	}
	return func(a impls.Addr) impls.Cache {
		if o, ok := r.in.Sizes().(impls.Owner); ok {
			return o.CacheOf(a)
		}
		return nil
	}
}

// blocks says whether what was misused before keeps an operation from being done.
func (r *Runner) blocks(op *impls.Op) bool {
	var a impls.Addr
	if op.Slot >= 0 && int(op.Slot) < r.exec.Slots() {
		a = r.exec.Slot(int(op.Slot)).Addr
	}
	return r.shadow.Blocks(op, a)
}

// stuck says whether op is to destroy a cache that holds on to something for good.
func (r *Runner) stuck(op *impls.Op) bool {
	return op.Code == impls.OpDestroy && r.shadowed &&
		r.shadow.Stuck(r.exec.Cache(int(op.Cache)))
}

// may is asked before a misuse is carried out.
func (r *Runner) may(_ *machine.Ctx, op *impls.Op, ev *impls.Event) bool {
	r.denied = !r.shadowed || !r.shadow.May(op, ev)
	return !r.denied
}

// fresh looks at what was just handed out, before the program writes to it.
func (r *Runner) fresh(op *impls.Op, ev *impls.Event) {
	if r.shadowed {
		r.shadow.Fresh(op, ev)
	}
}

// checked holds the reports of an operation that is over against the rules, and tells
// the model what the allocator did not take back after all, or did.
func (r *Runner) checked(ev *impls.Event) {
	r.reported(ev.Reports)
	if !r.shadowed {
		// Natively there is no shadow, and the one report that takes no misuse is believed.
		busy := ev.Code == impls.OpDestroy && ev.Outcome == impls.Refused
		if len(ev.Reports) > 0 && !(r.native && busy) {
			r.judge.fault(fault.FalseReport+": "+fault.Title(ev.Reports[0].Title), "cache %s, %s",
				ev.Reports[0].Cache, ev.Reports[0].Detail)
		}
		return
	}
	if ev.Outcome == impls.NoMem && ev.Op >= 0 && r.lines[int(ev.Op)-r.base].Op.FailObject == 1 {
		r.shadow.Untried()
	}
	r.shadow.End(ev)
	switch {
	case r.shadow.Gone():
		slot := r.exec.Slot(int(ev.Slot))
		r.judge.vacate(slot.Addr, slot.Size)
		if ev.Code == impls.OpFreeWrong && slot.Owner() >= 0 {
			*r.judge.cacheCount(slot.Owner())--
		}
		r.exec.Forget(int(ev.Slot))
	case play.Frees(ev.Code) && r.shadow.Kept():
		r.judge.revive(ev.Addr, ev.Size)
		r.keeps(ev)
	}
}

// keptOld says whether the allocator still regards the old memory of a realloc as
// handed out: there was no memory for the new, or the free of the old was refused.
func (r *Runner) keptOld(ev *impls.Event) bool {
	return ev.Outcome == impls.NoMem ||
		ev.Old != ev.Addr && r.shadowed && r.shadow.Kept()
}

// listMax bounds the reports, and the misuse that was skipped, that a run lists.
const listMax = 1024

// reported adds reports to those of the run.
func (r *Runner) reported(list []*debugcheck.Report) {
	if len(r.res.Reports)+len(list) <= listMax {
		r.res.Reports = append(r.res.Reports, list...)
	}
}

// A Skip is a misuse that was not carried out, or an operation that was not because of one.
type Skip struct {
	Line int // order of the operation
	Why  string
}

// Why something was skipped.
const (
	skipNoVictim  = "it would not hit what this verb is for, in a cache with debug flags"
	skipUndefined = "no rule defines what follows: nothing would check the damage before it is used"
	skipDamaged   = "a misuse damaged a counter that it needs: only what asks it may follow"
)

// whySkipped says why the misuse that was just skipped was: the rules said no, or it came
// to nothing before they were asked.
func (r *Runner) whySkipped() string {
	if r.denied {
		r.denied = false
		return skipUndefined
	}
	return skipNoVictim
}

// skipped lists a misuse that was skipped.
func (r *Runner) skipped(ev *impls.Event, why string) {
	if len(r.res.Skips) < listMax && ev.Op >= 0 {
		r.res.Skips = append(r.res.Skips, Skip{int(ev.Op), why})
	}
}

// stopped judges a create at which the kernel stopped since it was told that it cannot do
// without the cache: that has the outcome of the create, and ends the run.
func (r *Runner) stopped(p *impls.Panic) {
	n := p.Line - r.base
	if n < 0 || n >= len(r.lines) || r.lines[n].Op.Spec == nil || !r.lines[n].Op.Spec.Panics() {
		r.judge.fault(fault.Aborted, "halted for want of cache %s, which nobody made that vital",
			p.Cache)
		return
	}
	l := &r.lines[n]
	ev := &impls.Event{Op: int32(p.Line), Code: l.Op.Code, Ctx: uint8(l.Ctx), Slot: -1, Bad: -1,
		Cache: l.Op.Result, Outcome: play.OutcomeOf(p.Err)}
	r.judge.event(ev)
	r.answered(r.note(ev), ev)
}

// halted judges the operation at which the kernel stopped on purpose.
func (r *Runner) halted() {
	if !r.m.Halted() {
		return
	}
	r.res.Aborted = true
	if p := impls.Panicked(r.m.LastWords()); p != nil {
		r.stopped(p)
		return
	}
	var reports []*debugcheck.Report
	for _, n := range r.m.LastWords() {
		if p, is := n.(*debugcheck.Report); is {
			reports = append(reports, p)
		}
	}
	if len(reports) == 0 {
		r.judge.fault(fault.Aborted, "halted without a report")
	}
	bulk := r.flyingBulk(reports)
	ev := r.flying(reports)
	if !r.shadowed {
		r.checked(ev)
		return
	}
	r.reported(reports)
	if bulk != nil {
		r.shadow.HaltedBulk(bulk, reports)
		r.endedBulk(bulk)
		return
	}
	r.shadow.Halted(ev)
	if r.keep || r.stated != nil {
		r.ended(ev)
	}
}

// flying is the event of the operation that halted: that of the only task, else one
// that says no more than the reports.
func (r *Runner) flying(reports []*debugcheck.Report) *impls.Event {
	ev := &impls.Event{Op: -1, Cache: -1, Slot: -1, Bad: -1}
	if e := r.end.busy(); e != nil {
		ev = e
	} else if r.p.Sequential() && len(r.ctxs) > 0 {
		ev = &r.ctxs[0].ev
	}
	ev.Reports = reports
	return ev
}

// ended writes the operation that halted into the transcript, and holds it against what a
// stream states.
func (r *Runner) ended(ev *impls.Event) {
	n := len(r.res.Events)
	switch {
	case ev.Op < 0:
	case !play.Frees(ev.Code):
		r.answered(r.note(ev), ev)
	case n > 0 && r.res.Events[n-1].Op == ev.Op: // a free was noted when it began
		r.answered(n-1, ev)
	default:
		r.answered(-1, ev)
	}
}

// stating finds what a line states for a subject: for it by name, else for its family,
// which is the first word of its name, else for all; nil when it states nothing.
func stating(l *prog.Line, v *impls.Variant) *prog.Expect {
	var best *prog.Expect
	rank := 0
	for i := range l.Expect {
		x, n := &l.Expect[i], 0
		switch {
		case x.Subject == v.Name, x.Subject == v.Alias && v.Alias != "":
			n = 3
		case x.Subject == "":
			n = 1
		case strings.HasPrefix(v.Name, x.Subject+"-"):
			n = 2
		}
		if n > rank {
			best, rank = x, n
		}
	}
	return best
}
