// Covwrap limits the coverage instrumentation of a native Go fuzz build to the
// packages named in $FUZZCOV, a comma-separated list of import path prefixes:
//
//	go build -o covwrap ./cmd/covwrap
//	FUZZCOV=allocfuzz/impls go test -c -fuzz=. -toolexec="$PWD/covwrap" ./fuzz
//
// The fuzz engine scans every counter of the binary on every execution, so a
// binary that counts only the code under test runs cheap targets several times
// as often, and its corpus follows the allocators instead of the library.
//
// The go command runs every tool through the wrapper. For the compiler, and for
// packages outside the prefixes, the wrapper drops the libfuzzer debug option.
// It also adds a digest of $FUZZCOV to the compiler's version, so that the
// build cache keeps the outputs of different prefixes apart. Everything else
// passes through unchanged: arguments, standard streams and exit status. With
// $FUZZCOV empty the build is the plain one.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 2 {
		fmt.Fprintln(os.Stderr, "covwrap: no tool given: "+
			"it is run by the go command, as -toolexec=covwrap")
		os.Exit(2)
	}
	prefixes := splitPrefixes(os.Getenv("FUZZCOV"))
	status, err := run(os.Args[1], os.Args[2:], prefixes)
	if err != nil {
		fmt.Fprintln(os.Stderr, "covwrap:", err)
	}
	os.Exit(status)
}

// run runs one tool and gives its exit status. Standard input, output and error
// are the wrapper's own; only the compiler's version line is rewritten.
func run(tool string, args, prefixes []string) (status int, err error) {
	var version bytes.Buffer
	var stdout io.Writer = os.Stdout
	asked := wantsVersion(tool, args) && len(prefixes) > 0
	if asked {
		stdout = &version
	} else {
		args = filter(tool, os.Getenv("TOOLEXEC_IMPORTPATH"), args, prefixes)
	}
	cmd := exec.Command(tool, args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, stdout, os.Stderr
	err = cmd.Run()
	if asked && err == nil {
		fmt.Println(stamp(version.String(), prefixes))
	}
	var exit *exec.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), nil
	}
	return 2, fmt.Errorf("run %s: %w", tool, err)
}
