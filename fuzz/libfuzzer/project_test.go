package libfuzzer

import (
	"archive/zip"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/store"
)

// ownSeeds are the inputs that a target begins with, said once more than in fuzz.SeedsOf.
var ownSeeds = map[string]func() [][]byte{
	"FuzzSequential": func() [][]byte { return fuzz.Seeds(false) },
	"FuzzInterrupts": func() [][]byte { return fuzz.Seeds(false) },
	"FuzzSMP":        fuzz.SeedsSMP,
	"FuzzDebug":      func() [][]byte { return fuzz.Seeds(true) },
	"FuzzPairs":      func() [][]byte { return fuzz.Seeds(true) },
	"FuzzProg":       nil, // texts
}

// sameSeeds holds inputs, in the form of Go, against those that a target is to begin with.
func sameSeeds(t *testing.T, target string, got map[string]bool) {
	t.Helper()
	list, known := ownSeeds[target]
	if !known || len(got) == 0 {
		t.Errorf("%s: %d seeds; its own are known: %v", target, len(got), known)
	}
	if list == nil {
		for text := range got { //tidy:maporder each by itself
			if !strings.HasPrefix(text, `"allocfuzz 1\n`) && !strings.HasPrefix(text, `"#`) {
				t.Errorf("%s: a seed is no program: %.60s", target, text)
			}
		}
		return
	}
	want := map[string]bool{}
	for _, data := range list() {
		text := fmt.Sprintf("%q", data)
		want[text] = true
		if !got[text] {
			t.Errorf("%s: no seed %.60s", target, text)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d seeds, want %d", target, len(got), len(want))
	}
}

// TestBeside: every target has the seeds of its own, and options; one of them has words.
func TestBeside(t *testing.T) {
	dir := t.TempDir()
	for _, target := range fuzz.Entries() {
		bin := filepath.Join(dir, target)
		if err := beside(bin, target); err != nil {
			t.Fatal(err)
		}
		z, err := zip.OpenReader(bin + "_seed_corpus.zip")
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, f := range z.File {
			data := unzip(t, f)
			got[fmt.Sprintf("%q", data)] = true
			if f.Name != store.Name(data) {
				t.Errorf("%s: a seed is called %s", target, f.Name)
			}
		}
		z.Close()
		sameSeeds(t, target, got)
		want := "[libfuzzer]\nmax_len = 4096\ntimeout = 25\nrss_limit_mb = 4096\n"
		words := 0
		if target == fuzz.Prog {
			want += "dict = FuzzProg.dict\n"
			words = 1
		}
		if text, err := os.ReadFile(bin + ".options"); err != nil || string(text) != want {
			t.Errorf("%s: options %q, error %v, want %q", target, text, err, want)
		}
		if list, _ := filepath.Glob(bin + ".dict"); len(list) != words {
			t.Errorf("%s: dictionaries %q, want %d", target, list, words)
		}
	}
}

func unzip(t *testing.T, f *zip.File) []byte {
	t.Helper()
	r, err := f.Open()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
