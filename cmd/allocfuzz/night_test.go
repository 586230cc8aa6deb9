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
// gone has new bugs, however many titles and inputs show them; each becomes one regression, which
// the next night knows.
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
		turns := 0
		for _, a := range r.Arms {
			turns += a.Slices
			fuzzed = fuzzed || a.Name != "explorers" && a.Execs > 0
		}
		switch {
		case status == statusFound && first == nil:
			first = r
		case status == statusWrong && turns == 0: // and says so
		case status != statusClean:
			t.Fatalf("exit status %d in night %d: %+v", status, n, r.Filed)
		}
	}
	if first == nil || !fuzzed {
		t.Fatalf("%d nights: found %v, fuzzed %v", nights, first != nil, fuzzed)
	}
	// The subject has two bugs, of which a night may meet both; each is filed once, by whatever
	// titles it comes, and not again.
	_, second := night()
	filed := map[string]bool{}
	for _, r := range []*nightly.Report{first, second} {
		for i := range r.Filed {
			f := &r.Filed[i]
			if !f.New() {
				continue
			}
			if f.Fate != nightly.Regression || f.Subject != "slub-2008-cmpxchg" || f.Lines > 12 ||
				filed[f.Title] {
				t.Errorf("filed %+v", f)
			}
			filed[f.Title] = true
		}
	}
	files, err := filepath.Glob("corpus/regress/slub-2008-cmpxchg-*.prog")
	if err != nil || len(files) != len(filed) || len(filed) == 0 || len(filed) > 4 {
		t.Errorf("regressions %q of %v, error %v", files, filed, err)
	}
}
