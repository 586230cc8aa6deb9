package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/minimise"
	reports "allocfuzz/fuzz/report"
	"allocfuzz/fuzz/reproduce"
	"allocfuzz/impls"
	"allocfuzz/oracle"
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
	named    bool   // it was asked for
	tally    engine.Tally
	known    *fuzz.Known        // bugs that committed programs expect
	expected engine.Buckets     // those that were met
	buckets  engine.Buckets     // those that nobody expects
	small    map[string]minimal // by identity
	began    bool               // the fuzzing of every target was carried out
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
	s.minimise(ctx)
	s.end(ctx.Err() != nil)
	return nil
}

// The most time for making the programs of new bugs small, and for one run of one of them.
const (
	minimiseFresh = 30 * time.Second
	runMost       = 5 * time.Second
)

// minimal is the file with the minimised program of a bug, and what can be handed on of it.
type minimal struct {
	file   string
	handOn []string
}

// minimise writes a small program beside that of each new bug.
func (s *session) minimise(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, minimiseFresh)
	defer cancel()
	s.small = map[string]minimal{}
	fresh := s.buckets.Findings()
	for i := range fresh {
		f := &fresh[i]
		res, err := minimise.Finding(limited, f, minimise.Options{Limit: runMost})
		switch {
		case limited.Err() != nil && res == nil:
			return
		case err != nil:
			s.app.sayf("%s: not minimised: %v", f.Identity, err)
			continue
		case res.Flaky:
			s.app.sayf("%s: flaky: it showed in %d of %d runs", f.Identity, res.Shown, res.Runs)
			continue
		}
		at := strings.TrimSuffix(f.File, ".prog") + ".min.prog"
		if err := fuzz.WriteBytes(at, prog.Format(res.Program)); err != nil {
			s.app.fail(fileError(at, err))
			return
		}
		hand, err := reproduce.Beside(at, res.Bug.Subjects(), f.Identity, res.Program)
		if err != nil {
			s.app.fail(err)
			return
		}
		s.small[f.Identity] = minimal{at, hand}
		s.app.sayf("%s: minimised: %s", f.Identity, res.Removed())
	}
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
	s.known, err = engine.Expected(s.root)
	return err
}

// folders makes the folders of the run.
func (s *session) folders() error {
	f := s.flags
	s.named = f.out != ""
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
	m := a.newMeter(f.plain)
	job := &engine.Job{Binary: bin, Targets: s.targets, Subjects: fuzz.Names(s.subjects),
		For: f.budget, Parallel: f.parallel,
		Boot: s.boot, Work: s.work, Cache: f.cache, Out: f.out, Known: s.known,
		Buckets: &s.buckets, Progress: m.show, Log: m.log}
	start := time.Now()
	res := job.Run(ctx)
	m.end()
	a.doc.FuzzSeconds = time.Since(start).Seconds()
	a.doc.Targets = res.Targets
	s.began = ctx.Err() == nil
	for name, c := range res.Tally {
		s.tally.Add(name, *c)
	}
	//tidy:maporder sums
	for key, n := range res.Known {
		s.expect(key, n)
	}
	return errors.Join(res.Faults...)
}

// expect counts a bug that is known: subject, tab, title.
func (s *session) expect(key string, times int) {
	if s.expected.Count(key, times) {
		return
	}
	subject, title, _ := strings.Cut(key, "\t")
	s.expected.Add(engine.Finding{Title: title, Also: []string{}, Subject: subject, Known: true,
		Identity: subject + ": " + title}, 0)
	s.expected.Count(key, times-1)
}

// corpus replays the committed programs: each on the subjects of the run, and,
// when nobody named subjects, on those for which it has a schedule. A bug that one of them
// expects of a subject is known in all.
func (s *session) corpus(ctx context.Context) {
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	files := 0
	for file := range corpus.All() {
		if ctx.Err() != nil {
			return
		}
		files++
		if err := s.committed(ctx, r, file); err != nil && ctx.Err() == nil {
			s.app.fail(err)
		}
	}
	s.app.sayf("replayed %d committed programs", files)
}

// committed replays one committed program.
func (s *session) committed(ctx context.Context, r *engine.Replayer, file corpus.File) error {
	p, err := file.Program()
	if err != nil {
		return err
	}
	subjects := append([]*impls.Variant(nil), s.subjects...)
	if !s.flags.pick.chosen() {
		subjects = unique(append(subjects, engine.Owners(p)...))
	}
	list, err := r.Program(ctx, p, subjects)
	if err != nil {
		return err
	}
	shown := reports.Program{File: file.Name, Marks: map[string]string{}}
	for i := range list {
		if mark := s.markOf(&list[i]); mark != "" {
			shown.Marks[list[i].Verdict.Subject.Name] = mark
		}
		if err := s.replayed(&list[i]); err != nil {
			return err
		}
	}
	s.app.shown = append(s.app.shown, shown)
	return nil
}

// replayed takes in what one program showed on one subject, and saves what is not
// known.
func (s *session) replayed(r *engine.Replay) error {
	v := r.Verdict.Subject
	if _, ok := s.tally[v.Name]; ok {
		s.tally.Add(v.Name, r.Counts())
	}
	if r.Err != nil {
		return r.Err
	}
	for _, f := range r.Findings {
		switch engine.Mark(s.known, &f); {
		case f.Title == engine.Missing:
			s.app.found()
			s.app.doc.Findings = append(s.app.doc.Findings, f)
		case f.Known:
			s.expected.Add(f, 0)
		default:
			if err := s.surprise(r, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// surprise saves a finding of a committed program that nobody expects.
func (s *session) surprise(r *engine.Replay, f engine.Finding) error {
	s.app.found()
	file, err := (&fuzz.Failure{Report: r.Report, Variant: r.Verdict.Subject,
		Reference: r.Against}).Save(s.flags.out)
	if err != nil {
		return fileError(file, err)
	}
	f.File, f.Command = file, r.Report.Command
	f.Report = strings.TrimSuffix(file, ".prog") + ".txt"
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	if _, lost := s.buckets.Add(f, info.Size()); lost != nil {
		os.Remove(lost.File)
		os.Remove(lost.Report)
	}
	return nil
}

// end tells what the run did: the tables, or the document, and what is wrong with
// the run itself.
func (s *session) end(cut bool) {
	a := s.app
	for _, v := range s.subjects {
		c := s.tally[v.Name]
		a.doc.Subjects = append(a.doc.Subjects, describe(v, c))
		if c.Programs == 0 && !cut {
			a.fail(fmt.Errorf("%s ran no program: nothing was tested there; look at its "+
				"capabilities and machines with allocfuzz subjects", v.Name))
		}
	}
	faultless := a.status != statusWrong
	for i := range a.doc.Targets {
		if t := &a.doc.Targets[i]; t.Execs == 0 && !cut && faultless {
			a.fail(fmt.Errorf("%s ran no input: nothing was fuzzed there; give --for more time",
				t.Name))
		}
	}
	fresh := s.buckets.Findings()
	if len(fresh) > 0 {
		a.found()
	}
	for i := range fresh {
		small := s.small[fresh[i].Identity]
		fresh[i].Small, fresh[i].HandOn = small.file, small.handOn
	}
	a.doc.Findings = slices.Concat(s.expected.Findings(), fresh, a.doc.Findings)
	a.doc.Out = s.flags.out
	for _, t := range a.doc.Targets {
		a.targets = append(a.targets, reports.Target{Name: t.Name, Execs: t.Execs,
			Seconds: t.Seconds, New: t.Interesting, Corpus: t.Corpus})
	}
	if len(fresh) > 0 || s.named {
		a.writeSource(s.flags.out, "", a.doc.FuzzSeconds)
	}
	s.remember()
	if !a.json {
		s.targetTable()
		s.subjectTable()
		s.findingTable()
	}
	if cut {
		a.sayf("interrupted: what was found so far is complete on disk")
		a.interrupted()
	}
}

// targetTable prints what fuzzing gave.
func (s *session) targetTable() {
	if len(s.app.doc.Targets) == 0 {
		return
	}
	names := []string{"time", "execs", "execs/s", "points/s", "new", "corpus", "starts"}
	t := s.app.newTable("target", "time", "execs", "execs/s", "points/s", "new", "corpus", "starts")
	t.SetColumnConfigs(numbers(names...))
	for _, r := range s.app.doc.Targets {
		took := time.Duration(r.Seconds * float64(time.Second)).Round(100 * time.Millisecond)
		points := ""
		if r.Points > 0 {
			points = rate(r.PointsPerS)
		}
		t.AppendRow(table.Row{r.Name, took, r.Execs, fmt.Sprintf("%.0f", r.ExecsPerS), points,
			r.Interesting, r.Corpus, r.Starts})
	}
	t.Render()
	fmt.Fprintln(s.app.out)
}

// subjectTable prints what every subject did.
func (s *session) subjectTable() { s.app.summary(s.subjects, s.tally) }

// findingTable prints what was found, and how to see it again.
func (s *session) findingTable() {
	a := s.app
	fmt.Fprintln(a.out)
	known, met := 0, 0
	for i := range a.doc.Findings {
		f := &a.doc.Findings[i]
		if f.Known {
			known, met = known+1, met+f.Count
			continue
		}
		a.tellFound(f)
		if f.Small != "" {
			fmt.Fprintf(a.out, "  small    %s\n", f.Small)
			a.tellHandOn(f.HandOn)
		} else if f.Title != engine.Missing {
			fmt.Fprintf(a.out, "  minimise allocfuzz minimize%s %s\n", subjectFlag(f.Subject),
				fuzz.Argument(f.File))
		}
	}
	fmt.Fprintf(a.out, "%d found, %d known and expected (met %d times)\n",
		len(a.doc.Findings)-known, known, met)
}
