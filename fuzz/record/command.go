package record

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// elsewhere ends the messages about programs that nothing can be put in front of.
const elsewhere = "; for other ways to record see docs/recording.md"

// find looks a command up and says why it cannot be recorded, when it cannot.
func find(name, shim string) (path string, err error) {
	path, err = exec.LookPath(name)
	if errors.Is(err, exec.ErrDot) {
		path, err = "./"+path, nil // it was found by a $PATH that has "."
	}
	if err != nil {
		return "", fmt.Errorf("%s: no command of this name can be run: %w; expected one in $PATH, "+
			"or a path", name, errors.Unwrap(err))
	}
	program, err := interpreter(path)
	if err != nil {
		return "", err
	}
	if privileged(program) {
		return "", fmt.Errorf("%s: is set-user-ID or set-group-ID, and the system puts nothing in "+
			"front of such; record as its owner, or a copy without the bit", program)
	}
	return path, loadable(program, shim)
}

// interpreter follows the first line of a script to the program that reads it.
func interpreter(path string) (string, error) {
	for range 4 {
		f, err := os.Open(path)
		if err != nil {
			return path, nil // it can be run all the same
		}
		line, err := bufio.NewReader(io.LimitReader(f, 256)).ReadString('\n')
		f.Close()
		if !strings.HasPrefix(line, "#!") {
			return path, nil
		}
		words := strings.Fields(line[2:])
		if err != nil || len(words) == 0 {
			return "", fmt.Errorf("%s: a script whose first line names no program", path)
		}
		path = words[0]
	}
	return "", fmt.Errorf("%s: scripts that read scripts, more than 4 deep", path)
}

// loadable says whether the shim can be loaded into a program, where that can be seen from outside.
func loadable(program, shim string) error {
	text, err := os.ReadFile(program)
	if err != nil {
		return nil //nolint:nilerr // it may be executed and not read
	}
	f, err := elf.NewFile(bytes.NewReader(text))
	if err != nil {
		return fmt.Errorf("%s: is no ELF program and no script%s", program, elsewhere)
	}
	lib, err := elf.Open(shim)
	if err != nil {
		return fmt.Errorf("%s: %w; remove it", shim, err)
	}
	defer lib.Close()
	if f.Class != lib.Class || f.Machine != lib.Machine {
		return fmt.Errorf("%s: is for %v, %v, and the C compiler makes %v, %v; name a compiler "+
			"for it in $CC, such as CC='gcc -m32'", program, f.Machine, f.Class, lib.Machine,
			lib.Class)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return nil
		}
	}
	return fmt.Errorf("%s: is statically linked: nothing can be put in front of its malloc%s",
		program, elsewhere)
}
