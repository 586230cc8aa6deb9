// Package libraries is what is known of the libraries of malloc that have subjects of their own:
// which are here, how to get the others, and what comes of misuse in each.
package libraries

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"allocfuzz/impls"
	"allocfuzz/impls/clib"
)

// An Entry is a known library on this machine.
type Entry struct {
	clib.Known
	clib.Library
	Variant *impls.Variant // nil when it is not here, or cannot be loaded
	Why     error          // why not
}

// List looks at every known library.
func List() []Entry {
	var out []Entry
	for _, k := range clib.Libraries() {
		e := Entry{Known: k}
		if v, _, err := clib.Lookup(k.Name); err != nil {
			e.Why = err
		} else {
			e.Variant = v
			e.Library, _ = clib.About(k.Name)
		}
		out = append(out, e)
	}
	return out
}

// Names are the subjects of the libraries that are here.
func Names() []string {
	var out []string
	for _, e := range List() {
		if e.Variant != nil {
			out = append(out, e.Known.Name)
		}
	}
	return out
}

// ErrNoTools says that packages cannot be had here.
var ErrNoTools = errors.New("packages are fetched by apt-get and unpacked by dpkg-deb, and one " +
	"of them is missing: install the libraries in this system's own way, or give --lib a file")

// needed are packages without which others cannot be loaded, by those others.
var needed = map[string][]string{"libgoogle-perftools4": {"libunwind8"}}

// Fetch downloads the packages of the known libraries that are not here and unpacks them in the
// cache folder. Nothing is installed, and no privileges are needed. What cannot be had is an
// error that names it; the others are there.
func Fetch(ctx context.Context, log io.Writer) error {
	dir, err := clib.CacheDir()
	if err != nil {
		return err
	}
	for _, tool := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(tool); err != nil {
			return ErrNoTools
		}
	}
	var bad error
	for _, k := range clib.Libraries() {
		if k.Find() != "" {
			continue
		}
		for _, name := range append([]string{k.Package}, needed[k.Package]...) {
			if err := fetch(ctx, dir, name); err != nil {
				bad = errors.Join(bad, fmt.Errorf("%s: package %s: %w", k.Name, name, err))
				continue
			}
			fmt.Fprintf(log, "fetched %s\n", name)
		}
	}
	return bad
}

// fetch downloads one package and unpacks it, both beside its place until it is whole.
func fetch(ctx context.Context, dir, name string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	work, err := os.MkdirTemp(dir, ".new-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	get := exec.CommandContext(ctx, "apt-get", "download", name)
	get.Dir = work
	if text, err := get.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.300s", err, text)
	}
	files, err := filepath.Glob(filepath.Join(work, "*.deb"))
	if err != nil || len(files) != 1 {
		return fmt.Errorf("apt-get left %d packages, expected one", len(files))
	}
	tree := filepath.Join(work, "tree")
	if text, err := exec.CommandContext(ctx, "dpkg-deb", "-x", files[0], tree).
		CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %.300s", err, text)
	}
	place := filepath.Join(dir, name)
	if err := os.RemoveAll(place); err != nil {
		return err
	}
	return os.Rename(tree, place)
}

// A Score is the responses of libraries to misuse.
type Score struct {
	Subjects []string
	Sizes    []uint64
	Rows     []ScoreRow
}

// A ScoreRow is one kind of misuse of blocks of one size.
type ScoreRow struct {
	Kind  *clib.Misuse
	Size  uint64
	Cells []Cell // by subject
}

// A Cell is what came of it, and the message if there was one.
type Cell struct {
	Response clib.Response
	Message  string
}

// Sizes are those of the blocks that are misused: one of a cache of a thread, and one beyond.
var Sizes = []uint64{40, 40_000}

// Misuse does every misuse to every subject, each in a process of its own.
func Misuse(ctx context.Context, subjects []string) (*Score, error) {
	s := &Score{Subjects: subjects, Sizes: Sizes}
	kinds := clib.Misuses()
	for i := range kinds {
		for _, size := range Sizes {
			row := ScoreRow{Kind: &kinds[i], Size: size}
			if err := row.fill(ctx, subjects); err != nil {
				return s, err
			}
			s.Rows = append(s.Rows, row)
		}
	}
	return s, nil
}

func (r *ScoreRow) fill(ctx context.Context, subjects []string) error {
	for _, name := range subjects {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		response, message, err := clib.Score(name, r.Kind, r.Size)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", name, r.Kind.Name, err)
		}
		r.Cells = append(r.Cells, Cell{response, message})
	}
	return nil
}
