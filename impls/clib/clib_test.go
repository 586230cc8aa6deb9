package clib_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/clib"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

func TestMain(m *testing.M) {
	clib.TakeOver()
	os.Setenv(clib.EnvLimit, "60s") // the machine may have other work to do
	os.Exit(m.Run())
}

// built is testdata/bad.c as a library; its path ends in name.
func built(t *testing.T, name string, flags ...string) string {
	t.Helper()
	if !clib.Supported {
		t.Skip("libraries are not loaded on this system")
	}
	cc, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("no C compiler (cc): the library of the test cannot be built")
	}
	out := filepath.Join(t.TempDir(), name)
	args := append([]string{"-shared", "-fPIC", "-fno-builtin", "-O1", "-o", out,
		"testdata/bad.c", "-lpthread"}, flags...)
	if text, err := exec.Command(cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return out
}

func subject(t *testing.T, name string) *impls.Variant {
	t.Helper()
	v, ok, err := clib.Lookup(name)
	if !ok || err != nil {
		t.Fatalf("%s: %v %v", name, ok, err)
	}
	return v
}

func compile(t *testing.T, text string) *oracle.Compiled {
	t.Helper()
	p, err := prog.ParseString("allocfuzz 1\n" + text)
	if err != nil {
		t.Fatal(err)
	}
	c, err := oracle.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// everything is a program that uses every function of the library.
const everything = `cpu0 a = malloc 100
cpu0 b = malloc 200
cpu0 z = calloc 5 20
cpu0 usable a
cpu0 usable b
cpu0 r = malloc 40
cpu0 r = realloc r 80
cpu0 r = realloc r 0x7fffffffffff
cpu0 m = memalign 256 256
cpu0 n = memalign 256 272
cpu0 h = malloc 0x7fffffffffff
cpu0 o = calloc 0x400000000000 0x40000
cpu0 free a
cpu0 c = malloc 60
cpu0 d = malloc 60
cpu0 verify b
`

// TestBroken: whatever goes wrong in a library is a finding at the operation in which it did,
// named for what it is, and ends no more than the child.
func TestBroken(t *testing.T) {
	lib := built(t, "libbad.so.1")
	for _, row := range []struct {
		bad   string
		title fault.Title // "" for none
		at    string      // line of the finding, "" for the end of the program
		says  string      // in its detail
	}{
		{"", "", "", ""},
		{"segv", fault.Killed, "r = malloc 40", "SIGSEGV"},
		{"recursion", fault.Killed, "r = malloc 40", "SIGSEGV"},
		{"ill", fault.Killed, "r = malloc 40", "SIGILL"},
		{"kill", fault.Killed, "r = malloc 40", "SIGTERM"},
		{"no block", fault.Killed, "a = malloc 100", "SIGSEGV"},
		{"abort", fault.Aborted, "r = malloc 40", "free list of the arena is corrupt"},
		{"exit", fault.Exited, "r = malloc 40", "exit status 7"},
		{"_exit 0", fault.Exited, "r = malloc 40", "exit status 0"},
		{"close", fault.Exited, "", ""},
		{"fork", "", "", ""},
		{"fork and die", fault.Aborted, "r = malloc 40", ""},
		{"no errno", fault.ErrnoWrong, "realloc r 0x7fffffffffff", ""},
		{"null", fault.RefusedNoReason, "a = malloc 100", ""},
		{"overlap", fault.Overlap, "b = malloc 200", ""},
		{"reuse", fault.Overlap, "d = malloc 60", ""},
		{"free clears", fault.ContentsChanged, "verify b", ""},
		{"calloc dirty", fault.NotZeroed, "z = calloc 5 20", "byte 99"},
		{"overflow", fault.OverflowServed, "o = calloc 0x4", ""},
		{"prefix", fault.PrefixLost, "r = realloc r 80", "byte 39"},
		{"realloc failure", fault.ContentsChanged, "", "of 80"},
		{"align", fault.Misaligned, "memalign 256 2", ""},
		{"usable", fault.UsableTooSmall, "usable a", ""},
		{"usable lies", fault.ContentsChanged, "verify b", ""},
		{"promise", fault.UsableUnlike, "usable a", "116 promised"},
		{"leak", fault.Footprint, "", ""},
		{"hang", fault.Hung, "r = malloc 40", ""},
		{"hang with signals blocked", fault.Hung, "r = malloc 40", ""},
		{"memory", fault.MemoryBlowUp, "r = malloc 40", "the limit is"},
	} {
		t.Run(row.bad, func(t *testing.T) {
			t.Setenv("BAD", row.bad)
			text := everything
			if row.title == fault.Hung {
				t.Setenv(clib.EnvLimit, "3s")
			}
			if row.title == fault.MemoryBlowUp {
				t.Setenv(clib.EnvMemory, "300000000")
			}
			if row.bad == "leak" {
				text = "cpu0 repeat 3000 {\n\tcpu0 a = malloc 100000\n\tcpu0 free a\n}\n"
			}
			f := judged(t, compile(t, text), subject(t, clib.Prefix+lib))
			if f == nil {
				if row.title != "" {
					t.Errorf("nothing found, want %q", row.title)
				}
				return
			}
			titles := append([]fault.Title{f.Title}, f.Also...)
			if !slices.Contains(titles, row.title) {
				t.Fatalf("found %q %s, want %q", titles, f.Faults, row.title)
			}
			first := f.Faults[slices.IndexFunc(f.Faults, func(x fault.Fault) bool {
				return x.Title == row.title
			})]
			line := ""
			if n := first.Where.Line; n >= 0 {
				line = strings.Split(text, "\n")[n]
			}
			if !strings.Contains(line, row.at) || row.at == "" && line != "" ||
				!strings.Contains(first.Detail, row.says) {
				t.Errorf("%s at %q, want %q at %q", first.Detail, line, row.says, row.at)
			}
		})
	}
}

// judged is what a program shows on a subject, nil for nothing.
func judged(t *testing.T, c *oracle.Compiled, v *impls.Variant) *oracle.Finding {
	t.Helper()
	r := oracle.NewRunner()
	defer r.Close()
	verdict, err := r.Judge(c, v, oracle.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Left != "" {
		t.Fatalf("left out: %s", verdict.Left)
	}
	return verdict.Finding
}

// TestGarbage: a library that writes into the connection is told from one that is wrong.
func TestGarbage(t *testing.T) {
	v := subject(t, clib.Prefix+built(t, "libgarbage.so"))
	t.Setenv("BAD", "garbage")
	r := oracle.NewRunner()
	defer r.Close()
	_, err := r.Judge(compile(t, everything), v, oracle.Options{})
	if err == nil || !strings.Contains(err.Error(), "descriptors that are not its own") {
		t.Errorf("error %v", err)
	}
}

// TestNotLoaded: what cannot be a subject is refused with a word that says why.
func TestNotLoaded(t *testing.T) {
	lib := built(t, "libbegins.so")
	text := filepath.Join(t.TempDir(), "libtext.so")
	if err := os.WriteFile(text, []byte("not a library"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct{ bad, file, want string }{
		{"constructor exits", lib, "while it loaded the library: exited: exit status 3"},
		{"constructor crashes", lib, "while it loaded the library: aborted: SIGABRT"},
		{"", text, "file too short"},
		{"", "libnowhere.so.7", "cannot open shared object file"},
		{"", "libm.so.6", "no malloc and free of its own"},
		{"", "", "names no library"},
		{"", "/tmp/has blank.so", "expected letters"},
	} {
		t.Run(row.want, func(t *testing.T) {
			t.Setenv("BAD", row.bad)
			name := clib.Prefix + row.file
			if row.bad != "" { // a library is asked once a process
				link := filepath.Join(t.TempDir(), "lib.so")
				if err := os.Symlink(row.file, link); err != nil {
					t.Fatal(err)
				}
				name = clib.Prefix + link
			}
			_, ok, err := clib.Lookup(name)
			if !ok || err == nil || !strings.Contains(err.Error(), row.want) {
				t.Errorf("%v, error %v, want %q", ok, err, row.want)
			}
		})
	}
}

// TestThreads: the contexts of a program are threads of the child, and wait for each other's
// names; one that nobody binds is skipped.
func TestThreads(t *testing.T) {
	v := subject(t, clib.Prefix+built(t, "libthreads.so"))
	c := compile(t, `machine cpus=2
cpu0 free b
cpu0 a = malloc 10
cpu0 free never
cpu1 b = malloc 20
cpu1 c = realloc a 30
cpu1 never = malloc 40
`)
	r := oracle.NewRunner()
	defer r.Close()
	for range 50 {
		verdict, err := r.Judge(c, v, oracle.Options{Warm: true})
		if err != nil || verdict.Finding != nil {
			t.Fatalf("finding %v, error %v", verdict.Finding, err)
		}
		if n := verdict.Counts; n.Operations != 6 || n.Skipped != 0 {
			t.Fatalf("%d operations, %d skipped", n.Operations, n.Skipped)
		}
	}
}

// TestRace: two threads that take blocks without a lock get the same one.
func TestRace(t *testing.T) {
	v := subject(t, clib.Prefix+built(t, "libunlocked.so", "-DUNLOCKED"))
	c := compile(t, `machine cpus=2
cpu0 repeat 20 {
	cpu0 a = malloc 10
}
cpu1 repeat 20 {
	cpu1 b = malloc 10
}
`)
	for range 20 {
		if f := judged(t, c, v); f != nil {
			return
		}
	}
	t.Error("nothing was found in 20 runs")
}

// TestFound: a library is asked for its functions, and can what they do.
func TestFound(t *testing.T) {
	name := clib.Prefix + built(t, "libfound.so")
	v := subject(t, name)
	lib, ok := clib.About(name)
	want := []string{"malloc", "calloc", "realloc", "free", "memalign", "malloc_usable_size",
		"nallocx"}
	if !ok || lib.Family != "malloc" || !slices.Equal(lib.Functions, want) {
		t.Errorf("%+v", lib)
	}
	if !v.Caps.Has(impls.CapAlign|impls.CapUsable) || v.Caps.Has(impls.CapFreeSized) {
		t.Errorf("capabilities %v", v.Caps.Names())
	}
}

// TestNoLibs: a build without the loading of libraries says so before it starts a child, which
// would not serve one.
func TestNoLibs(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command")
	}
	bin := filepath.Join(t.TempDir(), "allocfuzz")
	build := exec.Command("go", "build", "-tags=nolibs", "-o", bin, "allocfuzz/cmd/allocfuzz")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for _, name := range []string{"lib:libc.so.6", "c-glibc", "lib:nosuch.so"} {
		cmd := exec.Command(bin, "replay", "--subject", name, "-")
		cmd.Stdin = strings.NewReader("allocfuzz 1\ncpu0 p = malloc 8\n")
		text, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 2 ||
			!strings.Contains(string(text), "this build loads no libraries") {
			t.Errorf("%s: %v\n%s", name, err, text)
		}
	}
}
