package races

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
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

// covered are the packages whose lines are counted.
const covered = "allocfuzz/impls/slab,allocfuzz/impls/slub,allocfuzz/impls/page"

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
	args := []string{"build"}
	if l.Cover {
		args = append(args, "-cover", "-covermode=atomic", "-coverpkg="+covered)
	}
	args = append(args, "./cmd/allocfuzz")
	if err := overlay.Build(ctx, l.Root, bin, patch, args...); err != nil {
		return "", err
	}
	if l.built == nil {
		l.built = map[string]string{}
	}
	l.built[name] = bin
	return bin, nil
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
	cmd := exec.CommandContext(ctx, bin, append([]string{"explore", "--json", "--parallel", "1"},
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
