package reproduce

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
)

// cc is a C compiler; without one the test is skipped.
func cc(t *testing.T) string {
	t.Helper()
	for _, name := range []string{"cc", "gcc", "clang"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no C compiler (cc, gcc or clang)")
	return ""
}

// strict is how every C program must compile.
var strict = []string{"-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread"}

// build compiles the C program of a program.
func build(t *testing.T, p *prog.Program, more ...string) string {
	t.Helper()
	text, _, err := C("subject: title in malloc", p)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	source, out := filepath.Join(dir, "bug.c"), filepath.Join(dir, "bug")
	if err := os.WriteFile(source, text, 0o666); err != nil {
		t.Fatal(err)
	}
	args := append(append([]string{}, strict...), source, "-o", out)
	if msg, err := exec.Command(cc(t), append(args, more...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, msg)
	}
	return out
}

func program(t *testing.T, lines string) *prog.Program {
	t.Helper()
	p, err := prog.ParseString("allocfuzz 1\n" + lines)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestCFinds: each defect of a malloc is found by a program that meets it, by its title, in the
// operation that shows it; the same program is silent on the C library.
func TestCFinds(t *testing.T) {
	cc(t)
	broken, err := filepath.Abs("testdata/broken.c")
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct{ bug, lines, want string }{
		{"TWICE", "cpu0 a = malloc 64\ncpu0 b = malloc 64\n",
			"cpu0 b = malloc 64: object handed out twice: "},
		{"OVERLAP", "cpu0 a = malloc 64\ncpu0 b = malloc 8\n",
			"cpu0 b = malloc 8: object overlaps a live object: "},
		{"MISALIGNED", "cpu0 a = memalign 64 8\n", "memalign 64 8: object misaligned: "},
		{"MISALIGNED_SMALL", "cpu0 a = malloc 4\n", "malloc 4: object misaligned: "},
		{"USABLE", "cpu0 a = malloc 9\ncpu0 usable a\n",
			"usable a: usable size below the request: "},
		{"REFUSED", "cpu0 a = malloc 47\ncpu0 b = malloc 48\n",
			"cpu0 b = malloc 48: refused without reason: "},
		{"CHANGED", "cpu0 a = malloc 8\ncpu0 b = malloc 16\ncpu0 free a\ncpu0 verify b\n",
			"cpu0 verify b: contents changed: byte 3 of 16 "},
		{"CHANGED", "cpu0 a = malloc 8\ncpu0 b = malloc 16\ncpu0 free a\n",
			"end: contents changed: byte 3 of 16 "},
		{"CHANGED", "cpu0 a = malloc 8\ncpu0 b = malloc 16\ncpu0 fill b\ncpu0 free a\n" +
			"cpu0 c = realloc b 4\n", "c = realloc b 4: contents changed: byte 3 of 16 "},
		{"NOT_ZEROED", "cpu0 a = calloc 3 5\n", "calloc 3 5: not zeroed: byte 14 of 15 "},
		{"NOT_ZEROED", "cpu0 a = malloc 8 flags=zero\n", "flags=zero: not zeroed: byte 7 of 8 "},
		{"PREFIX", "cpu0 a = malloc 8\ncpu0 a = realloc a 16\n",
			"prefix lost at realloc: byte 0 of 8 "},
		{"OVERFLOW", "cpu0 repeat 2 {\ncpu0 a = calloc 0x400000000000 0x400000000000\n}\n",
			"usable size below the request: "},
		{"THREAD", "machine cpus=2\ncpu0 a = malloc 8\ncpu0 b = malloc 8\n" +
			"cpu0 c = malloc 24\ncpu0 free b\n" +
			"cpu0 free b\ncpu1 free a\ncpu0 verify c\n", "verify c: contents changed: byte 0 "},
		{"CHANGED", "cache k size=24 ctor=on\ncpu0 a = alloc k\ncpu0 b, c = allocbulk k\n" +
			"cpu0 freebulk k a\ncpu0 free k c\n", "free k c: contents changed: byte 3 of 24 "},
		{"SOUND", "cpu0 a = malloc 8\ncpu0 b = malloc 8\ncpu0 overrun a 32\ncpu0 verify b\n", ""},
	} {
		t.Run(x.bug, func(t *testing.T) {
			p := program(t, x.lines)
			out, err := exec.Command(build(t, p, "-DMALLOC_PREFIX=broken_", "-DBUG="+x.bug,
				broken)).CombinedOutput()
			said := string(out)
			if x.bug != "SOUND" && (status(err) != 1 || !strings.Contains(said, x.want)) {
				t.Errorf("status %d, want %q in %s", status(err), x.want, said)
			}
			if strings.Contains(x.lines, "overrun") {
				return
			}
			if out, err := exec.Command(build(t, p)).CombinedOutput(); err != nil ||
				string(out) != "nothing wrong\n" {
				t.Errorf("the C library: status %d, %s", status(err), out)
			}
		})
	}
}

func status(err error) int {
	var end *exec.ExitError
	if errors.As(err, &end) {
		return end.ExitCode()
	}
	if err != nil {
		return -2
	}
	return 0
}

// TestCCaches: object caches of somebody else are carried out on, not those made of malloc.
func TestCCaches(t *testing.T) {
	cc(t)
	header, err := filepath.Abs("testdata/caches.h")
	if err != nil {
		t.Fatal(err)
	}
	p := program(t, "cache k size=24 ctor=on\ncpu0 c = create size=64 align=64\n"+
		"cpu0 a = alloc k\ncpu0 b = alloc c flags=zero\ncpu0 d, e = allocbulk c\n"+
		"cpu0 free k a\ncpu0 freebulk c d e\ncpu0 shrink c\ncpu0 free c b\ncpu0 destroy c\n")
	for bug, want := range []string{"nothing wrong\n", "cpu0 a = alloc k: constructor state lost"} {
		out, err := exec.Command(build(t, p, `-DCACHES="`+header+`"`,
			fmt.Sprintf("-DBUG=%d", bug))).CombinedOutput()
		if status(err) != bug || !strings.HasPrefix(string(out), want) {
			t.Errorf("bug %d: status %d, %s", bug, status(err), out)
		}
	}
}

// TestCCorpus: the committed programs that C can carry out compile without a warning and are silent
// on the C library: every third of them.
func TestCCorpus(t *testing.T) {
	cc(t)
	n := 0
	for _, list := range []func(func(corpus.File) bool){corpus.Seeds(), corpus.Regress()} {
		for f := range list {
			p, err := f.Program()
			if err != nil {
				t.Fatal(err)
			}
			if misuses(p) || len(p.Scheds) > 0 {
				continue
			}
			if _, _, err := C("x", p); err != nil {
				if !errors.Is(err, ErrNoC) {
					t.Errorf("%s: %v", f.Name, err)
				}
				continue
			}
			if n++; n%3 != 0 || testing.Short() && n%30 != 0 {
				continue // a compilation is slow
			}
			out, err := exec.Command(build(t, p, "-O0")).CombinedOutput()
			if err != nil || string(out) != "nothing wrong\n" {
				t.Errorf("%s: status %d, %s", f.Name, status(err), out)
			}
		}
	}
	if n < 60 {
		t.Errorf("%d programs", n)
	}
	t.Logf("%d programs", n)
}

// misuses says whether a line of a program is a misuse.
func misuses(p *prog.Program) (yes bool) {
	p.Walk(func(l *prog.Line, _ []int) { yes = yes || l.Verb.Op().Class == prog.ClassMisuse })
	return yes
}

// TestCRefuses: what threads cannot be made to do is said, with what to do instead.
func TestCRefuses(t *testing.T) {
	for _, x := range []struct{ lines, want string }{
		{"machine cpus=2\ncpu0 a = malloc 8\ncpu1 b = malloc 8\n\nsched\n" +
			"at malloc(a) lock slab.list_lock 1: cpu1\n", "schedule"},
		{"machine cpus=2\ncpu0 free a\ncpu1 a = malloc 8\n", "waits for another context to bind a"},
		{"cpu0 drain\n", "no line has a call"},
	} {
		_, _, err := C("x", program(t, x.lines))
		if !errors.Is(err, ErrNoC) || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: %v", x.lines, err)
		}
	}
	_, left, err := C("x", program(t, "cpu0 a = malloc 8 fail=1\ncpu0 p = pages 1\ncpu0 drain\n"))
	if want := "the failure in cpu0 a = malloc 8 fail=1|cpu0 p = pages 1|cpu0 drain"; err != nil ||
		strings.Join(left, "|") != want {
		t.Errorf("left out %q, error %v, want %q", left, err, want)
	}
}

// TestCHostile: nothing in a program breaks out of a comment or a string.
func TestCHostile(t *testing.T) {
	cc(t)
	p := program(t, "# */ int x; /* ??/ \\ \u202e größe \" %s %n\n"+
		"cpu0 int = malloc 8 ; \"%s%n */ ??/ \\ größe\ncpu0 main = malloc 8\ncpu0 free int\n")
	out, err := exec.Command(build(t, p)).CombinedOutput()
	if err != nil || string(out) != "nothing wrong\n" {
		t.Errorf("status %d, %s", status(err), out)
	}
}

// TestBeside: what can be made of a program is written beside it, and nothing else.
func TestBeside(t *testing.T) {
	for _, b := range regressions(t) {
		dir := t.TempDir()
		names, err := Beside(filepath.Join(dir, "x.min.prog"), []*impls.Variant{b.v}, b.identity,
			b.p)
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if _, _, err := C(b.identity, b.p); err == nil {
			want = append(want, filepath.Join(dir, "x.c"))
		}
		if target, _, _, err := Input([]*impls.Variant{b.v}, b.identity, b.p); err == nil {
			want = append(want, filepath.Join(dir, "x."+target+".input"))
		}
		want = append(want, filepath.Join(dir, "x.gotest"))
		slices.Sort(want)
		there, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || !slices.Equal(names, want) || !slices.Equal(there, want) {
			t.Errorf("%s: %q, there are %q, want %q", b.file, names, there, want)
		}
	}
}
