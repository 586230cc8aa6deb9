package prog

import (
	"io"
	"strconv"
	"strings"
)

// Format prints a program in its one canonical spelling. A program that Parse returned is read
// back equal, positions aside. Lines that an anchor names by pointer are given a label in the
// text where they need one; the program is not changed.
func Format(p *Program) []byte {
	w := printer{b: make([]byte, 0, 256+48*len(p.Lines))}
	w.prologue(p)
	w.index(p)
	for i := range p.Lines {
		w.line(&p.Lines[i])
	}
	w.scheds(p.Scheds)
	w.doc(false, p.Tail)
	return w.b
}

// String returns the canonical text.
func (p *Program) String() string { return string(Format(p)) }

// Writer prints a program as a stream, for traces too long to hold.
type Writer struct {
	out io.Writer
	w   printer
	err error
}

// NewWriter prints head and declarations of p to out and returns a Writer for the lines. Its
// Lines, Scheds and Tail are not looked at.
func NewWriter(out io.Writer, p *Program) *Writer {
	w := &Writer{out: out}
	w.w.prologue(p)
	return w
}

// WriteLine prints one line, a repeat with its body. The text reaches the output in large pieces.
func (w *Writer) WriteLine(l *Line) error {
	w.w.line(l)
	if len(w.w.b) >= 64<<10 {
		return w.flush()
	}
	return w.err
}

// Close prints the schedules, which must name their lines by Ref, and whatever is still held. It
// does not close the output. The first error of any call comes back.
func (w *Writer) Close(scheds []Sched) error {
	w.w.scheds(scheds)
	return w.flush()
}

func (w *Writer) flush() error {
	if w.err == nil {
		_, w.err = w.out.Write(w.w.b)
	}
	w.w.b = w.w.b[:0]
	return w.err
}

// printer appends the parts of a program.
type printer struct {
	b      []byte
	blank  bool // the last line printed is blank
	nest   int
	refs   *Index
	labels map[*Line]string // labels made for this text
}

// index prepares anchors that name their lines by pointer.
func (w *printer) index(p *Program) {
	for i := range p.Scheds {
		for j := range p.Scheds[i].Departures {
			if w.refs == nil {
				w.refs = NewIndex(p)
				w.labels = map[*Line]string{}
			}
			l, e := w.refs.target(&p.Scheds[i].Departures[j].Where)
			if e != nil || w.labels[l] != "" {
				continue
			}
			if _, ok := w.refs.Ref(l); !ok {
				w.labels[l] = w.refs.label(l)
			}
		}
	}
}

func (w *printer) nl() {
	w.b = append(w.b, '\n')
	w.blank = false
}

// doc prints an optional blank line and comment lines, never two blank lines in a row.
func (w *printer) doc(blank bool, doc []string) {
	if blank {
		w.empty()
	}
	for _, d := range doc {
		if d == "" {
			w.empty()
			continue
		}
		w.indent()
		w.b = append(w.b, trimRight(d)...)
		w.nl()
	}
}

func (w *printer) empty() {
	if !w.blank {
		w.b = append(w.b, '\n')
		w.blank = true
	}
}

func (w *printer) indent() {
	for i := 0; i < w.nest; i++ {
		w.b = append(w.b, '\t')
	}
}

func (w *printer) prologue(p *Program) {
	w.b = append(w.b, "allocfuzz 1\n"...)
	w.head("title: ", p.Head.Title)
	w.head("also: ", p.Head.Also)
	w.head("class: ", p.Head.Class)
	w.head("found: ", p.Head.Found)
	w.head("date: ", p.Head.Date)
	w.doc(false, p.Doc)
	if m := p.Machine.Resolve(); m.printed() {
		w.b = append(w.b, "machine"...)
		w.b = m.append(w.b)
		w.nl()
	}
	for i := range p.Caches {
		c := &p.Caches[i]
		w.doc(c.Blank, c.Doc)
		w.b = append(w.b, "cache "...)
		w.b = append(w.b, c.Name...)
		w.b = appendKVs(w.b, c.Spec.kvs(nil))
		w.nl()
	}
	for i := range p.Tasks {
		t := &p.Tasks[i]
		w.doc(t.Blank, t.Doc)
		w.b = append(w.b, "task "...)
		w.b = append(w.b, t.Name...)
		w.b = append(w.b, " cpu="...)
		w.b = strconv.AppendInt(w.b, int64(t.CPU), 10)
		w.nl()
	}
}

func (w *printer) head(key, text string) {
	if text != "" {
		w.b = append(w.b, key...)
		w.b = append(w.b, strings.Trim(text, " \t\r")...)
		w.nl()
	}
}

// printed reports whether the machine needs a line of its own.
func (m Machine) printed() bool { return m.Resolve() != DefaultMachine() }

// append prints what differs from the defaults, sorted by key.
func (m Machine) append(b []byte) []byte {
	d := Machine{Word: m.Word, PageSize: m.PageSize}.Resolve()
	if m.Base != d.Base {
		b = append(b, " base=0x"...)
		b = strconv.AppendUint(b, m.Base, 16)
	}
	b = appendInt(b, " cpus=", m.CPUs, d.CPUs)
	if m.Debug != "" {
		b = append(b, " debug=\""...)
		b = append(b, m.Debug...)
		b = append(b, '"')
	}
	if m.Merge {
		b = append(b, " merge=on"...)
	}
	b = appendInt(b, " pages=", m.Pages, d.Pages)
	b = appendInt(b, " pagesize=", m.PageSize, Machine{Word: m.Word}.Resolve().PageSize)
	if m.Preempt != PreemptNone {
		b = append(b, " preempt="...)
		b = append(b, m.Preempt.String()...)
	}
	if m.Rules != RulesOwn {
		b = append(b, " rules="...)
		b = append(b, m.Rules.String()...)
	}
	if m.Seq0 != 0 {
		b = append(b, " seq0="...)
		b = strconv.AppendUint(b, m.Seq0, 10)
	}
	b = appendInt(b, " seqbits=", m.SeqBits, d.SeqBits)
	if m.TSO {
		b = append(b, " tso=on"...)
	}
	return appendInt(b, " word=", m.Word, 64)
}

// appendInt prints a number unless it is the default.
func appendInt(b []byte, key string, n, def int) []byte {
	if n == def {
		return b
	}
	b = append(b, key...)
	return strconv.AppendInt(b, int64(n), 10)
}

// AppendLine appends the canonical text of one line, without comments and without its end of
// line, and returns the extended slice. Of a repeat it is the head only.
func AppendLine(b []byte, l *Line) []byte { return appendLine(b, l, l.Label) }

func appendLine(b []byte, l *Line, label string) []byte {
	if label != "" {
		b = append(b, '@')
		b = append(b, label...)
		b = append(b, ' ')
	}
	if l.Ctx.Kind != NoCtx {
		b = l.Ctx.append(b)
		b = append(b, ' ')
	}
	for i, n := range l.Results {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, n...)
	}
	if len(l.Results) > 0 {
		b = append(b, " = "...)
	}
	b = append(b, l.Verb.String()...)
	if l.Verb == Repeat {
		b = append(b, ' ')
		b = strconv.AppendInt(b, int64(l.Count), 10)
		return append(b, " {"...)
	}
	b = appendOperands(b, l)
	b = appendExpects(b, l.Expect)
	if note := strings.Trim(l.Note, " \t\r"); note != "" {
		b = append(b, " ; "...)
		b = append(b, note...)
	}
	return b
}

func appendOperands(b []byte, l *Line) []byte {
	if l.Region != "" {
		b = appendWord(b, l.Region)
		if l.Cache == "" {
			b = append(b, " of"...)
		}
	}
	if l.Cache != "" {
		b = appendWord(b, l.Cache)
	}
	for _, s := range l.Slots {
		b = appendWord(b, s)
	}
	for _, n := range l.Nums {
		b = append(b, ' ')
		b = strconv.AppendUint(b, n, 10)
	}
	if l.Spec == nil {
		return appendKVs(b, l.KV)
	}
	kvs := l.Spec.kvs(nil)
	for _, kv := range l.KV {
		i := len(kvs)
		for i > 0 && kvs[i-1].Key > kv.Key {
			i--
		}
		kvs = insert(kvs, i, kv)
	}
	return appendKVs(b, kvs)
}

func appendWord(b []byte, s string) []byte {
	b = append(b, ' ')
	return append(b, s...)
}

func appendKVs(b []byte, kvs []KV) []byte {
	for i := range kvs {
		b = appendWord(b, kvs[i].Key)
		b = append(b, '=')
		if kvs[i].IsNum {
			b = strconv.AppendUint(b, kvs[i].Num, 10)
		} else {
			b = append(b, kvs[i].Word...)
		}
	}
	return b
}

func appendExpects(b []byte, list []Expect) []byte {
	for i := range list {
		e := &list[i]
		b = append(b, " => "...)
		b = append(b, e.Outcome.String()...)
		if e.Outcome == Report {
			b = append(b, ' ')
			b = strconv.AppendQuote(b, e.Report)
		}
		if e.Subject != "" {
			b = append(b, " @"...)
			b = append(b, e.Subject...)
		}
	}
	return b
}

func (w *printer) line(l *Line) {
	w.doc(l.Blank, l.Doc)
	w.indent()
	label := l.Label
	if label == "" && w.labels != nil {
		label = w.labels[l]
	}
	w.b = appendLine(w.b, l, label)
	w.nl()
	if l.Verb != Repeat {
		return
	}
	w.nest++
	for i := range l.Body {
		w.line(&l.Body[i])
	}
	w.doc(false, l.Tail)
	w.nest--
	w.indent()
	w.b = append(w.b, '}')
	w.nl()
}

func (w *printer) scheds(list []Sched) {
	for i := range list {
		s := &list[i]
		w.doc(s.Blank, s.Doc)
		w.b = appendSched(w.b, s)
		w.nl()
		for j := range s.Departures {
			w.departure(&s.Departures[j])
		}
	}
}

// appendSched appends the first line of a block.
func appendSched(b []byte, s *Sched) []byte {
	b = append(b, "sched"...)
	if s.Subject != "" {
		b = append(b, " subject="...)
		b = append(b, s.Subject...)
	}
	if s.Bug != "" {
		b = append(b, " => bug "...)
		b = strconv.AppendQuote(b, s.Bug)
	}
	return b
}

func (w *printer) departure(d *Departure) {
	w.doc(d.Blank, d.Doc)
	if w.refs == nil {
		w.b = AppendDeparture(w.b, d)
		w.nl()
		return
	}
	out := *d
	if l, e := w.refs.target(&d.Where); e == nil {
		if label := w.labels[l]; label != "" {
			out.Where.Ref = LineRef{Label: label}
		} else {
			out.Where.Ref, _ = w.refs.Ref(l)
		}
	}
	w.b = AppendDeparture(w.b, &out)
	w.nl()
}

// AppendDeparture appends the canonical text of one departure whose line is named by Ref, without
// comments and without its end of line, and returns the extended slice.
func AppendDeparture(b []byte, d *Departure) []byte {
	b = append(b, "at "...)
	b = d.Where.append(b)
	b = appendWord(b, d.Kind.String())
	b = appendWord(b, d.Field)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(d.N), 10)
	b = append(b, ':')
	for i, a := range d.Actions {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, ' ')
		b = a.append(b)
	}
	return b
}

func (w *Where) append(b []byte) []byte {
	if w.IRQ != "" {
		b = append(b, w.IRQ...)
		b = appendInt(b, "#", max(w.Delivery, 1), 1)
		b = append(b, '/')
	}
	b = append(b, w.Ref.String()...)
	plain := true
	for _, i := range w.Iter {
		plain = plain && i == 1
	}
	if plain {
		return b
	}
	for _, i := range w.Iter {
		b = append(b, '[')
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, ']')
	}
	return b
}

// String returns the spelling used in a departure.
func (a Action) String() string { return string(a.append(nil)) }

func (a Action) append(b []byte) []byte {
	if c, ok := a.Ctx(); ok {
		return c.append(b)
	}
	b = append(b, a.Kind.String()...)
	if a.Kind == Move || a.Kind == DrainStore {
		b = append(b, " cpu"...)
		b = strconv.AppendInt(b, int64(a.CPU), 10)
	}
	return b
}
