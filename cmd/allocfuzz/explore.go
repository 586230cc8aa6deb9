package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/search"
	"allocfuzz/impls"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// exploreFlags are the flags of explore.
type exploreFlags struct {
	pick       selection
	boot       bootFlags
	checks     string
	strategy   string
	opt        search.Options
	budget     time.Duration
	shard      string
	checkpoint string
	out        string
	plain      bool
	rows       bool
	cmd        *cobra.Command
}

func (a *app) exploreCommand() *cobra.Command {
	var f exploreFlags
	c := &cobra.Command{
		Use:   "explore FILE",
		Short: "search the schedules of a program",
		Long: "Run one program on subjects under schedule after schedule, until one shows that\n" +
			"something is wrong or there are no more within the bounds, and tell what was done.\n" +
			"Schedules that the file has are not used. What is found comes with its smallest\n" +
			"schedule, drawn in a column for each CPU.\n\n" +
			"Strategies:\n" + search.About() + "\n" +
			"A departure from the order of lines is a switch to another context or CPU where\n" +
			"the running one could go on (a preemption; a store held back or drained counts\n" +
			"as one), a handler that comes elsewhere than at the place of its first line (an\n" +
			"interrupt), or a page request that fails. bound tries the schedules of fewest\n" +
			"departures first, so that what it finds needs no fewer. It is complete for its\n" +
			"bounds, and exhausted when there is no schedule beyond them either. dpor is\n" +
			"complete without bounds where it ends; a bound on preemptions would make it miss\n" +
			"what it is for, and is refused.\n\n" +
			"The exit status is 1 when anything was found.",
		Example: "  allocfuzz explore --subject slub-2008-cmpxchg " +
			"corpus/seeds/aba-interrupt.prog\n" +
			"  allocfuzz explore --strategy dpor corpus/seeds/aba-interrupt.prog\n" +
			"  allocfuzz explore --preemptions 3 --interrupts 2 --shard 0/4 new.prog\n" +
			"  allocfuzz explore --checkpoint /tmp/new.state --preemptions 4 new.prog",
		Args: func(cmd *cobra.Command, args []string) error {
			if rows, _ := cmd.Flags().GetBool("rows"); rows {
				return noArguments(cmd, args)
			}
			return needOneFile(cmd, args)
		},
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, files []string) error {
			a.begin(cmd)
			if f.rows {
				return a.exploreRows(&f)
			}
			return a.explore(files[0], &f)
		},
	}
	f.flags(c)
	return c
}

func (f *exploreFlags) flags(c *cobra.Command) {
	f.cmd = c
	f.pick.flags(c)
	f.boot.flags(c)
	n := c.Flags()
	n.StringVar(&f.strategy, "strategy", string(search.Bound),
		"how schedules are chosen: "+strings.Join(search.Strategies(), ", "))
	n.IntVar(&f.opt.Bounds.Preemptions, "preemptions", 2,
		"most switches where a context could go on")
	n.IntVar(&f.opt.Bounds.Interrupts, "interrupts", 1,
		"most handlers that come out of their place")
	n.IntVar(&f.opt.Bounds.Failures, "failures", 0, "most page requests that are made to fail")
	n.IntVar(&f.opt.Bounds.Deliveries, "deliveries", 1, "how often one handler may be delivered")
	n.IntVar(&f.opt.Moves, "moves", 0,
		"most migrations, 0 or 1, for dpor, sleep and naive")
	n.IntVar(&f.opt.Depth, "depth", 3, "steps in order that a bug needs, for pct")
	n.Uint64Var(&f.opt.Seed, "seed", 1, "number of the first schedule by chance")
	n.IntVar(&f.opt.Max, "max", 0, "most schedules for each subject, 0 for all; by chance "+
		strconv.Itoa(search.ChanceRuns)+" when it is not given")
	n.DurationVar(&f.budget, "for", 0, "most time for each subject, 0 for any")
	n.BoolVar(&f.opt.All, "all", false, "go on behind what is found and count it")
	n.IntVar(&f.opt.Parallel, "parallel", runtime.GOMAXPROCS(0), "workers")
	n.StringVar(&f.shard, "shard", "0/1", "i/n: search part i of n, from 0")
	n.StringVar(&f.checkpoint, "checkpoint", "",
		"file to keep the state in, and to go on from when it is there; for bound")
	n.StringVar(&f.out, "out", "",
		"folder for what is found: a program with its schedule, and a report")
	n.StringVar(&f.checks, "checks", "", "rules to apply, as for replay")
	n.BoolVar(&f.rows, "rows", false, "search the races of the historical systems instead, and "+
		"print them as a table in Markdown; needs the sources and a Go toolchain")
	n.BoolVar(&f.plain, "plain", false, "plain lines of progress on a terminal too")
	must(c.RegisterFlagCompletionFunc("strategy", cobra.FixedCompletions(search.Strategies(),
		cobra.ShellCompDirectiveNoFileComp)))
	must(c.RegisterFlagCompletionFunc("checks", completeList(checkWords)))
}

// check reads the values of the flags and says what is wrong with them.
func (f *exploreFlags) check() error {
	f.opt.Strategy = search.Strategy(f.strategy)
	changed := f.cmd.Flags().Changed
	bounds := &f.opt.Bounds
	for _, v := range []struct {
		name string
		n    int
		zero bool
	}{{"preemptions", bounds.Preemptions, true}, {"interrupts", bounds.Interrupts, true},
		{"failures", bounds.Failures, true}, {"moves", f.opt.Moves, true},
		{"max", f.opt.Max, !changed("max")}, {"deliveries", bounds.Deliveries, false},
		{"depth", f.opt.Depth, false}, {"parallel", f.opt.Parallel, false}} {
		if v.n < 0 || v.n == 0 && !v.zero {
			least := map[bool]string{true: "0 or more", false: "1 or more"}[v.zero]
			return fmt.Errorf("--%s %d: expected %s", v.name, v.n, least)
		}
	}
	if f.budget < 0 || f.budget == 0 && changed("for") {
		return fmt.Errorf("--for %v: expected a time above 0, e.g. 30s", f.budget)
	}
	if err := f.parts(); err != nil {
		return err
	}
	if err := f.orders(); err != nil {
		return err
	}
	return f.opt.Check()
}

// parts reads --shard.
func (f *exploreFlags) parts() error {
	i, n, ok := strings.Cut(f.shard, "/")
	var err1, err2 error
	f.opt.Shard, err1 = strconv.Atoi(i)
	f.opt.Shards, err2 = strconv.Atoi(n)
	if !ok || err1 != nil || err2 != nil || f.opt.Shards < 1 || f.opt.Shard < 0 ||
		f.opt.Shard >= f.opt.Shards {
		return fmt.Errorf("--shard %q: expected i/n with 0 ≤ i < n, e.g. 0/4", f.shard)
	}
	if f.checkpoint != "" && f.opt.Strategy != search.Bound {
		return fmt.Errorf("--checkpoint: only strategy bound can be taken up again, this is %s",
			f.strategy)
	}
	return nil
}

// orders refuses what the search of orders cannot be combined with.
func (f *exploreFlags) orders() error {
	changed := f.cmd.Flags().Changed
	if !f.opt.Strategy.Orders() {
		if f.opt.Moves > 0 {
			return fmt.Errorf("--moves is for dpor, sleep and naive: with %s a migration is "+
				"one of --preemptions", f.strategy)
		}
		return f.chance()
	}
	for _, name := range []string{"preemptions", "interrupts", "failures", "deliveries"} {
		if changed(name) {
			return fmt.Errorf("--%s cannot be combined with --strategy %s: of the runs that "+
				"differ only in the order of independent steps it makes one, which may be beyond "+
				"the bound where another is within; leave the bound out, or search with "+
				"--strategy bound", name, f.strategy)
		}
	}
	f.opt.Bounds = explore.Bounds{}
	return nil
}

// chance refuses bounds that a strategy by chance does not keep.
func (f *exploreFlags) chance() error {
	changed := f.cmd.Flags().Changed
	switch {
	case f.opt.Strategy != search.Random && f.opt.Strategy != search.PCT:
	case changed("preemptions"):
		return fmt.Errorf("--preemptions is no bound of --strategy %s, which switches by chance; "+
			"leave it out, or search with --strategy bound or guided", f.strategy)
	case f.opt.Strategy == search.PCT && changed("failures"):
		return errors.New("--failures is no bound of --strategy pct, which makes no page request " +
			"fail; leave it out, or search with another strategy")
	}
	return nil
}

// An exploring is one use of the command.
type exploring struct {
	*app
	f        *exploreFlags
	prog     *prog.Program
	c        *oracle.Compiled
	file     *search.File // of the checkpoint, nil without one
	refusals []error      // of subjects that the strategy does not know
	last     time.Time    // of the last word about progress
	from     time.Time    // of the subject in hand
	// Of the first word about this number of departures: when, and the parts that were done.
	layer, layerPart int
	layerFrom        time.Time
}

// explore searches the schedules of a file.
func (a *app) explore(name string, f *exploreFlags) error {
	if err := f.check(); err != nil {
		return err
	}
	subjects, err := f.pick.subjects()
	if err != nil {
		return err
	}
	if f.opt.Run.Checks, err = parseChecks(f.checks); err != nil {
		return err
	}
	x := &exploring{app: a, f: f}
	if err := x.load(name); err != nil {
		return err
	}
	ctx, done := interruptible()
	defer done()
	begun := time.Now()
	for _, v := range subjects {
		if ctx.Err() != nil {
			break
		}
		if err := x.subject(ctx, v); err != nil {
			a.fail(err)
		}
	}
	if n := len(x.refusals); n > 0 && n == len(subjects) {
		a.fail(x.refusals[0])
	}
	if ctx.Err() != nil {
		a.interrupted()
	}
	if f.out != "" {
		a.writeSource(f.out, "", time.Since(begun).Seconds())
	}
	if !a.json {
		x.table()
	}
	return nil
}

// load reads the program, without its schedules, and the checkpoint.
func (x *exploring) load(name string) error {
	boot, err := x.f.boot.parse()
	if err != nil {
		return err
	}
	if x.prog, err = x.program(name); err != nil {
		return err
	}
	boot.Apply(x.prog)
	x.adviseNames(x.prog)
	if n := len(x.prog.Scheds); n > 0 {
		x.sayf("%s: its %d schedules are not used: replay runs them", x.prog.File, n)
		x.prog.Scheds = nil
	}
	if x.c, err = oracle.Compile(x.prog); err != nil {
		return err
	}
	if n := x.c.Operations(); n > walkMax {
		return fmt.Errorf("%s: %d operations: expected at most %d to search the schedules of",
			x.prog.File, n, walkMax)
	}
	if x.f.out != "" {
		if err := os.MkdirAll(x.f.out, 0o777); err != nil {
			return fileError(x.f.out, err)
		}
	}
	if x.f.checkpoint == "" {
		return nil
	}
	x.file, err = search.Load(x.f.checkpoint, x.c, &x.f.opt)
	return err
}

// subject searches on one subject and tells what came of it.
func (x *exploring) subject(ctx context.Context, v *impls.Variant) error {
	opt := x.f.opt
	opt.Progress = x.progress
	x.from, x.last, x.layer = time.Now(), time.Now(), -1
	var lost error
	if x.file != nil {
		state, err := x.file.State(v, x.c, &opt)
		if err != nil {
			return err
		}
		opt.Resume = state
		opt.Checkpoint = func(s *search.State) { lost = errors.Join(lost, x.file.Save(v, s)) }
	}
	limited, cancel := ctx, context.CancelFunc(func() {})
	if x.f.budget > 0 {
		limited, cancel = context.WithTimeout(ctx, x.f.budget)
	}
	res, err := search.Run(limited, x.c, v, opt)
	cancel()
	if refused(err) {
		res.Left = err.Error()
		x.refusals = append(x.refusals, err)
		err = nil
	}
	e := explorationOf(res, time.Since(x.from))
	if err == nil && res.Finding != nil {
		err = x.keep(ctx, v, res, &e)
	}
	if res.Left == "" && !res.Done && res.Finding == nil {
		x.doc.Complete = false
	}
	x.doc.Explorations = append(x.doc.Explorations, e)
	c := engine.CountsOf(min(res.Schedules, 1), &res.Counts)
	x.doc.Subjects = append(x.doc.Subjects, describe(v, &c))
	return errors.Join(err, lost)
}

// minimiseFor is the most time for making a schedule smaller.
const minimiseFor = 20 * time.Second

// refused says whether a strategy refused what it does not know.
func refused(err error) bool {
	for _, r := range []error{explore.ErrCalls, explore.ErrSections, explore.ErrRealTime,
		explore.ErrBuffers} {
		if errors.Is(err, r) {
			return true
		}
	}
	return false
}

// keep makes a finding's schedule small, and writes down and prints it.
func (x *exploring) keep(ctx context.Context, v *impls.Variant, res *search.Result,
	e *exploration) error {
	x.app.found()
	limited, cancel := context.WithTimeout(ctx, minimiseFor)
	defer cancel()
	m, err := search.Minimise(limited, x.c, v, x.f.opt.Run, res)
	if err != nil {
		return fmt.Errorf("%s: %s: %w", v.Name, res.Finding.Identity(), err)
	}
	res.Anchors, res.Finding, res.Hash = m.Anchors, m.Finding, m.Hash
	r := oracle.NewRunner()
	defer r.Close()
	rep, err := r.Explain(x.c, v, res.Schedule(x.c), x.f.opt.Run)
	if err != nil {
		return err
	}
	f := &fuzz.Failure{Report: rep, Variant: v}
	if x.f.out != "" {
		if e.File, err = f.Save(x.f.out); err != nil {
			return err
		}
	}
	e.Departures, e.Before = m.After, m.Before
	rows, err := search.Draw(x.c, v, x.f.opt.Run, m.Anchors)
	if err != nil {
		return err
	}
	e.Rows = rowsOf(rows)
	x.doc.Findings = append(x.doc.Findings, engine.NewFinding(rep.Finding, e.File,
		rep.Command))
	e.Schedule = scheduleText(rep.Program)
	if !x.json {
		fmt.Fprintln(x.out)
		if err := rep.Text(x.out); err != nil {
			return err
		}
		x.lanes(rows)
		if e.File == "" {
			fmt.Fprintf(x.out, "\nTo see it again, save what stands under PROGRAM as new.prog (or "+
				"use --out), and\n  allocfuzz replay --subject %s new.prog\n", v.Name)
		}
	}
	return nil
}

// scheduleText is the lines of a program's schedule.
func scheduleText(p *prog.Program) []string {
	lines := strings.Split(strings.TrimSpace(string(prog.Format(p))), "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, "sched") {
			return lines[i:]
		}
	}
	return []string{}
}

// progressAfter is the time between two words about progress.
const progressAfter = 5 * time.Second

// progress tells how far a search is, and how long the schedules of this number of departures
// will take.
func (x *exploring) progress(p search.Progress) {
	now := time.Now()
	if now.Sub(x.last) < progressAfter {
		return
	}
	x.last = now
	took := now.Sub(x.from)
	what := fmt.Sprintf("%v: %s: %d schedules, %s/s", took.Round(time.Second), p.Subject.Name,
		p.Schedules, rate(float64(p.Schedules)/took.Seconds()))
	if p.Departures >= 0 {
		what += fmt.Sprintf(", %d departures", p.Departures)
	}
	if p.Parts > 0 {
		what += fmt.Sprintf(", %d of %d parts", p.Part, p.Parts)
		if x.layer != p.Departures {
			x.layer, x.layerFrom, x.layerPart = p.Departures, now, p.Part
		} else if done := p.Part - x.layerPart; done > 0 {
			left := now.Sub(x.layerFrom) * time.Duration(p.Parts-p.Part) / time.Duration(done)
			what += fmt.Sprintf(", about %v left for this number", left.Round(time.Second))
		}
	}
	x.sayf("%s", what)
}
