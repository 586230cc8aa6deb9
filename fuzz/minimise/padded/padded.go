// Package padded tests the minimiser: it makes programs that show a bug larger by what the bug does
// not need, and says of a small one what it does not need. It works on the text of programs, with
// the parser's own repair, and has nothing in common with the cuts of the minimiser.
package padded

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"allocfuzz/corpus/prog"
	"allocfuzz/impls"
	"allocfuzz/impls/machine"
	"allocfuzz/oracle"
	"allocfuzz/oracle/sched"
)

// A Padder makes programs larger.
type Padder struct {
	Runner   *oracle.Runner
	Subject  *impls.Variant
	Identity string // of the finding that stays
	line     string // the operation that fails
	rng      *rand.Rand
	n        int // of names
}

// New makes a padder for the finding that a program shows on a subject.
func New(r *oracle.Runner, v *impls.Variant, f *oracle.Finding) *Padder {
	return &Padder{Runner: r, Subject: v, Identity: f.Identity(), line: f.Line,
		rng: rand.New(rand.NewPCG(6, 1))}
}

// Shows says whether a program shows the finding, replayed with what does not apply left out.
func (d *Padder) Shows(p *prog.Program) bool { return d.finding(p) != nil }

// finding is what Shows tells of.
func (d *Padder) finding(p *prog.Program) *oracle.Finding {
	c, err := oracle.Compile(p)
	if err != nil {
		return nil
	}
	v, err := d.Runner.Judge(c, d.Subject, oracle.Options{Repair: true})
	if err != nil || v.Finding == nil || v.Finding.Identity() != d.Identity {
		return nil
	}
	return v.Finding
}

// bears says whether a program that was made larger shows the finding, and at the same operation:
// elsewhere what was added would be part of another program for it.
func (d *Padder) bears(p *prog.Program) bool {
	f := d.finding(p)
	return f != nil && f.Line == d.line
}

// Program adds up to so many lines and departures to p, each of which leaves the finding as it is:
// operations of another cache and of sizes, in the contexts of the program and in new ones, and
// departures at points of the run. The program gets a block for the subject.
func (d *Padder) Program(p *prog.Program, lines, departures int) *prog.Program {
	p = d.owned(p)
	for range 4 * lines {
		if lines <= 0 {
			break
		}
		text, n := d.inserted(string(prog.Format(p)))
		if q, err := prog.ParseString(text); err == nil && d.bears(q) {
			p, lines = q, lines-n
		}
	}
	for range 60 * departures { // most change what the others do
		if departures <= 0 {
			break
		}
		if q := d.departed(p); q != nil && d.bears(q) {
			p, departures = q, departures-1
		}
	}
	return p
}

// owned gives p one block, for the subject.
func (d *Padder) owned(p *prog.Program) *prog.Program {
	text := string(prog.Format(p))
	q, err := prog.ParseString(text)
	if err != nil {
		panic("allocfuzz: " + err.Error())
	}
	own := slices.IndexFunc(q.Scheds, func(s prog.Sched) bool {
		return s.Subject == d.Subject.Name
	})
	s := prog.Sched{}
	if own >= 0 {
		s = q.Scheds[own]
	}
	s.Subject, s.Bug = d.Subject.Name, ""
	q.Scheds = []prog.Sched{s}
	if q, err = prog.ParseString(string(prog.Format(q))); err != nil {
		panic("allocfuzz: " + err.Error())
	}
	return q
}

// inserted puts something at a place of the text, and says how many lines.
func (d *Padder) inserted(text string) (string, int) {
	lines := strings.SplitAfter(text, "\n")
	first, places := d.places(lines)
	new, n := d.something(lines)
	at := places[d.rng.IntN(len(places))]
	out := slices.Insert(slices.Clone(lines), at, new...)
	if !strings.Contains(text, "cache pad") {
		out = slices.Insert(out, first, "cache pad size=192\n")
	}
	return strings.Join(out, ""), n
}

// places are the numbers of lines before which an operation may stand, and of the first line that
// may be the declaration of a cache.
func (d *Padder) places(lines []string) (first int, out []int) {
	depth := 0
	for i, l := range lines {
		word, _, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch {
		case word == "allocfuzz" || strings.HasSuffix(word, ":") || word == "machine":
			first = i + 1
		case word == "cache" || word == "task" || word == "#":
		case word == "sched":
			return first, append(out, i)
		case word == "}":
			depth--
		case depth == 0 && word != "":
			out = append(out, i)
		}
		if strings.HasSuffix(l, "{\n") {
			depth++
		}
	}
	return first, out
}

// keywords begin lines that no context runs.
var keywords = []string{"allocfuzz", "machine", "cache", "task", "sched", "at"}

// something is operations that belong to nothing, in a context of the program or another.
func (d *Padder) something(lines []string) ([]string, int) {
	d.n++
	ctx := "cpu0"
	for _, l := range lines {
		word, _, ok := strings.Cut(l, " ")
		_, is := prog.ParseCtx(word)
		if ok && is && !slices.Contains(keywords, word) && d.rng.IntN(6) == 0 {
			ctx = word
		}
	}
	switch d.rng.IntN(8) {
	case 0:
		ctx = "irq0.extra"
	case 1:
		ctx = "cpu1" // where the machine has one
	}
	name := fmt.Sprintf("pad%d", d.n)
	switch d.rng.IntN(5) {
	case 0:
		return []string{ctx + " repeat 3 {\n", "\t" + ctx + " " + name + " = alloc pad\n",
			"\t" + ctx + " free pad " + name + "\n", "}\n"}, 3
	case 1:
		return []string{"check\n"}, 1
	case 2:
		return []string{ctx + " " + name + " = malloc 40\n", ctx + " free " + name + "\n"}, 2
	case 3:
		return []string{ctx + " " + name + " = alloc pad\n", ctx + " fill " + name + "\n",
			ctx + " verify " + name + "\n", ctx + " free pad " + name + "\n"}, 4
	}
	return []string{ctx + " " + name + " = alloc pad\n", ctx + " free pad " + name + "\n"}, 2
}

// departed adds one departure, at a point of the run and by chance.
func (d *Padder) departed(p *prog.Program) *prog.Program {
	c, err := oracle.Compile(p)
	if err != nil {
		return nil
	}
	res, err := d.Runner.Points(c, d.Subject, &p.Scheds[0], oracle.Options{})
	if err != nil || len(res.Trace) == 0 {
		return nil
	}
	e := &res.Trace[d.rng.IntN(len(res.Trace))]
	if e.Line.Pos < 0 || e.Line.Handler != nil {
		return nil
	}
	old, err := c.Anchors(&p.Scheds[0])
	if err != nil {
		return nil
	}
	ctx := d.rng.IntN(len(c.Ctxs))
	act := sched.Act{Kind: machine.SwitchTo, Ctx: ctx}
	if c.Ctxs[ctx].Ctx.IsIRQ() {
		act.Kind = machine.Interrupt
	}
	a := sched.Anchor{Pos: e.Line.Pos, Iter: e.Line.Iter, Handler: -1, Kind: e.Kind,
		Field: e.Field.Name(), N: e.N, Acts: []sched.Act{act}}
	return d.recorded(p, c, append(slices.Clip(old), a))
}

// recorded is p with what of the departures is really taken; nil when that is no more than before.
func (d *Padder) recorded(p *prog.Program, c *oracle.Compiled, list []sched.Anchor) *prog.Program {
	r := sched.NewReplay(sched.Repair, list)
	d.Runner.Run(c, d.Subject, oracle.Options{Chooser: r, Record: true})
	s := c.Schedule(d.Subject.Name, d.Runner.Recorded())
	n := 0
	for i := range s.Departures {
		n += len(s.Departures[i].Actions)
	}
	before := 0
	for i := range p.Scheds[0].Departures {
		before += len(p.Scheds[0].Departures[i].Actions)
	}
	if n <= before {
		return nil
	}
	q := *p
	q.Scheds = []prog.Sched{s}
	out, err := prog.ParseString(string(prog.Format(&q)))
	if err != nil {
		return nil
	}
	return out
}

// Needless drops every line of a program's text by itself, repeats with their bodies, and every
// departure, and returns those without which it still shows the finding.
func (d *Padder) Needless(p *prog.Program) []string {
	var out []string
	lines := strings.SplitAfter(string(prog.Format(p)), "\n")
	for i, l := range lines {
		word, _, _ := strings.Cut(strings.TrimSpace(l), " ")
		switch word {
		case "allocfuzz", "title:", "also:", "class:", "found:", "date:", "machine", "sched", "",
			"}", "#":
			continue
		}
		end := i + 1
		if strings.HasSuffix(l, "{\n") {
			end = closing(lines, i)
		}
		text := strings.Join(slices.Delete(slices.Clone(lines), i, end), "")
		q, _, err := prog.ParseRepair("less.prog", bytes.NewReader([]byte(text)))
		if err == nil && d.Shows(q) {
			out = append(out, strings.TrimSpace(l))
		}
	}
	return append(out, d.idle(p)...)
}

// closing is the number of the line behind the brace that closes line i.
func closing(lines []string, i int) int {
	depth := 0
	for ; i < len(lines); i++ {
		if strings.HasSuffix(lines[i], "{\n") {
			depth++
		}
		if strings.TrimSpace(lines[i]) == "}" {
			depth--
		}
		if depth == 0 {
			return i + 1
		}
	}
	return len(lines)
}

// idle are the actions of a schedule that are not needed.
func (d *Padder) idle(p *prog.Program) []string {
	var out []string
	for i := range p.Scheds[0].Departures {
		at := &p.Scheds[0].Departures[i]
		for k := range at.Actions {
			q := *p
			q.Scheds = slices.Clone(p.Scheds)
			list := slices.Clone(p.Scheds[0].Departures)
			list[i].Actions = slices.Delete(slices.Clone(at.Actions), k, k+1)
			if len(list[i].Actions) == 0 {
				list = slices.Delete(list, i, i+1)
			}
			q.Scheds[0].Departures = list
			if d.Shows(&q) {
				out = append(out, fmt.Sprintf("%s, action %d", prog.AppendDeparture(nil, at), k+1))
			}
		}
	}
	return out
}
