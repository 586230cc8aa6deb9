package report

import (
	"embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"regexp"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/oracle"
)

//go:embed page
var assets embed.FS

var page = template.Must(template.New("page.html").ParseFS(assets, "page/page.html"))

// asset is the text of a file of the page.
func asset(name string) string {
	text, err := assets.ReadFile("page/" + name)
	if err != nil {
		panic("allocfuzz: " + err.Error())
	}
	return string(text)
}

// An Item is one section of the page: a finding, or a run to look at.
type Item struct {
	Name     string // its heading: the identity of a finding
	Class    string // of checks
	Means    string
	Also     []string
	Known    bool
	Met      int
	Problem  string // why there is no more of it
	Commands []Command
	Film     *oracle.Film // nil when it cannot be run here
}

// A Command is something to do, and how.
type Command struct{ What, Text string }

// section is an item as the page has it.
type section struct {
	Item
	ID      string
	Lines   []prog.Line
	Text    []textLine
	History []step
	State   []string
	Debug   []string
	Points  int
	From    int // frame to begin with
	Reel    template.JS
}

// A textLine is a line of the program's text, with the order of its operation; -1 for the others.
type textLine struct {
	Order int
	Text  string
}

type step struct {
	oracle.Step
	Wrong bool
}

// AlsoText is the other titles in a line.
func (i *Item) AlsoText() string { return strings.Join(i.Also, "; ") }

// A Page is what a page is made of.
type Page struct {
	Title    string
	Run      *Run // nil for a program to look at
	Items    []Item
	Problems []string
	Misuse   string // the table of what debug checks see, as text; "" for none
}

// HTML writes the page. The same page has the same bytes.
func (p *Page) HTML(w io.Writer) error {
	data := struct {
		Title    string
		CSS      template.CSS
		JS       template.JS
		Run      *Run
		Overview bool
		Problems []string
		Items    []*section
		Matrix   matrix
		Targets  []Target
		Plots    []plot
		Grid     *grid
		Misuse   string
	}{Title: p.Title, CSS: template.CSS(asset("page.css")), JS: template.JS(asset("page.js")),
		Run: p.Run, Overview: p.Run != nil, Problems: p.Problems, Misuse: p.Misuse}
	for i := range p.Items {
		s, err := newSection(i, &p.Items[i])
		if err != nil {
			return err
		}
		data.Items = append(data.Items, s)
	}
	if p.Run != nil {
		data.Matrix, data.Targets, data.Plots = matrixOf(p.Run), p.Run.Targets, plotsOf(p.Run)
		data.Grid = gridOf(p.Run)
	}
	return page.Execute(w, data)
}

// newSection makes the n-th section of an item.
func newSection(n int, item *Item) (*section, error) {
	s := &section{Item: *item, ID: fmt.Sprintf("f%d", n+1)}
	f := item.Film
	if f == nil {
		return s, nil
	}
	text := f.Program
	if f.Report != nil {
		text = f.Report.Program
		s.State = f.Report.State
		for _, d := range f.Report.Debug {
			b := &strings.Builder{}
			if err := d.Print(b, f.Named); err != nil {
				return nil, err
			}
			s.Debug = append(s.Debug, b.String())
		}
	}
	s.Lines, s.Text, s.Points = text.Lines, listing(text), len(f.Frames)
	for _, h := range f.History {
		s.History = append(s.History, step{h, h.Model != "ok" && h.Model != ""})
	}
	for i := range f.Frames {
		if len(f.Frames[i].Faults) > 0 {
			s.From = i
			break
		}
	}
	reel, err := json.Marshal(newReel(f)) // it escapes what could end the script
	if err != nil {
		return nil, err
	}
	s.Reel = template.JS(reel)
	return s, nil
}

// listing is the text of a program, with the order of each operation.
func listing(p *prog.Program) (out []textLine) {
	orders := map[string][]int{} // by the text of the line, which several may have
	n := 0
	p.Walk(func(l *prog.Line, _ []int) {
		if l.Verb != prog.Repeat && l.Verb != prog.Check {
			text := string(prog.AppendLine(nil, l))
			orders[text] = append(orders[text], n)
		}
		n++
	})
	for text := range strings.Lines(string(prog.Format(p))) {
		text = strings.TrimSuffix(text, "\n")
		order := -1
		if list := orders[strings.TrimSpace(text)]; len(list) > 0 {
			order, orders[strings.TrimSpace(text)] = list[0], list[1:]
		}
		out = append(out, textLine{order, text})
	}
	return out
}

// marks are how what this package writes begins, each of its forms.
var marks = []*regexp.Regexp{
	regexp.MustCompile(`^<!doctype html>[^\x00]*<meta name="generator" content="allocfuzz `),
	regexp.MustCompile(`^<\?xml [^>]*>\s*<testsuites[^>]* name="allocfuzz`),
	regexp.MustCompile(`^\{\s*"(?s:.*)"(?:driver|\$schema)"(?s:.*)(?:sarif|"allocfuzz")`),
	regexp.MustCompile(`^# allocfuzz [a-z]+: \d+ found, \d+ known\n`),
	regexp.MustCompile(`^::(?:error file=[^\n]*title=|warning title=allocfuzz)`),
}

// Wrote says whether a file that begins so was written by this package.
func Wrote(head []byte) bool {
	return slices.ContainsFunc(marks, func(m *regexp.Regexp) bool { return m.Match(head) })
}
