package main

import (
	"slices"
	"strconv"
	"strings"
)

// A row says what the packages of one pattern may import, in files that are no
// tests. A pattern is a path below the module, or a path and "/..." for all that
// lies below it, the path itself included. The standard library is free.
type row struct {
	packages string
	project  []string // patterns of this module
	outside  []string // prefixes of other modules; "*" is any
}

// contract is what every family of allocators stands on.
var contract = []string{"impls", "impls/machine", "impls/fault", "debugcheck"}

// arrows is the direction of the whole repository; the first row that fits a
// package counts. Allocators never see programs, programs never see allocators,
// only the oracle joins them, and it knows no family. What the row of a package
// leaves open on purpose is in the comment beside it.
var arrows = []row{
	{"impls/fault", nil, nil},
	{"impls/machine", []string{"impls/fault"}, nil},
	{"debugcheck", []string{"impls/fault"}, nil},
	{"impls", []string{"impls/machine", "impls/fault", "debugcheck"}, nil},
	{"impls/all", []string{"impls/..."}, nil},
	{"impls/golib", append([]string{"impls/kmalloc"}, contract...),
		[]string{"modernc.org/memory", "github.com/ncruces/wasm2go",
			"github.com/bytedance/gopkg/lang/mcache"}},
	{"impls/clib", append([]string{"impls/kmalloc", "impls/remote"}, contract...),
		[]string{"github.com/ebitengine/purego", "golang.org/x/sys"}},
	{"impls/play", contract, nil},
	{"impls/remote", append([]string{"impls/play"}, contract...), nil},
	{"impls/page", contract, nil},
	{"impls/kmalloc", append([]string{"impls/page"}, contract...), nil},
	{"impls/...", append([]string{"impls/page", "impls/kmalloc"}, contract...), nil},

	{"corpus/prog", nil, nil},
	{"corpus/bugs", nil, nil},
	{"corpus/trace", []string{"corpus/prog"}, []string{
		"github.com/klauspost/compress/zstd", "google.golang.org/protobuf/encoding/protowire",
	}},
	{"corpus/...", []string{"corpus/prog", "corpus/bugs"}, nil},

	{"oracle/history/linear", []string{"oracle/history", "impls"},
		[]string{"github.com/anishathalye/porcupine"}},
	{"oracle/history", []string{"impls", "impls/fault"}, nil},
	{"oracle/live", []string{"impls"}, nil},
	{"oracle/pages", []string{"impls", "impls/fault"}, nil},
	{"oracle/shadow", []string{"impls", "impls/fault", "debugcheck"}, nil},
	{"oracle/sched", []string{"impls/machine", "impls/fault", "corpus/prog"}, nil},
	{"oracle/explore", []string{"oracle/sched", "impls/machine"}, nil},
	{"oracle", []string{
		"oracle/sched", "oracle/shadow", "oracle/live", "oracle/pages", "oracle/history", "impls",
		"impls/play", "impls/machine",
		"impls/fault", "corpus/prog", "debugcheck",
	}, nil},

	// Instrumented by every fuzz binary, so it stays light: see heavy.
	{"fuzz", []string{
		"fuzz/input", "fuzz/pairs", "oracle/...", "impls/...", "debugcheck", "corpus/...",
	}, nil},
	{"fuzz/pairs", []string{"oracle/...", "impls/...", "corpus/prog"}, nil},
	{"fuzz/input", []string{"corpus/prog"}, []string{"github.com/AdaLogics/go-fuzz-headers"}},
	{"fuzz/overlay", []string{"corpus/bugs"}, nil},
	{"fuzz/...", []string{
		"fuzz/...", "oracle/...", "impls/...", "debugcheck", "corpus/...",
	}, []string{"*"}},

	{"cmd/covwrap", nil, nil},
	{"cmd/tidy", []string{"corpus/prog", "corpus/bugs", "impls/fault"}, nil},
	{"cmd/...", []string{
		"fuzz/...", "oracle/...", "impls/...", "debugcheck", "corpus/...",
	}, []string{"*"}},
}

// fits tells whether a path below the module fits a pattern.
func fits(path, pattern string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "/..."); ok {
		return under(path, prefix)
	}
	return path == pattern
}

// checkArrows holds every import of a file that is no test against the table.
func checkArrows(t *tree) []problem {
	var problems []problem
	for _, s := range t.sources {
		if s.test || t.nested(s.dir) {
			continue
		}
		i := slices.IndexFunc(arrows, func(r row) bool { return fits(s.dir, r.packages) })
		if i < 0 {
			problems = append(problems, t.at(s, s.file.Package,
				"package %s is in no row of the table of imports: add one to cmd/tidy", s.dir))
			continue
		}
		problems = append(problems, t.imports(s, arrows[i])...)
	}
	return problems
}

// imports checks the imports of one file against its row.
func (t *tree) imports(s *source, r row) []problem {
	var problems []problem
	for _, spec := range s.file.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil || t.mayImport(r, name) {
			continue
		}
		problems = append(problems, t.at(s, spec.Pos(),
			"package %s must not import %s: the table of imports in cmd/tidy has no such arrow",
			s.dir, name))
	}
	return problems
}

// mayImport tells whether a row allows an import.
func (t *tree) mayImport(r row, name string) bool {
	if local, ok := strings.CutPrefix(name, t.module+"/"); ok {
		return slices.ContainsFunc(r.project, func(p string) bool { return fits(local, p) })
	}
	first, _, _ := strings.Cut(name, "/")
	if !strings.Contains(first, ".") {
		return true
	}
	return slices.ContainsFunc(r.outside, func(p string) bool {
		return p == "*" || under(name, p)
	})
}
