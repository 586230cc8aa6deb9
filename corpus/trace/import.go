package trace

import (
	"errors"
	"fmt"
	"io"

	"allocfuzz/corpus/prog"
)

// Options of an import. The zero value imports everything and keeps only the counts.
type Options struct {
	// File is the trace's name, for messages only.
	File string
	// Strict makes an error of what is otherwise counted and left out because the format does not
	// have it: unknown lines, a last line that is cut, sizes no program can hold.
	Strict bool
	// Limit ends the import after so many operations; 0 is no limit.
	Limit int
	// From and To, when not 0, are the first and the last operation that are imported, counted from
	// 1 as an import of the whole trace makes them. Objects that are live before the first one are
	// left out.
	From, To int
	// Emit gets each line of the program, in order. The line and its slices are valid during the
	// call only. An error ends the import and is returned. Nil is allowed: the import then only
	// counts.
	Emit func(*prog.Line) error
	// Doc is the comment that Write puts on top of the program, a line each, without the "#".
	Doc []string
}

// A Warning is something odd in a trace. Line is 0 when it belongs to no line.
type Warning struct {
	Line int
	Text string
}

// warningsMax is how many warnings a Result keeps. Counts go on.
const warningsMax = 64

// A Result says what an import has read, made and left out.
type Result struct {
	Format     string     // name of the format, also when it was detected
	Lines      int        // lines read, the skipped ones included
	Operations int        // lines of the program
	Skipped    [skips]int // what was left out or changed, how often, by Skip
	Warnings   []Warning  // in the order of reading, at most 64
	// WarningsMore counts the warnings not kept.
	WarningsMore int
	// PeakObjects and PeakBytes are the most that was live at once, of bytes as asked for. While a
	// realloc runs, both its objects count.
	PeakObjects int
	PeakBytes   uint64
	// LiveObjects and LiveBytes are what was live at the end.
	LiveObjects int
	LiveBytes   uint64
	// Pages is the machine that the program needs: pages of 4096 bytes, a power of two.
	Pages int
	// CPUs is how many CPUs it needs.
	CPUs int
	// Caches are those that the program must declare, in the order of their first use.
	Caches []Cache
	// From is Options.From.
	From int
	// Cut is true when Options.Limit or Options.To ended the import before the trace did.
	Cut bool
}

// SkippedOperations returns how many operations of the trace are not in the program as they were:
// everything counted in Skipped but marks.
func (r *Result) SkippedOperations() int {
	n := 0
	for why, count := range r.Skipped {
		if Skip(why) != Mark {
			n += count
		}
	}
	return n
}

// full tells whether a further warning would only be counted.
func (r *Result) full() bool { return len(r.Warnings) == warningsMax }

func (r *Result) warn(line int, text string) {
	if r.full() {
		r.WarningsMore++
		return
	}
	r.Warnings = append(r.Warnings, Warning{Line: line, Text: text})
}

// Import reads a trace from r and hands the lines of its program to opt.Emit. format is a name of
// Formats, or empty to detect it by the first bytes. Memory is bounded by the objects live at once
// in the trace.
//
// The error is an *Error, but for one of opt.Emit, which is returned as it is: the input is empty
// or no trace, cannot be read, holds no operation at all, or, with opt.Strict, has a line that the
// format has not. The result is valid up to there.
func Import(format string, r io.Reader, opt Options) (Result, error) {
	res := Result{From: opt.From}
	in, err := unpack(r)
	if err != nil {
		return res, &Error{File: opt.File, Msg: "cannot unpack the trace; it may be cut or damaged",
			Err: err}
	}
	defer in.done()
	lines := in.plain
	f, err := findFormat(format, lines.b, opt.File)
	if err != nil {
		return res, err
	}
	res.Format = f.name
	c := newConverter(&opt, &res)
	err = pump(f.open(lines), c, &opt)
	res.Lines = lines.count
	if why := in.damage(); why != nil && err == nil && !res.Cut {
		err = c.damaged(why, &opt)
	}
	c.finish(err == nil && !res.Cut)
	if err == nil && res.Operations == 0 {
		err = c.nothing(opt.File)
	}
	return res, err
}

// damaged notes that the compressed data ended before its end; what was good is kept.
func (c *converter) damaged(why error, opt *Options) error {
	text := "the compressed data is cut or damaged behind this line: " + why.Error()
	if opt.Strict {
		return &Error{File: opt.File, Line: c.res.Lines, Msg: text}
	}
	c.res.warn(c.res.Lines, text+"; what is before it is kept")
	if c.res.Skipped[Truncated] == 0 {
		c.res.Skipped[Truncated] = 1
	}
	return nil
}

// nothing is the error of an import without an operation.
func (c *converter) nothing(file string) error {
	msg := fmt.Sprintf("no operation in %d lines of format %s; expected allocations that succeeded",
		c.res.Lines, c.res.Format)
	if c.from > 1 && c.seen > 0 {
		msg = fmt.Sprintf("no operation in the slice from %d; the trace has %d up to its end",
			c.from, c.seen)
	}
	return &Error{File: file, Msg: msg}
}

// pump drives the events of d through c until the input, the limit or an error ends it.
func pump(d decoder, c *converter, opt *Options) error {
	var ev Event
	for {
		ev = Event{}
		err := d.next(&ev)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return readError(err, opt.File)
		}
		before := c.res.Skipped
		err = c.apply(&ev)
		if errors.Is(err, errLimit) {
			c.res.Cut = true
			return nil
		}
		if err != nil {
			return err
		}
		if opt.Strict {
			if err = c.refuse(&before, opt.File, ev.Line); err != nil {
				return err
			}
		}
	}
}

// readError names the file in an error of a decoder, which is one of the reader or, when it is an
// *Error, of a format that cannot be imported at all.
func readError(err error, file string) error {
	if e, ok := err.(*Error); ok {
		e.File = file
		return e
	}
	return &Error{File: file, Msg: "cannot read the trace", Err: err}
}

// refuse returns an error when the event just applied was left out for a reason that Strict does
// not allow. Its text is that of the warning.
func (c *converter) refuse(before *[skips]int, file string, line int) error {
	for _, why := range []Skip{UnknownLine, Truncated, Unfit} {
		if c.res.Skipped[why] != before[why] {
			return &Error{File: file, Line: line, Msg: c.note}
		}
	}
	return nil
}
