package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/regress"
	"allocfuzz/fuzz/store"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// A corpusDoc is what the corpus commands say.
type corpusDoc struct {
	Checks   []regress.Check `json:"checks,omitempty"`   // verify
	Programs []programDoc    `json:"programs,omitempty"` // ls
	Working  []workingDoc    `json:"working,omitempty"`  // ls and those that change it
	Added    []string        `json:"added,omitempty"`    // files that were written
	Skipped  []store.Problem `json:"skipped,omitempty"`  // files that were left alone
}

// A programDoc is one committed program.
type programDoc struct {
	File       string   `json:"file"`
	Subjects   []string `json:"subjects"` // that its blocks name
	Title      string   `json:"title"`
	Class      string   `json:"class"`
	Found      string   `json:"found"`
	Date       string   `json:"date"`
	Operations int      `json:"operations"`
	Departures int      `json:"departures"`
}

// A workingDoc is what a working corpus has of a target, and what became of it.
type workingDoc struct {
	Target string `json:"target"`
	Inputs int    `json:"inputs"`
	Bytes  int64  `json:"bytes"`
	Added  int    `json:"added"`
	Gone   int    `json:"gone"`
}

// corpusFlags are the flags that the corpus commands share.
type corpusFlags struct{ store string }

func (f *corpusFlags) flags(c *cobra.Command) {
	c.Flags().StringVar(&f.store, "corpus", "",
		"folder of the working corpus (default: one in the user's cache)")
}

// workingFolder is the folder of the working corpus where none is named.
func workingFolder() (string, error) { return usualFolder("corpus", "corpus") }

// open opens the working corpus. A folder that was named is made when something is to be added to
// it only: otherwise it is mistyped.
func (f *corpusFlags) open(adds bool) (*store.Store, error) {
	dir := f.store
	if dir == "" {
		var err error
		if dir, err = workingFolder(); err != nil {
			return nil, err
		}
	} else if _, err := os.Stat(dir); err != nil && !adds {
		return nil, fmt.Errorf("--corpus %w", fileError(dir, err))
	}
	s, err := store.Open(dir)
	if err != nil {
		return nil, fileError(dir, err)
	}
	return s, nil
}

func (a *app) corpusCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "corpus",
		Short: "regressions and the working corpus: add, ls, verify, merge, thin, export, import",
		Long: "Two corpora are kept. Regressions are programs in corpus/regress, one file a\n" +
			"bug, which are committed and which every fuzz target starts from. The working\n" +
			"corpus is the inputs that fuzzing found worth keeping: raw bytes outside the\n" +
			"repository, a folder a target, each file named by the hash of its contents.",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return fmt.Errorf("unknown command %q for %q; see %[2]s --help", args[0],
					cmd.CommandPath())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(a.corpusAdd(), a.corpusLs(), a.corpusVerify(), a.corpusMerge(), a.corpusThin(),
		a.corpusExport(), a.corpusImport())
	return c
}

// addFlags are the flags of corpus add.
type addFlags struct {
	pick  selection
	found string
	date  string
	dir   string
}

func (a *app) corpusAdd() *cobra.Command {
	var f addFlags
	c := &cobra.Command{
		Use:   "add FILE…",
		Short: "make regressions of programs that show a bug",
		Long: "Replay programs and write what the first subject shows to corpus/regress of the\n" +
			"checkout: the program with a head that says what it is and a block that expects\n" +
			"it. A program that shows nothing, or nothing that is not known already, is\n" +
			"refused. Minimise it first: a regression is read by people.",
		Example: "  allocfuzz minimize -o small.prog finding.prog\n" +
			"  allocfuzz corpus add --found 'a night of FuzzSMP' small.prog",
		Args:              needFiles,
		ValidArgsFunction: completePrograms,
		RunE: func(cmd *cobra.Command, files []string) error {
			a.begin(cmd)
			return a.addPrograms(files, &f)
		},
	}
	f.pick.flags(c)
	c.Flags().StringVar(&f.found, "found", "added by hand", "how it was found, in a line")
	c.Flags().StringVar(&f.date, "date", "", "when, as 2006-01-02 (default: today)")
	c.Flags().StringVar(&f.dir, "dir", "",
		"folder to write to (default: "+regress.Folder+" of the checkout)")
	return c
}

// longProgram is the number of operations from which a program is too long to read.
const longProgram = 30

// addPrograms makes regressions of files.
func (a *app) addPrograms(files []string, f *addFlags) error {
	subjects, err := f.pick.subjects()
	if err != nil {
		return err
	}
	if f.date == "" {
		f.date = time.Now().Format(time.DateOnly)
	} else if _, err := time.Parse(time.DateOnly, f.date); err != nil {
		return fmt.Errorf("--date %q: expected a date as 2006-01-02", f.date)
	}
	root, rootErr := engine.FindRoot(".")
	if f.dir == "" {
		if rootErr != nil {
			return fmt.Errorf("%w; or give --dir", rootErr)
		}
		f.dir = filepath.Join(root, regress.Folder)
	}
	ctx, done := interruptible()
	defer done()
	a.in = untilDone(ctx, a.in)
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	a.doc.Corpus = &corpusDoc{}
	for _, name := range files {
		known, err := engine.Expected(root) // what was added just now counts
		if err != nil {
			a.sayf("not read, and what it expects is not known: %v", err)
		}
		p, err := a.program(name)
		if ctx.Err() != nil {
			a.interrupted()
			return nil
		}
		if err != nil {
			a.fail(err)
			continue
		}
		take := subjects
		if !f.pick.chosen() {
			take = unique(append(engine.Owners(p), subjects...))
		}
		list, err := r.Program(ctx, p, take)
		if ctx.Err() != nil {
			a.interrupted()
			return nil
		}
		if err == nil {
			err = a.addProgram(list, p, known, f)
		}
		if err != nil {
			a.fail(err)
		}
	}
	return nil
}

// addProgram makes a regression of what a program shows first.
func (a *app) addProgram(list []engine.Replay, p *prog.Program, known *fuzz.Known,
	f *addFlags) error {
	var last error
	for i := range list {
		v := list[i].Verdict
		if list[i].Err != nil {
			last = list[i].Err
			continue
		}
		if v.Finding == nil {
			continue
		}
		finding := engine.NewFinding(v.Finding, p.File, "")
		if first, ok := known.Finding(v.Finding); ok {
			last = fmt.Errorf("%s: %s: the bug is known already: a committed program expects %q "+
				"of %s", p.File, finding.Identity, first, v.Subject.Name)
			continue
		}
		shown := list[i].Report.Program
		if n := operations(shown); n > longProgram {
			a.sayf("%s: %d operations are many to read: allocfuzz minimize makes it small",
				p.File, n)
		}
		made, err := regress.Make(shown, &finding, regress.Meta{Found: f.found, Date: f.date})
		if err != nil {
			return fmt.Errorf("%s: %w", p.File, err)
		}
		file, err := regress.Write(f.dir, made, &finding)
		if err != nil {
			return fileError(f.dir, err)
		}
		a.doc.Corpus.Added = append(a.doc.Corpus.Added, file)
		a.doc.Findings = append(a.doc.Findings, finding)
		a.sayf("%s: %s", file, finding.Identity)
		return nil
	}
	if last != nil {
		return last
	}
	return fmt.Errorf("%s: shows nothing on the %d subjects that ran: expected a program that "+
		"shows a bug; name its subject with --subject", p.File, len(list))
}

func (a *app) corpusVerify() *cobra.Command {
	c := &cobra.Command{
		Use:   "verify [FILE|FOLDER…]",
		Short: "replay committed programs and say what no longer holds",
		Long: "Replay programs on the sound subjects and on those of which they expect a bug,\n" +
			"and tell which no longer reproduce, show another title, have a schedule that does\n" +
			"not apply any more, or cannot be used; and where a sound subject is not silent.\n" +
			"Without arguments it is the corpus of the checkout, or outside one that which was\n" +
			"built in.\n\n" +
			"The exit status is 0 when everything holds, 1 when something does not, and 2 when\n" +
			"a file cannot be used.",
		Example: "  allocfuzz corpus verify --json\n" +
			"  allocfuzz corpus verify corpus/regress/slub-2008-cmpxchg-aba.prog",
		RunE: func(cmd *cobra.Command, paths []string) error {
			a.begin(cmd)
			return a.verify(paths)
		},
	}
	return c
}

// committedFiles are the programs to verify: those of paths, of the checkout, or those that were
// built in.
func committedFiles(paths []string) ([]corpus.File, error) {
	names, err := regress.Files(paths)
	if root, noRoot := engine.FindRoot("."); len(paths) == 0 && noRoot == nil {
		names, err = regress.Committed(root)
	}
	if err == nil && len(names) == 0 {
		return slices.Collect(corpus.All()), nil
	}
	var files []corpus.File
	if err == nil {
		files, err = regress.Read(names)
	}
	var at *fs.PathError
	if errors.As(err, &at) {
		err = fileError(at.Path, err)
	}
	return files, err
}

// verify replays committed programs.
func (a *app) verify(paths []string) error {
	files, err := committedFiles(paths)
	if err != nil {
		return err
	}
	ctx, done := interruptible()
	defer done()
	root, _ := engine.FindRoot(".")
	known, _ := engine.Expected(root) // a file that is wrong is told below
	checks, err := regress.VerifyAll(ctx, known, files)
	if err != nil {
		a.interrupted()
	}
	a.doc.Corpus = &corpusDoc{Checks: checks}
	counts := map[regress.State]int{}
	for i := range checks {
		c := &checks[i]
		counts[c.State]++
		switch {
		case c.Err != nil:
			a.fail(errors.New(c.Why))
		case c.Broken():
			a.found()
			a.doc.Findings = append(a.doc.Findings, engine.Finding{Title: c.Title,
				Also: []string{}, Subject: c.Subject, Identity: c.Identity, File: c.File})
			a.sayf("%s", c)
		case !c.OK():
			a.sayf("%s", c)
		}
	}
	if a.json {
		return nil
	}
	fmt.Fprintf(a.out, "%d programs, %d checks", len(files), len(checks))
	for _, s := range regress.States() {
		if counts[s] > 0 {
			fmt.Fprintf(a.out, ", %d %s", counts[s], s)
		}
	}
	fmt.Fprintln(a.out)
	return nil
}

func (a *app) corpusLs() *cobra.Command {
	var f corpusFlags
	c := &cobra.Command{
		Use:     "ls [FILE|FOLDER…]",
		Short:   "list the regressions and the working corpus",
		Example: "  allocfuzz corpus ls\n  allocfuzz corpus ls corpus/seeds --json",
		RunE: func(cmd *cobra.Command, paths []string) error {
			a.begin(cmd)
			return a.listCorpora(paths, &f)
		},
	}
	f.flags(c)
	return c
}

// listCorpora lists both corpora; with paths only the programs there.
func (a *app) listCorpora(paths []string, f *corpusFlags) error {
	all := len(paths) == 0
	if root, err := engine.FindRoot("."); all && err == nil {
		paths = []string{filepath.Join(root, regress.Folder)}
	}
	files, err := committedFiles(paths)
	if err != nil {
		return err
	}
	a.doc.Corpus = &corpusDoc{Programs: []programDoc{}}
	for _, file := range files {
		p, err := file.Program()
		if err != nil {
			a.fail(err)
			continue
		}
		a.doc.Corpus.Programs = append(a.doc.Corpus.Programs, programOf(file.Name, p))
	}
	if all {
		s, err := f.open(false)
		if err == nil {
			err = a.listWorking(s, nil)
		}
		if err != nil {
			return err
		}
	}
	if !a.json {
		a.programTable(a.doc.Corpus.Programs)
		a.workingTable()
	}
	return nil
}

// listWorking notes what a store has; changes tells what became of a target, nil for nothing.
func (a *app) listWorking(s *store.Store, changes map[string]workingDoc) error {
	targets, err := s.Targets()
	if err != nil {
		return err
	}
	for _, t := range targets {
		list, bad, err := s.Inputs(t)
		if err != nil {
			return err
		}
		if changes == nil {
			a.skipped(bad)
		}
		d := workingDoc{Target: t, Inputs: len(list), Added: changes[t].Added,
			Gone: changes[t].Gone}
		for _, in := range list {
			d.Bytes += int64(len(in.Data))
		}
		a.doc.Corpus.Working = append(a.doc.Corpus.Working, d)
	}
	return nil
}

func (a *app) workingTable() {
	if len(a.doc.Corpus.Working) == 0 {
		return
	}
	t := a.newTable("target", "inputs", "bytes", "added", "gone")
	t.SetColumnConfigs(numbers("inputs", "bytes", "added", "gone"))
	for _, d := range a.doc.Corpus.Working {
		t.AppendRow(table.Row{d.Target, d.Inputs, d.Bytes, d.Added, d.Gone})
	}
	fmt.Fprintln(a.out)
	t.Render()
}

// operations is the number of a program's lines that do something.
func operations(p *prog.Program) int {
	n := 0
	p.Walk(func(l *prog.Line, _ []int) {
		if l.Verb != prog.Check && l.Verb != prog.Repeat {
			n++
		}
	})
	return n
}

func programOf(name string, p *prog.Program) programDoc {
	d := programDoc{File: name, Subjects: []string{}, Title: p.Head.Title, Class: p.Head.Class,
		Found: p.Head.Found, Date: p.Head.Date, Operations: operations(p)}
	for i := range p.Scheds {
		s := &p.Scheds[i]
		if v, ok := all.Lookup(s.Subject); ok {
			s.Subject = v.Name
		}
		d.Subjects = append(d.Subjects, s.Subject)
		d.Departures = max(d.Departures, len(s.Departures))
	}
	return d
}

func (a *app) programTable(list []programDoc) {
	t := a.newTable("program", "subject", "title", "class", "date", "operations", "departures")
	t.SetColumnConfigs(numbers("operations", "departures"))
	for i := range list {
		d := &list[i]
		subject := ""
		if len(d.Subjects) > 0 {
			subject = d.Subjects[0]
		}
		if n := len(d.Subjects); n > 1 {
			subject += " and " + strconv.Itoa(n-1)
		}
		t.AppendRow(table.Row{filepath.Base(d.File), subject, d.Title, d.Class, d.Date,
			d.Operations, d.Departures})
	}
	t.Render()
}
