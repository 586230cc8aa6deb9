package main

import (
	"fmt"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/spf13/cobra"

	"allocfuzz/impls"
	"allocfuzz/impls/all"
)

func (a *app) subjectsCommand() *cobra.Command {
	var verbose bool
	c := &cobra.Command{
		Use:   "subjects",
		Short: "list what is under test",
		Long: "List every subject: its name and alias, its row in the table of historical\n" +
			"designs, the year, what it is made of, whether it is sound or else what it is\n" +
			"found by, the machines it is for (none, full or rt preemption) and what it can\n" +
			"do.",
		Example: "  allocfuzz subjects\n  allocfuzz subjects -v\n" +
			"  allocfuzz subjects --json",
		Args:              noArguments,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.begin(cmd)
			for _, v := range all.Variants() {
				a.doc.Subjects = append(a.doc.Subjects, describe(v, nil))
			}
			if !a.json {
				a.listSubjects(verbose)
			}
			return nil
		},
	}
	c.Flags().BoolVarP(&verbose, "verbose", "v", false,
		"say what each one is, and which fields may be raced on and why")
	return c
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
	t := a.newTable("name", "alias", "row", "year", "made of", "judged", "machines",
		"capabilities")
	wrap := func(name string, width int) table.ColumnConfig {
		return table.ColumnConfig{Name: name, WidthMax: width, WidthMaxEnforcer: text.WrapSoft}
	}
	t.SetColumnConfigs([]table.ColumnConfig{wrap("judged", 28),
		wrap("capabilities", 40)})
	for _, v := range all.Variants() {
		s := describe(v, nil)
		var axes []string
		for _, x := range v.Axes {
			axes = append(axes, x.Name+": "+x.Value)
		}
		t.AppendRow(table.Row{v.Name, v.Alias, v.Row, v.Year, strings.Join(axes, "\n"), judged(v),
			strings.Join(s.Machines, " "), strings.Join(s.Capabilities, " ")})
	}
	t.Render()
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
