package report

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"allocfuzz/fuzz/engine"
	"allocfuzz/impls/fault"
)

// matrix is the table of subjects and classes of checks.
type matrix struct {
	Classes []string
	Rows    []matrixRow
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

type targetRow struct {
	Target
	Speed float64
}

func targetsOf(r *Run) (out []targetRow) {
	for _, t := range r.Targets {
		row := targetRow{Target: t}
		if t.Seconds > 0 {
			row.Speed = float64(t.Execs) / t.Seconds
		}
		out = append(out, row)
	}
	return out
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
