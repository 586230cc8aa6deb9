package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/gofuzz"
	"allocfuzz/fuzz/input"
	"allocfuzz/fuzz/store"
	"allocfuzz/fuzz/thin"
)

// This file has the commands of the working corpus.

// inputFlags are the flags of a command on inputs.
type inputFlags struct {
	corpusFlags
	target   string
	format   string
	all      bool
	dryRun   bool
	parallel int
	engine   string
}

func (f *inputFlags) targetFlag(c *cobra.Command, what string) {
	c.Flags().StringVar(&f.target, "target", "", what)
	must(c.RegisterFlagCompletionFunc("target", completeList(sourceTargets)))
}

// named is the name of the target that was asked for, "" for none. It may go without its "Fuzz".
func (f *inputFlags) named() (string, error) {
	if f.target == "" {
		return "", nil
	}
	names := fuzz.Entries()
	list, err := engine.SelectTargets(names, []string{f.target})
	if err != nil {
		return "", fmt.Errorf("--target: %w", err)
	}
	return list[0], nil
}

// targets are the targets that a store has inputs of, or the one that was asked for.
func (f *inputFlags) targets(s *store.Store) ([]string, error) {
	name, err := f.named()
	if err != nil {
		return nil, err
	}
	if name != "" {
		return []string{name}, nil
	}
	return s.Targets()
}

// skipped tells of files that were left alone.
func (a *app) skipped(list []store.Problem) {
	for _, p := range list {
		a.sayf("skipped: %s: %s", p.File, p.Why)
	}
	a.doc.Corpus.Skipped = append(a.doc.Corpus.Skipped, list...)
}

// onStore opens the store, which is made if something is to be added to it, does something to it,
// and tells what it has then.
func (a *app) onStore(f *inputFlags, adds bool,
	do func(s *store.Store, changes map[string]workingDoc) error) error {
	a.doc.Corpus = &corpusDoc{}
	s, err := f.open(adds)
	if err != nil {
		return err
	}
	changes := map[string]workingDoc{}
	err = do(s, changes)
	if errors.Is(err, context.Canceled) {
		a.interrupted()
		err = nil
	}
	if e := a.listWorking(s, changes); err == nil {
		err = e
	}
	if !a.json {
		a.workingTable()
	}
	return err
}

func (a *app) corpusImport() *cobra.Command {
	f := &inputFlags{}
	c := &cobra.Command{
		Use:   "import --target NAME FILE|FOLDER…",
		Short: "add inputs to the working corpus: raw bytes, files of go test, programs",
		Long: "Add inputs to the working corpus of a target. What a file is, is seen by itself:\n" +
			"a file of the go command (\"go test fuzz v1\"), a program (.prog), or raw bytes as\n" +
			"libFuzzer keeps them. A folder stands for the files in it. What cannot be used\n" +
			"is named and left alone.",
		Example: "  allocfuzz corpus import --target FuzzInterrupts crash-0a1b2c\n" +
			"  allocfuzz corpus import --target sequential fuzz/testdata/fuzz/FuzzSequential",
		Args: needFiles,
		RunE: func(cmd *cobra.Command, paths []string) error {
			a.begin(cmd)
			target, err := f.named()
			if err == nil && target == "" {
				err = fmt.Errorf("--target: expected the target that the inputs are for, one "+
					"of %s", strings.Join(fuzz.Entries(), ", "))
			}
			if err != nil {
				return err
			}
			return a.onStore(f, true, func(s *store.Store, changes map[string]workingDoc) error {
				return a.importInputs(s, target, paths, changes)
			})
		},
	}
	f.flags(c)
	f.targetFlag(c, "fuzz target that the inputs are for")
	return c
}

// importInputs adds files to a target.
func (a *app) importInputs(s *store.Store, target string, paths []string,
	changes map[string]workingDoc) error {
	var list []store.Input
	for _, at := range paths {
		files, err := filesOf(at)
		if err != nil {
			a.fail(fileError(at, err))
			continue
		}
		for _, name := range files {
			data, err := readAny(target, name)
			if err != nil {
				a.unusable(name, name == at, err)
				continue
			}
			list = append(list, store.Input{Name: store.Name(data), Data: data})
		}
	}
	added, err := s.AddAll(target, list)
	changes[target] = workingDoc{Added: added}
	return err
}

// filesOf is a file, or the files of a folder but for hidden ones.
func filesOf(at string) ([]string, error) {
	info, err := os.Stat(at)
	if err != nil || !info.IsDir() {
		return []string{at}, err
	}
	entries, err := os.ReadDir(at)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if !e.IsDir() && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, filepath.Join(at, e.Name()))
		}
	}
	return out, nil
}

// readAny reads an input of any kind for a target.
func readAny(target, name string) ([]byte, error) {
	if filepath.Ext(name) != ".prog" || target == fuzz.Prog {
		return store.ReadInput(name)
	}
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	p, err := prog.Parse(name, bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	data, err := input.Encode(p)
	if err != nil {
		return nil, fmt.Errorf("does not fit into an input: %w", err)
	}
	return data, nil
}

func (a *app) corpusExport() *cobra.Command {
	f := &inputFlags{}
	c := &cobra.Command{
		Use:   "export FOLDER",
		Short: "write the working corpus as files of go test, raw bytes or programs",
		Long: "Write the inputs of the working corpus to a folder, one below it each target:\n" +
			"as files of the go command, which go test -fuzz starts from, as raw bytes, which\n" +
			"libFuzzer does, or as programs to read. What is there stays.",
		Example: "  allocfuzz corpus export --format go fuzz/testdata/fuzz\n" +
			"  allocfuzz corpus export --format prog --target FuzzSMP /tmp/programs",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) != 1 {
				return fmt.Errorf("%d folders given: expected one to write to; see %s --help",
					len(args), cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			a.begin(cmd)
			if !slices.Contains(exportFormats, f.format) {
				return fmt.Errorf("--format %q: expected one of %s", f.format,
					strings.Join(exportFormats, ", "))
			}
			return a.onStore(f, false, func(s *store.Store, _ map[string]workingDoc) error {
				return a.export(s, f, args[0])
			})
		},
	}
	f.flags(c)
	f.targetFlag(c, "fuzz target (default: all)")
	c.Flags().StringVar(&f.format, "format", exportFormats[0],
		"form of the files: "+strings.Join(exportFormats, ", "))
	must(c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(exportFormats,
		cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// exportFormats are the forms in which inputs are written.
var exportFormats = []string{"go", "raw", "prog"}

// export writes the inputs of a store.
func (a *app) export(s *store.Store, f *inputFlags, dir string) error {
	targets, err := f.targets(s)
	if err != nil {
		return err
	}
	if err := apart(s, targets, dir); err != nil { // before anything is written
		return err
	}
	for _, t := range targets {
		list, bad, err := s.Inputs(t)
		if err != nil {
			return err
		}
		a.skipped(bad)
		to := filepath.Join(dir, t)
		if err := os.MkdirAll(to, 0o777); err != nil {
			return fileError(to, err)
		}
		for _, in := range list {
			name, text := exported(t, f.format, &in)
			at := filepath.Join(to, name)
			if _, err := os.Lstat(at); err == nil {
				continue // the name tells the contents, so it is there
			}
			if err := fuzz.WriteLoose(at, text); err != nil {
				return fileError(at, err)
			}
			a.doc.Corpus.Added = append(a.doc.Corpus.Added, at)
		}
	}
	a.sayf("%d files written to %s", len(a.doc.Corpus.Added), dir)
	return nil
}

// apart refuses a folder to export targets to that has them in the working corpus.
func apart(s *store.Store, targets []string, dir string) error {
	for _, t := range targets {
		to := filepath.Join(dir, t)
		for _, own := range []string{s.Dir, filepath.Join(s.Dir, t)} {
			in, err := within(to, own)
			if err != nil {
				return fileError(to, err)
			}
			if in {
				return fmt.Errorf("%s: is in the working corpus: expected another folder", dir)
			}
		}
	}
	return nil
}

// exported is the file of an input in a form.
func exported(target, format string, in *store.Input) (name string, text []byte) {
	switch format {
	case "go":
		text = gofuzz.Encode(in.Data)
		return gofuzz.Name(text), text
	case "prog":
		text = in.Data // of fuzz.Prog
		if t := fuzz.TargetNamed(target); t != nil {
			text = prog.Format(t.Program(in.Data))
		}
		return in.Name[:16] + ".prog", text
	}
	return in.Name, in.Data
}

func (a *app) corpusThin() *cobra.Command {
	f := &inputFlags{}
	c := &cobra.Command{
		Use:   "thin",
		Short: "leave inputs out of the working corpus whose coverage others have",
		Long: "Run every input of the working corpus with coverage counters in the allocators\n" +
			"and keep the smallest that cover together what all cover. An input that ends its\n" +
			"process is named and kept. It needs the sources and a Go toolchain.",
		Example: "  allocfuzz corpus thin --dry-run\n  allocfuzz corpus thin --target FuzzSMP",
		Args:    noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			if err := f.checkEngine(); err != nil {
				return err
			}
			ctx, done := interruptible()
			defer done()
			return a.onStore(f, false, func(s *store.Store, changes map[string]workingDoc) error {
				return a.thinStore(ctx, s, f, changes)
			})
		},
	}
	f.flags(c)
	f.targetFlag(c, "fuzz target (default: all)")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "say what would go, and leave it")
	f.engineFlags(c)
	return c
}

// thinStore thins the targets of a store.
func (a *app) thinStore(ctx context.Context, s *store.Store, f *inputFlags,
	changes map[string]workingDoc) error {
	targets, err := f.targets(s)
	if err != nil {
		return err
	}
	b, err := a.newThinner(ctx, f)
	if err != nil {
		return err
	}
	defer b.Close()
	for _, t := range targets {
		res, err := b.Store(ctx, s, t, f.dryRun)
		if err != nil {
			return err
		}
		a.skipped(res.Skipped)
		a.sayf("%s: %d of %d inputs cover the same %d features", t, res.After, res.Before,
			res.Features)
		if !f.dryRun {
			changes[t] = workingDoc{Gone: res.Before - res.After}
		}
	}
	return nil
}

// engineFlags are the flags of what tells coverage.
func (f *inputFlags) engineFlags(c *cobra.Command) {
	c.Flags().IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0),
		"processes of our own tracer")
	c.Flags().StringVar(&f.engine, "engine", thin.Own, "what tells coverage: "+
		strings.Join(thin.Engines, ", ")+" (which needs clang and its runtime)")
	must(c.RegisterFlagCompletionFunc("engine", cobra.FixedCompletions(thin.Engines,
		cobra.ShellCompDirectiveNoFileComp)))
}

// checkEngine checks the flags of engineFlags, whether they are needed or not.
func (f *inputFlags) checkEngine() error {
	if f.parallel < 1 {
		return fmt.Errorf("--parallel %d: expected a number of processes above 0", f.parallel)
	}
	if !slices.Contains(thin.Engines, f.engine) {
		return fmt.Errorf("--engine %q: expected one of %s", f.engine,
			strings.Join(thin.Engines, ", "))
	}
	return nil
}

// newThinner builds a tracer of the sources around the working folder.
func (a *app) newThinner(ctx context.Context, f *inputFlags) (*thin.Thinner, error) {
	root, err := engine.FindRoot(".")
	if err != nil {
		return nil, err
	}
	a.sayf("building what traces coverage in %s (the first time this takes minutes)", root)
	return thin.New(ctx, f.engine, root, f.parallel)
}

func (a *app) corpusMerge() *cobra.Command {
	f := &inputFlags{}
	c := &cobra.Command{
		Use:   "merge FOLDER…",
		Short: "add the inputs of other corpora that cover something new",
		Long: "Add the inputs of other corpora to the working corpus: working corpora, corpora\n" +
			"of the go command, and folders of raw bytes, in folders by the name of the target;\n" +
			"with --target the folders are those of that target. Only inputs that cover\n" +
			"something new are added, the smallest first. It needs the sources and a Go\n" +
			"toolchain; with --all everything is added and neither is needed.",
		Example: "  allocfuzz corpus merge /tmp/other/corpus\n" +
			"  allocfuzz corpus merge --all --target FuzzSMP crashes",
		Args: needFiles,
		RunE: func(cmd *cobra.Command, dirs []string) error {
			a.begin(cmd)
			if err := f.checkEngine(); err != nil {
				return err
			}
			ctx, done := interruptible()
			defer done()
			return a.onStore(f, true, func(s *store.Store, changes map[string]workingDoc) error {
				return a.merge(ctx, s, f, dirs, changes)
			})
		},
	}
	f.flags(c)
	f.targetFlag(c, "fuzz target that the folders are of")
	c.Flags().BoolVar(&f.all, "all", false, "add every input, whatever it covers")
	f.engineFlags(c)
	return c
}

// merge adds the inputs of folders.
func (a *app) merge(ctx context.Context, s *store.Store, f *inputFlags, dirs []string,
	changes map[string]workingDoc) error {
	name, err := f.named()
	if err != nil {
		return err
	}
	offered := map[string][]store.Input{}
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			return fileError(dir, err)
		}
		for _, t := range fuzz.Entries() {
			at := filepath.Join(dir, t)
			if name == t {
				at = dir
			} else if _, err := os.Stat(at); name != "" || err != nil {
				continue
			}
			list, bad, err := store.Read(at, nil)
			if err != nil {
				return fileError(at, err)
			}
			a.skipped(bad)
			offered[t] = append(offered[t], list...)
		}
	}
	if len(offered) == 0 {
		return fmt.Errorf("%s: no inputs: expected folders named %s below it, or --target",
			strings.Join(dirs, ", "), strings.Join(fuzz.Entries(), ", "))
	}
	return a.take(ctx, s, f, offered, changes)
}

// take adds inputs that are offered by target.
func (a *app) take(ctx context.Context, s *store.Store, f *inputFlags,
	offered map[string][]store.Input, changes map[string]workingDoc) error {
	if !f.all {
		b, err := a.newThinner(ctx, f)
		if err != nil {
			return err
		}
		defer b.Close()
		//tidy:maporder targets do not touch each other
		for t, list := range offered {
			fresh, bad, err := b.Fresh(ctx, s, t, list)
			if err != nil {
				return err
			}
			a.skipped(bad)
			offered[t] = fresh
		}
	}
	for _, t := range fuzz.Entries() {
		added, err := s.AddAll(t, offered[t])
		changes[t] = workingDoc{Added: added}
		if err != nil {
			return err
		}
	}
	return nil
}
