// Tidy checks this repository: which package imports which, what deterministic
// code must not use, sizes, comments, texts, programs, patches and the Makefile.
//
//	go run ./cmd/tidy [folder]
//
// Each thing that is wrong is one line "file:line: message", and any of them
// makes the exit status 1. The same checks run as a test of this package, so
// "go test ./..." is enough. The folder is the root of the module, or any below
// it; the default is the working directory.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// checks are the checks in the order in which they run.
var checks = []func(*tree) []problem{
	checkArrows,
	checkFuzzImports,
	checkBans,
	checkMapOrder,
	checkSizes,
	checkFormats,
	checkDocs,
	checkTexts,
	checkPrograms,
	checkPatches,
	checkMakefile,
}

func main() {
	folder := "."
	switch len(os.Args) {
	case 1:
	case 2:
		folder = os.Args[1]
	default:
		fmt.Fprintln(os.Stderr, "tidy: want at most one argument, the root of the module")
		os.Exit(2)
	}
	problems, err := tidy(folder)
	if err != nil {
		fmt.Fprintln(os.Stderr, "tidy:", err)
		os.Exit(2)
	}
	for _, p := range problems {
		fmt.Println(p)
	}
	if len(problems) > 0 {
		os.Exit(1)
	}
}

// tidy runs every check on the module around folder.
func tidy(folder string) ([]problem, error) {
	root, err := moduleRoot(folder)
	if err != nil {
		return nil, err
	}
	t, err := load(os.DirFS(root))
	if err != nil {
		return nil, err
	}
	t.root = root
	var problems []problem
	for _, check := range checks {
		problems = append(problems, check(t)...)
	}
	return problems, nil
}

// moduleRoot finds the folder of the nearest go.mod, from folder upwards.
func moduleRoot(folder string) (string, error) {
	start, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod in %s or above it", start)
		}
	}
}
