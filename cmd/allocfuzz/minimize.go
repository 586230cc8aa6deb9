package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// minimizeFlags are the flags of minimize.
type minimizeFlags struct {
	pick     selection
	boot     bootFlags
	checks   string
	identity string
	title    string
	out      string
	write    bool
	most     time.Duration
	limit    time.Duration
	verbose  bool
}

func (a *app) minimizeCommand() *cobra.Command {
	var f minimizeFlags
	c := &cobra.Command{
		Use:   "minimize [-o FILE | -w] FILE…",
		Short: "make a program small that shows a finding",
		Long: "Take away what a program does not need to show its finding, and keep the\n" +
			"finding's identity: subject, title and kind of operation. What is left shows it\n" +
			"strictly replayed, and does not without any one of its lines or departures. It is\n" +
			"printed, or written to a file whole.\n\n" +
			"Without --subject it is minimised for the first that shows something: of the\n" +
			"subjects that the program has schedules for, or of the sound ones. An allocator\n" +
			"from outside is first tried in a process of its own: where it ends that process,\n" +
			"or is not done within --limit, every try is one.\n\n" +
			"The exit status is 1 when there is a finding, minimised or not, and 0 when\n" +
			"nothing was found. Ctrl-C keeps the smallest program so far.",
		Example: "  allocfuzz minimize new.prog\n" +
			"  allocfuzz minimize --subject slub-2008-cmpxchg -o small.prog new.prog\n" +
			"  allocfuzz minimize -w corpus/regress/slub-2008-cmpxchg-aba.prog\n" +
			"  allocfuzz minimize --title 'slab lost' --for 10s new.prog",
		Args:              needFiles,
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, files []string) error {
			a.begin(cmd)
			return a.minimize(files, &f)
		},
	}
	f.pick.flags(c)
	f.boot.flags(c)
	fl := c.Flags()
	fl.StringVar(&f.checks, "checks", "", "rules to switch off or the only ones to apply, as "+
		"for replay")
	fl.StringVar(&f.identity, "identity", "", "the finding to keep, as a report names it")
	fl.StringVar(&f.title, "title", "", "title of the finding to keep, its own or another of its "+
		"run")
	fl.StringVarP(&f.out, "output", "o", "", "write the program to this file")
	fl.BoolVarP(&f.write, "write", "w", false, "write the program back to its file")
	fl.DurationVar(&f.most, "for", time.Minute, "the most time for a file")
	fl.DurationVar(&f.limit, "limit", 10*time.Second,
		"time for one run in a process of its own, until it counts as hung")
	fl.BoolVarP(&f.verbose, "verbose", "v", false, "tell what every pass came to")
	must(c.RegisterFlagCompletionFunc("checks", completeList(checkWords)))
	return c
}

// A minimizing is one use of the command.
type minimizing struct {
	*app
	f        *minimizeFlags
	replayer *engine.Replayer
	boot     fuzz.Boot
	given    []*impls.Variant // by name, none for those of the file
}

// minimize minimises files, one after the other.
func (a *app) minimize(files []string, f *minimizeFlags) error {
	x := &minimizing{app: a, f: f}
	if err := x.check(files); err != nil {
		return err
	}
	checks, err := parseChecks(f.checks)
	if err != nil {
		return err
	}
	if x.boot, err = f.boot.parse(); err != nil {
		return err
	}
	if f.pick.chosen() || f.pick.unsound {
		if x.given, err = f.pick.subjects(); err != nil {
			return err
		}
	}
	x.replayer = engine.NewReplayer(oracle.Options{Checks: checks})
	defer x.replayer.Close()
	if f.checks != "" {
		x.replayer.Flags = " --checks=" + f.checks
	}
	ctx, done := interruptible()
	defer done()
	a.in = untilDone(ctx, a.in)
	for _, name := range files {
		if ctx.Err() != nil {
			break
		}
		if err := x.file(ctx, name); err != nil && ctx.Err() == nil {
			a.fail(err)
		}
	}
	if ctx.Err() != nil {
		a.interrupted()
	}
	return nil
}

// check refuses flags that do not go together.
func (x *minimizing) check(files []string) error {
	f := x.f
	switch {
	case f.write && f.out != "":
		return errors.New("-w and -o exclude each other: give one of them")
	case f.out != "" && len(files) > 1:
		return fmt.Errorf("-o %s: %d files; expected one, or -w", f.out, len(files))
	case f.identity != "" && f.title != "":
		return errors.New("--identity and --title exclude each other: give one of them")
	case f.most <= 0:
		return fmt.Errorf("--for %v: expected more than 0, as in --for 60s", f.most)
	case f.limit <= 0:
		return fmt.Errorf("--limit %v: expected more than 0, as in --limit 10s", f.limit)
	}
	for _, name := range files {
		if f.write && name == "-" {
			return errors.New("minimize -w: standard input cannot be written back; leave -w out")
		}
	}
	return nil
}

// file minimises one file.
func (x *minimizing) file(ctx context.Context, name string) error {
	p, err := x.program(name)
	if err != nil {
		return err
	}
	x.boot.Apply(p)
	x.adviseNames(p)
	bug, opt, err := x.bug(ctx, p)
	if err != nil || bug == nil {
		return err
	}
	x.found()
	if x.f.verbose {
		from := time.Now()
		opt.Progress = func(g minimise.Progress) {
			x.sayf("%v: %s: %d lines, %d departures, %d tries", time.Since(from).Round(
				time.Millisecond), g.Pass, g.Size.Lines, g.Size.Departures, g.Tries)
		}
	}
	limited, cancel := context.WithTimeout(ctx, x.f.most)
	defer cancel()
	res, err := minimise.Program(limited, p, *bug, opt)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return fmt.Errorf("%s: %s: --for %v was over before the program was run: give it more time",
			p.File, bug.Identity, x.f.most)
	}
	if err != nil {
		return err
	}
	return x.keep(name, p, bug, res)
}

// bug finds what a program shows: nil, told, when that is nothing.
func (x *minimizing) bug(ctx context.Context, p *prog.Program) (*minimise.Bug, minimise.Options,
	error) {
	opt := minimise.Options{Run: x.replayer.Options}
	owners := engine.Owners(p)
	tries := [][]*impls.Variant{x.given}
	if len(x.given) == 0 {
		tries = [][]*impls.Variant{owners, unique(append(fuzz.Sound(), owners...))}
	}
	for _, subjects := range tries {
		if len(subjects) == 0 {
			continue
		}
		child, death, err := x.deadly(ctx, p, outside(subjects))
		if err != nil {
			return nil, opt, err
		}
		if death != nil {
			v := child.v
			opt.Probe = child.Probe
			return &minimise.Bug{Subject: v, Identity: death.Identity()}, opt, nil
		}
		bug, err := x.shown(ctx, p, subjects)
		if bug != nil && !bug.Subject.Simulated() {
			opt.Limit = x.f.limit
		}
		if bug != nil || err != nil {
			return bug, opt, err
		}
	}
	what := "nothing was found"
	if x.f.identity+x.f.title != "" {
		what = fmt.Sprintf("%q was not found", x.f.identity+x.f.title)
	}
	x.sayf("%s: %s: there is nothing to minimise", p.File, what)
	return nil, opt, nil
}

// wants says whether a finding is the one that was asked for.
func (x *minimizing) wants(f *oracle.Finding) bool {
	return (x.f.identity == "" || f.Identity() == x.f.identity) &&
		(x.f.title == "" || f.Matches(x.f.title))
}

// replaysMax is how often a program is replayed on allocators from outside, which may not do the
// same each time.
const replaysMax = 8

// shown is the first finding of a program that was asked for, nil when it shows none.
func (x *minimizing) shown(ctx context.Context, p *prog.Program, subjects []*impls.Variant) (
	*minimise.Bug, error) {
	tries := 1
	if len(outside(subjects)) > 0 {
		tries = replaysMax
	}
	var bad error
	for range tries {
		list, err := x.replayer.Program(ctx, p, subjects)
		if err != nil {
			return nil, err
		}
		for i := range list {
			r := &list[i]
			if r.Err != nil {
				bad = r.Err
			} else if f := r.Verdict.Finding; f != nil && x.wants(f) {
				return &minimise.Bug{Subject: r.Verdict.Subject, Reference: r.Against,
					Identity: f.Identity()}, nil
			}
		}
	}
	return nil, bad
}

// outside are the subjects that are not on the simulated machine, where every run ends.
func outside(subjects []*impls.Variant) []*impls.Variant {
	var out []*impls.Variant
	for _, v := range subjects {
		if !v.Simulated() && v.New != nil {
			out = append(out, v)
		}
	}
	return out
}

// memoryMax bounds the memory of a child, in bytes.
const memoryMax = 4 << 30

// A probe is a child with the subject that it runs.
type probe struct {
	minimise.Child
	v *impls.Variant
}

// deadly runs a program in processes of its own, first on all subjects together and then on each,
// and returns the first that dies of it. It is nil when none does.
func (x *minimizing) deadly(ctx context.Context, p *prog.Program, subjects []*impls.Variant) (
	*probe, *oracle.Finding, error) {
	if len(subjects) == 0 {
		return nil, nil, nil
	}
	all, err := x.child(subjects)
	if err != nil {
		return nil, nil, err
	}
	death, err := all.Probe(ctx, p)
	if death == nil || err != nil {
		return nil, nil, err
	}
	for i := range subjects {
		one, err := x.child(subjects[i : i+1])
		if err != nil {
			return nil, nil, err
		}
		found, err := one.Probe(ctx, p)
		if err != nil || found != nil && x.wants(found) {
			return one, found, err
		}
		if found != nil {
			death = found
		}
	}
	// It must not be run here.
	return nil, nil, fmt.Errorf("%s: it shows %q, not what was asked for: ask for that, or leave "+
		"its subject out", p.File, death.Identity())
}

// child is this command, replaying what it reads on some subjects.
func (x *minimizing) child(subjects []*impls.Variant) (*probe, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{os.Args[0], "replay", "--json", "--repair", "--subject",
		strings.Join(fuzz.Names(subjects), ",")}
	if x.f.checks != "" {
		args = append(args, "--checks="+x.f.checks)
	}
	return &probe{v: subjects[0], Child: minimise.Child{Path: self, Args: append(args, "-"),
		Subject: subjects[0].Name, Limit: x.f.limit, Memory: memoryMax}}, nil
}

// ofSubject says whose schedule a block is.
func ofSubject(s *prog.Sched) string {
	if s.Subject == "" {
		return ""
	}
	return " for " + s.Subject
}

// keep tells what became of a program and writes it down.
func (x *minimizing) keep(name string, p *prog.Program, bug *minimise.Bug,
	res *minimise.Result) error {
	out := x.f.out
	if x.f.write {
		out = name
	}
	lost := minimise.Others(p, res, x.replayer.Options)
	for _, s := range lost {
		if s.Bug == "" {
			x.sayf("%s: its schedule%s expects nothing, and is left out", p.File, ofSubject(s))
			continue
		}
		x.sayf("%s: its schedule%s does not show %q in what is left, and is left out", p.File,
			ofSubject(s), s.Bug)
	}
	block := oracle.Block(p, bug.Subject)
	switch {
	case !x.f.write:
	case len(lost) > 0:
		return fmt.Errorf("%s: -w would lose schedules; expected a program with one: use -o",
			p.File)
	case block != nil && block.Bug != "" && !res.Report.Finding.Matches(block.Bug):
		return fmt.Errorf("%s: -w would make a file that expects %q one of %q: change what it "+
			"expects first, or use -o", p.File, block.Bug, res.Report.Finding.Title)
	}
	text := prog.Format(res.Program)
	if out != "" && !res.Flaky {
		if err := fuzz.WriteBytes(out, text); err != nil {
			return fileError(out, err)
		}
	}
	d := x.describe(p, bug, res, out)
	x.doc.Minimised = append(x.doc.Minimised, d)
	f := engine.NewFinding(res.Report.Finding, filepath.ToSlash(p.File), d.Command)
	if f.Place = ""; out != "" {
		f.File = filepath.ToSlash(out)
	}
	x.doc.Findings = append(x.doc.Findings, f)
	x.doc.Complete = x.doc.Complete && (res.Minimal || res.Flaky)
	if res.Flaky {
		x.sayf("%s: flaky: %q showed in %d of %d runs: it cannot be minimised, and is left as "+
			"it is", p.File, d.Identity, res.Shown, res.Runs)
		return nil
	}
	if !x.json && out == "" {
		x.app.out.Write(text)
	}
	x.tell(p, res, &d, out)
	return nil
}

// tell says on standard error what was done.
func (x *minimizing) tell(p *prog.Program, res *minimise.Result, d *minimised, out string) {
	x.sayf("%s: %s\n  %s\n  %d tries, %d more were known, %v", p.File, d.Identity, d.Removed,
		res.Tries, res.Cached, res.Took.Round(time.Millisecond))
	if !res.Minimal {
		x.sayf("  not minimal: it was ended; give it more time with --for")
	}
	if res.Hung > 0 {
		x.sayf("  %d tries hung and were refused; --limit says when", res.Hung)
	}
	if res.Faulty > 0 {
		x.sayf("  %d tries met a fault of allocfuzz itself, please report it: %s", res.Faulty,
			res.Fault)
	}
	where := ""
	if out == "" {
		where = ", saved as small.prog"
	}
	x.sayf("  to see it again%s: %s", where, d.Command)
}

// describe is the JSON form of a result.
func (x *minimizing) describe(p *prog.Program, bug *minimise.Bug, res *minimise.Result,
	out string) minimised {
	subjects := strings.Join(fuzz.Names(bug.Subjects()), ",")
	file := out
	if file == "" || res.Flaky {
		file = "small.prog"
	}
	return minimised{File: filepath.ToSlash(p.File), Subject: bug.Subject.Name,
		Identity: res.Report.Finding.Identity(), Output: filepath.ToSlash(out),
		Program: string(prog.Format(res.Program)), Removed: res.Removed(),
		Before: sizeOf(res.Before), After: sizeOf(res.After), Tries: res.Tries,
		Cached: res.Cached, Faulty: res.Faulty, Seconds: res.Took.Seconds(),
		Minimal: res.Minimal, Flaky: res.Flaky, Shown: res.Shown, Runs: res.Runs,
		Command: "allocfuzz replay --subject " + subjects + x.replayer.Flags + " " +
			fuzz.Argument(file)}
}

func sizeOf(s minimise.Size) programSize { return programSize{s.Lines, s.Departures, s.Contexts} }
