package main

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// A problem is one thing that is wrong.
type problem struct {
	path string // relative to the root, with slashes
	line int    // from 1; 0 when it concerns the whole file
	text string // what is wrong and what to do
}

// String is the problem on one line, in the form that editors follow.
func (p problem) String() string {
	if p.line == 0 {
		return p.path + ": " + p.text
	}
	return fmt.Sprintf("%s:%d: %s", p.path, p.line, p.text)
}

// A tree is the repository as the checks see it.
type tree struct {
	fsys    fs.FS
	root    string // folder on disk; "" for a tree that lies in memory
	module  string // path of the module
	fset    *token.FileSet
	sources []*source
	texts   []text
	files   []string // every file
	modules []string // folders of the modules nested below this one
}

// A source is one parsed Go file.
type source struct {
	path      string
	dir       string // folder, "." for the root
	file      *ast.File
	lines     []string
	test      bool
	generated bool
}

// A text is one file that people read: sources, pages, programs, settings.
type text struct {
	path  string
	lines []string
}

// readable are the kinds of files that count as texts, by extension and by name.
var readable = []string{
	".go", ".md", ".yml", ".yaml", ".prog", ".patch", ".json", ".txt", ".mod", ".html", ".css",
	"Makefile", "run", ".gitignore",
}

// load reads and parses the repository.
func load(fsys fs.FS) (*tree, error) {
	t := &tree{fsys: fsys, fset: token.NewFileSet()}
	if err := fs.WalkDir(fsys, ".", t.visit); err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	mod, err := fs.ReadFile(fsys, "go.mod")
	if err != nil {
		return nil, fmt.Errorf("read the tree: %w", err)
	}
	for line := range strings.Lines(string(mod)) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "module "); ok {
			t.module = strings.TrimSpace(name)
			return t, nil
		}
	}
	return nil, fmt.Errorf("go.mod: no module line")
}

// visit takes one file or folder of the walk.
func (t *tree) visit(name string, entry fs.DirEntry, err error) error {
	if err != nil {
		return err
	}
	if entry.IsDir() {
		if skipFolder(name) {
			return fs.SkipDir
		}
		return nil
	}
	t.files = append(t.files, name)
	if path.Base(name) == "go.mod" && path.Dir(name) != "." {
		t.modules = append(t.modules, path.Dir(name))
	}
	if !slices.Contains(readable, path.Ext(name)) && !slices.Contains(readable, path.Base(name)) {
		return nil
	}
	content, err := fs.ReadFile(t.fsys, name)
	if err != nil {
		return err
	}
	lines := splitLines(content)
	t.texts = append(t.texts, text{name, lines})
	if path.Ext(name) == ".go" && !strings.Contains("/"+name, "/testdata/") {
		return t.parse(name, content, lines)
	}
	return nil
}

// skipFolder tells whether a folder is none of ours: hidden, but for the two
// that hold CI, left out by the go command, or made by runs.
func skipFolder(name string) bool {
	base := path.Base(name)
	switch {
	case name == ".", name == ".github", name == ".ci":
		return false
	}
	return name == "out" || base[0] == '.' || base[0] == '_'
}

// parse adds one Go file.
func (t *tree) parse(name string, content []byte, lines []string) error {
	file, err := parser.ParseFile(t.fset, name, content, parser.ParseComments)
	if err != nil {
		return err
	}
	t.sources = append(t.sources, &source{
		path:      name,
		dir:       path.Dir(name),
		file:      file,
		lines:     lines,
		test:      strings.HasSuffix(name, "_test.go"),
		generated: ast.IsGenerated(file),
	})
	return nil
}

// line gives the line of a position.
func (t *tree) line(pos token.Pos) int { return t.fset.Position(pos).Line }

// at makes a problem at a position in s.
func (t *tree) at(s *source, pos token.Pos, format string, args ...any) problem {
	return problem{s.path, t.line(pos), fmt.Sprintf(format, args...)}
}

// nested tells whether a folder belongs to a module below this one.
func (t *tree) nested(dir string) bool {
	return slices.ContainsFunc(t.modules, func(m string) bool { return under(dir, m) })
}

// under tells whether a path is prefix or lies below it.
func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

// splitLines splits a text into lines without their ends.
func splitLines(content []byte) []string {
	content = bytes.TrimSuffix(content, []byte("\n"))
	if len(content) == 0 {
		return nil
	}
	return strings.Split(string(content), "\n")
}
