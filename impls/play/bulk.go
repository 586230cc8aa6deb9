package play

import (
	"slices"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// A BulkStep is one bulk operation in progress: one call of the allocator, and one event
// an object. It belongs to the context that makes it, and keeps its storage.
type BulkStep struct {
	Events  []impls.Event        // in the order of the operation's slots
	Reports []*debugcheck.Report // of all events, in the order in which they were made
	step    Step
	held    []Slot       // of a free: claimed, by slot
	addrs   []impls.Addr // what the allocator gets
	ok      bool
}

// DoBulk carries a bulk operation out. Op, Ctx and Seq of its events are those of seed.
func (e *Exec) DoBulk(c *machine.Ctx, op *impls.Op, seed *impls.Event, b *BulkStep) {
	if e.BeginBulk(c, op, seed, b) {
		e.CallBulk(c, b)
		e.EndBulk(c, b)
	}
}

// BeginBulk is Begin for a bulk operation: it makes the events, and claims what is to be
// given back. A slot that is void is skipped, and the others go on. False means that the
// operation is over.
func (e *Exec) BeginBulk(c *machine.Ctx, op *impls.Op, seed *impls.Event, b *BulkStep) bool {
	b.blank(c, op, seed)
	s := &b.step
	s.op, s.ev, s.refused, s.noted = op, &b.Events[0], c.Refused(), len(c.Notes())
	s.err, s.dbg, s.made = nil, nil, nil
	b.addrs, b.held = b.addrs[:0], b.held[:0]
	if why := e.enterBulk(c, s); why != impls.OK {
		e.passBulk(c, b, why)
		return false
	}
	if op.Code == impls.OpAllocBulk {
		for i := range b.Events {
			ev := &b.Events[i]
			ev.Size, ev.Align, ev.Ctor = s.cache.size, s.cache.align, s.cache.ctor
			b.addrs = append(b.addrs, 0)
		}
	} else if e.claimBulk(c, b); len(b.addrs) == 0 {
		e.leave(c, s.cache)
		return false
	}
	c.FailPage(int(op.Fail))
	c.FailObject(int(op.FailObject))
	return true
}

// enterBulk enters the cache of a bulk operation; the answer is OK or why it cannot be.
func (e *Exec) enterBulk(c *machine.Ctx, s *Step) impls.Outcome {
	s.cache = nil
	if !e.caps.Has(impls.CapBulk) {
		return impls.Unsupported
	}
	if why := e.enterObjects(c, s); why != impls.OK {
		return why
	}
	if _, able := s.cache.cache.(impls.BulkCache); !able {
		e.leave(c, s.cache)
		return impls.Unsupported
	}
	return impls.OK
}

// blank makes the events of an operation that nothing is known of.
func (b *BulkStep) blank(c *machine.Ctx, op *impls.Op, seed *impls.Event) {
	b.Events, b.Reports = b.Events[:0], nil
	for i, slot := range op.Slots {
		b.Events = append(b.Events, impls.Event{Op: seed.Op, Ctx: seed.Ctx, Seq: seed.Seq,
			Code: op.Code.Each(), Part: uint16(i) + 1, CPU: uint8(c.CPUID()),
			Irq: c.InInterrupt(), Bad: -1, Cache: op.Cache, Slot: slot})
	}
}

// fits says whether the subject has what the flags and failures of an operation ask for.
func (e *Exec) fits(op *impls.Op) bool {
	return (op.Flags&impls.FlagZero == 0 || e.caps.Has(impls.CapZero)) &&
		(op.FailObject == 0 || e.caps.Has(impls.CapFailSlab))
}

// SkipBulk is Skip for a bulk operation.
func (e *Exec) SkipBulk(c *machine.Ctx, op *impls.Op, seed *impls.Event, b *BulkStep) {
	b.blank(c, op, seed)
	b.step.op = op
	e.passBulk(c, b, impls.Skipped)
}

// passBulk ends an operation that does not take place: what it would have bound is void.
func (e *Exec) passBulk(c *machine.Ctx, b *BulkStep, why impls.Outcome) {
	for i := range b.Events {
		b.Events[i].Outcome = why
		if b.step.op.Code == impls.OpAllocBulk {
			e.bindVoid(c, b.Events[i].Slot)
		}
	}
}

// claimBulk claims what is to be given back, as beginFree does.
func (e *Exec) claimBulk(c *machine.Ctx, b *BulkStep) {
	op, cache := b.step.op, b.step.cache
	for i := range b.Events {
		ev := &b.Events[i]
		b.held = append(b.held, Slot{})
		held := &b.held[i]
		if !e.claim(c, ev.Slot, op.Cache, held, false) || held.nth != cache.nth {
			ev.Outcome = impls.Skipped
			continue
		}
		e.look(ev, held)
		e.construct(held)
		b.addrs = append(b.addrs, held.Addr)
	}
}

// CallBulk makes the call of the allocator. Whatever it panics with goes through.
func (e *Exec) CallBulk(c *machine.Ctx, b *BulkStep) {
	op := b.step.op
	cache := b.step.cache.cache.(impls.BulkCache)
	if op.Code == impls.OpAllocBulk {
		b.ok = cache.AllocBulk(c, op.Flags, b.addrs)
	} else {
		cache.FreeBulk(c, b.addrs)
	}
	c.Publish()
}

// EndBulk binds what came of an allocation and gives it contents; the patterns go on from
// that of the operation. The events of a free are left as they were but for Reports.
func (e *Exec) EndBulk(c *machine.Ctx, b *BulkStep) {
	c.FailPage(0)
	c.FailObject(0)
	fresh := b.step.op.Pattern
	for i := range b.Events {
		switch ev := &b.Events[i]; {
		case b.step.op.Code == impls.OpAllocBulk:
			e.bindBulk(c, b, i, fresh)
			fresh = fresh.Next()
		case ev.Outcome == impls.OK:
			e.returned(c, ev.Slot, &b.held[i], nil)
		}
	}
	e.leave(c, b.step.cache)
	b.Collect(c)
}

// bindBulk is the end of an allocation for one of its slots.
func (e *Exec) bindBulk(c *machine.Ctx, b *BulkStep, i int, fresh impls.Pattern) {
	s, ev := &b.step, &b.Events[i]
	ev.CPU = uint8(c.CPUID())
	if !b.ok {
		ev.Outcome, ev.Legit = impls.NoMem, c.Refused() > s.refused
		e.bindVoid(c, ev.Slot)
		return
	}
	ev.Addr, ev.Fresh = b.addrs[i], fresh
	e.bindLive(c, s.op, ev, s.op.Cache, s.cache.nth)
}

// Collect gives the reports that the operation noted to the events of the objects that
// they are about, and the rest to the first event. They were made in the order in which
// the allocator came to the objects, which is its own.
func (b *BulkStep) Collect(c *machine.Ctx) {
	if len(c.Notes()) <= b.step.noted {
		return
	}
	all := impls.Event{}
	b.step.ev = &all
	b.step.Collect(c)
	b.Spread(all.Reports)
}

// Spread gives reports to the events of their objects.
func (b *BulkStep) Spread(reports []*debugcheck.Report) {
	b.Reports = append(b.Reports, reports...)
	for _, r := range reports {
		i := slices.IndexFunc(b.Events, func(ev impls.Event) bool {
			return ev.Addr != 0 && ev.Addr == r.Object
		})
		ev := &b.Events[max(i, 0)]
		ev.Reports = append(ev.Reports, r)
	}
}
