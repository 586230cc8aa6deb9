package overlay

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/bugs"
)

// A module with a command and a package that panics where it stands.
var module = map[string]string{
	"go.mod": "module tiny\n\ngo 1.26\n",
	"cmd/allocfuzz/main.go": `package main

import "tiny/alloc"

func main() {
	println(alloc.Size(3))
	alloc.Check()
}
`,
	"alloc/alloc.go": `package alloc

// Size rounds up to eight.
func Size(n int) int {
	return (n + 7) &^ 7
}

// Check is silent.
func Check() {
	if Size(1) != 8 {
		panic("size of one")
	}
}
`,
	"alloc/alloc_test.go": `package alloc

import "testing"

func TestSize(t *testing.T) {
	if Size(1) != 8 {
		t.Fatal("size of one")
	}
}
`,
}

const diff = `Subject: sizes are not rounded up
Class: wild
Finds: object misaligned
--- a/alloc/alloc.go
+++ b/alloc/alloc.go
@@ -4,3 +4,3 @@
 func Size(n int) int {
-	return (n + 7) &^ 7
+	return n
 }
`

// second applies only behind diff.
const second = `Subject: and they are one too large
Class: wild
Finds: object misaligned
--- a/alloc/alloc.go
+++ b/alloc/alloc.go
@@ -5 +5 @@
-	return n
+	return n + 1
`

func TestBuildCommand(t *testing.T) {
	root := writeModule(t)
	clean, patched := filepath.Join(t.TempDir(), "clean"), filepath.Join(t.TempDir(), "patched")
	build(t, root, clean, nil)
	build(t, root, patched, parse(t, "rounding", diff))
	if out, err := exec.Command(clean).CombinedOutput(); err != nil || string(out) != "8\n" {
		t.Errorf("clean: got %q, %v, want \"8\\n\"", out, err)
	}
	out, err := exec.Command(patched).CombinedOutput()
	if err == nil || !strings.HasPrefix(string(out), "3\npanic: size of one") {
		t.Errorf("patched: got %q, %v, want 3 and a panic", out, err)
	}
	place := filepath.ToSlash(filepath.Join(root, "alloc", "alloc.go")) + ":11"
	if !strings.Contains(string(out), place) {
		t.Errorf("the panic does not name the real path %s:\n%s", place, out)
	}
	if diff := cmp.Diff(module, readModule(t, root)); diff != "" {
		t.Errorf("the tree was touched (-want +got):\n%s", diff)
	}
}

func TestBuildTestBinary(t *testing.T) {
	root, out := writeModule(t), filepath.Join(t.TempDir(), "alloc.test")
	build(t, root, out, nil, "test", "-c", "./alloc")
	if text, err := exec.Command(out).CombinedOutput(); err != nil {
		t.Errorf("clean: %v\n%s", err, text)
	}
	build(t, root, out, parse(t, "rounding", diff), "test", "-c", "./alloc")
	text, err := exec.Command(out).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "--- FAIL: TestSize") {
		t.Errorf("patched: got %v, want a failing TestSize\n%s", err, text)
	}
}

func TestBuildErrors(t *testing.T) {
	root, out := writeModule(t), filepath.Join(t.TempDir(), "out")
	stale := parse(t, "stale", strings.Replace(diff, "n + 7", "n + 15", 1))
	broken := parse(t, "broken", strings.Replace(diff, "+\treturn n", "+\treturn m", 1))
	done, cancel := context.WithCancel(context.Background())
	cancel()
	tests := []struct {
		name  string
		ctx   context.Context
		root  string
		patch *bugs.Patch
		args  []string
		want  string
	}{
		{"stale patch", nil, root, stale, nil,
			"stale.patch:6: alloc/alloc.go: the hunk fits nowhere"},
		{"does not compile", nil, root, broken, nil, "alloc.go:5:9: undefined: m"},
		{"no module", nil, t.TempDir(), nil, nil, "it needs the sources"},
		{"other verb", nil, root, nil, []string{"run", "."}, "want build or test -c"},
		{"test that runs", nil, root, nil, []string{"test", "."}, "want build or test -c"},
		{"cancelled", done, root, nil, nil, "context canceled"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.ctx == nil {
				test.ctx = t.Context()
			}
			err := Build(test.ctx, test.root, out, test.patch, test.args...)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got error %v, want one with %q", err, test.want)
			}
			if left, _ := filepath.Glob(out + "*"); left != nil {
				t.Errorf("left behind: %q", left)
			}
		})
	}
}

func TestWrite(t *testing.T) {
	root, dir := writeModule(t), t.TempDir()
	file, err := Write(dir, root, parse(t, "rounding", diff), parse(t, "second", second))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Replace map[string]string }
	if err := json.Unmarshal(text, &got); err != nil {
		t.Fatal(err)
	}
	replaced := got.Replace[filepath.Join(root, "alloc", "alloc.go")]
	if len(got.Replace) != 1 || replaced == "" {
		t.Fatalf("got %v, want one replacement, of alloc/alloc.go", got.Replace)
	}
	source, err := os.ReadFile(replaced)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(module["alloc/alloc.go"], "(n + 7) &^ 7", "n + 1", 1)
	if diff := cmp.Diff(want, string(source)); diff != "" {
		t.Errorf("two patches together (-want +got):\n%s", diff)
	}
}

func TestWriteNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Write(dir, writeModule(t), parse(t, "second", second)); err == nil {
		t.Fatal("a patch that does not apply: got no error")
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("something was written in spite of the error")
	}
}

func parse(t *testing.T, name, text string) *bugs.Patch {
	t.Helper()
	p, err := bugs.Parse(name+".patch", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func build(t *testing.T, root, out string, patch *bugs.Patch, args ...string) {
	t.Helper()
	if err := Build(t.Context(), root, out, patch, args...); err != nil {
		t.Fatal(err)
	}
}

func writeModule(t *testing.T) string {
	t.Helper()
	t.Setenv("GOFLAGS", "")
	t.Setenv("GOWORK", "off")
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range module {
		if err := write(filepath.Join(root, filepath.FromSlash(name)), []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// readModule gives every file below root.
func readModule(t *testing.T, root string) map[string]string {
	t.Helper()
	files := make(map[string]string)
	walk := func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, _ := filepath.Rel(root, path)
		files[filepath.ToSlash(name)] = string(text)
		return err
	}
	if err := filepath.WalkDir(root, walk); err != nil {
		t.Fatal(err)
	}
	return files
}
