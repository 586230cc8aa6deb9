package input

import (
	"fmt"

	"allocfuzz/corpus/prog"
)

// This file writes operation records; what each byte means is in decode_op.go.

func (e *encoder) lines(list []prog.Line) error {
	for i := range list {
		if err := e.line(&list[i]); err != nil {
			return fmt.Errorf("%q: %w", prog.AppendLine(nil, &list[i]), err)
		}
	}
	return nil
}

func (e *encoder) line(l *prog.Line) error {
	var r record
	var more []extra
	if l.Verb == prog.Check {
		r[1] = verbByte[prog.Check]
		e.record(r)
		return nil
	}
	id, err := e.context(l.Ctx)
	if err != nil {
		return err
	}
	r[0] = ctxByte(id)
	if l.Verb == prog.Repeat {
		return e.repeat(l, r)
	}
	r[1] = verbByte[l.Verb]
	switch {
	case l.Verb == prog.Create:
		more, err = e.create(l, &r)
	case l.Verb == prog.Alloc || l.Verb == prog.AllocBulk:
		more, err = e.alloc(l, &r)
	case l.Verb.Op().Class == prog.ClassMisuse:
		more, err = e.misuse(l, &r)
	case len(l.Slots) > 0:
		more, err = e.use(l, &r)
	case len(l.Results) > 0:
		more, err = e.bySize(l, &r)
	case l.Verb == prog.Tune:
		more, err = e.tune(l, &r)
	case l.Cache != "":
		r[3], err = e.cache(l.Cache)
	case l.Verb == prog.Offline:
		r[4] = byte(l.Num("cpu", 0))
	}
	if err != nil {
		return err
	}
	e.record(r)
	if err := e.values(more); err != nil {
		return err
	}
	e.at[l] = e.spots
	e.spots++
	e.ends = append(e.ends, len(e.out))
	return nil
}

// ctxByte returns the first byte for the number of a context.
func ctxByte(id int) byte {
	for i, c := range ctxCodes {
		if int(c) == id {
			return byte(i)
		}
	}
	panic("allocfuzz: context without a byte")
}

// context returns the number of a context. Handlers get theirs in the order in which they occur.
func (e *encoder) context(c prog.Ctx) (int, error) {
	switch c.Kind {
	case prog.CPUCtx:
		return ctxCPU + c.CPU, nil
	case prog.TaskCtx:
		for i := range e.p.Tasks {
			if e.p.Tasks[i].Name == c.Name {
				return ctxTask + i, nil
			}
		}
	case prog.IRQCtx:
		if id, ok := e.irqs[c]; ok {
			return id, nil
		}
		if c.Name == "" {
			e.irqs[c] = ctxIRQ + c.CPU
			return ctxIRQ + c.CPU, nil
		}
		n := 1
		for other := range e.irqs {
			if other.CPU == c.CPU && other.Name != "" {
				n++
			}
		}
		if n < len(handlerNames) {
			e.irqs[c] = ctxIRQ + 4*n + c.CPU
			return e.irqs[c], nil
		}
		return 0, fmt.Errorf("a third named handler of cpu%d does not fit into bytes", c.CPU)
	}
	return 0, fmt.Errorf("the context %s does not fit into bytes", c)
}

func (e *encoder) repeat(l *prog.Line, r record) error {
	r[1] = verbByte[prog.Repeat]
	var ok bool
	if r[2], ok = bodyCode(len(l.Body)); !ok {
		return fmt.Errorf("%d lines in a repeat do not fit into bytes, expected at most %d",
			len(l.Body), bodyMax)
	}
	var more []extra
	if r[3], r[4], ok = countCode(l.Count); !ok {
		more = append(more, extra{valueCount, uint64(l.Count)})
	}
	e.record(r)
	if err := e.values(more); err != nil {
		return err
	}
	return e.lines(l.Body)
}

// slot returns the number of a name.
func (e *encoder) slot(name string) (int, error) {
	if i, ok := e.slots[name]; ok {
		return i, nil
	}
	if len(e.slots) == SlotsMax {
		return 0, fmt.Errorf("a name more than %d does not fit into bytes", SlotsMax)
	}
	e.slots[name] = len(e.slots)
	return e.slots[name], nil
}

// bind writes the first result.
func (e *encoder) bind(l *prog.Line, r *record) error {
	i, err := e.slot(l.Results[0])
	if err != nil {
		return err
	}
	r[2] = byte(i)
	if e.live>>i&1 != 0 {
		r[6] |= flagExact
	}
	e.known |= 1 << i
	e.live |= 1 << i
	return nil
}

// operand writes the first slot.
func (e *encoder) operand(l *prog.Line, r *record) error {
	if l.Slots[0] == prog.Nil {
		r[3] = nilByte
		return nil
	}
	i, err := e.slot(l.Slots[0])
	if err != nil {
		return err
	}
	r[3] = byte(i)
	if e.known>>i&1 == 0 {
		r[6] |= flagForward
		r[4] = e.kindOf(l.Slots[0])
	}
	return nil
}

// kindOf returns the kind of a slot, from the first line that binds it.
func (e *encoder) kindOf(slot string) byte {
	kind := -1
	e.p.Walk(func(l *prog.Line, _ []int) {
		switch {
		case kind >= 0 || !contains(l.Results, slot):
		case l.Verb == prog.Pages:
			kind = kindPages
		case l.Cache != "":
			kind = e.caches[l.Cache]
		default:
			kind = kindSize
		}
	})
	return byte(kind)
}

func (e *encoder) cache(name string) (byte, error) {
	i, ok := e.caches[name]
	if !ok || e.made>>i&1 == 0 {
		return 0, fmt.Errorf("the cache %s, used before it is created, does not fit into bytes",
			name)
	}
	return byte(i), nil
}

// failure writes flags and failure of an allocation.
func (e *encoder) failure(l *prog.Line, r *record) []extra {
	if l.HasFlag("zero") {
		r[6] |= flagZero
	}
	if l.HasFlag("atomic") {
		r[6] |= flagAtomic
	}
	var more []extra
	pages, objects := l.Num("fail", 0), l.Num("failobj", 0)
	code, ok := failCode(int(min(pages, valueMax)))
	if r[7] = code; !ok {
		more = append(more, extra{valueFail, pages})
	}
	switch code, ok := failObjectCode(int(min(objects, valueMax))); {
	case ok && r[7] == 0:
		r[7] = code
	case objects > 0:
		more = append(more, extra{valueFailObject, objects})
	}
	return more
}

func (e *encoder) alloc(l *prog.Line, r *record) ([]extra, error) {
	var err error
	if r[3], err = e.cache(l.Cache); err != nil {
		return nil, err
	}
	if err := e.bind(l, r); err != nil {
		return nil, err
	}
	more := e.failure(l, r)
	return e.names(more, l.Results[1:], true)
}

// names appends what is behind the first name of a bulk operation, six to a value.
func (e *encoder) names(more []extra, list []string, binds bool) ([]extra, error) {
	for len(list) > 0 {
		var v uint64
		n := min(6, len(list))
		for i, name := range list[:n] {
			slot, err := e.slot(name)
			if err != nil {
				return nil, err
			}
			v |= uint64(slot+1) << (8 * i)
			if binds {
				e.known |= 1 << slot
				e.live |= 1 << slot
			} else {
				e.live &^= 1 << slot
			}
		}
		more = append(more, extra{valueNames, v})
		list = list[n:]
	}
	return more, nil
}

// bySize writes an allocation by size or order without an operand.
func (e *encoder) bySize(l *prog.Line, r *record) ([]extra, error) {
	if err := e.bind(l, r); err != nil {
		return nil, err
	}
	more := e.failure(l, r)
	ok, ok2 := true, true
	switch l.Verb {
	case prog.Malloc:
		r[4], r[5], ok = sizeCode(l.Nums[0])
	case prog.Calloc:
		r[4], ok = shortCode(l.Nums[0])
		r[5], ok2 = shortCode(l.Nums[1])
	case prog.Memalign:
		k := log2(int(l.Nums[0]))
		r[3], ok = byte((k+10)%13), k < 13
		r[4], r[5], ok2 = sizeCode(l.Nums[1])
	case prog.Pages:
		r[4], ok = byte(l.Nums[0]), l.Nums[0] < 4
	}
	if !ok {
		more = append(more, extra{valueFirst, l.Nums[0]})
	}
	if !ok2 {
		more = append(more, extra{valueSecond, l.Nums[1]})
	}
	return more, nil
}

// use writes an operation on slots.
func (e *encoder) use(l *prog.Line, r *record) ([]extra, error) {
	if err := e.operand(l, r); err != nil {
		return nil, err
	}
	i, isNil := r[3], l.Slots[0] == prog.Nil // a shift by nilByte leaves nothing
	switch l.Verb {
	case prog.Realloc:
		e.live &^= 1 << i
		if err := e.bind(l, r); err != nil {
			return nil, err
		}
		more := e.failure(l, r)
		var ok bool
		if r[4], r[5], ok = sizeCode(l.Nums[0]); !ok {
			more = append(more, extra{valueFirst, l.Nums[0]})
		}
		return more, nil
	case prog.Free, prog.FreeSized, prog.PagesFree, prog.FreeBulk:
		e.live &^= 1 << i
	}
	var err error
	switch {
	case l.Cache != "":
		r[4], err = e.cache(l.Cache)
	case l.Verb == prog.FreeSized && isNil:
		var ok bool
		if r[4], r[5], ok = sizeCode(l.Nums[0]); !ok {
			return []extra{{valueFirst, l.Nums[0]}}, nil
		}
	case l.Verb == prog.Free && !isNil:
		r[1] = verbByte[freeSize]
	}
	if l.Verb != prog.FreeBulk || err != nil {
		return nil, err
	}
	r[4] = 0
	return e.names(nil, l.Slots[1:], false)
}

func (e *encoder) create(l *prog.Line, r *record) ([]extra, error) {
	name, s := l.Results[0], l.Spec
	i, ok := e.caches[name]
	if !ok {
		i = len(e.caches)
		e.caches[name] = i
	}
	if i >= CachesMax {
		return nil, fmt.Errorf("a cache more than %d does not fit into bytes", CachesMax)
	}
	r[2] = byte(i)
	if e.made>>i&1 != 0 {
		r[6] |= flagExact
	}
	e.made |= 1 << i
	var more []extra
	if r[4], r[5], ok = objectCode(s.Size); !ok {
		more = append(more, extra{valueOfSpec | valueSize, uint64(s.Size)})
	}
	var objects, least, kept byte
	objects, more = coded(more, objectsTable, s.Objects,
		extra{valueOfSpec | valueObjects, uint64(s.Objects)})
	least, more = coded(more, minTable[:4], s.MinPartial,
		given(valueOfSpec|valueMin, s.MinPartial))
	kept, more = coded(more, keptTable, s.CPUPartial, given(valueOfSpec|valueKept, s.CPUPartial))
	r[3] = objects | least<<3 | kept<<5
	r[7], more = placingCode(more, s, valueOfSpec)
	mask := flagsOf(s.Flags...)
	flags, more := coded(more, flagsTable, mask, extra{valueOfSpec | valueFlags, uint64(mask)})
	r[6] |= flags
	if s.Limit != prog.NotGiven {
		more = append(more, given(valueOfSpec|valueLimit, s.Limit))
	}
	if s.Batch != prog.NotGiven {
		more = append(more, given(valueOfSpec|valueBatch, s.Batch))
	}
	if n := l.Num("fail", 0); n != 0 {
		more = append(more, extra{valueFail, n})
	}
	return more, nil
}

// tune writes the bounds of a cache's arrays.
func (e *encoder) tune(l *prog.Line, r *record) (more []extra, err error) {
	r[3], err = e.cache(l.Cache)
	limit, batch := l.Num("limit", 0), l.Num("batch", 1)
	if r[4] = byte(limit & 7); limit > 7 {
		more = append(more, extra{valueFirst, limit})
	}
	if r[5] = byte((batch - 1) & 3); batch > 4 {
		more = append(more, extra{valueSecond, batch})
	}
	return more, err
}

// misuse writes what needs no more than a slot.
func (e *encoder) misuse(l *prog.Line, r *record) ([]extra, error) {
	var more []extra
	var err error
	if l.Verb == prog.Flip {
		more = flipCode(l, r)
	}
	if len(l.Slots) > 0 {
		if err = e.operand(l, r); err != nil {
			return nil, err
		}
	} else {
		r[3], err = e.cache(l.Cache)
	}
	switch {
	case l.Verb == prog.FreeForeign && l.Cache == "":
		r[4] = foreignSize
	case l.Verb == prog.FreeWrong || l.Verb == prog.FreeForeign:
		r[4], err = e.cache(l.Cache)
	case len(l.Nums) > 0:
		var ok bool
		if r[4], ok = bytesCode(l.Nums[0]); !ok {
			more = append(more, extra{valueFirst, l.Nums[0]})
		}
	}
	return more, err
}

func flipCode(l *prog.Line, r *record) []extra {
	var more []extra
	for i, name := range append(prog.FlipRegions[:len(prog.FlipRegions):len(prog.FlipRegions)],
		prog.FlipCacheFields...) {
		if name == l.Region {
			r[4] = byte(i)
		}
	}
	for _, kv := range l.KV {
		switch {
		case kv.Key == "bits" && kv.Num < 256:
			r[7] = byte(kv.Num)
		case kv.Key == "bits":
			if kv.Num>>32 != 0 {
				more = append(more, extra{valueBits2, kv.Num >> 32})
			}
			more = append(more, extra{valueBits, kv.Num & (1<<32 - 1)})
		default:
			var ok bool
			if r[5], ok = offsetCode(kv.Num); !ok {
				more = append(more, extra{valueByte, kv.Num + 1})
			}
		}
	}
	return more
}
