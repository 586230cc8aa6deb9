package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/nightly"
	reports "allocfuzz/fuzz/report"
)

// nightlyFlags are the flags of nightly.
type nightlyFlags struct {
	pick    selection
	boot    bootFlags
	opt     nightly.Options
	targets []string
	race    string
	fresh   bool
	plain   bool
}

// raceFrom is the budget from which what is found is replayed under the race detector: to build for
// that takes a minute.
const raceFrom = 10 * time.Minute

// nightLeast is the shortest night: an arm or two have a slice.
const nightLeast = 5 * time.Second

func (a *app) nightlyCommand() *cobra.Command {
	var f nightlyFlags
	c := &cobra.Command{
		Use:   "nightly",
		Short: "a night's work: fuzz, explore, minimise, file regressions, thin, resumable",
		Long: "Share a budget of time between the fuzz targets and the explorers of schedules,\n" +
			"more to those that still find something new. What is found is minimised,\n" +
			"replayed, and written to corpus/regress of the checkout, one file a bug; a bug\n" +
			"for which there is a regression already, here or on a branch of another night,\n" +
			"is counted and does not stop anything. At the end the working corpus is thinned,\n" +
			"when it has grown, and everything committed is replayed.\n\n" +
			"A night that was killed, at whatever moment, is taken up by the next call with\n" +
			"the same flags; --fresh begins anew. With --commit each regression is a commit\n" +
			"on a branch of its own; the checkout stays as it is, must have no changes, and\n" +
			"nothing is pushed.\n\n" +
			"The exit status is 1 when something new was found, 2 when something went wrong.",
		Example: "  allocfuzz nightly --for 8h --commit\n" +
			"  allocfuzz nightly --for 2m --subject slub-2008-seq,slub-2011-tid\n" +
			"  allocfuzz nightly --for 8h --unsound --out /tmp/night",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			return a.nightly(&f)
		},
	}
	f.pick.flags(c)
	f.boot.flags(c)
	n := c.Flags()
	n.DurationVar(&f.opt.Budget, "for", 8*time.Hour, "time for the whole night")
	n.StringSliceVar(&f.targets, "target", nil,
		"fuzz targets by name, joined by commas (default: all)")
	n.IntVar(&f.opt.Parallel, "parallel", runtime.GOMAXPROCS(0), "fuzz workers")
	n.StringVar(&f.opt.Dir, "state", "",
		"folder of the night's state and of the fuzzer's corpora (default: in the user's cache)")
	n.StringVar(&f.opt.Corpus, "corpus", "",
		"folder of the working corpus (default: one in the user's cache)")
	n.StringVar(&f.opt.Out, "out", "",
		"folder for findings and the summary (default: a new one below that of the state)")
	n.BoolVar(&f.opt.Commit, "commit", false, "make a commit of each regression, on a branch")
	n.StringVar(&f.opt.Branch, "branch", "", "branch for commits (default: "+
		nightly.BranchPrefix+"DATE)")
	n.StringVar(&f.race, "race", "auto", "replay what is found under the race detector: on, off, "+
		"or auto: on for nights of ten minutes or more")
	n.BoolVar(&f.fresh, "fresh", false, "begin a new night, also when the last one was cut short")
	n.BoolVar(&f.plain, "plain", false, "plain lines of progress on a terminal too")
	must(c.RegisterFlagCompletionFunc("target", completeList(sourceTargets)))
	must(c.RegisterFlagCompletionFunc("race", cobra.FixedCompletions([]string{"auto", "on", "off"},
		cobra.ShellCompDirectiveNoFileComp)))
	return c
}

// check reads the flags and says what is wrong with them.
func (f *nightlyFlags) check() (err error) {
	o := &f.opt
	if o.Budget < nightLeast {
		return fmt.Errorf("--for %v: expected at least %v", o.Budget, nightLeast)
	}
	if o.Parallel <= 0 {
		return fmt.Errorf("--parallel %d: expected a number of workers above 0", o.Parallel)
	}
	switch f.race {
	case "auto":
		o.Race = o.Budget >= raceFrom
	case "on", "off":
		o.Race = f.race == "on"
	default:
		return fmt.Errorf("--race %s: expected on, off or auto", f.race)
	}
	if o.Branch != "" && !o.Commit {
		return errors.New("--branch: expected --commit with it")
	}
	if o.Subjects, err = f.pick.subjects(); err != nil {
		return err
	}
	if o.Boot, err = f.boot.parse(); err != nil {
		return err
	}
	if o.Root, err = engine.FindRoot("."); err != nil {
		return err
	}
	list, err := engine.Targets(o.Root)
	if err != nil {
		return err
	}
	if o.Targets, err = engine.SelectTargets(list, f.targets); err != nil {
		return fmt.Errorf("--target: %w", err)
	}
	return f.folders()
}

// folders makes the folders of the night.
func (f *nightlyFlags) folders() error {
	o := &f.opt
	if o.Branch == "" {
		o.Branch = nightly.BranchPrefix + time.Now().Format(time.DateOnly)
	}
	var err error
	if o.Dir == "" {
		if o.Dir, err = usualFolder("nightly", "state"); err != nil {
			return err
		}
	}
	if o.Corpus == "" {
		if o.Corpus, err = workingFolder(); err != nil {
			return err
		}
	}
	for _, dir := range []*string{&o.Dir, &o.Corpus, &o.Out} {
		if *dir == "" {
			continue
		}
		at, err := filepath.Abs(*dir)
		if err != nil {
			return err
		}
		*dir = at
		if err := os.MkdirAll(at, 0o777); err != nil {
			return fileError(at, err)
		}
	}
	return nil
}

// nightly does a night's work.
func (a *app) nightly(f *nightlyFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	lock, err := nightly.Take(f.opt.Dir)
	if err != nil {
		return err
	}
	defer lock.Release()
	ctx, done := interruptible(syscall.SIGHUP, syscall.SIGPIPE)
	defer done()
	m := a.newMeter(f.plain)
	f.opt.Log, f.opt.Progress = m.log, m.show
	n := &nightly.Night{Dir: f.opt.Dir, Log: m.log}
	resumed, err := n.Begin(f.opt.Fresh(), f.fresh)
	if err != nil {
		return err
	}
	if resumed {
		a.sayf("the night of %s goes on: %v of %v are over", n.State.Started,
			n.State.Total().Round(time.Second), f.opt.Budget)
	}
	steps, end, err := nightly.New(ctx, f.opt, n.State)
	if err != nil {
		return err
	}
	n.Steps = steps
	err = n.Run(ctx)
	m.end()
	a.night(n, end)
	for _, fault := range n.Faults {
		a.fail(fault)
	}
	if err != nil && ctx.Err() == nil {
		a.fail(fmt.Errorf("%w; the same command goes on from here", err))
	}
	if ctx.Err() != nil {
		a.sayf("interrupted: the same command goes on from here")
		a.interrupted()
	}
	return nil
}

// night tells what a night did.
func (a *app) night(n *nightly.Night, end *nightly.Ending) {
	s := n.State
	a.doc.Night = &nightly.Report{State: s, End: end, Share: s.Share()}
	for i := range s.Filed {
		f := &s.Filed[i]
		if !f.New() {
			continue
		}
		a.found()
		a.doc.Findings = append(a.doc.Findings, engine.Finding{Title: f.Title, Also: f.Also,
			Subject: f.Subject, Identity: f.Identity, File: f.File, Small: f.Program,
			HandOn: f.HandOn, Report: f.Report, Class: classOf(f.Title)})
	}
	for _, line := range end.Broken {
		a.found()
		a.sayf("no longer holds: %s", line)
	}
	if end.Race != "" {
		a.sayf("nothing was replayed under the race detector: %s", end.Race)
	}
	if !a.json {
		a.armTable(s)
		a.filedList(s)
	}
	for _, m := range s.Arms {
		a.targets = append(a.targets, reports.Target{Name: m.Name, Execs: int64(m.Execs),
			Seconds: m.Seconds, New: m.New, Corpus: m.Corpus})
	}
	a.writeSource(end.Out, s.Started, s.Total().Seconds())
}

func (a *app) armTable(s *nightly.State) {
	names := []string{"slices", "execs", "execs/s", "new", "corpus", "time", "deaths", "flakes"}
	head := []any{"arm"}
	for _, name := range names {
		head = append(head, name)
	}
	t := a.newTable(head...)
	t.SetColumnConfigs(numbers(names...))
	for _, m := range s.Arms {
		took := time.Duration(m.Seconds * float64(time.Second)).Round(time.Second)
		speed := 0.0
		if m.Seconds > 0 {
			speed = float64(m.Execs) / m.Seconds
		}
		t.AppendRow(table.Row{m.Name, m.Slices, m.Execs, fmt.Sprintf("%.0f", speed), m.New,
			m.Corpus, took, m.Deaths, m.Flakes})
	}
	t.Render()
	fmt.Fprintf(a.out, "\n%s\n", s.Split())
}

// filedList prints what became of findings.
func (a *app) filedList(s *nightly.State) {
	fresh := 0
	for i := range s.Filed {
		f := &s.Filed[i]
		if !f.New() {
			continue
		}
		fresh++
		fmt.Fprintf(a.out, "\nFOUND %s\n", f.Identity)
		if len(f.Also) > 0 {
			fmt.Fprintf(a.out, "  also     %s\n", strings.Join(f.Also, "; "))
		}
		fmt.Fprintf(a.out, "  %-8s %s\n", "fate", f.Fate)
		for _, line := range [][2]string{{"why", f.Why}, {"file", f.File}, {"commit", f.Commit},
			{"program", f.Program}, {"race", f.Race}} {
			if line[1] != "" {
				fmt.Fprintf(a.out, "  %-8s %s\n", line[0], line[1])
			}
		}
		a.tellHandOn(f.HandOn)
	}
	met := 0
	//tidy:maporder a sum
	for _, n := range s.Known {
		met += n
	}
	fmt.Fprintf(a.out, "\n%d new, %d known (met %d times)\n", fresh, len(s.Known), met)
}
