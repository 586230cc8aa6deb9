package main

import (
	"bytes"
	"io/fs"
	"path"
	"strings"
)

// badFolder holds programs that are wrong on purpose.
const badFolder = "/testdata/bad/"

// checkPrograms demands that every program parses and is spelt as the formatter
// spells it.
func checkPrograms(t *tree) []problem {
	var problems []problem
	for _, file := range t.files {
		if path.Ext(file) != ".prog" || strings.Contains("/"+file, badFolder) {
			continue
		}
		content, err := fs.ReadFile(t.fsys, file)
		if err != nil {
			problems = append(problems, problem{path: file, text: err.Error()})
			continue
		}
		want, err := canonical(file, content)
		if err != nil {
			problems = append(problems, asProblem(file, err))
			continue
		}
		if line := firstDifference(content, want); line > 0 {
			problems = append(problems, problem{file, line,
				"not formatted: run go run ./cmd/allocfuzz fmt " + file})
		}
	}
	return problems
}

// firstDifference gives the first line, from 1, in which two texts differ; 0 for
// equal ones.
func firstDifference(got, want []byte) int {
	if bytes.Equal(got, want) {
		return 0
	}
	a, b := bytes.Split(got, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range min(len(a), len(b)) {
		if !bytes.Equal(a[i], b[i]) {
			return i + 1
		}
	}
	return min(len(a), len(b))
}
