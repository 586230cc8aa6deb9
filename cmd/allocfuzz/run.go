package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
)

// runFlags are the flags of run.
type runFlags struct {
	pick     selection
	boot     bootFlags
	budget   time.Duration
	targets  []string
	out      string
	cache    string
	parallel int
	plain    bool
}

func (a *app) runCommand() *cobra.Command {
	var f runFlags
	c := &cobra.Command{
		Use:   "run",
		Short: "the main job: replay the corpus, fuzz every target",
		Long: "Replay the committed programs on every subject, then fuzz every target in turn\n" +
			"for its share of the time, and end with a table. It needs the sources and a Go\n" +
			"toolchain, since it builds test binaries; building is not part of the time.\n\n" +
			"What is found is written to the folder of findings while the run goes on, a\n" +
			"program and a report each. A bug that a committed program expects is known:\n" +
			"its absence is the finding. The exit status is 1 when something unknown was\n" +
			"found, and 2 also when a subject ran no program at all. Ctrl-C ends in good\n" +
			"order with everything found so far on disk: with 1 when there was something,\n" +
			"else with 130. A second Ctrl-C kills.\n\n" +
			"--debug and --rules concern what is fuzzed, not the committed programs: their\n" +
			"schedules are made for the paths of machines without.",
		Example: "  allocfuzz run --for 30s\n" +
			"  allocfuzz run --for 10m --target FuzzInterrupts --json\n" +
			"  allocfuzz run --subject slab-2001-threelists,go-wasm2go-tlsf --out /tmp/findings",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			return a.run(f)
		},
	}
	f.pick.flags(c)
	f.boot.flags(c)
	c.Flags().DurationVar(&f.budget, "for", 30*time.Second, "time for fuzzing all targets together")
	c.Flags().StringSliceVar(&f.targets, "target", nil,
		"fuzz targets by name, joined by commas (default: all)")
	c.Flags().StringVar(&f.out, "out", "",
		"folder for findings (default: a new one in the user's cache)")
	c.Flags().StringVar(&f.cache, "cache", "",
		"folder for the fuzzer's corpora (default: one in the user's cache)")
	c.Flags().IntVar(&f.parallel, "parallel", runtime.GOMAXPROCS(0), "fuzz workers")
	c.Flags().BoolVar(&f.plain, "plain", false, "plain lines of progress on a terminal too")
	must(c.RegisterFlagCompletionFunc("target", completeList(sourceTargets)))
	return c
}

// sourceTargets are the fuzz targets of the sources around the working folder.
func sourceTargets() []string {
	root, err := engine.FindRoot(".")
	if err != nil {
		return nil
	}
	list, _ := engine.Targets(root)
	return list
}

// A session is one run of the main job.
type session struct {
	app      *app
	flags    *runFlags
	root     string
	subjects []*impls.Variant
	boot     fuzz.Boot
	targets  []string
	work     string // thrown away at the end
	made     bool   // the folder of findings was not there before
	tally    engine.Tally
	began    bool // the fuzzing of every target was carried out
}

// run is the main job.
func (a *app) run(f runFlags) error {
	s := &session{app: a, flags: &f}
	if err := s.check(); err != nil {
		return err
	}
	if err := s.folders(); err != nil {
		return err
	}
	defer s.clean()
	// A terminal or a reader that is gone must not leave children and folders behind.
	ctx, done := interruptible(syscall.SIGHUP, syscall.SIGPIPE)
	defer done()
	s.corpus(ctx)
	err := s.fuzz(ctx)
	if err != nil && ctx.Err() == nil {
		a.fail(err)
	}
	if ctx.Err() != nil {
		a.doc.Complete = false
	}
	s.end(ctx.Err() != nil)
	return nil
}

// check looks at everything that can be wrong before the long work begins.
func (s *session) check() (err error) {
	f := s.flags
	if f.budget <= 0 {
		return fmt.Errorf("--for %v: expected a time above 0, e.g. 30s", f.budget)
	}
	if f.parallel <= 0 {
		return fmt.Errorf("--parallel %d: expected a number of workers above 0", f.parallel)
	}
	if s.subjects, err = f.pick.subjects(); err != nil {
		return err
	}
	if s.boot, err = f.boot.parse(); err != nil {
		return err
	}
	if s.root, err = engine.FindRoot("."); err != nil {
		return err
	}
	list, err := engine.Targets(s.root)
	if err != nil {
		return err
	}
	if s.targets, err = engine.SelectTargets(list, f.targets); err != nil {
		return fmt.Errorf("--target: %w", err)
	}
	s.tally = engine.NewTally(s.subjects)
	return nil
}

// folders makes the folders of the run.
func (s *session) folders() error {
	f := s.flags
	if f.out == "" || f.cache == "" {
		usual, err := cacheFolder()
		if err != nil {
			return fmt.Errorf("%w and --out", err)
		}
		if f.cache == "" {
			f.cache = usual
		}
		if f.out == "" {
			f.out = filepath.Join(filepath.Dir(usual), "findings",
				fmt.Sprintf("%s-%d", time.Now().Format("20060102-150405"), os.Getpid()))
		}
	}
	_, err := os.Stat(f.out)
	s.made = errors.Is(err, os.ErrNotExist)
	for _, dir := range []*string{&f.out, &f.cache} {
		at, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = at
		if err := os.MkdirAll(at, 0o777); err != nil {
			return fileError(at, err)
		}
	}
	work, err := os.MkdirTemp("", "allocfuzz-run-*")
	s.work = work
	return err
}

// clean removes what nobody needs any more; a folder of findings that the run made
// and that stayed empty, too.
func (s *session) clean() {
	os.RemoveAll(s.work)
	if s.made {
		os.Remove(s.flags.out)
	}
}

// fuzz builds the fuzz binary and fuzzes the targets.
func (s *session) fuzz(ctx context.Context) error {
	a, f := s.app, s.flags
	build := &engine.Build{Root: s.root, Dir: s.work, Log: a.sayf}
	bin, took, err := build.Run(ctx)
	if err != nil {
		return err
	}
	a.doc.BuildSeconds = took.Seconds()
	a.sayf("built in %v, which is not part of the time", took.Round(time.Millisecond))
	a.sayf("findings go to %s", f.out)
	m := a.newMeter(f.plain)
	job := &engine.Job{Binary: bin, Targets: s.targets, For: f.budget, Parallel: f.parallel,
		Boot: s.boot, Work: s.work, Cache: f.cache, Out: f.out, Progress: m.show, Log: m.log}
	for _, v := range s.subjects {
		job.Subjects = append(job.Subjects, v.Name)
	}
	start := time.Now()
	res := job.Run(ctx)
	m.end()
	a.doc.FuzzSeconds = time.Since(start).Seconds()
	a.doc.Targets = res.Targets
	s.began = ctx.Err() == nil
	for name, c := range res.Tally {
		s.tally.Add(name, *c)
	}
	for i := range res.Findings {
		if !res.Findings[i].Known {
			a.found()
		}
	}
	a.doc.Findings = append(a.doc.Findings, res.Findings...)
	return errors.Join(res.Faults...)
}
