//go:build !linux || !(amd64 || arm64) || nolibs

package clib

import "errors"

// Supported says whether libraries can be loaded in this build.
const Supported = false

func open(string) (*library, error) {
	return nil, errors.New("this build loads no libraries: expected Linux on amd64 or arm64, " +
		"without the tag nolibs")
}
