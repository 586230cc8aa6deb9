package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the module whose sources hold the fuzz targets.
const module = "allocfuzz"

// FindRoot returns the folder of this module's sources: dir, or the nearest folder
// above it, whose go.mod declares it.
func FindRoot(dir string) (string, error) {
	at, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && declares(string(text), module) {
			return at, nil
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return "", err
		}
		up := filepath.Dir(at)
		if up == at {
			return "", fmt.Errorf("no sources of %[1]s in %[2]s or above: expected a go.mod with "+
				"\"module %[1]s\"; run this in a checkout (replay works anywhere)", module, dir)
		}
		at = up
	}
}

// declares tells whether the text of a go.mod declares a module.
func declares(text, name string) bool {
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) >= 2 && words[0] == "module" {
			return strings.Trim(words[1], `"`) == name
		}
	}
	return false
}

// findGo returns the go command.
func findGo() (string, error) {
	name, err := exec.LookPath("go")
	if err != nil {
		return "", errors.New("no go command in PATH: the fuzz binaries are built from the " +
			"sources; install Go (replay works without)")
	}
	return name, nil
}
