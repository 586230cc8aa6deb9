package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// replayFlags are the flags of replay.
type replayFlags struct {
	pick    selection
	boot    bootFlags
	checks  string
	history string
	reports bool
	verbose bool
	repair  bool
}

func (a *app) replayCommand() *cobra.Command {
	var f replayFlags
	c := &cobra.Command{
		Use:   "replay FILE…",
		Short: "run programs and judge what the subjects do",
		Long: "Run programs on subjects, in line order and under their written schedules, and\n" +
			"tell what was found: a table of subjects for each file, then a report for each\n" +
			"finding. Subjects that are equal by design are also held against each other, more\n" +
			"closely than by outcomes. The exit status is 1 when anything was found, expected\n" +
			"or not, and when a bug that a schedule block expects did not occur on its\n" +
			"subject.\n\n" +
			"The table counts operations over all runs of the file. Unsupported is the share\n" +
			"that the subject cannot do; repaired are departures, of a schedule made for any\n" +
			"subject or another, that did not apply. Reports are those of the debug checks of\n" +
			"caches with debug flags: see them with --reports. With -v the points are in the\n" +
			"words of a schedule: alloc(a) load cpu_slab.freelist 1; behind them are the\n" +
			"operations of the run that came to anything but ok.",
		Example: "  allocfuzz replay --subject slub-2008-cmpxchg corpus/regress/*.prog\n" +
			"  allocfuzz replay --unsound corpus/regress/*.prog\n" +
			"  allocfuzz replay -v --checks=-step,-structure new.prog\n" +
			"  allocfuzz replay --reports corpus/seeds/flush-and-validate.prog\n" +
			"  allocfuzz replay --history /tmp/histories corpus/regress/*.prog\n" +
			"  allocfuzz replay --debug FZPU --rules 6.12 new.prog\n" +
			"  allocfuzz replay --debug 'FZ;-,kmalloc-64' new.prog\n" +
			"  allocfuzz replay --json - < new.prog",
		Args:              needFiles,
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, files []string) error {
			a.begin(cmd)
			return a.replay(files, f)
		},
	}
	f.pick.flags(c)
	f.boot.flags(c)
	c.Flags().StringVar(&f.checks, "checks", "", "rules to switch off, as in -step,-structure, or "+
		"the only ones to apply, as in ownership,contents; rules: "+strings.Join(ruleNames(), ", "))
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false,
		"print every point of the runs, as schedules name them, and what was not done")
	c.Flags().StringVar(&f.history, "history", "", "folder for the histories of runs with several "+
		"contexts in real time, as JSON and as pictures that porcupine makes; files of the same "+
		"program are replaced")
	c.Flags().BoolVar(&f.reports, "reports", false,
		"print every report of the debug checks, as the kernel does")
	c.Flags().BoolVar(&f.repair, "repair", false, "of programs that were edited, leave out lines "+
		"that cannot be used and departures that do not apply, and say how many")
	must(c.RegisterFlagCompletionFunc("checks", completeList(checkWords)))
	return c
}

func ruleNames() []string {
	var names []string
	for _, r := range fault.Rules() {
		names = append(names, r.String())
	}
	return names
}

// checkWords are the words of --checks.
func checkWords() []string {
	words := ruleNames()
	for _, n := range ruleNames() {
		words = append(words, "-"+n)
	}
	return words
}

// parseChecks reads the value of --checks.
func parseChecks(list string) (oracle.Checks, error) {
	if list == "" {
		return oracle.AllChecks, nil
	}
	off, only := oracle.AllChecks, oracle.Checks(0)
	words := strings.Split(list, ",")
	for _, w := range words {
		name, minus := strings.CutPrefix(strings.TrimSpace(w), "-")
		r, ok := fault.RuleNamed(name)
		if !ok {
			return 0, fmt.Errorf("--checks: no rule %q: expected one of %s, with - in front "+
				"to switch it off", name, strings.Join(ruleNames(), ", "))
		}
		if minus != strings.HasPrefix(words[0], "-") {
			return 0, fmt.Errorf("--checks=%s: expected rules to switch off or the only ones "+
				"to apply, not both", list)
		}
		if minus {
			off = off.Without(r)
		} else {
			only |= 1 << r
		}
	}
	if only != 0 {
		return only, nil
	}
	return off, nil
}

// replay replays files, one after the other: one that cannot be used does not keep
// the others from running.
func (a *app) replay(files []string, f replayFlags) error {
	subjects, err := f.pick.subjects()
	if err != nil {
		return err
	}
	checks, err := parseChecks(f.checks)
	if err != nil {
		return err
	}
	boot, err := f.boot.parse()
	if err != nil {
		return err
	}
	if f.history != "" {
		if err := os.MkdirAll(f.history, 0o777); err != nil {
			return fileError(f.history, err)
		}
	}
	r := engine.NewReplayer(oracle.Options{Checks: checks, Repair: f.repair})
	defer r.Close()
	if f.checks != "" {
		r.Flags = " --checks=" + f.checks
	}
	r.Flags += boot.Flags()
	ctx, done := interruptible()
	defer done()
	a.in = untilDone(ctx, a.in)
	b := &batch{replayer: r, subjects: subjects, tally: engine.NewTally(subjects),
		boot: boot, history: f.history, reports: f.reports, verbose: f.verbose,
		repair: f.repair}
	for _, name := range files {
		if ctx.Err() != nil {
			break
		}
		if err := a.replayFile(ctx, name, b); err != nil && ctx.Err() == nil {
			a.fail(err)
		}
	}
	if ctx.Err() != nil {
		a.interrupted()
	}
	for _, v := range subjects {
		a.doc.Subjects = append(a.doc.Subjects, describe(v, b.tally[v.Name]))
	}
	if !a.json && len(a.doc.Files) > 1 {
		a.summary(subjects, b.tally)
	}
	return nil
}
