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
	Version   string
}

type process struct {
	impls.Player
	hello hello
}

func start(string, string) (*process, error) {
	_, err := open("")
	return nil, errors.Join(err)
}

// EnvLimit and EnvMemory bound what a child may take, where libraries are loaded.
const (
	EnvLimit  = "ALLOCFUZZ_CHILD_LIMIT"
	EnvMemory = "ALLOCFUZZ_CHILD_MEMORY"
)

// Score has nothing to say where no libraries are loaded.
func Score(string, *Misuse, uint64) (Response, string, error) {
	_, err := open("")
	return NothingSeen, "", err
}
