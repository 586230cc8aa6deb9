package trace

import "bytes"

// The lines of glibc's mtrace. A line is read from its right end, because the caller in front is a
// file name, which may hold anything.
func mtraceOpen(r *lineReader) decoder {
	return &textDecoder{lines: r, parse: mtraceParse,
		want: `an mtrace line such as "@ prog:[0x1] + 0x5560 0x20"`}
}

// mtraceDetect accepts a prefix that has an mtrace line, whole, among its first lines.
func mtraceDetect(prefix []byte) bool {
	return anyLine(prefix, func(line []byte) bool {
		_, ok := mtraceSplit(line)
		return ok || string(line) == "= Start"
	})
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

// mtraceParse reads one line.
func mtraceParse(line []byte, ev *Event) bool {
	if line[0] == '=' {
		ev.skip(Mark, "")
		return true
	}
	m, ok := mtraceSplit(line)
	if ok {
		m.fill(ev)
	}
	return ok
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
