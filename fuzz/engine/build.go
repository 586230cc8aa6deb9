package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

// A Binary holds the fuzz targets of the sources, with coverage counters in the
// packages under test only.
type Binary struct{ Path string }

// A Build says what to build and where.
type Build struct {
	Root string // of the sources, see FindRoot
	Dir  string // folder for the binaries, which must exist
	Log  func(format string, args ...any)
}

// fuzzPackage is the package of the fuzz targets, from the root of the sources.
const fuzzPackage = "./fuzz"

// coverage names the packages whose coverage leads the fuzzer: those under test.
// One value serves all targets, since the standard library is compiled anew for
// every value.
const coverage = "allocfuzz/impls,allocfuzz/corpus/prog"

// Run builds the fuzz binary and returns how long that took. What the go command
// says is part of the error.
func (b *Build) Run(ctx context.Context) (*Binary, time.Duration, error) {
	start := time.Now()
	golang, err := findGo()
	if err != nil {
		return nil, 0, err
	}
	wrap := filepath.Join(b.Dir, "covwrap"+exe())
	bin := filepath.Join(b.Dir, "fuzz.test"+exe())
	b.Log("building the fuzz targets of %s (the first time this takes minutes)", b.Root)
	if err := b.do(ctx, nil, golang, "build", "-o", wrap, "./cmd/covwrap"); err != nil {
		return nil, 0, err
	}
	env := append(os.Environ(), "FUZZCOV="+coverage)
	err = b.do(ctx, env, golang, "test", "-c", "-fuzz=.", "-toolexec="+wrap, "-o", bin, fuzzPackage)
	if err != nil {
		return nil, 0, err
	}
	return &Binary{Path: bin}, time.Since(start), nil
}

// do runs one go command in the sources.
func (b *Build) do(ctx context.Context, env []string, name string, args ...string) error {
	c := &child{dir: b.Root, env: env}
	if err := c.run(ctx, name, args...); err != nil {
		return c.failed(ctx, "go "+strings.Join(args, " "), err)
	}
	return nil
}

// failed is the error of a child that should have worked.
func (c *child) failed(ctx context.Context, what string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%s: %w\n%s", what, err, strings.Join(c.tail.lines, "\n"))
}

// exe is the ending of a program's file name.
func exe() string {
	if runtime.GOOS == "windows" {
		return ".exe"
	}
	return ""
}

// targetLine is the declaration of a fuzz target.
var targetLine = regexp.MustCompile(`(?m)^func (Fuzz\w*)\(\w+ \*testing\.F\)`)

// Targets lists the fuzz targets of the sources at root in the order of their
// files. It reads them only, so that a wrong name is told before a long build.
func Targets(root string) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(root, fuzzPackage, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var out []string
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		for _, m := range targetLine.FindAllSubmatch(text, -1) {
			out = append(out, string(m[1]))
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("no fuzz targets in %s of %s", fuzzPackage, root)
	}
	return out, nil
}

// SelectTargets finds the targets that were asked for among all; no names ask for
// every one. A name may go without its "Fuzz".
func SelectTargets(all, names []string) ([]string, error) {
	if len(names) == 0 {
		return all, nil
	}
	var keep []string
	for _, n := range names {
		i := slices.IndexFunc(all, func(t string) bool {
			return t == n || strings.EqualFold(t, "Fuzz"+n)
		})
		if i < 0 {
			return nil, fmt.Errorf("no fuzz target %q: expected one of %s", n,
				strings.Join(all, ", "))
		}
		if !slices.Contains(keep, all[i]) {
			keep = append(keep, all[i])
		}
	}
	return keep, nil
}
