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

// TestNightReal is nights on real sources with the real toolchain: a subject whose regressions are
// gone has one new bug, however many titles and inputs show it; it becomes one regression, which
// holds, and the next night knows it.
func TestNightReal(t *testing.T) {
	if testing.Short() {
		t.Skip("builds fuzz binaries")
	}
	t.Chdir(copySources(t, "slub-2008-cmpxchg"))
	state := t.TempDir()
	night := func() (status int, r *nightly.Report) {
		t.Helper()
		var out, errs bytes.Buffer
		status = start([]string{"nightly", "--for", "14s", "--json", "--subject",
			"slub-2008-cmpxchg,slub-2008-seq", "--target", "interrupts", "--state", state,
			"--corpus", filepath.Join(state, "corpus")}, strings.NewReader(""), &out, &errs)
		var doc document
		if err := json.Unmarshal(out.Bytes(), &doc); err != nil {
			t.Fatalf("%v\n%s\n%s", err, out.String(), errs.String())
		}
		if doc.Night == nil {
			t.Fatalf("exit status %d\n%s", status, errs.String())
		}
		return status, doc.Night
	}
	// On a machine that is busy a night may be over with the build: then there is another.
	const nights = 10
	var first *nightly.Report
	fuzzed := false
	for n := 0; n < nights && (first == nil || !fuzzed); n++ {
		status, r := night()
		for _, a := range r.Arms {
			fuzzed = fuzzed || a.Name != "explorers" && a.Execs > 0
		}
		switch {
		case status == statusFound && first == nil:
			first = r
		case status != statusClean:
			t.Fatalf("exit status %d in night %d: %+v", status, n, r.Filed)
		}
	}
	if first == nil || !fuzzed {
		t.Fatalf("%d nights: found %v, fuzzed %v", nights, first != nil, fuzzed)
	}
	// What a slice found the next ones know.
	if f := first.Filed; len(f) != 1 || f[0].Fate != nightly.Regression ||
		f[0].Subject != "slub-2008-cmpxchg" || f[0].Lines > 12 {
		t.Errorf("filed %+v", f)
	}
	files, err := filepath.Glob("corpus/regress/slub-2008-cmpxchg-*.prog")
	if err != nil || len(files) != 1 {
		t.Errorf("regressions %q, error %v", files, err)
	}
	if status, r := night(); status != statusClean || len(r.Filed) > 0 {
		t.Errorf("found again: exit status %d, %+v", status, r.Filed)
	}
}
