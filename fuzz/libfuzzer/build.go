package libfuzzer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// ErrNoClang says that there is no clang.
var ErrNoClang = errors.New("no clang on the PATH (Debian: apt-get install clang " +
	"libclang-rt-14-dev)")

// newest and oldest are the versions that clang's name may end with, as in Debian's packages.
const newest, oldest = 25, 11

// Clang finds clang: what $CLANG names, else the first of clang, clang-25, clang-24 and so on.
func Clang() (string, error) {
	if name := os.Getenv("CLANG"); name != "" {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("$CLANG: %w", err)
		}
		return path, nil
	}
	if path, err := exec.LookPath("clang"); err == nil {
		return path, nil
	}
	for v := newest; v >= oldest; v-- {
		if path, err := exec.LookPath(fmt.Sprintf("clang-%d", v)); err == nil {
			return path, nil
		}
	}
	return "", ErrNoClang
}

// Links says whether a clang has libFuzzer and what that needs: nil, or the error. It works in the
// folder dir.
func Links(ctx context.Context, clang, dir string) error {
	source, bin := filepath.Join(dir, "links.c"), filepath.Join(dir, "links")
	const text = `#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t n)
{
	return data == NULL && n != 0;
}
`
	if err := os.WriteFile(source, []byte(text), 0o666); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, clang, "-fsanitize=fuzzer", source, "-o", bin)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("no libFuzzer in %s: %w\n%s", clang, err, out)
	}
	return nil
}

// A Build says what to build.
type Build struct {
	Root  string // of the sources
	Dir   string // folder for binaries, which must exist
	Clang string // see Clang
	// Engine is what is linked instead of libFuzzer, as $LIB_FUZZING_ENGINE of OSS-Fuzz says;
	// "" for libFuzzer. Linker links it, "" for Clang, with Flags.
	Engine string
	Linker string
	Flags  []string
}

// Target builds the binary of a target and returns its name. It loads no libraries: a child that
// serves one is the same program started again, and the main function of this is the engine's.
func (b *Build) Target(ctx context.Context, target string) (string, error) {
	bin := filepath.Join(b.Dir, target)
	args := []string{"build", "-tags=libfuzzer_entry,nolibs", "-buildmode=c-archive", "-trimpath",
		"-ldflags=-X main.target=" + target}
	for _, p := range packages(target) {
		args = append(args, "-gcflags="+p+"=-d=libfuzzer")
	}
	cmd := exec.CommandContext(ctx, "go", append(args, "-o", bin+".a", "./cmd/libfuzzer")...)
	cmd.Dir, cmd.Env = b.Root, append(os.Environ(), "CGO_ENABLED=1", "CC="+b.Clang)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s for libFuzzer: %w\n%s", target, err, out)
	}
	engine := b.Engine
	if engine == "" {
		engine = "-fsanitize=fuzzer"
	}
	linker := b.Linker
	if linker == "" {
		linker = b.Clang
	}
	cmd = exec.CommandContext(ctx, linker, slices.Concat(b.Flags, strings.Fields(engine),
		[]string{bin + ".a", "-o", bin})...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: link %s with %s: %w\n%s", linker, target, engine, err, out)
	}
	return bin, nil
}
