package main

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/libfuzzer"
)

// TestUsage: a wrong command line is told what was expected, before anything is built.
func TestUsage(t *testing.T) {
	for _, x := range []struct{ args, want string }{
		{"", "expected build or run"},
		{"make", "expected build or run"},
		{"build", "-o: expected a folder"},
		{"build -o x y", "\"y\""},
		{"build -o x -target nosuch", "no fuzz target \"nosuch\""},
		{"run -o x -for 1ms", "-for 1ms"},
		{"run -o x -fork 0", "-fork 0"},
		{"build -nosuch", "flag provided but not defined"},
	} {
		var errs bytes.Buffer
		status, err := start(t.Context(), strings.Fields(x.args), &errs)
		if status != wrong || err == nil || !strings.Contains(err.Error(), x.want) {
			t.Errorf("%q: status %d, error %v, want %q", x.args, status, err, x.want)
		}
	}
	if _, err := os.Stat("x"); err == nil {
		t.Error("a wrong command line made a folder")
	}
	t.Setenv("PATH", t.TempDir())
	t.Setenv("CC", "")
	t.Setenv("CLANG", "")
	_, err := start(t.Context(), []string{"build", "-o", t.TempDir()}, &bytes.Buffer{})
	if !errors.Is(err, libfuzzer.ErrNoClang) {
		t.Errorf("without clang: %v", err)
	}
}

// clang finds a clang that links libFuzzer; without one the test is skipped.
func clang(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("builds fuzzers")
	}
	path, err := libfuzzer.Clang()
	if err == nil {
		err = libfuzzer.Links(t.Context(), path, t.TempDir())
	}
	if err != nil {
		t.Skip(err)
	}
	return path
}

// TestClusterBuild runs the build script of ClusterFuzzLite with its variables, outside a
// container: it makes every target with seeds and options, each runs all its seeds, and the one of
// OSS-Fuzz is the same.
func TestClusterBuild(t *testing.T) {
	cc := clang(t)
	root, err := engine.FindRoot(".")
	if err != nil {
		t.Fatal(err)
	}
	src, out := t.TempDir(), t.TempDir()
	if err := os.Symlink(root, filepath.Join(src, "allocfuzz")); err != nil {
		t.Fatal(err)
	}
	script := filepath.Join(root, ".clusterfuzzlite", "oss-fuzz", "build.sh")
	cmd := exec.Command("bash", script)
	cmd.Env = append(os.Environ(), "SRC="+src, "OUT="+out, "WORK="+t.TempDir(), "CC="+cc, "CXX="+cc,
		"CXXFLAGS=-O1", "LIB_FUZZING_ENGINE=-fsanitize=fuzzer", "SANITIZER=address",
		"FUZZING_ENGINE=libfuzzer", "FUZZING_LANGUAGE=go")
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	want := []string{"FuzzProg.dict"}
	for _, target := range fuzz.Entries() {
		want = append(want, target, target+".options", target+"_seed_corpus.zip")
	}
	for _, name := range want {
		if info, err := os.Stat(filepath.Join(out, name)); err != nil || info.Size() == 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	if list, err := os.ReadDir(out); err != nil || len(list) != len(want) {
		t.Errorf("%d files, want %d: %v", len(list), len(want), list)
	}
	options, err := os.ReadFile(filepath.Join(out, "FuzzProg.options"))
	if err != nil || !strings.Contains(string(options), "\ndict = FuzzProg.dict\n") {
		t.Errorf("options %q, error %v", options, err)
	}
	for _, target := range fuzz.Entries() {
		runSeeds(t, out, target)
	}
}

// runSeeds runs every seed of a target as a cluster would, and its dictionary is read.
func runSeeds(t *testing.T, out, target string) {
	t.Helper()
	z, err := zip.OpenReader(filepath.Join(out, target+"_seed_corpus.zip"))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	dir := filepath.Join(t.TempDir(), "seeds")
	if err := os.CopyFS(dir, z); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("%d files found in ", len(z.File))}
	args := []string{"-runs=0", "-timeout=60", dir}
	if target == fuzz.Prog {
		args = append([]string{"-dict=" + filepath.Join(out, target+".dict")}, args...)
		want = append(want, "Dictionary: ")
	}
	cmd := exec.Command(filepath.Join(out, target), args...)
	cmd.Dir = t.TempDir()
	text, err := cmd.CombinedOutput()
	for _, w := range want {
		if err != nil || !strings.Contains(string(text), w) {
			t.Fatalf("%s: no %q in what it says, error %v\n%.4000s", target, w, err, text)
		}
	}
}

// TestNoLibraries: a library of malloc is no subject of a target of libFuzzer, and a run of one
// says so, rather than that nothing was found.
func TestNoLibraries(t *testing.T) {
	clang(t)
	t.Setenv(fuzz.EnvSubjects, "lib:libc.so.6")
	var errs bytes.Buffer
	status, err := start(t.Context(), []string{"run", "-o", t.TempDir(), "-target", "interrupts",
		"-fork", "1", "-for", "5s"}, &errs)
	if status == clean || !strings.Contains(fmt.Sprint(err, errs.String()), "loads no libraries") {
		t.Errorf("status %d, error %v\n%s", status, err, &errs)
	}
}

// TestRun fuzzes sound subjects without a crash and an unsound one until it crashes; the crash has
// its program, and the input is one that the command imports.
func TestRun(t *testing.T) {
	clang(t)
	out := t.TempDir()
	run := func(args ...string) (int, string) {
		t.Helper()
		var errs bytes.Buffer
		status, err := start(context.Background(), append([]string{"run", "-o", out, "-target",
			"interrupts", "-fork", "1"}, args...), &errs)
		if err != nil {
			t.Fatalf("%v\n%s", err, errs.String())
		}
		return status, errs.String()
	}
	t.Setenv(fuzz.EnvSubjects, "slub-2008-seq")
	status, text := run("-for", "3s")
	if status != clean || strings.Contains(text, "CRASH") {
		t.Fatalf("a sound subject: status %d\n%s", status, text)
	}
	kept, err := os.ReadDir(filepath.Join(out, "corpus", "FuzzInterrupts"))
	if err != nil || len(kept) == 0 ||
		!strings.Contains(text, fmt.Sprintf(" %d inputs kept", len(kept))) {
		t.Errorf("%d inputs kept, error %v, and it says\n%s", len(kept), err, text)
	}
	// One title of it is known, another is not.
	t.Setenv(fuzz.EnvSubjects, "page-2001-percpu-preempt")
	status, text = run("-for", "20s")
	if status != found || !strings.Contains(text, "CRASH ") || !strings.Contains(text,
		"corpus import --target FuzzInterrupts") {
		t.Fatalf("an unsound subject: status %d\n%s", status, text)
	}
	programs, err := filepath.Glob(filepath.Join(out, "findings", "FuzzInterrupts", "*.prog"))
	if err != nil || len(programs) == 0 {
		t.Errorf("programs %q, error %v", programs, err)
	}
}
