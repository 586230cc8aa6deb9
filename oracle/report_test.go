package oracle_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
)

var update = flag.Bool("update", false, "write the golden reports anew")

// report explains what a program shows on a subject under its own block.
func report(t *testing.T, text string, v *impls.Variant) *oracle.Report {
	t.Helper()
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := named(t, text)
	if len(p.Prog.Scheds) > 0 {
		rep, err := r.Explain(p, v, &p.Prog.Scheds[0], oracle.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	rep, err := r.Explain(p, v, nil, oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

func textOf(t *testing.T, rep *oracle.Report) string {
	t.Helper()
	var b strings.Builder
	if err := rep.Text(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestReportGolden: the whole text of a report.
func TestReportGolden(t *testing.T) {
	aba := ""
	for f := range corpus.Regress() {
		if strings.HasSuffix(f.Name, "/slub-2008-cmpxchg-aba.prog") {
			aba = string(f.Text)
		}
	}
	for _, row := range []struct {
		name, text string
		v          *impls.Variant
	}{
		{"aba", aba, subject(t, "slub-2008-cmpxchg")},
		{"folded", "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 repeat 40 {\n\tcpu0 b = malloc 16\n" +
			"\tcpu0 free b\n}\n", toySubject(late(50))},
		{"aborted", "allocfuzz 1\ncpu0 a = malloc 8\ncpu0 free a\n", toySubject(dies(2))},
		{"lost", "allocfuzz 1\n" + twoObjects,
			toySubject(toyBug{show: structureRules[2].bug.show})},
	} {
		t.Run(row.name, func(t *testing.T) {
			rep := report(t, row.text, row.v)
			rep.Command = "allocfuzz replay --subject " + row.v.Name + " t.prog"
			got := unmoved(textOf(t, rep))
			file := filepath.Join("testdata", "report-"+row.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s differs (-update writes it anew): %s", file, diff)
			}
		})
	}
}

var hash = regexp.MustCompile(`\nTRACE: [0-9a-f]{16}\n`)

// unmoved takes out what moves with the sources: the hash of the trace and the stack
// of a panic.
func unmoved(s string) string {
	s = hash.ReplaceAllString(s, "\nTRACE: (hash)\n")
	head, _, ok := strings.Cut(s, "\nSTACK\n")
	if ok {
		return head + "\nSTACK\n…\n"
	}
	return s
}

// dies is a subject that panics in its n-th call.
func dies(n int) toyBug {
	return toyBug{call: func(t *toy, _ *machine.Ctx) {
		if t.calls == n {
			panic("toy: broken")
		}
	}}
}

// long is a program of n thousand lines.
func long(n int) string {
	var b strings.Builder
	b.WriteString("allocfuzz 1\ncpu0 keep = malloc 64\n")
	for i := range n * 500 {
		fmt.Fprintf(&b, "cpu0 x%d = malloc %d\ncpu0 free x%d\n", i%7, 8+i%5*8, i%7)
	}
	return b.String()
}

// late hands out what is live in its n-th allocation, once.
func late(n int) toyBug {
	given := 0
	return toyBug{setUp: func(*toy) { given = 0 },
		give: func(_ *toy, a impls.Addr, _ uint64) impls.Addr {
			if given++; given == n/2 {
				return toyPage
			}
			return a
		}}
}

// TestReportParts: what a report must say, in order.
func TestReportParts(t *testing.T) {
	text := textOf(t, report(t, "allocfuzz 1\n"+twoObjects, toySubject(ownershipRules[1].bug)))
	at := 0
	for _, part := range []string{"TITLE: toy: object handed out twice\n", "CLASS: ownership\n",
		"ALSO: ", "IDENTITY: toy: object handed out twice in alloc\n", "MEANS: ", "FOUND: ",
		"TRACE: ", "\nPROGRAM\n", "cpu0 b = alloc c\n", "\nHISTORY\n", "operation", "model\n",
		"cpu0 a = alloc c", "ok ; addr=", "cpu0 b = alloc c", "object handed out twice: 0x",
		"(end of the program)", "\nSTATE when the first fault was raised\n", "slab of c at page"} {
		n := strings.Index(text[at:], part)
		if n < 0 {
			t.Fatalf("%q is not behind byte %d of\n%s", part, at, text)
		}
		at += n
	}
}

// TestHistoryNearFaults: of a long history the beginning and what is around each
// fault is kept, wherever it is, and what is left out is counted.
func TestHistoryNearFaults(t *testing.T) {
	for _, n := range []int{100, 1000, 3000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			rep := report(t, long(4), toySubject(late(n)))
			if len(rep.History) > 220 {
				t.Errorf("%d rows", len(rep.History))
			}
			at, before, left := -1, 0, 0
			for i, s := range rep.History {
				if strings.HasPrefix(s.Line, "…") {
					var k int
					fmt.Sscanf(s.Line, "… %d", &k)
					left += k
				}
				if strings.HasPrefix(s.Model, string(fault.TwiceOut)) {
					at = i
				}
			}
			if at < 0 || rep.History[0].Line != "cpu0 keep = malloc 64" {
				t.Fatalf("no fault among %d rows, the first %+v", len(rep.History), rep.History[0])
			}
			for i := at - 1; i >= 0 && !strings.HasPrefix(rep.History[i].Line, "…"); i-- {
				before++
			}
			if before < 20 || at+4 > len(rep.History) {
				t.Errorf("%d rows before the fault, at %d of %d", before, at, len(rep.History))
			}
			if left < 3000 {
				t.Errorf("%d lines left out", left)
			}
		})
	}
}

// TestHistoryFolds: what repeats is there once, with the number of times, and a
// fault in the middle is not folded away.
func TestHistoryFolds(t *testing.T) {
	rows := func(rep *oracle.Report) string {
		var b strings.Builder
		for _, s := range rep.History {
			line := s.Line
			if s.Model != "ok" && s.Model != "" {
				line += " <- fault"
			}
			b.WriteString(line + "\n")
		}
		return b.String()
	}
	last := "cpu0 usable a\n"
	for _, row := range []struct{ name, text, want string }{
		{"one line", "cpu0 a = malloc 8\ncpu0 repeat 42 {\n\tcpu0 verify a\n}\n" + last,
			"cpu0 a = malloc 8\ncpu0 verify a\n… 41 more like it\ncpu0 usable a <- fault\n"},
		{"two lines",
			"cpu0 a = malloc 8\ncpu0 repeat 9 {\n\tcpu0 b = malloc 16\n\tcpu0 free b\n}\n" +
				last,
			"cpu0 a = malloc 8\ncpu0 b = malloc 16\ncpu0 free b\n" +
				"… 8 more like the last 2 lines\n" +
				"cpu0 usable a <- fault\n"},
		{"nested", "cpu0 a = malloc 8\ncpu0 repeat 5 {\n\tcpu0 verify a\n\tcpu0 repeat 2 {\n" +
			"\t\tcpu0 b = malloc 16\n\t\tcpu0 free b\n\t}\n}\n" + last,
			"cpu0 a = malloc 8\ncpu0 verify a\ncpu0 b = malloc 16\ncpu0 free b\n" +
				"cpu0 b = malloc 16\n" +
				"cpu0 free b\n… 4 more like the last 5 lines\ncpu0 usable a <- fault\n"},
		{"too few", "cpu0 a = malloc 8\ncpu0 repeat 2 {\n\tcpu0 verify a\n}\n" + last,
			"cpu0 a = malloc 8\ncpu0 verify a\ncpu0 verify a\ncpu0 usable a <- fault\n"},
		{"faults", "cpu0 a = malloc 8\ncpu0 repeat 4 {\n\tcpu0 usable a\n}\n",
			"cpu0 a = malloc 8\n" + strings.Repeat("cpu0 usable a <- fault\n", 4)},
		{"other addresses", "cpu0 repeat 5 {\n\tcpu0 b = malloc 16\n}\ncpu0 a = malloc 8\n" + last,
			strings.Repeat("cpu0 b = malloc 16\n", 5) +
				"cpu0 a = malloc 8\ncpu0 usable a <- fault\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			rep := report(t, "allocfuzz 1\n"+row.text, toySubject(toyBug{usable: -1}))
			if diff := cmp.Diff(row.want, rows(rep)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestHistoryIteration: a fault of the structure stands at the iteration behind which
// it was seen.
func TestHistoryIteration(t *testing.T) {
	bug := toyBug{show: func(t *toy, s *impls.Snapshot) {
		if t.calls >= 4 {
			s.Counts[0].Stored++
		}
	}}
	rep := report(t, "allocfuzz 1\ncache c size=64\ncpu0 repeat 9 {\n\tcpu0 a = malloc 8\n}\n",
		toySubject(bug))
	for i, s := range rep.History {
		if (s.Model != "ok") != (i == 3) {
			t.Errorf("row %d: %+v", i, s)
		}
	}
}

// TestStateFolds: objects in one state are one line, those of a freelist with their
// numbers.
func TestStateFolds(t *testing.T) {
	bug := toyBug{show: func(_ *toy, s *impls.Snapshot) {
		if len(s.Slabs) == 0 {
			return
		}
		b := &s.Slabs[0]
		b.Objects = 40
		b.Free, b.CPUFree = b.Free[:0], b.CPUFree[:0]
		for i := range 10 {
			b.Free = append(b.Free, b.First+uint64(i+10)*64)
			b.CPUFree = append(b.CPUFree, b.First+uint64(9-i)*64)
		}
		b.Free = append(b.Free, b.First+64*30, b.First+64*30)
	}}
	rep := report(t, "allocfuzz 1\n"+twoObjects, toySubject(bug))
	state := strings.Join(rep.State, "\n")
	for _, want := range []string{
		"  0x1000  live a, and free, number 10 of the CPU's list   <-- both",
		"  0x1040  free, number 9 of the CPU's list",
		"  0x1280 … 0x14c0  10 objects free, numbers 1 to 10 of the slab's list",
		"  0x1500 … 0x1740  10 objects on no list and not live",
		"  0x1780  free, number 12 of the slab's list   <-- twice",
	} {
		if !strings.Contains(state, want) {
			t.Errorf("no line %q in\n%s", want, state)
		}
	}
	if len(rep.State) > 20 {
		t.Errorf("%d lines:\n%s", len(rep.State), state)
	}
}

// TestExplainErrors: a finding that does not repeat, and a schedule of another
// program.
func TestExplainErrors(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	p := named(t, "allocfuzz 1\n"+twoObjects)
	_, err := r.Explain(p, toySubject(toyBug{}), nil, oracle.Options{})
	if err == nil || !strings.Contains(err.Error(), "did not repeat on toy") {
		t.Errorf("error %v", err)
	}
	other := named(t, inBlock("sched\nat alloc(w) end - 1: irq0\n"))
	if _, err := r.Explain(p, toySubject(toyBug{}), &other.Prog.Scheds[0],
		oracle.Options{}); err == nil {
		t.Error("a schedule of another program: no error")
	}
}
