package input

import (
	"bytes"
	"fmt"

	"allocfuzz/corpus/prog"
)

// Encode returns the bytes that mean p, with its first schedule block: Decode(data, Everything)
// gives p back up to what Canonical leaves out. A program that does not fit into bytes is an
// error that says what does not: a trace is far too long, for one. Such programs are replayed
// from their text.
func Encode(p *prog.Program) ([]byte, error) { return EncodeBlock(p, 0) }

// EncodeBlock is Encode with the schedule block of the given number, from 0; there is none behind
// the last.
func EncodeBlock(p *prog.Program, block int) ([]byte, error) {
	e := &encoder{p: p, block: block, slots: map[string]int{}, caches: map[string]int{},
		irqs: map[prog.Ctx]int{}, at: map[*prog.Line]int{}}
	err := e.fits()
	if err == nil {
		err = e.encode()
	}
	if err == nil {
		err = e.verify()
	}
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", nameOf(p), err)
	}
	return e.out, nil
}

func nameOf(p *prog.Program) string {
	if p.File == "" {
		return "program"
	}
	return p.File
}

// encoder writes one program.
type encoder struct {
	p      *prog.Program
	block  int
	out    []byte
	slots  map[string]int // numbers of slots, by first occurrence
	caches map[string]int
	irqs   map[prog.Ctx]int   // numbers of handlers
	known  uint64             // slots bound by a line above
	live   uint64             // and not given back since
	made   uint64             // caches that exist
	at     map[*prog.Line]int // place of a line among those with points
	spots  int
	ends   []int // where in out the records of each such line end
}

// fits demands what needs no encoding to know.
func (e *encoder) fits() error {
	p := e.p
	lines, runs := weigh(p.Lines)
	m := &p.Machine
	switch {
	case lines > LinesMax:
		return fmt.Errorf("%d lines do not fit into bytes, expected at most %d: replay its text",
			lines, LinesMax)
	case runs > BudgetDefault:
		return fmt.Errorf("%d operations a run do not fit into bytes, expected at most %d",
			runs, BudgetDefault)
	case m.CPUs > cpusMax:
		return fmt.Errorf("%d cpus do not fit into bytes, expected at most %d", m.CPUs, cpusMax)
	case m.Pages > valueMax || m.Pages*m.PageSize > arenaMax:
		return fmt.Errorf("an arena of %d pages of %d bytes does not fit into bytes, "+
			"expected at most %d pages and %d bytes", m.Pages, m.PageSize, valueMax, arenaMax)
	case debugMask(m.Debug) < 0:
		return fmt.Errorf("the debug options %q do not fit into bytes, expected letters of %s "+
			"in this order, for all caches", m.Debug, debugLetters)
	case len(p.Tasks) > tasksMax:
		return fmt.Errorf("%d tasks do not fit into bytes, expected at most %d",
			len(p.Tasks), tasksMax)
	case len(p.Caches) > declaredMax:
		return fmt.Errorf("%d declared caches do not fit into bytes, expected at most %d",
			len(p.Caches), declaredMax)
	}
	if err := prog.Validate(p); err != nil {
		return err
	}
	return nil
}

// weigh returns the number of lines of all levels, and of operations of a run.
func weigh(lines []prog.Line) (count, runs int) {
	for i := range lines {
		l := &lines[i]
		count++
		if l.Verb != prog.Repeat {
			runs++
			continue
		}
		n, in := weigh(l.Body)
		count += n
		runs += in * l.Count
	}
	return count, runs
}

func (e *encoder) encode() error {
	if err := e.head(); err != nil {
		return err
	}
	for i := range e.p.Caches {
		e.caches[e.p.Caches[i].Name] = i
		e.made |= 1 << i
	}
	if err := e.lines(e.p.Lines); err != nil {
		return err
	}
	return e.schedule()
}

// verify decodes what was written and compares.
func (e *encoder) verify() error {
	want := *e.p
	want.Scheds = nil
	if e.block < len(e.p.Scheds) {
		want.Scheds = e.p.Scheds[e.block : e.block+1]
	}
	a := prog.Format(Canonical(&want))
	b := prog.Format(Canonical(Decode(e.out, Everything)))
	if bytes.Equal(a, b) {
		return nil
	}
	la, lb := bytes.Split(a, []byte("\n")), bytes.Split(b, []byte("\n"))
	i := 0
	for i < min(len(la), len(lb))-1 && bytes.Equal(la[i], lb[i]) {
		i++
	}
	return fmt.Errorf("the line %q does not fit into bytes: it comes back as %q", la[i], lb[i])
}

// record appends one record.
func (e *encoder) record(r record) { e.out = append(e.out, r[:]...) }

// value appends a value record for what was written last.
func (e *encoder) value(field byte, v uint64) error {
	if v>>48 != 0 {
		return fmt.Errorf("the number %d does not fit into bytes, expected 48 bits", v)
	}
	r := record{tagValue, field}
	for i := 2; i < RecordSize; i++ {
		r[i] = byte(v)
		v >>= 8
	}
	e.record(r)
	return nil
}

// extra is a value that the record itself could not hold.
type extra struct {
	field byte
	v     uint64
}

func (e *encoder) values(list []extra) error {
	for _, x := range list {
		if err := e.value(x.field, x.v); err != nil {
			return err
		}
	}
	return nil
}

// head writes machine, tasks and caches, and values for what the tables do not have.
func (e *encoder) head() error {
	m := e.p.Machine
	var h [HeadSize]byte
	plain := m // what the bytes of the head alone mean
	h[headCPUs] = byte(max(0, place(cpusTable, m.CPUs)))
	h[headWord] = byte(max(0, place(wordTable, m.Word)))
	h[headPreempt] = byte(max(0, place(preemptTable, int(m.Preempt))))
	if m.TSO {
		h[headKind] = kindTSO
	}
	if m.Merge {
		h[headKind] |= kindMerge
	}
	var more []extra
	if i := place(pageSizeTable, m.PageSize); m.PageSize == defaultPage(m.Word) {
		h[headPageSize] = 0
	} else if i >= 0 {
		h[headPageSize] = byte(i)
	} else {
		plain.PageSize = defaultPage(m.Word)
		more = append(more, extra{valuePageSize, uint64(log2(m.PageSize))})
	}
	if i := place(pagesTable, m.Pages); i >= 0 {
		h[headPages] = byte(i)
	} else {
		more = append(more, extra{valuePages, uint64(m.Pages)})
	}
	more = append(more, e.seq(&h, &m)...)
	if mode, k, ok := baseCode(&m); ok && plain == m && len(more) == 0 {
		h[headBase], h[headBasePages] = mode, k
	} else {
		more = append(more, extra{valueBaseLow, m.Base & (1<<32 - 1)},
			extra{valueBaseHigh, m.Base >> 32})
	}
	more = append(more, bootCode(&h, &m)...)
	h[headTasks] = byte(max(0, place(tasksTable, len(e.p.Tasks))))
	for i := range e.p.Tasks {
		h[headTaskCPU+i] = byte(e.p.Tasks[i].CPU)
	}
	h[headCaches] = byte(place(declaredTable, len(e.p.Caches)))
	for i := range e.p.Caches {
		at := headCache + cacheBytes*i
		more = append(more, cacheHead(h[at:at+cacheBytes], &e.p.Caches[i].Spec, byte(i+1)<<4)...)
	}
	e.out = append(e.out, h[:]...)
	return e.values(more)
}

// bootCode writes the debug options and the rules into bits that others leave.
func bootCode(h *[HeadSize]byte, m *prog.Machine) []extra {
	var more []extra
	mask := debugMask(m.Debug)
	debug, more := coded(more, debugTable, mask, extra{valueDebug, uint64(mask)})
	h[headBasePages] |= debug << 4
	rules, more := coded(more, rulesTable, int(m.Rules), extra{valueRules, uint64(m.Rules)})
	h[headPreempt] |= rules << 2
	return more
}

func defaultPage(word int) int { return prog.Machine{Word: word}.Resolve().PageSize }

func log2(n int) int {
	k := 0
	for n>>k > 1 {
		k++
	}
	return k
}

// seq writes width and first value of the sequence counters.
func (e *encoder) seq(h *[HeadSize]byte, m *prog.Machine) []extra {
	var more []extra
	switch i := place(seqBitsTable, m.SeqBits); {
	case m.SeqBits == m.Word/2:
		h[headSeqBits] = 0
	case i >= 0:
		h[headSeqBits] = byte(i)
	default:
		more = append(more, extra{valueSeqBits, uint64(m.SeqBits)})
	}
	all := uint64(1)<<m.SeqBits - 1
	switch {
	case len(more) > 0:
		more = append(more, extra{valueSeq0, m.Seq0})
	case m.Seq0 < 128:
		h[headSeq0] = byte(m.Seq0)
	case all-m.Seq0 < 128:
		h[headSeq0] = byte(255 - (all - m.Seq0))
	default:
		more = append(more, extra{valueSeq0, m.Seq0})
	}
	return more
}

// baseCode finds the place of the arena among those that the head can say.
func baseCode(m *prog.Machine) (mode, k byte, ok bool) {
	for i, how := range baseTable {
		for k := range 16 {
			try := *m
			try.Base = 0
			try = try.Resolve()
			setBase(&try, how, k)
			if try.Base == m.Base {
				return byte(i), byte(k), true
			}
		}
	}
	return 0, 0, false
}

// cacheHead writes the bytes of a declared cache and returns what they cannot say; the values are
// of the fields from base on.
func cacheHead(h []byte, s *prog.CacheSpec, base byte) []extra {
	var more []extra
	var ok bool
	if h[0], h[1], ok = objectCode(s.Size); !ok {
		more = append(more, extra{base | valueSize, uint64(s.Size)})
	}
	h[2], more = coded(more, objectsTable, s.Objects, extra{base | valueObjects, uint64(s.Objects)})
	h[3], more = coded(more, minTable, s.MinPartial, given(base|valueMin, s.MinPartial))
	h[4], more = coded(more, keptTable, s.CPUPartial, given(base|valueKept, s.CPUPartial))
	h[5], more = placingCode(more, s, base)
	mask := flagsOf(s.Flags...)
	h[6], more = coded(more, flagsTable, mask, extra{base | valueFlags, uint64(mask)})
	var limit, batch byte
	limit, more = coded(more, limitTable, s.Limit, given(base|valueLimit, s.Limit))
	batch, more = coded(more, batchTable, s.Batch, given(base|valueBatch, s.Batch))
	h[7] = limit | batch<<3
	return more
}

// coded returns the byte of a value; one that the table does not have goes to more as x.
func coded(more []extra, table []int, v int, x extra) (byte, []extra) {
	if i := place(table, v); i >= 0 {
		return byte(i), more
	}
	return 0, append(more, x)
}

// given is the value of a field for which 0 is "not given".
func given(field byte, v int) extra {
	if v == prog.NotGiven {
		return extra{field, 0}
	}
	return extra{field, uint64(v) + 1}
}

// placingCode is the inverse of placing.
func placingCode(more []extra, s *prog.CacheSpec, base byte) (byte, []extra) {
	order, more := coded(more, orderTable, s.Order, given(base|valueOrder, s.Order))
	align, more := coded(more, alignTable, s.Align,
		extra{base | valueAlign, uint64(log2(s.Align)) + 1})
	b := order | align<<2
	if s.Ctor {
		b |= 7 << 5
	}
	return b, more
}
