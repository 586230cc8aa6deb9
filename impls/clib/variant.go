package clib

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"

	"allocfuzz/impls"
	"allocfuzz/impls/machine"
)

// Prefix begins the name of a subject that is any library: what follows is its file.
const Prefix = "lib:"

// A Library is a subject's library as a child found it.
type Library struct {
	File      string   // as the loader found it
	Family    string   // how its functions are named
	Functions []string // that it has
	Version   string   // as it says itself, "" when it does not
}

// opened are the subjects that were looked at, by name: a library is asked once a process.
var opened struct {
	sync.Mutex
	found map[string]*found
}

type found struct {
	variant *impls.Variant
	library Library
	syms    symbols // those that are there have an address, though not of this process
	file    string
	as      string // the subject whose promises it makes
	err     error
}

// Lookup makes the subject of a name: that of a known library, or Prefix and a file. ok is
// false for other names; the error says why there is no such subject here.
func Lookup(name string) (v *impls.Variant, ok bool, err error) {
	f, ok := lookup(name)
	if !ok {
		return nil, false, nil
	}
	return f.variant, true, f.err
}

// About is what a child found in the library of a subject that Lookup made.
func About(name string) (Library, bool) {
	f, ok := lookup(name)
	if !ok || f.err != nil {
		return Library{}, false
	}
	return f.library, true
}

func lookup(name string) (*found, bool) {
	file, ok := strings.CutPrefix(name, Prefix)
	k := knownNamed(name)
	if !ok && k == nil {
		return nil, false
	}
	opened.Lock()
	defer opened.Unlock()
	if f := opened.found[name]; f != nil {
		return f, true
	}
	f := &found{err: errNone}
	if Supported {
		f = find(name, file, k)
	}
	if opened.found == nil {
		opened.found = map[string]*found{}
	}
	opened.found[name] = f
	return f, true
}

// errNone says why no library is loaded: a child of such a build would not serve one.
var errNone = errors.New("this build loads no libraries: expected Linux on amd64 or arm64, " +
	"without the tag nolibs")

// find finds the library of a subject and looks into it; k is nil for one by its file.
func find(name, file string, k *Known) *found {
	f := &found{}
	if k != nil {
		file = k.Find()
	} else if file != "" && !strings.Contains(file, "/") {
		if found := inDirs(file); found != "" {
			file = found
		}
	}
	switch {
	case file == "" && k != nil:
		f.err = fmt.Errorf("%s is not installed: expected %s from Debian's package %s; "+
			"make real fetches it", name, k.Files[0], k.Package)
	case file == "":
		f.err = fmt.Errorf("%q names no library: expected a file or a name as libfoo.so.1", name)
	case !spelled(name[strings.IndexByte(name, ':')+1:]):
		f.err = fmt.Errorf("%q: expected letters, digits and _-+./ in the name of a library; "+
			"a symbolic link can have such", file)
	default:
		f.look(name, file)
	}
	return f
}

// Names says whether a name is that of a subject of this package, here or elsewhere.
func Names(subject string) bool {
	return strings.HasPrefix(subject, Prefix) || knownNamed(subject) != nil
}

// spelled says whether a file's name can stand in a program and in a list of subjects.
func spelled(file string) bool {
	for _, c := range file {
		ok := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' ||
			strings.ContainsRune("_-+./", c)
		if !ok {
			return false
		}
	}
	return true
}

func knownNamed(name string) *Known {
	for i := range known {
		if known[i].Name == name {
			return &known[i]
		}
	}
	return nil
}

// look asks a child what is in the library.
func (f *found) look(name, file string) {
	as := name
	if strings.HasPrefix(name, Prefix) {
		as = knownAs(file)
	}
	if strings.Contains(file, "/") { // a child may run elsewhere
		if abs, err := filepath.Abs(file); err == nil {
			file = abs
		}
	}
	f.file, f.as = file, as
	p, err := start(file, as)
	if err != nil {
		f.err = err
		return
	}
	defer p.Close()
	h := p.hello
	f.library = Library{File: h.File, Family: h.Family, Functions: h.Functions,
		Version: h.Version}
	s := symbols{family: familyNamed(h.Family)}
	for _, n := range h.Functions {
		if fn, ok := functionNamed(n); ok {
			s.addr[fn] = 1
		}
	}
	f.syms = s
	about := "malloc and its like of " + h.File
	if k := knownNamed(as); k != nil {
		about = k.About + ", " + h.File
	}
	f.variant = &impls.Variant{
		Name: name, Year: thisYear, About: about, Sound: true, Machines: anyKernel,
		Caps: s.capabilities(), Profile: profileOf(as).Profile,
		Promise: promise,
		Dial: func() (impls.Player, error) {
			p, err := start(file, as)
			if err != nil {
				return nil, err
			}
			return p, nil
		},
	}
}

// thisYear is when the libraries were first tried.
const thisYear = 2026

// anyKernel: a library knows none of the kernels that are simulated.
var anyKernel = []machine.Preempt{machine.PreemptNone, machine.PreemptFull, machine.PreemptRT}
