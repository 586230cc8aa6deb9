package trace

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
)

// window is what a slice of a program must be, without the names of objects: objects from before
// are not freed, and resizing one is allocating it.
func window(lines []prog.Line, from, to int) []string {
	var out []string
	inside := map[string]bool{}
	for i := range lines {
		l := lines[i]
		known := len(l.Slots) == 0 || inside[l.Slots[0]]
		for _, name := range l.Slots {
			delete(inside, name)
		}
		if n := i + 1; n < from || n > to || !known && l.Verb == prog.Free {
			continue
		}
		if !known {
			l.Verb = prog.Malloc
		}
		for _, name := range l.Results {
			inside[name] = true
		}
		out = append(out, shape(&l))
	}
	return out
}

// shape is a line without the names of objects.
func shape(l *prog.Line) string {
	return strings.TrimSpace(fmt.Sprint(l.Ctx, " ", l.Verb, " ", l.Cache, " ", l.Nums))
}

// TestSlice: every window of a trace is that window of its program, on objects of its own.
func TestSlice(t *testing.T) {
	for _, s := range samples {
		in := sample(t, s.file)
		whole, _, err := Program("", strings.NewReader(in), Options{})
		if err != nil {
			t.Fatal(err)
		}
		n := len(whole.Lines)
		for from := 1; from <= n; from++ {
			for to := from; to <= n; to++ {
				want := window(whole.Lines, from, to)
				p, res, err := Program("", strings.NewReader(in), Options{From: from, To: to})
				if err != nil && len(want) == 0 {
					continue
				}
				if err != nil {
					t.Fatalf("%s %d:%d: %v", s.format, from, to, err)
				}
				var got []string
				for i := range p.Lines {
					got = append(got, shape(&p.Lines[i]))
				}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("%s %d:%d (-want +got):\n%s", s.format, from, to, diff)
				}
				checkProgram(t, p, &res)
				if res.From != from || to < n && !res.Cut {
					t.Errorf("%s %d:%d: from %d, cut %v", s.format, from, to, res.From, res.Cut)
				}
			}
		}
	}
}

// TestSliceCounts: what a slice leaves out is counted, and one behind the end says so.
func TestSliceCounts(t *testing.T) {
	in := text([]string{"+ 0x10 1", "+ 0x10 0x1", "+ 0x20 0x2", "- 0x10", "< 0x20", "> 0x30 0x3"})
	res, err := Import("mtrace", strings.NewReader(in), Options{From: 3})
	if err != nil || res.Operations != 1 || res.Skipped[BeforeSlice] != 2 || res.LiveBytes != 3 ||
		res.PeakObjects != 1 {
		t.Errorf("%v, %+v", err, res)
	}
	_, err = Import("mtrace", strings.NewReader(in), Options{File: "f", From: 5})
	const want = "f: no operation in the slice from 5; the trace has 4 up to its end"
	if err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
}
