package oracle_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// TestBulkStates: a bulk line states one outcome, which is that of the objects that were
// not left out; whole programs and streams agree in what differs from it.
func TestBulkStates(t *testing.T) {
	const head = "allocfuzz 1\nmachine rules=6.1\ncache c flags=redzone,sanity objects=4 size=64\n"
	for _, test := range []struct {
		lines string
		got   string // of what is stated and not so; "" when all is
	}{
		{"cpu0 a,b = allocbulk c => ok\ncpu0 freebulk c a b => ok\n", ""},
		{"cpu0 a,b = allocbulk c => enomem\n", "got ok"},
		{"cpu0 a,b = allocbulk c failobj=2 => enomem\n", ""},
		{"cpu0 a,b = allocbulk c failobj=2 => ok\n", "got enomem"},
		{"cpu0 a,b = allocbulk c\ncpu0 free c a\ncpu0 freebulk c a b => ok\n", ""},
		{"cpu0 a,b = allocbulk c\ncpu0 free c a\ncpu0 freebulk c a b => skipped\n", "got ok"},
		{"cpu0 a,b = allocbulk c\ncpu0 free c a\ncpu0 free c b\n" +
			"cpu0 freebulk c a b => skipped\n", ""},
		{"cpu0 a,b = allocbulk c\ncpu0 overrun b 2\n" +
			"cpu0 freebulk c a b => report \"Right Redzone overwritten\"\n", ""},
		{"cpu0 a,b = allocbulk c\ncpu0 overrun b 2\ncpu0 freebulk c a b => ok\n",
			"got report \"Right Redzone overwritten\""},
	} {
		p := compile(t, head+test.lines)
		r := oracle.NewRunner()
		v := subject(t, "slub-2022-debug-locked")
		whole := r.Run(p, v, oracle.Options{})
		whole.Expect()
		detail := ""
		for _, f := range whole.Faults {
			detail += f.Detail
		}
		if test.got == "" && detail != "" || !strings.Contains(detail, test.got) {
			t.Errorf("%s%q, want %q", test.lines, detail, test.got)
		}
		res, err := streamed(r, prog.Format(p.Prog), v, oracle.Options{})
		if err != nil || len(res.Faults) != len(whole.Faults) {
			t.Errorf("%sstreamed: %v, %v", test.lines, res.Faults, err)
		}
		r.Close()
	}
}

// TestBulkEvents: one event an object, numbered, and the skipped one in its place.
func TestBulkEvents(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	p := compile(t, "allocfuzz 1\ncache c objects=4 size=64\ncpu0 a,b,d = allocbulk c\n"+
		"cpu0 free c b\ncpu0 freebulk c d b a\n")
	res := r.Run(p, subject(t, "slub-2008-seq"), oracle.Options{})
	var got bytes.Buffer
	for _, ev := range res.Events {
		got.WriteString(strings.Join([]string{ev.Code.String(), p.Slots[ev.Slot],
			ev.Outcome.String(), string(rune('0' + ev.Part))}, " ") + "\n")
	}
	want := "alloc a ok 1\nalloc b ok 2\nalloc d ok 3\nfree b ok 0\n" +
		"free d ok 1\nfree b skipped 2\nfree a ok 3\n"
	if diff := cmp.Diff(want, got.String()); diff != "" || len(res.Faults) > 0 {
		t.Errorf("%s%v", diff, res.Faults)
	}
	if n := res.Counts.Operations; n != 7 {
		t.Errorf("%d operations", n)
	}
}

// TestBulkReuse: which object comes behind a bulk free is open, and a bulk allocation ends
// the promise of the free before it.
func TestBulkReuse(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	v := subject(t, "slab-2001-onelist-lifo")
	p := compile(t, "allocfuzz 1\ncache c objects=2 size=64\ncpu0 a,b,d,e = allocbulk c\n"+
		"cpu0 freebulk c a b\ncpu0 f = alloc c\ncpu0 free c f\ncpu0 g,h = allocbulk c\n"+
		"cpu0 i = alloc c\n")
	if res := r.Run(p, v, oracle.Options{}); len(res.Faults) > 0 {
		t.Error(res.Faults)
	}
}

// TestBulkCompared: sides that differ in one object of a bulk operation differ.
func TestBulkCompared(t *testing.T) {
	at := func(second impls.Outcome) []impls.Event {
		return []impls.Event{{Op: 1, Part: 1}, {Op: 1, Part: 2, Outcome: second}, {Op: 2}}
	}
	v := subject(t, "slub-2008-seq")
	for _, test := range []struct {
		outcome impls.Outcome
		differs bool
	}{{impls.OK, false}, {impls.NoMem, false}, {impls.Skipped, false}, {impls.Died, true}} {
		c := &oracle.Comparison{}
		c.Add(v, at(impls.OK), false)
		c.Add(v, at(test.outcome), false)
		d := c.Differences()
		if len(d) > 0 != test.differs || len(d) > 0 && d[0].Fault.Title != fault.OutcomesDiffer {
			t.Errorf("ok and %s: %v", test.outcome, d)
		}
	}
}

// TestBulkHistory: a history names the object of each event.
func TestBulkHistory(t *testing.T) {
	r := oracle.NewRunner()
	defer r.Close()
	p := compile(t, "allocfuzz 1\ncache c size=64\ncpu0 a,b = allocbulk c\ncpu0 freebulk c b a\n")
	v := subject(t, "slub-2008-seq")
	extra := &fault.Fault{Title: fault.OutcomesDiffer, Where: fault.Where{Line: 1, CPU: -1}}
	o, err := r.Explain(p, v, nil, oracle.Options{Extra: extra})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, st := range o.History {
		name, _, _ := strings.Cut(st.Outcome, " ")
		got = append(got, name)
	}
	if diff := cmp.Diff([]string{"a:", "b:", "b:", "a:"}, got); diff != "" {
		t.Error(diff)
	}
}
