//go:build !linux || !(amd64 || arm64) || nolibs

package clib

// Supported says whether libraries can be loaded in this build.
const Supported = false

func open(string) (*library, error) {
	return nil, errNone
}
