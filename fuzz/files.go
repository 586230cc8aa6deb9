package fuzz

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// WriteFile writes a file whole or not at all: write fills a temporary file beside
// it, which is synced and then renamed. A file that exists keeps its permissions.
// What is no regular file (a device, a pipe) is written to as it is. An error of
// the file system names the file; one of write is returned as it is.
func WriteFile(path string, write func(io.Writer) error) error {
	return writeFile(path, true, write)
}

func writeFile(path string, sync bool, write func(io.Writer) error) error {
	perm, there := os.FileMode(0o666), false
	if info, err := os.Stat(path); err == nil {
		there = true
		if !info.Mode().IsRegular() {
			return writeThrough(path, write)
		}
		perm = info.Mode().Perm()
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	tmp, err := createBeside(path, perm)
	if err != nil {
		return err
	}
	if there {
		err = tmp.Chmod(perm) // whatever the umask
	}
	if err == nil {
		err = write(tmp)
	}
	if err == nil && sync {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		os.Remove(tmp.Name())
	}
	return err
}

// writeThrough writes to what cannot be replaced.
func writeThrough(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	err = write(f)
	if e := f.Close(); err == nil {
		err = e
	}
	return err
}

// baseMost is how much of a file's name is in that of the hidden one: a name may have 255 bytes.
const baseMost = 200

// WriteNew is WriteBytes to a file that must not be there: then it is left as it is, and the error
// is fs.ErrExist. Of several who write the same name at once one has it.
func WriteNew(path string, data []byte) error {
	tmp, err := createBeside(path, 0o666)
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name())
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if e := tmp.Close(); err == nil {
		err = e
	}
	if err != nil {
		return err
	}
	err = os.Link(tmp.Name(), path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return err
	}
	// A file system without links: the best there is.
	if _, e := os.Lstat(path); e == nil {
		return fs.ErrExist
	}
	return os.Rename(tmp.Name(), path)
}

// createBeside makes a hidden file of a new name in the folder of path.
func createBeside(path string, perm os.FileMode) (*os.File, error) {
	dir, base := filepath.Split(path)
	if len(base) > baseMost {
		base = base[:baseMost]
	}
	for n := 0; ; n++ {
		name := fmt.Sprintf("%s.%s.%d-%d.tmp", dir, base, os.Getpid(), n)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
		if !errors.Is(err, fs.ErrExist) {
			return f, err
		}
	}
}

// WriteBytes writes a file that holds data, as WriteFile does.
func WriteBytes(path string, data []byte) error { return writeFile(path, true, whole(data)) }

// WriteLoose is WriteBytes without waiting until the data are on the disk: when the machine goes
// down, not when the process does, the file may have lost what is in it.
func WriteLoose(path string, data []byte) error { return writeFile(path, false, whole(data)) }

// whole writes data.
func whole(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

// halfWritten is the name of a file that createBeside made.
var halfWritten = regexp.MustCompile(`^\..+\.([0-9]+)-[0-9]+\.tmp$`)

// RemoveHalf removes from a folder what WriteFile had not yet renamed when its process was killed:
// of the files that mine says are the caller's by their names, nil for all. Files of processes that
// live are left. A folder that is not there has none.
func RemoveHalf(dir string, mine func(name string) bool) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !Half(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		name := e.Name()[1:] // .NAME.PID-N.tmp
		for range 2 {
			name = name[:strings.LastIndexByte(name, '.')]
		}
		if mine != nil && !mine(name) {
			continue
		}
		pid, err := strconv.Atoi(halfWritten.FindStringSubmatch(e.Name())[1])
		if err != nil || alive(pid) {
			continue
		}
		err = os.Remove(filepath.Join(dir, e.Name()))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// Half says whether a file of that name is one that WriteFile has not yet renamed.
func Half(name string) bool { return halfWritten.MatchString(name) }

// alive says whether a process may be there.
func alive(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	err = p.Signal(syscall.Signal(0))
	return !errors.Is(err, os.ErrProcessDone) && !errors.Is(err, syscall.ESRCH)
}
