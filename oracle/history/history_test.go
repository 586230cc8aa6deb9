package history_test

import (
	"strings"
	"testing"

	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle/history"
)

// The makers of operations: a client's, from one stamp to another.

func alloc(client int, call, ret int64, a impls.Addr, size uint64) history.Op {
	return history.Op{Client: client, Code: impls.OpMalloc, Call: call, Return: ret, Line: -1,
		New: history.Range{Addr: a, Size: size}}
}

func free(client int, call, ret int64, a impls.Addr, size uint64) history.Op {
	return history.Op{Client: client, Code: impls.OpFree, Call: call, Return: ret, Line: -1,
		Old: history.Range{Addr: a, Size: size}}
}

func realloc(client int, call, ret int64, old, got history.Range) history.Op {
	return history.Op{Client: client, Code: impls.OpRealloc, Call: call, Return: ret, Line: -1,
		Old: old, New: got}
}

// TestCases: what each kind of history is, and that the report names both operations.
func TestCases(t *testing.T) {
	const never = history.Pending
	r := func(a impls.Addr, n uint64) history.Range { return history.Range{Addr: a, Size: n} }
	for _, c := range []struct {
		name string
		ops  []history.Op
		want []string // in the detail; none when the history is right
	}{
		{"turns", []history.Op{alloc(0, 1, 2, 64, 8), free(0, 3, 4, 64, 8),
			alloc(1, 5, 6, 64, 8), free(1, 7, 8, 64, 8)}, nil},
		{"twice", []history.Op{alloc(0, 1, 2, 64, 8), alloc(1, 3, 4, 64, 8)},
			[]string{"malloc of one [3, 4] (0x40, 8 bytes)", "still held", "of zero [1, 2]"}},
		{"free just called", []history.Op{alloc(0, 1, 2, 64, 8), alloc(1, 3, 6, 64, 8),
			free(0, 5, 9, 64, 8)}, nil},
		{"free called at the return", []history.Op{alloc(0, 1, 2, 64, 8), alloc(1, 3, 5, 64, 8),
			free(0, 5, 9, 64, 8)}, nil},
		{"free called behind the return", []history.Op{alloc(0, 1, 2, 64, 8),
			alloc(1, 3, 5, 64, 8), free(0, 6, 9, 64, 8)}, []string{"still held"}},
		{"overlap", []history.Op{alloc(0, 1, 2, 64, 16), alloc(1, 3, 4, 72, 16)},
			[]string{"0x48, 16 bytes", "0x40, 16 bytes"}},
		{"side by side", []history.Op{alloc(0, 1, 2, 64, 8), alloc(1, 3, 4, 72, 8)}, nil},
		{"nothing twice", []history.Op{alloc(0, 1, 2, 64, 0), alloc(1, 3, 4, 64, 0)}, nil},
		{"the first of two", []history.Op{alloc(0, 1, 2, 640, 8), alloc(0, 7, 8, 640, 8),
			alloc(0, 1, 2, 960, 8), alloc(1, 3, 4, 960, 8), alloc(0, 1, 2, 64, 8),
			alloc(0, 5, 6, 64, 8)}, []string{"[3, 4] (0x3c0"}},
		{"pending free", []history.Op{alloc(0, 1, 2, 64, 8), free(0, 3, never, 64, 8),
			alloc(1, 5, 6, 64, 8)}, nil},
		{"pending free, and again", []history.Op{alloc(0, 1, 2, 64, 8),
			free(0, 3, never, 64, 8), alloc(1, 5, 6, 64, 8), alloc(2, 7, 8, 64, 8)},
			[]string{"[7, 8]", "still held", "[5, 6]"}},
		{"pending free too late", []history.Op{alloc(0, 1, 2, 64, 8),
			alloc(1, 3, 4, 64, 8), free(0, 5, never, 64, 8)}, []string{"still held"}},
		{"pending allocation", []history.Op{alloc(0, 1, 2, 64, 8), alloc(1, 1, never, 64, 8)},
			nil},
		{"moved", []history.Op{alloc(0, 1, 2, 64, 8), realloc(0, 3, 6, r(64, 8), r(128, 16)),
			alloc(1, 4, 5, 64, 8)}, nil},
		{"lent out while it grows in place", []history.Op{alloc(0, 1, 2, 64, 8),
			realloc(0, 3, 8, r(64, 8), r(64, 16)), alloc(1, 4, 5, 64, 8), free(1, 6, 7, 64, 8)},
			[]string{"realloc of zero [3, 8]", "of one"}},
		{"freed before the new is there", []history.Op{alloc(0, 1, 2, 64, 8),
			alloc(1, 1, 2, 128, 16), realloc(0, 3, 10, r(64, 8), r(128, 16)),
			alloc(2, 4, 5, 64, 8), free(1, 6, 9, 128, 16)}, []string{"before it could"}},
		{"refused", []history.Op{alloc(0, 1, 2, 64, 8),
			{Client: 0, Code: impls.OpRealloc, Outcome: impls.NoMem, Call: 3, Return: 8, Line: -1},
			alloc(1, 4, 5, 64, 8), free(1, 6, 7, 64, 8)}, []string{"still held"}},
		{"pending realloc", []history.Op{alloc(0, 1, 2, 64, 8),
			realloc(0, 3, never, r(64, 8), history.Range{}), alloc(1, 4, 5, 64, 8)}, nil},
		{"two that wait for each other", []history.Op{alloc(0, 1, 2, 64, 8), alloc(1, 1, 2, 96, 8),
			realloc(0, 3, 9, r(64, 8), r(96, 8)), realloc(1, 3, 9, r(96, 8), r(64, 8))},
			[]string{"both before and behind"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := &history.History{Clients: []string{"zero", "one"}, Ops: c.ops}
			if brute(h) != (c.want == nil) {
				t.Fatal("trying all orders says otherwise")
			}
			v := new(history.Checker).Check(h)
			if (v == nil) != (c.want == nil) {
				t.Fatalf("violation %v", v)
			}
			if v == nil {
				return
			}
			f := v.Fault(h)
			who := h.Client(h.Ops[v.Second].Client)
			if f.Title != fault.NotLinearizable || f.Where.Task != who {
				t.Errorf("fault %+v", f)
			}
			for _, want := range c.want {
				if !strings.Contains(f.Detail, want) {
					t.Errorf("no %q in %q", want, f.Detail)
				}
			}
		})
	}
}

// TestStranger: what was never got cannot be given back: the history is wrongly written.
func TestStranger(t *testing.T) {
	for _, ops := range [][]history.Op{
		{free(0, 1, 2, 64, 8)},
		{alloc(0, 1, 2, 64, 8), free(0, 3, 4, 64, 8), free(0, 5, 6, 64, 8)},
		{alloc(0, 1, 2, 64, 8), free(0, 3, 4, 60, 8)},
	} {
		func() {
			defer func() {
				p, _ := recover().(string)
				if !strings.HasPrefix(p, "allocfuzz: free of client 0") {
					t.Errorf("%v: panicked with %q", ops, p)
				}
			}()
			new(history.Checker).Check(&history.History{Ops: ops})
		}()
	}
}

// TestRecorder: stamps follow the order of telling, and what was kept was not given back.
func TestRecorder(t *testing.T) {
	var r history.Recorder
	at, more := history.Range{Addr: 64, Size: 8}, history.Range{Addr: 64, Size: 16}
	for range 2 {
		r.Reset()
		r.Ended(r.Began(history.Op{Code: impls.OpMalloc}), impls.OK, at)
		refused := r.Began(history.Op{Code: impls.OpRealloc, Old: at})
		r.Kept(refused)
		r.Ended(refused, impls.NoMem, history.Range{})
		r.Ended(r.Began(history.Op{Code: impls.OpRealloc, Old: at}), impls.OK, more)
		dead := r.Began(history.Op{Code: impls.OpFree, Old: more})
		want := "0: malloc of client 0 [1, 2] (0x40, 8 bytes)\n" +
			"1: realloc of client 0 [3, 4] refused\n" +
			"2: realloc of client 0 [5, 6] (0x40, 8 bytes to 0x40, 16 bytes)\n" +
			"3: free of client 0 [7, never returned] (0x40, 16 bytes)\n"
		if got := text(&r.History); got != want || !r.Ops[dead].Pending() {
			t.Errorf("got\n%swant\n%s", got, want)
		}
		if v := new(history.Checker).Check(&r.History); v != nil {
			t.Errorf("violation %v", v)
		}
	}
}

// BenchmarkCheck: allocations and frees of one size, and of sizes that overlap, each per
// operation.
func BenchmarkCheck(b *testing.B) {
	for _, c := range []struct {
		name string
		ops  int
		size func(int) uint64
	}{
		{"one size/8", 8, func(int) uint64 { return 64 }},
		{"one size/1000", 1000, func(int) uint64 { return 64 }},
		{"one size/100000", 100000, func(int) uint64 { return 64 }},
		{"overlapping/1000", 1000, func(i int) uint64 { return uint64(8 + i*i%97) }},
		{"overlapping/100000", 100000, func(i int) uint64 { return uint64(8 + i*i%97) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			h := &history.History{}
			for i := range c.ops / 2 {
				at, size := int64(i)*4, c.size(i)
				a := uint64(4096 + i*7919%c.ops*8)
				h.Ops = append(h.Ops, alloc(0, at, at+1, a, size), free(0, at+2, at+3, a, size))
			}
			var k history.Checker
			b.ReportAllocs()
			for b.Loop() {
				if v := k.Check(h); v != nil {
					b.Fatal(v.Fault(h))
				}
			}
			b.ReportMetric(b.Elapsed().Seconds()*1e9/float64(b.N)/float64(c.ops), "ns/operation")
		})
	}
}
