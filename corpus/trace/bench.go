package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/encoding/protowire"
)

// The numbers of the fields of a malloc-bench trace; see the package comment.
const (
	benchLine = 1 // of the file: an operation

	benchMalloc  = 1 // of an operation: its kind
	benchFree    = 2
	benchRealloc = 3
	benchCalloc  = 4
)

// A benchDecoder reads a trace of malloc-bench, record by record. The place of a record, from 1,
// stands for its line.
type benchDecoder struct {
	r     *lineReader
	ended bool
}

func benchOpen(r *lineReader) decoder { return &benchDecoder{r: r} }

// benchDetect accepts a first record that is an operation.
func benchDetect(prefix []byte) bool {
	if len(prefix) < 4 || prefix[0] != benchLine<<3|byte(protowire.BytesType) {
		return false
	}
	line, n := protowire.ConsumeBytes(prefix[1:])
	var ev Event
	return n > 0 && len(line) > 0 && benchOperation(line, &ev)
}

// next decodes one record.
func (d *benchDecoder) next(ev *Event) error {
	if d.ended {
		return io.EOF
	}
	tag, err := d.varint()
	if err == io.EOF {
		return io.EOF
	}
	d.r.count++
	ev.Line = d.r.count
	if err != nil {
		return d.broken(ev, err)
	}
	number, kind := protowire.DecodeTag(tag)
	if number == benchLine && kind == protowire.BytesType {
		return d.line(ev)
	}
	if err := d.pass(kind); err != nil {
		return d.broken(ev, err)
	}
	ev.skip(Mark, "")
	return nil
}

// line reads an operation.
func (d *benchDecoder) line(ev *Event) error {
	n, err := d.varint()
	if err != nil {
		return d.broken(ev, err)
	}
	if n > lineMax {
		ev.skip(UnknownLine, fmt.Sprintf("record of %d bytes; expected at most %d", n, lineMax))
		return d.discard(ev, n)
	}
	b, err := d.r.b.Peek(int(n))
	if err != nil {
		return d.broken(ev, err)
	}
	if !benchOperation(b, ev) {
		*ev = Event{Line: ev.Line}
		ev.skip(UnknownLine, "record "+quote(b)+" is no operation; expected one of malloc, free, "+
			"realloc and calloc")
	}
	_, err = d.r.b.Discard(int(n))
	return err
}

// discard passes a record that is too long to be read.
func (d *benchDecoder) discard(ev *Event, n uint64) error {
	if _, err := io.CopyN(io.Discard, d.r.b, int64(min(n, 1<<62))); err != nil {
		return d.broken(ev, err)
	}
	return nil
}

// pass goes behind the value of a field that is no operation.
func (d *benchDecoder) pass(kind protowire.Type) error {
	size := uint64(0)
	var err error
	switch kind {
	case protowire.VarintType:
		_, err = d.varint()
	case protowire.Fixed32Type:
		size = 4
	case protowire.Fixed64Type:
		size = 8
	case protowire.BytesType:
		size, err = d.varint()
	default:
		return errBench
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, d.r.b, int64(min(size, 1<<62)))
	}
	return err
}

// errBench is for a record behind which nobody knows where the next one begins.
var errBench = errors.New("no field of a protocol buffer")

// broken ends the trace at a record that is cut, or at one that cannot be one.
func (d *benchDecoder) broken(ev *Event, err error) error {
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		ev.skip(Truncated, "the last record is cut")
	case err != errBench:
		return err
	default:
		ev.skip(UnknownLine, "no record of a trace; expected those of malloc-bench. "+
			"What follows is not read")
	}
	d.ended = true
	return nil
}

// varint reads a number. It is io.EOF that it has not begun.
func (d *benchDecoder) varint() (n uint64, err error) {
	for i := range binary.MaxVarintLen64 {
		b, err := d.r.b.ReadByte()
		if err == io.EOF && i > 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, err
		}
		n |= uint64(b&0x7f) << (7 * i)
		if b < 0x80 {
			return n, nil
		}
	}
	return 0, errBench
}

// benchOperation reads one operation: a field whose number is its kind.
func benchOperation(b []byte, ev *Event) bool {
	found := false
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false
		}
		if number <= benchCalloc && kind == protowire.BytesType {
			body, _ := protowire.ConsumeBytes(b)
			if found || !benchFill(number, body, ev) {
				return false
			}
			found = true
		}
		b = b[n:]
	}
	return found
}

// benchFill turns an operation into an event. Its fields have numbers from 1. Objects have numbers
// from 0, so one is added; one that has none is null.
func benchFill(op protowire.Number, b []byte, ev *Event) bool {
	var field [4]uint64
	var given [4]bool
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return false
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(number, kind, b); n < 0 {
			return false
		}
		if int(number) < len(field) && kind == protowire.VarintType {
			field[number], _ = protowire.ConsumeVarint(b)
			given[number] = true
		}
		b = b[n:]
	}
	if given[1] {
		ev.ID = field[1] + 1
	}
	switch op {
	case benchMalloc:
		ev.Kind, ev.Size = Malloc, field[2]
		if field[3] > 0 {
			ev.Kind, ev.Align = Memalign, field[3]
		}
	case benchCalloc:
		ev.Kind, ev.Count, ev.Size = Calloc, field[2], field[3]
	case benchRealloc:
		ev.Kind, ev.Size = Realloc, field[3]
		if given[2] {
			ev.Old = field[2] + 1
		}
	case benchFree:
		ev.Kind = Free
	}
	return true
}
