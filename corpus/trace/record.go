package trace

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
)

// The format of "allocfuzz record", written by the C program of fuzz/record: a head, and records of
// one size in the order in which things happened. All numbers are stored as the machine stores
// them, which the word behind the magic tells.
const (
	recordMagic = "allocfuzz record"
	recordOrder = 0x01020304

	RecordHeadSize = 64 // bytes of the head
	RecordSize     = 32 // bytes of each record
)

// The kinds of record, as they are in the file. 0 is a place that was taken and never filled: the
// process ended there.
const (
	recordMalloc = 1 + iota
	recordCalloc
	recordMemalign
	recordFree
	recordMoveFrom
	recordMoveTo
)

// A RecordHead is what the head of a recording says.
type RecordHead struct {
	PID      int // of the process; 0 when the recorder was never loaded
	Threads  int // threads that have recorded something
	Execs    int // how often another program began in the process, and the recording with it
	Capacity int // records that there is room for
	Records  int // records that were written
	Lost     int // records that there was no room for
}

// NewRecording is the head of a recording that nobody has written to. The file behind it is zero.
func NewRecording(capacity int) []byte {
	b := make([]byte, RecordHeadSize)
	copy(b, recordMagic)
	binary.NativeEndian.PutUint32(b[16:], recordOrder)
	binary.NativeEndian.PutUint64(b[32:], uint64(capacity))
	return b
}

// ParseRecordHead reads the head of a recording.
func ParseRecordHead(b []byte) (RecordHead, error) {
	h, _, ok := recordHead(b)
	if !ok {
		return h, errors.New("not a recording of allocfuzz record")
	}
	return h, nil
}

func recordHead(b []byte) (h RecordHead, order binary.ByteOrder, ok bool) {
	if len(b) < RecordHeadSize || !recordDetect(b) {
		return h, nil, false
	}
	order = binary.LittleEndian
	if order.Uint32(b[16:]) != recordOrder {
		order = binary.BigEndian
	}
	next, capacity := order.Uint64(b[40:]), order.Uint64(b[32:])
	return RecordHead{
		PID: int(order.Uint32(b[20:])), Threads: int(order.Uint32(b[24:])),
		Execs: int(order.Uint32(b[28:])), Capacity: int(capacity),
		Records: int(min(next, capacity)), Lost: int(order.Uint64(b[48:])),
	}, order, order.Uint32(b[16:]) == recordOrder
}

func recordDetect(prefix []byte) bool { return bytes.HasPrefix(prefix, []byte(recordMagic)) }

// A recordDecoder reads a recording. The place of a record, from 1, stands for its line.
type recordDecoder struct {
	r     *lineReader
	order binary.ByteOrder // nil before the head was read
	left  int
	buf   [RecordHeadSize]byte
}

func recordOpen(r *lineReader) decoder { return &recordDecoder{r: r} }

func (d *recordDecoder) next(ev *Event) error {
	if d.order == nil {
		return d.head(ev)
	}
	if d.left == 0 {
		return io.EOF
	}
	d.left--
	d.r.count++
	ev.Line = d.r.count
	b := d.buf[:RecordSize]
	if _, err := io.ReadFull(d.r.b, b); err != nil {
		return d.cut(ev, err)
	}
	d.fill(ev, b)
	return nil
}

// head reads the head, which is no event.
func (d *recordDecoder) head(ev *Event) error {
	d.order = binary.LittleEndian
	if _, err := io.ReadFull(d.r.b, d.buf[:]); err != nil {
		return d.cut(ev, err)
	}
	h, order, ok := recordHead(d.buf[:])
	if !ok {
		ev.skip(UnknownLine, "no head of a recording; expected one of allocfuzz record")
		return nil
	}
	d.order, d.left = order, h.Records
	ev.skip(Mark, "")
	return nil
}

// cut ends a recording that is shorter than its head says.
func (d *recordDecoder) cut(ev *Event, err error) error {
	if err != io.EOF && err != io.ErrUnexpectedEOF {
		return err
	}
	d.left = 0
	ev.skip(Truncated, "the recording ends before its last record; it may be cut")
	return nil
}

// fill turns a record into an event.
func (d *recordDecoder) fill(ev *Event, b []byte) {
	kind, arg := d.order.Uint32(b), d.order.Uint64(b[24:])
	ev.ID, ev.Size = d.order.Uint64(b[8:]), d.order.Uint64(b[16:])
	ev.Mate = uint64(d.order.Uint32(b[4:]))
	switch kind {
	case recordMalloc:
		ev.Kind = Malloc
	case recordCalloc:
		ev.Kind, ev.Count = Calloc, arg
	case recordMemalign:
		ev.Kind, ev.Align = Memalign, arg
	case recordFree:
		ev.Kind = Free
	case recordMoveFrom:
		ev.Kind = MoveFrom
	case recordMoveTo:
		ev.Kind = MoveTo
	case 0:
		ev.skip(Truncated, "a record that was never written; the process ended meanwhile")
	default:
		ev.skip(UnknownLine, "record of an unknown kind; expected one of 1 to 6")
	}
}
