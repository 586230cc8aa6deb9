package trace

import "bytes"

// A textDecoder reads a format of lines. parse turns one line that is whole and not empty into an
// event, and returns false when the format has no such line; want says what it has.
type textDecoder struct {
	lines *lineReader
	parse func(line []byte, ev *Event) bool
	want  string
	stop  *Error // set by parse when it makes no sense to go on
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
	case raw.partial:
		ev.skip(Truncated, "the last line "+quote(raw.text)+" has no end; it may be cut")
	case len(raw.text) == 0:
		ev.skip(Mark, "")
	case !d.parse(raw.text, ev):
		ev.skip(UnknownLine, "unknown line "+quote(raw.text)+"; expected "+d.want)
	case d.stop != nil:
		d.stop.Line = ev.Line
		return d.stop
	}
	return nil
}

// skip makes *ev an event that is left out.
func (ev *Event) skip(why Skip, note string) {
	ev.Kind, ev.Skip, ev.Note = Skipped, why, note
}

// detectLines is how many lines detection looks at.
const detectLines = 64

// anyLine tells whether one of the first lines of a prefix, whole and not empty, is as is says.
func anyLine(prefix []byte, is func(line []byte) bool) bool {
	for range detectLines {
		line, rest, whole := bytes.Cut(prefix, []byte{'\n'})
		if !whole {
			return false
		}
		if line = trimEnd(line); len(line) > 0 && is(line) {
			return true
		}
		prefix = rest
	}
	return false
}

// tooLarge stands for every number that does not fit 64 bits. No size or count that large fits a
// program, and no object has that place.
const tooLarge = ^uint64(0)

// A scan is the rest of a line. Its methods take what they read off the front, and blanks before
// it; where they return false they may have taken anything.
type scan []byte

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

func (s *scan) blanks() {
	b := *s
	i := 0
	for i < len(b) && isBlank(b[i]) {
		i++
	}
	*s = b[i:]
}

// end tells whether nothing is left but blanks.
func (s *scan) end() bool {
	s.blanks()
	return len(*s) == 0
}

// word takes what reaches to the next blank.
func (s *scan) word() []byte {
	s.blanks()
	b := *s
	for i, c := range b {
		if isBlank(c) {
			*s = b[i:]
			return b[:i]
		}
	}
	*s = b[len(b):]
	return b
}

// lit takes exactly this text, without blanks before it.
func (s *scan) lit(text string) bool {
	b := *s
	if len(b) < len(text) || string(b[:len(text)]) != text {
		return false
	}
	*s = b[len(text):]
	return true
}

// behind goes on behind the first place of this text, wherever it stands.
func (s *scan) behind(text string) bool {
	i := bytes.Index(*s, []byte(text))
	if i >= 0 {
		*s = (*s)[i+len(text):]
	}
	return i >= 0
}

// number takes a decimal number, or a hexadecimal one with 0x in front.
func (s *scan) number() (n uint64, ok bool) {
	if s.blanks(); s.lit("0x") {
		return s.hex()
	}
	return s.dec()
}

// dec takes a decimal number.
func (s *scan) dec() (n uint64, ok bool) {
	s.blanks()
	b := *s
	i := 0
	for i < len(b) && b[i]-'0' <= 9 {
		if n >= tooLarge/10 {
			n = tooLarge
		} else {
			n = n*10 + uint64(b[i]-'0')
		}
		i++
	}
	*s = b[i:]
	return n, i > 0
}

// hexDigit is the value of each digit, of either case, and 255 for what is none.
var hexDigit = func() (t [256]uint8) {
	for i := range t {
		t[i] = 255
	}
	for i, c := range []byte("0123456789abcdef") {
		t[c] = uint8(i)
	}
	for i, c := range []byte("ABCDEF") {
		t[c] = uint8(10 + i)
	}
	return t
}()

// hex takes a hexadecimal number without 0x.
func (s *scan) hex() (n uint64, ok bool) {
	s.blanks()
	b := *s
	i := 0
	for i < len(b) && hexDigit[b[i]] < 16 {
		if n >= 1<<60 {
			n = tooLarge
		} else {
			n = n<<4 | uint64(hexDigit[b[i]])
		}
		i++
	}
	*s = b[i:]
	return n, i > 0
}

// pointer takes what is printed for an address: hexadecimal digits, with or without 0x, or (nil).
func (s *scan) pointer() (n uint64, ok bool) {
	s.blanks()
	if s.lit("(nil)") || s.lit("(null)") {
		return 0, true
	}
	if !s.lit("0x") {
		s.lit("0X")
	}
	n, ok = s.hex()
	return n, ok && n != tooLarge
}
