//go:build libfuzzer_entry

// Libfuzzer is a fuzz target for libFuzzer and for the engines that take its place: an archive with
// the entries that they call, for a C compiler to link. Package fuzz/libfuzzer builds it. The
// environment is that of the targets under go test -fuzz; a finding ends the process by abort.
//
// The build tag is not libfuzzer: that is the runtime's own, see trace.go.
//
//	go build -tags libfuzzer_entry,nolibs -buildmode=c-archive -ldflags='-X main.target=FuzzSMP' \
//		-gcflags='allocfuzz/impls/...=-d=libfuzzer' -o smp.a ./cmd/libfuzzer
//	clang -fsanitize=fuzzer smp.a -o smp
package main

// #include <stddef.h>
// #include <stdint.h>
// #include <stdlib.h>
import "C"

import (
	"fmt"
	"os"
	"unsafe"

	"allocfuzz/fuzz"
)

// target is the name of the fuzz target. The linker sets it.
var target string

var entry func(fuzz.TB, []byte)

// LLVMFuzzerInitialize finds the target and makes what it needs once.
//
//export LLVMFuzzerInitialize
func LLVMFuzzerInitialize(argc *C.int, argv ***C.char) C.int {
	if entry = fuzz.Entry(target); entry == nil {
		fmt.Fprintf(os.Stderr, "allocfuzz: no fuzz target %q: set main.target when linking\n",
			target)
		os.Exit(2)
	}
	fuzz.Warm(func(data []byte) { entry(failed{}, data) })
	return 0
}

// LLVMFuzzerTestOneInput runs one input.
//
//export LLVMFuzzerTestOneInput
func LLVMFuzzerTestOneInput(data *C.uint8_t, size C.size_t) C.int {
	entry(failed{}, C.GoBytes(unsafe.Pointer(data), C.int(size)))
	return 0
}

// failed ends the process by a signal that the engine handles.
type failed struct{}

func (failed) Helper() {}

func (failed) Fatalf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
	C.abort()
}

func main() {} // an archive has to have one
