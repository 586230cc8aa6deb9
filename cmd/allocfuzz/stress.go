package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/stress"
	"allocfuzz/impls"
)

// What stress does where nothing is said.
const (
	searchLimit = 2 * time.Second  // of one search by porcupine
	hangLimit   = 20 * time.Second // without any thread getting on
)

// stressFlags are the flags of stress.
type stressFlags struct {
	pick     selection
	budget   time.Duration
	threads  int
	ops      int
	seed     uint64
	workload []string
	out      string
}

// everyWorkload stands for all of them.
const everyWorkload = "all"

func workloadWords() []string {
	words := []string{everyWorkload}
	for _, w := range stress.Workloads() {
		words = append(words, w.String())
	}
	return words
}

func (a *app) stressCommand() *cobra.Command {
	var f stressFlags
	c := &cobra.Command{
		Use:   "stress",
		Short: "run real threads, and check their histories",
		Long: "Run subjects on real threads, each of which owns a CPU of a machine without a\n" +
			"scheduler, and check what they did in real time: no memory is handed out while\n" +
			"somebody holds it. Subjects have short rounds in turn until the time is over; the\n" +
			"first of every workload is always carried out. The workloads: mixed, each thread\n" +
			"frees its own; remote, each frees what another one allocated; producer, half of\n" +
			"them allocate and the others free; churn, threads give their CPU up for another.\n\n" +
			"At the end of a round the lists of the subject are walked, everything is freed,\n" +
			"and every page must come back. Histories are checked per address, and small ones\n" +
			"once more by porcupine; what that did not decide in time is counted as unknown,\n" +
			"which is no word for fine. Each third round is without a history, for the race\n" +
			"detector: build the command with -race to have one. Subjects that are not made for\n" +
			"several threads take turns.\n\n" +
			"A finding is a report, the history as JSON and its picture as HTML, in the folder\n" +
			"of --out. Threads are not the same twice: the same seed makes the same requests,\n" +
			"not the same order.",
		Example: "  allocfuzz stress --for 60s\n" +
			"  allocfuzz stress --subject slub-2011-tid --threads 8 --workload remote,churn\n" +
			"  allocfuzz stress --unsound --json --out /tmp/findings\n" +
			"  CGO_ENABLED=1 go run -race ./cmd/allocfuzz stress --for 60s",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			if !cmd.Flags().Changed("seed") {
				f.seed = uint64(time.Now().UnixNano()) % 1e6
			}
			return a.stress(f)
		},
	}
	f.pick.flags(c)
	c.Flags().DurationVar(&f.budget, "for", 10*time.Second, "time for all subjects together")
	c.Flags().IntVar(&f.threads, "threads", min(max(2, runtime.GOMAXPROCS(0)), stress.ThreadsMax),
		fmt.Sprintf("threads of a round, 2 to %d", stress.ThreadsMax))
	c.Flags().IntVar(&f.ops, "ops", 500, "operations of a thread in a round")
	c.Flags().Uint64Var(&f.seed, "seed", 0, "what requests are made from (default: the clock)")
	c.Flags().StringSliceVar(&f.workload, "workload", []string{everyWorkload},
		"what threads do, joined by commas: "+strings.Join(workloadWords(), ", "))
	c.Flags().StringVar(&f.out, "out", "",
		"folder for findings (default: a new one in the user's cache)")
	must(c.RegisterFlagCompletionFunc("workload", completeList(workloadWords)))
	return c
}

// config reads the flags.
func (f *stressFlags) config() (stress.Config, error) {
	cfg := stress.Config{For: f.budget, Threads: f.threads, Ops: f.ops, Seed: f.seed,
		Limit: searchLimit, Hang: hangLimit}
	switch {
	case f.budget <= 0:
		return cfg, fmt.Errorf("--for %v: expected a time above 0, e.g. 30s", f.budget)
	case f.threads < 2 || f.threads > stress.ThreadsMax:
		return cfg, fmt.Errorf("--threads %d: expected 2 to %d", f.threads, stress.ThreadsMax)
	case f.ops < 1 || f.ops > stress.OpsMax:
		return cfg, fmt.Errorf("--ops %d: expected 1 to %d", f.ops, stress.OpsMax)
	}
	for _, name := range f.workload {
		w, ok := stress.WorkloadNamed(name)
		switch {
		case name == everyWorkload:
			cfg.Workloads = append(cfg.Workloads, stress.Workloads()...)
		case ok:
			cfg.Workloads = append(cfg.Workloads, w)
		default:
			return cfg, fmt.Errorf("--workload: no workload %q: expected one of %s", name,
				strings.Join(workloadWords(), ", "))
		}
	}
	cfg.Workloads = once(cfg.Workloads)
	if len(cfg.Workloads) == 0 {
		return cfg, fmt.Errorf("--workload: expected one of %s",
			strings.Join(workloadWords(), ", "))
	}
	var err error
	cfg.Subjects, err = f.pick.subjects()
	return cfg, err
}

// once keeps the first of every element.
func once[T comparable](list []T) []T {
	seen := map[T]bool{}
	var out []T
	for _, x := range list {
		if !seen[x] {
			seen[x] = true
			out = append(out, x)
		}
	}
	return out
}

// stress runs the threads, tells of what they show, and ends with a table.
func (a *app) stress(f stressFlags) error {
	cfg, err := f.config()
	if err != nil {
		return err
	}
	var remote []*impls.Variant
	cfg.Subjects, remote = inProcess(cfg.Subjects)
	for _, v := range remote {
		a.sayf("%s is left out: it is in another process", v.Name)
	}
	if len(cfg.Subjects) == 0 {
		return errors.New("no subject runs in this process: the threads of a library are real " +
			"under allocfuzz run --target FuzzSMP")
	}
	a.sayf("seed %d, %d threads", cfg.Seed, cfg.Threads)
	known, err := engine.Expected("")
	if err != nil {
		return err
	}
	cfg.Found = func(x *stress.Finding) {
		if err := a.stressFound(x, &f, known); err != nil {
			a.fail(err)
		}
	}
	shown := time.Duration(0)
	cfg.Progress = func(p stress.Progress) {
		if p.Passed-shown >= plainEvery {
			shown = p.Passed
			a.sayf("%v of %v: %d rounds, %s operations, %d found; %s", p.Passed.Round(time.Second),
				cfg.For, p.Rounds, rate(float64(p.Operations)), p.Found, p.Subject)
		}
	}
	ctx, done := interruptible()
	defer done()
	start := time.Now()
	results := stress.Run(ctx, cfg)
	if ctx.Err() != nil {
		a.interrupted()
	}
	a.stressed(&cfg, results, time.Since(start))
	return nil
}

// inProcess divides subjects into those that threads can run and those that they cannot.
func inProcess(list []*impls.Variant) (here, elsewhere []*impls.Variant) {
	for _, v := range list {
		if v.New == nil {
			elsewhere = append(elsewhere, v)
		} else {
			here = append(here, v)
		}
	}
	return here, elsewhere
}

// stressFound writes a finding down when it is made.
func (a *app) stressFound(x *stress.Finding, f *stressFlags, known *fuzz.Known) error {
	a.found()
	out := engine.Finding{Title: string(x.Fault.Title), Also: []string{}, Class: x.Class(),
		Subject: x.Subject, Identity: x.Identity(), Verb: x.Verb, Command: x.Command()}
	engine.Mark(known, &out)
	err := f.folder()
	if err == nil {
		var files stress.Files
		files, err = x.Save(f.out)
		out.File, out.Report, out.Picture = files.History, files.Report, files.Picture
		a.doc.Out = f.out
	}
	a.doc.Findings = append(a.doc.Findings, out)
	a.sayf("FOUND %s: %s", x.Identity(), x.Fault.Detail)
	if err != nil {
		return fmt.Errorf("a finding could not be written: %w", err)
	}
	return nil
}

// folder makes the folder of findings.
func (f *stressFlags) folder() error {
	if f.out == "" {
		usual, err := cacheFolder()
		if err != nil {
			return fmt.Errorf("%w and --out", err)
		}
		f.out = filepath.Join(filepath.Dir(usual), "findings",
			fmt.Sprintf("stress-%s-%d", time.Now().Format("20060102-150405"), os.Getpid()))
	}
	at, err := filepath.Abs(f.out)
	if err != nil {
		return err
	}
	f.out = at
	if err := os.MkdirAll(at, 0o777); err != nil {
		return fileError(at, err)
	}
	return nil
}

// stressed tells of what was done.
func (a *app) stressed(cfg *stress.Config, results []stress.Result, took time.Duration) {
	s := &stressDoc{Seed: cfg.Seed, Threads: cfg.Threads, Ops: cfg.Ops, Seconds: took.Seconds(),
		Subjects: []stressSubject{}, Workloads: []string{}}
	for _, w := range cfg.Workloads {
		s.Workloads = append(s.Workloads, w.String())
	}
	for i := range results {
		r := &results[i]
		s.Subjects = append(s.Subjects, stressSubject{Name: r.Subject.Name, Turns: r.Locked,
			Rounds: r.Rounds, Operations: r.Operations, OpsPerS: perSecond(r), Stopped: r.Stopped,
			Histories: r.Histories, Searched: r.Searched, Unknown: r.Unknown, Found: r.Found})
		a.doc.Subjects = append(a.doc.Subjects, describe(r.Subject, &engine.Counts{
			Programs: r.Rounds, Operations: r.Operations}))
		a.doc.Complete = a.doc.Complete && r.Stopped == ""
	}
	a.doc.Stress = s
	if !a.json {
		a.stressTable(s)
	}
}

func perSecond(r *stress.Result) float64 {
	return float64(r.Operations) / max(r.Took.Seconds(), 1e-9)
}

// stressTable prints what every subject did, and what was found.
func (a *app) stressTable(s *stressDoc) {
	t := a.newTable("subject", "rounds", "operations", "ops/s", "histories", "searched", "unknown",
		"found", "")
	t.SetColumnConfigs(numbers("rounds", "operations", "ops/s", "histories", "searched", "unknown",
		"found"))
	for i := range s.Subjects {
		r := &s.Subjects[i]
		remark := r.Stopped
		if remark == "" && r.Turns {
			remark = "threads take turns"
		}
		t.AppendRow([]any{r.Name, r.Rounds, r.Operations, rate(r.OpsPerS), r.Histories, r.Searched,
			r.Unknown, r.Found, remark})
	}
	t.Render()
	fmt.Fprintln(a.out)
	for i := range a.doc.Findings {
		x := &a.doc.Findings[i]
		fmt.Fprintf(a.out, "FOUND %s\n", x.Identity)
		for _, line := range [][2]string{{"report", x.Report}, {"history", x.File},
			{"picture", x.Picture}, {"again", x.Command}} {
			if line[1] != "" {
				fmt.Fprintf(a.out, "  %-7s %s\n", line[0], line[1])
			}
		}
	}
	fmt.Fprintf(a.out, "%d found, %d histories unknown\n", len(a.doc.Findings), s.unknown())
}
