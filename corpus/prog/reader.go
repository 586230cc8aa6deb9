package prog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Reader reads a program as a stream: the head and the declarations at once, then the operations
// one by one, then the schedules. It holds one line at a time (a repeat with its whole body), so
// a trace of any length needs little memory. It checks each line by itself; what needs the whole
// program (names bound nowhere, anchors that match nothing) is left to Parse and Validate.
type Reader struct {
	p     *Program
	in    *bufio.Reader
	file  string
	line  int  // number of the line read last
	first bool // no item after the machine line was read yet
	err   error

	cur     Line // what NextLine returns a copy of
	x       lexer
	at      cols
	names   []string // scratch: name operands of a line
	arena   arena
	doc     []string // comments waiting for their item
	blank   bool     // a blank line waits in front of them
	held    string   // a line read but not used yet
	isHeld  bool
	machine bool         // a machine line was read
	known   map[Ctx]bool // declared tasks, and handlers with at least one line
	depth   int          // repeats around the line being read

	binds   *binder // follows names while reading, when set
	repair  bool
	dropped []Dropped
}

// slack is what the buffer has room for beyond a line: indentation and the end of the line.
const slack = 256

// NewReader reads the head and the declarations of a program. The file name is used in errors
// only. A fault of the text is an *Error; a fault of r comes back wrapped with name and line.
func NewReader(file string, r io.Reader) (*Reader, error) {
	return newReader(file, r, &Reader{})
}

func newReader(file string, in io.Reader, r *Reader) (*Reader, error) {
	r.in, r.file, r.first = bufio.NewReaderSize(in, MaxLine+slack), file, true
	r.p = &Program{Machine: DefaultMachine(), File: file}
	r.known = map[Ctx]bool{}
	if err := r.magic(); err != nil {
		return nil, err
	}
	if err := r.prologue(); err != nil {
		return nil, err
	}
	return r, nil
}

// Program returns what was read besides the lines: head, machine, caches and tasks from the
// start, schedules and trailing comments once NextLine has returned io.EOF. Its Lines are nil.
func (r *Reader) Program() *Program { return r.p }

// NextLine returns the next operation. After the last one it reads the schedules and returns
// io.EOF. Slices of the line are the caller's. An error ends the reading: it comes back from every
// later call.
func (r *Reader) NextLine() (Line, error) {
	err := r.nextLine(&r.cur)
	return r.cur, err
}

func (r *Reader) nextLine(l *Line) error {
	if r.err != nil {
		return r.err
	}
	for {
		text, err := r.next()
		*l = Line{}
		if err == io.EOF {
			err = r.finish()
		}
		if err != nil {
			r.err = err
			return err
		}
		if isSched(text) {
			r.hold(text)
			r.err = r.schedules()
			return r.err
		}
		bad := r.parseLine(l, text)
		if bad == nil {
			return nil
		}
		if err := r.bad(bad, text); err != nil {
			*l, r.err = Line{}, err
			return err
		}
		*l = Line{}
	}
}

// bad drops what is wrong in repair mode and returns the error otherwise. An error of the input
// itself is returned in any case.
func (r *Reader) bad(err error, text string) error {
	var e *Error
	if !errors.As(err, &e) {
		return err
	}
	if e.File == "" {
		e.File = r.file
	}
	if !r.repair {
		return e
	}
	r.dropped = append(r.dropped, Dropped{Text: trimLeft(text), Err: e})
	return nil
}

// magic demands the first line.
func (r *Reader) magic() error {
	text, err := r.raw()
	var e *Error
	switch {
	case err == io.EOF:
		e = fault("empty file").want(`"allocfuzz 1" on the first line`)
		r.line = 1
	case errors.As(err, &e):
		e = fault("%s", "not a program: "+e.Msg).at(e.Pos)
	case err != nil:
		return err
	default:
		e = magicFault(text)
	}
	if e == nil {
		return nil
	}
	if e.Pos.Line == 0 {
		e.Pos = Pos{Line: 1, Col: 1}
	}
	e.File = r.file
	return e
}

func magicFault(text string) *Error {
	x := lexer{s: text, line: 1}
	x.skip()
	if x.name() == "allocfuzz" && x.skip() != 0 {
		at := x.i
		n, e := x.number("version")
		if e != nil {
			return e.hint("begin the file with: allocfuzz 1")
		}
		if e := x.end("first line"); e != nil {
			return e
		}
		if n == 1 {
			return nil
		}
		return fault("version %d of the format", n).want("version 1").at(x.pos(at)).
			hint("use the allocfuzz that wrote it")
	}
	return fault("not a program").want(`"allocfuzz 1" on the first line`).
		hint("begin the file with: allocfuzz 1")
}

// next returns the next line that is neither blank nor a comment; those are kept for whatever
// takes them.
func (r *Reader) next() (string, error) {
	if r.isHeld {
		r.isHeld = false
		return r.held, nil
	}
	for {
		text, err := r.raw()
		if err != nil {
			if err != io.EOF && r.bad(err, "") == nil {
				continue
			}
			return "", err
		}
		i := 0
		for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
			i++
		}
		switch {
		case i == len(text):
			r.sawBlank()
		case text[i] == '#':
			r.doc = append(r.doc, text[i:])
		default:
			return text, nil
		}
	}
}

// hold gives a line back to next.
func (r *Reader) hold(text string) { r.held, r.isHeld = text, true }

func (r *Reader) sawBlank() {
	switch n := len(r.doc); {
	case n == 0:
		r.blank = true
	case r.doc[n-1] != "":
		r.doc = append(r.doc, "")
	}
}

// takeDoc hands the waiting comments to an item. Those in front of the first item of a program
// without a machine line are the program's own, so that they stay where they are.
func (r *Reader) takeDoc(doc *[]string, blank *bool) {
	if r.first {
		r.first = false
		if !r.p.Machine.printed() {
			r.toProgram()
		}
	}
	*doc, *blank = r.doc, r.blank
	r.doc, r.blank = nil, false
}

// toProgram moves the waiting comments to the end of the program's own; a blank line at their
// end waits on.
func (r *Reader) toProgram() {
	d := joinDoc(r.p.Doc, r.blank, r.doc)
	r.doc, r.blank = nil, false
	if n := len(d); n > 0 && d[n-1] == "" {
		d, r.blank = d[:n-1], true
	}
	if len(d) == 0 {
		d = nil
	}
	r.p.Doc = d
}

// joinDoc appends comments, after a blank line if there was one, never two.
func joinDoc(doc []string, blank bool, add []string) []string {
	if blank && (len(doc) == 0 || doc[len(doc)-1] != "") {
		doc = append(doc, "")
	}
	return append(doc, add...)
}

// tail returns the waiting comments as those of the end of a block.
func (r *Reader) tail() []string {
	d := r.doc
	if r.blank && len(d) > 0 {
		d = joinDoc(nil, true, d)
	}
	r.doc, r.blank = nil, false
	if n := len(d); n > 0 && d[n-1] == "" {
		d = d[:n-1]
	}
	return d
}

// finish ends the reading of a well-formed file.
func (r *Reader) finish() error {
	if r.first && !r.p.Machine.printed() {
		r.toProgram()
		r.blank = false
		return io.EOF
	}
	r.p.Tail = r.tail()
	return io.EOF
}

// raw reads one line, without its end. Over-long lines and bytes that no program holds are errors
// of type *Error; the rest of such a line is passed over.
func (r *Reader) raw() (string, error) {
	b, err := r.in.ReadSlice('\n')
	if err != nil && (err != io.EOF || len(b) == 0) {
		return "", r.rawError(err)
	}
	r.line++
	if n := len(b); b[n-1] == '\n' {
		b = b[:n-1]
	}
	text := trimRight(string(b))
	if len(text) > MaxLine && len(trimLeft(text)) > MaxLine {
		return "", r.tooLong()
	}
	if i := badByte(text); i >= 0 {
		return "", r.badByte(text, i)
	}
	return text, nil
}

func (r *Reader) rawError(err error) error {
	if err == io.EOF {
		return io.EOF
	}
	r.line++
	if err != bufio.ErrBufferFull {
		return fmt.Errorf("%s:%d: %w", r.file, r.line, err)
	}
	for err == bufio.ErrBufferFull {
		_, err = r.in.ReadSlice('\n')
	}
	if err != nil && err != io.EOF {
		return fmt.Errorf("%s:%d: %w", r.file, r.line, err)
	}
	return r.tooLong()
}

func (r *Reader) tooLong() error {
	e := fault("line too long").want("at most %d bytes", MaxLine)
	e.File, e.Pos = r.file, Pos{Line: r.line, Col: MaxLine + 1}
	return e
}

func (r *Reader) badByte(text string, i int) error {
	e := fault("byte %#02x", text[i]).want("UTF-8 text without control characters").
		hint("is this a binary file?")
	e.File, e.Pos = r.file, Pos{Line: r.line, Col: i + 1}
	return e
}

// isSched reports whether a line begins a schedule.
func isSched(text string) bool {
	i := 0
	for i < len(text) && (text[i] == ' ' || text[i] == '\t') {
		i++
	}
	return strings.HasPrefix(text[i:], "sched") && firstWord(text) == "sched"
}

// firstWord returns the run of name bytes at the first non-blank of a line.
func firstWord(text string) string {
	x := lexer{s: text}
	x.skip()
	return x.name()
}

func trimLeft(s string) string {
	for s != "" && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	return s
}

// arena hands out short slices from larger ones, so that a line costs few allocations.
type arena struct {
	strs []string
	nums []uint64
}

func (a *arena) strings(src []string) []string {
	n := len(src)
	if n == 0 {
		return nil
	}
	if len(a.strs) < n {
		a.strs = make([]string, max(256, n))
	}
	s := a.strs[:n:n]
	a.strs = a.strs[n:]
	copy(s, src)
	return s
}

func (a *arena) numbers(src []uint64) []uint64 {
	n := len(src)
	if n == 0 {
		return nil
	}
	if len(a.nums) < n {
		a.nums = make([]uint64, max(256, n))
	}
	s := a.nums[:n:n]
	a.nums = a.nums[n:]
	copy(s, src)
	return s
}
