package trace

import (
	"bufio"
	"io"
)

// lineMax is the length in bytes above which a line is not looked at. It bounds memory.
const lineMax = 64 << 10

// A lineReader yields the lines of an input one by one and counts them.
type lineReader struct {
	b     *bufio.Reader
	count int // lines yielded
}

// A rawLine is a line without its end. text is valid until the next call.
type rawLine struct {
	text    []byte
	long    bool // longer than lineMax; text is its beginning
	partial bool // the input ended before the line did
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{b: bufio.NewReaderSize(r, lineMax)}
}

// next returns the next line, or io.EOF after the last, or the reader's error.
func (l *lineReader) next() (rawLine, error) {
	text, err := l.b.ReadSlice('\n')
	raw := rawLine{text: text}
	if err == bufio.ErrBufferFull {
		raw.long = true
		err = l.discardLine()
	}
	raw.partial = err == io.EOF && len(text) > 0
	if err != nil && !raw.partial {
		return rawLine{}, err
	}
	l.count++
	raw.text = trimEnd(raw.text)
	return raw, nil
}

// discardLine reads on behind the next line end. The text before it is lost, so a long line keeps
// nothing.
func (l *lineReader) discardLine() error {
	for {
		_, err := l.b.ReadSlice('\n')
		if err != bufio.ErrBufferFull {
			return err
		}
	}
}

// trimEnd cuts one line end, of either kind.
func trimEnd(b []byte) []byte {
	if n := len(b); n > 0 && b[n-1] == '\n' {
		b = b[:n-1]
	}
	if n := len(b); n > 0 && b[n-1] == '\r' {
		b = b[:n-1]
	}
	return b
}
