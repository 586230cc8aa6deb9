package fuzz

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"allocfuzz/corpus"
	"allocfuzz/fuzz/input"
)

func TestKnown(t *testing.T) {
	k := &Known{}
	k.Add("s", "twice")
	k.Add("s", "lost", "leaked")
	k.Add("s", "cycle", "leaked") // the same bug as lost
	k.Add("r", "wild")
	for _, tt := range []struct {
		subject, title string
		also           []string
		want           string
	}{
		{"s", "twice", nil, "twice"},
		{"s", "leaked", nil, "lost"},
		{"s", "cycle", nil, "lost"},
		{"s", "odd", []string{"also odd", "cycle"}, "lost"},
		{"s", "odd", nil, ""},
		{"s", "wild", nil, ""},
		{"q", "twice", nil, ""},
	} {
		got, ok := k.Find(tt.subject, tt.title, tt.also...)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%v: %q, %v", tt, got, ok)
		}
	}
	if _, ok := (*Known)(nil).Find("s", "twice"); ok {
		t.Error("nothing is known, and something is found")
	}

	name := filepath.Join(t.TempDir(), "known")
	if err := WriteBytes(name, k.Text()); err != nil {
		t.Fatal(err)
	}
	read, err := ReadKnown(name)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(read.Text()); got != string(k.Text()) {
		t.Errorf("read\n%swant\n%s", got, k.Text())
	}
	if err := WriteBytes(name, []byte("s\ttwice\ttwice\ns\ttwice\n")); err != nil {
		t.Fatal(err)
	}
	_, err = ReadKnown(name)
	if err == nil || !strings.Contains(err.Error(), "known:2: expected") {
		t.Errorf("a line without its third part: %v", err)
	}
}

// TestExpectedFiles: what the programs of a folder expect is known by the names of the subjects,
// and one that cannot be read is an error with its place.
func TestExpectedFiles(t *testing.T) {
	const head = "allocfuzz 1\ncache c size=64\n\ncpu0 a = alloc c\n\n"
	fsys := fstest.MapFS{
		"regress/a.prog": {Data: []byte(head +
			"sched subject=slab-locked => bug \"inuse wrong\"\n")},
		"regress/b.prog": {Data: []byte("allocfuzz 1\ntitle: pages leaked\nalso: slab lost; " +
			"inuse wrong\ncache c size=64\n\ncpu0 a = alloc c\n\nsched subject=slub-2008-seq " +
			"=> bug \"pages leaked\"\n")},
		"seeds/b.prog": {Data: []byte(head)},
	}
	k, err := Expected(fsys)
	if err != nil {
		t.Fatal(err)
	}
	const want = "slab-2001-threelists\tinuse wrong\tinuse wrong\n" +
		"slub-2008-seq\tpages leaked\tinuse wrong\nslub-2008-seq\tpages leaked\tpages leaked\n" +
		"slub-2008-seq\tpages leaked\tslab lost\n"
	if string(k.Text()) != want {
		t.Errorf("%q, want %q", k.Text(), want)
	}
	fsys["regress/c.prog"] = &fstest.MapFile{Data: []byte("allocfuzz 1\nwhat\n\nsched \n")}
	if _, err := Expected(fsys); err == nil || !strings.Contains(err.Error(),
		"corpus/regress/c.prog:2:") {
		t.Errorf("error %v, want one with its place", err)
	}
}

// failing is a TB that notes what a target says.
type failing struct{ text string }

func (f *failing) Helper() {}

func (f *failing) Fatalf(format string, args ...any) { f.text = fmt.Sprintf(format, args...) }

// TestGoOn: a target fails at a bug that nobody knows. With EnvGoOn it writes each bug down once
// and goes on to the other subjects; and one that is known is counted only.
func TestGoOn(t *testing.T) {
	data := recycled(t)
	names := "slub-2008-cmpxchg,slub-2008-seq-slowpath,slub-2008-seq"
	subjects, err := Select(names)
	if err != nil {
		t.Fatal(err)
	}
	dir, counts := t.TempDir(), t.TempDir()
	t.Setenv(EnvFindings, dir)
	t.Setenv(EnvStats, counts)
	target := func() *Target {
		x := &Target{Name: "FuzzInterrupts", run: (*Session).Interrupts, means: interrupts,
			s: NewSession(subjects)}
		x.s.Known = &Known{}
		t.Cleanup(x.s.Close)
		return x
	}
	saved := func() int {
		list, err := filepath.Glob(filepath.Join(dir, "*.prog"))
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}

	x, tb := target(), &failing{}
	x.Run(tb, data)
	if !strings.Contains(tb.text, "TITLE: slub-2008-cmpxchg: ") || saved() != 1 {
		t.Errorf("without a driver it says %q and saved %d", tb.text, saved())
	}

	t.Setenv(EnvGoOn, "1")
	x, tb = target(), &failing{}
	for range 10 {
		x.Run(tb, data)
	}
	if tb.text != "" || saved() != 1 {
		t.Errorf("with a driver it says %q and saved %d", tb.text, saved())
	}
	if n := x.s.Stats.Programs[2]; n < 10 {
		t.Errorf("the subject behind the one that fails ran %d times", n)
	}
	x.count(true)
	text, err := os.ReadFile(filepath.Join(counts, fmt.Sprintf("FuzzInterrupts-%d", os.Getpid())))
	if err != nil || !strings.Contains(string(text), "known 10 slub-2008-cmpxchg\t") {
		t.Errorf("counts %q, error %v", text, err)
	}
}

// recycled is the input of the regression that hands an object out twice.
func recycled(t *testing.T) []byte {
	t.Helper()
	for f := range corpus.Regress() {
		if f.Name != "corpus/regress/slub-2008-cmpxchg-aba.prog" {
			continue
		}
		p, err := f.Program()
		if err != nil {
			t.Fatal(err)
		}
		data, err := input.Encode(p)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	t.Fatal("no such regression")
	return nil
}

// TestKnownGeneric: a title that any fault may lead to does not say which bug it is, but where
// what was met together is sorted; as the title of a bug itself it does.
func TestKnownGeneric(t *testing.T) {
	var strict Known
	loose := Known{Loose: true}
	for _, k := range []*Known{&strict, &loose} {
		k.Add("s", "slab lost", "outcomes differ", "pages leaked")
		if _, ok := k.Find("s", "x", "pages leaked"); !ok {
			t.Error("another title of the bug is not known")
		}
	}
	if first, ok := strict.Find("s", "freelist cycle", "outcomes differ"); ok {
		t.Errorf("a consequence makes it %s", first)
	}
	if _, ok := strict.Find("s", "outcomes differ"); ok {
		t.Error("a bug of its own is known by what another led to")
	}
	first, ok := loose.Find("s", "freelist cycle", "outcomes differ")
	if !ok || first != "slab lost" {
		t.Errorf("met together: %q, %v", first, ok)
	}
	strict.Add("s", "outcomes differ")
	if _, ok := strict.Find("s", "outcomes differ"); !ok {
		t.Error("the title itself is not known")
	}
}
