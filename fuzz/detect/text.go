package detect

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"allocfuzz/debugcheck"
)

// legend explains the words of the table, and the marks.
var legend = [][2]string{
	{"refused", "reported at once, and not carried out"},
	{"now", "reported at once, and carried out"},
	{"fatal", "reported at once, and the kernel stopped"},
	{"free", "reported later, when the object is freed"},
	{"alloc", "reported later, when what is free is allocated again"},
	{"discard", "reported only when everything is free and the cache is shrunk or destroyed"},
	{"validate", "reported only by a validation of the cache before anything else is done"},
	{"…!", "and that free was refused, or the slab retired and another object handed out"},
	{"…*", "and the kernel stopped there"},
	{"silent", "never reported"},
	{"undefined", "nothing looks before the allocator goes by what is wrong: anything may follow"},
	{"-", "there is nothing to misuse so: no such place around an object, no such operation"},
}

// Legend lists the words of answers, each with what it means. A mark that stands at the
// end of a word has … in front.
func Legend() [][2]string { return legend }

// Write prints the tables and the legend.
func Write(w io.Writer, tables []*Table, titles bool) {
	for _, t := range tables {
		t.write(w, titles)
		fmt.Fprintln(w)
	}
	fmt.Fprintln(w, "F sanity checks, Z red zones, P poison, U tracks of users")
	for _, l := range legend {
		fmt.Fprintf(w, "%-12s %s\n", l[0], l[1])
	}
}

// write prints one table: its subjects, a row for each kind of misuse and, if asked
// for, the titles of the reports below.
func (t *Table) write(w io.Writer, titles bool) {
	fmt.Fprintf(w, "%s under %s\n", t.Name(), t.rules())
	widths := t.widths()
	row := []string{"misuse"}
	for _, f := range columns {
		row = append(row, f.String())
	}
	line(w, row, widths)
	for i := range kinds {
		row = append(row[:0], kinds[i].Name)
		for _, a := range t.Answers[i] {
			row = append(row, a.Word())
		}
		line(w, row, widths)
	}
	if titles {
		fmt.Fprintln(w)
		t.titles(w)
	}
}

// rules names the rules as a reader knows them.
func (t *Table) rules() string {
	if t.Rules == debugcheck.Guard {
		return "the guard's rules"
	}
	return t.Rules.String()
}

// widths are those of the columns, kinds first.
func (t *Table) widths() []int {
	widths := make([]int, 1+len(columns))
	for i := range kinds {
		widths[0] = max(widths[0], len(kinds[i].Name))
		for j, a := range t.Answers[i] {
			widths[1+j] = max(widths[1+j], len(a.Word()), len(columns[j].String()))
		}
	}
	return widths
}

// line prints cells in columns, with no blanks at its end.
func line(w io.Writer, cells []string, widths []int) {
	b := &strings.Builder{}
	for i, c := range cells {
		fmt.Fprintf(b, "%-*s  ", widths[i], c)
	}
	fmt.Fprintln(w, strings.TrimRight(b.String(), " "))
}

// titles prints, for each kind of misuse, which report comes under which options.
func (t *Table) titles(w io.Writer) {
	for i := range kinds {
		var seen []string
		for _, a := range t.Answers[i] {
			if a.State != Reported || slices.Contains(seen, a.Title) {
				continue
			}
			seen = append(seen, a.Title)
			fmt.Fprintf(w, "%s: %q with %s\n", kinds[i].Name, a.Title,
				strings.Join(t.with(i, a.Title), ", "))
		}
	}
}

// with lists the options under which a kind of misuse gives a report, and the moment.
func (t *Table) with(kind int, title string) []string {
	var out []string
	for j, a := range t.Answers[kind] {
		if a.Title == title {
			out = append(out, columns[j].String()+" ("+a.Word()+")")
		}
	}
	return out
}
