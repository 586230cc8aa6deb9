package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/detect"
	"allocfuzz/fuzz/engine"
	reports "allocfuzz/fuzz/report"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/impls/fault"
)

// reportFlags are the flags of report.
type reportFlags struct {
	pick    selection
	format  string
	out     string
	program string
	all     bool
	open    bool
	force   bool
}

// html is the name of the page among the forms.
const html = "html"

// reportForms are the names of the forms.
func reportForms() []string {
	names := []string{html}
	for _, v := range reports.Views() {
		names = append(names, v.Name)
	}
	return names
}

func (a *app) reportCommand() *cobra.Command {
	f := &reportFlags{}
	c := &cobra.Command{
		Use:   "report [FOLDER]",
		Short: "show what was found: a page to step through, or a form for other tools",
		Long: "Make a page of what a run, a night or a search left in its folder (--out there;\n" +
			"without FOLDER: the newest one in the user's cache): the findings, each with its\n" +
			"program beside the model and the run, stepped through point by point: the CPUs\n" +
			"with what interrupts them, the slabs with their objects and freelists, the words\n" +
			"that belong to CPUs. One file, no network. With --program it is the page of a\n" +
			"program on the subjects of --subject, to see an allocator work.\n\n" +
			"With --format the same for other tools, printed or written to -o:\n" + formsText(),
		Example: "  allocfuzz report --open\n" +
			"  allocfuzz report out -o report.html\n" +
			"  allocfuzz report --program corpus/seeds/aba-interrupt.prog " +
			"--subject slub-2008-cmpxchg,slub-2008-seq -o aba.html\n" +
			"  allocfuzz report out --format sarif -o findings.sarif",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a.begin(cmd)
			return a.report(args, f)
		},
	}
	f.pick.flags(c)
	n := c.Flags()
	n.StringVar(&f.format, "format", html, "form: "+strings.Join(reportForms(), ", "))
	n.StringVarP(&f.out, "output", "o", "", "file to write (default: report.html in the folder, "+
		"or in the working folder with --program; other forms are printed)")
	n.StringVar(&f.program, "program", "", "show this program instead of a run")
	n.BoolVar(&f.all, "all", false, "show findings that a committed program expects, too")
	n.BoolVar(&f.open, "open", false, "open the page in a browser")
	n.BoolVarP(&f.force, "force", "f", false, "replace a file that is no report")
	must(c.RegisterFlagCompletionFunc("format", cobra.FixedCompletions(reportForms(),
		cobra.ShellCompDirectiveNoFileComp)))
	return c
}

func formsText() string {
	b := &strings.Builder{}
	for _, v := range reports.Views() {
		fmt.Fprintf(b, "  %-9s %s\n", v.Name, v.About)
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// report makes what was asked for.
func (a *app) report(args []string, f *reportFlags) error {
	if !slices.Contains(reportForms(), f.format) {
		return fmt.Errorf("--format %q: expected one of %s", f.format,
			strings.Join(reportForms(), ", "))
	}
	if f.program != "" && (len(args) > 0 || f.format != html) {
		return errors.New("--program: expected neither a folder nor --format with it")
	}
	ctx, done := interruptible()
	defer done()
	projector := reports.NewProjector()
	defer projector.Close()
	page := &reports.Page{}
	if f.program != "" {
		items, err := a.programItems(ctx, projector, f)
		if err != nil {
			return err
		}
		page.Title, page.Items = "allocfuzz: "+filepath.Base(f.program), items
		return a.writePage(ctx, page, "report.html", f)
	}
	dir, err := reportFolder(args)
	if err != nil {
		return err
	}
	run, err := reports.Read(dir)
	if err != nil {
		return err
	}
	for _, p := range run.Problems {
		a.sayf("not read: %s", p)
	}
	if f.format != html {
		return a.writeView(run, f)
	}
	page.Title, page.Run, page.Problems = "allocfuzz "+run.Command, run, run.Problems
	page.Items = projector.Items(ctx, run, f.all)
	page.Misuse, err = misuseText(run)
	if err != nil {
		return err
	}
	return a.writePage(ctx, page, filepath.Join(dir, "report.html"), f)
}

// misuseText is the table of what the debug checks of the subjects of a run see, "" when none has
// any.
func misuseText(run *reports.Run) (string, error) {
	var subjects []*impls.Variant
	for i := range run.Subjects {
		v, ok := all.Lookup(run.Subjects[i].Name)
		if ok && v.Sound && v.Caps.Has(impls.CapDebug) && v.New != nil {
			subjects = append(subjects, v)
		}
	}
	if len(subjects) == 0 {
		return "", nil
	}
	tables, err := detect.Tables(subjects, nil)
	if err != nil {
		return "", err
	}
	b := &strings.Builder{}
	detect.Write(b, tables, false)
	return b.String(), nil
}

// programItems are the sections of a program to look at.
func (a *app) programItems(ctx context.Context, p *reports.Projector, f *reportFlags) (
	[]reports.Item, error) {
	program, err := a.program(f.program)
	if err != nil {
		return nil, err
	}
	subjects := engine.Owners(program)
	if f.pick.chosen() || len(subjects) == 0 {
		if subjects, err = f.pick.subjects(); err != nil {
			return nil, err
		}
		if !f.pick.chosen() {
			subjects = slices.DeleteFunc(slices.Clone(subjects), func(v *impls.Variant) bool {
				return !v.Simulated()
			})[:1]
		}
	}
	var items []reports.Item
	for _, v := range subjects {
		item := p.Item(ctx, program, v)
		if item.Name != v.Name {
			item.Commands = append(item.Commands, reports.Command{What: "replay",
				Text: "allocfuzz replay --subject " + v.Name + " " + fuzz.Argument(f.program)})
		}
		items = append(items, item)
	}
	return items, nil
}

// reportFolder is the folder that was named, or the newest in the user's cache.
func reportFolder(args []string) (string, error) {
	if len(args) > 0 {
		return args[0], nil
	}
	base, err := usualFolder("", "out")
	if err != nil {
		return "", err
	}
	newest, dir := int64(0), ""
	for _, pattern := range []string{"findings/*/", "nightly/nights/*/"} {
		names, err := filepath.Glob(filepath.Join(base, pattern, reports.SourceFile))
		if err != nil {
			return "", err
		}
		for _, name := range names {
			if info, err := os.Stat(name); err == nil && info.ModTime().UnixNano() > newest {
				newest, dir = info.ModTime().UnixNano(), filepath.Dir(name)
			}
		}
	}
	if dir == "" {
		return "", fmt.Errorf("no run with findings in %s: name the folder of one (--out of run, "+
			"nightly and explore)", base)
	}
	return dir, nil
}

// writeView prints or writes a form for other tools.
func (a *app) writeView(run *reports.Run, f *reportFlags) error {
	views := reports.Views()
	i := slices.IndexFunc(views, func(v reports.View) bool { return v.Name == f.format })
	if f.out == "" {
		if a.json {
			return nil
		}
		return views[i].Write(a.out, run)
	}
	if err := f.free(f.out); err != nil {
		return err
	}
	err := fuzz.WriteFile(f.out, func(w io.Writer) error { return views[i].Write(w, run) })
	if err != nil {
		return fileError(f.out, err)
	}
	a.doc.Out = f.out
	return nil
}

// free demands that a file is not there, or is one that report wrote, or may be replaced; what the
// command reads never is.
func (f *reportFlags) free(name string) error {
	info, err := os.Stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fileError(name, err)
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s: is no regular file: expected one, or a name that is free", name)
	}
	if f.program != "" {
		if in, err := os.Stat(f.program); err == nil && os.SameFile(in, info) {
			return fmt.Errorf("%s: is what the page is to be made of: expected another file", name)
		}
	}
	if f.force || info.Size() == 0 {
		return nil
	}
	file, err := os.Open(name)
	if err != nil {
		return fileError(name, err)
	}
	defer file.Close()
	head := make([]byte, 2048)
	n, _ := io.ReadFull(file, head) // a short file is no error here
	if reports.Wrote(head[:n]) {
		return nil
	}
	return fmt.Errorf("%s: is there already, and no report; --force replaces it", name)
}

// writePage writes the page, and opens it.
func (a *app) writePage(ctx context.Context, page *reports.Page, name string,
	f *reportFlags) error {
	if ctx.Err() != nil {
		a.interrupted()
		return nil
	}
	if f.out != "" {
		name = f.out
	}
	if err := f.free(name); err != nil {
		return err
	}
	if err := fuzz.WriteFile(name, page.HTML); err != nil {
		return fileError(name, err)
	}
	a.doc.Out = name
	plural := "s"
	if len(page.Items) == 1 {
		plural = ""
	}
	a.sayf("%s: %d section%s", name, len(page.Items), plural)
	if f.open {
		a.browse(name)
	}
	return nil
}

// browse opens a file in a browser; without one it says what to do.
func (a *app) browse(name string) {
	at, err := filepath.Abs(name)
	if err != nil {
		at = name
	}
	var cmd *exec.Cmd
	switch runtime.GOOS {
	case "darwin":
		cmd = exec.Command("open", at)
	case "windows":
		cmd = exec.Command("rundll32", "url.dll,FileProtocolHandler", at)
	default:
		cmd = exec.Command("xdg-open", at)
	}
	if err := cmd.Run(); err != nil {
		a.sayf("no browser could be opened (%v): open %s in one", err, at)
	}
}

// classOf is the class of checks that raise a title.
func classOf(title string) string {
	e, ok := fault.Lookup(fault.Title(title))
	if !ok {
		return ""
	}
	return e.Rule.String()
}

// writeSource writes what report reads to the folder of a run. That it cannot is told, and is no
// reason to call the run a failure.
func (a *app) writeSource(dir, started string, seconds float64) {
	run := &reports.Run{Schema: schema, Command: a.doc.Command, Started: started,
		Complete: a.doc.Complete, Seconds: seconds, Targets: a.targets, Samples: a.samples,
		Programs: a.shown, Findings: a.doc.Findings}
	for i := range a.doc.Subjects {
		s := &a.doc.Subjects[i]
		run.Subjects = append(run.Subjects, reports.Subject{Name: s.Name, Sound: s.Sound,
			Programs: uint64(s.Programs), Ops: uint64(s.Operations), Unsupported: s.Share})
	}
	if err := run.Write(dir); err != nil {
		a.sayf("no %s: %v", reports.SourceFile, err)
	}
}

// tellFound prints one bug: what it is called, its smallest program, and what to do with that.
func (a *app) tellFound(f *engine.Finding) {
	fmt.Fprintf(a.out, "FOUND %s\n", f.Identity)
	if len(f.Also) > 0 {
		fmt.Fprintf(a.out, "  also     %s\n", strings.Join(f.Also, "; "))
	}
	if f.Count > 1 {
		fmt.Fprintf(a.out, "  met      %d times\n", f.Count)
	}
	fmt.Fprintf(a.out, "  file     %s\n", f.File)
	if f.Command != "" {
		fmt.Fprintf(a.out, "  replay   %s\n", f.Command)
	}
}

// tellHandOn prints the files that can be handed on.
func (a *app) tellHandOn(files []string) {
	for _, name := range files {
		fmt.Fprintf(a.out, "  hand on  %s\n", name)
	}
}

// subjectFlag is the flag that names a subject, with a blank in front; "" for none.
func subjectFlag(name string) string {
	if name == "" {
		return ""
	}
	return " --subject " + name
}

// markOf is what a program came to on a subject, for a report; "" when it was silent.
func (s *session) markOf(r *engine.Replay) string {
	switch {
	case r.Err != nil:
		return "error"
	case r.Verdict.Left != "":
		return "left out: " + r.Verdict.Left
	case len(r.Findings) == 0:
		return ""
	}
	f := r.Findings[len(r.Findings)-1]
	if engine.Mark(s.known, &f); f.Known {
		return "known: " + f.Title
	}
	return "found: " + f.Title
}
