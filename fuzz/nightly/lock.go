package nightly

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// lockFile is the name of the lock in the folder of a night.
const lockFile = "lock"

// ErrLocked is the error of a folder in which another night is under way.
var ErrLocked = errors.New("another night is under way")

// A Lock keeps two nights of one folder apart. It goes with the process that holds it, however
// that ends.
type Lock struct{ f *os.File }

// Take takes the lock of a folder, which must exist. When another process has it the error is
// ErrLocked with what that process left as its name.
func Take(dir string) (*Lock, error) {
	f, err := os.OpenFile(filepath.Join(dir, lockFile), os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := lock(f); err != nil {
		who, _ := io.ReadAll(io.LimitReader(f, 200))
		f.Close()
		if errors.Is(err, errHeld) {
			return nil, fmt.Errorf("%w in %s (%s): wait for its end, or give this one another "+
				"--state", ErrLocked, dir, strings.TrimSpace(string(who)))
		}
		return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	if err := f.Truncate(0); err == nil {
		_, _ = fmt.Fprintf(f, "process %d, since %s\n", os.Getpid(),
			time.Now().Format(time.DateTime)) // for people only
	}
	return &Lock{f}, nil
}

// Release gives the lock back. Its file stays: to remove it would let two others have it.
func (l *Lock) Release() { l.f.Close() }
