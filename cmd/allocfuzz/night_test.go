package main

import (
	"bytes"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/nightly"
)

// copySources copies the sources, but for the regressions of a subject.
func copySources(t *testing.T, subject string) string {
	t.Helper()
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	to := t.TempDir()
	err = filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		at, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && at != "." && strings.HasPrefix(d.Name(), "."):
			return fs.SkipDir
		case d.IsDir():
			return os.MkdirAll(filepath.Join(to, at), 0o777)
		case !d.Type().IsRegular():
			return nil
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if filepath.Base(filepath.Dir(at)) == "regress" &&
			bytes.Contains(text, []byte("sched subject="+subject+" ")) {
			return nil
		}
		return os.WriteFile(filepath.Join(to, at), text, 0o666)
	})
	if err != nil {
		t.Fatal(err)
	}
	return to
}

// TestNightReal is a night on real sources with the real toolchain: a subject whose regressions are
// gone has one new bug, however many titles and inputs show it; it becomes one regression, which
// holds, and the next night knows it.
func TestNightReal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds fuzz binaries")
	}
	t.Chdir(copySources(t, "slub-2008-cmpxchg"))
	state := t.TempDir()
	night := func(want int) *nightly.Report {
		var out, errs bytes.Buffer
		status := start([]string{"nightly", "--for", "14s", "--json", "--subject",
			"slub-2008-cmpxchg,slub-2008-seq", "--target", "interrupts", "--state", state,
			"--corpus", filepath.Join(state, "corpus")}, strings.NewReader(""), &out, &errs)
		var doc document
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
		}
		if status != want || doc.Night == nil {
			t.Fatalf("exit status %d, want %d\n%s", status, want, errs.String())
		}
		return doc.Night
	}
	first := night(statusFound)
	fresh := 0
	for i := range first.Filed {
		if f := &first.Filed[i]; f.New() {
			fresh++
			if f.Fate != nightly.Regression || f.Subject != "slub-2008-cmpxchg" || f.Lines > 12 {
				t.Errorf("%+v", f)
			}
		}
	}
	if len(first.Filed) != 1 { // what a slice found the next ones know
		t.Errorf("%d reports: %+v", len(first.Filed), first.Filed)
	}
	files, err := filepath.Glob("corpus/regress/slub-2008-cmpxchg-*.prog")
	if err != nil || fresh != 1 || len(files) != 1 {
		t.Errorf("%d new, regressions %q, error %v", fresh, files, err)
	}
	fuzzed := uint64(0)
	for _, a := range first.Arms {
		if a.Name != "explorers" {
			fuzzed += uint64(a.Execs)
		}
	}
	if fuzzed == 0 {
		t.Error("nothing was fuzzed")
	}
	for i, f := range night(statusClean).Filed {
		if f.New() {
			t.Errorf("found again: %d: %+v", i, f)
		}
	}
}
