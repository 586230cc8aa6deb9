package bugs

import (
	"fmt"
	"io/fs"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

// reader gives files out of a map, as Apply asks for them.
func reader(files map[string]string) func(string) ([]byte, error) {
	return func(path string) ([]byte, error) {
		text, ok := files[path]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return []byte(text), nil
	}
}

func TestApply(t *testing.T) {
	p, err := Parse("whole.patch", []byte(whole))
	if err != nil {
		t.Fatal(err)
	}
	// The first hunk fits thirty lines below its hint: text binds, numbers do not.
	far := strings.Repeat("x\n", 32)
	got, err := p.Apply(reader(map[string]string{
		"impls/slub/partial.go": far + "lock\npush one\n\nunlock\na\nb\nend",
		"debugcheck/fill.go":    "one\ntwo\nthree\n",
		"unrelated.go":          "one\ntwo\n",
	}))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]byte{
		"impls/slub/partial.go": []byte(far + "lock\n\ncount one\nunlock\na\nc\nend"),
		"debugcheck/fill.go":    []byte("2\n1\nthree\n"),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

func TestApplyErrors(t *testing.T) {
	tests := []struct{ name, hunks, source, want string }{
		{"twice", "@@ -1 +1 @@\n-a\n+b\n", "a\nx\na\n",
			"p.patch:6: x.go: the hunk fits at lines 1, 3: give more context"},
		{"overlapping places", "@@ -1,2 +1,2 @@\n a\n-a\n+b\n", "a\na\na\n",
			"p.patch:6: x.go: the hunk fits at lines 1, 2"},
		{"moved on", "@@ -2,3 +2,3 @@\n x\n-a\n+b\n y\n", "x\nb\ny\nx\na\nz\n",
			`p.patch:6: x.go: the hunk fits nowhere: at line 6 got "z", want "y"`},
		{"end of file", "@@ -1,2 +1,2 @@\n x\n-a\n+b\n", "x",
			`p.patch:6: x.go: the hunk fits nowhere: at line 2 got the end of the file, want "a"`},
		{"nothing alike", "@@ -1 +1 @@\n-a\n+b\n", "x\n",
			`p.patch:6: x.go: the hunk fits nowhere: no line is "a"`},
		{"blank differs", "@@ -1 +1 @@\n-\ta\n+\tb\n", "    a\n",
			`p.patch:6: x.go: the hunk fits nowhere: no line is "\ta"`},
		{"meeting hunks", "@@ -1,2 +1,2 @@\n-a\n+b\n x\n@@ -2,2 +2,2 @@\n x\n-c\n+d\n", "a\nx\nc\n",
			"p.patch:10: x.go: the hunk meets the one at line 6"},
		{"prefix of a line", "@@ -1 +1 @@\n-a\n+b\n", "ab\n",
			`p.patch:6: x.go: the hunk fits nowhere`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			p, err := Parse("p.patch", []byte(head+files+test.hunks))
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Apply(reader(map[string]string{"x.go": test.source}))
			if err == nil || !strings.HasPrefix(err.Error(), test.want) {
				t.Errorf("got error %v, want it to begin with %q", err, test.want)
			}
			if got != nil {
				t.Errorf("got files %q beside the error, want none", got)
			}
		})
	}
}

func TestApplyMissingFile(t *testing.T) {
	p, err := Parse("p.patch", []byte(head+files+"@@ -1 +1 @@\n-a\n+b\n"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Apply(reader(nil))
	if want := "p.patch: read x.go: file does not exist"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %q", err, want)
	}
}

func TestList(t *testing.T) {
	patch := []byte(head + files + "@@ -1 +1 @@\n-a\n+b\n")
	fsys := fstest.MapFS{
		"slub/b.patch": {Data: patch}, "slub/a.patch": {Data: patch},
		"slab/a.patch": {Data: patch}, "slab/a.prog": {Data: []byte("allocfuzz 1\n")},
		"README.md": {Data: []byte("hello\n")},
	}
	patches, err := List(fsys)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range patches {
		names = append(names, p.Name)
	}
	if diff := cmp.Diff([]string{"slab/a", "slub/a", "slub/b"}, names); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	for name, want := range map[string]string{
		"slub/a": "slub/a", "b": "slub/b",
		"a": `patch name "a" is ambiguous`, "c": `no patch "c": there are 3`,
	} {
		p, err := Find(patches, name)
		got := fmt.Sprint(err)
		if err == nil {
			got = p.Name
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("Find(%q): got %q, want %q", name, got, want)
		}
	}
	fsys["slub/c.patch"] = &fstest.MapFile{Data: []byte("Class: sad\n")}
	want := "slub/c.patch:1: "
	if _, err := List(fsys); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("a bad file: got %v, want an error beginning %q", err, want)
	}
}

// TestEmbedded demands that what is embedded is what lies on disk, so that a new
// folder cannot be forgotten, and that all of it parses.
func TestEmbedded(t *testing.T) {
	patches, err := All()
	if err != nil {
		t.Fatal(err)
	}
	onDisk, err := List(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(onDisk, patches); diff != "" {
		t.Errorf("patches (-on disk +embedded):\n%s", diff)
	}
	for _, p := range patches {
		if _, err := fs.Stat(Embedded(), p.Killer()); err != nil {
			t.Errorf("%s.patch: the program that kills it is missing: %v", p.Name, err)
		}
	}
}
