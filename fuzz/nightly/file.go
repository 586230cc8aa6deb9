package nightly

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/fuzz/minimise"
	"allocfuzz/fuzz/regress"
	"allocfuzz/fuzz/reproduce"
	"allocfuzz/oracle"
)

// The most time for making one program small, and for one run of it.
const (
	minimiseMost = time.Minute
	runMost      = 10 * time.Second
)

// File minimises what a report tells of, sees that it holds, and writes the regression. When ctx
// ends before, it is nil: there is a next time.
func (w *work) File(ctx context.Context, s *State, report string) (*Filed, error) {
	f, err := engine.ReadReport(filepath.Join(w.out, report))
	if err != nil {
		return nil, err
	}
	out := &Filed{Identity: f.Identity, Subject: f.Subject, Title: f.Title, Also: f.Also}
	if _, ok := s.Bugs().Find(f.Subject, f.Title, f.Also...); ok {
		out.Fate, out.Why = Same, "this night has met the bug before"
		return out, nil
	}
	if _, ok := w.known.Find(f.Subject, f.Title, f.Also...); ok {
		out.Fate, out.Why = Same, "a committed program expects it"
		return out, nil
	}
	start := time.Now()
	limited, cancel := context.WithTimeout(ctx, minimiseMost)
	small, err := minimise.Finding(limited, &f, minimise.Options{Limit: runMost})
	cancel()
	s.Spend(Minimising, time.Since(start))
	switch {
	case ctx.Err() != nil:
		return nil, nil
	case errors.Is(err, minimise.ErrProcess):
		out.Fate, out.Program = Kept, f.File
		out.Why = err.Error() + ": it cannot be committed as a program"
		return out, nil
	case errors.Is(err, minimise.ErrSilent):
		out.Fate, out.Program, out.Why = Flaky, f.File, "it did not show again"
		return out, nil
	case err != nil:
		return nil, err
	case small.Flaky:
		out.Fate, out.Program = Flaky, f.File
		out.Why = fmt.Sprintf("it showed in %d of %d runs", small.Shown, small.Runs)
		return out, nil
	}
	return out, w.regression(ctx, s, &f, small, out)
}

// regression writes a minimised program as a regression, and notes what became of it.
func (w *work) regression(ctx context.Context, s *State, f *engine.Finding,
	small *minimise.Result, out *Filed) error {
	finding := engine.NewFinding(small.Report.Finding, "", "")
	finding.Merge(f) // of the larger program; the title is the same
	started, _, _ := strings.Cut(s.Started, "T")
	from := f.Target
	if from == "" {
		from = "fuzzing and exploring"
	}
	made, err := regress.Make(small.Program, &finding,
		regress.Meta{Found: "a night of " + from, Date: started})
	if err != nil {
		return err
	}
	text := prog.Format(made)
	out.Fate, out.Lines = Regression, small.After.Lines
	out.Also = finding.Also
	out.Program = strings.TrimSuffix(f.File, ".prog") + ".min"
	if err := fuzz.WriteBytes(out.Program, text); err != nil {
		return err
	}
	start := time.Now()
	why, err := w.holds(ctx, text, &finding)
	s.Spend(Verifying, time.Since(start))
	if err != nil {
		return err
	}
	if why != "" {
		out.Fate, out.Why = Flaky, why
		return nil
	}
	out.HandOn, err = reproduce.Beside(out.Program, small.Bug.Subjects(), f.Identity, small.Program)
	if err != nil {
		return err
	}
	start = time.Now()
	out.Race = w.race(ctx, out.Program)
	s.Spend(Racing, time.Since(start))
	if w.branch != nil {
		out.File, out.Commit, err = w.branch.add(ctx, made, &finding)
		return err
	}
	out.File, err = regress.Write(filepath.Join(w.opt.Root, regress.Folder), made, &finding)
	if readOnly(err) {
		out.Why = fmt.Sprintf("the checkout cannot be written (%v)", err)
		w.opt.Log("%s: %s: the regression is in %s", f.Identity, out.Why, w.out)
		out.File, err = regress.Write(filepath.Join(w.out, "regress"), made, &finding)
	}
	return err
}

// readOnly says whether an error is that something may not be written.
func readOnly(err error) bool {
	return errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.EROFS)
}

// holds says why a regression would not hold; "" when it does.
func (w *work) holds(ctx context.Context, text []byte, f *engine.Finding) (string, error) {
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	checks, err := regress.Verify(ctx, r, w.known, "new.prog", text)
	if err != nil {
		return "", err
	}
	for _, c := range checks {
		if c.Subject == f.Subject && !c.OK() {
			return fmt.Sprintf("replayed it is not the same: %s: %s", c.State, c.Why), nil
		}
	}
	return "", nil
}

// raceBinary builds the command with the race detector; else it says why there is none.
func (w *work) raceBinary(ctx context.Context) (bin, why string) {
	cc, err := exec.CommandContext(ctx, "go", "env", "CC").Output()
	if err == nil {
		_, err = exec.LookPath(strings.TrimSpace(string(cc)))
	}
	if err != nil {
		return "", "there is no C compiler, which the race detector needs"
	}
	bin = filepath.Join(w.tmp, "allocfuzz.race")
	cmd := exec.CommandContext(ctx, "go", "build", "-race", "-o", bin, "./cmd/allocfuzz")
	cmd.Dir, cmd.Env = w.opt.Root, append(os.Environ(), "CGO_ENABLED=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Sprintf("go build -race: %v: %s", err, bytes.TrimSpace(out))
	}
	return bin, ""
}

// race replays a program under the race detector and says what that says.
func (w *work) race(ctx context.Context, file string) string {
	if w.racer == "" {
		return ""
	}
	cmd := exec.CommandContext(ctx, w.racer, "corpus", "verify", file)
	out, err := cmd.CombinedOutput()
	switch {
	case bytes.Contains(out, []byte("DATA RACE")):
		return "a data race in allocfuzz itself or in a subject:\n" + string(out)
	case err != nil:
		return fmt.Sprintf("%v: %s", err, bytes.TrimSpace(out))
	}
	return "silent"
}

// verify replays everything that is committed.
func (w *work) verify(ctx context.Context) error {
	known, _ := engine.Expected(w.opt.Root) // with what this night has added; see below
	names, err := regress.Committed(w.opt.Root)
	if err != nil {
		return err
	}
	files, err := regress.Read(names)
	if err != nil {
		return err
	}
	checks, err := regress.VerifyAll(ctx, known, files)
	last := ""
	for i := range checks {
		c := &checks[i]
		if c.File != last {
			last = c.File
			w.Summary.Programs++
		}
		if c.Broken() {
			w.Summary.Broken = append(w.Summary.Broken, c.String())
		}
	}
	return err
}
