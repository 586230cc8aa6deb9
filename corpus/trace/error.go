package trace

import (
	"errors"
	"io"
	"strconv"
	"strings"
)

// An Error says what is wrong with a trace and where. Line is 0 when it is about the whole file.
// Err is the cause when there is one below, such as a read error.
type Error struct {
	File string
	Line int
	Msg  string
	Err  error
}

// Error returns "file:line: message: cause", without the parts that are not set.
func (e *Error) Error() string {
	var b strings.Builder
	if e.File != "" {
		b.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		b.WriteString(strconv.Itoa(e.Line) + ":")
	}
	if b.Len() > 0 {
		b.WriteByte(' ')
	}
	b.WriteString(e.Msg)
	if e.Err != nil {
		b.WriteString(": " + e.Err.Error())
	}
	return b.String()
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// readFailed tells a failing reader from the end of the input.
func readFailed(err error) bool {
	return err != nil && !errors.Is(err, io.EOF)
}

// quoteMax is how many bytes of a foreign line are shown in a message.
const quoteMax = 40

// quote returns s quoted for a message, cut when long. Bytes that do not print are escaped.
func quote[T string | []byte](s T) string {
	if len(s) > quoteMax {
		return strconv.QuoteToASCII(string(s[:quoteMax])) + "…"
	}
	return strconv.QuoteToASCII(string(s))
}
