#!/bin/bash -eu
# Builds every fuzz target with its seeds, dictionary and options, where ClusterFuzzLite and OSS-Fuzz
# look for them. The compiler, the engine and the folders are what their environment says; a test
# of cmd/fuzzers runs this outside a container with the same variables.
cd "$SRC/allocfuzz"
go run ./cmd/fuzzers build -o "$OUT"
