package libfuzzer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// A RunResult is what fuzzing a target gave: crashes and findings of this run, not those that lay
// in Dir before.
type RunResult struct {
	Target   string
	Execs    int64
	Speed    float64 // execs/s
	Points   float64 // points/s of the simulated machine
	Corpus   int     // inputs: after the merge, or all that are there when it was interrupted
	Crashes  []string
	Findings int    // programs
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
// end, so that it has what covers something and no more. When ctx ends it tells what there is by
// then, and the corpus stays as it is. Beside an error it returns what is known all the same.
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
	before, err := filesIn(r.Dir)
	if err != nil {
		return nil, err
	}
	from := time.Now()
	out, failed := (&engineRun{bin, r, opt, work}).start(ctx, corpus, start)
	took := time.Since(from).Seconds()
	r.Execs = execs(out)
	r.Speed, r.Points = float64(r.Execs)/took, float64(engine.Points(stats))/took
	if err := r.left(before); err != nil {
		return r, err
	}
	if failed != nil && len(r.Crashes) == 0 && r.Findings == 0 {
		return r, fmt.Errorf("%s: %w, and it left no crash\n%s", bin, failed, tail(out))
	}
	return r, b.merge(ctx, bin, corpus, start, r)
}

// filesIn are the files of a folder by name, but for those that somebody is still writing.
func filesIn(dir string) (map[string]os.FileInfo, error) {
	list, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := map[string]os.FileInfo{}
	for _, e := range list {
		info, err := e.Info()
		switch {
		case errors.Is(err, fs.ErrNotExist) || fuzz.Half(e.Name()):
		case err != nil:
			return nil, err
		default:
			out[e.Name()] = info
		}
	}
	return out, nil
}

// artifact is how libFuzzer calls what it leaves: crash-, timeout-, oom- and so on, and a hash.
var artifact = regexp.MustCompile(`^[a-z-]+-[0-9a-f]+$`)

// left notes the files of the folder of findings that were not there before, or were written anew:
// a crash that was there already is found once more under the same name.
func (r *RunResult) left(before map[string]os.FileInfo) error {
	now, err := filesIn(r.Dir)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(now)) {
		is, was := now[name], before[name]
		if was != nil && os.SameFile(was, is) && was.ModTime().Equal(is.ModTime()) {
			continue
		}
		switch {
		case artifact.MatchString(name):
			r.Crashes = append(r.Crashes, filepath.Join(r.Dir, name))
		case filepath.Ext(name) == ".prog":
			r.Findings++
		}
	}
	return nil
}

// engineRun is one start of an engine.
type engineRun struct {
	bin  string
	r    *RunResult
	opt  *RunOptions
	work string // folder to run in
}

// start runs the engine. The error is how it ended: of one that found a crash, too, but not of one
// that was interrupted.
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
	if ctx.Err() != nil {
		err = nil
	}
	return out, err
}

// merge makes a corpus one of those inputs only that cover something.
func (b *Build) merge(ctx context.Context, bin, corpus, start string, r *RunResult) error {
	work, err := os.MkdirTemp(b.Dir, "merge-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	list, err := os.ReadDir(corpus)
	if err != nil {
		return err
	}
	r.Corpus = len(list)
	if ctx.Err() != nil {
		return nil
	}
	m, err := Merge(ctx, bin, start, corpus, work)
	if ctx.Err() != nil {
		return nil
	}
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

// The figures in the output: a running sum of forked processes or of one, which says it at the end
// too unless it is interrupted.
var (
	running = regexp.MustCompile(`(?m)^#(\d+)(?:: |\t[A-Za-z]+ +)cov: `)
	ended   = regexp.MustCompile(`(?m)^(?:Done|stat::number_of_executed_units:) (\d+)`)
)

// execs is the number of inputs that an engine says it ran.
func execs(out []byte) (n int64) {
	for _, re := range []*regexp.Regexp{running, ended} {
		for _, m := range re.FindAllSubmatch(out, -1) {
			k, _ := strconv.ParseInt(strings.TrimSpace(string(m[1])), 10, 64) // digits
			n = max(n, k)
		}
	}
	return n
}
