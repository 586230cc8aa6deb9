package main

import (
	"bytes"
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
	"allocfuzz/fuzz/libfuzzer"
)

// envFake makes this binary a target that fuzzes as libFuzzer does when what it names happens:
// with "crash,held" the first target crashes and the second is held until it is interrupted.
const envFake = "ALLOCFUZZ_TEST_TARGET"

func TestMain(m *testing.M) {
	if fake := os.Getenv(envFake); fake != "" {
		fakeTarget(fake)
	}
	os.Exit(m.Run())
}

// fakeNames are the targets that TestStatus runs, in their order.
var fakeNames = []string{"FuzzDebug", "FuzzPairs", "FuzzSMP"}

func fakeTarget(fake string) {
	at := slices.Index(fakeNames, filepath.Base(os.Args[0]))
	if slices.Contains(os.Args, "-merge=1") {
		for _, arg := range os.Args {
			if name, ok := strings.CutPrefix(arg, "-merge_control_file="); ok {
				_ = os.WriteFile(name, []byte("0\n0\n"), 0o666)
			}
		}
		fmt.Println("MERGE-OUTER: 0 new files with 0 new features added; 0 new coverage edges")
		os.Exit(0)
	}
	fmt.Printf("#4%d\tNEW    cov: 1 ft: 2 corp: 1/1b\n", at)
	dir := os.Getenv(fuzz.EnvFindings)
	switch strings.Split(fake, ",")[at] {
	case "crash":
		_ = os.WriteFile(filepath.Join(dir, "crash-00ff"), []byte("x"), 0o666)
		os.Exit(77)
	case "held":
		got := make(chan os.Signal, 1)
		signal.Notify(got, os.Interrupt)
		_ = os.WriteFile(filepath.Join(dir, "held"), nil, 0o666)
		<-got
		os.Exit(72)
	case "fails":
		os.Exit(1)
	}
	os.Exit(0)
}

// TestStatus: the exit status is that of what this run found, also when it was interrupted, and
// what was done by then is told; no target is begun after that.
func TestStatus(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range []struct {
		fake   string
		status int
		told   string // of each target
		wrong  bool
	}{
		{"sound,sound,sound", clean, "FuzzDebug: 40 FuzzPairs: 41 FuzzSMP: 42", false},
		{"sound,crash,sound", found, "FuzzDebug: 40 FuzzPairs: 41 FuzzSMP: 42", false},
		{"sound,held,sound", interrupted, "FuzzDebug: 40 FuzzPairs: 41", false},
		{"held,crash,sound", interrupted, "FuzzDebug: 40", false},
		{"crash,held,sound", found, "FuzzDebug: 40 FuzzPairs: 41", false},
		{"sound,sound,held", interrupted, "FuzzDebug: 40 FuzzPairs: 41 FuzzSMP: 42", false},
		{"crash,fails,sound", wrong, "FuzzDebug: 40 FuzzPairs: 41", true},
	} {
		b := &libfuzzer.Build{Dir: t.TempDir()}
		for _, name := range fakeNames {
			if err := os.Symlink(self, filepath.Join(b.Dir, name)); err != nil {
				t.Fatal(err)
			}
		}
		// What was found on another day does not count.
		old := filepath.Join(b.Dir, "findings", "FuzzDebug")
		if err := os.MkdirAll(old, 0o777); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"crash-aa", "a-1.prog", "a-1.txt"} {
			if err := os.WriteFile(filepath.Join(old, name), nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		t.Setenv(envFake, x.fake)
		var text strings.Builder
		ctx, cancel := context.WithCancel(t.Context())
		go cancelHeld(ctx, cancel, b.Dir)
		status, err := run(ctx, b, fakeNames, &libfuzzer.RunOptions{For: time.Hour, Fork: 1},
			func(format string, a ...any) { fmt.Fprintf(&text, format+"\n", a...) })
		cancel()
		var told []string
		for line := range strings.Lines(text.String()) {
			if words := strings.Fields(line); strings.HasPrefix(line, "Fuzz") {
				told = append(told, words[:2]...)
			}
		}
		if status != x.status || (err != nil) != x.wrong || strings.Join(told, " ") != x.told {
			t.Errorf("%s: status %d, error %v, want %d and %s:\n%s", x.fake, status, err, x.status,
				x.told, &text)
		}
		held := strings.Contains(x.fake, "held")
		if strings.Contains(text.String(), "interrupted\n") != held {
			t.Errorf("%s: it says\n%s", x.fake, &text)
		}
	}
}

// cancelHeld ends a context when a target is held.
func cancelHeld(ctx context.Context, cancel func(), dir string) {
	for ctx.Err() == nil {
		list, err := filepath.Glob(filepath.Join(dir, "findings", "*", "held"))
		if err == nil && len(list) > 0 {
			cancel()
		}
		time.Sleep(time.Millisecond)
	}
}

// TestBuildInterrupted: an interrupted build is one, not a compiler that fails.
func TestBuildInterrupted(t *testing.T) {
	t.Setenv("CC", "cc")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for _, command := range []string{"build", "run"} {
		var errs bytes.Buffer
		status, err := start(ctx, []string{command, "-o", t.TempDir()}, &errs)
		if status != interrupted || err != nil || errs.String() != "interrupted\n" {
			t.Errorf("%s: status %d, error %v, and it says %q", command, status, err, &errs)
		}
	}
}
