package minimise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz/edit"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
	"allocfuzz/oracle"
)

// A Bug says what must stay while a program becomes smaller.
type Bug struct {
	Subject   *impls.Variant
	Reference *impls.Variant // that outcomes or states differ from; nil for a bug of Subject alone
	Identity  string         // of its finding; "" for the first that the program shows
}

// Subjects are those that show it together: the reference, if there is one, and the subject.
func (b *Bug) Subjects() []*impls.Variant {
	if b.Reference == nil {
		return []*impls.Variant{b.Subject}
	}
	return []*impls.Variant{b.Reference, b.Subject}
}

// Options say how programs are tried.
type Options struct {
	Run      oracle.Options // of each run: Checks, Shallow and NoEnd
	Progress func(Progress) // called after every pass, may be nil
	// Probe, when given, runs a program instead of this process, which the subject would end or
	// keep for ever: it returns what was found, nil for nothing. See Child.
	Probe func(context.Context, *prog.Program) (*oracle.Finding, error)
	// Limit bounds one run in this process, 0 for no bound: one that takes longer is left behind,
	// and what hangs shows nothing. It is for subjects that may not return.
	Limit time.Duration
	// Repeats is how often the given program must show the bug before anything is cut, 0 for the
	// default of 8, and of 2 with Probe.
	Repeats int
}

// Progress is how far it got.
type Progress struct {
	Pass  string
	Size  Size
	Tries int
}

// A Size is what a person counts of a program.
type Size struct {
	Lines      int // operations, repeats and checks
	Departures int // single actions of the schedule
	Contexts   int
	Names      int // of objects
	Default    bool
}

// SizeOf counts a program, with the first of its schedule blocks.
func SizeOf(p *prog.Program) Size {
	s := Size{Default: p.Machine.Resolve() == prog.DefaultMachine()}
	contexts, names := map[prog.Ctx]bool{}, map[string]bool{}
	for _, l := range edit.Lines(p) {
		s.Lines++
		if l.Verb != prog.Check {
			contexts[l.Ctx] = true
		}
		for _, n := range l.Results {
			names[n] = true
		}
	}
	s.Contexts, s.Names = len(contexts), len(names)
	if len(p.Scheds) > 0 {
		for i := range p.Scheds[0].Departures {
			s.Departures += len(p.Scheds[0].Departures[i].Actions)
		}
	}
	return s
}

// A Result is what became of a program.
type Result struct {
	Bug     Bug            // that was looked for
	Program *prog.Program  // read back from its text; the given one when Flaky
	Report  *oracle.Report // of what it shows; with Probe no more than finding and program
	Tries   int            // candidates that were run
	Cached  int            // candidates whose text had been run before
	Faulty  int            // candidates that met a fault of allocfuzz itself, and were refused
	Fault   string         // the first of those faults
	Hung    int            // candidates that took longer than Options.Limit, and were refused
	Took    time.Duration
	Before  Size // of the given program with the schedule that shows the bug
	After   Size
	Minimal bool // every line and departure is needed
	Flaky   bool // the given program shows the bug in some runs only
	Shown   int  // of Runs runs of the given program
	Runs    int
}

// Removed says in words what was taken away.
func (r *Result) Removed() string {
	var out []string
	for _, x := range []struct {
		what     string
		from, to int
	}{{"line", r.Before.Lines, r.After.Lines},
		{"departure", r.Before.Departures, r.After.Departures},
		{"context", r.Before.Contexts, r.After.Contexts}} {
		if x.from != x.to {
			out = append(out, fmt.Sprintf("%s to %d", count(x.from, x.what), x.to))
		}
	}
	if r.After.Default && !r.Before.Default {
		out = append(out, "machine to the default")
	}
	if len(out) == 0 {
		return "no line and no departure: " + count(r.After.Lines, "line")
	}
	return strings.Join(out, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ErrSilent says that the given program does not show the bug.
var ErrSilent = errors.New("the program does not show the finding")

// Program makes p as small as it gets while it shows bug. An error that is ErrSilent says that p
// does not show it; others are faults of the program with their place, or of what runs it. When
// ctx ends the smallest program so far is returned, with Minimal false.
func Program(ctx context.Context, p *prog.Program, bug Bug, opt Options) (*Result, error) {
	from := time.Now()
	m := &minimiser{ctx: ctx, bug: bug, opt: opt, seen: map[key]bool{}, out: Result{Bug: bug}}
	m.judge = m.newJudge()
	defer m.judge.close()
	if err := m.begin(p); err != nil {
		return nil, err
	}
	if !m.out.Flaky {
		m.reduce()
	}
	err := m.end(p)
	if m.err != nil && ctx.Err() == nil {
		err = m.err
	}
	m.out.Took = time.Since(from)
	return &m.out, err
}

// A minimiser is one use of Program.
type minimiser struct {
	ctx    context.Context
	bug    Bug
	opt    Options
	judge  judge
	expect string // a title that must stay too, of the block of the given program
	best   *shown
	seen   map[key]bool // texts that were run
	err    error        // of what runs programs: nothing more can be tried
	named  bool         // its comments may speak of its names
	out    Result
}

// begin finds the schedule of p that shows the bug and runs it as often as it is asked.
func (m *minimiser) begin(p *prog.Program) error {
	if _, err := oracle.Compile(p); err != nil {
		return err
	}
	m.named = commented(p)
	for _, block := range oracle.Blocks(p, m.bug.Subject) {
		q := withBlock(p, block)
		if q == nil {
			return fmt.Errorf("%s: its first schedule names a line or context that is not there",
				p.File)
		}
		if m.repeat(q, block); m.best != nil || m.over() {
			break
		}
	}
	switch {
	case m.err != nil:
		return m.err
	case m.best != nil:
		return nil
	case m.ctx.Err() != nil:
		return m.ctx.Err()
	}
	return fmt.Errorf("%s: %w %q", p.File, ErrSilent, m.bug.Identity)
}

// repeats is how often the given program is run by default.
const repeats, repeatsOfProbe = 8, 2

// repeat runs the given program some times and counts how often it shows the bug, which is then
// the best program.
func (m *minimiser) repeat(q *prog.Program, block *prog.Sched) {
	runs := m.opt.Repeats
	if runs == 0 {
		runs = repeats
		if m.opt.Probe != nil {
			runs = repeatsOfProbe
		}
	}
	again := edit.Cut{}
	m.out.Before, m.out.Shown, m.out.Runs = SizeOf(q), 0, 0
	for m.out.Runs < runs && !m.over() {
		s := m.shows(again.Apply(q))
		if m.out.Runs++; s == nil {
			continue
		}
		if m.out.Shown++; m.best == nil {
			m.first(s, block)
		}
	}
	m.out.Flaky = m.best != nil && !m.over() && m.out.Shown < m.out.Runs
}

// first takes over what was found first: from then on it is what is looked for.
func (m *minimiser) first(s *shown, block *prog.Sched) {
	m.best, m.bug.Identity = s, s.finding.Identity()
	if block != nil && s.finding.Matches(block.Bug) {
		m.expect = block.Bug
	}
	m.note(s.prog)
}

// withBlock copies p with one schedule block, or none.
func withBlock(p *prog.Program, block *prog.Sched) *prog.Program {
	one := *p
	one.Scheds = nil
	if block != nil {
		one.Scheds = []prog.Sched{*block}
	}
	return (&edit.Cut{}).Apply(&one)
}

// commented says whether something is written beside the lines of p, or above them, but for notes
// of what a run gave.
func commented(p *prog.Program) bool {
	said := len(p.Doc)+len(p.Tail) > 0
	for i := range p.Caches {
		said = said || len(p.Caches[i].Doc) > 0
	}
	for i := range p.Tasks {
		said = said || len(p.Tasks[i].Doc) > 0
	}
	return said || slices.ContainsFunc(edit.Lines(p), func(l *prog.Line) bool {
		return len(l.Doc)+len(l.Tail) > 0
	})
}

// end completes the result: the program is read back from its text, and must show the bug as a
// replay runs it.
func (m *minimiser) end(p *prog.Program) error {
	if m.out.Flaky {
		m.out.Program, m.out.After = p, m.out.Before
		m.out.Report = &oracle.Report{Finding: m.best.finding, Program: p}
		return nil
	}
	text := prog.Format(m.finished())
	q, err := prog.Parse(p.File, bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("allocfuzz: a minimised program cannot be read: %w\n%s", err, text)
	}
	m.out.Program, m.out.After = q, SizeOf(q)
	m.out.Report, err = m.judge.report(q)
	if err == nil && !m.wanted(m.out.Report.Finding) {
		err = fmt.Errorf("it shows %q, want %q", m.out.Report.Finding.Identity(), m.bug.Identity)
	}
	if err != nil {
		return fmt.Errorf("allocfuzz: a minimised program does not replay: %w\n%s", err, text)
	}
	return nil
}

// finished is the best program with the block that expects the bug. One whose outcomes differ
// from another subject's has none: they are compared in line order, without schedules.
func (m *minimiser) finished() *prog.Program {
	out := *m.best.prog
	if !m.named { // blank lines were between what is gone
		for i, l := range edit.Lines(&out) {
			l.Blank = i == 0
		}
	}
	if m.bug.Reference != nil && !m.pair() {
		return &out
	}
	s := prog.Sched{Blank: true}
	if len(out.Scheds) > 0 {
		s = out.Scheds[0]
		s.Blank = true
	}
	s.Subject, s.Bug = m.bug.Subject.Name, string(m.best.finding.Title)
	if m.expect != "" {
		s.Bug = m.expect
	}
	out.Scheds = []prog.Sched{s}
	return &out
}

// pair says whether the bug is that two subjects which are equal by design are not.
func (m *minimiser) pair() bool {
	return m.bug.Reference != nil && strings.HasPrefix(m.bug.Identity,
		m.bug.Subject.Name+": "+string(fault.PairDiffers))
}
