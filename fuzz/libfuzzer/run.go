package libfuzzer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
)

// RunOptions say how targets are fuzzed.
type RunOptions struct {
	For    time.Duration // of each
	Fork   int           // processes
	Corpus string        // folder of corpora, a folder a target; "" is corpus in the build's
}

// A RunResult is what fuzzing a target gave.
type RunResult struct {
	Target   string
	Execs    int64
	Speed    float64 // execs/s
	Points   float64 // points/s of the simulated machine
	Corpus   int     // inputs, after the merge
	Crashes  []string
	Findings int    // programs in Dir
	Dir      string // of findings and crashes
}

// String tells it in a line, and what to do with crashes.
func (r *RunResult) String() string {
	s := fmt.Sprintf("%s: %d execs, %.0f/s, %.2fM points/s, %d inputs kept", r.Target, r.Execs,
		r.Speed, r.Points/1e6, r.Corpus)
	for _, c := range r.Crashes {
		s += fmt.Sprintf("\nCRASH %s\n  allocfuzz corpus import --target %s %s", c, r.Target,
			fuzz.Argument(c))
	}
	if r.Findings > 0 {
		s += fmt.Sprintf("\nFOUND %d, see allocfuzz report %s", r.Findings, fuzz.Argument(r.Dir))
	}
	return s
}

// Run fuzzes a target that Project built: from its seeds and its corpus, which is merged in the
// end, so that it has what covers something and no more.
func (b *Build) Run(ctx context.Context, target string, opt *RunOptions) (*RunResult, error) {
	bin := filepath.Join(b.Dir, target)
	corpus := opt.Corpus
	if corpus == "" {
		corpus = filepath.Join(b.Dir, "corpus")
	}
	corpus, err := filepath.Abs(filepath.Join(corpus, target))
	if err != nil {
		return nil, err
	}
	r := &RunResult{Target: target, Dir: filepath.Join(b.Dir, "findings", target)}
	for _, dir := range []string{corpus, r.Dir} {
		if err := os.MkdirAll(dir, 0o777); err != nil {
			return nil, err
		}
	}
	work, err := os.MkdirTemp(b.Dir, "run-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	start, stats := filepath.Join(work, "seeds"), filepath.Join(work, "stats")
	for _, dir := range []string{start, stats} {
		if err := os.Mkdir(dir, 0o777); err != nil {
			return nil, err
		}
	}
	for i, data := range fuzz.SeedsOf(target) {
		name := filepath.Join(start, strconv.Itoa(i))
		if err := os.WriteFile(name, data, 0o666); err != nil {
			return nil, err
		}
	}
	from := time.Now()
	out, err := (&engineRun{bin, r, opt, work}).start(ctx, corpus, start)
	took := time.Since(from).Seconds()
	if err != nil {
		return nil, err
	}
	r.Execs = execs(out)
	r.Speed, r.Points = float64(r.Execs)/took, float64(engine.Points(stats))/took
	if r.Crashes, err = filepath.Glob(filepath.Join(r.Dir, "*-*[0-9a-f]")); err != nil {
		return nil, err
	}
	programs, err := filepath.Glob(filepath.Join(r.Dir, "*.prog"))
	if err != nil {
		return nil, err
	}
	r.Findings = len(programs)
	return r, b.merge(ctx, bin, corpus, start, r)
}

// engineRun is one start of an engine.
type engineRun struct {
	bin  string
	r    *RunResult
	opt  *RunOptions
	work string // folder to run in
}

// start runs the engine. That it ends with a failure means a crash, which has left a file.
func (e *engineRun) start(ctx context.Context, corpora ...string) ([]byte, error) {
	bin, r, opt, work := e.bin, e.r, e.opt, e.work
	seconds := max(1, int(opt.For.Seconds()))
	args := []string{"-max_total_time=" + strconv.Itoa(seconds), "-timeout=25",
		"-rss_limit_mb=4096", fmt.Sprintf("-max_len=%d", inputMost),
		"-artifact_prefix=" + r.Dir + string(filepath.Separator)}
	if opt.Fork > 1 {
		args = append(args, "-fork="+strconv.Itoa(opt.Fork))
	}
	if _, err := os.Stat(bin + ".dict"); err == nil {
		args = append(args, "-dict="+bin+".dict")
	}
	cmd := exec.CommandContext(ctx, bin, append(args, corpora...)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 20 * time.Second
	cmd.Dir = work
	cmd.Env = append(os.Environ(), fuzz.EnvFindings+"="+r.Dir, "TMPDIR="+work,
		fuzz.EnvStats+"="+filepath.Join(work, "stats"))
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		return out, err
	}
	left, missing := filepath.Glob(filepath.Join(r.Dir, "*"))
	if err != nil && ctx.Err() == nil && (missing != nil || len(left) == 0) {
		return out, fmt.Errorf("%s: %w, and it left no crash\n%s", bin, err, tail(out))
	}
	return out, nil
}

// merge makes a corpus one of those inputs only that cover something.
func (b *Build) merge(ctx context.Context, bin, corpus, start string, r *RunResult) error {
	work, err := os.MkdirTemp(b.Dir, "merge-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	list, err := os.ReadDir(corpus)
	if err != nil || ctx.Err() != nil {
		r.Corpus = len(list)
		return err
	}
	m, err := Merge(ctx, bin, start, corpus, work)
	if err != nil {
		return err
	}
	keep := map[string]bool{}
	for _, name := range append(m.Kept, m.Dead...) {
		keep[name] = true
	}
	for _, e := range list {
		if !keep[e.Name()] {
			if err := os.Remove(filepath.Join(corpus, e.Name())); err != nil {
				return err
			}
		}
	}
	r.Corpus = len(keep)
	return nil
}

// The figures in the output: of forked processes a running sum, of one process a line at the end.
var (
	forked = regexp.MustCompile(`(?m)^#(\d+): cov: `)
	ended  = regexp.MustCompile(`(?m)^(?:Done|stat::number_of_executed_units:) (\d+)`)
)

// execs is the number of inputs that an engine says it ran.
func execs(out []byte) (n int64) {
	for _, re := range []*regexp.Regexp{forked, ended} {
		for _, m := range re.FindAllSubmatch(out, -1) {
			k, _ := strconv.ParseInt(strings.TrimSpace(string(m[1])), 10, 64) // digits
			n = max(n, k)
		}
	}
	return n
}
