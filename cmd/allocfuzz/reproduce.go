package main

import (
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/reproduce"
	"allocfuzz/oracle"
)

// reproduceFlags are the flags of reproduce.
type reproduceFlags struct {
	pick   selection
	format string
	pkg    string
	out    string
	force  bool
}

// reproduceFormats are what a program can be made into.
var reproduceFormats = []string{"go", "c", "fuzz", "prog"}

func (a *app) reproduceCommand() *cobra.Command {
	var f reproduceFlags
	c := &cobra.Command{
		Use:   "reproduce FILE",
		Short: "make a Go test, a C program or a fuzz input of what a program shows",
		Long: "Make something to hand on of what a program shows on the first subject that is\n" +
			"not silent: a Go test, which compiles in any package of this module or of one\n" +
			"that requires it and fails while the bug is there (go); a C program that does the\n" +
			"same to any malloc, or to object caches with the kernel's interface, and checks\n" +
			"it (c: also of a program that shows nothing here; not of one that needs a\n" +
			"schedule); the file of go test -fuzz, for the target that shows the same (fuzz);\n" +
			"or the program with its exact schedule (prog). Without --subject the subjects of\n" +
			"the program's blocks are tried, and then the sound ones. It is printed, or written\n" +
			"to a file that is not there yet; for fuzz -o names a folder, as\n" +
			"fuzz/testdata/fuzz.\n\n" +
			"The exit status is 1 when there is a finding, and 0 when nothing was found.",
		Example: "  allocfuzz reproduce corpus/regress/slub-2008-cmpxchg-aba.prog\n" +
			"  allocfuzz reproduce --format fuzz -o fuzz/testdata/fuzz finding.prog\n" +
			"  allocfuzz reproduce --package mine -o bug_test.go finding.prog\n" +
			"  allocfuzz reproduce --format c -o bug.c corpus/seeds/realloc.prog",
		Args:              needOneFile,
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, files []string) error {
			a.begin(cmd)
			return a.reproduce(files[0], &f)
		},
	}
	f.pick.flags(c)
	c.Flags().StringVar(&f.format, "format", reproduceFormats[0],
		"what to make: "+strings.Join(reproduceFormats, ", "))
	c.Flags().StringVar(&f.pkg, "package", "allocfuzz_test", "package of the Go test")
	c.Flags().StringVarP(&f.out, "output", "o", "", "file to write; for fuzz a folder")
	c.Flags().BoolVarP(&f.force, "force", "f", false, "replace a file that is there")
	must(c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(reproduceFormats,
		cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// reproduce makes what was asked for.
func (a *app) reproduce(name string, f *reproduceFlags) error {
	if !slices.Contains(reproduceFormats, f.format) {
		return fmt.Errorf("--format %q: expected one of %s", f.format,
			strings.Join(reproduceFormats, ", "))
	}
	if !token.IsIdentifier(f.pkg) || f.pkg == "_" {
		return fmt.Errorf("--package %q: expected the name of a Go package", f.pkg)
	}
	subjects, err := f.pick.subjects()
	if err != nil {
		return err
	}
	p, err := a.program(name)
	if err != nil {
		return err
	}
	if !f.pick.chosen() {
		subjects = unique(append(engine.Owners(p), subjects...))
	}
	ctx, done := interruptible()
	defer done()
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	list, err := r.Program(ctx, p, subjects)
	if ctx.Err() != nil {
		a.interrupted()
		return nil
	}
	if err != nil {
		return err
	}
	var stale error
	for i := range list {
		if stale == nil {
			stale = list[i].Err // a place in a schedule that is not there
		}
		if list[i].Err == nil && list[i].Report != nil {
			a.found()
			a.doc.Findings = append(a.doc.Findings, list[i].Findings...)
			return a.reproduced(name, &list[i], f)
		}
	}
	if stale != nil {
		return stale
	}
	a.sayf("%s: nothing was found on the %d subjects that ran; name one with --subject", p.File,
		len(list))
	if f.format != "c" {
		return nil
	}
	text, err := a.reproducedC(name, "nothing was found here", p)
	if err != nil {
		return err
	}
	return a.handOn(text, f)
}

// reproducedC is the C program of a program.
func (a *app) reproducedC(name, identity string, p *prog.Program) ([]byte, error) {
	text, left, err := reproduce.C(identity, p)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	for _, line := range left {
		a.sayf("left out, C has no call for it: %s", line)
	}
	return text, nil
}

// reproduced makes it of what a program showed.
func (a *app) reproduced(name string, r *engine.Replay, f *reproduceFlags) error {
	subjects, identity, p := r.Subjects(), r.Verdict.Finding.Identity(), r.Report.Program
	var text []byte
	var err error
	switch f.format {
	case "go":
		text, err = reproduce.GoTest(f.pkg, subjects, identity, p)
	case "c":
		text, err = a.reproducedC(name, identity, p)
	case "prog":
		text = prog.Format(p)
	case "fuzz":
		var target, hash string
		if target, hash, text, err = reproduce.Input(subjects, identity, p); err != nil {
			break
		}
		if f.out != "" {
			f.out = filepath.Join(f.out, target, hash)
			if err := os.MkdirAll(filepath.Dir(f.out), 0o777); err != nil {
				return fileError(filepath.Dir(f.out), err)
			}
		}
		a.sayf("%s shows it: go test -run='^%[1]s$/^%[2]s$' ./fuzz, with the file in "+
			"fuzz/testdata/fuzz/%[1]s and %[3]s=%[4]s", target, hash, fuzz.EnvSubjects,
			subjects[len(subjects)-1].Name)
	}
	if err != nil {
		return err
	}
	if err := a.handOn(text, f); err != nil || f.out == "" {
		return err
	}
	a.sayf("%s: %s", f.out, identity)
	return nil
}

// handOn prints what was made or writes its file.
func (a *app) handOn(text []byte, f *reproduceFlags) error {
	if f.out == "" {
		if a.json {
			return nil
		}
		_, err := a.out.Write(text)
		return err
	}
	if _, err := os.Lstat(f.out); !f.force && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: is there already; --force replaces it", f.out)
	}
	if err := fuzz.WriteBytes(f.out, text); err != nil {
		return fileError(f.out, err)
	}
	a.doc.Out = f.out
	return nil
}
