package trace

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
)

// TestCommitted looks at the recordings in corpus/traces: each parses, is canonical, is long enough
// to be real, frees nothing that is not live, and says at its top what was run.
func TestCommitted(t *testing.T) {
	files, err := filepath.Glob("../traces/*.prog")
	if err != nil || len(files) < 3 {
		t.Fatalf("got %d traces, error %v; want at least 3", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			raw, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			p, err := prog.Parse(file, strings.NewReader(string(raw)))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(raw), p.String()); diff != "" {
				t.Errorf("not canonical (-file +formatted):\n%s", diff)
			}
			if len(p.Lines) < 1000 || len(raw) > 600<<10 {
				t.Errorf("got %d operations in %d bytes; want at least 1000 in at most 600 KiB",
					len(p.Lines), len(raw))
			}
			checkNames(t, p)
			checkHead(t, p)
		})
	}
}

// checkHead demands a comment of at least two lines, without paths, and a machine that the live
// peak fits in twice.
func checkHead(t *testing.T, p *prog.Program) {
	t.Helper()
	doc := strings.Join(p.Doc, "\n")
	if strings.Count(doc, "# ") < 2 || strings.Contains(doc, "/") {
		t.Errorf("the head says not what was run, or has a path:\n%s", doc)
	}
	var use footprint
	size := make(map[string]uint64)
	for i := range p.Lines {
		l := &p.Lines[i]
		if len(l.Results) > 0 {
			n := l.Nums[len(l.Nums)-1]
			size[l.Results[0]] = n
			use.add(n)
		}
		if len(l.Slots) > 0 {
			use.remove(size[l.Slots[0]])
		}
	}
	if pages, enough := use.pages(); !enough || p.Machine.Pages != pages {
		t.Errorf("machine pages=%d, want %d", p.Machine.Pages, pages)
	}
}
