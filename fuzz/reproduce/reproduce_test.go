package reproduce

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/gofuzz"
	"allocfuzz/impls"
)

// A bug is a regression with what it shows.
type bug struct {
	file     string
	p        *prog.Program
	v        *impls.Variant
	identity string
}

// regressions are those that show something on the subject of their block.
func regressions(t *testing.T) []bug {
	t.Helper()
	var out []bug
	for f := range corpus.Regress() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		for i := range p.Scheds {
			if p.Scheds[i].Bug == "" {
				continue
			}
			list, err := fuzz.Select(p.Scheds[i].Subject)
			if err != nil {
				t.Fatal(err)
			}
			replays, err := shows(t.Context(), p, list)
			if err != nil || replays[0].Verdict.Finding == nil {
				t.Fatalf("%s: %v", f.Name, err)
			}
			out = append(out, bug{f.Name, p, list[0], replays[0].Verdict.Finding.Identity()})
		}
	}
	if len(out) < 10 {
		t.Fatalf("%d regressions", len(out))
	}
	return out
}

// TestGoTests: the test of every regression compiles, is quiet to vet, and fails with what it says;
// on a sound subject it passes.
func TestGoTests(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a module")
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(root, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	mod, err := os.ReadFile(filepath.Join(root, "go.mod"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name string, text []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	text := strings.Replace(string(mod), "module allocfuzz", "module theirs", 1)
	write("go.mod", []byte(text+"\nrequire allocfuzz v0.0.0\n\nreplace allocfuzz => "+root+"\n"))
	write("go.sum", sum)
	bugs := regressions(t)
	for i, b := range bugs {
		text, err := GoTest("theirs", []*impls.Variant{b.v}, b.identity, b.p)
		if err != nil {
			t.Fatal(err)
		}
		// Several regressions show the same.
		write(fmt.Sprintf("bug%d_test.go", i), []byte(strings.ReplaceAll(string(text),
			testName(b.identity), fmt.Sprintf("Test%d", i))))
	}
	sound, err := fuzz.Select("slub-2008-seq")
	if err != nil {
		t.Fatal(err)
	}
	p := *bugs[0].p
	p.Scheds = nil
	quiet, err := GoTest("theirs", sound, "sound", &p)
	if err != nil {
		t.Fatal(err)
	}
	write("sound_test.go", quiet)
	cmd := exec.Command("go", "test", "-mod=mod", ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=mod")
	out, err := cmd.CombinedOutput()
	if err == nil {
		t.Fatalf("no test failed:\n%s", out)
	}
	for i, b := range bugs {
		_, after, failed := strings.Cut(string(out), fmt.Sprintf("--- FAIL: Test%d (", i))
		after, _, _ = strings.Cut(after, "--- FAIL: ")
		if !failed || !strings.Contains(after, b.identity) || !strings.Contains(after, "HISTORY") {
			t.Errorf("%s: no %q in\n%s", b.file, b.identity, out)
			return
		}
	}
	if strings.Contains(string(out), "FAIL: TestSound") {
		t.Errorf("a sound subject fails:\n%s", out)
	}
}

// TestHostile: nothing in a program breaks out of the text of the test.
func TestHostile(t *testing.T) {
	p, err := prog.ParseString("allocfuzz 1\n# `+panic(1)+` */ \" \\ größe\ncpu0 a = malloc 8\n")
	if err != nil {
		t.Fatal(err)
	}
	sound, err := fuzz.Select("slub-2008-seq")
	if err != nil {
		t.Fatal(err)
	}
	text, err := GoTest("x", sound, "a: b\nfunc init() { panic(2) }", p)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "\nfunc init") || strings.Count(string(text), "`") != 2 ||
		!strings.Contains(string(text), `\"`) {
		t.Errorf("it breaks out:\n%s", text)
	}
}

// TestInput: an input of a regression is one that the target fails on; one that does not fit into
// bytes has none.
func TestInput(t *testing.T) {
	fits := 0
	for _, b := range regressions(t) {
		target, name, text, err := Input([]*impls.Variant{b.v}, b.identity, b.p)
		if err != nil {
			t.Logf("%s: %v", b.file, err)
			continue
		}
		fits++
		data, err := gofuzz.Decode(text)
		if err != nil || gofuzz.Name(text) != name || !strings.HasPrefix(target, "Fuzz") {
			t.Errorf("%s: %s of %s, error %v", b.file, name, target, err)
		}
		for _, x := range fuzz.Targets() {
			if x.Name != target {
				continue
			}
			f, err := x.Try([]*impls.Variant{b.v}, data)
			if err != nil || f == nil || f.Report.Finding.Identity() != b.identity {
				t.Errorf("%s: %s shows %v, error %v", b.file, target, f, err)
			}
		}
	}
	if fits < 10 {
		t.Errorf("%d regressions have an input", fits)
	}
}
