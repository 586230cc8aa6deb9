// Package input makes programs out of bytes and out of generators, and bytes out of programs.
//
// An input is a head of 48 bytes (machine, tasks, caches, edits) and records of 8 bytes, each of
// which says by its first byte what it is:
//
//	0x00–0xbf  an operation: context, verb, result, operand, two numbers, flags, failure
//	0xc0–0xf3  a departure: lines back, kind and delivery, field, attempt, iteration, action
//	0xf4–0xff  a value too large for the record in front of it: field, 48 bits
//
// Since a departure stands behind its line and counts lines back, whole records can be inserted
// and taken out without moving what the others mean. Slots are spelled by number, so an operation
// put in between does not rename the others either. Every byte string is a program that
// prog.Validate accepts: a value outside its range is taken modulo, an operand that is not there
// is replaced by one that is, and an operation without any becomes an allocation. Zero is the
// simplest choice everywhere, short input is a simple program, and where the bytes end the
// default schedule goes on.
//
// The last 8 bytes of the head are up to four edits of two bytes each: a number that is not 0
// stands for one structured change of the records behind the head, such as a record copied or a
// departure put in, made before they are read. An engine that knows only bytes thus makes changes
// of whole operations by changing one of these bytes.
package input

import (
	"math/bits"
	"math/rand/v2"

	"allocfuzz/corpus/prog"
)

// DecodeOptions says which programs bytes may mean. The zero value is the default.
type DecodeOptions struct {
	// Misuse lets the misuse verbs through; without it they are allocations and frees.
	Misuse bool
	// Debug lets the flags of caches through, and the machine's debug options and rules. The
	// flag rcu, which is none of debugging, always comes.
	Debug bool
	// StoreBuffers lets tso=on through.
	StoreBuffers bool
	// Sequential leaves one context, cpu0 of a machine of one CPU, and no schedule.
	Sequential bool
	// SMP makes machines small and busy: two or three CPUs, at least one task that may be
	// moved, few pages, caches of two or three objects a slab that keep little, and mutations
	// that are departures more often than not. A schedule has departuresSMP at most.
	SMP bool
	// Budget bounds the operations of one run, each round of a repeat counted; 0: BudgetDefault.
	Budget int
	// Lines bounds the lines of a program; 0: LinesMax, which is also the most.
	Lines int
}

// Everything is the options under which bytes mean all that they can: those that Encode has in
// mind.
var Everything = DecodeOptions{Misuse: true, Debug: true, StoreBuffers: true}

// Limits of what bytes can say.
const (
	HeadSize      = 48      // bytes in front of the records
	RecordSize    = 8       // bytes of a record
	BudgetDefault = 2048    // operations of one run
	LinesMax      = 256     // lines of a program, and departures of its schedule
	SlotsMax      = 64      // names of slots
	CachesMax     = 16      // names of caches
	arenaMax      = 4 << 20 // bytes of a machine's arena
	cpusMax       = 4
	tasksMax      = 4
	declaredMax   = 3 // caches that exist from the start
	valueMax      = 4096
	departuresSMP = 8 // anchors of a schedule with SMP
)

// The classes of records by their first byte.
const (
	tagDeparture = 0xc0
	tagMore      = 0xec // a departure that adds its action to the one before
	tagValue     = 0xf4
)

// record is one record of an input.
type record [RecordSize]byte

// item says what a record read last, for a value that belongs to it.
type item uint8

const (
	itemHead item = iota
	itemOp
	itemDeparture
	itemNone
)

// Decode returns the program that data means under opt. It never fails; the program is the
// caller's. For many inputs use a Decoder.
func Decode(data []byte, opt DecodeOptions) *prog.Program {
	return new(Decoder).Decode(data, opt)
}

// Decoder turns inputs into programs and keeps its buffers between them. The zero value is ready.
type Decoder struct {
	opt     DecodeOptions
	p       prog.Program
	budget  int
	linesAt int // lines made, of all levels
	most    int // lines allowed

	levels  [prog.MaxNest + 1]level
	depth   int
	round   int32  // number of the outermost repeat begun last
	targets []spot // lines with points, in order
	deps    []raw  // departures, in order
	anchors int    // of them, without those that add an action
	runs    uint32 // contexts with a line, by number
	last    item   // what the record read last was
	line    *prog.Line
	name    int // slot bound by line, -1 for none
	kind    int // what that slot holds
	slots   slots
	caches  caches
	spec    [declaredMax]prog.Cache
	tasks   [tasksMax]prog.Task
	sched   [1]prog.Sched
	leaves  []prog.Departure
	strs    pool[string]
	nums    pool[uint64]
	kvs     pool[prog.KV]
	ints    pool[int]
	specs   pool[prog.CacheSpec]
	actions []prog.Action
	edits   []byte // the input after the edits of its head
	pcg     rand.PCG
	gen     *generator
}

// level is the body of one repeat being filled; level 0 is the program itself.
type level struct {
	lines []prog.Line
	of    *prog.Line // the repeat
	start int        // where its body starts in lines
	left  int        // lines still to come
	mult  int        // how often a line here runs
}

// spot is a line with points, and the repeats around it.
type spot struct {
	line   *prog.Line
	counts [prog.MaxNest]*prog.Line
	depth  int
}

// Decode returns the program that data means under opt. It is the Decoder's: it is good until the
// next Decode.
func (d *Decoder) Decode(data []byte, opt DecodeOptions) *prog.Program {
	d.reset(data, opt)
	d.head(data)
	data = d.edit(data)
	for rest := tail(data); len(rest) > 0 && d.linesAt < d.most; {
		var r record
		n := copy(r[:], rest)
		rest = rest[n:]
		switch {
		case r[0] < tagDeparture:
			d.operation(&r)
		case r[0] < tagValue:
			d.departure(&r)
		default:
			d.value(&r)
		}
	}
	for d.depth > 0 {
		d.closeRepeat()
	}
	d.p.Lines = d.levels[0].lines
	d.settleWaits()
	d.schedule()
	return &d.p
}

// edit makes the edits that the head asks for, in a buffer of the decoder.
func (d *Decoder) edit(data []byte) []byte {
	if len(data) < HeadSize {
		return data
	}
	edited := false
	for i := headEdits; i+1 < HeadSize; i += 2 {
		n := uint64(data[i]) | uint64(data[i+1])<<8
		if n == 0 {
			continue
		}
		if !edited {
			edited = true
			d.edits = append(d.edits[:0], data...)
			for (len(d.edits)-HeadSize)%RecordSize != 0 {
				d.edits = append(d.edits, 0)
			}
		}
		d.pcg.Seed(n, uint64(i))
		if d.gen == nil {
			d.gen = newMutator(rand.New(&d.pcg))
		}
		d.gen.smp = d.opt.SMP
		d.edits = d.gen.mutate(d.edits)
	}
	if edited {
		return d.edits
	}
	return data
}

// tail returns the records of an input.
func tail(data []byte) []byte {
	if len(data) <= HeadSize {
		return nil
	}
	return data[HeadSize:]
}

func (d *Decoder) reset(data []byte, opt DecodeOptions) {
	d.opt = opt
	d.p = prog.Program{}
	d.budget, d.most = opt.Budget, opt.Lines
	if d.budget <= 0 {
		d.budget = BudgetDefault
	}
	if d.most <= 0 || d.most > LinesMax {
		d.most = LinesMax
	}
	n := min((len(data)+RecordSize-1)/RecordSize, d.most) + 1
	for i := range d.levels {
		d.levels[i] = level{lines: d.levels[i].lines[:0], mult: 1}
	}
	if top := &d.levels[0]; cap(top.lines) < n {
		top.lines = make([]prog.Line, 0, n)
	}
	d.linesAt, d.depth, d.round = 0, 0, 0
	d.targets, d.deps, d.anchors = d.targets[:0], d.deps[:0], 0
	d.runs, d.last, d.line, d.name = 0, itemHead, nil, -1
	d.slots.reset()
	d.caches = caches{}
	d.strs.reset()
	d.nums.reset()
	d.kvs.reset()
	d.ints.reset()
	d.specs.reset()
}

// emit adds a line to the body being filled; it stays where it is, since there is always room.
func (d *Decoder) emit(ctx prog.Ctx) *prog.Line {
	in := &d.levels[d.depth]
	n := len(in.lines)
	in.lines = in.lines[:n+1]
	d.linesAt++
	l := &in.lines[n]
	*l = prog.Line{}
	l.Ctx = ctx
	return l
}

// counted notes that the body being filled has one line more, and closes what is full.
func (d *Decoder) counted() {
	for d.depth > 0 {
		l := &d.levels[d.depth]
		l.left--
		if l.left > 0 {
			return
		}
		d.closeRepeat()
	}
}

// closeRepeat ends the innermost repeat; one without a body goes away.
func (d *Decoder) closeRepeat() {
	l := &d.levels[d.depth]
	d.depth--
	d.slots.repeats = d.depth > 0
	if body := l.lines[l.start:]; len(body) > 0 {
		l.of.Body = body[:len(body):len(body)]
		return
	}
	up := &d.levels[d.depth]
	up.lines = up.lines[:len(up.lines)-1]
	d.linesAt--
	if d.line == l.of {
		d.line, d.last = nil, itemNone
	}
}

// repeat opens a repeat of the next lines of its context.
func (d *Decoder) repeat(r *record, ctx prog.Ctx) {
	length, count := bodyLength(r[2]), repeatCount(r[3], r[4])
	l := d.emit(ctx)
	l.Verb = prog.Repeat
	if d.depth == 0 {
		d.round++
		d.slots.inner, d.slots.repeats = 0, true
	}
	d.depth++
	in := &d.levels[d.depth]
	if cap(in.lines)-len(in.lines) < length {
		in.lines = make([]prog.Line, 0, 2*cap(in.lines)+length)
	}
	in.of, in.start, in.left = l, len(in.lines), length
	d.setCount(count)
	d.last, d.line, d.name = itemOp, l, -1
}

// setCount sets how often the innermost repeat runs, as far as the budget lasts.
func (d *Decoder) setCount(count int) {
	in := &d.levels[d.depth]
	outer := d.levels[d.depth-1].mult
	in.of.Count = max(1, min(count, d.budget/(outer*in.left)))
	in.mult = outer * in.of.Count
}

// pool hands out short slices from a larger one that is used again after reset.
type pool[T any] struct{ free, all []T }

func (p *pool[T]) reset() { p.free = p.all }

// take returns n values, whatever they held before.
func (p *pool[T]) take(n int) []T {
	if len(p.free) < n {
		p.all = make([]T, max(128, 2*len(p.all), n))
		p.free = p.all
	}
	s := p.free[:n:n]
	p.free = p.free[n:]
	return s
}

// nth returns the place of the n-th set bit, n taken modulo; the word must not be 0.
func nth(word uint64, n int) int {
	for n %= bits.OnesCount64(word); n > 0; n-- {
		word &= word - 1
	}
	return bits.TrailingZeros64(word)
}
