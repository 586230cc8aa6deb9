package trace

import "bytes"

// A textDecoder reads a format of lines, each an operation by itself: parse takes one apart.
type textDecoder struct {
	lines *lineReader
	// parse fills the event of a line, and says whether the format has such a line. A line that
	// is no operation by design is an event of kind Skipped and reason Mark.
	parse   func(line []byte, ev *Event) bool
	example string // of a line, for messages
}

// next decodes one line.
func (d *textDecoder) next(ev *Event) error {
	raw, err := d.lines.next()
	if err != nil {
		return err
	}
	ev.Line = d.lines.count
	switch {
	case raw.long:
		ev.skip(UnknownLine, "line longer than 65536 bytes")
	case raw.partial && !d.whole(raw.text):
		ev.skip(Truncated, "the last line "+quote(raw.text)+" has no end; it may be cut")
	case len(raw.text) == 0:
		ev.skip(Mark, "")
	case !d.parse(raw.text, ev):
		*ev = Event{Line: ev.Line}
		ev.skip(UnknownLine, "unknown line "+quote(raw.text)+"; expected one such as "+
			quote([]byte(d.example)))
	}
	return nil
}

// whole is false: nobody knows what a last line without an end would have gone on with.
func (d *textDecoder) whole([]byte) bool { return false }

// detectLines accepts a prefix that has a line, whole, of which parse makes an operation, among
// its first ones.
func detectLines(prefix []byte, parse func(line []byte, ev *Event) bool) bool {
	for range 64 {
		line, rest, whole := bytes.Cut(prefix, []byte{'\n'})
		if !whole {
			return false
		}
		var ev Event
		if parse(trimEnd(line), &ev) && ev.Kind != Skipped {
			return true
		}
		prefix = rest
	}
	return false
}

// A scanner takes a line apart from its left end. After the first thing that is not there bad is
// set, and what follows means nothing.
type scanner struct {
	b   []byte
	bad bool
}

// skip passes the blanks.
func (s *scanner) skip() {
	i := 0
	for i < len(s.b) && (s.b[i] == ' ' || s.b[i] == '\t') {
		i++
	}
	s.b = s.b[i:]
}

// word is what stands up to the next blank, and passes it.
func (s *scanner) word() []byte {
	s.skip()
	i := 0
	for i < len(s.b) && s.b[i] != ' ' && s.b[i] != '\t' {
		i++
	}
	w := s.b[:i]
	s.b = s.b[i:]
	if i == 0 {
		s.bad = true
	}
	return w
}

// have passes text that must stand here.
func (s *scanner) have(text string) {
	if len(s.b) < len(text) || string(s.b[:len(text)]) != text {
		s.bad = true
		return
	}
	s.b = s.b[len(text):]
}

// upTo is what stands in front of a byte, which is passed too.
func (s *scanner) upTo(c byte) []byte {
	i := bytes.IndexByte(s.b, c)
	if i < 0 {
		s.bad = true
		return nil
	}
	w := s.b[:i]
	s.b = s.b[i+1:]
	return w
}

// number reads a word in decimal, or in hexadecimal behind 0x; "(nil)" is 0.
func (s *scanner) number() uint64 { return s.value(s.word(), 10) }

// hex reads a word in hexadecimal, with or without 0x.
func (s *scanner) hex() uint64 { return s.value(s.word(), 16) }

func (s *scanner) value(w []byte, base uint64) (n uint64) {
	if string(w) == "(nil)" {
		return 0
	}
	if len(w) > 2 && w[0] == '0' && (w[1] == 'x' || w[1] == 'X') {
		w, base = w[2:], 16
	}
	if len(w) == 0 {
		s.bad = true
	}
	for _, c := range w {
		d := digit(c)
		if d >= base || n > (1<<64-1-d)/base {
			s.bad = true
			return 0
		}
		n = n*base + d
	}
	return n
}

// digit is the value of a digit; one that is none has a large one.
func digit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return uint64(c-'A') + 10
	}
	return 255
}

// end says whether the whole line was as it should be.
func (s *scanner) end() bool {
	s.skip()
	return !s.bad && len(s.b) == 0
}
