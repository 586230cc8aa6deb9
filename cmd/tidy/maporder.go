package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/types"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// orderMark allows a range over a map, on the line above it, with the reason why
// the order cannot escape.
const orderMark = "//tidy:maporder"

// checkMapOrder looks for ranges over maps in deterministic packages. Only types
// tell a map from a slice, so it type-checks those packages, with the compiler's
// export data for what they import.
func checkMapOrder(t *tree) []problem {
	if t.root == "" {
		return nil
	}
	args := []string{"list", "-e", "-export", "-deps", "-json=ImportPath,Dir,GoFiles,Export"}
	for _, pattern := range deterministic {
		args = append(args, "./"+strings.TrimSuffix(pattern, "/...")+"/...")
	}
	out, err := t.goCommand(args...)
	if err != nil {
		return []problem{{path: "go.mod", text: err.Error()}}
	}
	packages, err := listed(out)
	if err != nil {
		return []problem{{path: "go.mod", text: err.Error()}}
	}
	imp := importer.ForCompiler(t.fset, "gc", func(name string) (io.ReadCloser, error) {
		if packages[name].Export == "" {
			return nil, fmt.Errorf("package %s does not build", name)
		}
		return os.Open(packages[name].Export)
	})
	return t.mapOrder(imp, func(s *source) bool {
		p := packages[path.Join(t.module, s.dir)]
		return slices.Contains(p.GoFiles, filepath.Base(s.path))
	})
}

// A goPackage is what "go list -json" tells of a package.
type goPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
}

// listed reads the output of "go list -json" by import path.
func listed(out []byte) (map[string]goPackage, error) {
	packages := make(map[string]goPackage)
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		err := d.Decode(&p)
		if errors.Is(err, io.EOF) {
			return packages, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read the output of go list: %w", err)
		}
		packages[p.ImportPath] = p
	}
}

// mapOrder checks the deterministic packages, of which it type-checks the files
// that are built here.
func (t *tree) mapOrder(imp types.Importer, built func(*source) bool) []problem {
	byDir := make(map[string][]*source)
	var dirs []string
	for _, s := range t.sources {
		if !isDeterministic(s) || t.nested(s.dir) || !built(s) {
			continue
		}
		if byDir[s.dir] == nil {
			dirs = append(dirs, s.dir)
		}
		byDir[s.dir] = append(byDir[s.dir], s)
	}
	var problems []problem
	for _, dir := range dirs {
		info, err := t.typeCheck(dir, imp, byDir[dir])
		if err != nil {
			problems = append(problems, problem{path: dir, text: fmt.Sprintf(
				"type errors, so ranges over maps may be missed: %v", err)})
		}
		for _, s := range byDir[dir] {
			problems = append(problems, t.mapRanges(s, info)...)
		}
	}
	return problems
}

// typeCheck gives the types of one package's expressions, and the first error.
func (t *tree) typeCheck(dir string, imp types.Importer, sources []*source) (*types.Info, error) {
	var files []*ast.File
	for _, s := range sources {
		files = append(files, s.file)
	}
	var first error
	info := &types.Info{Types: make(map[ast.Expr]types.TypeAndValue)}
	conf := types.Config{Importer: imp, FakeImportC: true, Error: func(err error) {
		if first == nil {
			first = err
		}
	}}
	// The error is also the first one given to conf.Error.
	_, _ = conf.Check(path.Join(t.module, dir), t.fset, files, info)
	return info, first
}

// mapRanges finds the places of one file where the order of a map can escape and
// that carry no mark, and marks that allow nothing.
func (t *tree) mapRanges(s *source, info *types.Info) []problem {
	marks := make(map[int]*ast.Comment)
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			if strings.HasPrefix(c.Text, orderMark) {
				marks[t.line(c.Pos())] = c
			}
		}
	}
	var problems []problem
	for _, n := range unordered(s.file, info) {
		above := t.line(n.Pos()) - 1
		mark := marks[above]
		delete(marks, above)
		switch {
		case mark == nil:
			problems = append(problems, t.at(s, n.Pos(), "the order of a map escapes: use "+
				"slices.Sorted(maps.Keys(m)), or say above why it cannot: %s reason", orderMark))
		case strings.TrimSpace(strings.TrimPrefix(mark.Text, orderMark)) == "":
			problems = append(problems, t.at(s, mark.Pos(), "%s needs a reason", orderMark))
		}
	}
	for _, line := range slices.Sorted(maps.Keys(marks)) {
		mark := marks[line]
		problems = append(problems, t.at(s, mark.Pos(),
			"%s stands above no range over a map: remove it", orderMark))
	}
	return problems
}

// unordered gives the nodes of a file that take a map in its order: ranges with
// a variable, and the iterators of package maps that nothing sorts at once.
func unordered(file *ast.File, info *types.Info) []ast.Node {
	var found []ast.Node
	sorted := make(map[ast.Node]bool)
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.RangeStmt:
			if (n.Key != nil || n.Value != nil) && isMap(info.Types[n.X].Type) {
				found = append(found, n)
			}
		case *ast.CallExpr:
			if calls(n, "slices", "Sorted", "SortedFunc", "SortedStableFunc") ||
				calls(n, "maps", "Collect", "Insert") {
				for _, arg := range n.Args {
					sorted[arg] = true
				}
			}
			if calls(n, "maps", "Keys", "Values", "All") && !sorted[n] {
				found = append(found, n)
			}
		}
		return true
	})
	return found
}

// calls tells whether a call is of one of the named functions of a package.
func calls(call *ast.CallExpr, pkg string, names ...string) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := f.X.(*ast.Ident)
	return ok && x.Name == pkg && x.Obj == nil && slices.Contains(names, f.Sel.Name)
}

// isMap tells whether a type is a map, or a type parameter that can only be one.
func isMap(typ types.Type) bool {
	if typ == nil {
		return false
	}
	if p, ok := typ.(*types.TypeParam); ok {
		constraint := p.Constraint().Underlying().(*types.Interface)
		for i := range constraint.NumEmbeddeds() {
			if isMap(constraint.EmbeddedType(i)) {
				return true
			}
		}
		return false
	}
	if union, ok := typ.(*types.Union); ok {
		return union.Len() > 0 && isMap(union.Term(0).Type())
	}
	_, ok := typ.Underlying().(*types.Map)
	return ok
}
