package main

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"

	"allocfuzz/corpus/bugs"
	"allocfuzz/impls/fault"
)

// patchFolder holds the patches, in folders of families.
const patchFolder = "corpus/bugs"

// checkPatches demands that every patch applies to the tree as it is, leaves Go
// behind, promises titles that exist and has its program beside it.
func checkPatches(t *tree) []problem {
	var problems []problem
	for _, file := range t.files {
		if !under(file, patchFolder) || strings.Contains(file, "/testdata/") {
			continue
		}
		switch base := strings.TrimSuffix(file, path.Ext(file)); path.Ext(file) {
		case ".patch":
			if !slices.Contains(t.files, base+".prog") {
				problems = append(problems, problem{path: file, text: "no program kills it: add " +
					path.Base(base) + ".prog beside it"})
			}
			problems = append(problems, t.patch(file)...)
		case ".prog":
			if !slices.Contains(t.files, base+".patch") {
				problems = append(problems, problem{path: file, text: "the patch " +
					path.Base(base) + ".patch that it kills is missing"})
			}
		}
	}
	return problems
}

// patch checks one patch.
func (t *tree) patch(file string) []problem {
	read := func(name string) ([]byte, error) { return fs.ReadFile(t.fsys, name) }
	content, err := read(file)
	if err != nil {
		return []problem{{path: file, text: err.Error()}}
	}
	p, err := bugs.Parse(file, content)
	if err != nil {
		return []problem{asProblem(file, err)}
	}
	changed, err := p.Apply(read)
	if err != nil {
		return []problem{asProblem(file, err)}
	}
	var problems []problem
	for _, title := range p.Finds {
		if _, ok := fault.Lookup(fault.Title(title)); !ok {
			problems = append(problems, problem{path: file, text: fmt.Sprintf(
				"Finds names %q, which is no title: see package impls/fault", title)})
		}
	}
	for _, name := range p.Paths() {
		if path.Ext(name) != ".go" {
			continue
		}
		if _, err := parser.ParseFile(token.NewFileSet(), name, changed[name], 0); err != nil {
			problems = append(problems, problem{path: file, text: fmt.Sprintf(
				"what it makes of the sources is no Go: %v", err)})
		}
	}
	return problems
}

// asProblem makes a problem of an error that begins with the file's own name.
func asProblem(file string, err error) problem {
	first, _, _ := strings.Cut(err.Error(), "\n")
	var line int
	if rest, ok := strings.CutPrefix(first, file+":"); ok {
		if n, _ := fmt.Sscanf(rest, "%d:", &line); n == 1 {
			_, first, _ = strings.Cut(rest, ": ")
		}
	}
	return problem{file, line, first}
}
