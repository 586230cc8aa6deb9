package oracle_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// streamed runs text as a stream.
func streamed(r *oracle.Runner, text []byte, v *impls.Variant, opt oracle.Options) (
	*oracle.Result, error) {
	in, err := prog.NewReader("s.prog", bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	return r.Stream(in, v, opt)
}

// sum is what a stream and a whole program must agree in.
type sum struct {
	Counts oracle.Counts
	Titles []fault.Title
	Hash   uint64
	Steps  uint64
	Found  string
	Place  string
	Line   string
}

func sumOf(res *oracle.Result) sum {
	s := sum{Counts: res.Counts, Titles: titles(res), Hash: res.Hash, Steps: res.Steps}
	if f := res.Finding(); f != nil {
		_, s.Place, _ = strings.Cut(f.Place, ":")
		s.Found, s.Line = f.Identity(), f.Line
	}
	return s
}

// TestStreamAsWhole: a program that is read while it runs gives the counts, the
// trace and the findings of the whole one: every trace and every seed of one task.
func TestStreamAsWhole(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	ran := 0
	for f := range corpus.All() {
		p := compiled(t, f)
		if !p.Sequential() || len(p.Prog.Scheds) > 0 {
			continue
		}
		for i, v := range all.Variants() {
			trace := strings.HasPrefix(f.Name, "corpus/traces/")
			if ok, _ := oracle.Applies(p, v); !ok || trace && testing.Short() && i > 0 {
				continue
			}
			ran++
			for _, native := range []bool{false, true} {
				if native && p.Config.Word != 64 {
					continue // there are no such machines
				}
				opt := oracle.Options{Shallow: true, Native: native}
				whole := r.Run(p, v, opt)
				whole.Expect()
				want := sumOf(whole)
				res, err := streamed(r, f.Text, v, opt)
				if err != nil {
					t.Fatalf("%s on %s: %v", f.Name, v.Name, err)
				}
				if diff := cmp.Diff(want, sumOf(res)); diff != "" {
					t.Errorf("%s on %s, native %v: %s", f.Name, v.Name, native, diff)
				}
				if len(res.Events) > 0 {
					t.Errorf("%s on %s: %d events kept", f.Name, v.Name, len(res.Events))
				}
			}
		}
	}
	if ran < 100 && !testing.Short() {
		t.Errorf("%d runs", ran)
	}
}

// TestStreamFinds: what is wrong is found in a stream as in the whole program, at
// the same line, and what is stated is held against the outcomes.
func TestStreamFinds(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	rows := allRules()
	for _, text := range []string{
		"cpu0 a = malloc 8 => ok\ncpu0 free a => enomem\n",
		"cpu0 a = malloc 8\ncpu0 free a\ncpu0 free a => ok\ncpu0 a = malloc 8 => ok\n",
		"cpu0 repeat 3 {\n\tcpu0 repeat 2 {\n\t\tcpu0 a = malloc 8 => skipped\n" +
			"\t\tcpu0 free a\n\t}\n}\n",
		"cpu0 c = create size=8\ncpu0 a = alloc c\ncpu0 destroy c => ok\ncpu0 free c a\n" +
			"cpu0 destroy c => ok\ncpu0 a = alloc c => ok\n",
		"check\ncheck\ncpu0 a = malloc 8\ncheck\n",
		"check\n",
		"",
		"cpu1 a = malloc 8\n",
		"task one cpu=1\none a = malloc 8\ncheck\none free a\n",
		"cpu0 a = malloc 8\ncpu0 a = malloc 8\ncpu0 a = malloc 8 => enomem\n",
		"cache c size=8\ncpu0 a = alloc c\ncpu0 free c a\ncpu0 validate c => ok\n" +
			"cpu0 a = alloc c\n",
	} {
		rows = append(rows, rule{text: text})
	}
	for _, row := range rows {
		if row.title == fault.ReuseOrder || row.title == fault.FreeSlabKept ||
			row.title == fault.HeldOn {
			continue // seen in small whole programs only
		}
		head := "machine cpus=2\n"
		text := "allocfuzz 1\n" + head + strings.TrimPrefix(row.text, head)
		v := toySubject(row.bug)
		p := compile(t, text)
		opt := oracle.Options{Shallow: true}
		whole := r.Run(p, v, opt)
		whole.Expect()
		want := sumOf(whole)
		res, err := streamed(r, []byte(text), v, opt)
		if err != nil {
			t.Fatalf("%v of\n%s", err, text)
		}
		if diff := cmp.Diff(want, sumOf(res)); diff != "" {
			t.Errorf("%s %s: %s\nof\n%s", row.title, row.how, diff, text)
		}
	}
}

// TestStreamErrors: what a stream cannot do is an error with its place.
func TestStreamErrors(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := toySubject(toyBug{})
	old := toySubject(toyBug{})
	old.Machines = nil
	for _, row := range []struct {
		name, text string
		v          *impls.Variant
		want       string
	}{
		{"second task", "machine cpus=2\ncpu0 a = malloc 8\n\ncpu1 b = malloc 8\n", v,
			"s.prog:5:1: "},
		{"handler", "cpu0 a = malloc 8\nirq0 b = malloc 8\n", v, "s.prog:3:1: "},
		{"schedule", "cpu0 a = malloc 8\n\nsched\nat malloc(a) end - 1: none\n", v, "s.prog:4:1: "},
		{"schedule of nothing", "cache c size=8\n\nsched\n", v, "s.prog:4:1: "},
		{"bad line", "cpu0 a = malloc 8\ncpu0 b = mallok 8\n", v, "s.prog:3:10: "},
		{"machine", "cpu0 a = malloc 8\n", old, "toy: made for other machines"},
		{"remote", "cpu0 a = malloc 8\n", remoteOf(v, ""), "toy: a remote subject"},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, native := range []bool{false, true} {
				res, err := streamed(r, []byte("allocfuzz 1\n"+row.text), row.v,
					oracle.Options{Native: native})
				if err == nil || !strings.HasPrefix(err.Error(), row.want) || res != nil {
					t.Errorf("native %v: result %v, error %v, want %s", native, res, err, row.want)
				}
			}
		})
	}
	res, err := streamed(r, []byte("allocfuzz 1\ncpu0 a = malloc 8\n"), v, oracle.Options{})
	if err != nil || res.Counts.Operations != 1 {
		t.Errorf("afterwards: %v", err)
	}
}

// A maker is the text of a long trace that nobody ever holds whole: it keeps live
// objects, each under a name that is used once.
type maker struct {
	lines, at, live int
	buf             []byte
	peak            uint64 // bytes of the heap after a collection, at most
}

func (m *maker) Read(b []byte) (int, error) {
	if m.at == 0 && len(m.buf) == 0 {
		m.buf = append(m.buf, "allocfuzz 1\nmachine pages=256\ncache c size=64\n"...)
	}
	for len(m.buf) < len(b) && m.at < m.lines {
		if m.at%2 == 0 || m.at < 2*m.live {
			m.buf = fmt.Appendf(m.buf, "cpu0 x%d = alloc c\n", m.at)
		} else {
			m.buf = fmt.Appendf(m.buf, "cpu0 free c x%d\n", m.at-2*m.live+1)
		}
		m.at++
		if m.at%(m.lines/8) == 0 {
			var s runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&s)
			m.peak = max(m.peak, s.HeapAlloc)
		}
	}
	if len(m.buf) == 0 {
		return 0, io.EOF
	}
	n := copy(b, m.buf)
	m.buf = append(m.buf[:0], m.buf[n:]...)
	return n, nil
}

// TestStreamLong: a million lines need the memory of what is live.
func TestStreamLong(t *testing.T) {
	if testing.Short() {
		t.Skip("a million lines")
	}
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	v := subject(t, "slub-2008-seq")
	var peaks [2]uint64
	for i, lines := range []int{50000, 1000000} {
		m := &maker{lines: lines, live: 500}
		in, err := prog.NewReader("made.prog", m)
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.Stream(in, v, oracle.Options{Native: true})
		if err != nil {
			t.Fatal(err)
		}
		if res.Counts.Operations != lines || len(res.Faults) > 0 || res.Counts.Skipped > 0 ||
			res.Counts.Refused > 0 {
			t.Errorf("%+v, faults %q", res.Counts, res.Faults)
		}
		peaks[i] = m.peak
	}
	if peaks[1] > peaks[0]+4<<20 {
		t.Errorf("%d bytes for a million lines, %d for twenty times fewer", peaks[1], peaks[0])
	}
}

// TestStreamReader: an error of the input itself comes through.
func TestStreamReader(t *testing.T) {
	r := oracle.NewRunner()
	t.Cleanup(r.Close)
	gone := errors.New("gone")
	in, err := prog.NewReader("s.prog", io.MultiReader(
		strings.NewReader("allocfuzz 1\ncpu0 a = malloc 8\ncpu0 b = malloc 8\n"), failing{gone}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Stream(in, toySubject(toyBug{}), oracle.Options{}); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }
