package prog

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// lexer cuts one line of text into words. Columns are byte offsets plus one.
type lexer struct {
	s    string
	i    int // next byte
	line int // number of the line
}

func (x *lexer) reset(s string, line int) { x.s, x.i, x.line = s, 0, line }

// pos returns the place of the byte at offset i.
func (x *lexer) pos(i int) Pos { return Pos{Line: x.line, Col: i + 1} }

// skip moves over blanks and returns the next byte, or 0 at the end of the line.
func (x *lexer) skip() byte {
	for x.i < len(x.s) && (x.s[x.i] == ' ' || x.s[x.i] == '\t') {
		x.i++
	}
	return x.peek()
}

// peek returns the next byte, or 0 at the end; a line holds no zero bytes.
func (x *lexer) peek() byte {
	if x.i < len(x.s) {
		return x.s[x.i]
	}
	return 0
}

// take moves over c if it is the next byte.
func (x *lexer) take(c byte) bool {
	if x.peek() != c {
		return false
	}
	x.i++
	return true
}

// arrow moves over "=>" if it is next.
func (x *lexer) arrow() bool {
	if !x.atArrow() {
		return false
	}
	x.i += 2
	return true
}

func (x *lexer) atArrow() bool {
	return x.i+1 < len(x.s) && x.s[x.i] == '=' && x.s[x.i+1] == '>'
}

// name reads a name, or nothing when the next byte begins none.
func (x *lexer) name() string {
	start := x.i
	if start >= len(x.s) || !isNameStart(x.s[start]) {
		return ""
	}
	for x.i < len(x.s) && isNameByte(x.s[x.i]) {
		x.i++
	}
	return x.s[start:x.i]
}

// dotted reads a run of name bytes and dots that begins like a name.
func (x *lexer) dotted() string {
	start := x.i
	if start >= len(x.s) || !isNameStart(x.s[start]) {
		return ""
	}
	for x.i < len(x.s) && (isNameByte(x.s[x.i]) || x.s[x.i] == '.') {
		x.i++
	}
	return x.s[start:x.i]
}

// subject reads the name of a subject, which may hold capitals and -+./: as well.
func (x *lexer) subject() string {
	start := x.i
	for x.i < len(x.s) && isSubjectByte(x.s[x.i]) {
		x.i++
	}
	return x.s[start:x.i]
}

func isSubjectByte(c byte) bool {
	return isNameByte(c) || 'A' <= c && c <= 'Z' || c == '-' || c == '+' || c == '.' ||
		c == '/' || c == ':'
}

func isSubject(s string) bool {
	for i := 0; i < len(s); i++ {
		if !isSubjectByte(s[i]) {
			return false
		}
	}
	return s != ""
}

// word returns what stands at the next byte up to a blank, shortened, for messages.
func (x *lexer) word() string {
	end := x.i
	for end < len(x.s) && x.s[end] != ' ' && x.s[end] != '\t' && end-x.i < 24 {
		end++
	}
	if end == len(x.s) && end == x.i {
		return "end of line"
	}
	if end == x.i {
		return "blank"
	}
	return strconv.Quote(x.s[x.i:end])
}

// unexpected is the error for whatever stands at the next byte.
func (x *lexer) unexpected(where string) *Error {
	return fault("%s: unexpected %s", where, x.word()).at(x.pos(x.i))
}

// number reads a decimal or 0x number with an optional K or M.
func (x *lexer) number(what string) (uint64, *Error) {
	start := x.i
	if x.peek() == '-' {
		return 0, fault("%s: negative number %s", what, x.word()).
			want("a number that is not negative").at(x.pos(start))
	}
	n, ok := x.digits()
	if x.i == start {
		return 0, fault("%s: %s is no number", what, x.word()).
			want("a number such as 64, 0x40 or 4K").at(x.pos(start))
	}
	if ok && (x.peek() == 'K' || x.peek() == 'M') {
		shift := uint(10)
		if x.s[x.i] == 'M' {
			shift = 20
		}
		x.i++
		ok = n<<shift>>shift == n
		n <<= shift
	}
	end := x.i
	if c := x.peek(); isNameByte(c) || 'A' <= c && c <= 'Z' || c == '.' {
		x.i = start
		return 0, fault("%s: %s is no number", what, x.word()).
			want("a number such as 64, 0x40 or 4K").at(x.pos(start))
	}
	if !ok {
		return 0, fault("%s: %s is too large", what, x.s[start:end]).
			want("at most 64 bits").at(x.pos(start))
	}
	return n, nil
}

// digits reads the digits of a number; ok is false when they need more than 64 bits.
func (x *lexer) digits() (n uint64, ok bool) {
	ok = true
	if x.i+2 < len(x.s) && x.s[x.i] == '0' && x.s[x.i+1] == 'x' && hexDigit(x.s[x.i+2]) < 16 {
		x.i += 2
		for ; x.i < len(x.s); x.i++ {
			d := hexDigit(x.s[x.i])
			if d > 15 {
				break
			}
			ok = ok && n>>60 == 0
			n = n<<4 | d
		}
		return n, ok
	}
	for ; x.i < len(x.s); x.i++ {
		d := uint64(x.s[x.i] - '0')
		if d > 9 {
			break
		}
		ok = ok && (n < (1<<64-1)/10 || n == (1<<64-1)/10 && d <= (1<<64-1)%10)
		n = n*10 + d
	}
	return n, ok
}

// hexDigit returns the value of a hexadecimal digit, or more than 15.
func hexDigit(c byte) uint64 {
	switch {
	case '0' <= c && c <= '9':
		return uint64(c - '0')
	case 'a' <= c && c <= 'f':
		return uint64(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return uint64(c-'A') + 10
	}
	return 16
}

// text reads a Go interpreted string.
func (x *lexer) text(what string) (string, *Error) {
	start := x.i
	if x.peek() != '"' {
		return "", x.unexpected(what).want("a string in double quotes")
	}
	for x.i++; x.i < len(x.s) && x.s[x.i] != '"'; x.i++ {
		if x.s[x.i] == '\\' {
			x.i++
		}
	}
	if x.i >= len(x.s) {
		x.i = len(x.s)
		return "", fault("%s: string without an end", what).
			want("a closing double quote").at(x.pos(start))
	}
	x.i++
	s, err := strconv.Unquote(x.s[start:x.i])
	if err != nil {
		return "", fault("%s: %s is no string", what, x.s[start:x.i]).
			want("the escapes of a Go string").at(x.pos(start))
	}
	if s == "" {
		return "", fault("%s: empty string", what).want("a title").at(x.pos(start))
	}
	return s, nil
}

// plain reads a string in double quotes that holds printable ASCII and no escapes, at most most
// bytes.
func (x *lexer) plain(what string, most int) (string, *Error) {
	start := x.i
	if x.peek() != '"' {
		return "", x.unexpected(what).want("a string in double quotes")
	}
	end := strings.IndexByte(x.s[start+1:], '"')
	if end < 0 {
		return "", fault("%s: string without an end", what).
			want("a closing double quote").at(x.pos(start))
	}
	s := x.s[start+1 : start+1+end]
	if s == "" {
		return "", fault("%s: empty string", what).want("at least one character").
			at(x.pos(start))
	}
	if i, e := plainText(what, s, most); e != nil {
		return "", e.at(x.pos(start + 1 + i))
	}
	x.i = start + 1 + end + 1
	return s, nil
}

// release reads a number such as 6.12.
func (x *lexer) release() string {
	start := x.i
	for c := x.peek(); '0' <= c && c <= '9' || c == '.'; c = x.peek() {
		x.i++
	}
	return x.s[start:x.i]
}

// rest returns the remainder of the line without blanks around it.
func (x *lexer) rest() string {
	x.skip()
	s := trimRight(x.s[x.i:])
	x.i = len(x.s)
	return s
}

// end demands the end of the line.
func (x *lexer) end(where string) *Error {
	if x.skip() == 0 {
		return nil
	}
	return x.unexpected(where).want("end of line")
}

// trimRight drops blanks and carriage returns at the end.
func trimRight(s string) string {
	for s != "" {
		c := s[len(s)-1]
		if c != ' ' && c != '\t' && c != '\r' {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

// badByte returns the offset of the first byte that no program holds: a control character other
// than tab, or one that is not UTF-8. It returns -1 when all is well.
func badByte(s string) int {
	high := false
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c < ' ' && c != '\t' || c == 0x7f {
			return i
		}
		high = high || c >= utf8.RuneSelf
	}
	if !high || utf8.ValidString(s) {
		return -1
	}
	for i, r := range s {
		if r != utf8.RuneError {
			continue
		}
		if _, n := utf8.DecodeRuneInString(s[i:]); n == 1 {
			return i
		}
	}
	return -1
}

// Error says where a program is wrong, what was expected there and what to do about it. It prints
// as "file:line:column: what; expected …; what to do"; parts that are not known are left out.
type Error struct {
	File string
	Pos  Pos
	Msg  string // what is wrong, with what was expected
	Hint string // what to do, "" when that is plain

	key string // the option at fault, so that a parser can point at it
}

// Error returns the whole message on one line.
func (e *Error) Error() string {
	b := make([]byte, 0, 128)
	if e.File != "" {
		b = append(b, e.File...)
		b = append(b, ':')
	}
	if e.Pos.Line > 0 {
		b = strconv.AppendInt(b, int64(e.Pos.Line), 10)
		b = append(b, ':')
		b = strconv.AppendInt(b, int64(e.Pos.Col), 10)
		b = append(b, ':')
	}
	if len(b) > 0 {
		b = append(b, ' ')
	}
	b = append(b, e.Msg...)
	if e.Hint != "" {
		b = append(b, "; "...)
		b = append(b, e.Hint...)
	}
	return string(b)
}

// fault starts an error; want and hint complete it.
func fault(format string, args ...any) *Error {
	return &Error{Msg: fmt.Sprintf(format, args...)}
}

// want adds what was expected.
func (e *Error) want(format string, args ...any) *Error {
	e.Msg += "; expected " + fmt.Sprintf(format, args...)
	return e
}

// hint adds what to do.
func (e *Error) hint(format string, args ...any) *Error {
	e.Hint = fmt.Sprintf(format, args...)
	return e
}

// on names the option at fault.
func (e *Error) on(key string) *Error {
	e.key = key
	return e
}

// at sets the position.
func (e *Error) at(p Pos) *Error {
	e.Pos = p
	return e
}
