package nightly

import (
	"errors"
	"os"
	"syscall"

	"golang.org/x/sys/windows"
)

// Errors of a disk that has no room, and of a file that is larger than it may be.
var (
	errDiskFull error = windows.ERROR_DISK_FULL
	errTooBig   error = syscall.EFBIG
)

// errHeld says that somebody else has the lock.
var errHeld = errors.New("held")

// lock takes the lock of a file without waiting: of a byte far behind its end, so that what the
// file says can be read.
func lock(f *os.File) error {
	const far = 1 << 30
	err := windows.LockFileEx(windows.Handle(f.Fd()),
		windows.LOCKFILE_EXCLUSIVE_LOCK|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0,
		&windows.Overlapped{Offset: far})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}
