package trace

import (
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
)

// eventList is a decoder of events written down in a test.
type eventList []Event

func (l *eventList) next(ev *Event) error {
	if len(*l) == 0 {
		return io.EOF
	}
	*ev = (*l)[0]
	*l = (*l)[1:]
	return nil
}

// TestEvents converts the kinds that mtrace does not write.
func TestEvents(t *testing.T) {
	const big = prog.MaxSize
	events := eventList{
		{Kind: Calloc, Line: 1, ID: 1, Count: 4, Size: 16},
		{Kind: Memalign, Line: 2, ID: 2, Align: 64, Size: 100},
		{Kind: Realloc, Line: 3, Old: 1, ID: 3, Size: 200},
		{Kind: Realloc, Line: 4, Old: 0, ID: 4, Size: 10},
		{Kind: Realloc, Line: 5, Old: 2, ID: 0, Size: 300}, // failed: 2 stays
		{Kind: Realloc, Line: 6, Old: 4, ID: 0, Size: 0},   // a free
		{Kind: Memalign, Line: 7, ID: 7, Align: 48, Size: 1},
		{Kind: Memalign, Line: 8, ID: 7, Align: 0, Size: 1},
		{Kind: Memalign, Line: 9, ID: 7, Align: 1 << 40, Size: 8},
		{Kind: Calloc, Line: 10, ID: 7, Count: 1 << 40, Size: 1 << 40},
		{Kind: Calloc, Line: 11, ID: 7, Count: big / 2, Size: 3},
		{Kind: Calloc, Line: 12, ID: 0, Count: 1, Size: 1},
		{Kind: Realloc, Line: 13, Old: 9, ID: 9, Size: 5}, // from before
		{Kind: Free, Line: 14, ID: 2},
		{Kind: Free, Line: 15, ID: 3},
	}
	var res Result
	var got []string
	opt := Options{Emit: func(l *prog.Line) error {
		got = append(got, strings.TrimSpace(fmt.Sprint(l.Verb, l.Results, l.Slots, l.Nums)))
		return nil
	}}
	c := newConverter(&opt, &res)
	if err := pump(&events, c, &opt); err != nil {
		t.Fatal(err)
	}
	c.finish(true)
	want := []string{
		"calloc [a0] [] [4 16]",
		"memalign [a1] [] [64 100]",
		"realloc [a2] [a0] [200]",
		"malloc [a0] [] [10]",
		"free [] [a0] []",
		"malloc [a0] [] [5]",
		"free [] [a1] []",
		"free [] [a2] []",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	wantSkipped := [skips]int{Unfit: 5, Failed: 2, UnknownObject: 1}
	if diff := cmp.Diff(wantSkipped, res.Skipped); diff != "" {
		t.Errorf("skipped (-want +got):\n%s", diff)
	}
	if res.LiveObjects != 1 || res.LiveBytes != 5 || res.PeakObjects != 3 || res.PeakBytes != 364 {
		t.Errorf("got live %d/%d, peak %d/%d; want 1/5, 3/364",
			res.LiveObjects, res.LiveBytes, res.PeakObjects, res.PeakBytes)
	}
}

// TestManyHalves demands that first halves without end are bounded, and that none is lost from the
// counts.
func TestManyHalves(t *testing.T) {
	var in strings.Builder
	const n = movesMax + 100
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&in, "+ %#x 0x10\n< %#x\n", i<<8, i<<8)
	}
	fmt.Fprintf(&in, "> 0x100 0x20\n")
	p, res, err := Program("mtrace", strings.NewReader(in.String()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if got := res.Skipped[HalfRealloc]; got != n-1 {
		t.Errorf("got %d half reallocs, want %d", got, n-1)
	}
	if res.LiveObjects != n || len(res.Warnings) != warningsMax ||
		res.WarningsMore != n-1-warningsMax {
		t.Errorf("got %d live, %d and %d warnings", res.LiveObjects, len(res.Warnings),
			res.WarningsMore)
	}
	last := p.Lines[len(p.Lines)-1]
	if want := fmt.Sprintf("a%d", n-1); last.Slots[0] != want {
		t.Errorf("the second half went to %s, want the latest, %s", last.Slots[0], want)
	}
}

// TestBounded demands that memory follows the objects live at once, not the length of the trace.
func TestBounded(t *testing.T) {
	const rounds, live = 4000, 10
	one := func(rounds int) (allocs float64, names map[string]bool) {
		names = make(map[string]bool)
		in := strings.Repeat(churn(live), rounds)
		opt := Options{Emit: func(l *prog.Line) error {
			for _, name := range l.Results {
				names[name] = true
			}
			return nil
		}}
		allocs = testing.AllocsPerRun(1, func() {
			if _, err := Import("mtrace", strings.NewReader(in), opt); err != nil {
				t.Fatal(err)
			}
		})
		return allocs, names
	}
	few, _ := one(1)
	many, names := one(rounds)
	if len(names) != live+1 {
		t.Errorf("got %d names for %d objects live at once", len(names), live+1)
	}
	if many > few+10 {
		t.Errorf("got %v allocations for %d rounds, %v for one", many, rounds, few)
	}
}

// TestMovesBounded demands that what waits for second halves stays within movesMax.
func TestMovesBounded(t *testing.T) {
	c := newConverter(&Options{}, new(Result))
	for i := range 3 * movesMax {
		c.moveFrom(uint64(i+1), &Event{Line: i + 1})
		if len(c.moves) > movesMax {
			t.Fatalf("%d moves wait, at most %d may", len(c.moves), movesMax)
		}
	}
	if first := c.moves[0].line; first != 2*movesMax+1 {
		t.Errorf("the oldest is of line %d, want %d", first, 2*movesMax+1)
	}
}

// churn is a piece of a trace that ends with nothing live; at most n+1 objects are.
func churn(n int) string {
	var b strings.Builder
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "@ x:[0x1] + %#x 0x18\n", i<<8)
	}
	fmt.Fprintf(&b, "@ x:[0x2] < 0x100\n@ x:[0x2] > 0x100 0x40\n")
	for i := 1; i <= n; i++ {
		fmt.Fprintf(&b, "@ x:[0x3] - %#x\n", i<<8)
	}
	return b.String()
}

func TestFootprint(t *testing.T) {
	tests := []struct {
		name   string
		size   uint64
		count  int
		pages  int
		enough bool
	}{
		{"one byte", 1, 1, 32, true},                   // (1 + 8) * 2 = 18
		{"a page of objects", 8, 512, 32, true},        // (1 + 8) * 2
		{"rounded up", 33, 64 * 16, 64, true},          // (16 + 8) * 2 = 48
		{"the largest class", 8192, 4, 32, true},       // (8 + 8) * 2 = 32
		{"the smallest block", 8193, 4, 32, true},      // 16 * 2
		{"a block and a half", 24 << 10, 8, 128, true}, // 64 * 2
		{"half the largest machine", 1 << 31, 1, 1 << 20, true},
		{"more than that", 1<<31 + 1, 1, 1 << 20, false},
		{"far more", prog.MaxSize, 3, 1 << 20, false},
		{"two of half", 1 << 31, 2, 1 << 20, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var f footprint
			for range test.count {
				f.add(test.size)
			}
			for range test.count {
				f.remove(test.size)
			}
			if pages, enough := f.pages(); pages != test.pages || enough != test.enough {
				t.Errorf("got %d pages, enough %v; want %d, %v",
					pages, enough, test.pages, test.enough)
			}
			if f.objects != 0 || f.bytes != 0 {
				t.Errorf("got %d objects, %d bytes after all are gone", f.objects, f.bytes)
			}
		})
	}
	if pages, _ := new(footprint).pages(); pages != pagesMin {
		t.Errorf("got %d pages for nothing, want %d", pages, pagesMin)
	}
}

// BenchmarkImport measures lines read, converted and printed.
func BenchmarkImport(b *testing.B) {
	const rounds, live = 1000, 10
	in := strings.Repeat(churn(live), rounds)
	lines := strings.Count(in, "\n")
	for b.Loop() {
		if _, err := Write(io.Discard, "mtrace", strings.NewReader(in), Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(lines)*float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}
