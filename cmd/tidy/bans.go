package main

import (
	"go/ast"
	"path"
	"slices"
	"strconv"
)

// deterministic are the packages whose runs must be a pure function of program,
// variant and decisions.
var deterministic = []string{"impls/...", "oracle/...", "debugcheck", "corpus/prog"}

// What deterministic packages do without. Imports are named by their path.
const (
	banGo   = "go statements"
	banInit = "init functions"
)

// banned lists the imports that deterministic packages do without, and why.
var banned = map[string]string{
	"time":         "a run knows steps, not clocks",
	"math/rand":    "choices come from the chooser",
	"math/rand/v2": "choices come from the chooser",
	"crypto/rand":  "choices come from the chooser",
	"sync":         "one context runs at a time",
	"sync/atomic":  "one context runs at a time",
	"unsafe":       "memory is the machine's, by address",
}

// An exception lifts bans from some files of one folder.
type exception struct {
	folder string
	files  string // pattern of path.Match on the name of the file
	lifts  []string
}

var native = []string{"sync", "sync/atomic", "unsafe", banGo}

// exceptions are the files that touch the real machine. What reaches processes
// and guests also needs clocks, to say that one hangs.
var exceptions = []exception{
	{"impls/machine", "native*.go", native},
	{"impls/machine", "*.go", []string{"sync/atomic"}}, // accessors serve both modes
	{"impls/golib", "*.go", native},
	{"oracle/history/linear", "*.go", []string{"time"}},               // the limit of a search
	{"impls/remote", "journal.go", []string{"sync/atomic", "unsafe"}}, // shared by processes
	{"impls/remote", "threads.go", []string{"sync", banGo}},           // of a real process
	{"impls/clib", "*.go", append([]string{"time"}, native...)},
	{"impls/linux", "*.go", append([]string{"time"}, native...)},
}

// isDeterministic tells whether the bans hold for a file at all.
func isDeterministic(s *source) bool {
	return !s.test && slices.ContainsFunc(deterministic, func(p string) bool {
		return fits(s.dir, p)
	})
}

// lifted tells whether a ban does not hold for a file.
func lifted(s *source, ban string) bool {
	return slices.ContainsFunc(exceptions, func(e exception) bool {
		ok, _ := path.Match(e.files, path.Base(s.path))
		return ok && under(s.dir, e.folder) && slices.Contains(e.lifts, ban)
	})
}

// checkBans looks for clocks, chance, threads and hidden starts where a run must
// be a pure function of its input.
func checkBans(t *tree) []problem {
	var problems []problem
	for _, s := range t.sources {
		if !isDeterministic(s) || t.nested(s.dir) {
			continue
		}
		for _, spec := range s.file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if why := banned[name]; why != "" && !lifted(s, name) {
				problems = append(problems, t.at(s, spec.Pos(),
					"package %s must not import %s: %s", s.dir, name, why))
			}
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			if ban := construct(n); ban != "" && !lifted(s, ban) {
				problems = append(problems, t.at(s, n.Pos(),
					"package %s must have no %s: runs must repeat exactly", s.dir, ban))
			}
			return true
		})
	}
	return problems
}

// construct names the ban that a node falls under, "" for none.
func construct(n ast.Node) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return banGo
	case *ast.FuncDecl:
		if n.Recv == nil && n.Name.Name == "init" {
			return banInit
		}
	}
	return ""
}
