package record

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// reserve makes a file of size bytes, with room for each where the file system can promise it.
func reserve(f *os.File, size int64) error {
	err := unix.Fallocate(int(f.Fd()), 0, 0, size)
	if errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS) {
		return f.Truncate(size)
	}
	return err
}

// privileged says whether a program runs with rights that whoever starts it has not.
func privileged(program string) bool {
	info, err := os.Stat(program)
	if err != nil {
		return false
	}
	s, ok := info.Sys().(*syscall.Stat_t)
	return ok && (info.Mode()&fs.ModeSetuid != 0 && int(s.Uid) != os.Getuid() ||
		info.Mode()&fs.ModeSetgid != 0 && int(s.Gid) != os.Getgid())
}
