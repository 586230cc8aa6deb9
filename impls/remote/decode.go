package remote

import (
	"encoding/binary"
	"fmt"
	"math"

	"allocfuzz/debugcheck"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// Limits of what is accepted.
const (
	textMax    = 1 << 12 // bytes of a string
	flagsMax   = 64      // flags of a cache
	extraMax   = 256     // slots more than operations name
	bulkMax    = 1 << 12 // slots of a bulk operation
	reportsMax = 1 << 10 // reports of an event
	fixesMax   = 64      // repairs of a report
)

// The shortest encodings, which bound a count by the bytes that are there.
const (
	opBytes     = 14
	slotBytes   = 1
	specBytes   = 11
	eventBytes  = 22
	reportBytes = 13
)

// A FormatError says at which byte of the input something is wrong. Offset counts
// from 0; in a Player and in Serve it counts all bytes read so far.
type FormatError struct {
	Offset int64
	Reason string
}

// Error is offset and reason on one line.
func (e *FormatError) Error() string {
	return fmt.Sprintf("remote: byte %d: %s", e.Offset, e.Reason)
}

// A reader takes an encoding apart. After the first error everything is zero.
type reader struct {
	b    []byte
	pos  int
	base int64 // offset of b in the stream
	err  error
}

func (r *reader) fail(pos int, format string, args ...any) {
	if r.err == nil {
		r.err = &FormatError{r.base + int64(pos), fmt.Sprintf(format, args...)}
		r.pos = len(r.b)
	}
}

func (r *reader) left() int { return len(r.b) - r.pos }

func (r *reader) u8(what string, most byte) byte {
	if r.left() == 0 {
		r.fail(r.pos, "%s: the input ends", what)
		return 0
	}
	v := r.b[r.pos]
	if v > most {
		r.fail(r.pos, "%s %d: expected at most %d", what, v, most)
		return 0
	}
	r.pos++
	return v
}

func (r *reader) uint(what string, most uint64) uint64 {
	v, n := binary.Uvarint(r.b[r.pos:])
	switch {
	case n <= 0:
		r.fail(r.pos, "%s: expected a number", what)
		return 0
	case v > most:
		r.fail(r.pos, "%s %d: expected at most %d", what, v, most)
		return 0
	}
	r.pos += n
	return v
}

func (r *reader) int(what string, least, most int64) int64 {
	v, n := binary.Varint(r.b[r.pos:])
	switch {
	case n <= 0:
		r.fail(r.pos, "%s: expected a number", what)
		return 0
	case v < least || v > most:
		r.fail(r.pos, "%s %d: expected %d to %d", what, v, least, most)
		return 0
	}
	r.pos += n
	return v
}

func (r *reader) text(what string) string {
	n := int(r.uint(what, textMax))
	if n > r.left() {
		r.fail(r.pos, "%s: %d bytes expected, %d left", what, n, r.left())
		return ""
	}
	s := string(r.b[r.pos : r.pos+n])
	r.pos += n
	return s
}

// count reads how many things of at least size bytes follow.
func (r *reader) count(what string, size int) int {
	at := r.pos
	n := r.uint(what, math.MaxInt32)
	if n > uint64(r.left()/size) {
		r.fail(at, "%d %s: more than the %d bytes left can hold", n, what, r.left())
		return 0
	}
	return int(n)
}

// end demands that nothing is left.
func (r *reader) end() error {
	if r.left() > 0 {
		r.fail(r.pos, "%d bytes more than expected", r.left())
	}
	return r.err
}

// DecodeBatch is the inverse of AppendBatch; src must hold one batch and no more.
// Every error is a *FormatError. A batch that it returns has all its slots in
// range.
func DecodeBatch(src []byte) (*impls.Batch, error) { return decodeBatch(src, 0) }

func decodeBatch(src []byte, base int64) (*impls.Batch, error) {
	r := &reader{b: src, base: base}
	b := &impls.Batch{}
	r.boot(b)
	if n := r.count("caches", specBytes); n > 0 {
		b.Caches = make([]impls.CacheSpec, n)
	}
	for i := range b.Caches {
		r.spec(&b.Caches[i])
	}
	at := r.pos
	b.Slots = int(r.uint("slots", math.MaxInt32))
	b.Threads = int(r.u8("threads", impls.ThreadsMax))
	n := r.count("operations", opBytes)
	if r.err == nil && n > 0 {
		b.Ops = make([]impls.Op, n)
	}
	named := n
	for i := range b.Ops {
		if r.err != nil {
			break
		}
		r.op(&b.Ops[i], b)
		named += len(b.Ops[i].Slots)
	}
	if b.Slots > named+extraMax {
		r.fail(at, "%d slots: expected at most %d with %d operations", b.Slots, named+extraMax, n)
	}
	if err := r.end(); err != nil {
		return nil, err
	}
	return b, nil
}

// boot reads the boot parameters, which must be such.
func (r *reader) boot(b *impls.Batch) {
	at := r.pos
	b.Debug = r.text("debug options")
	if b.Debug != "" {
		if _, err := debugcheck.ParseOptions(b.Debug); err != nil {
			r.fail(at, "debug options: %v", err)
		}
	}
	at = r.pos
	b.Rules = r.text("rules")
	if b.Rules != "" {
		if _, err := debugcheck.ParseRules(b.Rules); err != nil {
			r.fail(at, "%v", err)
		}
	}
	b.Merge = r.u8("merge", 1) == 1
}

func (r *reader) op(op *impls.Op, b *impls.Batch) {
	op.Code = impls.Code(r.u8("operation", byte(impls.LastCode)))
	op.Flags = impls.AllocFlags(r.u8("flags", math.MaxUint8))
	op.Region = r.region()
	op.Thread = r.u8("thread", byte(max(b.Threads, 1)-1))
	op.Fail = uint16(r.uint("fail", math.MaxUint16))
	op.FailObject = uint16(r.uint("object that fails", math.MaxUint16))
	op.Size = r.uint("size", math.MaxUint64)
	op.Arg = r.uint("argument", math.MaxUint64)
	op.Pattern = impls.Pattern(r.uint("pattern", math.MaxUint32))
	caches := int64(len(b.Caches)+len(b.Ops)) - 1
	slots := int64(b.Slots) - 1
	op.Cache = int32(r.int("cache", -1, caches))
	least := int64(-1)
	if op.Code.TakesNil() && op.Cache < 0 {
		least = int64(impls.NilSlot)
	}
	op.Slot = int32(r.int("slot", least, slots))
	if op.Code == impls.OpCreate {
		slots = caches
	}
	op.Result = int32(r.int("result", -1, slots))
	r.slots(op, slots)
	if r.u8("spec", 1) == 1 {
		op.Spec = &impls.CacheSpec{}
		r.spec(op.Spec)
	}
}

// slots reads what a bulk operation binds or gives back, which other operations have none
// of.
func (r *reader) slots(op *impls.Op, most int64) {
	at := r.pos
	n := r.count("slots of an operation", slotBytes)
	switch {
	case r.err != nil:
		return
	case op.Code.Bulk() != (n > 0) || n > bulkMax:
		r.fail(at, "%d slots of an operation %s: expected 1 to %d for a bulk operation, none for "+
			"others", n, op.Code, bulkMax)
		return
	case n > 0:
		op.Slots = make([]int32, n)
	}
	for i := range op.Slots {
		op.Slots[i] = int32(r.int("slot of a bulk operation", 0, most))
	}
}

func (r *reader) spec(s *impls.CacheSpec) {
	s.Name = r.text("name of a cache")
	s.Size = r.uint("size of objects", math.MaxUint64)
	s.Align = r.uint("alignment", math.MaxUint64)
	kind := r.u8("kind of a cache", 3)
	s.Ctor, s.Kmalloc = kind&1 != 0, kind&2 != 0
	flags := r.uint("flags of a cache", flagsMax)
	for range flags {
		f := r.text("flag")
		if r.err != nil {
			return
		}
		s.Flags = append(s.Flags, f)
	}
	for _, v := range [...]*int{&s.Objects, &s.Order, &s.MinPartial, &s.CPUPartial, &s.Limit,
		&s.Batch} {
		*v = int(r.int("parameter of a cache", math.MinInt32, math.MaxInt32))
	}
}

// DecodeTranscript is the inverse of AppendTranscript; src must hold one transcript
// and no more. Every error is a *FormatError.
func DecodeTranscript(src []byte) (*impls.Transcript, error) {
	r := &reader{b: src}
	t := &impls.Transcript{}
	if n := r.count("events", eventBytes); n > 0 {
		t.Events = make([]impls.Event, n)
	}
	for i := range t.Events {
		r.event(&t.Events[i])
	}
	t.Last = int32(r.int("last operation", -1, math.MaxInt32))
	t.Death = r.text("death")
	if err := r.end(); err != nil {
		return nil, err
	}
	return t, nil
}

func (r *reader) event(ev *impls.Event) {
	ev.Op = int32(r.int("number of an operation", 0, math.MaxInt32))
	ev.Code = impls.Code(r.u8("operation", byte(impls.LastCode)))
	ev.Outcome = impls.Outcome(r.u8("outcome", byte(impls.LastOutcome)))
	ev.Ctx = r.u8("context", math.MaxUint8)
	ev.CPU = r.u8("CPU", math.MaxUint8)
	flags := r.u8("flags", 15)
	ev.Irq, ev.Legit, ev.Ctor = flags&1 != 0, flags&2 != 0, flags&4 != 0
	ev.Cache = int32(r.int("cache", -1, math.MaxInt32))
	ev.Slot = int32(r.int("slot", int64(impls.NilSlot), math.MaxInt32))
	ev.Bad = r.int("wrong byte", -1, math.MaxInt64)
	ev.Part = uint16(r.uint("part of a bulk operation", bulkMax))
	ev.Fresh = impls.Pattern(r.uint("pattern", math.MaxUint32))
	ev.Want = impls.Pattern(r.uint("pattern expected", math.MaxUint32))
	for _, v := range [...]*uint64{&ev.Align, &ev.Addr, &ev.Old, &ev.Size, &ev.Usable, &ev.Seq,
		&ev.Began, &ev.Mask} {
		*v = r.uint("number of an event", math.MaxUint64)
	}
	ev.Region = r.region()
	at := r.pos
	n := r.count("reports", reportBytes)
	if n > reportsMax {
		r.fail(at, "%d reports: expected at most %d", n, reportsMax)
	}
	for ; n > 0 && r.err == nil; n-- {
		ev.Reports = append(ev.Reports, r.report())
	}
	if flags&8 != 0 {
		at = r.pos
		ev.Broke, ev.Evidence = fault.Title(r.text("title")), r.text("evidence")
		if _, known := fault.Lookup(ev.Broke); !known && r.err == nil {
			r.fail(at, "%q: expected a title of the table", ev.Broke)
		}
	}
}

func (r *reader) region() debugcheck.Region {
	return debugcheck.Region(r.u8("region", byte(debugcheck.Regions-1)))
}

func (r *reader) report() *debugcheck.Report {
	p := &debugcheck.Report{}
	p.Rules = debugcheck.Rules(r.u8("rules of a report", byte(debugcheck.Guard)))
	p.Kind = debugcheck.Kind(r.u8("kind of a report", byte(debugcheck.Fatal)))
	p.Region = r.region()
	p.Got, p.Want = r.u8("byte found", math.MaxUint8), r.u8("byte expected", math.MaxUint8)
	for _, v := range [...]*uint64{&p.Object, &p.Slab, &p.From, &p.To} {
		*v = r.uint("address of a report", math.MaxUint64)
	}
	for _, s := range [...]*string{&p.Cache, &p.Title, &p.Detail} {
		*s = r.text("text of a report")
	}
	for n := r.uint("repairs", fixesMax); n > 0 && r.err == nil; n-- {
		p.Fixes = append(p.Fixes, r.text("repair"))
	}
	return p
}
