package nightly

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
)

// TestSame: what this night has filed, or a committed program expects, is not filed again, by
// whichever of its titles it comes.
func TestSame(t *testing.T) {
	w := &work{out: t.TempDir(), known: &fuzz.Known{}}
	w.known.Add("slub-2008-cmpxchg", "freelist leaves its slab", "wild address")
	s := &State{Filed: []Filed{{Report: "first.txt", Subject: "slub-2008-cmpxchg",
		Title: "object handed out twice", Also: []string{"live object on a freelist"},
		Fate: Regression}}}
	for _, x := range []struct{ title, also, why string }{
		{"object handed out twice", "", "this night"},
		{"contents changed", "live object on a freelist", "this night"},
		{"wild address", "", "a committed program"},
		{"slab lost", "pages leaked; freelist leaves its slab", "a committed program"},
	} {
		text := "TITLE: slub-2008-cmpxchg: " + x.title + "\nCLASS: ownership\n"
		if x.also != "" {
			text += "ALSO: " + x.also + "\n"
		}
		text += "IDENTITY: slub-2008-cmpxchg: " + x.title + " in alloc\nREPLAY: allocfuzz\n\n"
		if err := os.WriteFile(filepath.Join(w.out, "x.txt"), []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		got, err := w.File(t.Context(), s, "x.txt")
		if err != nil || got.Fate != Same || !strings.HasPrefix(got.Why, x.why) {
			t.Errorf("%s: %+v, error %v", x.title, got, err)
		}
	}
}

// TestPoison: one report of which nothing can be made is a fault that is told, and the others are
// filed; the next time it is not met again.
func TestPoison(t *testing.T) {
	dir := t.TempDir()
	steps := &poisoned{}
	n := &Night{Dir: dir, Steps: steps, State: &State{Budget: 10}, Log: t.Logf}
	for range 2 {
		if err := n.file(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(n.Faults) != 1 || len(n.State.Filed) != 2 || steps.filed != 2 ||
		n.State.Filed[0].Fate != Faulty || n.State.Filed[0].New() || !n.State.Filed[1].New() {
		t.Errorf("faults %v, filed %+v, asked %d times", n.Faults, n.State.Filed, steps.filed)
	}
}

// poisoned are steps with two reports, the first of which is none.
type poisoned struct {
	Steps
	filed int
}

func (p *poisoned) Pending() ([]string, error) { return []string{"a.txt", "b.txt"}, nil }

func (p *poisoned) File(_ context.Context, _ *State, report string) (*Filed, error) {
	p.filed++
	if report == "a.txt" {
		return nil, errors.New("not a program")
	}
	return &Filed{Fate: Regression, Identity: "s: x"}, nil
}

// TestDeaths: an input that ended its worker, which could write no report, gets one, and is kept.
func TestReportDeaths(t *testing.T) {
	w := &work{out: t.TempDir(), known: &fuzz.Known{}}
	file := filepath.Join(w.out, "exited-1.prog")
	if err := os.WriteFile(file, []byte("allocfuzz 1\ncpu0 a = malloc 8\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	f := engine.Finding{Title: "exited", Class: "process", Identity: "FuzzSequential: exited",
		File: file, Command: "allocfuzz replay " + file}
	if err := w.reportDeaths([]engine.Finding{f}); err != nil {
		t.Fatal(err)
	}
	s := &State{}
	list, err := w.Pending()
	if err != nil || len(list) != 1 {
		t.Fatalf("%q, error %v", list, err)
	}
	got, err := w.File(t.Context(), s, list[0])
	if err != nil || got.Fate != Kept || !got.New() || got.Program != file || got.Subject != "" {
		t.Errorf("%+v, error %v", got, err)
	}
}

// TestDamaged: a state whose arms are not those of the night begins anew instead of going on.
func TestDamaged(t *testing.T) {
	for _, arms := range [][]*Arm{nil, {nil}, {{Name: "explorers", Next: -5}}, {{Name: "other"}}} {
		dir := t.TempDir()
		old := &State{Schema: schema, Key: "k", Arms: arms, Budget: 10}
		if err := old.Save(dir); err != nil {
			t.Fatal(err)
		}
		n := &Night{Dir: dir, Log: t.Logf}
		resumed, err := n.Begin(&State{Key: "k", Arms: []*Arm{{Name: "explorers"}}}, false)
		if err != nil || resumed {
			t.Errorf("%+v: resumed %v, error %v", arms, resumed, err)
		}
	}
}
