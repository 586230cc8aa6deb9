package main

import (
	"fmt"
	"go/ast"
	"strings"
	"unicode/utf8"
)

// The sizes that sources keep to. Tests keep to the columns only: a table of
// cases is long by nature.
const (
	fileLines     = 500
	funcLines     = 70
	columns       = 100
	tabColumns    = 4
	parameters    = 5
	nesting       = 3
	packageFiles  = 20
	commentPrefix = "//go:"
)

// checkSizes holds files, functions and packages against the limits. Generated
// files are free.
func checkSizes(t *tree) []problem {
	var problems []problem
	files := make(map[string]int)
	for _, s := range t.sources {
		if s.generated {
			continue
		}
		problems = append(problems, longLines(s)...)
		if s.test {
			continue
		}
		if n := len(s.lines); n > fileLines {
			problems = append(problems, problem{s.path, fileLines + 1, fmt.Sprintf(
				"the file has %d lines, the limit is %d: split it", n, fileLines)})
		}
		problems = append(problems, t.functions(s)...)
		if files[s.dir]++; files[s.dir] == packageFiles+1 {
			problems = append(problems, problem{path: s.path, text: fmt.Sprintf(
				"package %s has more than %d files: split it", s.dir, packageFiles)})
		}
	}
	return problems
}

// longLines finds lines that are too wide. Directives and addresses of pages
// cannot be broken and are free.
func longLines(s *source) []problem {
	var problems []problem
	for i, line := range s.lines {
		n := width(line)
		if n > columns && !strings.HasPrefix(line, commentPrefix) && !strings.Contains(line, "://") {
			problems = append(problems, problem{s.path, i + 1, fmt.Sprintf(
				"the line has %d columns, the limit is %d (a tab counts %d)",
				n, columns, tabColumns)})
		}
	}
	return problems
}

// width is the number of columns of a line.
func width(line string) int {
	return utf8.RuneCountInString(line) + (tabColumns-1)*strings.Count(line, "\t")
}

// functions checks the functions of one file.
func (t *tree) functions(s *source) []problem {
	var problems []problem
	ast.Inspect(s.file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			if lines := t.line(n.End()) - t.line(n.Pos()) + 1; lines > funcLines {
				problems = append(problems, t.at(s, n.Pos(),
					"%s has %d lines, the limit is %d: split it", n.Name.Name, lines, funcLines))
			}
			if n.Body != nil {
				problems = append(problems, t.deep(s, n.Body, 0)...)
			}
		case *ast.FuncType:
			if count := countParameters(n); count > parameters {
				problems = append(problems, t.at(s, n.Pos(),
					"a function has %d parameters, the limit is %d: group them in a struct",
					count, parameters))
			}
		}
		return true
	})
	return problems
}

func countParameters(f *ast.FuncType) int {
	n := 0
	for _, field := range f.Params.List {
		n += max(1, len(field.Names))
	}
	return n
}

// deep finds the statements that stand deeper than the limit below n, which
// itself stands at depth. Only the outermost of them is a problem. A chain of
// else-ifs is one level, as are a switch and its cases; a function literal is
// no level of its own.
func (t *tree) deep(s *source, n ast.Node, depth int) []problem {
	var problems []problem
	ast.Inspect(n, func(inner ast.Node) bool {
		if inner == n || inner == nil {
			return true
		}
		body := blocks(inner)
		if body == nil {
			return true
		}
		if depth+1 > nesting {
			problems = append(problems, t.at(s, inner.Pos(),
				"statements are nested more than %d deep: use a function or return early", nesting))
			return false
		}
		for _, b := range body {
			problems = append(problems, t.deep(s, b, depth+1)...)
		}
		return false
	})
	return problems
}

// blocks gives the parts of a statement that stand one level deeper than it, nil
// for a node that adds no level.
func blocks(n ast.Node) []ast.Node {
	switch n := n.(type) {
	case *ast.ForStmt:
		return []ast.Node{n.Body}
	case *ast.RangeStmt:
		return []ast.Node{n.Body}
	case *ast.SwitchStmt:
		return []ast.Node{n.Body}
	case *ast.TypeSwitchStmt:
		return []ast.Node{n.Body}
	case *ast.SelectStmt:
		return []ast.Node{n.Body}
	case *ast.IfStmt:
		parts := []ast.Node{n.Body}
		for next := n.Else; next != nil; {
			chained, ok := next.(*ast.IfStmt)
			if !ok {
				return append(parts, next)
			}
			parts = append(parts, chained.Body)
			next = chained.Else
		}
		return parts
	}
	return nil
}
