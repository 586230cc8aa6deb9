package input

import "allocfuzz/corpus/prog"

// This file reads operation records. Byte 0 is the context, byte 1 the verb, byte 2 the result.
// Byte 3 is the operand: a slot, or the cache of verbs that take no slot. Bytes 4 and 5 are a
// number and its extension, or two numbers, byte 6 the flags, byte 7 the failure. Verbs that need
// something else say so where they are read.

// operation reads one operation, as far as the budget lasts.
func (d *Decoder) operation(r *record) {
	in := &d.levels[d.depth]
	if in.mult > d.budget {
		d.last = itemNone
		d.counted()
		return
	}
	ctx := d.context(r[0])
	if d.depth > 0 {
		ctx = in.of.Ctx
	}
	verb := d.verb(r[1], ctx.Kind == prog.IRQCtx)
	if verb == prog.Repeat {
		d.repeat(r, ctx)
		return
	}
	d.budget -= in.mult
	l := d.emit(ctx)
	d.last, d.line, d.name = itemOp, l, -1
	if verb == prog.Check {
		*l = prog.Line{Verb: prog.Check}
		d.last = itemNone
		return
	}
	d.runs |= 1 << d.ctxID(ctx)
	if !d.fill(l, verb, r) {
		d.instead(l, r)
	}
	s := spot{line: l, depth: d.depth}
	for i := range d.depth {
		s.counts[i] = d.levels[i+1].of
	}
	d.targets = append(d.targets, s)
	d.counted()
}

// ctxID returns the number of a context.
func (d *Decoder) ctxID(c prog.Ctx) int {
	switch c.Kind {
	case prog.CPUCtx:
		return ctxCPU + c.CPU
	case prog.TaskCtx:
		return ctxTask + int(c.Name[1]-'0')
	}
	for i, n := range handlerNames {
		if n == c.Name {
			return ctxIRQ + 4*i + c.CPU
		}
	}
	panic("allocfuzz: handler of no number")
}

// context returns who runs a line.
func (d *Decoder) context(b byte) prog.Ctx {
	id := int(ctxCodes[b&31])
	cpus := d.p.Machine.CPUs
	switch {
	case d.opt.Sequential:
		id = 0
	case id >= ctxTask && len(d.p.Tasks) == 0:
		id = (id - ctxTask) % cpus
	case id >= ctxTask:
		id = ctxTask + (id-ctxTask)%len(d.p.Tasks)
	default:
		id = id&^3 | (id&3)%cpus
	}
	return ctxOf(id)
}

// verb returns the verb of a byte, where it may not stand an allocation or a free.
func (d *Decoder) verb(b byte, handler bool) prog.Verb {
	v := verbTable[b%verbPlaces]
	if b >= misuseFrom && d.opt.Misuse {
		v = misuseVerbs[b%byte(len(misuseVerbs))]
	}
	ok := true
	switch {
	case v == freeSize:
	case v == prog.Repeat:
		ok = d.depth < prog.MaxNest && d.linesAt+1 < d.most
	case v == prog.Check:
		ok = d.depth == 0
	case v == prog.Offline:
		ok = d.p.Machine.CPUs > 1
	case v.Op().Class == prog.ClassMisuse:
		ok = d.opt.Misuse
	}
	if ok && (!handler || handlerVerbs>>v&1 != 0) {
		return v
	}
	if b&1 == 0 {
		return prog.Alloc
	}
	return prog.Free
}

// fill makes the line of a verb; it is false when there is nothing to operate on.
func (d *Decoder) fill(l *prog.Line, verb prog.Verb, r *record) bool {
	l.Verb = verb
	switch verb {
	case prog.Alloc, prog.AllocBulk:
		return d.fillAlloc(l, r)
	case prog.Malloc, prog.Calloc, prog.Memalign, prog.Pages:
		return d.fillSize(l, r)
	case prog.Realloc:
		return d.fillRealloc(l, r)
	case prog.Free, freeSize, prog.FreeSized, prog.PagesFree, prog.Usable, prog.Fill, prog.Verify,
		prog.FreeBulk:
		return d.fillUse(l, r)
	case prog.Create:
		return d.fillCreate(l, r)
	case prog.Shrink, prog.Destroy, prog.Flush, prog.ValidateCache, prog.Tune:
		k, ok := d.caches.find(r[3])
		if ok {
			l.Cache = d.caches.show(k)
		}
		if ok && l.Verb == prog.Tune {
			d.options(l, prog.KV{Key: "batch", Num: 1 + uint64(r[5]&3), IsNum: true},
				prog.KV{Key: "limit", Num: uint64(r[4] & 7), IsNum: true})
		}
		return ok
	case prog.Offline:
		d.options(l, prog.KV{Key: "cpu", Num: uint64(int(r[4]) % d.p.Machine.CPUs), IsNum: true})
		return true
	case prog.Drain, prog.Reap, prog.RCULock, prog.RCUUnlock:
		return true
	}
	return d.fillMisuse(l, r)
}

// instead makes the line an allocation, for want of anything to operate on.
func (d *Decoder) instead(l *prog.Line, r *record) {
	kind := kindSize
	if k, ok := d.caches.find(r[4]); ok {
		kind = k
	}
	d.becomes(l, kind)
	if !d.result(l, r, kind) {
		d.verifyInstead(l, r)
	}
}

// verifyInstead makes the line look at some slot: every one is of another kind.
func (d *Decoder) verifyInstead(l *prog.Line, r *record) {
	*l = prog.Line{Ctx: l.Ctx, Verb: prog.Verify,
		Slots: d.one(d.slots.show(nth(d.slots.known, int(r[2]))))}
}

// result binds the line's one result.
func (d *Decoder) result(l *prog.Line, r *record, kind int) bool {
	i, ok := d.slots.choose(r[2], r[6]&flagExact == flagExact, kind)
	if !ok {
		return false
	}
	d.slots.bind(i, kind, l.Ctx, d.inRound())
	if kind == kindSize {
		d.slots.size[i] = requested(l)
	}
	l.Results = d.one(d.slots.show(i))
	d.name, d.kind = i, kind
	return true
}

// requested returns the bytes that a line asks for, as far as they are known.
func requested(l *prog.Line) uint64 {
	switch {
	case l.Verb == prog.Calloc:
		return l.Nums[0] * l.Nums[1]
	case len(l.Nums) > 0:
		return l.Nums[len(l.Nums)-1]
	}
	return 0
}

func (d *Decoder) inRound() int32 {
	if d.depth == 0 {
		return 0
	}
	return d.round
}

func (d *Decoder) fillAlloc(l *prog.Line, r *record) bool {
	k, ok := d.caches.find(r[3])
	if !ok {
		return false
	}
	l.Cache = d.caches.show(k)
	if !d.result(l, r, k) {
		d.verifyInstead(l, r)
		return true
	}
	d.allocOptions(l, r)
	if l.Verb == prog.AllocBulk {
		for range r[4] & 3 {
			d.moreResults(l, r[2])
		}
	}
	return true
}

// moreResults binds one result more of a bulk allocation, if there is a slot that holds nothing.
func (d *Decoder) moreResults(l *prog.Line, b byte) {
	i, ok := d.slots.choose(b, false, d.kind)
	if !ok || d.slots.live>>i&1 != 0 {
		return
	}
	d.slots.bind(i, d.kind, l.Ctx, d.inRound())
	l.Results = d.more(l.Results, d.slots.show(i))
}

// allocOptions adds flags and failure.
func (d *Decoder) allocOptions(l *prog.Line, r *record) {
	var kv [2]prog.KV
	n := 0
	if f := failOf(r[7]); f > 0 {
		kv[n] = prog.KV{Key: "fail", Num: uint64(f), IsNum: true}
		n++
	} else if f := failObjectOf(r[7]); f > 0 && l.Verb != prog.Pages {
		kv[n] = prog.KV{Key: "failobj", Num: uint64(f), IsNum: true}
		n++
	}
	words := ""
	zero, atomic := r[6]&flagZero == flagZero, r[6]&flagAtomic == flagAtomic
	switch {
	case l.Verb == prog.Calloc || l.Verb == prog.Create:
	case zero && atomic:
		words = "atomic,zero"
	case zero:
		words = "zero"
	case atomic:
		words = "atomic"
	}
	if words != "" {
		kv[n] = prog.KV{Key: "flags", Word: words}
		n++
	}
	d.options(l, kv[:n]...)
}

// fillSize makes an allocation by size or order. Where there are two numbers the operand's byte
// extends them.
func (d *Decoder) fillSize(l *prog.Line, r *record) bool {
	page, kind := d.p.Machine.PageSize, kindSize
	switch l.Verb {
	case prog.Malloc:
		l.Nums = d.numbers(sizeOf(r[4], r[5], page))
	case prog.Calloc:
		count, size := sizeOf(r[4], r[3], page), sizeOf(r[5], r[3], page)
		if r[4] >= sizePower && r[5]&1 != 0 {
			size = 1 << (r[5] % 48) // both large: their product may overflow
		}
		l.Nums = d.numbers(count, size)
	case prog.Memalign:
		l.Nums = d.numbers(1<<((r[3]+3)%13), sizeOf(r[4], r[5], page))
	case prog.Pages:
		l.Nums, kind = d.numbers(uint64(r[4]&3)*uint64(r[4]>>7^1)), kindPages
	}
	if !d.result(l, r, kind) {
		d.verifyInstead(l, r)
		return true
	}
	d.allocOptions(l, r)
	return true
}

func (d *Decoder) fillRealloc(l *prog.Line, r *record) bool {
	s := &d.slots
	sizes := s.of[kindSize] &^ s.sealed
	if !d.ofNil(l, r) {
		if _, ok := d.use(l, r, operand{sizes, sizes, kindSize, true}); !ok {
			return false
		}
	}
	l.Nums = d.numbers(sizeOf(r[4], r[5], d.p.Machine.PageSize))
	if !d.result(l, r, kindSize) {
		d.verifyInstead(l, r)
		return true
	}
	d.allocOptions(l, r)
	return true
}

// use takes the line's slot operand.
func (d *Decoder) use(l *prog.Line, r *record, want operand) (int, bool) {
	s := &d.slots
	if r[6]&flagForward == flagForward {
		if i, ok := s.waitFor(r[3], want.kind); ok {
			s.waits = append(s.waits, waiting{slot: i, line: l, round: d.inRound()})
			l.Slots = d.one(s.show(i))
			return i, true
		}
	}
	var i int
	var ok bool
	if want.spent {
		i, ok = s.spend(r[3], want.first, want.fits)
	} else {
		i, ok = s.find(r[3], want.first, want.fits)
	}
	if ok {
		l.Slots = d.one(s.show(i))
		if want.spent {
			s.live &^= 1 << i
		}
	}
	return i, ok
}

// operand says what an operation wants: a slot of first or else of fits, which it gives back when
// spent is set. One that is bound further down is of a kind.
type operand struct {
	first, fits uint64
	kind        int
	spent       bool
}

// nilByte is the operand of the verbs that may be about nothing, where it is nothing.
const nilByte = 255

// ofNil makes the operation one on nothing, if byte 3 says so.
func (d *Decoder) ofNil(l *prog.Line, r *record) bool {
	if r[3] != nilByte || !l.Verb.Op().Nil {
		return false
	}
	l.Slots = d.one(prog.Nil)
	if l.Verb == prog.FreeSized {
		l.Nums = d.numbers(sizeOf(r[4], r[5], d.p.Machine.PageSize))
	}
	return true
}

// fillUse makes an operation on one slot, or the free of several. What byte 4 says matters only for
// a slot that is bound further down: its kind, the cache of a free.
func (d *Decoder) fillUse(l *prog.Line, r *record) bool {
	s := &d.slots
	if l.Verb != freeSize && d.ofNil(l, r) {
		return true
	}
	switch l.Verb {
	case prog.Usable:
		_, ok := d.use(l, r, operand{s.of[kindSize], s.of[kindSize], kindSize, false})
		return ok
	case prog.Fill, prog.Verify:
		kind := int(r[4] % kinds)
		if kind < CachesMax && d.caches.known>>kind&1 == 0 {
			kind = kindSize
		}
		_, ok := d.use(l, r, operand{s.live, s.typed, kind, false})
		return ok
	case prog.PagesFree:
		_, ok := d.use(l, r, operand{s.of[kindPages], s.of[kindPages], kindPages, true})
		return ok
	case prog.FreeSized:
		return d.fillFreeSized(l, r)
	case prog.FreeBulk:
		return d.fillFreeBulk(l, r)
	}
	first, kind := s.objs, kindSize
	if l.Verb == freeSize {
		first = s.of[kindSize]
	} else if k, ok := d.caches.find(r[4]); ok {
		kind = k
	}
	l.Verb = prog.Free
	i, ok := d.use(l, r, operand{first, s.objs | s.of[kindSize], kind, true})
	if ok {
		d.owner(l, i)
	}
	return ok
}

// owner names the cache that the slot's object is of.
func (d *Decoder) owner(l *prog.Line, slot int) {
	if k := int(d.slots.kind[slot]); k < CachesMax {
		l.Cache = d.caches.show(k)
	}
}

// fillFreeSized frees an allocation whose size is certain, and keeps it so.
func (d *Decoder) fillFreeSized(l *prog.Line, r *record) bool {
	s := &d.slots
	sure := s.of[kindSize] & s.once &^ s.early
	i, ok := s.spend(r[3], sure, sure)
	if !ok || s.size[i] > prog.MaxSize {
		return false
	}
	bit := uint64(1) << i
	s.live &^= bit
	s.sealed |= bit
	l.Slots, l.Nums = d.one(s.show(i)), d.numbers(s.size[i])
	return true
}

// fillFreeBulk frees an object and up to three more of its cache, the low bits of byte 4.
func (d *Decoder) fillFreeBulk(l *prog.Line, r *record) bool {
	s := &d.slots
	i, ok := s.spend(r[3], s.objs, s.objs)
	if !ok {
		return false
	}
	d.owner(l, i)
	d.name, d.kind = i, int(s.kind[i])
	s.live &^= 1 << i
	l.Slots = d.one(s.show(i))
	for range r[4] & 3 {
		set := s.live & s.of[d.kind]
		if set == 0 {
			break
		}
		j := nth(set, int(r[5]))
		s.live &^= 1 << j
		l.Slots = d.more(l.Slots, s.show(j))
	}
	return true
}

// fillCreate makes a cache. Byte 3 is objects, min_partial and cpu_partial, the low half of byte 6
// the flags, byte 7 as in the head.
func (d *Decoder) fillCreate(l *prog.Line, r *record) bool {
	k := d.caches.choose(r[2], r[6]&flagExact == flagExact)
	s := d.specs.take(1)
	s[0] = prog.NewCacheSpec(objectSize(r[4], r[5], d.p.Machine.PageSize))
	s[0].Objects = pick(objectsTable, r[3]&7)
	s[0].MinPartial = pick(minTable, r[3]>>3&3)
	s[0].CPUPartial = pick(keptTable, r[3]>>5)
	placing(&s[0], r[7])
	d.flags(&s[0], uint64(pick(flagsTable, r[6]&15)))
	d.caches.checks(k, s[0].Flags)
	l.Spec = &s[0]
	l.Results = d.one(d.caches.show(k))
	d.caches.known |= 1 << k
	return true
}
