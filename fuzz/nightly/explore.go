package nightly

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/regress"
	"allocfuzz/fuzz/search"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
	"allocfuzz/oracle/explore"
)

// pairMost is the most time for one program on one subject.
const pairMost = 3 * time.Second

// programMost is the largest text of a program whose schedules are searched.
const programMost = 4 << 10

// explore searches schedules of committed programs until its time is over: each program on each
// subject in turn, first by bounds, and in later rounds by chance, each time from another seed.
func (w *work) explore(ctx context.Context, a *Arm, d time.Duration, known *fuzz.Known) (
	*SliceReport, error) {
	programs, err := w.programs()
	if err != nil {
		return nil, err
	}
	pairs := len(programs) * len(a.Subjects)
	if pairs == 0 {
		a.Left = "there is no program to search"
		return &SliceReport{}, nil
	}
	if a.States == nil {
		a.States = map[string]int{}
	}
	out := &SliceReport{Known: map[string]int{}}
	start := time.Now()
	for time.Since(start) < d && ctx.Err() == nil {
		at := a.Next % pairs
		p := programs[at/len(a.Subjects)]
		v, _ := all.Lookup(a.Subjects[at%len(a.Subjects)])
		opt := w.searchOptions(a.Next / pairs)
		limited, cancel := context.WithTimeout(ctx, min(pairMost, d-time.Since(start)))
		res, err := search.Run(limited, p, v, opt)
		cancel()
		if err != nil && res.Left == "" && res.Schedules > 0 {
			return out, err
		}
		a.Next++
		out.Execs += int64(res.Schedules)
		out.Points += res.Points
		pair := p.Prog.File + " " + v.Name
		if res.States > a.States[pair] {
			a.States[pair] = res.States
			out.New++
		}
		if res.Finding == nil {
			continue
		}
		if title, ok := known.Finding(res.Finding); ok {
			out.Known[v.Name+"\t"+title] += res.Found
			continue
		}
		known.Learn(res.Finding) // for this slice; then it is filed
		if err := w.searched(ctx, p, res); err != nil {
			return out, err
		}
	}
	out.Seconds = time.Since(start).Seconds()
	return out, nil
}

// searchOptions are those of a round over all pairs: a few schedules of everything come first.
func (w *work) searchOptions(round int) search.Options {
	opt := search.Options{Strategy: search.Bound, Parallel: w.opt.Parallel, Shards: 1, Depth: 3,
		Seed: uint64(round), Bounds: explore.Bounds{Preemptions: 2, Interrupts: 1, Deliveries: 1}}
	switch {
	case round == 0: // of the fewest departures first
		opt.Max = 300
	case round%2 == 1:
		opt.Strategy, opt.Max = search.PCT, 2000
	default:
		opt.Strategy, opt.Max = search.Random, 2000
		opt.Bounds.Interrupts, opt.Bounds.Failures = 2, 1
	}
	return opt
}

// searched writes down the finding of a search.
func (w *work) searched(ctx context.Context, p *oracle.Compiled, res *search.Result) error {
	m, err := search.Minimise(ctx, p, res.Subject, oracle.Options{}, res)
	switch {
	case errors.Is(err, explore.ErrNotDeterministic): // what is filed says that it is flaky
	case err != nil:
		return err
	default:
		res.Anchors, res.Finding, res.Hash = m.Anchors, m.Finding, m.Hash
	}
	r := oracle.NewRunner()
	defer r.Close()
	rep, err := r.Explain(p, res.Subject, res.Schedule(p), oracle.Options{First: res.Finding})
	if err != nil {
		return err
	}
	_, err = (&fuzz.Failure{Report: rep, Variant: res.Subject}).Save(w.out)
	return err
}

// programs are the small committed programs of several contexts, without their schedules.
func (w *work) programs() ([]*oracle.Compiled, error) {
	files, err := regress.Committed(w.opt.Root, "seeds", "regress")
	if err != nil {
		return nil, err
	}
	var out []*oracle.Compiled
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if len(text) > programMost {
			continue
		}
		p, err := prog.Parse(filepath.Base(name), strings.NewReader(string(text)))
		if err != nil {
			continue // told when what is committed is replayed
		}
		bare(p)
		w.opt.Boot.Apply(p)
		c, err := oracle.Compile(p)
		if err == nil && !c.Sequential() {
			out = append(out, c)
		}
	}
	return out, nil
}

// bare takes schedules and comments away: what is found in a program is not what they tell of.
func bare(p *prog.Program) {
	p.Scheds, p.Doc, p.Tail = nil, nil, nil
	for i := range p.Caches {
		p.Caches[i].Doc = nil
	}
	for i := range p.Tasks {
		p.Tasks[i].Doc = nil
	}
	p.Walk(func(l *prog.Line, _ []int) { l.Doc = nil })
}
