package subject

import (
	"context"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/minimise"
)

// envSmall has a test make the program of its failure small and write it to the file of that name.
const envSmall = "ALLOCFUZZ_SMALL"

// Bounds of the time for making a program small: for all of it, for one run of a candidate, and for
// the process that does it.
const (
	smallMost = 5 * time.Second
	smallRun  = 500 * time.Millisecond
	smallWait = 10 * time.Second
)

// small makes the program of a failure small, with the same finding: the first one of a harness. It
// is done in a process of its own, since what is left of a program may keep the allocator for ever.
// The workers of the fuzz engine leave it to the test that runs the input again: the engine runs
// what it has found many times, and has the user wait.
func (h *harness) small(test string, f *fuzz.Failure) *fuzz.Failure {
	if file := os.Getenv(envSmall); file != "" {
		writeSmall(file, f)
		return f
	}
	worker := flag.Lookup("test.fuzzworker")
	if h.done || worker != nil && worker.Value.String() == "true" || !strings.Contains(test, "/") {
		return f
	}
	h.done = true
	text, err := child(test)
	if err != nil {
		return f // what there is shows it too
	}
	p, err := prog.ParseString(text)
	if err != nil {
		return f
	}
	small, err := h.s.Program(p)
	if err != nil || small == nil ||
		small.Report.Finding.Identity() != f.Report.Finding.Identity() {
		return f
	}
	return small
}

// child runs a test again in a process that makes its program small, and returns that.
func child(test string) (string, error) {
	dir, err := os.MkdirTemp("", "allocfuzz-small-*")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), smallWait)
	defer cancel()
	file := filepath.Join(dir, "small.prog")
	var run []string
	for part := range strings.SplitSeq(test, "/") {
		run = append(run, "^"+regexp.QuoteMeta(part)+"$")
	}
	cmd := exec.CommandContext(ctx, self, "-test.run="+strings.Join(run, "/"), "-test.count=1")
	cmd.Env = append(os.Environ(), envSmall+"="+file)
	_ = cmd.Run() // the test fails there too; what counts is the file
	text, err := os.ReadFile(file)
	return string(text), err
}

// writeSmall writes the minimised program of a failure.
func writeSmall(file string, f *fuzz.Failure) {
	ctx, cancel := context.WithTimeout(context.Background(), smallMost)
	defer cancel()
	bug := minimise.Bug{Subject: f.Variant, Reference: f.Reference,
		Identity: f.Report.Finding.Identity()}
	res, err := minimise.Program(ctx, f.Report.Program, bug, minimise.Options{Limit: smallRun})
	if res == nil || res.Flaky || err != nil && ctx.Err() == nil {
		return
	}
	_ = fuzz.WriteBytes(file, prog.Format(res.Program)) // without the file nothing is lost
}
