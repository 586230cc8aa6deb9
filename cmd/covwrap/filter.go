package main

import (
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// option is the compiler's debug option that inserts coverage counters.
const option = "libfuzzer"

// splitPrefixes splits the list in $FUZZCOV into sorted import path prefixes.
// Blank entries are left out and a trailing "/..." is taken off, so package
// patterns work too.
func splitPrefixes(list string) []string {
	var prefixes []string
	for p := range strings.SplitSeq(list, ",") {
		p = strings.TrimSuffix(strings.TrimSpace(p), "/...")
		if p = strings.TrimSuffix(p, "/"); p != "" {
			prefixes = append(prefixes, p)
		}
	}
	slices.Sort(prefixes)
	return slices.Compact(prefixes)
}

// isCompiler tells whether tool is the Go compiler.
func isCompiler(tool string) bool {
	return strings.TrimSuffix(filepath.Base(tool), ".exe") == "compile"
}

// wantsVersion tells whether the go command asks the compiler for the version
// that goes into the keys of the build cache.
func wantsVersion(tool string, args []string) bool {
	return isCompiler(tool) && slices.Contains(args, "-V=full")
}

// stamp adds a digest of the prefixes to the compiler's version line. The
// digest sticks to the last word: the go command reads the whole line of a
// released compiler, and of a development one only what follows the last slash.
func stamp(line string, prefixes []string) string {
	sum := sha256.Sum256([]byte(strings.Join(prefixes, ",")))
	return fmt.Sprintf("%s+covwrap-%x", strings.TrimSpace(line), sum[:6])
}

// selected tells whether the package of importPath lies under a prefix. The
// path is taken as in $TOOLEXEC_IMPORTPATH: a variant built for a test carries
// the test's name behind it, as in "pkg [pkg.test]".
func selected(importPath string, prefixes []string) bool {
	importPath, _, _ = strings.Cut(importPath, " ")
	for _, p := range prefixes {
		if importPath == p || strings.HasPrefix(importPath, p+"/") {
			return true
		}
	}
	return false
}

// filter gives the arguments with which to run tool for one package: the same
// ones, without the coverage option when the compiler's package is not selected.
// No prefixes select everything.
func filter(tool, importPath string, args, prefixes []string) []string {
	if !isCompiler(tool) || len(prefixes) == 0 || selected(importPath, prefixes) {
		return args
	}
	kept := make([]string, 0, len(args))
	for _, arg := range args {
		if arg = dropOption(arg); arg != "" {
			kept = append(kept, arg)
		}
	}
	return kept
}

// dropOption takes the coverage option out of one argument and leaves the other
// debug options that share the flag. It gives "" when nothing is left.
func dropOption(arg string) string {
	dash := "-d="
	list, ok := strings.CutPrefix(arg, dash)
	if !ok {
		dash = "--d="
		if list, ok = strings.CutPrefix(arg, dash); !ok {
			return arg
		}
	}
	kept := slices.DeleteFunc(strings.Split(list, ","), func(o string) bool {
		name, _, _ := strings.Cut(o, "=")
		return name == option
	})
	if len(kept) == 0 {
		return ""
	}
	return dash + strings.Join(kept, ",")
}
