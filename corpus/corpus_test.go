package corpus

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"allocfuzz/corpus/prog"
)

var update = flag.Bool("update", false, "rewrite the committed programs in their canonical form")

// TestCanonical demands that every committed program parses, and is spelt as the formatter spells
// it.
func TestCanonical(t *testing.T) {
	for f := range All() {
		p, err := f.Program()
		if err != nil {
			t.Error(err)
			continue
		}
		text := prog.Format(p)
		if *update {
			name := filepath.FromSlash(strings.TrimPrefix(f.Name, "corpus/"))
			if err := os.WriteFile(name, text, 0o644); err != nil {
				t.Fatal(err)
			}
			continue
		}
		if diff := cmp.Diff(string(f.Text), string(text)); diff != "" {
			t.Errorf("%s (-file +canonical):\n%s", f.Name, diff)
		}
	}
}

// TestSeeds demands enough hand-written programs, each with a word on its idea, small, and
// expecting no bug: what they start is a search.
func TestSeeds(t *testing.T) {
	n := 0
	ideas := map[string]string{}
	for f := range Seeds() {
		n++
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case len(p.Doc) == 0 || len(p.Doc) > 3:
			t.Errorf("%s: %d lines of prose, want one to three", f.Name, len(p.Doc))
		case ideas[p.Doc[0]] != "":
			t.Errorf("%s: the same idea as %s", f.Name, ideas[p.Doc[0]])
		case len(p.Lines) > 60:
			t.Errorf("%s: %d lines, want at most 60", f.Name, len(p.Lines))
		case p.Head != (prog.Head{}) || len(p.Scheds) > 0 && p.Scheds[0].Bug != "":
			t.Errorf("%s: has a head or expects a bug: is it a regression?", f.Name)
		}
		if len(p.Doc) > 0 {
			ideas[p.Doc[0]] = f.Name
		}
	}
	if n < 24 {
		t.Errorf("%d seeds, want at least 24", n)
	}
}

// TestSeedsCover demands that the seeds together use every verb that is no misuse, every kind of
// context and each of the machines.
func TestSeedsCover(t *testing.T) {
	seen := map[string]bool{}
	for f := range Seeds() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		seen["preempt "+p.Machine.Preempt.String()] = true
		seen["16 bits"] = seen["16 bits"] || p.Machine.Word == 16
		p.Walk(func(l *prog.Line, _ []int) {
			seen[l.Verb.String()] = true
			seen["handler"] = seen["handler"] || l.Ctx.IsIRQ()
			seen["task"] = seen["task"] || l.Ctx.Kind == prog.TaskCtx
			seen["fail"] = seen["fail"] || l.Num("fail", 0) > 0
		})
	}
	want := []string{
		"preempt none", "preempt full", "preempt rt", "16 bits", "handler", "task", "fail",
	}
	for v := range prog.Verb(prog.Verbs) {
		if v.Op().Class != prog.ClassMisuse && v != prog.Offline {
			want = append(want, v.String())
		}
	}
	for _, w := range want {
		if !seen[w] {
			t.Errorf("no seed has: %s", w)
		}
	}
}

// TestRegress demands that every regression says what it shows, and when and where it was found.
func TestRegress(t *testing.T) {
	for f := range Regress() {
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		h := p.Head
		if h.Title == "" || h.Class == "" || h.Found == "" || h.Date == "" {
			t.Errorf("%s: head %+v, want title, class, found and date", f.Name, h)
		}
		for i := range p.Scheds {
			if p.Scheds[i].Bug != h.Title {
				t.Errorf("%s: block %d expects %q, want the title of the head, %q",
					f.Name, i, p.Scheds[i].Bug, h.Title)
			}
		}
	}
}

// TestABA demands that the seed is the regression without its schedule: fuzzing starts one change
// away from the bug.
func TestABA(t *testing.T) {
	seed := find(t, "corpus/seeds/aba-interrupt.prog")
	bug := find(t, "corpus/regress/slub-2008-cmpxchg-aba.prog")
	if len(bug.Scheds) != 1 {
		t.Fatalf("%d blocks in the regression, want 1", len(bug.Scheds))
	}
	bug.Scheds, bug.Head = nil, prog.Head{}
	if diff := cmp.Diff(seed.String(), bug.String()); diff != "" {
		t.Errorf("(-seed +regression):\n%s", diff)
	}
}

// TestOrder demands names in order, from the root of the repository, and all of every folder.
func TestOrder(t *testing.T) {
	var names []string
	for f := range All() {
		names = append(names, f.Name)
	}
	var want []string
	for _, folder := range []string{"seeds", "regress", "traces"} {
		files, err := filepath.Glob(folder + "/*.prog")
		if err != nil {
			t.Fatal(err)
		}
		slices.Sort(files)
		for _, f := range files {
			want = append(want, "corpus/"+filepath.ToSlash(f))
		}
	}
	if diff := cmp.Diff(want, names); diff != "" {
		t.Error(diff)
	}
	n := 0
	for range All() {
		if n++; n == 2 {
			break
		}
	}
}

// TestErrorPlace demands that an error names file, line and column.
func TestErrorPlace(t *testing.T) {
	fsys := fstest.MapFS{
		"seeds/b.prog":   {Data: []byte("allocfuzz 1\ncpu0 a = alloc nothing\n")},
		"seeds/a.prog":   {Data: []byte("allocfuzz 1\n")},
		"seeds/notes.md": {Data: []byte("no program")},
	}
	var got []string
	for f := range files(fsys, "seeds") {
		_, err := f.Program()
		if err != nil {
			got = append(got, err.Error())
		} else {
			got = append(got, f.Name)
		}
	}
	if len(got) != 2 || got[0] != "corpus/seeds/a.prog" ||
		!strings.HasPrefix(got[1], "corpus/seeds/b.prog:2:16: ") {
		t.Errorf("got %q", got)
	}
}

func find(t *testing.T, name string) *prog.Program {
	t.Helper()
	for f := range All() {
		if f.Name != name {
			continue
		}
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	t.Fatalf("no file %s", name)
	return nil
}
