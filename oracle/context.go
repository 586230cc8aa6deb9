package oracle

import (
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
	"allocfuzz/oracle/history"
)

const pinnedKind = prog.CPUCtx

// ctxRun is one context of a run: what it needs between the parts of an
// operation.
type ctxRun struct {
	r       *Runner
	n       int // number of the context
	step    play.Step
	ev      impls.Event
	many    play.BulkStep // of a bulk operation, instead of step and ev
	calling bool          // in the middle of one
	body    func(*machine.Ctx)
	task    *machine.Ctx
	handler machine.Handler
	op      *impls.Op // that waits for a name
	stuck   bool      // the cache to be destroyed holds on to something for good
	timed   int       // number of its operation in the history, of a bulk one the first; or -1
}

// ctx returns context n, made once and kept.
func (r *Runner) ctx(n int) *ctxRun {
	for len(r.ctxs) <= n {
		x := &ctxRun{r: r, n: len(r.ctxs)}
		x.body = func(c *machine.Ctx) {
			x.run(c, x.r.p.Ctxs[x.n].Code, round{after: machine.After})
		}
		r.ctxs = append(r.ctxs, x)
	}
	r.ctxs[n].task, r.ctxs[n].calling = nil, false
	return r.ctxs[n]
}

// round is where a context is in the repeats around a line.
type round struct {
	iter  [2]int32
	depth int
	after int // order of what comes behind the body
}

func (x *ctxRun) run(c *machine.Ctx, code []node, at round) {
	for i := range code {
		n := &code[i]
		next := at.after
		if i+1 < len(code) {
			next = code[i+1].line
		}
		if n.count == 0 {
			x.line(c, n.line, at.iter, next)
			continue
		}
		in := round{iter: at.iter, depth: at.depth + 1}
		for k := 1; k <= n.count; k++ {
			in.iter[at.depth] = int32(k)
			in.after = next
			if k < n.count {
				in.after = n.body[0].line
			}
			x.run(c, n.body, in)
		}
	}
}

// Ready says whether every name that the waiting operation uses was bound.
func (x *ctxRun) Ready(*machine.Ctx) bool { return x.r.exec.Ready(x.op) }

// line carries out one line.
func (x *ctxRun) line(c *machine.Ctx, pos int, iter [2]int32, next int) {
	r := x.r
	c.BeginLine(pos, iter)
	x.ev.Op, x.ev.Ctx, x.timed = int32(pos), uint8(x.n), -1
	r.judge.ctx = c
	op := &r.lines[pos-r.base].Op
	r.res.Counts.Operations += max(1, len(op.Slots))
	x.await(c, op)
	r.pattern = r.pattern.Next()
	op.Pattern = r.pattern
	r.creates(op)
	if op.Code.Bulk() {
		x.bulk(c, op)
		x.end(c, op, next)
		return
	}
	x.stuck = r.stuck(op)
	r.givesBack(op)
	switch {
	case r.shadowed && r.blocks(op):
		r.exec.Skip(c, op, &x.ev)
		r.skipped(&x.ev, skipDamaged)
		r.answered(r.note(&x.ev), &x.ev)
	case r.exec.Begin(c, op, &x.ev, &x.step):
		x.call(c, op)
	default:
		if x.ev.Code.Misuses() && x.ev.Outcome == impls.Skipped {
			r.skipped(&x.ev, r.whySkipped())
		}
		r.judge.event(&x.ev)
		r.checked(&x.ev)
		r.answered(r.note(&x.ev), &x.ev)
	}
	if r.deep {
		r.between(c, &x.ev)
	} else {
		r.farBetween(c)
	}
	x.end(c, op, next)
}

// await waits until every name that the operation uses was bound.
func (x *ctxRun) await(c *machine.Ctx, op *impls.Op) {
	watched := c.Watched()
	if watched {
		touchNames(c, op, false)
	}
	if x.r.exec.Ready(op) {
		return
	}
	x.op = op
	c.Wait(x)
	if watched {
		touchNames(c, op, false)
	}
}

// end ends the line.
func (x *ctxRun) end(c *machine.Ctx, op *impls.Op, next int) {
	if c.Watched() {
		touchNames(c, op, true)
	}
	c.EndLine(next)
}

// Numbers of names as objects that steps touch: a slot's is added to them.
const (
	objectSlot  = 0x534c4f54 << 24
	objectCache = 0x43414348 << 24
)

// touchNames tells who watches the run which names an operation uses when it begins, and which
// it binds when it is done. A name that is given up is written when the operation begins.
func touchNames(c *machine.Ctx, op *impls.Op, done bool) {
	kind := machine.Reads
	if done || play.Frees(op.Code) || op.Code == impls.OpRealloc || op.Code == impls.OpDestroy {
		kind = machine.Writes
	}
	touch := func(object uint64, n int32) {
		if n >= 0 {
			c.Touch(machine.Access{Object: object + uint64(n), Kind: kind})
		}
	}
	if bulk := op.Code == impls.OpAllocBulk; done || !bulk {
		for _, n := range op.Slots {
			touch(objectSlot, n)
		}
	}
	if done {
		touch(objectSlot, op.Result)
		if op.Code == impls.OpCreate {
			touch(objectCache, op.Cache)
		}
		return
	}
	touch(objectSlot, op.Slot)
	if op.Code != impls.OpDestroy {
		kind = machine.Reads
	}
	touch(objectCache, op.Cache)
}

// call makes the allocator's call and has its event judged: a free when it
// begins, anything else when it has ended.
func (x *ctxRun) call(c *machine.Ctx, op *impls.Op) {
	r := x.r
	frees, at := play.Frees(op.Code), -1
	var old play.Slot
	x.called(&x.ev)
	switch {
	case frees:
		r.judge.event(&x.ev)
		at = r.note(&x.ev)
	case op.Code == impls.OpRealloc:
		old = r.exec.Slot(int(op.Slot))
		r.judge.vacate(old.Addr, old.Size)
	default:
		r.judge.begins(&x.ev)
		if x.stuck {
			x.ev.Size++ // an object that the program has no more
		}
	}
	if r.shadowed {
		r.shadow.Begin(&x.ev)
	}
	r.exec.Call(c, &x.step)
	r.exec.End(c, &x.step)
	r.judge.ctx = c
	r.checked(&x.ev)
	if !frees {
		r.judge.event(&x.ev)
		if op.Code == impls.OpRealloc && r.keptOld(&x.ev) {
			r.judge.revive(old.Addr, old.Size)
			r.keeps(&x.ev)
		}
		at = r.note(&x.ev)
	}
	r.over(&x.ev)
	r.answered(at, &x.ev)
}

// called notes in the history of a run with several contexts that an operation is called.
// Of a bulk operation it is called for each event in order. A misuse that gives something
// back is carried out where there is one context only.
func (x *ctxRun) called(ev *impls.Event) {
	r := x.r
	if !r.timed || !allocates(ev.Code) && !play.Frees(ev.Code) {
		return
	}
	o := history.Op{Client: x.n, Code: ev.Code, CPU: ev.CPU, Line: ev.Op}
	switch {
	case play.Frees(ev.Code) && ev.Outcome == impls.OK:
		o.Old = r.span(ev.Addr, ev.Size)
	case ev.Code == impls.OpRealloc:
		old := r.exec.Slot(int(r.lines[int(ev.Op)-r.base].Op.Slot))
		o.Old = r.span(old.Addr, old.Size)
	}
	if n := r.times.Began(o); ev.Part <= 1 {
		x.timed = n
	}
}

// span is the bytes that an object occupies.
func (r *Runner) span(a impls.Addr, size uint64) history.Range {
	return history.Range{Addr: a, Size: r.judge.extent(a, size)}
}

// at is the number of an event's operation in the history, -1 when it is not there.
func (r *Runner) at(ev *impls.Event) int {
	if !r.timed || r.ctxs[ev.Ctx].timed < 0 {
		return -1
	}
	return r.ctxs[ev.Ctx].timed + max(int(ev.Part), 1) - 1
}

// over notes in the history that an operation returns.
func (r *Runner) over(ev *impls.Event) {
	n := r.at(ev)
	if n < 0 {
		return
	}
	var got history.Range
	if allocates(ev.Code) && ev.Outcome == impls.OK {
		got = r.span(ev.Addr, ev.Size)
	}
	r.times.Ended(n, ev.Outcome, got)
}

// allocates says whether an operation gets memory.
func allocates(code impls.Code) bool {
	switch code {
	case impls.OpAlloc, impls.OpMalloc, impls.OpCalloc, impls.OpMemalign, impls.OpRealloc,
		impls.OpPages:
		return true
	}
	return false
}

// keeps notes in the history that the program still has what an event should give back.
func (r *Runner) keeps(ev *impls.Event) {
	if n := r.at(ev); n >= 0 {
		r.times.Kept(n)
	}
}

// inTime checks the history of a run with several contexts (check 6).
func (r *Runner) inTime() {
	if !r.timed {
		return
	}
	r.timed = false
	h, j := &r.times.History, &r.judge
	for i := range r.p.Ctxs {
		h.Clients = append(h.Clients, r.p.Ctxs[i].Name)
	}
	r.res.History = h
	r.res.Counts.Checked[fault.History] += len(h.Ops)
	if v := r.linear.Check(h); v != nil {
		f := v.Fault(h)
		ctx, where := j.ctx, j.where
		j.ctx, j.where = nil, f.Where
		j.fault(f.Title, "%s", f.Detail)
		j.ctx, j.where = ctx, where
	}
}

// note adds an event to the transcript and returns its place there, -1 when none is
// kept. What it lacks of a free is added by answered.
func (r *Runner) note(ev *impls.Event) int {
	switch ev.Outcome {
	case impls.Unsupported:
		r.res.Counts.Unsupported++
	case impls.Skipped:
		r.res.Counts.Skipped++
	case impls.NoMem, impls.Refused:
		r.res.Counts.Refused++
	}
	r.judge.now++
	if r.opt.Twice {
		r.fold(ev)
	}
	at := r.place()
	if at >= 0 {
		e := *ev
		e.Seq = uint64(at + 1)
		r.res.Events = append(r.res.Events, e)
	}
	return at
}

// place is where the next event goes in the transcript, -1 when none is kept.
func (r *Runner) place() int {
	if !r.keep {
		return -1
	}
	return len(r.res.Events)
}

// answered adds the reports of an operation that is over to the event at a place of
// the transcript, and holds it against what a stream states.
func (r *Runner) answered(at int, ev *impls.Event) {
	if at >= 0 && len(ev.Reports) > 0 {
		r.res.Events[at].Reports = ev.Reports
	}
	for _, p := range ev.Reports {
		for _, b := range []byte(p.Title) {
			r.print = (r.print ^ uint64(b)) * 1099511628211
		}
	}
	if r.stated != nil {
		r.stated.event(&r.res, &r.lines[int(ev.Op)-r.base], ev)
	}
}

// fold adds an outcome to the print of the run, with its address where that is the
// simulated machine's and so must be the same each time.
func (r *Runner) fold(ev *impls.Event) {
	v := uint64(ev.Op)<<8 | uint64(ev.Outcome)
	if r.judge.arena {
		v ^= ev.Addr<<32 | ev.Addr>>32
	}
	r.print = (r.print ^ v) * 1099511628211
}
