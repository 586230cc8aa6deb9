package main

import (
	"go/ast"
	"go/token"
	"slices"
	"strings"
)

// checkDocs demands a comment for every package and for every exported name of
// the files that are no tests.
func checkDocs(t *tree) []problem {
	var problems []problem
	documented := make(map[string]bool)
	first := make(map[string]*source)
	for _, s := range t.sources {
		if s.test {
			continue
		}
		documented[s.dir] = documented[s.dir] || s.file.Doc != nil
		if first[s.dir] == nil {
			first[s.dir] = s
		}
		if s.generated || s.file.Name.Name == "main" {
			continue
		}
		for _, decl := range s.file.Decls {
			problems = append(problems, t.undocumented(s, decl)...)
		}
	}
	for _, s := range t.sources {
		if first[s.dir] == s && !documented[s.dir] {
			problems = append(problems, t.at(s, s.file.Package,
				"package %s has no comment: say above the package clause what it is for", s.dir))
		}
	}
	return problems
}

// undocumented checks one declaration.
func (t *tree) undocumented(s *source, decl ast.Decl) []problem {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Name.IsExported() && exportedReceiver(d) && !opens(d.Doc, d.Name.Name) {
			return []problem{t.complain(s, d.Name, d.Doc)}
		}
	case *ast.GenDecl:
		var problems []problem
		for _, spec := range d.Specs {
			problems = append(problems, t.undocumentedSpec(s, d, spec)...)
		}
		return problems
	}
	return nil
}

// undocumentedSpec checks one type, constant or variable. The names of a group
// may share the group's comment or have one each, also behind them.
func (t *tree) undocumentedSpec(s *source, d *ast.GenDecl, spec ast.Spec) []problem {
	switch spec := spec.(type) {
	case *ast.TypeSpec:
		doc := spec.Doc
		if doc == nil && !d.Lparen.IsValid() {
			doc = d.Doc
		}
		var problems []problem
		if spec.Name.IsExported() && !opens(doc, spec.Name.Name) {
			problems = append(problems, t.complain(s, spec.Name, doc))
		}
		if spec.Name.IsExported() {
			problems = append(problems, t.undocumentedMethods(s, spec)...)
		}
		return problems
	case *ast.ValueSpec:
		if spec.Doc != nil || spec.Comment != nil || d.Doc != nil {
			return nil
		}
		for _, name := range spec.Names {
			if name.IsExported() {
				return []problem{t.complain(s, name, nil)}
			}
		}
	}
	return nil
}

// undocumentedMethods checks the methods of an exported interface. The comment
// of the type serves an only method too.
func (t *tree) undocumentedMethods(s *source, spec *ast.TypeSpec) []problem {
	iface, ok := spec.Type.(*ast.InterfaceType)
	if !ok || len(iface.Methods.List) == 1 {
		return nil
	}
	var problems []problem
	for _, m := range iface.Methods.List {
		if len(m.Names) == 1 && m.Names[0].IsExported() && m.Doc == nil && m.Comment == nil {
			problems = append(problems, t.complain(s, m.Names[0], nil))
		}
	}
	return problems
}

// complain makes the problem of one name.
func (t *tree) complain(s *source, name *ast.Ident, doc *ast.CommentGroup) problem {
	if doc == nil {
		return t.at(s, name.Pos(), "exported %s has no comment", name.Name)
	}
	return t.at(s, name.Pos(), "the comment of %s must begin with its name", name.Name)
}

// opens tells whether a comment begins with a name, behind an article or not.
func opens(doc *ast.CommentGroup, name string) bool {
	if doc == nil {
		return false
	}
	words := strings.Fields(doc.Text())
	if len(words) > 1 && slices.Contains([]string{"A", "An", "The"}, words[0]) {
		words = words[1:]
	}
	return len(words) > 0 && strings.TrimRight(words[0], ".,:;") == name
}

// exportedReceiver tells whether a function is no method, or one of an exported
// type.
func exportedReceiver(d *ast.FuncDecl) bool {
	if d.Recv == nil || len(d.Recv.List) == 0 {
		return true
	}
	typ := d.Recv.List[0].Type
	for {
		switch x := typ.(type) {
		case *ast.StarExpr:
			typ = x.X
		case *ast.IndexExpr:
			typ = x.X
		case *ast.IndexListExpr:
			typ = x.X
		case *ast.Ident:
			return token.IsExported(x.Name)
		default:
			return false
		}
	}
}
