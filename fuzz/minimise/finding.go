package minimise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
)

// ErrProcess says that a finding ends the process that runs its program: it is minimised by the
// command, with a Child.
var ErrProcess = errors.New("it ends the process that replays it")

// Finding makes the program of a finding small that a fuzz target or a command wrote down. It
// reads the finding's file and leaves it as it is.
func Finding(ctx context.Context, f *engine.Finding, opt Options) (*Result, error) {
	v, ok := all.Lookup(f.Subject)
	if f.Class == fault.Process.String() && (!ok || v.New != nil) {
		return nil, ErrProcess
	}
	text, err := os.ReadFile(f.File)
	if err != nil {
		return nil, err
	}
	p, err := prog.Parse(f.File, bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("a program of a finding: %w", err)
	}
	if !ok {
		return nil, fmt.Errorf("%s: no subject %q", f.File, f.Subject)
	}
	bug := Bug{Identity: f.Identity, Reference: reference(f), Subject: v}
	return Program(ctx, p, bug, opt)
}

// reference is the subject that a finding's subject differs from, as the command says that repeats
// it; nil for a bug of the subject alone.
func reference(f *engine.Finding) *impls.Variant {
	words := strings.Fields(f.Command)
	i := slices.Index(words, "--subject")
	if i < 0 || i+1 >= len(words) {
		return nil
	}
	first, _, both := strings.Cut(words[i+1], ",")
	if !both {
		return nil
	}
	v, _ := all.Lookup(first)
	return v
}
