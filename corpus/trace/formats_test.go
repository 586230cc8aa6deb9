package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"

	"allocfuzz/corpus/prog"
)

// samples are recordings of testdata, and the programs that they are.
var samples = []struct {
	format  string
	file    string
	want    string // the program from its machine on
	skipped string // what was left out beside marks
	warned  []int  // lines that there is a warning about
}{
	{format: "mtrace", file: "mtrace.txt", want: `machine pages=64

cpu0 a0 = malloc 32
cpu0 a1 = malloc 7
cpu0 a2 = realloc a0 64
cpu0 free a1
cpu0 free a2
`,
		skipped: "1 failed requests, 1 frees and reallocs of objects from before"},
	{format: "rep", file: "rep.txt", want: `machine pages=128

cpu0 a0 = malloc 512
cpu0 a1 = malloc 128
cpu0 a2 = realloc a0 640
cpu0 free a1
cpu0 a1 = malloc 16
cpu0 free a2
cpu0 free a1
`,
		skipped: "1 frees of null, 2 unfit sizes", warned: []int{10, 11}},
	{format: "valgrind", file: "valgrind.txt", want: `machine pages=128

cpu0 a0 = malloc 24
cpu0 a1 = calloc 3 8
cpu0 a2 = realloc a0 100
cpu0 a0 = malloc 5
cpu0 free a0
cpu0 a0 = memalign 64 100
cpu0 a3 = memalign 32 128
cpu0 a4 = malloc 40
cpu0 free a4
cpu0 free a3
cpu0 free a2
`,
		skipped: "2 failed requests, 1 frees of null, 1 lines of other processes"},
	{format: "android", file: "android.txt", want: `machine pages=64

cpu0 a0 = malloc 24
cpu0 a1 = calloc 3 8
cpu0 a2 = realloc a0 100
cpu0 a0 = memalign 64 100
cpu0 free a2
cpu0 free a1
`,
		skipped: "1 frees and reallocs of objects from before, 1 frees of null"},
	{format: "heaptrack", file: "heaptrack.txt", want: `machine pages=64

cpu0 a0 = malloc 24
cpu0 a1 = malloc 512
cpu0 free a0
cpu0 free a1
cpu0 a1 = malloc 24
cpu0 free a1
`,
		skipped: "1 frees of null, 1 objects whose free is lost", warned: []int{12}},
	{format: "kmem", file: "kmem.txt", want: `machine cpus=2 pages=512
cache ext4_inode size=192
cache size_64 size=64
cache a7_ size=64

cpu0 a0 = malloc 24
cpu1 a1 = alloc ext4_inode
irq1.k1 free a0
irq1.k1 a0 = malloc 8
irq1.k2 a2 = malloc 16
cpu1 free ext4_inode a1
irq1.k3 free a0
cpu0 a0 = alloc size_64
cpu0 free size_64 a0
cpu0 a0 = alloc a7_
cpu1 free a2
`,
		skipped: "1 frees of null", warned: []int{15}},
	{format: "malloc-bench", file: "malloc-bench.bin", want: `machine pages=64

cpu0 a0 = malloc 24
cpu0 a1 = calloc 3 8
cpu0 a2 = realloc a0 100
cpu0 a0 = memalign 64 100
cpu0 free a2
cpu0 free a0
`,
		skipped: "1 failed requests, 1 frees and reallocs of objects from before, 1 frees of null" +
			", 1 unfit sizes", warned: []int{9}},
}

// sample reads a recording.
func sample(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestFormats: every format has a sample, is told by its first bytes, and means its program.
func TestFormats(t *testing.T) {
	seen := map[string]bool{"record": true} // which TestRecord makes
	for _, s := range samples {
		seen[s.format] = true
		t.Run(s.format, func(t *testing.T) {
			in := sample(t, s.file)
			p, res, err := Program("", strings.NewReader(in), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if res.Format != s.format {
				t.Errorf("format %s", res.Format)
			}
			_, got, _ := strings.Cut(p.String(), "\nmachine ")
			if diff := cmp.Diff(s.want, "machine "+got); diff != "" {
				t.Errorf("program (-want +got):\n%s", diff)
			}
			if got := leftOut(&res); got != s.skipped {
				t.Errorf("left out %q, want %q", got, s.skipped)
			}
			var warned []int
			for _, w := range res.Warnings {
				warned = append(warned, w.Line)
			}
			if diff := cmp.Diff(s.warned, warned); diff != "" {
				t.Errorf("lines warned about (-want +got):\n%s", diff)
			}
			checkText(t, in, p.String())
			checkProgram(t, p, &res)
		})
	}
	for _, name := range Formats() {
		if !seen[name] {
			t.Errorf("format %s has no sample", name)
		}
	}
}

// leftOut spells what was skipped beside marks.
func leftOut(r *Result) string {
	var out []string
	for why, n := range r.Skipped {
		if n > 0 && Skip(why) != Mark {
			out = append(out, fmt.Sprint(n, " ", Skip(why)))
		}
	}
	return strings.Join(out, ", ")
}

// TestPrefixes: what is left of a recording that is cut anywhere is the beginning of the program,
// in every format, also when it is compressed; only a whole line may be missing.
func TestPrefixes(t *testing.T) {
	for _, s := range samples {
		in := sample(t, s.file)
		whole, _, err := Program(s.format, strings.NewReader(in), Options{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range in {
			checkPrefix(t, s.format, in[:n], whole)
		}
		for _, packed := range packings(t, in) {
			for n := range packed {
				checkPrefix(t, s.format, packed[:n], whole)
			}
		}
	}
}

func checkPrefix(t *testing.T, format, in string, whole *prog.Program) {
	t.Helper()
	p, res, err := Program(format, strings.NewReader(in), Options{})
	if err != nil {
		return // no operation yet
	}
	checkProgram(t, p, &res)
	for i := range p.Lines {
		got, want := prog.AppendLine(nil, &p.Lines[i]), prog.AppendLine(nil, &whole.Lines[i])
		if !bytes.Equal(got, want) {
			t.Fatalf("%s, %d bytes: line %q, want %q", format, len(in), got, want)
		}
	}
}

// packings is an input compressed in every way.
func packings(t testing.TB, in string) []string {
	t.Helper()
	var gz, zs bytes.Buffer
	w := gzip.NewWriter(&gz)
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []interface {
		Write([]byte) (int, error)
		Close() error
	}{w, z} {
		if _, err := w.Write([]byte(in)); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return []string{gz.String(), zs.String()}
}

// badLines are lines that a format does not have.
var badLines = map[string][]string{
	"mtrace": {"@ nothing of the kind"},
	"rep":    {"a 1", "a 1 2 3", "x 1 2", "f -2", "a one 2", "a 1 2x", "a -1 2"},
	"valgrind": {"--4711-- malloc(24 = 7", "--4711-- malloc(24) 0x1", "--4711-- calloc(3) = 0x1",
		"--4711-- free()", "--4711-- malloc(0xg) = 0x1", "--4711-- memalign(8, 9) = 0x1"},
	"android": {"7: malloc", "7: malloc 0x1", "malloc 0x1 2", "7: grow 0x1 2", "7: free 0x1 2 3 4",
		"7: calloc 0x1 2", "7: realloc 0x1 2", "7: free zz"},
	"heaptrack": {"+ 18 1 zz", "+ 1 2 3 4", "- ", "-1", "+ 18 1", "% 1"},
	"kmem": {"cat kmalloc: ptr=1 bytes_req=zz", " x-1 [000] .... 1.0: kmalloc: ptr=1 gfp=2",
		" x-1 [000] .... 1.0: kfree: call_site=f ptr=zz"},
	"malloc-bench": {"\x0a\x02\x12\x05", "\x0a\x01\x0a", "\x0a\x02\x08\x01", "\x0a\x00", "\x0b"},
}

// TestUnknownLines: a line that a format does not have is named with its number, nothing before it
// is lost, and it is an error when asked for.
func TestUnknownLines(t *testing.T) {
	for _, s := range samples {
		in, end := sample(t, s.file), "\n"
		before, err := Import(s.format, strings.NewReader(in), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if s.format == "malloc-bench" {
			end = ""
		}
		for _, bad := range badLines[s.format] {
			res, err := Import(s.format, strings.NewReader(in+bad+end), Options{})
			if err != nil || res.Skipped[UnknownLine] != 1 ||
				res.Operations != before.Operations {
				t.Errorf("%s: %q: %v, %+v", s.format, bad, err, res)
				continue
			}
			if w := res.Warnings[len(res.Warnings)-1]; w.Line != before.Lines+1 {
				t.Errorf("%s: %q: line %d, want %d", s.format, bad, w.Line, before.Lines+1)
			}
		}
		bad := badLines[s.format][0] + end
		in = firstGood[s.format] + bad
		_, err = Import(s.format, strings.NewReader(in), Options{File: "f", Strict: true})
		at := fmt.Sprintf("f:%d: ", strings.Count(firstGood[s.format], "\n")+1)
		if s.format == "malloc-bench" {
			at = "f:2: "
		}
		if err == nil || !strings.HasPrefix(err.Error(), at) {
			t.Errorf("%s: error %v, want one of %s", s.format, err, at)
		}
	}
}

// firstGood is the beginning of a trace in which nothing is odd.
var firstGood = map[string]string{
	"mtrace":       "= Start\n@ x:[0x1] + 0x10 0x20\n",
	"rep":          "1\n1\n1\n1\na 0 8\n",
	"valgrind":     "==4711== x\n--4711-- malloc(8) = 0x10\n",
	"android":      "7: malloc 0x10 8\n",
	"heaptrack":    "v 10400 3\n+ 8 1 10\n",
	"kmem":         " x-1 [000] .... 1.0: kmalloc: call_site=f ptr=a1 bytes_req=8\n",
	"malloc-bench": "\x0a\x06\x0a\x04\x08\x00\x10\x08",
}

// TestInterpreted: what heaptrack has interpreted is refused with what to do.
func TestInterpreted(t *testing.T) {
	in := "v 10400 3\nX ls\ns 2 ls\na 18 1\n+ 0\n- 0\n"
	_, err := Import("", strings.NewReader(in), Options{File: "f"})
	if err == nil || !strings.HasPrefix(err.Error(), "f:4: ") ||
		!strings.Contains(err.Error(), "heaptrack --raw") {
		t.Errorf("error %v", err)
	}
}

// TestCompressed: what is compressed is told and unpacked; what is cut keeps what was good, and
// says so.
func TestCompressed(t *testing.T) {
	var in strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&in, "@ x:[0x1] + %#x %#x\n", i<<4+16, i%997)
	}
	for _, packed := range packings(t, in.String()) {
		res, err := Import("", strings.NewReader(packed), Options{Strict: true})
		if err != nil || res.Operations != 60_000 || res.Format != "mtrace" {
			t.Errorf("%d operations of format %q, %v", res.Operations, res.Format, err)
		}
		half := packed[:len(packed)/2]
		res, err = Import("", strings.NewReader(half), Options{})
		if err != nil || res.Operations < 1000 || res.Operations > 59_000 {
			t.Errorf("half: %d operations, %v", res.Operations, err)
		}
		w := res.Warnings[len(res.Warnings)-1]
		if w.Line != res.Lines || !strings.Contains(w.Text, "cut or damaged") ||
			res.Skipped[Truncated] != 1 {
			t.Errorf("half: %+v, %+v", w, res.Skipped)
		}
		if _, err = Import("", strings.NewReader(half), Options{Strict: true}); err == nil {
			t.Error("half: no error though strict")
		}
		if _, err := Import("", strings.NewReader(packed[:5]), Options{File: "f"}); err == nil ||
			!strings.HasPrefix(err.Error(), "f: ") {
			t.Errorf("error %v", err)
		}
	}
}

// TestCompressedUnread: an error of reading is no cut.
func TestCompressedUnread(t *testing.T) {
	for _, packed := range packings(t, strings.Repeat("- 0x1\n+ 0x10 0x20\n", 50_000)) {
		broken := fmt.Errorf("broken")
		in := io.MultiReader(strings.NewReader(packed[:len(packed)-20]), iotest.ErrReader(broken))
		if _, err := Import("mtrace", in, Options{}); !errors.Is(err, broken) {
			t.Errorf("error %v", err)
		}
	}
}
