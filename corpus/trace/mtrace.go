package trace

import "bytes"

// mtraceDecoder reads the lines of glibc's mtrace. A line is read from its right end, because the
// caller in front is a file name, which may hold anything.
type mtraceDecoder struct {
	lines *lineReader
}

func mtraceOpen(r *lineReader) decoder {
	return &mtraceDecoder{lines: r}
}

// mtraceDetect accepts a prefix that has an mtrace line, whole, among its first lines.
func mtraceDetect(prefix []byte) bool {
	for range 64 {
		line, rest, whole := bytes.Cut(prefix, []byte{'\n'})
		if !whole {
			return false
		}
		line = trimEnd(line)
		if string(line) == "= Start" {
			return true
		}
		if _, ok := mtraceSplit(line); ok {
			return true
		}
		prefix = rest
	}
	return false
}

// An mtraceLine is a line taken apart.
type mtraceLine struct {
	caller []byte
	op     byte // one of + - < > !
	ptr    uint64
	size   uint64
}

// mtraceSplit takes an operation's line apart; ok is false when it is none.
func mtraceSplit(line []byte) (m mtraceLine, ok bool) {
	rest, last := cutLast(line)
	rest, second := cutLast(rest)
	switch string(second) {
	case "-", "<":
		m.op = second[0]
		m.ptr, ok = mtraceNumber(last)
	default:
		var first []byte
		rest, first = cutLast(rest)
		switch string(first) {
		case "+", ">", "!":
			m.op = first[0]
		default:
			return m, false
		}
		m.ptr, ok = mtraceNumber(second)
		if ok {
			m.size, ok = mtraceNumber(last)
		}
	}
	m.caller = rest
	if len(rest) > 0 && !bytes.HasPrefix(rest, []byte("@ ")) {
		ok = false
	}
	return m, ok
}

// cutLast splits the last word off a line, and the single blank before it.
func cutLast(line []byte) (rest, word []byte) {
	i := bytes.LastIndexByte(line, ' ')
	if i < 0 {
		return nil, line
	}
	return line[:i], line[i+1:]
}

// mtraceNumber reads what printf makes of %p and %#lx: 0x…, 0, (nil).
func mtraceNumber(word []byte) (n uint64, ok bool) {
	if s := string(word); s == "(nil)" || s == "0" {
		return 0, true
	}
	if len(word) < 3 || len(word) > 18 || word[0] != '0' || word[1] != 'x' {
		return 0, false
	}
	for _, c := range word[2:] {
		switch {
		case '0' <= c && c <= '9':
			n = n<<4 | uint64(c-'0')
		case 'a' <= c && c <= 'f':
			n = n<<4 | uint64(c-'a'+10)
		default:
			return 0, false
		}
	}
	return n, true
}

// next decodes one line.
func (d *mtraceDecoder) next(ev *Event) error {
	raw, err := d.lines.next()
	if err != nil {
		return err
	}
	ev.Line = d.lines.count
	switch {
	case raw.long:
		ev.skip(UnknownLine, "line longer than 65536 bytes")
		return nil
	case raw.partial:
		ev.skip(Truncated, "the last line "+quote(raw.text)+" has no end; it may be cut")
		return nil
	case len(raw.text) == 0 || raw.text[0] == '=':
		ev.skip(Mark, "")
		return nil
	}
	m, ok := mtraceSplit(raw.text)
	if !ok {
		ev.skip(UnknownLine, "unknown line "+quote(raw.text)+
			"; expected an mtrace line such as \"@ prog:[0x1] + 0x5560 0x20\"")
		return nil
	}
	m.fill(ev)
	return nil
}

// fill turns a line taken apart into an event.
func (m *mtraceLine) fill(ev *Event) {
	ev.ID, ev.Size = m.ptr, m.size
	switch m.op {
	case '+':
		ev.Kind = Malloc
	case '-':
		ev.Kind = Free
	case '<':
		ev.Kind, ev.Mate = MoveFrom, callerHash(m.caller)
	case '>':
		ev.Kind, ev.Mate = MoveTo, callerHash(m.caller)
	case '!':
		ev.skip(Failed, "")
	}
}

// callerHash tells callers apart (FNV-1a, 64 bits). Two that collide could at worst swap the
// results of two reallocs that happen at once.
func callerHash(caller []byte) uint64 {
	h := uint64(0xcbf29ce484222325)
	for _, c := range caller {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h
}

// skip makes *ev an event that is left out.
func (ev *Event) skip(why Skip, note string) {
	ev.Kind, ev.Skip, ev.Note = Skipped, why, note
}
