package engine

import (
	"context"
	"fmt"
	"time"

	"allocfuzz/fuzz"
)

// A Job is the fuzzing of targets, in slices.
type Job struct {
	Binary   *Binary
	Targets  []string      // of Run
	Subjects []string      // names of subjects; none are the sound ones
	Boot     fuzz.Boot     // boot parameters for inputs without any
	For      time.Duration // of all targets together, for Run
	Parallel int           // workers
	Work     string        // folder for what is thrown away, which must exist
	Cache    string        // folder of the corpora that the fuzzer keeps
	Out      string        // folder for findings, which must exist
	Known    *fuzz.Known   // bugs that count as known
	Buckets  *Buckets      // of the bugs that are met besides; nil for new ones
	Progress func(Progress)
	Log      func(format string, args ...any)

	before map[string]bool // reports that were there already
	starts int
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
	Deaths      int     `json:"deaths"` // of workers: hung, out of memory, killed or exited
}

// A Result is what a job gave.
type Result struct {
	Targets []TargetResult
	Tally   Tally
	Known   map[string]int // findings of known bugs: subject, tab, title
	Faults  []error        // of this project or of the fuzz engine: the run proves nothing
}

// Limits of the fuzzing of one target.
const (
	deathsMax  = 4                // a target whose workers die so often is left
	leastTime  = time.Second      // below which a start is not worth it
	overrun    = 20 * time.Second // the fuzzer's hang limit of 10 s, and time to write down
	minimise   = "2s"             // of the go command, which knows bytes only
	reportTick = 500 * time.Millisecond
)

// Run fuzzes every target for its share of the time; what it finds is in the job's
// buckets. What a target leaves is for the next ones, what it takes to start and to
// end a process is not part of it. Run ends early when ctx does.
func (j *Job) Run(ctx context.Context) *Result {
	res := &Result{Tally: Tally{}, Known: map[string]int{}}
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
	return res
}

// A targetRun is the fuzzing of one target, in one or more slices.
type targetRun struct {
	job  *Job
	name string
	at   int
	res  *Result
	sum  TargetResult
}

// fuzz starts the target until its time is over, something goes wrong, or its workers die
// again and again.
func (r *targetRun) fuzz(ctx context.Context, budget time.Duration) {
	end := time.Now().Add(budget)
	for ctx.Err() == nil {
		left := time.Until(end)
		if r.sum.Starts == 0 {
			left = budget
		} else if left < leastTime {
			break
		}
		res, err := r.job.Slice(ctx, Slice{Target: r.name, Subjects: r.job.Subjects, For: left,
			At: r.at, Of: len(r.job.Targets)})
		r.count(res)
		if err != nil {
			r.res.Faults = append(r.res.Faults, fmt.Errorf("%s: %w", r.name, err))
			break
		}
		if !res.Ending.GoesOn() {
			break
		}
		if r.sum.Deaths == deathsMax {
			r.job.Log("%s: its workers died %d times: left with %v of its time", r.name,
				deathsMax, time.Until(end).Round(time.Second))
			break
		}
	}
	if r.sum.Seconds > 0 {
		r.sum.ExecsPerS = float64(r.sum.Execs) / r.sum.Seconds
		r.sum.PointsPerS = float64(r.sum.Points) / r.sum.Seconds
	}
}

// count adds what a slice did to the sums.
func (r *targetRun) count(s *SliceResult) {
	r.sum.Starts++
	r.sum.Seconds += s.Seconds
	r.sum.Execs += s.Execs
	r.sum.Interesting += s.New
	r.sum.Points += s.Points
	r.sum.Corpus = max(s.Corpus, r.sum.Corpus)
	switch {
	case s.Ending == Flake:
		r.sum.Flakes++
	case s.Ending.Death():
		r.sum.Deaths++
	}
	//tidy:maporder sums
	for name, c := range s.Tally {
		r.res.Tally.Add(name, *c)
	}
	//tidy:maporder sums
	for key, n := range s.Known {
		r.res.Known[key] += n
	}
}
