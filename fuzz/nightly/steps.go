package nightly

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/regress"
	"allocfuzz/fuzz/store"
	"allocfuzz/fuzz/thin"
	"allocfuzz/impls"
	"allocfuzz/impls/fault"
)

// Options say what a night is to do.
type Options struct {
	Root     string // of the sources
	Subjects []*impls.Variant
	Targets  []string
	Boot     fuzz.Boot
	Budget   time.Duration
	Parallel int
	Dir      string // of the state, which must exist
	Corpus   string // working corpus
	Out      string // folder of what the night found; "" is one below Dir
	Commit   bool   // make a commit of each regression
	Branch   string // for the commits
	Race     bool   // replay what was found under the race detector too
	Log      func(format string, args ...any)
	Progress func(engine.Progress)
}

// Key is what must be the same for a night to be taken up again.
func (o *Options) Key() string {
	return fmt.Sprintf("%s; %s; %s; debug %q, rules %s; %v; commit %v on %s; out %s", o.Root,
		strings.Join(o.Targets, ","), strings.Join(fuzz.Names(o.Subjects), ","), o.Boot.Debug,
		o.Boot.Rules, o.Budget, o.Commit, o.Branch, o.Out)
}

// Fresh is the state of a night that begins.
func (o *Options) Fresh() *State {
	return &State{Key: o.Key(), Started: time.Now().Format(time.RFC3339),
		Budget: o.Budget.Seconds(), Arms: Arms(o.Targets, o.Subjects)}
}

// work is the real Steps.
type work struct {
	opt     Options
	out     string // folder of findings
	cache   string // of the fuzzer's corpora
	tmp     string // thrown away
	store   *store.Store
	taken   map[string]map[string]bool // files of the fuzzer's corpora that it has, by target
	known   *fuzz.Known                // committed, here and on branches of nights
	job     *engine.Job
	branch  *branch // nil without commits
	racer   string  // binary with the race detector, "" for none
	Summary Ending
}

// An Ending is what the end of a night brought.
type Ending struct {
	Out      string                  `json:"out"` // folder of what was found
	Thinned  map[string]thin.Thinned `json:"thinned"`
	Programs int                     `json:"programs"` // that were replayed
	Broken   []string                `json:"broken"`   // what of them no longer holds
	Skipped  []store.Problem         `json:"skipped"`  // files that were left alone
	Race     string                  `json:"race"`     // why nothing was replayed under it
}

// New makes the real steps of a night whose state is s. What can be wrong with the options is
// told before the long work begins.
func New(ctx context.Context, opt Options, s *State) (Steps, *Ending, error) {
	w := &work{opt: opt, out: opt.Out, cache: filepath.Join(opt.Dir, "fuzzcache"),
		tmp: filepath.Join(opt.Dir, "tmp"), taken: map[string]map[string]bool{}}
	if w.out == "" {
		w.out = filepath.Join(opt.Dir, "nights", strings.ReplaceAll(s.Started, ":", ""))
	}
	w.Summary.Out = w.out
	if err := os.RemoveAll(w.tmp); err != nil { // of a night that was killed
		return nil, nil, err
	}
	for _, dir := range []string{w.out, w.cache, w.tmp} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, nil, err
		}
	}
	for _, dir := range []string{w.out, filepath.Join(opt.Root, regress.Folder)} {
		if err := fuzz.RemoveHalf(dir, nil); err != nil && !readOnly(err) {
			return nil, nil, err
		}
	}
	var err error
	if w.store, err = store.Open(opt.Corpus); err != nil {
		return nil, nil, err
	}
	if w.known, err = engine.Expected(opt.Root); err != nil {
		opt.Log("not read, and what it expects is not known: %v", err)
	}
	if opt.Commit {
		if w.branch, err = newBranch(ctx, opt.Root, opt.Branch, w.tmp); err != nil {
			return nil, nil, err
		}
	}
	return w, &w.Summary, nil
}

// Prepare builds the fuzz binary and brings the working corpus to the fuzzer.
func (w *work) Prepare(ctx context.Context, s *State) error {
	start := time.Now()
	build := &engine.Build{Root: w.opt.Root, Dir: w.tmp, Log: w.opt.Log}
	bin, _, err := build.Run(ctx)
	if err != nil {
		return err
	}
	if w.opt.Race {
		w.racer, w.Summary.Race = w.raceBinary(ctx)
	}
	s.Spend(Building, time.Since(start))
	start = time.Now()
	restored := 0
	for _, t := range w.opt.Targets {
		n, bad, err := w.store.ToGo(t, filepath.Join(w.cache, t))
		if err != nil {
			return err
		}
		w.skipped(bad)
		restored += n
	}
	if err := w.branches(ctx); err != nil {
		return err
	}
	s.Spend(Restoring, time.Since(start))
	w.opt.Log("built in %.1f s; %d inputs of the working corpus are new to the fuzzer",
		s.Spent[Building], restored)
	w.job = &engine.Job{Binary: bin, Boot: w.opt.Boot, Parallel: w.opt.Parallel, Work: w.tmp,
		Cache: w.cache, Out: w.out, Progress: w.opt.Progress, Log: w.opt.Log}
	return nil
}

// branches adds to what is known what the branches of other nights expect.
func (w *work) branches(ctx context.Context) error {
	more, err := branchExpectations(ctx, w.opt.Root, w.tmp)
	if err != nil {
		w.opt.Log("not all regressions on branches of other nights are known: %v", err)
	}
	w.known.Join(more)
	return nil
}

// skipped tells of files that were left alone, each once.
func (w *work) skipped(list []store.Problem) {
	for _, p := range list {
		if slices.Contains(w.Summary.Skipped, p) {
			continue
		}
		w.Summary.Skipped = append(w.Summary.Skipped, p)
		w.opt.Log("skipped: %s: %s", p.File, p.Why)
	}
}

// Slice fuzzes, or explores.
func (w *work) Slice(ctx context.Context, s *State, a *Arm, d time.Duration) (*SliceReport, error) {
	all := &fuzz.Known{}
	all.Join(w.known)
	all.Join(s.Bugs())
	if a.Target == "" {
		start := time.Now()
		defer func() { s.Spend(Exploring, time.Since(start)) }()
		return w.explore(ctx, a, d, all)
	}
	w.job.Known = all
	slice := engine.Slice{Target: a.Target, Subjects: a.Subjects, For: d,
		At: slices.Index(s.Arms, a) + 1, Of: len(s.Arms)}
	if a.Seconds > 0 { // so many inputs as it takes, by the rate of earlier slices
		slice.Execs = max(1000, int64(float64(a.Execs)/a.Seconds*d.Seconds()))
		slice.For = d * 3 / 2
	}
	start := time.Now()
	res, err := w.job.Slice(ctx, slice)
	s.Spend(Fuzzing, time.Since(start))
	if e := w.reportDeaths(res.Fresh); e != nil {
		err = errors.Join(err, e)
	}
	start = time.Now()
	if w.taken[a.Target] == nil {
		w.taken[a.Target] = map[string]bool{}
	}
	_, bad, e := w.store.Take(a.Target, filepath.Join(w.cache, a.Target), w.taken[a.Target])
	if !errors.Is(e, fs.ErrNotExist) { // nothing was kept yet
		err = errors.Join(err, e)
	}
	w.skipped(bad)
	s.Spend(Restoring, time.Since(start))
	return &SliceReport{Execs: res.Execs, Points: res.Points, New: res.New, Corpus: res.Corpus,
		Seconds: res.Seconds, Flake: res.Ending == engine.Flake, Death: res.Ending.Death(),
		Known: res.Known}, err
}

// reportDeaths writes a report of each finding that has none, since its worker could write none.
func (w *work) reportDeaths(list []engine.Finding) error {
	for i := range list {
		f := &list[i]
		name := strings.TrimSuffix(f.File, ".prog") + ".txt"
		if _, err := os.Stat(name); err == nil || f.Class != fault.Process.String() {
			continue
		}
		if err := fuzz.WriteBytes(name, fuzz.DeathHead(f.Identity, f.Command)); err != nil {
			return err
		}
	}
	return nil
}

// Pending are the reports in the folder of findings.
func (w *work) Pending() ([]string, error) {
	entries, err := os.ReadDir(w.out)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if strings.HasPrefix(name, ".") || filepath.Ext(name) != ".txt" {
			continue
		}
		program := strings.TrimSuffix(name, ".txt") + ".prog"
		if _, err := os.Stat(filepath.Join(w.out, program)); err == nil {
			out = append(out, name)
		}
	}
	return out, nil
}

// Finish thins what the night's targets have, replays what is committed, and writes the summary.
func (w *work) Finish(ctx context.Context, s *State) error {
	if w.branch != nil {
		defer w.branch.close()
	}
	start := time.Now()
	err := w.thin(ctx)
	s.Spend(Thinning, time.Since(start))
	if Stops(err) {
		return err
	}
	if err != nil && ctx.Err() == nil {
		w.opt.Log("the working corpus was not thinned: %v", err)
	}
	start = time.Now()
	err = w.verify(ctx)
	s.Spend(Verifying, time.Since(start))
	if ctx.Err() != nil {
		err = nil
	}
	return errors.Join(err, os.RemoveAll(w.tmp), w.write(s))
}

// A target's corpus is thinned when it has grown by so much since the last time: to build and run
// the tracer takes seconds, which a short night has not.
const (
	growth   = 2   // times
	thinFrom = 500 // inputs more, in any case
)

// thinnedFile keeps how many inputs each target had when it was thinned last.
const thinnedFile = "thinned.json"

// grown are the targets whose corpora are worth thinning.
func (w *work) grown(last map[string]int) ([]string, error) {
	var out []string
	for _, target := range w.opt.Targets {
		list, bad, err := w.store.Inputs(target)
		if err != nil {
			return nil, err
		}
		w.skipped(bad)
		if n := last[target]; len(list) >= n+thinFrom || n > thinFrom/10 && len(list) >= growth*n {
			out = append(out, target)
		}
	}
	return out, nil
}

// thin thins the working corpora that have grown, and puts the fuzzer's own in their place: those
// grow without end otherwise.
func (w *work) thin(ctx context.Context) error {
	last, name := map[string]int{}, filepath.Join(w.opt.Dir, thinnedFile)
	if text, err := os.ReadFile(name); err == nil && json.Unmarshal(text, &last) != nil {
		last = map[string]int{} // whatever it is, thinning once too often does no harm
	}
	targets, err := w.grown(last)
	if err != nil || len(targets) == 0 {
		return err
	}
	t, err := thin.New(ctx, thin.Own, w.opt.Root, max(1, min(w.opt.Parallel, runtime.NumCPU())))
	if err != nil {
		return err
	}
	defer t.Close()
	w.Summary.Thinned = map[string]thin.Thinned{}
	for _, target := range targets {
		res, err := t.Store(ctx, w.store, target, false)
		if err != nil {
			return fmt.Errorf("%s: %w", target, err)
		}
		w.skipped(res.Skipped)
		w.Summary.Thinned[target] = res
		w.opt.Log("%s: %d of %d inputs of the working corpus are kept", target, res.After,
			res.Before)
		if err := w.renew(target); err != nil {
			return err
		}
		last[target] = res.After
	}
	text, err := json.Marshal(last)
	if err != nil {
		return err
	}
	return fuzz.WriteBytes(name, text)
}

// renew makes the fuzzer's corpus of a target anew from the working corpus. It is this package's
// own folder, and all that was in it is in the working corpus.
func (w *work) renew(target string) error {
	dir := filepath.Join(w.cache, target)
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	_, _, err := w.store.ToGo(target, dir)
	return err
}
