//go:build unix

package nightly

import (
	"errors"
	"os"
	"syscall"
)

// Errors of a disk that has no room, and of a file that is larger than it may be.
var (
	errDiskFull = syscall.ENOSPC
	errTooBig   = syscall.EFBIG
)

// errHeld says that somebody else has the lock.
var errHeld = errors.New("held")

// lock takes the lock of a file without waiting.
func lock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errHeld
	}
	return err
}
