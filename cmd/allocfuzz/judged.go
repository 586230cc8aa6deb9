package main

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/oracle"
)

// A batch is what a replay of several files has in common.
type batch struct {
	replayer *engine.Replayer
	subjects []*impls.Variant
	tally    engine.Tally
	boot     fuzz.Boot // for programs that give no such parameters
	history  string    // folder, "" for none
	reports  bool
	verbose  bool
	repair   bool
}

// replayFile replays one file on every subject and tells what came of it. When ctx
// ends before, that is an error and the subjects that are left are not told of.
func (a *app) replayFile(ctx context.Context, name string, b *batch) error {
	p, dropped, err := a.usable(name, b.repair)
	if err != nil {
		return err
	}
	b.boot.Apply(p)
	a.adviseNames(p)
	list, err := b.replayer.Program(ctx, p, b.subjects)
	if err != nil && ctx.Err() == nil {
		return err
	}
	c, err := oracle.Compile(p)
	if err != nil {
		return err
	}
	f := file{File: filepath.ToSlash(p.File), Subjects: []replay{}, Dropped: dropped}
	for i := range list {
		r := &list[i]
		b.tally.Add(r.Verdict.Subject.Name, r.Counts())
		if len(r.Findings) > 0 {
			a.found()
			a.doc.Findings = append(a.doc.Findings, r.Findings...)
		}
		if r.Err != nil {
			a.fail(r.Err)
		}
		f.Subjects = append(f.Subjects, replayOf(r, c))
	}
	if b.verbose && err == nil {
		err = a.walkFile(ctx, p, b, &f)
	}
	if b.history != "" && err == nil {
		err = a.timeFile(ctx, p, b, &f)
	}
	a.doc.Files = append(a.doc.Files, f)
	if !a.json {
		a.tellFile(p, b, list)
		a.tellSkips(c, list)
		if b.reports {
			a.tellReports(c, list)
		}
	}
	return err
}

// The outcomes of a replay.
const (
	silent  = "silent"
	found   = "found"
	leftOut = "left out"
	failed  = "error"
)

// replayOf is the JSON form of a replay.
func replayOf(r *engine.Replay, c *oracle.Compiled) replay {
	v := r.Verdict
	out := replay{Subject: v.Subject.Name, Outcome: silent, Counts: r.Counts(),
		Repaired: v.Repaired, Departed: v.Departed, Reports: []report{}, Skips: []skip{},
		Points:  v.Steps,
		LeftOut: v.Left, Trace: fmt.Sprintf("%016x", v.Hash)}
	for _, d := range v.Reports {
		out.Reports = append(out.Reports, report{c.Named(d.Where.Line),
			fileLine(c, d.Where.Line), d})
	}
	for _, k := range v.Skips {
		out.Skips = append(out.Skips, skip{c.Named(k.Line), fileLine(c, k.Line), k.Why})
	}
	switch {
	case r.Err != nil:
		out.Outcome = failed
	case v.Left != "":
		out.Outcome, out.Trace = leftOut, ""
	case len(r.Findings) > 0:
		out.Outcome, out.Title = found, r.Findings[0].Title
		out.Known = r.Findings[0].Known
	}
	return out
}

// fileLine is the line in the file of operation n, 0 when the program was over.
func fileLine(c *oracle.Compiled, n int) int {
	if n < 0 || n >= len(c.Lines) || c.Lines[n].Src == nil {
		return 0
	}
	return c.Lines[n].Src.Pos.Line
}

// walkMax bounds the operations of a program whose points are listed: a longer list
// nobody reads, and it does not fit the memory.
const walkMax = 100_000

// walkFile lists the points of every run of a file.
func (a *app) walkFile(ctx context.Context, p *prog.Program, b *batch, f *file) error {
	c, err := oracle.Compile(p)
	if err != nil {
		return err
	}
	if n := c.Operations(); n > walkMax {
		return fmt.Errorf("%s: -v: %d operations; expected at most %d to list the points of; "+
			"shorten the program or leave -v out", p.File, n, walkMax)
	}
	for i, v := range b.subjects {
		if f.Subjects[i].Outcome == leftOut {
			continue
		}
		for _, s := range oracle.Blocks(p, v) {
			w, err := (&walked{c, v, s}).walk(ctx, b.replayer)
			if err != nil {
				return err
			}
			f.Subjects[i].Walks = append(f.Subjects[i].Walks, w.points)
			f.Subjects[i].Unmet = append(f.Subjects[i].Unmet, w.unmet)
			if !a.json {
				a.printWalk(v, s, &w)
			}
		}
	}
	return nil
}

// tellFile prints a file's table and the reports of what was found in it.
func (a *app) tellFile(p *prog.Program, b *batch, list []engine.Replay) {
	fmt.Fprintf(a.out, "%s\n", p.File)
	t := a.newTable("subject", "outcome", "operations", "unsupported", "skipped", "repaired",
		"reports")
	t.SetColumnConfigs(numbers("operations", "unsupported", "skipped", "repaired", "reports"))
	for i := range list {
		t.AppendRow(replayRow(&list[i]))
	}
	t.Render()
	a.adviseOwners(p, b)
	for i := range list {
		if rep := list[i].Report; rep != nil {
			fmt.Fprintln(a.out)
			_ = rep.Text(a.out) // a failure to write stays and is told at the end
		}
	}
	fmt.Fprintln(a.out)
	_ = a.out.Flush()
}

// numbers aligns columns to the right.
func numbers(columns ...string) []table.ColumnConfig {
	var out []table.ColumnConfig
	for _, c := range columns {
		out = append(out, table.ColumnConfig{Name: c, Align: text.AlignRight,
			AlignHeader: text.AlignRight})
	}
	return out
}

// replayRow is one subject's row in the table of a file.
func replayRow(r *engine.Replay) table.Row {
	v := r.Verdict
	switch {
	case r.Err != nil:
		return table.Row{v.Subject.Name, "error: see above", "", "", "", "", ""}
	case v.Left != "":
		return table.Row{v.Subject.Name, "left out: " + v.Left, "", "", "", "", ""}
	}
	outcome := silent
	if len(r.Findings) > 0 {
		outcome = r.Findings[0].Title
		if r.Findings[0].Known {
			outcome += " (expected)"
		}
		if v.Missing() {
			outcome += ": " + v.Expected
		}
	}
	c := r.Counts()
	return table.Row{v.Subject.Name, outcome, c.Operations, share(&c), c.Skipped,
		repaired(v), len(v.Reports)}
}

// repaired says how many departures did not apply, of how many.
func repaired(v *oracle.Verdict) string {
	if v.Departed == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d", v.Repaired, v.Departed)
}

// skipsMax bounds the skipped misuse that is told of a subject.
const skipsMax = 4

// tellSkips says which misuse was not carried out, and why: a program that misuses nothing
// proves nothing about it.
func (a *app) tellSkips(c *oracle.Compiled, list []engine.Replay) {
	for i := range list {
		v := list[i].Verdict
		for n, k := range v.Skips {
			if n == skipsMax {
				a.sayf("%s: %d more were skipped", v.Subject.Name, len(v.Skips)-n)
				break
			}
			a.sayf("%s: skipped: %s: %s", v.Subject.Name, c.Named(k.Line), k.Why)
		}
	}
}

// tellReports prints the reports that each subject's debug checks made, as the kernel
// does.
func (a *app) tellReports(c *oracle.Compiled, list []engine.Replay) {
	for i := range list {
		v := list[i].Verdict
		for _, d := range v.Reports {
			fmt.Fprintf(a.out, "%s, %s\n", v.Subject.Name, c.Named(d.Where.Line))
			_ = d.Print(a.out, c.Named) // a failure to write stays and is told at the end
			fmt.Fprintln(a.out)
		}
	}
	_ = a.out.Flush()
}

// share is the part of the operations that was not supported.
func share(c *engine.Counts) string { return fmt.Sprintf("%.1f %%", 100*c.Share()) }

// adviseOwners says which subjects a program has a block for that did not run.
func (a *app) adviseOwners(p *prog.Program, b *batch) {
	for _, v := range engine.Owners(p) {
		ran := false
		for _, s := range b.subjects {
			ran = ran || s == v
		}
		if !ran {
			a.sayf("%s: its schedule for %s was not run there: add --subject %[2]s", p.File, v.Name)
		}
	}
}

// summary prints what every subject did over all files.
func (a *app) summary(subjects []*impls.Variant, tally engine.Tally) {
	t := a.newTable("subject", "programs", "operations", "unsupported", "skipped", "refused")
	t.SetColumnConfigs(numbers("programs", "operations", "unsupported", "skipped", "refused"))
	for _, v := range subjects {
		c := tally[v.Name]
		t.AppendRow(table.Row{v.Name, c.Programs, c.Operations, share(c), c.Skipped,
			c.Refused})
	}
	t.Render()
}
