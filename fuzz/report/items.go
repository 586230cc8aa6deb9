package report

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// FilmMost bounds the lines of a program that is filmed: a trace is no picture.
const FilmMost = 400

// A Projector films programs. It keeps machines between them. Close it.
type Projector struct{ r *engine.Replayer }

// NewProjector makes a projector.
func NewProjector() *Projector { return &Projector{engine.NewReplayer(oracle.Options{})} }

// Close ends its machines.
func (p *Projector) Close() { p.r.Close() }

// Item makes a section of a program on a subject: under the subject's own schedule, the first of
// any subject, or in line order. When ctx ends it is an item with no film.
func (p *Projector) Item(ctx context.Context, program *prog.Program, v *impls.Variant) Item {
	item := Item{Name: v.Name}
	film, err := p.film(ctx, program, v)
	if err != nil {
		item.Problem = err.Error()
		return item
	}
	item.Film = film
	if film.Report != nil {
		f := film.Report.Finding
		item.Name, item.Class, item.Means = f.Identity(), f.Class, means(string(f.Title))
		for _, t := range f.Also {
			item.Also = append(item.Also, string(t))
		}
	}
	return item
}

func (p *Projector) film(ctx context.Context, program *prog.Program, v *impls.Variant) (
	film *oracle.Film, err error) {
	n := 0
	program.Walk(func(*prog.Line, []int) { n++ })
	if n > FilmMost {
		return nil, fmt.Errorf("%d operations are too many for a picture: minimise it first", n)
	}
	c, err := oracle.Compile(program)
	if err != nil {
		return nil, err
	}
	if ok, why := oracle.Applies(c, v); !ok {
		return nil, fmt.Errorf("%s does not run on this machine: %s", v.Name, why)
	}
	if v.New == nil {
		return nil, fmt.Errorf("%s is in another process: it has no points to step through", v.Name)
	}
	block := oracle.Block(program, v)
	if block == nil && len(program.Scheds) > 0 {
		block = &program.Scheds[0]
	}
	if !p.r.Until(ctx, func(r *oracle.Runner) {
		film, err = r.Film(c, v, block, oracle.Options{})
	}) {
		return nil, ctx.Err()
	}
	return film, err
}

// Items makes a section of each finding of a run that nobody expected, and of those that are known
// when all is set.
func (p *Projector) Items(ctx context.Context, r *Run, all bool) []Item {
	var out []Item
	for i := range r.Findings {
		if f := &r.Findings[i]; all || !f.Known {
			out = append(out, p.finding(ctx, f))
		}
	}
	return out
}

// finding makes the section of a finding, of its smallest program.
func (p *Projector) finding(ctx context.Context, f *engine.Finding) Item {
	item := p.shown(ctx, f)
	item.Name, item.Class, item.Known, item.Met = f.Identity, f.Class, f.Known, f.Count
	item.Means = means(f.Title)
	if len(item.Also) == 0 {
		item.Also = f.Also
	}
	for _, c := range []Command{{"file", smallest(f)}, {"replay", f.Command},
		{"minimise", minimiseCommand(f)}, {"hand on", strings.Join(f.HandOn, "\n")}} {
		if c.Text != "" {
			item.Commands = append(item.Commands, c)
		}
	}
	return item
}

func minimiseCommand(f *engine.Finding) string {
	if f.Small != "" || f.File == "" || f.Subject == "" {
		return ""
	}
	return "allocfuzz minimize --subject " + f.Subject + " " + fuzz.Argument(f.File)
}

// shown films the program of a finding.
func (p *Projector) shown(ctx context.Context, f *engine.Finding) Item {
	file := smallest(f)
	if file == "" {
		return Item{Problem: "there is no program"}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return Item{Problem: err.Error()}
	}
	program, err := prog.Parse(file, bytes.NewReader(text))
	if err != nil {
		return Item{Problem: err.Error()}
	}
	v, ok := all.Lookup(f.Subject)
	if !ok {
		return Item{Problem: fmt.Sprintf("no subject %q here", f.Subject)}
	}
	item := p.Item(ctx, program, v)
	switch {
	case item.Film == nil:
	case item.Film.Report == nil:
		item.Problem = "it does not show any more; the run below is what there is now"
	case item.Film.Report.Finding.Identity() != f.Identity:
		item.Problem = "what the run below shows is another bug: " +
			item.Film.Report.Finding.Identity()
	}
	return item
}
