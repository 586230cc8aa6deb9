package linear_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"allocfuzz/impls"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
)

const hour = time.Hour

// op is an operation on one byte: a free below 0.
func op(client int, call, ret int64, at int) history.Op {
	if at < 0 {
		return history.Op{Client: client, Code: impls.OpFree, Call: call, Return: ret,
			Old: history.Range{Addr: uint64(-at), Size: 1}}
	}
	return history.Op{Client: client, Code: impls.OpMalloc, Call: call, Return: ret,
		New: history.Range{Addr: uint64(at), Size: 1}}
}

// hard is a history that a search cannot decide in reasonable time: many allocations and
// frees at once in one part, and one allocation that has no place anywhere.
func hard() *history.History {
	const many = 40
	h := &history.History{Ops: []history.Op{op(0, 1, 2, 1)}}
	for i := range many {
		h.Ops = append(h.Ops, op(i+1, 3, 1000, i+2))
	}
	h.Ops = append(h.Ops, history.Op{Client: 0, Code: impls.OpMalloc, Call: 3, Return: 1000,
		New: history.Range{Addr: 1, Size: many + 1}})
	return h
}

// TestUnknown: what was not decided in time is unknown, with and without a picture, and
// that is the verdict that nothing was decided of.
func TestUnknown(t *testing.T) {
	var none linear.Verdict
	if v := linear.Check(hard(), time.Millisecond); v != linear.Unknown || v != none {
		t.Errorf("a search that was cut says %v", v)
	}
	v, err := linear.Picture(&bytes.Buffer{}, hard(), time.Millisecond)
	if v != linear.Unknown || err != nil {
		t.Errorf("a picture of a search that was cut says %v, %v", v, err)
	}
	if linear.Unknown.String() != "unknown" {
		t.Errorf("unknown is called %v", linear.Unknown)
	}
	defer func() {
		if recover() == nil {
			t.Error("a search without a limit was begun")
		}
	}()
	linear.Check(hard(), 0)
}

// TestPending: an operation that never returned may have happened at any time, or not.
func TestPending(t *testing.T) {
	const never = history.Pending
	for _, c := range []struct {
		ops  []history.Op
		want linear.Verdict
	}{
		{[]history.Op{op(0, 1, 2, 1), op(0, 3, never, -1), op(1, 9, 10, 1)}, linear.Linearizable},
		{[]history.Op{op(0, 1, 2, 1), op(0, 3, never, -1)}, linear.Linearizable},
		{[]history.Op{op(0, 1, 2, 1), op(1, 3, 4, 1), op(0, 5, never, -1)}, linear.NotLinearizable},
		{[]history.Op{op(0, 1, 2, 1), op(1, 3, never, 1)}, linear.Linearizable},
	} {
		h := &history.History{Ops: c.ops}
		if v := linear.Check(h, hour); v != c.want {
			t.Errorf("%v: %v, want %v", h.Ops, v, c.want)
		}
	}
}

// TestRefusal: a refusal is always allowed.
func TestRefusal(t *testing.T) {
	h := &history.History{Ops: []history.Op{op(0, 1, 2, 1),
		{Code: impls.OpMalloc, Outcome: impls.NoMem, Call: 3, Return: 4}, op(0, 5, 6, -1)}}
	if v := linear.Check(h, hour); v != linear.Linearizable {
		t.Errorf("%v", v)
	}
}

// TestPicture: the page stands alone, shows the operations, and is always the same.
func TestPicture(t *testing.T) {
	h := &history.History{Ops: []history.Op{op(0, 1, 2, 77), op(1, 3, 4, 77),
		op(0, 5, history.Pending, -77)}}
	var first, second bytes.Buffer
	for _, b := range []*bytes.Buffer{&first, &second} {
		v, err := linear.Picture(b, h, hour)
		if v != linear.NotLinearizable || err != nil {
			t.Fatalf("%v, %v", v, err)
		}
	}
	if first.String() != second.String() {
		t.Error("two pictures of one history differ")
	}
	for _, want := range []string{"<html", "malloc → 0x4d+1", "free 0x4d+1, never returned"} {
		if !strings.Contains(first.String(), want) {
			t.Errorf("no %q in the picture", want)
		}
	}
	for _, not := range []string{"src=\"http", "href=\"http"} {
		if strings.Contains(first.String(), not) {
			t.Errorf("%q is in the picture: it does not stand alone", not)
		}
	}
}

// TestJSON: operations in the order of their calls, a pending one without a return.
func TestJSON(t *testing.T) {
	h := &history.History{Clients: []string{"zero", "one"}, Ops: []history.Op{
		op(1, 5, history.Pending, -77), op(0, 1, 2, 77)}}
	var b bytes.Buffer
	if err := linear.WriteJSON(&b, h); err != nil {
		t.Fatal(err)
	}
	var list []map[string]any
	if err := json.Unmarshal(b.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	if len(list) != 2 || list[0]["client"] != "zero" || list[0]["return"] != 2.0 ||
		list[1]["outcome"] != "pending" || list[1]["return"] != nil || list[1]["gave"] == nil {
		t.Errorf("%s", b.String())
	}
}
