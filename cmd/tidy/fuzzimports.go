package main

import (
	"fmt"
	"slices"
	"strings"
)

// heavy are the packages that a fuzz binary must not carry: each of them adds
// thousands of counters, all scanned at every execution, for nothing under test.
var heavy = []string{
	"net", "encoding/xml", "encoding/gob", "html", "text/template", "database", "image",
	"github.com/google/go-cmp", "github.com/leanovate/gopter", "github.com/spf13",
	"github.com/anishathalye/porcupine", "github.com/schollz", "github.com/jedib0t",
	"golang.org/x/tools", "golang.org/x/perf",
}

// checkFuzzImports lists what the test binary of package fuzz imports, directly
// or not, and complains of heavy packages.
func checkFuzzImports(t *tree) []problem {
	const folder = "fuzz"
	i := slices.IndexFunc(t.sources, func(s *source) bool { return s.dir == folder })
	if t.root == "" || i < 0 {
		return nil
	}
	out, err := t.goCommand("list", "-e", "-deps", "-test", "./"+folder)
	if err != nil {
		return []problem{{path: folder, text: err.Error()}}
	}
	return heavyImports(folder, strings.Split(string(out), "\n"))
}

// heavyImports gives a problem for every heavy package of a list as "go list
// -deps -test" prints it.
func heavyImports(folder string, imports []string) []problem {
	var problems []problem
	for _, name := range imports {
		name, _, _ = strings.Cut(name, " ")
		if slices.ContainsFunc(heavy, func(h string) bool { return under(name, h) }) {
			problems = append(problems, problem{path: folder, text: fmt.Sprintf(
				"the fuzz binary imports %s, which slows every execution down: "+
					"move what needs it to a package below fuzz", name)})
		}
	}
	return problems
}
