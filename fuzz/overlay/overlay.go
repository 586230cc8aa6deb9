// Package overlay builds programs and test binaries out of patched sources while
// the tree stays as it is. The patched files lie in a folder of their own and a
// JSON file tells the go command to read them in place of the real ones, whose
// paths stay in positions, panics and coverage.
package overlay

import (
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
)

// sources is the folder of patched files below the one given to Write. The go
// command leaves out folders that begin with an underscore, so patched files do
// not become packages when that folder lies inside a module.
const sources = "_sources"

// Write applies the patches in order to the files of the module at root and
// writes the results below dir, with the file for the go command's -overlay,
// whose path it returns. Patches may change the same file; each then sees what
// the ones before it made. No patch gives an overlay that replaces nothing.
//
// A patch that does not apply is an error and nothing is written.
func Write(dir, root string, patches ...*bugs.Patch) (overlayJSON string, err error) {
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	if root, err = filepath.Abs(root); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	changed, err := apply(root, patches)
	if err != nil {
		return "", err
	}
	replace := make(map[string]string, len(changed))
	for path, text := range changed {
		path = filepath.FromSlash(path)
		file := filepath.Join(dir, sources, path)
		replace[filepath.Join(root, path)] = file
		if err := write(file, text); err != nil {
			return "", err
		}
	}
	text, err := json.MarshalIndent(map[string]any{"Replace": replace}, "", "\t")
	if err != nil {
		panic("allocfuzz: an overlay of strings does not marshal: " + err.Error())
	}
	overlayJSON = filepath.Join(dir, "overlay.json")
	return overlayJSON, write(overlayJSON, append(text, '\n'))
}

// apply gives the changed files of all patches together.
func apply(root string, patches []*bugs.Patch) (map[string][]byte, error) {
	changed := make(map[string][]byte)
	read := func(path string) ([]byte, error) {
		if text, ok := changed[path]; ok {
			return text, nil
		}
		return os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	}
	for _, p := range patches {
		files, err := p.Apply(read)
		if err != nil {
			return nil, err
		}
		for path, text := range files {
			changed[path] = text
		}
	}
	return changed, nil
}

// write makes the folders of a file and writes it.
func write(file string, text []byte) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	if err := os.WriteFile(file, text, 0o644); err != nil {
		return fmt.Errorf("write overlay: %w", err)
	}
	return nil
}

// Build builds the module at root with the patch in it and puts the result at
// out, a path relative to the working directory. A nil patch builds the clean
// tree in the same way.
//
// The args are a command line of the go command without "go": "build" with
// what follows, or "test -c" with what follows; "-o" and "-overlay" are added.
// No args stand for "build ./cmd/allocfuzz". So
//
//	Build(ctx, root, "slub.test", patch, "test", "-c", "-fuzz=.", "./fuzz")
//
// makes a fuzz binary. It should run with a cache directory of its own
// (-test.fuzzcachedir): the default one is keyed by import path and would mix
// the corpora of mutants.
//
// The error of a failed build carries the go command's output. A build that
// fails or is cancelled leaves no file at out, and an older one as it was.
func Build(ctx context.Context, root, out string, patch *bugs.Patch, args ...string) error {
	if len(args) == 0 {
		args = []string{"build", "./cmd/allocfuzz"}
	}
	verb := args[0]
	if verb != "build" && !(verb == "test" && len(args) > 1 && args[1] == "-c") {
		return fmt.Errorf("build with overlay: got go %s, want build or test -c",
			strings.Join(args, " "))
	}
	if _, err := os.Stat(filepath.Join(root, "go.mod")); err != nil {
		return fmt.Errorf("build with overlay: %w: it needs the sources of the module", err)
	}
	out, err := filepath.Abs(out)
	if err != nil {
		return fmt.Errorf("build with overlay: %w", err)
	}
	dir, err := os.MkdirTemp("", "allocfuzz-overlay-")
	if err != nil {
		return fmt.Errorf("build with overlay: %w", err)
	}
	defer os.RemoveAll(dir)
	unfinished := out + ".unfinished"
	line := []string{verb, "-o", unfinished}
	if patch != nil {
		overlayJSON, err := Write(dir, root, patch)
		if err != nil {
			return fmt.Errorf("build with overlay: %w", err)
		}
		line = append(line, "-overlay", overlayJSON)
	}
	if err := run(ctx, root, append(line, args[1:]...)); err != nil {
		return errors.Join(err, remove(unfinished))
	}
	if err := os.Rename(unfinished, out); err != nil {
		return fmt.Errorf("build with overlay: %w", err)
	}
	return nil
}

// run runs the go command in root.
func run(ctx context.Context, root string, args []string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	output, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		return fmt.Errorf("go %s: %w", strings.Join(args, " "), context.Cause(ctx))
	}
	if err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, output)
	}
	return nil
}

// remove removes a file that need not exist.
func remove(file string) error {
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
