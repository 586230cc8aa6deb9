package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/races"
	"allocfuzz/fuzz/search"
)

// An exploration is the search of a program's schedules on one subject.
type exploration struct {
	Subject    string   `json:"subject"`
	LeftOut    string   `json:"left_out"` // why, "" when it was searched
	Strategy   string   `json:"strategy"`
	Bound      *bound   `json:"bound"` // null for strategies without
	Schedules  int      `json:"schedules"`
	Redundant  int      `json:"redundant"` // begun in vain, beside those
	Points     uint64   `json:"points"`
	States     int      `json:"states"`    // different final ones
	Capped     bool     `json:"capped"`    // there may be more of them
	Done       bool     `json:"done"`      // every schedule that was asked for was made
	Complete   bool     `json:"complete"`  // and there is no further one within the bounds
	Exhausted  bool     `json:"exhausted"` // nor beyond it
	Levels     []level  `json:"levels"`
	Found      int      `json:"found"` // schedules that showed something
	First      int      `json:"first"` // number of the first of them, 0 for none
	Title      string   `json:"title"` // of what it showed
	Identity   string   `json:"identity"`
	Departures int      `json:"departures"` // of the smallest schedule that shows it
	Before     int      `json:"before"`     // of the one that was met first
	File       string   `json:"file"`       // with --out: the program with that schedule
	Schedule   []string `json:"schedule"`   // the lines of that schedule
	Rows       []lane   `json:"rows"`       // what each CPU did in it
	Seconds    float64  `json:"seconds"`
}

type bound struct {
	Preemptions int `json:"preemptions"` // -1 for any number
	Interrupts  int `json:"interrupts"`
	Failures    int `json:"failures"`
}

type level struct {
	Strategy   string `json:"strategy"`
	Departures int    `json:"departures"` // -1 when they are not counted
	Schedules  int    `json:"schedules"`
	Found      int    `json:"found"`
	Complete   bool   `json:"complete"`
}

// A lane is what one CPU did before another one did something.
type lane struct {
	Step  uint64 `json:"step"`
	CPU   int    `json:"cpu"`
	Depth int    `json:"depth"` // of handlers
	Who   string `json:"who"`
	Line  string `json:"line"`
	Did   string `json:"did"`
	Cut   string `json:"cut"` // the point at which it was left
	Ended string `json:"ended"`
	Fault string `json:"fault"` // what was seen here first
}

// explorationOf is the JSON form of a search.
func explorationOf(r *search.Result, took time.Duration) exploration {
	e := exploration{Subject: r.Subject.Name, LeftOut: r.Left, Strategy: string(r.Strategy),
		Schedules: r.Schedules, Redundant: r.Redundant, Points: r.Points, States: r.States,
		Capped: r.Capped, Done: r.Done, Complete: r.Complete, Exhausted: r.Exhausted,
		Found: r.Found,
		First: r.First, Levels: []level{}, Schedule: []string{}, Rows: []lane{},
		Seconds: took.Seconds()}
	if !r.Strategy.Orders() {
		e.Bound = &bound{r.Bounds.Preemptions, r.Bounds.Interrupts, r.Bounds.Failures}
		if r.Strategy == search.Random || r.Strategy == search.PCT {
			e.Bound.Preemptions = -1
		}
	}
	for _, l := range r.Levels {
		e.Levels = append(e.Levels, level{l.Name, l.Departures, l.Schedules, l.Found, l.Complete})
	}
	if r.Finding != nil {
		e.Title, e.Identity = string(r.Finding.Title), r.Finding.Identity()
	}
	return e
}

func rowsOf(rows []search.Row) []lane {
	out := make([]lane, 0, len(rows))
	for _, r := range rows {
		out = append(out, lane{r.Step, r.CPU, r.Depth, r.Who, r.Line, r.Did, r.Cut, r.Ended,
			r.Fault})
	}
	return out
}

// lanes prints what each CPU did, in a column each.
func (x *exploring) lanes(rows []search.Row) {
	head := []any{"point"}
	width := max(28, 96/x.c.Config.CPUs)
	var columns []table.ColumnConfig
	for cpu := range x.c.Config.CPUs {
		name := fmt.Sprintf("cpu%d", cpu)
		head = append(head, name)
		columns = append(columns, table.ColumnConfig{Name: name, WidthMax: width,
			WidthMaxEnforcer: wrapLines})
	}
	t := x.newTable(head...)
	t.SetColumnConfigs(append(columns, numbers("point")...))
	for _, r := range rows {
		cells := table.Row{r.Step}
		for range x.c.Config.CPUs {
			cells = append(cells, "")
		}
		cells[1+r.CPU] = laneText(&r)
		t.AppendRow(cells)
	}
	fmt.Fprintln(x.out, "\nSCHEDULE")
	t.Render()
}

// wrapLines wraps each line of a cell by itself, between words, and keeps its indent.
func wrapLines(cell string, width int) string {
	var lines []string
	for _, l := range strings.Split(cell, "\n") {
		body := strings.TrimLeft(l, "│ ")
		indent := strings.TrimSuffix(l, body)
		line := indent
		for i, word := range strings.Fields(body) {
			if i > 0 && text.StringWidth(line)+1+text.StringWidth(word) > width {
				lines, line = append(lines, line), indent+"  "+word
				continue
			}
			if i > 0 {
				line += " "
			}
			line += word
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// laneText is a row in words, as deep as it is nested.
func laneText(r *search.Row) string {
	b := &strings.Builder{}
	indent := strings.Repeat("│ ", r.Depth)
	fmt.Fprintf(b, "%s%s: %s", indent, r.Who, r.Line)
	if r.Did != "" {
		fmt.Fprintf(b, "\n%s  %s", indent, r.Did)
	}
	switch {
	case r.Cut != "":
		fmt.Fprintf(b, "\n%s  … before %s", indent, r.Cut)
	case r.Ended != "":
		fmt.Fprintf(b, "\n%s  → %s", indent, r.Ended)
	}
	if r.Fault != "" {
		fmt.Fprintf(b, "\n%s  <-- %s", indent, r.Fault)
	}
	return b.String()
}

// table prints what was searched.
func (x *exploring) table() {
	t := x.newTable("subject", "schedules", "in vain", "points", "k/s", "states", "complete",
		"found", "first", "title")
	t.SetColumnConfigs(numbers("schedules", "in vain", "points", "k/s", "states", "found",
		"first"))
	for i := range x.doc.Explorations {
		t.AppendRow(exploredRow(&x.doc.Explorations[i]))
	}
	fmt.Fprintln(x.out)
	t.Render()
	fmt.Fprintf(x.out, "\nstrategy %s", x.f.strategy)
	if len(x.doc.Explorations) > 0 && x.doc.Explorations[0].Bound != nil {
		bounds := x.f.opt.Bounds.String()
		if x.doc.Explorations[0].Bound.Preemptions < 0 {
			_, bounds, _ = strings.Cut(bounds, ", ")
		}
		fmt.Fprintf(x.out, ", %s", bounds)
	}
	if x.f.opt.Shards > 1 {
		fmt.Fprintf(x.out, ", shard %s", x.f.shard)
	}
	fmt.Fprintln(x.out)
}

func exploredRow(e *exploration) table.Row {
	if e.LeftOut != "" {
		return table.Row{e.Subject, "", "", "", "", "", "left out", "", "", e.LeftOut}
	}
	states := fmt.Sprint(e.States)
	if e.Capped {
		states = "≥" + states
	}
	complete := "cut off"
	switch {
	case e.Found > 0 && !e.Done:
		complete = "found"
	case e.Exhausted:
		complete = "exhausted"
	case e.Complete:
		complete = "yes"
	case e.Done:
		complete = "by chance"
	}
	first := ""
	if e.First > 0 {
		first = fmt.Sprint(e.First)
	}
	speed := fmt.Sprintf("%.1f", float64(e.Schedules)/max(e.Seconds, 1e-9)/1e3)
	return table.Row{e.Subject, e.Schedules, e.Redundant, e.Points, speed, states, complete,
		e.Found, first, e.Title}
}

// ordersFor is the time for the search of all orders of one race.
const ordersFor = 60 * time.Second

// exploreRows searches the historical races and prints them as a table. What is not as the table
// has it is told, and counts as found.
func (a *app) exploreRows(f *exploreFlags) error {
	root, err := engine.FindRoot(".")
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "allocfuzz-races-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, done := interruptible()
	defer done()
	limit := ordersFor
	if f.budget > 0 {
		limit = f.budget
	}
	lab := &races.Lab{Root: root, Dir: dir, Cover: true}
	fmt.Fprint(a.out, races.Head)
	for i := range races.Table {
		r := &races.Table[i]
		a.sayf("%d of %d: %s, %s", i+1, len(races.Table), r.Row, r.Program)
		o, err := lab.Run(ctx, r, limit)
		if ctx.Err() != nil {
			a.interrupted()
			return nil
		}
		if err != nil {
			return err
		}
		if wrong := o.Wrong(); wrong != "" {
			a.found()
			a.sayf("%s, %s: %s", r.Row, r.Program, wrong)
		}
		fmt.Fprint(a.out, o.Markdown())
	}
	return nil
}
