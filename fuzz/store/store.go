// Package store keeps a working corpus: the inputs that a fuzzer found worth keeping, outside the
// repository. It is a folder for each target, in which every file is one input, as it is, with the
// hash of its contents for a name. So the same input is never kept twice, a file that was cut short
// is known by its name, and stores can be joined with cp.
//
// What else lies in the folder is somebody else's: it is named and left alone.
package store

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"allocfuzz/fuzz"
	"allocfuzz/fuzz/gofuzz"
)

// A Store is a working corpus.
type Store struct{ Dir string }

// An Input is one file of a store.
type Input struct {
	Name string // hash of the data
	Data []byte
}

// A Problem is a file that was left out, and why.
type Problem struct {
	File string `json:"file"`
	Why  string `json:"why"`
}

// Open opens a store, which is made if need be, and removes what a process that was killed left
// half written in it.
func Open(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return nil, err
	}
	s := &Store{dir}
	targets, err := s.Targets()
	if err != nil {
		return nil, err
	}
	for _, t := range targets {
		if err := fuzz.RemoveHalf(filepath.Join(dir, t), isName); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// Name is that of an input: the hash by which libFuzzer names its files, so that the folder of a
// target is a corpus of libFuzzer too.
func Name(data []byte) string { return fmt.Sprintf("%x", sha1.Sum(data)) }

// nameLen is the number of hexadecimal digits of a name.
const nameLen = 2 * sha1.Size

// isName says whether a file is called as an input is.
func isName(name string) bool {
	_, err := hex.DecodeString(name)
	return err == nil && len(name) == nameLen
}

// targetName is how fuzz targets are called.
var targetName = regexp.MustCompile(`^Fuzz[A-Za-z0-9_]*$`)

// Targets are the names of the targets that have a folder, in order.
func (s *Store) Targets() ([]string, error) {
	entries, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() && targetName.MatchString(e.Name()) {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// Add keeps an input. It says whether it was not there before.
func (s *Store) Add(target string, data []byte) (added bool, err error) {
	if !targetName.MatchString(target) {
		return false, fmt.Errorf("%q is no name of a fuzz target: expected Fuzz and letters",
			target)
	}
	dir := filepath.Join(s.Dir, target)
	at := filepath.Join(dir, Name(data))
	if have, err := os.ReadFile(at); err == nil && Name(have) == Name(data) {
		return false, nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return false, err
	}
	return true, fuzz.WriteLoose(at, data) // a file that loses its contents is known by its name
}

// Inputs are those of a target, in the order of their names, and the files that are none.
func (s *Store) Inputs(target string) ([]Input, []Problem, error) {
	dir := filepath.Join(s.Dir, target)
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	var out []Input
	var bad []Problem
	for _, e := range entries {
		if fuzz.Half(e.Name()) {
			continue // of somebody who is writing it
		}
		at := filepath.Join(dir, e.Name())
		in, why := read(at, e)
		if why != "" {
			bad = append(bad, Problem{at, why})
			continue
		}
		out = append(out, in)
	}
	return out, bad, nil
}

// notItsHash is why a file with the name of an input is none.
const notItsHash = "its name is not the hash of its contents: it was cut or changed"

// read reads one file of a store, or says why it is none.
func read(at string, e fs.DirEntry) (Input, string) {
	if !e.Type().IsRegular() {
		return Input{}, "is no file"
	}
	data, err := os.ReadFile(at)
	switch {
	case err != nil:
		return Input{}, err.Error()
	case Name(data) != e.Name() && len(e.Name()) == nameLen:
		return Input{}, notItsHash
	case Name(data) != e.Name():
		return Input{}, "is of another kind: the name of an input is the hash of its contents"
	}
	return Input{e.Name(), data}, ""
}

// Remove takes inputs out of the store. One that is not there is no matter.
func (s *Store) Remove(target string, names []string) error {
	for _, n := range names {
		at := filepath.Join(s.Dir, target, n)
		data, err := os.ReadFile(at)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		if Name(data) != n {
			return fmt.Errorf("%s: not removed: its name is not the hash of its contents", at)
		}
		if err := os.Remove(at); err != nil {
			return err
		}
	}
	return nil
}

// ToGo writes the inputs of a target to a folder of the go command's, where fuzzing starts from
// them, and says how many it had not. What else is there stays.
func (s *Store) ToGo(target, dir string) (written int, bad []Problem, err error) {
	list, bad, err := s.Inputs(target)
	if err != nil {
		return 0, bad, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return 0, bad, err
	}
	for _, in := range list {
		text := gofuzz.Encode(in.Data)
		at := filepath.Join(dir, gofuzz.Name(text))
		if have, err := os.ReadFile(at); err == nil && string(have) == string(text) {
			continue
		}
		if err := fuzz.WriteLoose(at, text); err != nil {
			return written, bad, err
		}
		written++
	}
	return written, bad, nil
}

// AddAll keeps inputs. It says how many were not there before.
func (s *Store) AddAll(target string, list []Input) (added int, err error) {
	for _, in := range list {
		fresh, err := s.Add(target, in.Data)
		if err != nil {
			return added, err
		}
		if fresh {
			added++
		}
	}
	return added, nil
}

// Take adds the inputs of a folder, as Read reads them, but for files in taken, which has all of
// them then: a file that is named by its contents need not be read again. It says how many were
// new.
func (s *Store) Take(target, dir string, taken map[string]bool) (added int, bad []Problem,
	err error) {
	list, bad, err := Read(dir, taken)
	if err != nil {
		return 0, bad, err
	}
	if added, err = s.AddAll(target, list); err != nil {
		clear(taken) // some of them are not there
	}
	return added, bad, err
}

// Read reads the inputs of a folder of one target: files of the go command, inputs as they are, and
// those of a store. Hidden files are nobody's; what else is no input is named. Files in taken, by
// their names in the folder, are passed over, and the others join it; it may be nil.
func Read(dir string, taken map[string]bool) (list []Input, bad []Problem, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, nil, err
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		if strings.HasPrefix(e.Name(), ".") || taken[e.Name()] {
			continue
		}
		if taken != nil {
			taken[e.Name()] = true
		}
		if !e.Type().IsRegular() {
			bad = append(bad, Problem{at, "is no file"})
			continue
		}
		data, err := ReadInput(at)
		if err != nil {
			bad = append(bad, Problem{at, err.Error()})
			continue
		}
		list = append(list, Input{Name(data), data})
	}
	return list, bad, nil
}

// inputMax is more bytes than any input has.
const inputMax = 1 << 20

// ReadInput reads an input from a file of the go command's form, or as it is.
func ReadInput(name string) ([]byte, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("is no file")
	}
	if info.Size() > 4*inputMax+64 { // as a Go string
		return nil, fmt.Errorf("%d bytes are too many for an input", info.Size())
	}
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if !gofuzz.Is(text) {
		if len(text) > inputMax {
			return nil, fmt.Errorf("%d bytes are too many for an input", len(text))
		}
		if len(filepath.Base(name)) == nameLen && Name(text) != filepath.Base(name) {
			return nil, errors.New(notItsHash)
		}
		return text, nil
	}
	data, err := gofuzz.Decode(text)
	if err != nil {
		return nil, fmt.Errorf("line %w", err)
	}
	return data, nil
}
