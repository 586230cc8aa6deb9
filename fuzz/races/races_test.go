package races

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz/engine"
)

// TestTable: each race is found within its bounds by its wrong step, and where it has one by its
// consequence alone; each design that must be silent is, in all schedules within two
// preemptions and one interrupt. The README says so.
func TestTable(t *testing.T) {
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	readme := string(text)
	l := &Lab{Root: root, Dir: t.TempDir()}
	for i := range Table {
		r := &Table[i]
		if testing.Short() && r.Patch != "" {
			continue // each is a build
		}
		o, err := l.Run(t.Context(), r, 0)
		if err != nil {
			t.Errorf("%s on %s: %v", r.Row, r.Program, err)
			continue
		}
		if row := o.Proved(); !strings.Contains(readme, row) {
			t.Errorf("README.md has no row that begins with %s: run make explore", row)
		}
		if wrong := o.Wrong(); wrong != "" {
			t.Errorf("%s on %s, %s %s: %s", r.Row, r.Program, r.Subject, r.Patch, wrong)
		}
	}
}
