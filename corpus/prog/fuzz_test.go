package prog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// ignorePositions compares programs as the format does: by content, not by place.
var ignorePositions = cmp.Options{
	cmpopts.IgnoreTypes(Pos{}), cmpopts.EquateEmpty(), cmpopts.IgnoreFields(Program{}, "File"),
}

// FuzzFormat demands of arbitrary bytes that what parses prints stably and reads back equal, that
// the printed program is valid, that the stream reader agrees, and that repair never panics and
// leaves a program that parses.
func FuzzFormat(f *testing.F) {
	for _, name := range programs(f) {
		b, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b))
	}
	for _, c := range faults {
		f.Add(c.text)
	}
	f.Fuzz(func(t *testing.T, text string) { checkText(t, text) })
}

// checkText demands of any text what FuzzFormat says.
func checkText(t *testing.T, text string) {
	t.Helper()
	p, strict := ParseString(text)
	if strict == nil {
		checkStable(t, p)
	}
	p, dropped, err := ParseRepair("", strings.NewReader(text))
	if err != nil {
		if strict == nil {
			t.Fatalf("strict accepts, repair does not: %v\n%s", err, text)
		}
		return
	}
	if (strict == nil) != (len(dropped) == 0) {
		t.Fatalf("strict: %v, but %d dropped\n%s", strict, len(dropped), text)
	}
	again, err := ParseString(p.String())
	if err != nil {
		t.Fatalf("repaired program: %v\n%s", err, p)
	}
	if got, want := again.String(), p.String(); got != want {
		t.Fatalf("repaired program is not stable:\n%s", cmp.Diff(want, got))
	}
}

// checkStable demands that p prints to a text that reads back equal and prints the same.
func checkStable(t *testing.T, p *Program) {
	t.Helper()
	if err := Validate(p); err != nil {
		t.Fatalf("parsed, but not valid: %v\n%s", err, p)
	}
	text := p.String()
	again, err := ParseString(text)
	if err != nil {
		t.Fatalf("printed text does not parse: %v\n%s", err, text)
	}
	if d := cmp.Diff(p, again, ignorePositions); d != "" {
		t.Fatalf("reading back differs (-first +again):\n%s\n%s", d, text)
	}
	if got := again.String(); got != text {
		t.Fatalf("printing is not stable (-first +again):\n%s", cmp.Diff(text, got))
	}
}

// programs returns the example files.
func programs(t testing.TB) []string {
	t.Helper()
	names, err := filepath.Glob("testdata/*.prog")
	if err != nil || len(names) < 3 {
		t.Fatalf("example programs: %d found, want 3 or more (%v)", len(names), err)
	}
	return names
}
