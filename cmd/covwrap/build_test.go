package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// The module that is built through the wrapper: one package to be counted, one
// not, and a fuzz target over both.
var module = map[string]string{
	"go.mod": "module tiny\n\ngo 1.26\n",
	"in/in.go": `package in

//go:noinline
func Sign(n int) int {
	if n < 0 {
		return -1
	}
	return 1
}
`,
	"out/out.go": `package out

//go:noinline
func Even(n int) bool {
	if n%2 == 0 {
		return true
	}
	return false
}
`,
	"fuzz_test.go": `package tiny

import (
	"testing"
	"tiny/in"
	"tiny/out"
)

func FuzzBoth(f *testing.F) {
	f.Fuzz(func(t *testing.T, n int) { in.Sign(n); out.Even(n) })
}
`,
}

// TestLibraryBuild builds two packages through the real go command and looks
// for counters in their object files. It covers the whole path but the link, and
// needs no standard library.
func TestLibraryBuild(t *testing.T) {
	wrapper, dir := buildWrapper(t), writeModule(t)
	for _, pkg := range []string{"in", "out"} {
		object := filepath.Join(t.TempDir(), pkg+".a")
		goTool(t, dir, "FUZZCOV=tiny/in", "build", "-toolexec="+wrapper,
			"-gcflags=all=-d=libfuzzer", "-o", object, "./"+pkg)
		symbols := goTool(t, dir, "", "tool", "nm", object)
		counted := strings.Contains(symbols, "..stmp_") // the compiler's name for a counter
		if want := pkg == "in"; counted != want {
			t.Errorf("package %s: counted %v, want %v; symbols:\n%s", pkg, counted, want, symbols)
		}
	}
}

// TestFuzzBinary builds a whole fuzz binary and weighs its counters. Without
// the wrapper there are thousands, one byte each: those of every package that
// the testing package brings along.
func TestFuzzBinary(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the standard library anew on its first run")
	}
	if runtime.GOOS != "linux" {
		t.Skip("reads the sections of an ELF file")
	}
	wrapper, dir := buildWrapper(t), writeModule(t)
	binary := filepath.Join(t.TempDir(), "tiny.test")
	goTool(t, dir, "FUZZCOV=tiny/in", "test", "-c", "-fuzz=.", "-toolexec="+wrapper,
		"-o", binary, ".")
	if n := counters(t, binary); n == 0 || n > 200 {
		t.Errorf("got %d bytes of counters, want those of one small package: 1 to 200", n)
	}
}

// TestExitStatus demands that a failing tool's status and complaint arrive.
func TestExitStatus(t *testing.T) {
	wrapper, dir := buildWrapper(t), writeModule(t)
	bad := filepath.Join(dir, "in", "in.go")
	if err := os.WriteFile(bad, []byte("package in\n\nvar X int = \"\"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("go", "build", "-toolexec="+wrapper, "./in")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "FUZZCOV=tiny/in", "GOFLAGS=", "GOWORK=off")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "in.go:3:13") {
		t.Errorf("got error %v and output\n%s\nwant a failure at in.go:3:13", err, out)
	}
	err = exec.Command(wrapper, filepath.Join(dir, "no-such-tool")).Run()
	exit, ok := err.(*exec.ExitError)
	if !ok || exit.ExitCode() != 2 {
		t.Errorf("a missing tool: got %v, want exit status 2", err)
	}
}

// counters gives the size of the coverage counters of an ELF binary in bytes.
func counters(t *testing.T, binary string) uint64 {
	t.Helper()
	f, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, name := range []string{".go.fuzzcntrs", "__libfuzzer_extra_counters"} {
		if s := f.Section(name); s != nil {
			return s.Size
		}
	}
	t.Fatal("the binary has no section of coverage counters")
	return 0
}

func buildWrapper(t *testing.T) string {
	t.Helper()
	wrapper := filepath.Join(t.TempDir(), "covwrap")
	if runtime.GOOS == "windows" {
		wrapper += ".exe"
	}
	goTool(t, ".", "", "build", "-o", wrapper, ".")
	return wrapper
}

func writeModule(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range module {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// goTool runs the go command in dir with one more variable and gives its output.
func goTool(t *testing.T, dir, env string, args ...string) string {
	t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	if env != "" {
		cmd.Env = append(cmd.Env, env)
	}
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}
