package subject_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example is the module that uses this package as anybody's would.
const example = "../example"

// outside is the module with subjects from modules that this one does not require.
const outside = "../outside"

// adapterLines is how long an adapter may be, with its fuzz test.
const adapterLines = 15

// TestExample builds, vets and tests the example module as its owner would.
func TestExample(t *testing.T) {
	needGo(t)
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-count=1", "./..."}} {
		if out, err := goIn(example, args...); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestOutside builds, vets and tests the module of subjects with many dependencies.
func TestOutside(t *testing.T) {
	needGo(t)
	if out, err := goIn(outside, "mod", "download"); err != nil {
		t.Skipf("its modules cannot be had here: %v: %s", err, firstLine(out))
	}
	for _, args := range [][]string{{"vet", "./..."}, {"test", "-count=1", "./..."}} {
		if out, err := goIn(outside, args...); err != nil {
			t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// TestExampleBroken puts one bug at a time into a copy of the example. A plain go test must find
// each from the fuzz test's seeds alone; the first must also be found by the fuzzing engine, which
// runs the seeds first, within a bounded number of executions.
func TestExampleBroken(t *testing.T) {
	needGo(t)
	bugs := []struct{ name, file, from, to, target string }{
		{"joined one unit too far", "arena.go", "size += a.size(next)\n",
			"size += a.size(next) + unit\n", "FuzzArena"},
		{"joined one unit too early", "arena.go", "at, size, prev = front, size+prev,",
			"at, size, prev = front, size+prev+unit,", "FuzzArena"},
		{"size behind a block not kept", "arena.go",
			"a.mem[next+4:], uint32(size))", "a.mem[next+4:], uint32(size-unit))", "FuzzArena"},
		{"resize copies too little", "arena.go", "a.mem[ref:int(ref)+a.Cap(ref)])",
			"a.mem[ref:int(ref)+a.Cap(ref)-unit])", "FuzzArena"},
		{"class rounded down", "pool.go", "p.free[k] = append(p.free[k], b)",
			"p.free[min(k+1, classes-1)] = append(p.free[min(k+1, classes-1)], b)", "FuzzPool"},
		{"kept in the pool", "pool.go", "p.free[k] = p.free[k][:last]\n", "", "FuzzPool"},
	}
	for i, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			dir := broken(t, bug.file, bug.from, bug.to)
			out, err := goIn(dir, "test", "-count=1", "-run=^"+bug.target+"$", ".")
			found(t, out, err, bug.target)
			if n := shortest(out); n < 1 || n > smallLines {
				t.Errorf("the smallest program has %d lines, want 1 to %d:\n%s", n, smallLines,
					out)
			}
			if i == 0 {
				out, err = goIn(dir, "test", "-run=^$", "-fuzz=^"+bug.target+"$",
					"-fuzztime=2000x", ".", "-args",
					"-test.fuzzcachedir="+t.TempDir()) // not the one of the example itself
				found(t, out, err, bug.target)
			}
		})
	}
}

// smallLines is how many operations it takes to show the bugs of TestExampleBroken, and some more.
const smallLines = 10

// shortest counts the lines of the shortest program in the reports of a test.
func shortest(out string) int {
	least := 1 << 30
	for _, after := range strings.Split(out, "PROGRAM\n")[1:] {
		text, _, _ := strings.Cut(after, "HISTORY")
		least = min(least, strings.Count(text, " cpu0 "))
	}
	return least
}

// found demands a failure with a report, and with the command that repeats it.
func found(t *testing.T, out string, err error, target string) {
	t.Helper()
	if err == nil {
		t.Fatalf("not found:\n%s", out)
	}
	for _, want := range []string{"TITLE: arena_test.", "PROGRAM", "HISTORY",
		"REPLAY: go test -run='^" + target + "$/^seed#"} {
		if !strings.Contains(out, want) {
			t.Fatalf("no %q in\n%s", want, out)
		}
	}
}

// TestAdapters counts the lines of the example's adapters: a type with its methods.
func TestAdapters(t *testing.T) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, filepath.Join(example, "fuzz_test.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]int{}
	for _, d := range file.Decls {
		n := fset.Position(d.End()).Line - fset.Position(d.Pos()).Line + 1
		switch d := d.(type) {
		case *ast.FuncDecl:
			if d.Recv == nil {
				continue
			}
			x := d.Recv.List[0].Type
			if star, ok := x.(*ast.StarExpr); ok {
				x = star.X
			}
			lines[x.(*ast.Ident).Name] += n
		case *ast.GenDecl:
			if s, ok := d.Specs[0].(*ast.TypeSpec); ok {
				lines[s.Name.Name] += n
			}
		}
	}
	if len(lines) != 2 {
		t.Errorf("%d adapters, want one of slices and one of offsets: %v", len(lines), lines)
	}
	for name, n := range lines {
		if n+1 > adapterLines {
			t.Errorf("adapter %s has %d lines with its fuzz test, want at most %d", name, n+1,
				adapterLines)
		}
	}
}

// broken copies the example with one text replaced.
func broken(t *testing.T, name, from, to string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	change(t, dir, "go.mod", "=> ../..", "=> "+root)
	change(t, dir, name, from, to)
	return dir
}

// change replaces a text that occurs once in a file.
func change(t *testing.T, dir, name, from, to string) {
	t.Helper()
	path := filepath.Join(dir, name)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if n := bytes.Count(data, []byte(from)); n != 1 {
		t.Fatalf("%s: %q occurs %d times, want once", name, from, n)
	}
	data = bytes.Replace(data, []byte(from), []byte(to), 1)
	if err := os.WriteFile(path, data, fs.FileMode(0o666)); err != nil {
		t.Fatal(err)
	}
}

// goIn runs the go command in a folder.
func goIn(dir string, args ...string) (string, error) {
	cmd := exec.Command("go", args...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=-mod=readonly")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// needGo skips where there is no toolchain, and in short runs: each test builds a module.
func needGo(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("builds a module")
	}
	if _, err := exec.LookPath("go"); err != nil {
		t.Skip("no go command")
	}
}
