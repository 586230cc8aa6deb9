package main

import (
	"go/ast"
	"go/token"
	"regexp"
	"strconv"
	"strings"
)

// mixed is a verb of a format without a number behind one with a number: it takes the argument
// behind that one's, which is hardly ever what was meant, and nothing complains.
var mixed = regexp.MustCompile(`%[-+# 0]*\[\d+\][a-zA-Z](?s:.*)%[-+# 0]*[a-zA-Z]`)

// checkFormats looks for formats that number some of their arguments and go on without.
func checkFormats(t *tree) []problem {
	var problems []problem
	for _, s := range t.sources {
		if s.test || t.nested(s.dir) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			e, ok := n.(ast.Expr)
			if !ok {
				return true
			}
			text, ok := literal(e)
			if ok && mixed.MatchString(strings.ReplaceAll(text, "%%", "")) {
				problems = append(problems, t.at(s, e.Pos(), "the format %q has verbs without a "+
					"number behind one with a number: number all that follow", text))
			}
			return !ok
		})
	}
	return problems
}

// literal is the text of a string literal, or of several that are added.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		text, err := strconv.Unquote(e.Value)
		return text, err == nil
	case *ast.BinaryExpr:
		a, ok := literal(e.X)
		b, too := literal(e.Y)
		return a + b, ok && too && e.Op == token.ADD
	}
	return "", false
}
