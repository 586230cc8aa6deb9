package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/history"
	"allocfuzz/oracle/history/linear"
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

// A walked run is a program on a subject under a schedule; nil is line order.
type walked struct {
	program *oracle.Compiled
	subject *impls.Variant
	sched   *prog.Sched
}

// A walk is what -v tells of one run: its points, spelled so that they can be copied into a
// schedule, and the operations that came to anything but ok.
type walk struct {
	points []point
	unmet  []unmet
}

// walk makes that run.
func (w *walked) walk(ctx context.Context, r *engine.Replayer) (walk, error) {
	var got walk
	var err error
	opt := r.Options
	if !r.Until(ctx, func(run *oracle.Runner) { got, err = w.on(run, opt) }) {
		return walk{}, ctx.Err()
	}
	return got, err
}

func (w *walked) on(run *oracle.Runner, opt oracle.Options) (walk, error) {
	c := w.program
	res, err := run.Points(c, w.subject, w.sched, opt)
	if err == nil {
		err = res.Err
	}
	if err != nil {
		return walk{}, err
	}
	index := prog.NewIndex(c.Prog)
	out := make([]point, 0, len(res.Trace))
	for i := range res.Trace {
		t := &res.Trace[i]
		p := point{Task: t.Where.Task, CPU: t.Where.CPU, Kind: t.Kind.String(), N: t.N}
		if t.Field != nil {
			p.Field = t.Field.Name()
		}
		if n := t.Where.Line; n >= 0 && n < len(c.Lines) {
			src := c.Lines[n].Src
			p.Line = spell(index, src, &t.Line, len(c.Lines[n].Path)-1)
		}
		out = append(out, p)
	}
	return walk{out, w.unmet(res)}, nil
}

// unmet lists the operations of a run that came to anything but ok, each line of a repeat once.
func (w *walked) unmet(res *oracle.Result) []unmet {
	out := []unmet{}
	met := map[unmet]bool{}
	for i := range res.Events {
		ev := &res.Events[i]
		if ev.Outcome == impls.OK || ev.Op < 0 {
			continue
		}
		n := int(ev.Op)
		u := unmet{w.program.Named(n), fileLine(w.program, n), ev.Outcome.String()}
		if !met[u] {
			met[u] = true
			out = append(out, u)
		}
	}
	return out
}

// spell names one execution of a line as an anchor does, in the rounds of the
// repeats around it and the delivery of its handler; a line that has no such name
// yet, because it needs a label, by its whole text.
func spell(index *prog.Index, l *prog.Line, at *machine.Line, repeats int) string {
	ref, ok := index.Ref(l)
	if !ok {
		return string(prog.AppendLine(nil, l))
	}
	name := ref.String()
	if at.Iter != [2]int32{} && at.Iter != [2]int32{1} && at.Iter != [2]int32{1, 1} {
		for i := range min(repeats, len(at.Iter)) {
			name += fmt.Sprintf("[%d]", at.Iter[i])
		}
	}
	switch {
	case !l.Ctx.IsIRQ():
		return name
	case at.Delivery > 1:
		return fmt.Sprintf("%s#%d/%s", l.Ctx, at.Delivery, name)
	}
	return l.Ctx.String() + "/" + name
}

// printWalk prints points in columns, and below them what was not done.
func (a *app) printWalk(v *impls.Variant, s *prog.Sched, w *walk) {
	how := "in line order"
	if s != nil {
		how = fmt.Sprintf("under the schedule of line %d", s.Pos.Line)
	}
	fmt.Fprintf(a.out, "\n%s, %s: %d points\n", v.Name, how, len(w.points))
	for i := range w.points {
		p := &w.points[i]
		fmt.Fprintf(a.out, "  %6d  cpu%d  %-10s  %s %s %s %d\n", i+1, p.CPU, p.Task, p.Line, p.Kind,
			p.Field, p.N)
	}
	for _, u := range w.unmet {
		fmt.Fprintf(a.out, "  %s: %s\n", u.Outcome, u.Operation)
	}
}

// This file writes down what the contexts of a program did in real time (--history).

// timedMax bounds the operations that porcupine is asked about and pictures show.
const timedMax = 2500

// A timedRun is the history of one run, and where it was written.
type timedRun struct {
	Line       int    `json:"line"` // in the file, of its schedule; 0 for line order
	Operations int    `json:"operations"`
	Verdict    string `json:"verdict"` // of porcupine: linearizable, not linearizable, unknown
	History    string `json:"history"`
	Picture    string `json:"picture"` // "" when it would be too large
}

// timeFile writes the histories of every run of a file.
func (a *app) timeFile(ctx context.Context, p *prog.Program, b *batch, f *file) error {
	c, err := oracle.Compile(p)
	if err != nil {
		return err
	}
	if c.Sequential() {
		a.sayf("%s: --history: one context does everything, so there is nothing to see", p.File)
		return nil
	}
	for i, v := range b.subjects {
		if f.Subjects[i].Outcome == leftOut {
			continue
		}
		for _, s := range oracle.Blocks(p, v) {
			t, err := a.timeRun(ctx, &walked{c, v, s}, b)
			if err != nil {
				return err
			}
			if t != nil {
				f.Subjects[i].Timed = append(f.Subjects[i].Timed, *t)
			}
		}
	}
	return nil
}

// timeRun makes one run and writes its history; nil when the rule is off.
func (a *app) timeRun(ctx context.Context, w *walked, b *batch) (*timedRun, error) {
	var t *timedRun
	var err error
	opt := b.replayer.Options
	ended := b.replayer.Until(ctx, func(run *oracle.Runner) {
		var res *oracle.Result
		if res, err = run.Points(w.program, w.subject, w.sched, opt); err == nil {
			t, err = w.timed(res, b.history)
		}
	})
	if !ended {
		return nil, ctx.Err()
	}
	if t != nil && !a.json {
		fmt.Fprintf(a.out, "%s: %d operations, %s: %s\n", w.subject.Name, t.Operations, t.Verdict,
			t.History)
	}
	return t, err
}

// timed writes the history of a run into a folder.
func (w *walked) timed(res *oracle.Result, dir string) (*timedRun, error) {
	h := res.History
	if h == nil {
		return nil, nil
	}
	name := strings.TrimSuffix(filepath.Base(w.program.Prog.File), ".prog")
	if w.program.Prog.File == engine.Stdin {
		name = "stdin"
	}
	base := filepath.Join(dir, name+"-"+w.subject.Name)
	t := &timedRun{Operations: len(h.Ops), Verdict: linear.Unknown.String(),
		History: base + ".json"}
	if w.sched != nil {
		t.Line = w.sched.Pos.Line
		base = fmt.Sprintf("%s-line%d", base, t.Line)
		t.History = base + ".json"
	}
	err := fuzz.WriteFile(t.History, func(out io.Writer) error { return linear.WriteJSON(out, h) })
	if err != nil || len(h.Ops) > timedMax {
		return t, err
	}
	t.Picture = base + ".html"
	return t, fuzz.WriteFile(t.Picture, func(out io.Writer) error {
		verdict, err := linear.Picture(out, h, searchLimit)
		t.Verdict = verdict.String()
		agrees(verdict, h)
		return err
	})
}

// agrees demands that porcupine and the check per address say the same.
func agrees(verdict linear.Verdict, h *history.History) {
	v := new(history.Checker).Check(h)
	if verdict != linear.Unknown && (v != nil) != (verdict == linear.NotLinearizable) {
		panic(fmt.Sprintf("allocfuzz: two checks of a history of %d operations disagree: %v and %v",
			len(h.Ops), v, verdict))
	}
}
