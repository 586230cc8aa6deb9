package races

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"allocfuzz/corpus/bugs"
	"allocfuzz/fuzz/overlay"
)

// A Lab builds the command with known bugs in it, and has it search.
type Lab struct {
	Root string // of the sources
	Dir  string // for binaries and counters, which must exist
	// Cover builds binaries that count which lines of the allocators they run.
	Cover bool
	built map[string]string
}

// covered are the packages whose lines are counted, and that of the command, without which no
// counters are written.
const covered = "allocfuzz/impls/slab,allocfuzz/impls/slub,allocfuzz/impls/page," +
	"allocfuzz/cmd/allocfuzz"

// binary is the command with a patch in it, by folder and name; "" is the clean one.
func (l *Lab) binary(ctx context.Context, name string) (string, error) {
	if bin, ok := l.built[name]; ok {
		return bin, nil
	}
	patch, err := patchNamed(name)
	if err != nil {
		return "", err
	}
	bin := filepath.Join(l.Dir, "allocfuzz-"+strings.ReplaceAll(name, "/", "-"))
	if l.Cover {
		err = l.counting(ctx, bin, patch)
	} else {
		err = overlay.Build(ctx, l.Root, bin, patch, "build", "./cmd/allocfuzz")
	}
	if err != nil {
		return "", err
	}
	if l.built == nil {
		l.built = map[string]string{}
	}
	l.built[name] = bin
	return bin, nil
}

// counting builds a binary that counts lines. The go command counts those of the files themselves
// and not of an overlay, so it is built from a copy of the sources with the patch in it.
func (l *Lab) counting(ctx context.Context, bin string, patch *bugs.Patch) error {
	src := filepath.Join(l.Dir, "src")
	if _, err := os.Stat(src); err != nil {
		if err := copySources(src, l.Root); err != nil {
			return err
		}
	}
	if patch != nil {
		read := func(name string) ([]byte, error) {
			return os.ReadFile(filepath.Join(l.Root, filepath.FromSlash(name)))
		}
		files, err := patch.Apply(read)
		if err != nil {
			return err
		}
		//tidy:maporder every file is written, in any order
		for name, text := range files {
			at := filepath.Join(src, filepath.FromSlash(name))
			if err := os.WriteFile(at, text, 0o666); err != nil {
				return err
			}
			clean, err := read(name)
			if err != nil {
				return err
			}
			defer os.WriteFile(at, clean, 0o666)
		}
	}
	return overlay.Build(ctx, src, bin, nil, "build", "-trimpath", "-cover", "-covermode=atomic",
		"-coverpkg="+covered, "./cmd/allocfuzz")
}

// copySources copies the module at root, without what begins with a dot.
func copySources(dst, root string) error {
	return filepath.WalkDir(root, func(at string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, at)
		if err != nil {
			return err
		}
		if rel != "." && strings.HasPrefix(d.Name(), ".") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		to := filepath.Join(dst, rel)
		if d.IsDir() {
			return os.MkdirAll(to, 0o777)
		}
		if !d.Type().IsRegular() {
			return nil
		}
		data, err := os.ReadFile(at)
		if err != nil {
			return err
		}
		return os.WriteFile(to, data, 0o666)
	})
}

// patchNamed finds a patch; nil for "".
func patchNamed(name string) (*bugs.Patch, error) {
	if name == "" {
		return nil, nil
	}
	all, err := bugs.All()
	if err != nil {
		return nil, err
	}
	return bugs.Find(all, name)
}

// A Search is what one search of the command said.
type Search struct {
	Subject    string  `json:"subject"`
	LeftOut    string  `json:"left_out"`
	Schedules  int     `json:"schedules"`
	Redundant  int     `json:"redundant"`
	Complete   bool    `json:"complete"`
	Exhausted  bool    `json:"exhausted"`
	First      int     `json:"first"`
	Title      string  `json:"title"`
	Departures int     `json:"departures"`
	Seconds    float64 `json:"seconds"`
	Levels     []struct {
		Departures int `json:"departures"`
		Schedules  int `json:"schedules"`
	} `json:"levels"`
	Also []string `json:"-"` // other titles of the finding
}

// Has says whether the search found something of that title.
func (s *Search) Has(title string) bool {
	if s.Title == title {
		return true
	}
	for _, t := range s.Also {
		if t == title {
			return true
		}
	}
	return false
}

// explore has a binary search, with arguments of its explore command. Its counters go to the
// folder cover.
func (l *Lab) explore(ctx context.Context, bin, cover string, args ...string) (*Search, error) {
	cmd := exec.CommandContext(ctx, bin, append([]string{"explore", "--json"},
		args...)...)
	cmd.Dir = l.Root
	cmd.Env = append(os.Environ(), "GOCOVERDIR="+cover)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		return nil, fmt.Errorf("allocfuzz explore %s: %w\n%s", strings.Join(args, " "), err,
			errs.String())
	}
	var doc struct {
		Explorations []Search `json:"explorations"`
		Findings     []struct {
			Also []string `json:"also"`
		} `json:"findings"`
	}
	if err := json.Unmarshal(out.Bytes(), &doc); err != nil || len(doc.Explorations) != 1 {
		return nil, fmt.Errorf("allocfuzz explore %s: no document of one search: %v",
			strings.Join(args, " "), err)
	}
	s := &doc.Explorations[0]
	for _, f := range doc.Findings {
		s.Also = append(s.Also, f.Also...)
	}
	if s.LeftOut != "" {
		return nil, fmt.Errorf("allocfuzz explore %s: left out: %s", strings.Join(args, " "),
			s.LeftOut)
	}
	return s, nil
}
