package thin

import (
	"context"
	"os"
	"slices"

	"allocfuzz/fuzz/store"
)

// A Thinner thins the targets of a working corpus with a tracer that is built once. Close it.
type Thinner struct {
	binary   string
	work     string
	parallel int
}

// New builds a tracer from the sources at root, to run in so many processes.
func New(ctx context.Context, root string, parallel int) (*Thinner, error) {
	work, err := os.MkdirTemp("", "allocfuzz-thin-*")
	if err != nil {
		return nil, err
	}
	bin, err := Build(ctx, root, work)
	if err != nil {
		os.RemoveAll(work)
		return nil, err
	}
	return &Thinner{binary: bin, work: work, parallel: parallel}, nil
}

// Close removes what the thinner made.
func (t *Thinner) Close() { os.RemoveAll(t.work) }

// Covers says what inputs of a target cover. Those that end their process are named apart.
func (t *Thinner) Covers(ctx context.Context, target string, list []store.Input) ([]Cover,
	[]store.Problem, error) {
	tr := &Tracer{Binary: t.binary, Target: target, Parallel: t.parallel, Work: t.work}
	covers, bad, err := tr.Covers(ctx, list)
	var dead []store.Problem
	for _, in := range list {
		if e := bad[in.Name]; e != nil {
			dead = append(dead, store.Problem{File: target + "/" + in.Name, Why: e.Error()})
		}
	}
	return covers, dead, err
}

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
	covers, dead, err := t.Covers(ctx, target, list)
	if err != nil {
		return Thinned{}, err
	}
	keep := Pick(covers)
	var gone []string
	for _, c := range covers {
		if _, kept := slices.BinarySearch(keep, c.Name); !kept {
			gone = append(gone, c.Name)
		}
	}
	res := Thinned{Before: len(list), After: len(list) - len(gone),
		Features: len(Covered(covers)), Skipped: slices.Concat(bad, dead)}
	if dry {
		return res, nil
	}
	return res, s.Remove(target, gone)
}

// Fresh are the inputs of a list that cover what a store does not.
func (t *Thinner) Fresh(ctx context.Context, s *store.Store, target string,
	list []store.Input) ([]store.Input, []store.Problem, error) {
	have, bad, err := s.Inputs(target)
	if err != nil {
		return nil, nil, err
	}
	old, _, err := t.Covers(ctx, target, have)
	if err != nil {
		return nil, bad, err
	}
	covers, dead, err := t.Covers(ctx, target, list)
	if err != nil {
		return nil, bad, err
	}
	keep := Fresh(old, covers)
	out := slices.DeleteFunc(slices.Clone(list), func(in store.Input) bool {
		return !slices.Contains(keep, in.Name)
	})
	return out, slices.Concat(bad, dead), nil
}
