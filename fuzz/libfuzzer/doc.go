// Package libfuzzer builds the fuzz targets for libFuzzer, LLVM's fuzzing engine, and has it merge
// corpora. It needs clang with its runtime library (Debian: clang, libclang-rt-VERSION-dev) and
// cgo; nothing else of the project needs this package.
package libfuzzer
