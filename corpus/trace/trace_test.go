package trace

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
)

// imports are inputs and the lines of their programs.
var imports = []struct {
	name string
	in   []string
	want []string
}{
	{
		name: "a name is used again once it is free",
		in: []string{
			"= Start",
			"@ ls:[0x4025d4] + 0x1000 0x20",
			"@ ls:(f+0x1c)[0x402611] + 0x2000 0x7",
			"@ ls:[0x402611] - 0x1000",
			"@ ls:[0x402611] + 0x3000 0x100",
			"@ ls:[0x402611] + 0x4000 0",
			"= End",
		},
		want: []string{
			"cpu0 a0 = malloc 32",
			"cpu0 a1 = malloc 7",
			"cpu0 free a0",
			"cpu0 a0 = malloc 256",
			"cpu0 a2 = malloc 0",
		},
	}, {
		name: "realloc moves and stays",
		in: []string{
			"@ x:[0x1] + 0x1000 0x20",
			"@ x:[0x2] < 0x1000",
			"@ x:[0x2] > 0x2000 0x40",
			"@ x:[0x2] < 0x2000",
			"@ x:[0x2] > 0x2000 0x80",
			"@ x:[0x3] - 0x2000",
		},
		want: []string{
			"cpu0 a0 = malloc 32",
			"cpu0 a1 = realloc a0 64",
			"cpu0 a0 = realloc a1 128",
			"cpu0 free a0",
		},
	}, {
		name: "the caller is any text, or absent",
		in: []string{
			"@ /opt/a b + 0x1 0x2/bin:[0x1] + 0x1000 0x20",
			"+ 0x2000 0x30",
			"@ [0x77] - 0x1000",
			"- 0x2000\r",
		},
		want: []string{
			"cpu0 a0 = malloc 32", "cpu0 a1 = malloc 48", "cpu0 free a0", "cpu0 free a1",
		},
	}, {
		name: "threads between the two lines of a realloc",
		in: []string{
			"@ x:[0x1] + 0x1000 0x10",
			"@ x:[0x1] + 0x2000 0x20",
			"@ x:[0x8] < 0x1000",
			"@ x:[0x1] + 0x1000 0x30", // the place is free already
			"@ x:[0x9] < 0x2000",
			"@ x:[0x1] - 0x1000",
			"@ x:[0x8] > 0x5000 0x11",
			"@ x:[0x9] > 0x6000 0x21",
			"@ x:[0x1] - 0x6000",
			"@ x:[0x1] - 0x5000",
		},
		want: []string{
			"cpu0 a0 = malloc 16",
			"cpu0 a1 = malloc 32",
			"cpu0 a2 = malloc 48",
			"cpu0 free a2",
			"cpu0 a2 = realloc a0 17",
			"cpu0 a0 = realloc a1 33",
			"cpu0 free a0",
			"cpu0 free a2",
		},
	}, {
		name: "what failed or is not known is left out",
		in: []string{
			"@ x:[0x1] - 0x9000",
			"@ x:[0x1] - (nil)",
			"@ x:[0x1] + (nil) 0xffffffffffffff",
			"@ x:[0x1] + 0 0x10",
			"@ x:[0x1] + 0x1000 0x10",
			"@ x:[0x1] ! 0x1000 0xfffffffffffff",
			"@ x:[0x2] < 0x8000",
			"@ x:[0x2] > 0x8100 0x50",
			"@ x:[0x1] + 0x7000 0xfffffffffffff",
			"@ x:[0x1] - 0x7000",
			"@ x:[0x1] - 0x1000",
		},
		want: []string{"cpu0 a0 = malloc 16", "cpu0 a1 = malloc 80", "cpu0 free a0"},
	}, {
		name: "a place handed out twice",
		in: []string{
			"@ x:[0x1] + 0x1000 0x10",
			"@ x:[0x1] + 0x1000 0x20",
			"@ x:[0x1] + 0x2000 0x30",
			"@ x:[0x2] < 0x2000",
			"@ x:[0x2] > 0x1000 0x40",
		},
		want: []string{
			"cpu0 a0 = malloc 16",
			"cpu0 free a0",
			"cpu0 a0 = malloc 32",
			"cpu0 a1 = malloc 48",
			"cpu0 free a0",
			"cpu0 a0 = realloc a1 64",
		},
	}, {
		name: "half reallocs",
		in: []string{
			"@ x:[0x1] + 0x1000 0x10",
			"@ x:[0x1] + 0x2000 0x20",
			"@ x:[0x2] > 0x3000 0x30",
			"@ x:[0x2] < 0x1000",
			"@ x:[0x2] < 0x2000",
			"@ x:[0x2] > 0x2000 0x40",
		},
		want: []string{
			"cpu0 a0 = malloc 16",
			"cpu0 a1 = malloc 32",
			"cpu0 a2 = malloc 48",
			"cpu0 a3 = realloc a1 64",
		},
	}, {
		name: "reallocs to nowhere",
		in: []string{
			"@ x:[0x1] + 0x1000 0x10",
			"@ x:[0x1] + 0x2000 0x20",
			"@ x:[0x1] + 0x3000 0x30",
			"@ x:[0x2] < 0x1000",
			"@ x:[0x2] > (nil) 0x40",
			"@ x:[0x2] < 0x2000",
			"@ x:[0x2] > (nil) 0",
			"@ x:[0x2] < 0x3000",
			"@ x:[0x2] > 0x4000 0xfffffffffffff",
			"@ x:[0x2] - 0x1000",
		},
		want: []string{
			"cpu0 a0 = malloc 16",
			"cpu0 a1 = malloc 32",
			"cpu0 a2 = malloc 48",
			"cpu0 free a1",
			"cpu0 free a2",
			"cpu0 free a0",
		},
	},
}

func TestImport(t *testing.T) {
	for _, test := range imports {
		t.Run(test.name, func(t *testing.T) {
			in := text(test.in)
			p, res, err := Program("mtrace", strings.NewReader(in), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, body(p)); diff != "" {
				t.Errorf("lines (-want +got):\n%s", diff)
			}
			if res.Lines != len(test.in) || res.Operations != len(test.want) || res.Cut {
				t.Errorf("got %d lines, %d operations, cut %v; want %d, %d, false",
					res.Lines, res.Operations, res.Cut, len(test.in), len(test.want))
			}
			checkText(t, in, p.String())
		})
	}
}

// checkText demands that Write prints the program that Program returned, that it parses, and that
// it is canonical.
func checkText(t *testing.T, in, want string) {
	t.Helper()
	var out strings.Builder
	if _, err := Write(&out, "", strings.NewReader(in), Options{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("Program and Write differ (-Program +Write):\n%s", diff)
	}
	p, err := prog.Parse("out.prog", strings.NewReader(out.String()))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(out.String(), p.String()); diff != "" {
		t.Errorf("not canonical (-printed +formatted):\n%s", diff)
	}
}

func TestSkipped(t *testing.T) {
	in := text([]string{
		"= Start",
		"@ x:[0x1] + 0x1000 0x10",
		"nonsense",
		"@ x:[0x1] + 0x1000 0x20",
		"@ x:[0x1] - 0x5000",
		"@ x:[0x1] - (nil)",
		"@ x:[0x1] + (nil) 0x40",
		"@ x:[0x1] + 0x6000 0x800000000001",
		"",
		"@ x:[0x2] < 0x1000",
		strings.Repeat("x", lineMax+100),
		"@ x:[0x3] > 0x2000 0xZZ",
	}) + "@ x:[0x3] + 0x2000 0x1"
	_, got, err := Program("mtrace", strings.NewReader(in), Options{File: "x.mtrace"})
	if err != nil {
		t.Fatal(err)
	}
	want := Result{
		Format: "mtrace", Lines: 13, Operations: 3,
		Skipped: [skips]int{
			Mark: 2, UnknownLine: 3, Truncated: 1, Failed: 1, UnknownObject: 1, Null: 1, Unfit: 1,
			HalfRealloc: 1, Lost: 1,
		},
		Warnings: []Warning{
			{3, `unknown line "nonsense"; expected an mtrace line such as ` +
				`"@ prog:[0x1] + 0x5560 0x20"`},
			{4, "0x1000 allocated again while live since line 2; its free is lost, so it is " +
				"freed first"},
			{8, "malloc of [140737488355329] does not fit a program; expected at most " +
				"140737488355328 bytes and an alignment that is a power of two"},
			{11, "line longer than 65536 bytes"},
			{12, `unknown line "@ x:[0x3] > 0x2000 0xZZ"; expected an mtrace line such as ` +
				`"@ prog:[0x1] + 0x5560 0x20"`},
			{13, `the last line "@ x:[0x3] + 0x2000 0x1" has no end; it may be cut`},
			{10, "realloc of 0x1000 without its second line; the object stays live"},
		},
		PeakObjects: 1, PeakBytes: 32, LiveObjects: 1, LiveBytes: 32, Pages: 64, CPUs: 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if n := got.SkippedOperations(); n != 10 {
		t.Errorf("got %d skipped operations, want 10", n)
	}
}

func TestErrors(t *testing.T) {
	known := strings.Join(Formats(), ", ")
	const ok = "@ x:[0x1] + 0x1000 0x10\n"
	tests := []struct {
		name, format, in string
		strict           bool
		want             string
	}{
		{"empty", "", "", false, "f: empty input; expected a trace (" + known + ")"},
		{"empty, format named", "mtrace", "", false,
			"f: empty input; expected a trace (" + known + ")"},
		{"unknown format", "nosuch", ok, false,
			`f: unknown trace format "nosuch"; expected one of: ` + known},
		{"text of no format", "", "hello\nworld\n", false,
			"f:1: format not recognised; expected a trace in one of: " + known +
				"; name the format to read it all the same"},
		{"binary", "", "\x7fELF\x00\x00\n\x00", false,
			"f:1: binary data; expected a trace in one of: " + known +
				"; name the format to read it all the same"},
		{"binary, format named", "mtrace", "\x7fELF\x00\x00\n\x00", false,
			"f: no operation in 2 lines of format mtrace; expected allocations that succeeded"},
		{"nothing succeeded", "", "= Start\n@ x:[0x1] + (nil) 0x10\n= End\n", false,
			"f: no operation in 3 lines of format mtrace; expected allocations that succeeded"},
		{"strict: unknown line", "", ok + "@ x:[0x1] * 0x1000\n" + ok, true,
			`f:2: unknown line "@ x:[0x1] * 0x1000"; expected an mtrace line such as ` +
				`"@ prog:[0x1] + 0x5560 0x20"`},
		{"strict: NUL bytes", "", ok + ok + "\x00\x00\n", true,
			`f:3: unknown line "\x00\x00"; expected an mtrace line such as ` +
				`"@ prog:[0x1] + 0x5560 0x20"`},
		{"strict: long line", "", ok + strings.Repeat("y", 3*lineMax) + "\n", true,
			"f:2: line longer than 65536 bytes"},
		{"strict: cut line", "", ok + ok + "@ x:[0x1] - 0x10", true,
			`f:3: the last line "@ x:[0x1] - 0x10" has no end; it may be cut`},
		{"strict: size", "", ok + "@ x:[0x1] + 0x2000 0xffffffffffffffff\n", true,
			"f:2: malloc of [18446744073709551615] does not fit a program; expected at most " +
				"140737488355328 bytes and an alignment that is a power of two"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			opt := Options{File: "f", Strict: test.strict}
			var out strings.Builder
			_, err := Write(&out, test.format, strings.NewReader(test.in), opt)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("got error %v, want an *Error", err)
			}
			if diff := cmp.Diff(test.want, err.Error()); diff != "" {
				t.Errorf("message (-want +got):\n%s", diff)
			}
			if out.Len() > 0 {
				t.Errorf("%d bytes were written in spite of the error", out.Len())
			}
		})
	}
}

// TestStrictAccepts demands that Strict does not refuse what a sound recording has.
func TestStrictAccepts(t *testing.T) {
	in := text([]string{
		"= Start", "@ x:[0x1] + 0x1000 0x10", "@ x:[0x1] - 0x5000", "@ x:[0x1] + (nil) 0x9",
		"@ x:[0x1] + 0x1000 0x20", "@ x:[0x1] ! 0x1000 0x99", "", "= End",
	})
	res, err := Import("", strings.NewReader(in), Options{Strict: true})
	if err != nil || res.Operations != 3 {
		t.Errorf("got %d operations, error %v; want 3, nil", res.Operations, err)
	}
}

func TestOtherErrors(t *testing.T) {
	const ok = "@ x:[0x1] + 0x1000 0x10\n"
	broken := errors.New("broken")
	t.Run("reader at once", func(t *testing.T) {
		_, err := Import("", iotest.ErrReader(broken), Options{File: "f"})
		if !errors.Is(err, broken) || err.Error() != "f: cannot read the trace: broken" {
			t.Errorf("got %v", err)
		}
	})
	t.Run("reader later", func(t *testing.T) {
		in := io.MultiReader(strings.NewReader(ok+ok), iotest.ErrReader(broken))
		res, err := Import("", in, Options{File: "f"})
		if !errors.Is(err, broken) || err.Error() != "f: cannot read the trace: broken" {
			t.Errorf("got %v", err)
		}
		if res.Lines != 2 || res.Operations != 3 {
			t.Errorf("got %d lines, %d operations, want 2 and 3", res.Lines, res.Operations)
		}
	})
	t.Run("emit", func(t *testing.T) {
		opt := Options{Emit: func(*prog.Line) error { return broken }}
		if _, err := Import("", strings.NewReader(ok), opt); err != broken {
			t.Errorf("got %v, want the function's own error", err)
		}
	})
	t.Run("writer", func(t *testing.T) {
		for room := range 2 { // the head, then the lines
			disk := &fullDisk{room: room, err: broken}
			_, err := Write(disk, "", strings.NewReader(ok), Options{})
			if !errors.Is(err, broken) {
				t.Errorf("room for %d writes: got %v, want the writer's error", room, err)
			}
		}
	})
}

// A fullDisk has room for so many writes.
type fullDisk struct {
	room int
	err  error
}

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.room == 0 {
		return 0, d.err
	}
	d.room--
	return len(b), nil
}

func TestLimit(t *testing.T) {
	in := text(imports[0].in)
	for limit := 1; limit <= 6; limit++ {
		p, res, err := Program("", strings.NewReader(in), Options{Limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		want := imports[0].want[:min(limit, 5)]
		if diff := cmp.Diff(want, body(p)); diff != "" {
			t.Errorf("limit %d: lines (-want +got):\n%s", limit, diff)
		}
		if res.Cut != (limit < 5) {
			t.Errorf("limit %d: cut is %v", limit, res.Cut)
		}
	}
}

// TestLimitInRealloc demands that a realloc in two halves around the cut is no oddity.
func TestLimitInRealloc(t *testing.T) {
	in := text([]string{
		"+ 0x1000 0x10", "< 0x1000", "+ 0x2000 0x20", "> 0x3000 0x30",
	})
	for limit := 1; limit <= 3; limit++ {
		res, err := Import("", strings.NewReader(in), Options{Limit: limit})
		if err != nil || res.Skipped != [skips]int{} || len(res.Warnings) > 0 {
			t.Errorf("limit %d: got skipped %v, warnings %v, error %v",
				limit, res.Skipped, res.Warnings, err)
		}
	}
}

// TestDoc demands that any text becomes a comment that can be read back.
func TestDoc(t *testing.T) {
	const in = "@ x:[0x1] + 0x1000 0x10\n"
	opt := Options{Doc: []string{"One line\nand a second", "", "bad \xff\x00\r bytes"}}
	p, _, err := Program("", strings.NewReader(in), opt)
	if err != nil {
		t.Fatal(err)
	}
	want := "# One line\n# and a second\n#\n# bad  bytes\n# 1 operations imported from a trace of"
	if got := p.String(); !strings.Contains(got, want) {
		t.Errorf("got\n%s\nwant it to have\n%s", got, want)
	}
	if _, err := prog.ParseString(p.String()); err != nil {
		t.Error(err)
	}
}

// text joins lines, each with an end.
func text(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// body returns the printed lines of a program, without its head.
func body(p *prog.Program) []string {
	_, lines, _ := strings.Cut(p.String(), "\n\n")
	return strings.Split(strings.TrimSuffix(lines, "\n"), "\n")
}
