package report

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strings"

	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/fault"
)

// matrix is the table of subjects and classes of checks.
type matrix struct {
	Classes []string
	Rows    []matrixRow
	Abouts  []Command // what each class is about
}

type matrixRow struct {
	Subject
	Share float64 // unsupported, in percent
	Found []int   // by class
}

// matrixOf counts what was found, zeros and all. A subject that only findings name is there too.
func matrixOf(r *Run) matrix {
	var m matrix
	for _, e := range fault.Titles() {
		if c := e.Rule.String(); !slices.Contains(m.Classes, c) {
			m.Classes = append(m.Classes, c)
			m.Abouts = append(m.Abouts, Command{c, e.Rule.About()})
		}
	}
	subjects := slices.Clone(r.Subjects)
	for i := range r.Findings {
		f := &r.Findings[i]
		if f.Subject != "" && !slices.ContainsFunc(subjects, func(s Subject) bool {
			return s.Name == f.Subject
		}) {
			subjects = append(subjects, Subject{Name: f.Subject, Sound: true})
		}
		if c := class(f); !slices.Contains(m.Classes, c) {
			m.Classes = append(m.Classes, c)
		}
	}
	for _, s := range subjects {
		row := matrixRow{Subject: s, Share: 100 * s.Unsupported, Found: make([]int, len(m.Classes))}
		for i := range r.Findings {
			if f := &r.Findings[i]; f.Subject == s.Name && !f.Known {
				row.Found[slices.Index(m.Classes, class(f))]++
			}
		}
		m.Rows = append(m.Rows, row)
	}
	return m
}

// class is that of a finding, which a line of somebody else may lack.
func class(f *engine.Finding) string {
	if f.Class == "" {
		return "other"
	}
	return f.Class
}

// plot is a picture of curves over time.
type plot struct {
	Title, Until, Most string
	Curves             []curve
}

type curve struct {
	Name   string
	Points string // of a polyline
	Colour template.CSS
	X, Y   float64 // of its name
}

// plotsOf draws the samples, where there are any.
func plotsOf(r *Run) (out []plot) {
	if len(r.Samples) == 0 {
		return nil
	}
	for _, k := range []struct {
		title string
		of    func(*Sample) float64
	}{
		{"inputs run over time", func(s *Sample) float64 { return float64(s.Execs) }},
		{"inputs that covered something new over time",
			func(s *Sample) float64 { return float64(s.New) }},
	} {
		out = append(out, plotOf(r.Samples, k.title, k.of))
	}
	return out
}

func plotOf(samples []Sample, title string, of func(*Sample) float64) plot {
	until, most := 1.0, 1.0
	var names []string
	for i := range samples {
		s := &samples[i]
		until, most = max(until, s.At), max(most, of(s))
		if !slices.Contains(names, s.Target) {
			names = append(names, s.Target)
		}
	}
	p := plot{Title: title, Until: fmt.Sprintf("%.0f s", until), Most: fmt.Sprintf("%.0f", most)}
	for i, name := range names {
		c := curve{Name: name, Colour: template.CSS(fmt.Sprintf("hsl(%d 60%% 45%%)",
			i*360/len(names)))}
		var points []string
		for k := range samples {
			s := &samples[k]
			if s.Target != name {
				continue
			}
			c.X, c.Y = 50+580*s.At/until, 170-155*of(s)/most
			points = append(points, fmt.Sprintf("%.1f,%.1f", c.X, c.Y))
		}
		c.Points, c.Y = strings.Join(points, " "), max(c.Y-3, 12)
		p.Curves = append(p.Curves, c)
	}
	return p
}

// grid is the picture of subjects and committed programs.
type grid struct {
	Width, Height int
	Rows          []gridRow
	Programs      int
}

type gridRow struct {
	Name  string
	Y     int
	Cells []gridCell
}

// A gridCell is a program on which a subject was not silent.
type gridCell struct {
	X     int
	Class string // known, found, left or error
	Title string
}

// The size of a cell, and where the first stands.
const (
	cellSize = 5
	gridLeft = 260
)

// gridOf draws the programs of a run; nil when it has none.
func gridOf(r *Run) *grid {
	if len(r.Programs) == 0 {
		return nil
	}
	var names []string
	for _, s := range r.Subjects {
		names = append(names, s.Name)
	}
	for _, p := range r.Programs {
		for _, name := range slices.Sorted(maps.Keys(p.Marks)) {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	g := &grid{Width: gridLeft + cellSize*len(r.Programs) + 2, Height: 14*len(names) + 4,
		Programs: len(r.Programs)}
	for y, name := range names {
		row := gridRow{Name: name, Y: 14*y + 2}
		for x, p := range r.Programs {
			if mark := p.Marks[name]; mark != "" {
				class, _, _ := strings.Cut(strings.Replace(mark, ":", " ", 1), " ")
				row.Cells = append(row.Cells, gridCell{gridLeft + cellSize*x, class,
					fmt.Sprintf("%s on %s: %s", p.File, name, mark)})
			}
		}
		g.Rows = append(g.Rows, row)
	}
	return g
}
