// Package fuzz runs inputs on subjects: it holds the fuzz targets as plain
// functions of bytes, for go test -fuzz, for replay and for other engines alike.
// Package input below it says what bytes mean. Both are instrumented by fuzz
// binaries and import little.
package fuzz
