package bugs

import (
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"
)

// The README files keep the pattern valid for a family that has no patch yet.
//
//go:embed README.md */*
var embedded embed.FS

// Embedded returns the files of this folder as they were when the program was
// built: the README files, the patches and the programs that kill them.
func Embedded() fs.FS { return embedded }

// All returns the embedded patches in the order of their names.
func All() ([]*Patch, error) { return List(embedded) }

// List parses every *.patch below the root of fsys and returns them in the
// order of their names. A file that cannot be read or parsed is an error that
// names it.
func List(fsys fs.FS) ([]*Patch, error) {
	var patches []*Patch
	walk := func(file string, entry fs.DirEntry, err error) error {
		if err != nil {
			return fmt.Errorf("list patches: %w", err)
		}
		if entry.IsDir() || path.Ext(file) != ".patch" {
			return nil
		}
		text, err := fs.ReadFile(fsys, file)
		if err != nil {
			return fmt.Errorf("list patches: %w", err)
		}
		p, err := Parse(file, text)
		if err == nil {
			patches = append(patches, p)
		}
		return err
	}
	if err := fs.WalkDir(fsys, ".", walk); err != nil {
		return nil, err
	}
	return patches, nil
}

// Find returns the patch called name among patches: its whole name, as in
// "slub/drain-loses-slab", or the last part of it where only one patch has it.
func Find(patches []*Patch, name string) (*Patch, error) {
	var found []*Patch
	var all []string
	for _, p := range patches {
		if p.Name == name {
			return p, nil
		}
		if path.Base(p.Name) == name {
			found = append(found, p)
		}
		all = append(all, p.Name)
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return nil, fmt.Errorf("no patch %q: there are %d: %s",
			name, len(all), strings.Join(all, ", "))
	}
	return nil, fmt.Errorf("patch name %q is ambiguous: give the folder too, as in %q",
		name, found[0].Name)
}
