package clib_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/impls/clib"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// verdicts are what the programs of testdata/known show on libraries, by versions as the
// libraries tell them: whatever begins so. What no row is about is silent.
var verdicts = []known{
	{"mimalloc-700", "c-mimalloc", "2.0.", fault.Misaligned},
	{"mimalloc-calloc-errno", "c-mimalloc", "2.0.", fault.ErrnoWrong},
	{"mimalloc-calloc-errno", "c-tcmalloc", "gperftools 2.10", fault.ErrnoWrong},
	{"mimalloc-calloc-errno", "c-tcmalloc-debug", "gperftools 2.10", fault.ErrnoWrong},
	{"jemalloc-2991", "c-jemalloc", "5.3.0", fault.UsableUnlike},
}

type known struct {
	program, subject, version string
	title                     fault.Title
}

// tried are the versions that were tried: of others nobody knows what they show.
var tried = map[string]string{"c-glibc": "2.36", "c-jemalloc": "5.3.0", "c-mimalloc": "2.0.",
	"c-tcmalloc": "gperftools 2.10", "c-tcmalloc-debug": "gperftools 2.10", "c-tbbmalloc": "",
	"c-scudo": ""}

// verdict is the title that a program shows on a version of a subject, "" for none.
func verdict(program, subject, version string) fault.Title {
	for _, v := range verdicts {
		if v.program == program && v.subject == subject && strings.HasPrefix(version, v.version) {
			return v.title
		}
	}
	return ""
}

// eachHere calls f for every known library that is here in a version that was tried.
func eachHere(t *testing.T, f func(t *testing.T, subject, version string)) {
	for _, k := range clib.Libraries() {
		t.Run(k.Name, func(t *testing.T) {
			if !clib.Supported {
				t.Skip("libraries are not loaded on this system")
			}
			if _, _, err := clib.Lookup(k.Name); err != nil {
				t.Skip(err)
			}
			about, _ := clib.About(k.Name)
			if !strings.HasPrefix(about.Version, tried[k.Name]) {
				t.Skipf("version %s was not tried, expected %s", about.Version, tried[k.Name])
			}
			f(t, k.Name, about.Version)
		})
	}
}

// TestKnown: the reports of bugs that can be seen here are seen, each in the versions that have
// it, and in no other library.
func TestKnown(t *testing.T) {
	files, err := filepath.Glob("testdata/known/*.prog")
	if err != nil || len(files) < 8 {
		t.Fatalf("files %q, %v", files, err)
	}
	eachHere(t, func(t *testing.T, subject0, version string) {
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := prog.ParseString(string(text))
			if err != nil {
				t.Fatal(err)
			}
			c, err := oracle.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".prog")
			want, got := verdict(name, subject0, version), fault.Title("")
			if f := judged(t, c, subject(t, subject0)); f != nil {
				got = f.Title
			}
			if got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	})
}

// TestSeeds: the seeds of the corpus show nothing on the libraries but what the programs above do.
func TestSeeds(t *testing.T) {
	eachHere(t, func(t *testing.T, name, _ string) {
		v, r := subject(t, name), oracle.NewRunner()
		defer r.Close()
		for f := range corpus.Seeds() {
			p, err := f.Program()
			if err != nil {
				t.Fatal(err)
			}
			c, err := oracle.Compile(p)
			if err != nil {
				t.Fatal(err)
			}
			got, err := r.Judge(c, v, oracle.Options{Warm: true})
			if err != nil {
				t.Fatal(err)
			}
			if x := got.Finding; x != nil && !slices.ContainsFunc(verdicts, func(k known) bool {
				return k.subject == name && k.title == x.Title
			}) {
				t.Errorf("%s: %s", f.Name, x.Identity())
			}
		}
	})
}
