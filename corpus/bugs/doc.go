// Package bugs holds the suite's own examination: patches that put one known bug
// each into the allocators, and the code that reads them and applies them in
// memory. README.md describes the files.
//
// The allocators carry no trace of their mutants. A patch is applied to bytes,
// never to the tree, and the result is built with the go command's -overlay
// (package fuzz/overlay). A patch replaces lines and adds none, so positions,
// coverage and reports of a mutant stay aligned with the clean source.
//
// Line numbers in a patch are hints for people. What binds a hunk to its place
// is its text, which must occur exactly once in the file: a patch whose source
// has moved on is an error for whoever moved it, not a silent shift.
package bugs
