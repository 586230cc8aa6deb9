package trace

import (
	"bytes"
	"encoding/binary"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
)

// recording makes a file of records of kind, thread, object, size and argument.
func recording(order binary.AppendByteOrder, records ...[5]uint64) []byte {
	b := []byte(recordMagic)
	for _, n := range []uint32{recordOrder, 77, 2, 1} {
		b = order.AppendUint32(b, n)
	}
	for _, n := range []uint64{100, uint64(len(records)), 3, 0} {
		b = order.AppendUint64(b, n)
	}
	for _, r := range records {
		b = order.AppendUint32(order.AppendUint32(b, uint32(r[0])), uint32(r[1]))
		for _, n := range r[2:] {
			b = order.AppendUint64(b, n)
		}
	}
	return b
}

// everyKind has a resize of thread 1 around one of thread 2, and one that failed.
var everyKind = [][5]uint64{
	{recordMalloc, 1, 0x10, 8}, {recordCalloc, 2, 0x20, 4, 3}, {recordMemalign, 1, 0x40, 5, 64},
	{recordMoveFrom, 1, 0x10}, {recordMoveFrom, 2, 0x20}, {recordMoveTo, 1, 0x20, 16},
	{recordMoveTo, 2, 0x10, 32}, {recordMoveFrom, 1, 0x20}, {recordMoveTo, 1, 0, 99},
	{recordFree, 2, 0x20}, {recordMalloc, 1, 0, 7}, {recordFree, 1, 0x40}, {},
}

const everyLine = `cpu0 a0 = malloc 8
cpu0 a1 = calloc 3 4
cpu0 a2 = memalign 64 5
cpu0 a3 = realloc a0 16
cpu0 a0 = realloc a1 32
cpu0 free a3
cpu0 free a2
`

func TestRecord(t *testing.T) {
	for _, order := range []binary.AppendByteOrder{binary.LittleEndian, binary.BigEndian} {
		in := recording(order, everyKind...)
		p, res, err := Program("", bytes.NewReader(append(in, "what lies behind"...)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		_, got, _ := strings.Cut(string(prog.Format(p)), "\n\n")
		if got != everyLine {
			t.Errorf("%v: program\n%swant\n%s", order, got, everyLine)
		}
		if res.Format != "record" || res.Lines != 13 || res.Skipped[Failed] != 2 ||
			res.Skipped[Truncated] != 1 || res.SkippedOperations() != 3 {
			t.Errorf("%v: %+v", order, res)
		}
		h, err := ParseRecordHead(in)
		if want := (RecordHead{77, 2, 1, 100, 13, 3}); err != nil || h != want {
			t.Errorf("%v: head %+v, %v, want %+v", order, h, err, want)
		}
	}
}

// A recording that is cut or damaged is read as far as it goes.
func TestRecordCut(t *testing.T) {
	whole := recording(binary.LittleEndian, everyKind...)
	for n := len(recordMagic); n < len(whole); n++ {
		_, res, err := Program("", bytes.NewReader(whole[:n]), Options{})
		if n < RecordHeadSize+RecordSize {
			if err == nil || !strings.Contains(err.Error(), "no operation") {
				t.Fatalf("%d bytes: %v", n, err)
			}
		} else if err != nil || res.Skipped[Truncated] != 1 {
			t.Fatalf("%d bytes: %v, %+v", n, err, res)
		}
		if _, err := Import("", bytes.NewReader(whole[:n]), Options{Strict: true}); err == nil {
			t.Fatalf("%d bytes: not refused", n)
		}
	}
	whole[RecordHeadSize] = 9
	_, res, err := Program("", bytes.NewReader(whole), Options{})
	if err != nil || res.Skipped[UnknownLine] != 1 || res.Warnings[0].Line != 1 {
		t.Errorf("%v: %+v", err, res)
	}
	whole[16]++
	if _, err := ParseRecordHead(whole); err == nil {
		t.Error("a head of no byte order is taken")
	}
}

func TestNewRecording(t *testing.T) {
	h, err := ParseRecordHead(NewRecording(5))
	if err != nil || h != (RecordHead{Capacity: 5}) {
		t.Errorf("%+v, %v", h, err)
	}
}
