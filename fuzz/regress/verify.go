package regress

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"

	"allocfuzz/corpus"
	"allocfuzz/corpus/prog"
	"allocfuzz/fuzz"
	"allocfuzz/fuzz/engine"
	"allocfuzz/impls"
	"allocfuzz/impls/all"
	"allocfuzz/oracle"
)

// A State is what became of what a program expects of a subject. Its spelling is public.
type State string

// The states.
const (
	Holds      State = "holds"                // it shows what it expects, or is silent as it should
	Gone       State = "no longer reproduces" // the subject is silent
	Stale      State = "schedule is stale"    // a departure of it is at a point that is not there
	Changed    State = "changed its title"    // it shows something else
	Unexpected State = "unexpected finding"   // of a subject of which nothing is expected
	LeftOut    State = "left out"             // the subject does not run on its machine
	Unusable   State = "cannot be used"       // it does not parse, or names what is not there
)

// States are all of them, in the order in which they are told.
func States() []State {
	return []State{Holds, Gone, Changed, Stale, Unexpected, LeftOut, Unusable}
}

// A Check is what a program showed on a subject: on each of which it expects something, and on
// those of which it does not when they are not silent.
type Check struct {
	File     string `json:"file"`
	Subject  string `json:"subject"` // "" of a file that cannot be used or expects nothing
	State    State  `json:"state"`
	Expected string `json:"expected"` // title, "" when nothing is expected
	Title    string `json:"title"`    // that it showed, "" for none
	Identity string `json:"identity"` // of what it showed
	Why      string `json:"why"`      // where something is wrong: what, and what to do
	Err      error  `json:"-"`        // of a file that cannot be used
}

// OK says whether it holds.
func (c *Check) OK() bool { return c.State == Holds }

// Broken says whether something is wrong: a subject that is left out has nothing to say.
func (c *Check) Broken() bool { return !c.OK() && c.State != LeftOut }

// String says what is wrong, and where.
func (c *Check) String() string {
	return fmt.Sprintf("%s: %s: %s: %s", c.File, c.Subject, c.State, c.Why)
}

// Verify replays a program on the sound subjects and on those of which it expects a bug. What
// other programs expect is known, and no surprise here. An error is that ctx ended.
func Verify(ctx context.Context, r *engine.Replayer, known *fuzz.Known, name string,
	text []byte) ([]Check, error) {
	p, err := prog.Parse(name, bytes.NewReader(text))
	if err != nil {
		return []Check{unusable(name, err)}, nil
	}
	owners := engine.Owners(p)
	subjects := slices.Clone(owners)
	for _, v := range all.Variants() {
		if v.Sound && !slices.Contains(owners, v) {
			subjects = append(subjects, v)
		}
	}
	slices.SortStableFunc(subjects, func(a, b *impls.Variant) int { // the reference stays first
		return slices.Index(all.Variants(), a) - slices.Index(all.Variants(), b)
	})
	list, err := r.Program(ctx, p, subjects)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err != nil {
		return []Check{unusable(name, err)}, nil
	}
	var out []Check
	for i := range list {
		c := check(name, p, &list[i])
		if c == nil {
			continue
		}
		if f := list[i].Verdict.Finding; c.State == Unexpected {
			if _, ok := known.Finding(f); ok {
				continue
			}
		}
		out = append(out, *c)
	}
	if len(out) == 0 {
		out = append(out, Check{File: name, State: Holds})
	}
	return out, nil
}

// VerifyAll verifies programs, one after the other. An error is that ctx ended: then it comes with
// the checks that were made.
func VerifyAll(ctx context.Context, known *fuzz.Known, files []corpus.File) ([]Check, error) {
	r := engine.NewReplayer(oracle.Options{})
	defer r.Close()
	out := []Check{}
	for _, f := range files {
		list, err := Verify(ctx, r, known, f.Name, f.Text)
		if err != nil {
			return out, err
		}
		out = append(out, list...)
	}
	return out, nil
}

// unusable is the check of a file that cannot be used.
func unusable(name string, err error) Check {
	why := err.Error()
	var at *prog.Error
	if errors.As(err, &at) {
		why += fmt.Sprintf("; allocfuzz replay --repair %s shows what of it can still be used",
			name)
	}
	return Check{File: name, State: Unusable, Why: why, Err: err}
}

// check is what a program showed on one subject; nil for one that is silent as it should be.
func check(name string, p *prog.Program, r *engine.Replay) *Check {
	v := r.Verdict.Subject
	c := &Check{File: name, Subject: v.Name, Expected: expected(p, v), State: Holds}
	if r.Err != nil {
		c.State = Stale
		c.Why = r.Err.Error() + "; allocfuzz replay --repair says how much still applies, and " +
			"allocfuzz explore finds the schedule anew"
		return c
	}
	if f := r.Verdict.Finding; f != nil {
		c.Title, c.Identity = string(f.Title), f.Identity()
	}
	switch {
	case r.Verdict.Left != "" && c.Title == "" && c.Expected != "":
		c.State, c.Why = LeftOut, r.Verdict.Left
	case c.Expected == "" && c.Title == "":
		return nil
	case c.Expected == "":
		c.State, c.Why = Unexpected, "nothing is expected of "+v.Name+" here"
	case c.Title == "":
		c.State = Gone
		c.Why = "if the bug was repaired, take the block out or the file away; else explore " +
			"searches for a schedule that shows it"
	case !r.Verdict.Finding.Matches(c.Expected):
		c.State = Changed
		c.Why = "expected " + c.Expected + ": if that is the same bug, change title and block"
	}
	return c
}

// expected is the title that a program expects of a subject, "" for none.
func expected(p *prog.Program, v *impls.Variant) string {
	if s := oracle.Block(p, v); s != nil {
		return s.Bug
	}
	return ""
}
