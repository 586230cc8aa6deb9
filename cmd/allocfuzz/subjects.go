package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"allocfuzz/debugcheck"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/detect"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/rows"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
)

// subjectsFlags are the flags of subjects.
type subjectsFlags struct {
	verbose bool
	misuse  bool
	rows    bool
	cache   string
	pick    selection
	rules   []string
}

func (a *app) subjectsCommand() *cobra.Command {
	var f subjectsFlags
	c := &cobra.Command{
		Use:   "subjects",
		Short: "list what is under test",
		Long: "List every subject: its name and alias, its row in the table of historical\n" +
			"designs, the year, what it is made of, whether it is sound or else what it is\n" +
			"found by, the machines it is for (none, full or rt preemption) and what it can\n" +
			"do, and how many programs and operations it ran in the last allocfuzz run.\n\n" +
			"With --rows, list the rows of that table instead: each historical system with\n" +
			"the subjects that are made of it, the committed programs that show its point,\n" +
			"and the bugs that break it. -v adds the point and the titles that it is held to.\n\n" +
			"With --misuse, run small programs instead and tell what the debug checks of\n" +
			"the subjects that have any see: a table of kinds of misuse and debug options,\n" +
			"one for all subjects that answer alike. -v adds the titles of the reports, and\n" +
			"--json the programs.",
		Example: "  allocfuzz subjects\n  allocfuzz subjects -v\n  allocfuzz subjects --rows\n" +
			"  allocfuzz subjects --json\n" +
			"  allocfuzz subjects --misuse --subject slub-2008-seq --rules 6.1,6.12",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			if f.misuse {
				return a.listMisuse(&f)
			}
			for _, name := range []string{"subject", "unsound", "rules"} {
				if cmd.Flags().Changed(name) {
					return fmt.Errorf("--%s is for --misuse alone; see %s --help", name,
						cmd.CommandPath())
				}
			}
			return a.list(&f)
		},
	}
	c.Flags().BoolVarP(&f.verbose, "verbose", "v", false,
		"say what each one is, and which fields may be raced on and why")
	c.Flags().BoolVar(&f.misuse, "misuse", false, "tell what debug checks see, by running programs")
	c.Flags().BoolVar(&f.rows, "rows", false, "list the historical systems")
	c.Flags().StringVar(&f.cache, "cache", "",
		"folder that the last run had as --cache (default: one in the user's cache)")
	c.MarkFlagsMutuallyExclusive("rows", "misuse")
	f.pick.flags(c)
	c.Flags().StringSliceVar(&f.rules, "rules", nil, "kernels whose debug checks apply, joined by "+
		"commas: 6.1 (the default) or 6.12 for SLUB, 2.4 (the default) or 2.6 for SLAB")
	must(c.RegisterFlagCompletionFunc("rules", completeList(kernels)))
	return c
}

// kernels are the values of --rules.
func kernels() []string {
	return []string{debugcheck.SLUB61.String(), debugcheck.SLUB612.String(),
		debugcheck.SLAB24.String(), debugcheck.SLAB26.String()}
}

// list tells what is under test, or which historical systems.
func (a *app) list(f *subjectsFlags) error {
	run, err := recall(f.cache)
	if err != nil {
		return err
	}
	for _, v := range all.Variants() {
		var c *engine.Counts
		if run != nil {
			if n, ok := run.Subjects[v.Name]; ok {
				c = &n
			}
		}
		a.doc.Subjects = append(a.doc.Subjects, describe(v, c))
	}
	if run != nil {
		a.doc.LastRun = &when{run.Ended, run.Seconds, run.Complete, run.Findings}
	}
	for i := range rows.Table {
		a.doc.Rows = append(a.doc.Rows, historicalOf(&rows.Table[i]))
	}
	switch {
	case a.json:
	case f.rows:
		a.listRows(f.verbose)
	default:
		a.listSubjects(f.verbose)
	}
	return nil
}

// historicalOf is the JSON form of a row.
func historicalOf(r *rows.Row) historical {
	list := func(names []string) []string { return append([]string{}, names...) }
	return historical{ID: r.ID, Year: r.Year, System: r.System, Point: r.Point,
		Subjects: list(r.Subjects), Checks: list(r.Checks), Scenarios: list(r.Scenarios),
		Bugs: list(r.Bugs)}
}

// listRows prints the table of historical systems.
func (a *app) listRows(verbose bool) {
	t := a.newTable("row", "year", "what it is", "subjects", "scenarios", "bugs")
	t.SetColumnConfigs([]table.ColumnConfig{wrapped("what it is", 44)})
	for i := range rows.Table {
		r := &rows.Table[i]
		t.AppendRow(table.Row{r.ID, r.Year, r.System, strings.Join(r.Subjects, "\n"),
			strings.Join(r.Scenarios, "\n"), strings.Join(r.Bugs, "\n")})
	}
	t.Render()
	for i := range rows.Table {
		if r := &rows.Table[i]; verbose {
			fmt.Fprintf(a.out, "\n%s: %s\n  held to it by: %s\n", r.ID, r.Point,
				strings.Join(r.Checks, "; "))
		}
	}
}

// wrapped is a column that is at most so wide.
func wrapped(name string, width int) table.ColumnConfig {
	return table.ColumnConfig{Name: name, WidthMax: width, WidthMaxEnforcer: text.WrapSoft}
}

// listMisuse runs the programs of misuse and tells what was seen.
func (a *app) listMisuse(f *subjectsFlags) error {
	subjects, err := f.pick.subjects()
	if err != nil {
		return err
	}
	var rules []debugcheck.Rules
	for _, word := range f.rules {
		r, err := debugcheck.ParseRules(word)
		if err != nil {
			return fmt.Errorf("--rules: %w", err)
		}
		rules = append(rules, r)
	}
	for _, v := range subjects {
		if v.Caps.Has(impls.CapDebug) {
			a.doc.Subjects = append(a.doc.Subjects, describe(v, nil))
		} else if f.pick.chosen() && !f.pick.unsound {
			return fmt.Errorf("--subject: %s has no debug checks: expected a subject that "+
				"allocfuzz subjects lists with the capability debug", v.Name)
		}
	}
	tables, err := detect.Tables(subjects, rules)
	if err != nil {
		return err
	}
	for _, t := range tables {
		a.doc.Misuse = append(a.doc.Misuse, misuseOf(t))
	}
	if !a.json {
		detect.Write(a.out, tables, f.verbose)
	}
	return nil
}

// misuseOf is the JSON form of a table.
func misuseOf(t *detect.Table) misuseTable {
	out := misuseTable{Rules: t.Rules.String()}
	for _, v := range t.Subjects {
		out.Subjects = append(out.Subjects, v.Name)
	}
	for i, k := range detect.Kinds() {
		row := misuseRow{Name: k.Name}
		for j, x := range t.Answers[i] {
			row.Answers = append(row.Answers, answer{Name: detect.Columns()[j].String(),
				Word: x.Word(), State: x.State.String(), Moment: x.Moment.String(),
				Effect: x.Effect.String(), Title: x.Title, Program: x.Program})
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// newTable starts a table on the results.
func (a *app) newTable(head ...any) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(a.out)
	t.SetStyle(table.StyleLight)
	t.Style().Options = table.OptionsNoBordersAndSeparators
	t.Style().Options.SeparateHeader = true
	t.Style().Format.Header = text.FormatLower
	t.Style().Format.Footer = text.FormatDefault
	t.SuppressTrailingSpaces()
	t.AppendHeader(head)
	return t
}

// listSubjects prints the table of subjects.
func (a *app) listSubjects(verbose bool) {
	head := []any{"name", "alias", "row", "year", "made of", "judged", "machines",
		"capabilities"}
	if a.doc.LastRun != nil {
		head = append(head, "programs", "operations")
	}
	t := a.newTable(head...)
	t.SetColumnConfigs(append(numbers("programs", "operations"), wrapped("judged", 28),
		wrapped("capabilities", 40)))
	for i, v := range all.Variants() {
		s := &a.doc.Subjects[i]
		var axes []string
		for _, x := range v.Axes {
			axes = append(axes, x.Name+": "+x.Value)
		}
		row := table.Row{v.Name, v.Alias, v.Row, v.Year, strings.Join(axes, "\n"), judged(v),
			strings.Join(s.Machines, " "), strings.Join(s.Capabilities, " ")}
		if a.doc.LastRun != nil && s.Programs > 0 {
			row = append(row, s.Programs, s.Operations)
		}
		t.AppendRow(row)
	}
	t.Render()
	if run := a.doc.LastRun; run != nil {
		fmt.Fprintf(a.out, "\nprograms and operations are of the run that ended %s: %.0f s, "+
			"%d found\n", run.Ended, run.Seconds, run.Findings)
	}
	if !verbose {
		return
	}
	for _, v := range all.Variants() {
		fmt.Fprintf(a.out, "\n%s: %s\n", v.Name, v.About)
		for _, f := range v.Racy {
			fmt.Fprintf(a.out, "  racy %s: %s\n", f.Name(), f.Reason)
		}
	}
}

// judged says what the suite expects of a subject.
func judged(v *impls.Variant) string {
	if v.Sound {
		return "sound"
	}
	var titles []string
	for _, t := range []string{v.Finds.Consequence, v.Finds.Step} {
		if t != "" {
			titles = append(titles, t)
		}
	}
	return "finds: " + strings.Join(titles, "; ")
}

// A lastRun is what run leaves behind for subjects to tell: what each subject did.
type lastRun struct {
	Schema   int                      `json:"schema"`
	Ended    string                   `json:"ended"`   // RFC 3339
	Seconds  float64                  `json:"seconds"` // of fuzzing
	Complete bool                     `json:"complete"`
	Findings int                      `json:"findings"` // that nobody expected
	Subjects map[string]engine.Counts `json:"subjects"`
}

// lastRunFile is its name in the folder of the fuzzer's corpora.
const lastRunFile = "last-run.json"

// cacheFolder is the folder of the fuzzer's corpora where none is named.
func cacheFolder() (string, error) {
	return usualFolder("fuzzcache", "cache")
}

// usualFolder is a folder in the user's cache, for which a flag can name another.
func usualFolder(name, flag string) (string, error) {
	base, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("no folder for caches: %w; give --%s", err, flag)
	}
	return filepath.Join(base, "allocfuzz", name), nil
}

// remember writes down what the subjects of a run did. That it cannot is no reason to call
// the run a failure.
func (s *session) remember() {
	a := s.app
	r := lastRun{Schema: schema, Ended: time.Now().Format(time.RFC3339), Seconds: a.doc.FuzzSeconds,
		Complete: a.doc.Complete, Subjects: map[string]engine.Counts{}}
	for _, v := range s.subjects {
		r.Subjects[v.Name] = *s.tally[v.Name]
	}
	for i := range a.doc.Findings {
		if !a.doc.Findings[i].Known {
			r.Findings++
		}
	}
	name := filepath.Join(s.flags.cache, lastRunFile)
	err := fuzz.WriteFile(name, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		return e.Encode(&r)
	})
	if err != nil {
		a.sayf("allocfuzz subjects will not know of this run: %v", err)
	}
}

// recall reads what the last run left; nil when there was none.
func recall(cache string) (*lastRun, error) {
	if cache == "" {
		var err error
		if cache, err = cacheFolder(); err != nil {
			return nil, nil // nobody can have run with the usual folder
		}
	}
	name := filepath.Join(cache, lastRunFile)
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fileError(name, err)
	}
	var r lastRun
	if err := json.Unmarshal(text, &r); err != nil || r.Schema != schema {
		return nil, fmt.Errorf("%s: not the counts of a run of this version; remove it, or run "+
			"allocfuzz run", name)
	}
	return &r, nil
}
