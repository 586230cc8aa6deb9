package engine

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"allocfuzz/fuzz"
)

// A Job is the fuzzing of targets, one after the other.
type Job struct {
	Binary   *Binary
	Targets  []string
	Subjects []string      // names of subjects; none are the sound ones
	Boot     fuzz.Boot     // boot parameters for inputs without any
	For      time.Duration // of all targets together
	Parallel int           // workers
	Work     string        // folder for what is thrown away, which must exist
	Cache    string        // folder of the corpora that the fuzzer keeps
	Out      string        // folder for findings, which must exist
	Progress func(Progress)
	Log      func(format string, args ...any)

	before map[string]bool   // reports that were there already
	met    map[string]string // targets by identity
}

// Progress is where a target is.
type Progress struct {
	Target  string
	Of, At  int // number of targets, and of this one from 1
	Elapsed time.Duration
	Budget  time.Duration
	Execs   int64
	Points  uint64
	New     int
}

// A TargetResult is what fuzzing one target gave. The names of its JSON form are
// public.
type TargetResult struct {
	Name        string  `json:"name"`
	Seconds     float64 `json:"seconds"`
	Execs       int64   `json:"execs"`
	ExecsPerS   float64 `json:"execs_per_second"`
	Points      uint64  `json:"points"`
	PointsPerS  float64 `json:"points_per_second"`
	Interesting int     `json:"interesting"` // inputs with new coverage
	Corpus      int     `json:"corpus"`      // inputs kept
	Starts      int     `json:"starts"`
	Flakes      int     `json:"flakes"` // failures of the fuzz engine itself, without an input
}

// A Result is what a job gave.
type Result struct {
	Targets  []TargetResult
	Findings []Finding
	Tally    Tally
	Faults   []error // of this project or of the fuzz engine: the run proves nothing
}

// Limits of the fuzzing of one target.
const (
	startsMax  = 4                // a target stops at a finding and is started again
	leastTime  = time.Second      // below which a start is not worth it
	overrun    = 20 * time.Second // the fuzzer's hang limit of 10 s, and time to write down
	minimise   = "2s"             // of the go command, which knows bytes only
	reportTick = 500 * time.Millisecond
)

// Run fuzzes every target for its share of the time. What a target leaves is for
// the next ones, what it takes to start and to end a process is not part of it. Run
// ends early, with what was found so far, when ctx does.
func (j *Job) Run(ctx context.Context) *Result {
	j.before, j.met = reports(j.Out), map[string]string{}
	res := &Result{Tally: Tally{}}
	left := j.For
	for i, t := range j.Targets {
		if ctx.Err() != nil {
			break
		}
		start, share := time.Now(), left/time.Duration(len(j.Targets)-i)
		r := &targetRun{job: j, name: t, at: i + 1, res: res, sum: TargetResult{Name: t}}
		r.fuzz(ctx, share)
		left -= min(share, time.Since(start))
		res.Targets = append(res.Targets, r.sum)
	}
	found, err := gather(j.Out, j.before)
	if err != nil {
		res.Faults = append(res.Faults, fmt.Errorf("read the findings: %w", err))
	}
	expected := Expected()
	for i := range found {
		f := &found[i]
		f.Target = j.met[f.Identity]
		expected.Mark(f)
	}
	res.Findings = append(found, res.Findings...)
	return res
}

// A targetRun is the fuzzing of one target, in one or more starts.
type targetRun struct {
	job  *Job
	name string
	at   int
	res  *Result
	sum  TargetResult
	now  Progress // of this start
}

// fuzz starts the target until its time is over, something goes wrong, or a start
// brings nothing but a finding that is known already.
func (r *targetRun) fuzz(ctx context.Context, budget time.Duration) {
	end := time.Now().Add(budget)
	for r.sum.Starts < startsMax && ctx.Err() == nil {
		left := time.Until(end)
		if r.sum.Starts == 0 {
			left = budget
		} else if left < leastTime {
			break
		}
		again, err := r.start(ctx, left)
		if err != nil {
			r.res.Faults = append(r.res.Faults, fmt.Errorf("%s: %w", r.name, err))
		}
		if err != nil || !again {
			break
		}
	}
	if r.sum.Seconds > 0 {
		r.sum.ExecsPerS = float64(r.sum.Execs) / r.sum.Seconds
		r.sum.PointsPerS = float64(r.sum.Points) / r.sum.Seconds
	}
}

// folders of one start of a target.
type folders struct{ work, stats string }

func (r *targetRun) folders() (folders, error) {
	f := folders{work: filepath.Join(r.job.Work, r.name+"-"+strconv.Itoa(r.sum.Starts))}
	f.stats = filepath.Join(f.work, "stats")
	return f, os.MkdirAll(f.stats, 0o777)
}

// start runs the target's process once. again says that another start may find
// more.
func (r *targetRun) start(ctx context.Context, left time.Duration) (again bool, err error) {
	j := r.job
	dirs, err := r.folders()
	if err != nil {
		return false, err
	}
	r.sum.Starts++
	r.now = Progress{Target: r.name, Of: len(j.Targets), At: r.at, Budget: left}
	began := time.Now()
	limited, stop := context.WithTimeout(ctx, left+overrun)
	defer stop()
	c := &child{dir: dirs.work, line: r.line, env: append(os.Environ(),
		fuzz.EnvSubjects+"="+strings.Join(j.Subjects, ","), fuzz.EnvFindings+"="+j.Out,
		fuzz.EnvDebug+"="+j.Boot.Debug, fuzz.EnvRules+"="+j.Boot.Rules.String(),
		fuzz.EnvStats+"="+dirs.stats)}
	ticking := r.tick(dirs.stats, began)
	failure := c.run(limited, j.Binary.Path, "-test.run=^$", "-test.fuzz=^"+r.name+"$",
		"-test.fuzztime="+fuzzTime(left), "-test.fuzzcachedir="+j.Cache,
		"-test.parallel="+strconv.Itoa(j.Parallel), "-test.fuzzminimizetime="+minimise)
	ticking()
	r.count(dirs.stats, time.Since(began))
	fresh, err := r.fresh()
	if err != nil {
		return false, err
	}
	e := ending{failure: failure, output: c.tail.lines, fresh: fresh,
		overrun: limited.Err() != nil && ctx.Err() == nil, interrupted: ctx.Err() != nil}
	if e.inputs, err = r.keepInputs(dirs.work); err != nil {
		return false, err
	}
	return r.ended(&e)
}

// fuzzTime spells a time for the fuzz engine, which takes none of 0.
func fuzzTime(d time.Duration) string {
	return max(d.Round(time.Millisecond), time.Millisecond).String()
}

// fuzzLine is a line of the fuzz engine's progress.
var fuzzLine = regexp.MustCompile(`^fuzz: elapsed: \S+, execs: (\d+) \([^)]*\)` +
	`(?:, new interesting: (\d+) \(total: (\d+)\))?`)

// line takes one line of the target's output.
func (r *targetRun) line(text string) {
	m := fuzzLine.FindStringSubmatch(text)
	if m == nil {
		return
	}
	running.Lock()
	defer running.Unlock()
	r.now.Execs, _ = strconv.ParseInt(m[1], 10, 64)
	r.now.New, _ = strconv.Atoi(m[2])
	if total, err := strconv.Atoi(m[3]); err == nil {
		r.sum.Corpus = total
	}
}

// tick reports the progress now and then until the function that it returns is
// called.
func (r *targetRun) tick(stats string, began time.Time) (stop func()) {
	if r.job.Progress == nil {
		return func() {}
	}
	done, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		clock := time.NewTicker(reportTick)
		defer clock.Stop()
		for {
			select {
			case <-done:
				return
			case <-clock.C:
			}
			running.Lock()
			now := r.now
			running.Unlock()
			s := readStats(stats)
			now.Elapsed, now.Points = time.Since(began), s.points
			now.Execs = max(now.Execs, int64(s.inputs)) // the engine prints every 3 s only
			r.job.Progress(now)
		}
	}()
	return func() {
		close(done)
		<-gone
	}
}

// count adds what a start did to the sums.
func (r *targetRun) count(dir string, took time.Duration) {
	s := readStats(dir)
	r.sum.Seconds += took.Seconds()
	r.sum.Execs += max(r.now.Execs, int64(s.inputs)) // a short run prints none
	r.sum.Interesting += r.now.New
	r.sum.Points += s.points
	for name, c := range s.tally {
		r.res.Tally.Add(name, *c)
	}
}

// fresh lists the identities that no start has met before.
func (r *targetRun) fresh() ([]Finding, error) {
	all, err := gather(r.job.Out, r.job.before)
	if err != nil {
		return nil, err
	}
	var out []Finding
	for _, f := range all {
		if _, ok := r.job.met[f.Identity]; ok {
			continue
		}
		r.job.met[f.Identity] = r.name
		out = append(out, f)
		r.job.Log("%s found %s", r.name, f.Identity)
	}
	return out, nil
}
