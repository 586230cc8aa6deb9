package nightly

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"allocfuzz/fuzz"
)

// A SliceReport is what a slice brought.
type SliceReport struct {
	Execs   int64
	Points  uint64
	New     int // inputs with new coverage, or searches with new final states
	Corpus  int // inputs kept
	Seconds float64
	Flake   bool           // the fuzz engine failed, without an input
	Death   bool           // a worker died
	Known   map[string]int // findings of known bugs: subject, tab, title
}

// Steps carry out the parts of a night. Each notes in the state how long it took. What a step does
// outside of the state must be such that it can be done again.
type Steps interface {
	// Prepare builds what is needed and brings the corpora to where the fuzzer looks for them.
	Prepare(ctx context.Context, s *State) error
	// Slice spends about so much time on an arm.
	Slice(ctx context.Context, s *State, a *Arm, d time.Duration) (*SliceReport, error)
	// Pending are the reports of findings that are on disk, in order, handled or not.
	Pending() ([]string, error)
	// File makes of a report what it becomes.
	File(ctx context.Context, s *State, report string) (*Filed, error)
	// Finish thins the corpora, replays what is committed, and clears away. It also comes when
	// the night was interrupted.
	Finish(ctx context.Context, s *State) error
}

// A Night is one run of a night's work.
type Night struct {
	Dir   string // of the state, which must exist
	State *State
	Steps Steps
	Log   func(format string, args ...any)
	// Faults are what went wrong with the work itself; what it meets is in the state.
	Faults []error
}

// Begin takes up the night that a folder has the state of when that is not over and was asked to
// do the same, and begins one otherwise. It says whether it was taken up.
func (n *Night) Begin(fresh *State, anew bool) (resumed bool, err error) {
	if err := fuzz.RemoveHalf(n.Dir, nil); err != nil { // nobody else writes here: see Lock
		return false, err
	}
	old, err := Load(n.Dir)
	var bad *BadState
	if errors.As(err, &bad) {
		n.Log("%v", err)
		err = nil
	}
	if err != nil {
		return false, err
	}
	switch {
	case old == nil || old.Ended || anew:
	case old.Key == fresh.Key && !old.fits(fresh):
		n.Log("the state of the last night is damaged: a new one begins")
	case old.Key != fresh.Key:
		n.Log("the last night was not over, and was asked to do something else: a new one begins")
	default:
		n.State = old
		old.Resumed++
		return true, old.Save(n.Dir)
	}
	fresh.Schema = schema
	n.State = fresh
	return false, fresh.Save(n.Dir)
}

// reserve is how much of a budget is for the end of a night.
func reserve(budget time.Duration) time.Duration {
	return min(max(budget/25, 2*time.Second), 5*time.Minute)
}

// Run works until the budget is spent or ctx ends. An error is one that keeps the night from
// going on; it can be taken up again.
func (n *Night) Run(ctx context.Context) error {
	s := n.State
	if err := n.Steps.Prepare(ctx, s); err != nil {
		return err
	}
	budget := time.Duration(s.Budget * float64(time.Second))
	end := budget - reserve(budget)
	err := n.file(ctx)
	for err == nil && ctx.Err() == nil && s.Total() < end {
		a := s.Pick()
		if a == nil {
			n.Log("no target gets more time: the night ends early")
			break
		}
		err = n.slice(ctx, a, min(s.slice(), max(end-s.Total(), time.Second)))
		if err == nil {
			err = n.file(ctx)
		}
	}
	if err != nil {
		return err
	}
	if ctx.Err() == nil && !slices.ContainsFunc(s.Arms, func(a *Arm) bool { return a.Slices > 0 }) {
		n.Faults = append(n.Faults, fmt.Errorf("the %v were over before anything was fuzzed: "+
			"give --for more time", budget))
	}
	if err := n.Steps.Finish(ctx, s); err != nil {
		return err
	}
	s.Ended = ctx.Err() == nil
	return s.Save(n.Dir)
}

// slice spends a slice on an arm.
func (n *Night) slice(ctx context.Context, a *Arm, d time.Duration) error {
	r, err := n.Steps.Slice(ctx, n.State, a, d)
	if Stops(err) {
		return err
	}
	if err != nil {
		a.Left = "a fault of the harness or of the fuzz engine"
		n.Faults = append(n.Faults, fmt.Errorf("%s: %w", a.Name, err))
		n.Log("%s: %v", a.Name, err)
	}
	if r != nil {
		a.took(r)
		if n.State.Known == nil {
			n.State.Known = map[string]int{}
		}
		//tidy:maporder sums
		for key, times := range r.Known {
			n.State.Known[key] += times
		}
	}
	if a.Left != "" {
		n.Log("%s gets no more time: %s", a.Name, a.Left)
	}
	return n.State.Save(n.Dir)
}

// file makes something of every report that is on disk and of which nothing was made.
func (n *Night) file(ctx context.Context) error {
	reports, err := n.Steps.Pending()
	if err != nil {
		return err
	}
	for _, report := range reports {
		if n.State.Handled(report) {
			continue
		}
		if ctx.Err() != nil {
			return nil // the next night files it
		}
		f, err := n.Steps.File(ctx, n.State, report)
		if err != nil && (Stops(err) || ctx.Err() != nil) {
			return fmt.Errorf("%s: %w", report, err)
		}
		if err != nil { // one report must not keep the night from going on
			n.Faults = append(n.Faults, fmt.Errorf("%s: %w", report, err))
			f = &Filed{Fate: Faulty, Why: err.Error()}
		}
		if f == nil {
			continue // cut short
		}
		f.Report = report
		n.State.Filed = append(n.State.Filed, *f)
		if err := n.State.Save(n.Dir); err != nil {
			return err
		}
		n.tell(f)
	}
	return nil
}

// tell says what became of a finding.
func (n *Night) tell(f *Filed) {
	switch f.Fate {
	case Same, Faulty:
	case Regression:
		n.Log("FOUND %s: %d lines, %s", f.Identity, f.Lines, f.File)
	default:
		n.Log("FOUND %s: %s: %s", f.Identity, f.Fate, f.Why)
	}
}

// Stops says whether an error is one after which nothing else can be done: the disk is full or
// cannot be written.
func Stops(err error) bool {
	return errors.Is(err, errDiskFull) || errors.Is(err, errTooBig) ||
		errors.Is(err, os.ErrPermission)
}
