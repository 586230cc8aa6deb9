package oracle

import (
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/impls/play"
)

// epilogue frees everything that is left, destroys every cache, drains, and then
// demands every page back: by the page layer's own figure, and for small arenas
// by taking them all.
func (r *Runner) epilogue() {
	if r.end == nil {
		r.end = &ending{r: r}
		r.end.body = r.end.run
	}
	e := r.end
	e.line, e.skipped, e.taken, e.calling = r.base+len(r.lines), false, 0, false
	if r.native {
		c := r.m.NativeCtx(0, "end")
		e.run(c)
		c.Release()
	} else {
		r.m.AddTask("end", 0, e.line, true, e.body)
		r.panicked(r.m.Sim().Run(nil))
		r.halted()
	}
	if r.res.Aborted || r.m.Sim() != nil && r.m.Sim().Aborted() {
		r.res.Aborted = true
		return
	}
	if !e.skipped {
		r.returned(e)
	}
}

// ending is the task that runs after the program's.
type ending struct {
	r       *Runner
	line    int
	skipped bool // something could not be freed, so nothing is demanded
	taken   int  // pages that could be had at the end
	stuck   bool // the cache to be destroyed holds on to something for good
	calling bool // the allocator is being called
	ev      impls.Event
	op      impls.Op
	step    play.Step
	got     []*machine.Page
	body    func(*machine.Ctx)
}

const takeMax = 64

func (e *ending) run(c *machine.Ctx) {
	r := e.r
	if r.shadowed && !e.validate(c) {
		e.skipped = true
		return
	}
	e.slots(c)
	if len(r.orphans) > 0 && r.exec.Slots() > 0 {
		for _, s := range r.orphans {
			r.exec.Adopt(0, s)
			e.free(c, 0)
		}
	}
	for i := range r.p.Stores {
		if r.exec.Cache(i) != nil && r.v.Caps.Has(impls.CapDestroy) {
			e.do(c, impls.Op{Code: impls.OpDestroy, Cache: int32(i), Slot: -1, Result: -1})
			if e.ev.Outcome == impls.Refused && !e.skipped && !e.stuck && !r.judge.owes(i) {
				r.judge.fault(fault.OutcomesDiffer,
					"destroy of %s refused, though every object was freed",
					r.p.Stores[i])
				e.skipped = true
			}
		}
	}
	e.do(c, impls.Op{Code: impls.OpDrain, Cache: -1, Slot: -1, Result: -1})
	r.drained(c)
	if r.m.PageLayer() != nil && r.m.Pages <= takeMax && !e.skipped {
		e.take(c)
	}
	c.BeginLine(e.line, [2]int32{})
	c.EndLine(machine.After)
}

// validate has every debugged cache checked as a whole, before anything is freed. False
// when misuse left counters wrong that the allocator goes by: then nothing may be done.
func (e *ending) validate(c *machine.Ctx) bool {
	r := e.r
	for i := range r.p.Stores {
		if d, ok := r.exec.Cache(i).(impls.Debugger); ok && d.Layout() != nil {
			e.do(c, impls.Op{Code: impls.OpValidate, Cache: int32(i), Slot: -1, Result: -1})
		}
	}
	return r.shadow.Mends()
}

func (e *ending) slots(c *machine.Ctx) {
	for i := range e.r.exec.Slots() {
		if e.r.exec.Slot(i).State == play.Live {
			e.free(c, i)
		}
	}
}

func (e *ending) free(c *machine.Ctx, i int) {
	owner := e.r.exec.Slot(i)
	op := impls.Op{Code: impls.OpFree, Cache: owner.Owner(), Slot: int32(i), Result: -1}
	if op.Cache < -1 {
		op.Code, op.Cache = impls.OpPagesFree, -1
	}
	if e.r.shadowed && e.r.blocks(&op) {
		e.skipped = true
		return
	}
	e.do(c, op)
	if e.ev.Outcome != impls.OK {
		e.skipped = true
	}
}

func (e *ending) do(c *machine.Ctx, op impls.Op) {
	r := e.r
	e.op = op
	c.BeginLine(e.line, [2]int32{})
	r.judge.ctx = c
	e.ev = impls.Event{Op: -1, Ctx: endCtx}
	e.stuck = r.stuck(&e.op)
	if r.exec.Begin(c, &e.op, &e.ev, &e.step) {
		if play.Frees(op.Code) {
			r.judge.event(&e.ev)
		}
		e.calling = true
		if r.shadowed {
			r.shadow.Begin(&e.ev)
		}
		r.exec.Call(c, &e.step)
		r.exec.End(c, &e.step)
		e.calling = false
		r.checked(&e.ev)
	}
	c.EndLine(e.line)
}

// endCtx is the context number of the task at the end, above those of programs.
const endCtx = 255

// busy is the event that the task at the end is in the middle of, nil for none.
func (e *ending) busy() *impls.Event {
	if e == nil || !e.calling {
		return nil
	}
	return &e.ev
}

// take allocates every page and gives them back.
func (e *ending) take(c *machine.Ctx) {
	c.BeginLine(e.line, [2]int32{})
	e.got = e.got[:0]
	for {
		p := c.AllocPages(0, false)
		if p == nil {
			break
		}
		e.got = append(e.got, p)
	}
	e.taken = len(e.got)
	for _, p := range e.got {
		c.FreePages(p)
	}
	c.EndLine(e.line)
}

// returned demands the pages back.
func (r *Runner) returned(e *ending) {
	r.snap.Reset()
	if !r.in.Snapshot(&r.snap) || r.m.PageLayer() == nil {
		return
	}
	kept := 0
	r.footprint()
	r.managed()
	for i := range r.snap.Slabs {
		b := &r.snap.Slabs[i]
		kept += 1 << b.Order
		if r.snap.Caches[b.Cache].Internal {
			r.slab(b) // what it has in use describes slabs that are still there
		}
		if r.snap.Caches[b.Cache].Dead {
			r.judge.fault(fault.PagesLeaked, "%s outlives its cache", name(b,
				&r.snap.Caches[b.Cache]))
			return
		}
	}
	free := r.m.PageLayer().FreePages()
	if free+kept != r.m.Pages {
		r.judge.fault(fault.PagesLeaked, "%d pages, %d free and %d in slabs after the end",
			r.m.Pages,
			free, kept)
		return
	}
	if r.m.Pages <= takeMax && e.taken != free {
		r.judge.fault(fault.PagesLeaked, "%d pages free, and %d could be had", free, e.taken)
	}
}
