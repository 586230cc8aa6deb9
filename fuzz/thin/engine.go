package thin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/libfuzzer"
	"allocfuzz/fuzz/store"
)

// The engines that can say what inputs cover: our own tracer, which keeps fewer inputs, runs them
// in several processes and needs Go alone; and libFuzzer, for a corpus that it will fuzz with.
const (
	Own       = "own"
	LibFuzzer = "libfuzzer"
)

// Engines are the names of the engines, the usual one first.
var Engines = []string{Own, LibFuzzer}

// A choice is what an engine keeps of inputs.
type choice struct {
	keep     []string         // names, in order
	features int              // that they add
	dead     map[string]error // inputs that end their process
}

// An engine chooses inputs by what they cover.
type engine interface {
	// choose keeps those of the offered inputs of a target that cover together, with those that
	// one has, what all cover.
	choose(ctx context.Context, target string, have, offered []store.Input) (*choice, error)
}

// own runs inputs in our own tracer.
type own struct {
	binary   string
	work     string
	parallel int
}

func (o *own) choose(ctx context.Context, target string, have, offered []store.Input) (*choice,
	error) {
	tr := &Tracer{Binary: o.binary, Target: target, Parallel: o.parallel, Work: o.work}
	old, _, err := tr.Covers(ctx, have)
	if err != nil {
		return nil, err
	}
	covers, dead, err := tr.Covers(ctx, offered)
	if err != nil {
		return nil, err
	}
	c := &choice{dead: dead}
	if len(have) == 0 {
		c.keep, c.features = Pick(covers), len(Covered(covers))
		return c, nil
	}
	c.keep = Fresh(old, covers)
	slices.Sort(c.keep)
	c.features = len(Covered(slices.Concat(old, covers))) - len(Covered(old))
	return c, nil
}

// merging has libFuzzer merge inputs. Those of fuzz.Prog, which reach no allocator, are left to our
// own tracer. What a target needs is built when it is first wanted.
type merging struct {
	build libfuzzer.Build
	bins  map[string]string
	own   own
}

// errDead is what is said of an input that libFuzzer began and never finished.
var errDead = fmt.Errorf("%w (under libFuzzer)", ErrDied)

func (m *merging) choose(ctx context.Context, target string, have, offered []store.Input) (*choice,
	error) {
	var err error
	if target == fuzz.Prog {
		if m.own.binary == "" {
			if m.own.binary, err = Build(ctx, m.build.Root, m.own.work); err != nil {
				return nil, err
			}
		}
		return m.own.choose(ctx, target, have, offered)
	}
	if m.bins[target] == "" {
		if m.bins[target], err = m.build.Target(ctx, target); err != nil {
			return nil, err
		}
	}
	work, err := os.MkdirTemp(m.build.Dir, "merge-*")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(work)
	dirs := [2]string{filepath.Join(work, "have"), filepath.Join(work, "offered")}
	for i, list := range [2][]store.Input{have, offered} {
		if err := spread(dirs[i], list); err != nil {
			return nil, err
		}
	}
	merged, err := libfuzzer.Merge(ctx, m.bins[target], dirs[0], dirs[1], work)
	if err != nil {
		return nil, err
	}
	c := &choice{keep: merged.Kept, features: merged.Features, dead: map[string]error{}}
	for _, name := range merged.Dead {
		c.dead[name] = errDead
	}
	return c, nil
}

// spread writes inputs to a new folder by their names.
func spread(dir string, list []store.Input) error {
	if err := os.Mkdir(dir, 0o777); err != nil {
		return err
	}
	for _, in := range list {
		if err := os.WriteFile(filepath.Join(dir, in.Name), in.Data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// newEngine makes the engine of a name. Binaries go to work.
func newEngine(ctx context.Context, name, root, work string, parallel int) (engine, error) {
	mine := own{work: work, parallel: parallel}
	if name == LibFuzzer {
		clang, err := libfuzzer.Clang()
		if err == nil {
			err = libfuzzer.Links(ctx, clang, work)
		}
		return &merging{own: mine, bins: map[string]string{}, build: libfuzzer.Build{Root: root,
			Dir: work, Clang: clang}}, err
	}
	var err error
	mine.binary, err = Build(ctx, root, work)
	return &mine, err
}
