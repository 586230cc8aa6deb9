package engine

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	"allocfuzz/fuzz"
)

// A Slice is one start of one target.
type Slice struct {
	Target   string
	Subjects []string
	Execs    int64         // inputs to run, 0 for as many as there is time for
	For      time.Duration // at most
	At, Of   int           // for the progress: number of the target, from 1, and of targets
}

// A SliceResult is what a slice gave.
type SliceResult struct {
	Target  string
	Ending  Ending
	Seconds float64
	Execs   int64
	Points  uint64
	New     int            // inputs with new coverage
	Corpus  int            // inputs kept
	Tally   Tally          // what the subjects did
	Known   map[string]int // findings of known bugs: subject, tab, title
	Fresh   []Finding      // of bugs that no slice of the job has met before
	Inputs  []string       // that made the target fail, as kept beside the findings
}

// A running slice.
type sliceRun struct {
	job   *Job
	slice Slice
	work  string // its folder
	stats string // folder of counts
	mu    sync.Mutex
	now   Progress
	total int    // inputs in the fuzzer's corpus
	ended string // why a worker ended itself
}

// Slice runs a target's process once. What it finds does not stop it; an error is a fault of
// this project or of the fuzz engine.
func (j *Job) Slice(ctx context.Context, s Slice) (*SliceResult, error) {
	res := &SliceResult{Target: s.Target, Ending: Broken}
	r, known, err := j.prepare(&s)
	if err != nil {
		return res, err
	}
	began := time.Now()
	limited, stop := context.WithTimeout(ctx, s.For+overrun)
	defer stop()
	c := &child{dir: r.work, line: r.line, env: j.env(&s, r.stats, known)}
	ticking := r.tick(began)
	failure := c.run(limited, j.Binary.Path, j.arguments(&s)...)
	ticking()
	r.count(res, time.Since(began))
	if res.Fresh, err = j.fresh(s.Target, res.Known); err != nil {
		return res, err
	}
	e := &ended{run: r, res: res, failure: failure, output: c.tail.lines,
		overrun: limited.Err() != nil && ctx.Err() == nil, interrupted: ctx.Err() != nil}
	if res.Inputs, err = r.keepInputs(c.tail.lines); err != nil {
		return res, err
	}
	res.Ending, err = e.judge()
	return res, err
}

// prepare makes the folder of a slice, and the file of the bugs that are known.
func (j *Job) prepare(s *Slice) (r *sliceRun, known string, err error) {
	if j.before == nil {
		j.before = reports(j.Out)
	}
	if j.Buckets == nil {
		j.Buckets = &Buckets{}
	}
	if j.Known == nil {
		j.Known = &fuzz.Known{}
	}
	j.starts++
	r = &sliceRun{job: j, slice: *s,
		work: filepath.Join(j.Work, s.Target+"-"+strconv.Itoa(j.starts)),
		now:  Progress{Target: s.Target, Of: s.Of, At: s.At, Budget: s.For}}
	r.stats = filepath.Join(r.work, "stats")
	if err := os.MkdirAll(r.stats, 0o777); err != nil {
		return nil, "", err
	}
	all := &fuzz.Known{}
	all.Join(j.Known)
	all.Join(j.Buckets.Known())
	known = filepath.Join(r.work, "known")
	return r, known, fuzz.WriteBytes(known, all.Text())
}

// env is the environment of a slice.
func (j *Job) env(s *Slice, stats, known string) []string {
	return append(os.Environ(),
		fuzz.EnvSubjects+"="+strings.Join(s.Subjects, ","), fuzz.EnvFindings+"="+j.Out,
		fuzz.EnvDebug+"="+j.Boot.Debug, fuzz.EnvRules+"="+j.Boot.Rules.String(),
		fuzz.EnvStats+"="+stats, fuzz.EnvKnown+"="+known, fuzz.EnvGoOn+"=1")
}

// arguments are those of the fuzz binary.
func (j *Job) arguments(s *Slice) []string {
	most := fuzzTime(s.For)
	if s.Execs > 0 {
		most = strconv.FormatInt(s.Execs, 10) + "x"
	}
	return []string{"-test.run=^$", "-test.fuzz=^" + s.Target + "$", "-test.fuzztime=" + most,
		"-test.fuzzcachedir=" + j.Cache, "-test.parallel=" + strconv.Itoa(j.Parallel),
		"-test.fuzzminimizetime=" + minimise}
}

// fuzzTime spells a time for the fuzz engine, which takes none of 0.
func fuzzTime(d time.Duration) string {
	return max(d.Round(time.Millisecond), time.Millisecond).String()
}

// fuzzLine is a line of the fuzz engine's progress.
var fuzzLine = regexp.MustCompile(`^fuzz: elapsed: \S+, execs: (\d+) \([^)]*\)` +
	`(?:, new interesting: (\d+) \(total: (\d+)\))?`)

// line takes one line of the target's output.
func (r *sliceRun) line(text string) {
	m := fuzzLine.FindStringSubmatch(text)
	if m == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now.Execs, _ = strconv.ParseInt(m[1], 10, 64)
	r.now.New, _ = strconv.Atoi(m[2])
	if total, err := strconv.Atoi(m[3]); err == nil {
		r.total = total
	}
}

// tick reports the progress now and then until the function that it returns is
// called.
func (r *sliceRun) tick(began time.Time) (stop func()) {
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
			r.mu.Lock()
			now := r.now
			r.mu.Unlock()
			s := readStats(r.stats)
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

// count notes what the slice did.
func (r *sliceRun) count(res *SliceResult, took time.Duration) {
	s := readStats(r.stats)
	res.Seconds = took.Seconds()
	res.Execs = max(r.now.Execs, int64(s.inputs)) // a short run prints none
	res.New, res.Corpus, res.Points = r.now.New, r.total, s.points
	res.Tally, res.Known, r.ended = s.tally, s.known, s.ended
}

// fresh sorts in what a slice wrote down, and what it counted of bugs that earlier ones met.
func (j *Job) fresh(target string, met map[string]int) ([]Finding, error) {
	out, err := j.Buckets.Gather(j.Out, j.before)
	for i := range out {
		out[i].Target = target
		j.Buckets.Met(&out[i])
		j.Log("%s found %s", target, out[i].Identity)
	}
	//tidy:maporder sums
	for key, n := range met {
		j.Buckets.Count(key, n)
	}
	return out, err
}
