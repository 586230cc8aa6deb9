package bugs

import (
	"path"
	"slices"
	"strings"
)

// A Patch is one bug: what it is, how it shows and the lines that it changes.
type Patch struct {
	Name    string   // path of the file below the folder of patches, without ".patch"
	Subject string   // what the bug does
	Class   string   // one of Classes
	Needs   []string // what a program must have to reach it
	On      string   // subject of its killer; "" where the killer's schedule block names it
	Like    string   // the real bug that it imitates; "" for none
	From    []string // seeds that a hunt for it starts from; all when none is named
	Finds   []string // title of the finding and, if it has another, of its consequence
	Files   []File   // in the order of the diff
}

// A File is the part of a patch that changes one file.
type File struct {
	Path  string // relative to the root of the module, with slashes
	Hunks []Hunk
}

// A Hunk replaces one run of lines by another of the same length.
type Hunk struct {
	Line int      // of its "@@" in the patch, from 1
	Hint int      // line of the source where it was made, from 1; never binding
	Old  []string // context and removed lines, without line ends
	New  []string // context and added lines
}

// classes lists what can go wrong, from losing things to accusing the innocent.
var classes = []string{
	"lost-object", "lost-slab", "double-handout", "uaf-list", "counter",
	"lock", "irq", "colour", "leak", "wild", "debug", "contents", "order",
}

// Classes returns the classes that a patch may state, in the order of reports.
func Classes() []string { return slices.Clone(classes) }

// Killer returns the path of the program that kills p, beside its patch.
func (p *Patch) Killer() string { return p.Name + ".prog" }

// Paths returns the files that p changes, relative to the root of the module.
func (p *Patch) Paths() []string {
	paths := make([]string, len(p.Files))
	for i, f := range p.Files {
		paths[i] = f.Path
	}
	return paths
}

// patchName turns the path of a patch's file into the name of the patch.
func patchName(file string) string {
	return strings.TrimSuffix(path.Clean(strings.ReplaceAll(file, `\`, "/")), ".patch")
}
