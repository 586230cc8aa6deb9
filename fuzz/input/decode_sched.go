package input

import "allocfuzz/corpus/prog"

// This file reads departures and values. A departure is resolved when all lines are known.

// raw is a departure record with what value records said about it; 0 is nothing.
type raw struct {
	r        record
	at       int // targets in front of it
	n        uint64
	delivery uint64
	iter     [prog.MaxNest]uint64
}

// departure keeps a record until the lines are known.
func (d *Decoder) departure(r *record) {
	full := len(d.deps) == LinesMax || d.opt.SMP && d.anchors == departuresSMP && r[0] < tagMore
	if full || d.opt.Sequential {
		d.last = itemNone
		return
	}
	if r[0] < tagMore || len(d.deps) == 0 {
		d.anchors++
	}
	d.deps = append(d.deps, raw{r: *r, at: len(d.targets)})
	d.last = itemDeparture
}

// schedule makes the one block of the program.
func (d *Decoder) schedule() {
	if len(d.deps) == 0 || len(d.targets) == 0 {
		return
	}
	if cap(d.leaves) < len(d.deps) {
		d.leaves = make([]prog.Departure, 0, 2*len(d.deps))
		d.actions = make([]prog.Action, 0, 2*len(d.deps))
	}
	d.leaves, d.actions = d.leaves[:0], d.actions[:0]
	for i := range d.deps {
		w := &d.deps[i]
		d.actions = append(d.actions, d.action(w.r[6]))
		n := len(d.actions)
		if last := len(d.leaves) - 1; last >= 0 && w.r[0] >= tagMore {
			acts := d.leaves[last].Actions
			d.leaves[last].Actions = d.actions[n-1-len(acts) : n : n]
			continue
		}
		d.leaves = append(d.leaves, prog.Departure{Actions: d.actions[n-1 : n : n]})
		d.anchor(&d.leaves[len(d.leaves)-1], w)
	}
	d.sched[0] = prog.Sched{Blank: true, Departures: d.leaves}
	d.p.Scheds = d.sched[:]
}

// anchor says at which point of which execution of a line a departure happens.
func (d *Decoder) anchor(l *prog.Departure, w *raw) {
	n := len(d.targets)
	at := (w.at - 1 - int(w.r[1])) % n
	if at < 0 {
		at += n
	}
	t := &d.targets[at]
	l.Where.Line = t.line
	if t.line.Ctx.Kind == prog.IRQCtx {
		l.Where.IRQ = ctxNames[d.ctxID(t.line.Ctx)]
		l.Where.Delivery = or(w.delivery, pick(deliveryTable, w.r[2]>>4))
	}
	l.Kind = prog.Kind(int(w.r[2]&15) % prog.Kinds)
	l.Field = fields[int(w.r[3])%len(fields)]
	l.N = or(w.n, attemptOf(w.r[4]))
	l.Where.Iter = d.iterations(t, w)
}

// or returns what a value record said, in the range of an anchor's numbers, or else def.
func or(v uint64, def int) int {
	if v == 0 {
		return def
	}
	return int(clamp(v, 1, prog.MaxN))
}

// iterations returns the rounds of the repeats around a line, nil when all are the first. Byte 5
// is the innermost one's, byte 7 that of the one around it.
func (d *Decoder) iterations(t *spot, w *raw) []int {
	if t.depth == 0 {
		return nil
	}
	out := d.ints.take(t.depth)
	first := true
	for i := range out {
		count := t.counts[i].Count
		b := w.r[5]
		if i < t.depth-1 {
			b = w.r[7]
		}
		out[i] = 1 + int(b)%count
		if v := w.iter[i]; v != 0 {
			out[i] = 1 + int((v-1)%uint64(count))
		}
		first = first && out[i] == 1
	}
	if first {
		return nil
	}
	return out
}

// actionTable maps three bits to an action.
var actionTable = [8]prog.ActionKind{
	prog.Interrupt, prog.ToCPU, prog.Interrupt, prog.ToTask, prog.Interrupt, prog.Move,
	prog.Fail, prog.None,
}

// bufferTable is actionTable of a machine with store buffers, which came later: without them
// the bytes keep their meaning.
var bufferTable = [8]prog.ActionKind{
	prog.Interrupt, prog.ToCPU, prog.HoldStore, prog.ToTask, prog.DrainStore, prog.Move,
	prog.Fail, prog.None,
}

// actionsOf is the table of a machine.
func actionsOf(m *prog.Machine) *[8]prog.ActionKind {
	if m.TSO {
		return &bufferTable
	}
	return &actionTable
}

// action returns what three bits say, with the context that five bits say. Contexts without a line
// are never chosen: nothing of theirs could run.
func (d *Decoder) action(b byte) prog.Action {
	kind, k := actionsOf(&d.p.Machine)[b&7], int(b>>3)
	var id int
	ok := true
	switch kind {
	case prog.Interrupt:
		id, ok = d.runner(ctxIRQ, ctxTask, k)
	case prog.ToTask:
		id, ok = d.runner(ctxTask, ctxCount, k)
	case prog.ToCPU:
		id, ok = d.runner(ctxCPU, ctxIRQ, k)
	case prog.Move, prog.DrainStore:
		return prog.Action{Kind: kind, CPU: k % d.p.Machine.CPUs}
	default:
		return prog.Action{Kind: kind}
	}
	if !ok {
		id = nth(uint64(d.runs), k)
	}
	c := ctxOf(id)
	kind = [...]prog.ActionKind{
		prog.CPUCtx: prog.ToCPU, prog.TaskCtx: prog.ToTask, prog.IRQCtx: prog.Interrupt,
	}[c.Kind]
	return prog.Action{Kind: kind, CPU: c.CPU, Name: c.Name}
}

// runner returns the k-th number from least up to below most, if that context has a line, else
// some other of them that has; false when there is none.
func (d *Decoder) runner(least, most, k int) (id int, ok bool) {
	id = least + k%(most-least)
	if d.runs>>id&1 != 0 {
		return id, true
	}
	mask := d.runs >> least << least & (1<<most - 1)
	if mask == 0 {
		return 0, false
	}
	return nth(uint64(mask), k), true
}

// Fields of a value record of an operation; from valueOfSpec on those of a cache.
const (
	valueFirst  = iota // first number
	valueSecond        // second number
	valueFail
	valueCount
	valueNames // six names more of a bulk operation, each a slot and 1
	valueBits  // of a flip, low and high half
	valueBits2
	valueByte // of a flip, and 1
	valueFailObject
	valueOfSpec = 16
)

// Fields of a value record of a departure.
const (
	valueAttempt = iota
	valueDelivery
	valueOuter // round of the outermost repeat
	valueInner
)

// value applies a value record to what the record before it made: byte 1 is the field, the rest
// the value, low byte first.
func (d *Decoder) value(r *record) {
	var v uint64
	for i := RecordSize - 1; i >= 2; i-- {
		v = v<<8 | uint64(r[i])
	}
	switch d.last {
	case itemHead:
		d.headValue(r[1], v)
	case itemOp:
		d.lineValue(r[1], v)
	case itemDeparture:
		d.departureValue(&d.deps[len(d.deps)-1], r[1], v)
	}
}

func (d *Decoder) departureValue(w *raw, field byte, v uint64) {
	switch field & 3 {
	case valueAttempt:
		w.n = v
	case valueDelivery:
		w.delivery = v
	case valueOuter:
		w.iter[0] = v
	case valueInner:
		w.iter[1] = v
	}
}

// lineValue applies a value to the line read last, as far as it has such a thing.
func (d *Decoder) lineValue(field byte, v uint64) {
	l := d.line
	if l.Spec != nil && field&valueOfSpec != 0 {
		d.specValue(l.Spec, field&15, v)
		return
	}
	op := l.Verb.Op()
	switch field & 15 {
	case valueFirst, valueSecond:
		d.number(l, op, int(field&15), v)
	case valueFail:
		d.option(l, op, prog.KV{Key: "fail", Num: clamp(v, 1, prog.MaxFail), IsNum: true})
	case valueFailObject:
		d.option(l, op, prog.KV{Key: "failobj", Num: clamp(v, 1, prog.MaxFail), IsNum: true})
	case valueCount:
		if l.Verb == prog.Repeat && d.depth > 0 && d.levels[d.depth].of == l {
			d.setCount(int(clamp(v, 1, prog.MaxRepeat)))
		}
	case valueNames:
		d.names(l, v)
	case valueBits:
		bits := l.Num("bits", 0)>>32<<32 | v&(1<<32-1)
		d.option(l, op, prog.KV{Key: "bits", Num: max(1, bits), IsNum: true})
	case valueBits2:
		bits := l.Num("bits", 0)&(1<<32-1) | v<<32
		d.option(l, op, prog.KV{Key: "bits", Num: max(1, bits), IsNum: true})
	case valueByte:
		d.option(l, op, prog.KV{Key: "byte", Num: clamp(v, 1, prog.MaxSize) - 1, IsNum: true})
	}
}

// number sets number i of a line; those of tune are its limit and its batch.
func (d *Decoder) number(l *prog.Line, op *prog.Op, i int, v uint64) {
	switch {
	case l.Verb == prog.Tune:
		k := &op.Keys[1-i]
		d.option(l, op, prog.KV{Key: k.Name, Num: clamp(v, k.Min, k.Max), IsNum: true})
	case i < len(op.Nums) && (l.Verb != prog.FreeSized || l.Slots[0] == prog.Nil):
		l.Nums[i] = clampNum(&op.Nums[i], v)
		if d.name >= 0 && d.kind == kindSize {
			d.slots.size[d.name] = requested(l)
		}
	}
}

// option sets one option of a line whose verb takes it.
func (d *Decoder) option(l *prog.Line, op *prog.Op, kv prog.KV) {
	takes := false
	for i := range op.Keys {
		takes = takes || op.Keys[i].Name == kv.Key
	}
	if !takes {
		return
	}
	all := d.kvs.take(len(l.KV) + 1)[:0]
	done := false
	for _, have := range l.KV {
		if !done && have.Key >= kv.Key {
			all, done = append(all, kv), true
		}
		if have.Key != kv.Key {
			all = append(all, have)
		}
	}
	if !done {
		all = append(all, kv)
	}
	l.KV = all
}

// names adds up to six names to a bulk operation: each byte is a slot and 1.
func (d *Decoder) names(l *prog.Line, v uint64) {
	s := &d.slots
	for ; v != 0; v >>= 8 {
		i := int(v&0xff) - 1
		if i < 0 || i >= SlotsMax {
			continue
		}
		bit := uint64(1) << i
		name := s.show(i)
		switch {
		case l.Verb == prog.AllocBulk && !contains(l.Results, name) &&
			(s.typed&bit == 0 || s.of[d.kind]&bit != 0):
			s.bind(i, d.kind, l.Ctx, d.inRound())
			l.Results = d.more(l.Results, name)
		case l.Verb == prog.FreeBulk && !contains(l.Slots, name) &&
			s.known&s.of[d.kind]&bit != 0:
			s.live &^= bit
			l.Slots = d.more(l.Slots, name)
		}
	}
}

func contains(list []string, s string) bool {
	for _, have := range list {
		if have == s {
			return true
		}
	}
	return false
}

// The short slices of a line come from pools.

func (d *Decoder) one(s string) []string {
	out := d.strs.take(1)
	out[0] = s
	return out
}

func (d *Decoder) more(list []string, s string) []string {
	out := d.strs.take(len(list) + 1)
	copy(out, list)
	out[len(list)] = s
	return out
}

func (d *Decoder) numbers(list ...uint64) []uint64 {
	out := d.nums.take(len(list))
	copy(out, list)
	return out
}

func (d *Decoder) options(l *prog.Line, list ...prog.KV) {
	if len(list) == 0 {
		return
	}
	l.KV = d.kvs.take(len(list))
	copy(l.KV, list)
}
