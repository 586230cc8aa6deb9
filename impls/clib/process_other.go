//go:build !linux

package clib

import (
	"errors"

	"allocfuzz/impls"
)

// TakeOver does nothing where no libraries are loaded.
func TakeOver() {}

// A hello is what a child found in its library.
type hello struct {
	Family    string
	Functions []string
	File      string
}

type process struct {
	impls.Player
	hello hello
}

func start(string, string) (*process, error) {
	_, err := open("")
	return nil, errors.Join(err)
}
