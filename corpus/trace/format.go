package trace

import (
	"bufio"
	"bytes"
	"strings"
)

// A format is one row of the table of formats.
type format struct {
	name   string
	detect func(prefix []byte) bool // of at most prefixLen bytes from the start
	open   func(r *lineReader) decoder
}

var formats = []format{
	// heaptrack comes before mtrace, which has lines that look like some of its.
	{name: "heaptrack", detect: heaptrackDetect, open: heaptrackOpen},
	{name: "mtrace", detect: mtraceDetect, open: mtraceOpen},
	{name: "record", detect: recordDetect, open: recordOpen},
	{name: "valgrind", detect: valgrindDetect, open: valgrindOpen},
	{name: "kmem", detect: kmemDetect, open: kmemOpen},
	{name: "android", detect: androidDetect, open: androidOpen},
	{name: "malloc-bench", detect: benchDetect, open: benchOpen},
	{name: "rep", detect: repDetect, open: repOpen},
}

// prefixLen is how many bytes detection may look at.
const prefixLen = 4096

// Formats returns the names of the trace formats that Import reads.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for i := range formats {
		names = append(names, formats[i].name)
	}
	return names
}

// findFormat returns the row called name or, when name is empty, the first whose detect accepts the
// first bytes of b.
func findFormat(name string, b *bufio.Reader, file string) (*format, error) {
	known := strings.Join(Formats(), ", ")
	prefix, err := b.Peek(prefixLen)
	if len(prefix) == 0 {
		if readFailed(err) {
			return nil, &Error{File: file, Msg: "cannot read the trace", Err: err}
		}
		return nil, &Error{File: file, Msg: "empty input; expected a trace (" + known + ")"}
	}
	for i := range formats {
		f := &formats[i]
		if f.name == name || name == "" && f.detect(prefix) {
			return f, nil
		}
	}
	if name != "" {
		return nil, &Error{File: file, Msg: "unknown trace format " + quote(name) +
			"; expected one of: " + known}
	}
	what := "format not recognised"
	if bytes.IndexByte(prefix, 0) >= 0 {
		what = "binary data"
	}
	return nil, &Error{File: file, Line: 1, Msg: what + "; expected a trace in one of: " + known +
		"; name the format to read it all the same"}
}
