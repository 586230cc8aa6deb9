package libfuzzer

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"allocfuzz/fuzz"
)

// envArgs names the file to which the binary that fuzzes as libFuzzer does writes its arguments
// and, a line each in the form of Go, the inputs that it was to start from.
const envArgs = "ALLOCFUZZ_TEST_ARGS"

// fakeFuzz fuzzes as libFuzzer does when what the name says happens, and does not return.
func fakeFuzz(what string) {
	prefix := ""
	for _, arg := range os.Args {
		if name, ok := strings.CutPrefix(arg, "-artifact_prefix="); ok {
			prefix = name
		}
	}
	write := func(name, text string) {
		if err := os.WriteFile(name, []byte(text), 0o666); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
	}
	if name := os.Getenv(envArgs); name != "" {
		text := strings.Join(os.Args[1:], "\n") + "\n"
		seeds, _ := os.ReadDir(os.Args[len(os.Args)-1])
		for _, e := range seeds {
			data, _ := os.ReadFile(filepath.Join(os.Args[len(os.Args)-1], e.Name()))
			text += fmt.Sprintf("%q\n", data)
		}
		write(name, text)
	}
	fmt.Println("#42\tNEW    cov: 1 ft: 2 corp: 1/1b")
	switch what {
	case "crash":
		write(prefix+"crash-00ff", "x")
		os.Exit(77)
	case "finding":
		write(filepath.Join(os.Getenv(fuzz.EnvFindings), "a-00ff.prog"), "allocfuzz 1\n")
		write(filepath.Join(os.Getenv(fuzz.EnvFindings), "a-00ff.txt"), "TITLE: a\n")
		os.Exit(77)
	case "fails":
		os.Exit(1)
	case "held":
		got := make(chan os.Signal, 1)
		signal.Notify(got, os.Interrupt)
		write(filepath.Join(os.Getenv(fuzz.EnvFindings), "held"), "")
		<-got
		os.Exit(72)
	}
	fmt.Println("Done 99 runs in 1 second(s)")
	os.Exit(0)
}

// fakeTarget is a build of which this binary is the target FuzzSMP.
func fakeTarget(t *testing.T, dir string) *Build {
	t.Helper()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(dir, "FuzzSMP"))
	}
	if err != nil {
		t.Fatal(err)
	}
	return &Build{Dir: dir}
}

// TestRunFinds: a run tells what it found and no more, whatever lies in the folder; an engine that
// fails is an error unless this run left a crash.
func TestRunFinds(t *testing.T) {
	// A folder may have any name: this one would be a pattern.
	dir := filepath.Join(t.TempDir(), "[a] *")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	b := fakeTarget(t, dir)
	for i, x := range []struct {
		fake              string
		fails             bool
		crashes, findings int
		execs             int64
	}{
		{"sound", false, 0, 0, 99},
		{"fails", true, 0, 0, 42},
		{"crash", false, 1, 0, 42},
		{"crash", false, 1, 0, 42}, // the same again
		{"sound", false, 0, 0, 99},
		{"fails", true, 0, 0, 42},
		{"finding", false, 0, 1, 42},
		{"sound", false, 0, 0, 99},
		{"fails", true, 0, 0, 42},
		{"finding", false, 0, 1, 42},
		{"crash", false, 1, 0, 42},
	} {
		t.Setenv(envFake, x.fake)
		r, err := b.Run(t.Context(), "FuzzSMP", &RunOptions{For: time.Second, Fork: 1})
		if r == nil || (err != nil) != x.fails || len(r.Crashes) != x.crashes ||
			r.Findings != x.findings || r.Execs != x.execs {
			t.Errorf("run %d, %s: %+v, error %v", i, x.fake, r, err)
		}
		age(t, filepath.Join(dir, "findings", "FuzzSMP"))
	}
}

// age makes the files of a folder a day old, so that no test depends on how fine times are.
func age(t *testing.T, dir string) {
	t.Helper()
	files, err := filesIn(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, info := range files { //tidy:maporder files do not touch each other
		then := info.ModTime().Add(-24 * time.Hour)
		if err := os.Chtimes(filepath.Join(dir, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRunInterrupted: a run that is interrupted is no error, and what it did by then is told.
func TestRunInterrupted(t *testing.T) {
	t.Setenv(envFake, "held")
	b := fakeTarget(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	corpus := filepath.Join(b.Dir, "corpus", "FuzzSMP")
	if err := os.MkdirAll(corpus, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(corpus, "x"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	go func() {
		held := filepath.Join(b.Dir, "findings", "FuzzSMP", "held")
		for ctx.Err() == nil {
			if _, err := os.Stat(held); err == nil {
				cancel()
			}
			time.Sleep(time.Millisecond)
		}
	}()
	r, err := b.Run(ctx, "FuzzSMP", &RunOptions{For: time.Hour, Fork: 1})
	if err != nil || r.Execs != 42 || r.Corpus != 1 {
		t.Errorf("%+v, error %v, want 42 execs and the one input", r, err)
	}
}

// TestRunArguments: the engine is told the limits that the options of a cluster say too, and starts
// from the seeds of its own target.
func TestRunArguments(t *testing.T) {
	t.Setenv(envFake, "sound")
	b := fakeTarget(t, t.TempDir())
	args := filepath.Join(t.TempDir(), "args")
	t.Setenv(envArgs, args)
	_, err := b.Run(t.Context(), "FuzzSMP", &RunOptions{For: 5 * time.Second, Fork: 3})
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(args)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	for _, want := range []string{"-max_len=4096", "-timeout=25", "-rss_limit_mb=4096", "-fork=3",
		"-max_total_time=5"} {
		if !slices.Contains(lines, want) {
			t.Errorf("no argument %q:\n%.400s", want, text)
		}
	}
	got := map[string]bool{}
	for _, line := range lines {
		if strings.HasPrefix(line, `"`) {
			got[line] = true
		}
	}
	sameSeeds(t, "FuzzSMP", got)
}
