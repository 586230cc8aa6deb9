package oracle

import (
	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// This file carries out bulk operations. One line is one call of the allocator and one
// event an object: what holds events against the model sees allocations and frees as it
// always does.

// bulk carries out one bulk operation, which may begin.
func (x *ctxRun) bulk(c *machine.Ctx, op *impls.Op) {
	r, b := x.r, &x.many
	r.patterns(op)
	switch {
	case r.shadowed && r.blocks(op):
		r.exec.SkipBulk(c, op, &x.ev, b)
		r.skipped(&b.Events[0], skipDamaged)
		r.answeredBulk(r.noteBulk(b.Events), b.Events)
	case r.exec.BeginBulk(c, op, &x.ev, b):
		x.callBulk(c, op)
	default:
		for i := range b.Events {
			r.judge.event(&b.Events[i])
		}
		r.checkedBulk(x)
		r.answeredBulk(r.noteBulk(b.Events), b.Events)
	}
	if r.deep {
		r.between(c, bulkAnswer(b.Events))
	}
}

// patterns uses up the patterns of an operation that has one already: each object of a bulk
// operation has one of its own.
func (r *Runner) patterns(op *impls.Op) {
	for i := 1; i < len(op.Slots); i++ {
		r.pattern = r.pattern.Next()
	}
}

// callBulk is call for a bulk operation: its frees are judged when it begins, its
// allocations when it has ended.
func (x *ctxRun) callBulk(c *machine.Ctx, op *impls.Op) {
	r, b := x.r, &x.many
	frees, at := op.Code == impls.OpFreeBulk, -1
	for i := range b.Events {
		x.called(&b.Events[i])
	}
	if frees {
		at = x.judgeBulk()
	}
	if r.shadowed {
		r.shadow.BeginBulk(b.Events)
	}
	x.calling = true
	r.exec.CallBulk(c, b)
	r.exec.EndBulk(c, b)
	x.calling = false
	r.judge.ctx = c
	r.checkedBulk(x)
	if !frees {
		at = x.judgeBulk()
	}
	for i := range b.Events {
		r.over(&b.Events[i])
	}
	r.answeredBulk(at, b.Events)
}

// judgeBulk judges and notes the events of a bulk operation, and returns the place of the
// first in the transcript.
func (x *ctxRun) judgeBulk() int {
	r, list := x.r, x.many.Events
	at := r.place()
	for i := range list {
		r.judge.event(&list[i])
		r.note(&list[i])
	}
	return at
}

// noteBulk adds the events of a bulk operation to the transcript and returns the place of
// the first, -1 when none is kept.
func (r *Runner) noteBulk(list []impls.Event) int {
	at := r.place()
	for i := range list {
		r.note(&list[i])
	}
	return at
}

// answeredBulk is answered for the events of a bulk operation, the first of which is at a
// place of the transcript.
func (r *Runner) answeredBulk(at int, list []impls.Event) {
	stated := r.stated
	r.stated = nil // it is asked about the line, not about each object
	for i := range list {
		place := -1
		if at >= 0 {
			place = at + i
		}
		r.answered(place, &list[i])
	}
	if r.stated = stated; stated != nil {
		stated.bulk(&r.res, &r.lines[int(list[0].Op)-r.base], list)
	}
}

// checkedBulk is checked for a bulk operation.
func (r *Runner) checkedBulk(x *ctxRun) {
	b := &x.many
	if !r.shadowed {
		for i := range b.Events {
			r.checked(&b.Events[i])
		}
		return
	}
	r.reported(b.Reports)
	r.shadow.EndBulk(b.Events, b.Reports, r.tookBack)
}

// tookBack revives what a free gave back and the allocator did not take: it is called for
// each event when the shadow is done with it.
func (r *Runner) tookBack(ev *impls.Event) {
	if ev.Code == impls.OpFree && r.shadow.Kept() {
		r.judge.revive(ev.Addr, ev.Size)
		r.keeps(ev)
	}
}

// flyingBulk is the events of the bulk operation that halted, with its reports; nil when
// that was another operation, or is not known.
func (r *Runner) flyingBulk(reports []*debugcheck.Report) []impls.Event {
	if r.end.busy() != nil || !r.p.Sequential() || len(r.ctxs) == 0 || !r.ctxs[0].calling {
		return nil
	}
	b := &r.ctxs[0].many
	b.Spread(reports)
	return b.Events
}

// endedBulk writes the bulk operation that halted into the transcript, and holds it
// against what a stream states.
func (r *Runner) endedBulk(list []impls.Event) {
	if !r.keep && r.stated == nil {
		return
	}
	at := -1
	if list[0].Code == impls.OpAlloc {
		at = r.noteBulk(list)
	} else if r.keep {
		at = len(r.res.Events) - len(list) // noted when it began
	}
	r.answeredBulk(at, list)
}

// bulkAnswer is what a bulk operation answers as a whole: its event of the first object
// that debug checks report about, else of the first that was not skipped.
func bulkAnswer(list []impls.Event) *impls.Event {
	best := &list[0]
	for i := range list {
		ev := &list[i]
		if len(ev.Reports) > 0 {
			return ev
		}
		if best.Outcome == impls.Skipped {
			best = ev
		}
	}
	return best
}
