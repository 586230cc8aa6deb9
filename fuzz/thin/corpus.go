package thin

import (
	"context"
	"os"
	"slices"

	"allocfuzz/fuzz/store"
)

// A Thinner thins the targets of a working corpus with an engine that is built once. Close it.
type Thinner struct {
	engine engine
	work   string
}

// New builds an engine (see Engines) from the sources at root, to run in so many processes where
// it can.
func New(ctx context.Context, engine, root string, parallel int) (*Thinner, error) {
	work, err := os.MkdirTemp("", "allocfuzz-thin-*")
	if err != nil {
		return nil, err
	}
	t := &Thinner{work: work}
	if t.engine, err = newEngine(ctx, engine, root, work, parallel); err != nil {
		t.Close()
		return nil, err
	}
	return t, nil
}

// Close removes what the thinner made.
func (t *Thinner) Close() { os.RemoveAll(t.work) }

// Thinned is what thinning a target gave.
type Thinned struct {
	Before, After int             // inputs
	Features      int             // that both cover
	Skipped       []store.Problem // files that were left alone
}

// Store leaves out of a store the inputs of a target whose coverage others have. Inputs that
// end their process stay. With dry nothing is left out. What is kept is in the store all the time,
// so that nothing is lost wherever this ends.
func (t *Thinner) Store(ctx context.Context, s *store.Store, target string, dry bool) (Thinned,
	error) {
	list, bad, err := s.Inputs(target)
	if err != nil {
		return Thinned{}, err
	}
	c, err := t.engine.choose(ctx, target, nil, list)
	if err != nil {
		return Thinned{}, err
	}
	var gone []string
	for _, in := range list {
		if _, kept := slices.BinarySearch(c.keep, in.Name); !kept && c.dead[in.Name] == nil {
			gone = append(gone, in.Name)
		}
	}
	res := Thinned{Before: len(list), After: len(list) - len(gone), Features: c.features,
		Skipped: slices.Concat(bad, c.problems(target, list))}
	if dry {
		return res, nil
	}
	return res, s.Remove(target, gone)
}

// problems names the inputs of a list that end their process.
func (c *choice) problems(target string, list []store.Input) []store.Problem {
	var out []store.Problem
	for _, in := range list {
		if e := c.dead[in.Name]; e != nil {
			out = append(out, store.Problem{File: target + "/" + in.Name, Why: e.Error()})
		}
	}
	return out
}

// Fresh are the inputs of a list that cover what a store does not.
func (t *Thinner) Fresh(ctx context.Context, s *store.Store, target string,
	list []store.Input) ([]store.Input, []store.Problem, error) {
	have, bad, err := s.Inputs(target)
	if err != nil {
		return nil, nil, err
	}
	c, err := t.engine.choose(ctx, target, have, list)
	if err != nil {
		return nil, bad, err
	}
	out := slices.DeleteFunc(slices.Clone(list), func(in store.Input) bool {
		_, kept := slices.BinarySearch(c.keep, in.Name)
		return !kept
	})
	return out, slices.Concat(bad, c.problems(target, list)), nil
}
