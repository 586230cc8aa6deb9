package report

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestWrote: every form is known by its head, and no other file of this repository is.
func TestWrote(t *testing.T) {
	r, _ := run(t)
	var page bytes.Buffer
	if err := (&Page{Title: "x", Run: r}).HTML(&page); err != nil {
		t.Fatal(err)
	}
	if !Wrote(page.Bytes()) {
		t.Errorf("no page: %.300s", page.String())
	}
	for _, v := range Views() {
		var b bytes.Buffer
		if err := v.Write(&b, r); err != nil {
			t.Fatal(err)
		}
		if !Wrote(b.Bytes()) {
			t.Errorf("%s is not known: %.200s", v.Name, b.String())
		}
	}
	for _, name := range []string{"README.md", "go.mod", "fuzz/report/source.go",
		"corpus/regress/slub-2008-cmpxchg-aba.prog"} {
		text, err := os.ReadFile(filepath.Join("..", "..", name))
		if err != nil {
			t.Fatal(err)
		}
		if Wrote(text) {
			t.Errorf("%s is taken for a report", name)
		}
	}
}

// TestReadAgain: a folder that is used twice shows the findings of both, and what is in it that is
// no whole source is named.
func TestReadAgain(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("a.prog", "allocfuzz 1\ncpu0 a = malloc 8\n")
	write("a.txt", "TITLE: toy: slab lost\nCLASS: structure\nIDENTITY: toy: slab lost in free\n\n")
	head := `{"kind":"run","run":{"schema":1,"command":"run","complete":true}}` + "\n"
	for _, row := range []struct {
		text     string
		findings int
		problem  string
	}{
		{head, 1, ""},
		{"", 1, "no line of the run"},
		{strings.Replace(head, `"schema":1`, `"schema":99`, 1), 1, "schema 99: expected 1"},
		{head + `{"kind":"x","y":"` + strings.Repeat("z", lineMost) + "\"}\n" +
			`{"kind":"finding","finding":{"identity":"b","subject":"s","title":"t"}}` + "\n", 2,
			"expected at most"},
		{head + strings.Repeat(
			`{"kind":"finding","finding":{"identity":"b","subject":"s","title":"t"}}`+"\n", 2),
			2, ""},
	} {
		write(SourceFile, row.text)
		r, err := Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Findings) != row.findings ||
			(row.problem == "") != (len(r.Problems) == 0) ||
			row.problem != "" && !strings.Contains(r.Problems[0], row.problem) {
			t.Errorf("%.60q: %d findings, problems %q", row.text, len(r.Findings), r.Problems)
		}
	}
}

// TestOnlyKnown: a page of a run that found nothing new says what it knows of.
func TestOnlyKnown(t *testing.T) {
	r, _ := run(t)
	r.Findings = r.Findings[2:]
	var page bytes.Buffer
	if err := (&Page{Title: "x", Run: r}).HTML(&page); err != nil {
		t.Fatal(err)
	}
	want := "Nothing new was found; 1 known, which --all shows."
	if !strings.Contains(page.String(), want) {
		t.Errorf("no %q", want)
	}
}
