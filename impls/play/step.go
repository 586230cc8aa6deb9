package play

import (
	"math/bits"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// ordersMax bounds the order of a page request that is passed on: more than any
// machine has.
const ordersMax = 40

// A Step is one operation in progress. It belongs to the context that makes it.
type Step struct {
	op      *impls.Op
	ev      *impls.Event
	cache   *cacheSlot
	held    Slot        // claimed
	class   impls.Cache // of what is given back by size, for misuse
	size    uint64      // bytes of what is asked for
	over    bool        // they are more than a number holds
	got     impls.Addr
	made    impls.Cache
	err     error
	nth     uint32
	refused int
	noted   int            // what was noted before
	dbg     impls.Debugger // misuse: the cache of its victim
}

// Do carries op out and writes ev, all but Op, Ctx and Seq, which are the
// caller's.
func (e *Exec) Do(c *machine.Ctx, op *impls.Op, ev *impls.Event) {
	var s Step
	if !e.Begin(c, op, ev, &s) {
		return
	}
	e.Call(c, &s)
	e.End(c, &s)
}

// Frees says whether an operation gives memory back, so that its event is
// complete and has its place when Begin returns. A realloc is an allocation that
// also does so: its old address is free from Begin on.
func Frees(code impls.Code) bool {
	return code == impls.OpFree || code == impls.OpFreeSized || code == impls.OpPagesFree
}

// Begin resolves and claims the operands. False means that the operation is over
// and ev complete. ev must stay where it is until End.
func (e *Exec) Begin(c *machine.Ctx, op *impls.Op, ev *impls.Event, s *Step) bool {
	number, ctx, seq := ev.Op, ev.Ctx, ev.Seq
	*ev = impls.Event{}
	ev.Op, ev.Ctx, ev.Seq = number, ctx, seq
	ev.Code, ev.CPU, ev.Irq = op.Code, uint8(c.CPUID()), c.InInterrupt()
	ev.Bad, ev.Cache, ev.Slot = -1, op.Cache, op.Slot
	s.op, s.ev, s.refused, s.noted = op, ev, c.Refused(), len(c.Notes())
	s.cache, s.made, s.err, s.dbg, s.over = nil, nil, nil, nil, false
	var more bool
	switch op.Code {
	case impls.OpAlloc:
		more = e.beginAlloc(c, s)
	case impls.OpMalloc, impls.OpCalloc, impls.OpMemalign, impls.OpPages:
		more = e.beginSize(c, s)
	case impls.OpFree, impls.OpFreeSized, impls.OpPagesFree:
		more = e.beginFree(c, s)
	case impls.OpRealloc, impls.OpUsable:
		more = e.beginSized(c, s)
	case impls.OpCreate:
		ev.Cache, ev.Slot = created(op), -1
		more = e.pass(c, s, e.mayCreate(op.Spec))
	case impls.OpShrink, impls.OpDestroy, impls.OpFlush, impls.OpTune:
		more = e.beginCache(c, s)
	case impls.OpOffline, impls.OpReap:
		more = e.beginHeld(c, s)
	case impls.OpRCULock, impls.OpRCUUnlock:
		more = e.beginRead(c, s)
	case impls.OpDrain:
		more = e.pass(c, s, e.able(e.caps.Has(impls.CapDrain) && e.usePages()))
	case impls.OpFill, impls.OpVerify:
		e.contents(c, s)
	case impls.OpValidate:
		more = e.beginValidate(c, s)
	default:
		more = e.beginMisuse(c, s)
	}
	if more && op.Fail|op.FailObject != 0 {
		c.FailPage(int(op.Fail))
		c.FailObject(int(op.FailObject))
	}
	return more
}

// Skip ends op before it begins, as skipped: what it would have bound is void.
func (e *Exec) Skip(c *machine.Ctx, op *impls.Op, ev *impls.Event) {
	number, ctx, seq := ev.Op, ev.Ctx, ev.Seq
	*ev = impls.Event{Op: number, Ctx: ctx, Seq: seq, Code: op.Code, CPU: uint8(c.CPUID()),
		Irq: c.InInterrupt(), Bad: -1, Cache: op.Cache, Slot: op.Slot}
	e.pass(c, &Step{op: op, ev: ev}, impls.Skipped)
}

// able is the outcome of an operation that the subject is or is not able to do.
func (e *Exec) able(ok bool) impls.Outcome {
	if ok {
		return impls.OK
	}
	return impls.Unsupported
}

// pass goes on when why is OK, and else ends the operation with it: what it would
// have bound is void.
func (e *Exec) pass(c *machine.Ctx, s *Step, why impls.Outcome) bool {
	s.ev.Outcome = why
	if why == impls.OK {
		return true
	}
	if s.op.Code == impls.OpCreate {
		e.bindNoCache(c, created(s.op), why)
		return false
	}
	e.bindVoid(c, s.op.Result)
	return false
}

func (e *Exec) beginAlloc(c *machine.Ctx, s *Step) bool {
	op, ev := s.op, s.ev
	ev.Slot = op.Result
	if why := e.enterObjects(c, s); why != impls.OK {
		return e.pass(c, s, why)
	}
	s.size, ev.Size, ev.Align = s.cache.size, s.cache.size, s.cache.align
	ev.Ctor = s.cache.ctor
	return true
}

// enterObjects enters the cache of an operation on its objects; the answer is OK or why it
// cannot be.
func (e *Exec) enterObjects(c *machine.Ctx, s *Step) impls.Outcome {
	op := s.op
	if !e.useObjects() || !e.fits(op) {
		return impls.Unsupported
	}
	if s.cache = e.enter(c, op.Cache); s.cache == nil {
		return e.without(op.Cache)
	}
	if s.cache.ctor && op.Flags&impls.FlagZero != 0 {
		e.leave(c, s.cache)
		return impls.Skipped
	}
	return impls.OK
}

// beginSize is for allocations by size or order.
func (e *Exec) beginSize(c *machine.Ctx, s *Step) bool {
	op, ev := s.op, s.ev
	ev.Slot, ev.Cache = op.Result, -1
	s.size = op.Size
	able := e.useSizes() && (op.FailObject == 0 || e.caps.Has(impls.CapFailSlab))
	fits := true
	switch op.Code {
	case impls.OpMalloc:
		able = able && (op.Flags&impls.FlagZero == 0 || e.caps.Has(impls.CapZero))
	case impls.OpCalloc:
		able = able && e.caps.Has(impls.CapZero)
		var over uint64
		over, s.size = bits.Mul64(op.Size, op.Arg)
		fits = over == 0
	case impls.OpMemalign:
		able = able && e.caps.Has(impls.CapAlign) &&
			(op.Flags&impls.FlagZero == 0 || e.caps.Has(impls.CapZeroAlign))
		ev.Align = op.Arg
	case impls.OpPages:
		able = e.usePages()
		fits = op.Size <= ordersMax
		s.size = e.pageSize << min(op.Size, ordersMax)
	}
	ev.Size = s.size
	if !able {
		return e.pass(c, s, impls.Unsupported)
	}
	if s.over = !fits && op.Code == impls.OpCalloc && e.calloc != nil; !fits && !s.over {
		ev.Legit = true
		return e.pass(c, s, impls.NoMem)
	}
	return true
}

// beginFree claims the slot and checks what is in it for the last time.
func (e *Exec) beginFree(c *machine.Ctx, s *Step) bool {
	op, ev := s.op, s.ev
	from := op.Cache
	var able bool
	switch {
	case op.Code == impls.OpPagesFree:
		from, able = fromPages, e.usePages()
	case from < 0 || op.Code == impls.OpFreeSized:
		from, able = fromSizes, e.useSizes()
		able = able && (op.Code == impls.OpFree || e.caps.Has(impls.CapFreeSized))
	default:
		able = e.useObjects()
	}
	if !able {
		return e.pass(c, s, impls.Unsupported)
	}
	if from >= 0 {
		if s.cache = e.enter(c, from); s.cache == nil {
			return e.pass(c, s, e.without(from))
		}
	}
	held := &s.held
	ok := e.claim(c, op.Slot, from, held, false)
	if !ok || s.cache != nil && held.nth != s.cache.nth {
		if s.cache != nil {
			e.leave(c, s.cache)
		}
		return e.pass(c, s, impls.Skipped)
	}
	e.look(ev, held)
	e.construct(held)
	s.class = e.classOf(held)
	return true
}

// look puts down what an event finds in a claimed slot, and what its contents should be.
func (e *Exec) look(ev *impls.Event, held *Slot) {
	ev.Addr, ev.Size, ev.Want = held.Addr, held.Size, held.Pattern
	ev.Bad = e.mem.Verify(held.Addr, held.Size, held.Pattern)
}

// beginSized claims what was allocated by size: for good (realloc), or for as long
// as the subject is asked about it (usable).
func (e *Exec) beginSized(c *machine.Ctx, s *Step) bool {
	op, ev := s.op, s.ev
	need := impls.CapRealloc
	if op.Code == impls.OpUsable {
		need = impls.CapUsable
	} else {
		ev.Slot = op.Result
	}
	if op.Flags&impls.FlagZero != 0 {
		need |= impls.CapZeroRealloc
	}
	if !e.caps.Has(need) || !e.useSizes() || !e.fits(op) {
		return e.pass(c, s, impls.Unsupported)
	}
	if !e.claim(c, op.Slot, fromSizes, &s.held, true) {
		return e.pass(c, s, impls.Skipped)
	}
	ev.Cache, ev.Want = -1, s.held.Pattern
	if op.Code == impls.OpUsable {
		ev.Addr, ev.Size = s.held.Addr, s.held.Size
		return true
	}
	s.size = op.Size
	ev.Old, ev.Size = s.held.Addr, op.Size
	s.class = e.classOf(&s.held)
	return true
}

func (e *Exec) beginCache(c *machine.Ctx, s *Step) bool {
	op := s.op
	if !e.caps.Has(needs(op.Code)) || !e.useObjects() {
		return e.pass(c, s, impls.Unsupported)
	}
	if c.InInterrupt() && c.Machine().CPUs > 1 {
		return e.pass(c, s, impls.Skipped) // it waits for other CPUs: not for a handler to do
	}
	if op.Code == impls.OpDestroy {
		s.cache = e.claimCache(c, op.Cache)
	} else {
		s.cache = e.enter(c, op.Cache)
	}
	if s.cache == nil {
		return e.pass(c, s, e.without(op.Cache))
	}
	s.nth = s.cache.nth
	return true
}

// contents is fill and verify, which no allocator sees.
func (e *Exec) contents(c *machine.Ctx, s *Step) {
	op, ev := s.op, s.ev
	held := &s.held
	if !e.claim(c, op.Slot, anywhere, held, true) {
		ev.Outcome = impls.Skipped
		return
	}
	ev.Cache = max(held.from, -1)
	e.look(ev, held)
	if op.Code == impls.OpFill {
		held.Pattern, ev.Fresh = op.Pattern, op.Pattern
		e.mem.Fill(held.Addr, held.Size, op.Pattern)
	}
	e.restore(c, op.Slot, held)
}

// Call makes the call of the allocator. Whatever it panics with goes through. The stores of
// the call are done when it returns: who learns of its result by a slot finds them.
func (e *Exec) Call(c *machine.Ctx, s *Step) {
	e.ask(c, s)
	c.Publish()
}

func (e *Exec) ask(c *machine.Ctx, s *Step) {
	op := s.op
	switch op.Code {
	case impls.OpAlloc:
		s.got = s.cache.cache.Alloc(c, op.Flags)
	case impls.OpMalloc:
		s.got = e.sizes.Malloc(c, s.size, op.Flags)
	case impls.OpCalloc:
		s.got = e.callocs(c, s)
	case impls.OpMemalign:
		s.got = e.sizes.Memalign(c, op.Arg, s.size, op.Flags)
	case impls.OpRealloc:
		s.got = e.sizes.Realloc(c, s.held.Addr, s.size, op.Flags)
	case impls.OpPages:
		s.got = e.pages.AllocPages(c, int(op.Size), op.Flags)
	case impls.OpFree:
		if s.cache != nil {
			s.cache.cache.Free(c, s.held.Addr)
		} else {
			e.sizes.Free(c, s.held.Addr)
		}
	case impls.OpFreeSized:
		e.freeSized(c, s)
	case impls.OpPagesFree:
		e.pages.FreePages(c, s.held.Addr)
	case impls.OpUsable:
		s.ev.Usable = e.sizes.Usable(c, s.held.Addr)
	case impls.OpCreate:
		s.made, s.err = e.objects.NewCache(c, *op.Spec)
	case impls.OpShrink:
		s.ev.Usable = uint64(s.cache.cache.Shrink(c))
	case impls.OpDestroy:
		s.err = s.cache.cache.Destroy(c)
	case impls.OpDrain:
		e.pages.Drain(c)
	case impls.OpRCULock:
		c.RCUReadLock()
	case impls.OpRCUUnlock:
		c.RCUReadUnlock()
	case impls.OpFlush, impls.OpTune, impls.OpOffline, impls.OpReap:
		e.callHeld(c, s)
	default:
		e.callDebug(c, s)
	}
}

// End binds the result and gives it contents. ev is complete then, that of a free
// and of shrink is left as it was but for its Reports: what shrink answered is its
// Usable.
func (e *Exec) End(c *machine.Ctx, s *Step) {
	op, ev := s.op, s.ev
	if op.Fail|op.FailObject != 0 {
		c.FailPage(0)
		c.FailObject(0)
	}
	if len(c.Notes()) > s.noted {
		s.Collect(c)
	}
	e.witnessed(c, ev)
	switch op.Code {
	case impls.OpAlloc:
		e.endAlloc(c, s, op.Cache, s.cache.nth)
		e.leave(c, s.cache)
	case impls.OpMalloc, impls.OpCalloc, impls.OpMemalign:
		e.endAlloc(c, s, fromSizes, 0)
	case impls.OpPages:
		e.endAlloc(c, s, fromPages, 0)
	case impls.OpRealloc:
		e.endRealloc(c, s)
	case impls.OpUsable:
		s.held.zeroed = false // who asks may have written there since
		e.restore(c, op.Slot, &s.held)
	case impls.OpFree:
		if s.cache != nil {
			e.leave(c, s.cache)
		}
		e.gaveBack(c, s)
	case impls.OpFreeSized, impls.OpPagesFree:
		e.gaveBack(c, s)
	case impls.OpShrink, impls.OpFlush:
		e.leave(c, s.cache)
	case impls.OpTune:
		e.leave(c, s.cache)
		ev.Outcome = OutcomeOf(s.err)
	case impls.OpOffline:
		ev.Outcome = OutcomeOf(s.err)
	case impls.OpReap, impls.OpRCULock, impls.OpRCUUnlock:
	case impls.OpCreate:
		e.endCreate(c, s)
	case impls.OpDrain:
	case impls.OpDestroy:
		if ev.Outcome = OutcomeOf(s.err); s.err != nil {
			e.restoreCache(c, s.cache, s.nth)
			ev.Legit = c.Refused() > s.refused
		}
	default:
		e.endDebug(c, s)
	}
}

func (e *Exec) endCreate(c *machine.Ctx, s *Step) {
	s.ev.Outcome = OutcomeOf(s.err)
	if s.err != nil {
		s.made = nil
		s.ev.Legit = c.Refused() > s.refused
	}
	if !e.bindCache(c, created(s.op), s.made, s.op.Spec) {
		s.ev.Outcome = impls.Skipped
	}
}

// endAlloc binds what an allocation returned.
func (e *Exec) endAlloc(c *machine.Ctx, s *Step, from int32, nth uint32) {
	op, ev := s.op, s.ev
	ev.CPU = uint8(c.CPUID())
	if s.over {
		e.overflown(c, s)
	}
	if s.got == 0 {
		ev.Outcome = impls.NoMem
		ev.Legit = s.over || c.Refused() > s.refused ||
			s.size == 0 && e.profile.MallocZero != impls.Always
		e.bindVoid(c, op.Result)
		return
	}
	ev.Addr, ev.Fresh = s.got, op.Pattern
	e.bindLive(c, op, ev, from, nth)
}

// bindLive looks at what is promised of the contents of an event's new memory, gives it
// contents of its own and binds it to the event's slot.
func (e *Exec) bindLive(c *machine.Ctx, op *impls.Op, ev *impls.Event, from int32, nth uint32) {
	zeroed := op.Flags&impls.FlagZero != 0 || op.Code == impls.OpCalloc
	if zeroed {
		ev.Bad = e.mem.Verify(ev.Addr, ev.Size, 0)
	} else if ev.Ctor {
		ev.Bad = e.mem.Verify(ev.Addr, ev.Size, impls.CtorPattern)
	}
	e.fill(op, ev)
	e.bind(c, ev.Slot, &Slot{State: Live, Addr: ev.Addr, Size: ev.Size, Pattern: ev.Fresh,
		from: from, nth: nth, zeroed: zeroed})
}

// fill gives an event's new memory its contents.
func (e *Exec) fill(op *impls.Op, ev *impls.Event) {
	if e.fresh != nil {
		e.fresh(op, ev)
	}
	e.mem.Fill(ev.Addr, ev.Size, ev.Fresh)
}

// endRealloc checks the bytes that both sizes share, and those that were added where
// they are promised to be zero. A refused realloc leaves the
// old memory in its slot, also when that is the slot it should have bound.
func (e *Exec) endRealloc(c *machine.Ctx, s *Step) {
	op, ev := s.op, s.ev
	ev.CPU = uint8(c.CPUID())
	if s.got == 0 && s.size == 0 && e.profile.ReallocZero != impls.Never {
		e.gaveBack(c, s)
		e.bindVoid(c, op.Result)
		return
	}
	if s.got == 0 {
		ev.Outcome = impls.NoMem
		ev.Legit = c.Refused() > s.refused || s.size == 0
		if op.Result != op.Slot {
			e.bindVoid(c, op.Result)
		}
		s.held.zeroed = false // its size was asked about, as usable does
		e.restore(c, op.Slot, &s.held)
		return
	}
	e.gaveBack(c, s)
	ev.Addr, ev.Fresh = s.got, op.Pattern
	ev.Usable = min(s.held.Size, s.size)
	ev.Bad = e.mem.Verify(s.got, ev.Usable, s.held.Pattern)
	zeroed := s.held.zeroed && op.Flags&impls.FlagZero != 0
	if zeroed && ev.Bad < 0 && s.size > ev.Usable {
		if at := e.mem.Verify(s.got+ev.Usable, s.size-ev.Usable, 0); at >= 0 {
			ev.Bad = int64(ev.Usable) + at
		}
	}
	e.fill(op, ev)
	e.bind(c, op.Result, &Slot{State: Live, Addr: s.got, Size: s.size, Pattern: op.Pattern,
		from: fromSizes, zeroed: zeroed})
}
