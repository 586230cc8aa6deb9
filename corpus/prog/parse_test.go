package prog

import (
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// TestFaults demands the whole message of every fault, position included.
func TestFaults(t *testing.T) {
	for _, c := range faults {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParseString(c.text)
			if err == nil {
				t.Fatalf("accepted, want %q:\n%s", c.want, p)
			}
			if d := cmp.Diff(c.want, err.Error()); d != "" {
				t.Errorf("message (-want +got):\n%s", d)
			}
			var e *Error
			if !errors.As(err, &e) || e.Pos.Line == 0 || e.Pos.Col == 0 {
				t.Errorf("%#v: want an *Error with a position", err)
			}
		})
	}
}

// TestFaultNamesFile demands the file's name in front of the position.
func TestFaultNamesFile(t *testing.T) {
	for _, text := range []string{"", "x", objs + "cpu0 free c b\n", objs + "cpu0 free\n"} {
		_, err := Parse("dir/a.prog", strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), "dir/a.prog:") {
			t.Errorf("%q: %v, want dir/a.prog: at its start", text, err)
		}
	}
}

// TestInputErrors demands that errors of the input come back wrapped, whole or after some lines.
func TestInputErrors(t *testing.T) {
	broken := errors.New("disk on fire")
	for _, text := range []string{"", first, objs, objs + "cpu0 repeat 2 {\n"} {
		in := io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
		if _, err := Parse("a.prog", in); !errors.Is(err, broken) {
			t.Errorf("after %q: %v, want the input's error", text, err)
		}
		in = io.MultiReader(strings.NewReader(text), iotest.ErrReader(broken))
		if _, _, err := ParseRepair("a.prog", in); !errors.Is(err, broken) {
			t.Errorf("repair after %q: %v, want the input's error", text, err)
		}
	}
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	if _, err := Parse("dir", dir); err == nil {
		t.Error("a directory was accepted")
	}
}

// TestLongLines demands the limit on both sides, in comments, operations and what they print as.
func TestLongLines(t *testing.T) {
	comment := "#" + strings.Repeat("x", MaxLine-1)
	if _, err := ParseString(objs + comment + "\n"); err != nil {
		t.Errorf("a comment of %d bytes: %v", len(comment), err)
	}
	if _, err := ParseString(objs + "\t \t" + comment + "\n"); err != nil {
		t.Errorf("the same, indented: %v", err)
	}
	want := "4:65537: line too long; expected at most 65536 bytes"
	for _, text := range []string{comment + "x", comment + comment + comment} {
		_, err := ParseString(objs + text + "\n")
		if err == nil || err.Error() != want {
			t.Errorf("a comment of %d bytes: %v, want %s", len(text), err, want)
		}
		_, err = ParseString(objs + text)
		if err == nil || err.Error() != want {
			t.Errorf("at the end of the file: %v, want %s", err, want)
		}
	}
	// Zero width spaces are printed as escapes, twice as long.
	title := strings.Repeat("\u200b", MaxLine/4)
	_, err := ParseString(objs + "cpu0 free c a => report \"" + title + "\"\n")
	if err == nil || !strings.Contains(err.Error(), "when printed") {
		t.Errorf("a title that prints too long: %v", err)
	}
	_, err = ParseString(objs + "sched => bug \"" + title + "\"\n")
	if err == nil || !strings.Contains(err.Error(), "when printed") {
		t.Errorf("a bug that prints too long: %v", err)
	}
}

// TestDebugAt demands the place of the first option, for whoever reads the options.
func TestDebugAt(t *testing.T) {
	p, err := ParseString(first + "\n machine cpus=2  debug=\"FZ\" word=32\n")
	if err != nil {
		t.Fatal(err)
	}
	if want := (Pos{Line: 3, Col: 25}); p.DebugAt != want || p.Machine.Debug != "FZ" {
		t.Errorf("options %q at %v, want FZ at %v", p.Machine.Debug, p.DebugAt, want)
	}
}

// TestReaderStreams demands that lines come out before the input is at its end, and that little
// more of it is held than a line.
func TestReaderStreams(t *testing.T) {
	const lines = 200_000
	in := &counter{in: strings.NewReader(string(trace(lines)) + "sched => bug \"x\"\n# tail\n")}
	r, err := NewReader("", in)
	if err != nil {
		t.Fatal(err)
	}
	if r.Program().Machine.Pages != 4096 || in.n > MaxLine+2*slack {
		t.Errorf("%d pages after %d bytes", r.Program().Machine.Pages, in.n)
	}
	n := 0
	for {
		l, err := r.NextLine()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if n++; n == 1 && (l.Key() != "p0" || in.n > MaxLine+2*slack) {
			t.Errorf("first line %s after %d bytes", AppendLine(nil, &l), in.n)
		}
	}
	p := r.Program()
	if n != lines || len(p.Lines) != 0 || len(p.Scheds) != 1 || len(p.Tail) != 1 {
		t.Errorf("%d lines, %d held, %d schedules, tail %q", n, len(p.Lines), len(p.Scheds), p.Tail)
	}
	if _, err := r.NextLine(); err != io.EOF {
		t.Errorf("after the end: %v, want EOF again", err)
	}
}

// TestReaderStops demands that an error comes back from every later call.
func TestReaderStops(t *testing.T) {
	r, err := NewReader("", strings.NewReader(objs+"cpu0 jump\ncpu0 free c a\n"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.NextLine(); err != nil {
		t.Fatal(err)
	}
	_, bad := r.NextLine()
	if l, err := r.NextLine(); bad == nil || err != bad || l.Pos.Line != 0 {
		t.Errorf("second call: %v and line %d, want %v", err, l.Pos.Line, bad)
	}
}

// TestReaderKeepsLines demands that a line stays as it is while later ones are read.
func TestReaderKeepsLines(t *testing.T) {
	r, err := NewReader("", strings.NewReader(cache+"cpu0 a,b = allocbulk c\n"+
		"cpu0 p = calloc 4 16 fail=1\ncpu0 x,y = allocbulk c\ncpu0 freebulk c x y\n"))
	if err != nil {
		t.Fatal(err)
	}
	var lines []Line
	var texts []string
	for {
		l, err := r.NextLine()
		if err != nil {
			break
		}
		lines = append(lines, l)
		texts = append(texts, string(AppendLine(nil, &l)))
	}
	for i := range lines {
		if got := string(AppendLine(nil, &lines[i])); got != texts[i] {
			t.Errorf("line %d became %q, was %q", i+1, got, texts[i])
		}
	}
}

// TestLegalNames holds uses of a name before the line that binds it which are not faults.
func TestLegalNames(t *testing.T) {
	two := first + "machine cpus=2\ncache c size=64\ntask t cpu=1\n"
	for name, text := range map[string]string{
		"bound by another cpu":      "cpu0 free c a\ncpu1 a = alloc c\n",
		"bound by a handler":        "cpu0 free c a\nirq0 a = alloc c\n",
		"bound by both":             "cpu0 free c a\ncpu0 a = alloc c\ncpu1 a = alloc c\n",
		"bound by a task":           "cpu1 free c a\nt a = alloc c\n",
		"next round":                "cpu0 repeat 2 {\ncpu0 free c a\ncpu0 a = alloc c\n}\n",
		"bound in an earlier round": "cpu0 repeat 2 {\ncpu0 a = alloc c\n}\ncpu0 free c a\n",
		"cache of another cpu":      "cpu0 a = alloc d\ncpu1 d = create size=8\n",
		"cache again": "cpu0 d = create size=8\ncpu0 destroy d\n" +
			"cpu0 d = create size=9\n",
		"own new name":       "cpu0 a = alloc c\ncpu0 a = realloc a 8\n",
		"binding never used": "cpu0 a = alloc c\ncpu0 a = alloc c\n",
	} {
		if _, err := ParseString(two + text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// counter counts the bytes read.
type counter struct {
	in io.Reader
	n  int
}

func (c *counter) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	c.n += n
	return n, err
}
