package record

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

//go:embed c/shim.c
var shimSource string

// flags are for any compiler that takes those of gcc. Without builtins of malloc it cannot take
// the functions that are defined for the ones it knows.
var flags = []string{"-std=c11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
	"-fno-builtin-malloc"}

// Compiler is the C compiler to use, as a command and its first arguments: what $CC says, else cc.
// The error says what to do without one.
func Compiler() ([]string, error) {
	words := strings.Fields(cmp.Or(os.Getenv("CC"), "cc"))
	if len(words) == 0 {
		words = []string{"cc"}
	}
	path, err := exec.LookPath(words[0])
	if err != nil {
		return nil, fmt.Errorf("no C compiler: %s is not found; recording compiles a small C "+
			"program once: install one (gcc, clang or tcc), or name it in $CC; for other ways to "+
			"record see docs/recording.md", words[0])
	}
	words[0] = path
	return words, nil
}

// hash is a short name for texts.
func hash(texts ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(texts, "\x00")))
	return fmt.Sprintf("%x", sum[:8])
}

// Shim is the library that records, in folder; it is compiled unless it is there already. Where
// there is no compiler, one that another compiled of the same text will do: the folder may come
// from another machine.
func Shim(ctx context.Context, folder string) (string, error) {
	source := "record-" + hash(runtime.GOARCH, shimSource) + "-"
	compiler, err := Compiler()
	if err != nil {
		there, _ := filepath.Glob(filepath.Join(folder, source+"*.so"))
		if len(there) > 0 {
			return there[0], nil
		}
		return "", err
	}
	name := filepath.Join(folder, source+hash(append(compiler, flags...)...)+".so")
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return "", fmt.Errorf("folder for the recorder: %w", err)
	}
	return name, compile(ctx, compiler, folder, name)
}

// compile makes the library called name, whole or not at all.
func compile(ctx context.Context, compiler []string, folder, name string) error {
	dir, err := os.MkdirTemp(folder, "compile-")
	if err != nil {
		return fmt.Errorf("folder for the recorder: %w", err)
	}
	defer os.RemoveAll(dir)
	source, out := filepath.Join(dir, "shim.c"), filepath.Join(dir, "shim.so")
	if err := os.WriteFile(source, []byte(shimSource), 0o666); err != nil {
		return err
	}
	args := append(compiler[1:len(compiler):len(compiler)], flags...)
	args = append(args, "-o", out, source, "-ldl")
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, compiler[0], args...)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s cannot compile the recorder: %w; name another compiler in $CC: "+
			"%s", compiler[0], err, strings.TrimSpace(said.String()))
	}
	return os.Rename(out, name)
}
